"""Layers that get half precision where autocast does not convert it: behind a region, the
parameters are float32.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.checks._region_values import is_half
from amp_migrate.checks._regions import region_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.values.kinds import Kind
from amp_migrate.patterns import pattern
from amp_migrate.torch_facts.layers import layer
from amp_migrate.torch_facts.methods import MOVES, TYPES, WIDENS

_WRAPPERS = {*MOVES, *WIDENS, "train", "requires_grad_"}
_OWN_WORDS = {*WIDENS, *TYPES, "autocast", "to", "half"}
"""What a model says that cares for the type of its input."""
_OF_MODELS = "parameters|train|eval|zero_grad|requires_grad_|load_state_dict"
_MOST = 4
"""How deep models of models are looked into."""
_HALF_MODEL = pattern(r"\.(half|bfloat16)\(\)|torch_dtype|\.to\([^)]*float16")


def gives_to_layer(
    program: Program, call: ast.Call, scope: Scope, names: set[str]
) -> bool:
    """Whether a call gives one of the half-precision `names` to a layer whose parameters are
    float32, for all that is in sight of the model.
    """
    given = [
        at
        for at, one in enumerate(call.args)
        if is_half(program, one, scope, names, may_start=False)
        and program.precision.inference.of(one, scope).dtypes != DType.FLOAT
    ]
    if not given or not program.effects.is_forward(call, scope):
        return False
    if _HALF_MODEL.search(program.module.text):
        return False
    return _runs_elsewhere(program, call, scope) or any(
        runs_strict_layer(program, call.func, scope, at) for at in given
    )


def runs_strict_layer(
    program: Program,
    model: ast.expr,
    scope: Scope,
    place: int,
    most: int = _MOST,
) -> bool:
    """Whether a model hands what it gets at a place to such a layer as it is."""
    value = program.values.of(model, scope)
    own = (program, value.cls) if value.cls is not None else None
    home, cls = value.foreign or own or (program, None)
    if cls is not None and most:
        forward = home.graph.method(cls, "forward")
        return forward is not None and _hands_on(home, forward, place, most)
    made = _made(value.origin)
    if made is None or not most or made not in program.module.parents:
        return False
    name = program.canonical(made.func) or ""
    if name == "torch.nn.Sequential" and made.args:
        where = program.module.scope_of(made)
        return runs_strict_layer(program, made.args[0], where, 0, most - 1)
    return _multiplies(name)


def _multiplies(name: str) -> bool:
    """A product of matrices wants its operands in one dtype, and gives half under autocast."""
    row = layer(name)
    return row is not None and row.op is not None and row.op.policy == "lower"


def gives_product(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    """Whether a call runs a layer, or a row of layers, that ends in such a product."""
    made = _made(program.values.of(call.func, scope).origin)
    for _ in range(_MOST):
        name = program.canonical(made.func) or "" if made is not None else ""
        if made is None or name != "torch.nn.Sequential" or not made.args:
            return _multiplies(name)
        last = made.args[-1]
        made = _made(last)
    return False


def _made(origin: ast.expr | None) -> ast.Call | None:
    """What makes a layer: `nn.Linear(8, 1)` of `nn.Linear(8, 1).to(device)`."""
    made = origin
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and isinstance(made.func.value, ast.Call)
        and made.func.attr in _WRAPPERS
    ):
        made = made.func.value
    return made if isinstance(made, ast.Call) else None


def _hands_on(
    program: Program, forward: Function, place: int, most: int
) -> bool:
    """Whether a forward gives its parameter to a layer, and speaks of no type itself."""
    scope = program.scope(forward)
    words = {n.attr for n in nodes_in(forward) if isinstance(n, ast.Attribute)}
    words |= {n.id for n in nodes_in(forward) if isinstance(n, ast.Name)}
    names = [one.arg for one in scope.parameters()][1:]
    if words & _OWN_WORDS or place >= len(names):
        return False
    if len(scope.bindings.get(names[place], ())) != 1:
        return False
    return any(
        isinstance(given, ast.Name)
        and given.id == names[place]
        and runs_strict_layer(program, inner.func, scope, at, most - 1)
        for inner in scope.calls
        for at, given in enumerate(inner.args)
    )


def _runs_elsewhere(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    """Whether a model out of sight is run in a region as well, so that it has none of its own."""
    value = program.values.of(call.func, scope)
    name = dotted_name(call.func)
    if value.cls is not None or _made(value.origin) is not None or not name:
        return False
    if value.kind is not Kind.MODEL and not re.search(
        rf"\b{re.escape(name)}\.({_OF_MODELS})\(", program.module.text
    ):
        return False
    for other in scope.calls:
        if other is call or dotted_name(other.func) != name:
            continue
        region = region_of(program, other)
        if region is not None and not region.off:
            return True
    return False


def calls_behind(statement: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement, of those in it as well, but for functions that it defines."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return
    for node in nodes_in(statement):
        if isinstance(node, ast.Call):
            yield node
