"""Half tensors that are written with float32: `out = cosine * 1.0; out[rows, labels] = margin`.

A cast where the write stands would write to a copy; so the tensor is made float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.shared_dtypes import share_dtype
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import LOOPS, Binding, Module, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.tensors.spelling import given_to, spelled
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.ops import Spelling

_RULE = "dtype-strict-inplace"


def written_with_float(
    asked: Asked,
    node: ast.AST,
    buffer: ast.expr,
    value: ast.expr,
    scope: Scope,
    part: int | None = None,
) -> Iterator[Hazard]:
    """The write, where the tensor may be half and the value is float32 on a path in sight; `part`:
    where the value is one of those that a call gives together.
    """
    held, given = asked.fact(buffer, scope), asked.fact(value, scope)
    if part is not None:
        given = given.element(part)
    is_float = DType.FLOAT in given.dtypes and not given.dtypes & ~(
        DType.FLOAT | DType.HALF
    )
    if not (held.seen_half and is_float) or given.container:
        return
    if not share_dtype(asked, buffer, value):
        message = (
            f"`{ast.unparse(buffer)}` is half precision{_or_not(held)}, and a write by "
            "index converts nothing"
        )
        made = makers(asked, buffer)
        values = [value] * (part is None and given.seen_half)
        casts = [*made, *values] if made else []
        yield Hazard(_RULE, node, tuple(casts), message)


def _or_not(held: Fact) -> str:
    return " on some paths" if DType.FLOAT in held.dtypes else ""


def makers(asked: Asked, buffer: ast.expr) -> list[ast.expr]:
    """The expressions that make the tensor; none where it may be a view, or comes from afar: a cast
    of those would be another tensor.
    """
    dotted = dotted_name(buffer)
    program = asked.inference.program
    bindings = (
        program.reaching.at(buffer, dotted).bindings
        if dotted is not None
        else ()
    )
    return (
        [one.value for one in bindings if one.value is not None]
        if _fresh(asked, bindings, _VIEWS)
        else []
    )


def is_made_anew(asked: Asked, tensor: ast.expr) -> bool:
    """Whether an expression makes a tensor that nothing else holds."""
    return _is_fresh(asked, tensor, None, _VIEWS)


_OPERATORS = frozenset(
    f"__{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
)
"""Of Python, each of which gives a tensor of its own."""
_VIEWS = 4
"""How many views of views are followed."""


def _fresh(asked: Asked, bindings: tuple[Binding, ...], views: int) -> bool:
    """Whether each binding makes a tensor anew."""
    return bool(bindings) and all(
        one.how == "assign"
        and one.index is None
        and one.value is not None
        and _is_fresh(asked, one.value, one, views)
        for one in bindings
    )


def _is_fresh(
    asked: Asked, made: ast.expr, binding: Binding | None, views: int
) -> bool:
    """Whether nothing else holds the memory of what a binding, or an expression alone, gives."""
    if isinstance(made, ast.BinOp):
        return True
    if isinstance(made, ast.IfExp):
        arms = made.body, made.orelse
        return all(_is_fresh(asked, one, binding, views) for one in arms)
    if not isinstance(made, ast.Call):
        return False
    if isinstance(made.func, ast.Attribute) and made.func.attr == "clone":
        return True
    scope = asked.inference.program.module.scope_of(made)
    found = spelled(asked.inference, made, scope)
    if found is None:
        return _is_weighted(asked, made, scope)
    return (
        found.policy != "keeps"
        or _is_arithmetic(found, made)
        or found.op.result == "like"
        and found.form != "in-place"
        or _views_itself(asked, made, found, binding, views)
    )


def _is_arithmetic(found: Spelling, call: ast.Call) -> bool:
    """`x.mul(0.5)`, which is `x * 0.5`."""
    is_given = any(one.arg == "out" for one in call.keywords)
    anew = found.form != "in-place" and not is_given
    return anew and not _OPERATORS.isdisjoint(found.op.methods)


def _is_weighted(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    """`self.conv(x)`"""
    row = layers.layer(asked.inference.program.values.of(call.func, scope).name)
    op = row.op if row is not None else None
    return op is not None and op.policy == "lower"


def _views_itself(
    asked: Asked,
    call: ast.Call,
    found: Spelling,
    binding: Binding | None,
    views: int,
) -> bool:
    """`out = whole.view(-1, 4)`: nothing reads the tensor that is viewed from there on."""
    given = given_to(found, call)
    if found.form == "in-place" or not given or not views:
        return False
    viewed, statement = given[0], binding.statement if binding else None
    if isinstance(viewed, (ast.Call, ast.BinOp)):
        return _is_fresh(asked, viewed, binding, views - 1)
    if not isinstance(statement, ast.Assign) or not isinstance(
        viewed, ast.Name
    ):
        return False
    module = asked.inference.program.module
    names = [dotted_name(one) for one in statement.targets]
    if names != [viewed.id] and is_read_after(module, viewed, statement):
        return False
    reach = asked.inference.program.reaching.at(viewed, viewed.id)
    return _fresh(asked, reach.bindings, views - 1)


def is_read_after(module: Module, name: ast.Name, statement: ast.stmt) -> bool:
    """Whether the body goes on to read a name, or comes back in a loop."""
    scope = module.scope_of(statement)
    last = statement.end_lineno or 0
    reads = (
        isinstance(one, ast.Name) and one.id == name.id and one.lineno > last
        for one in nodes_in(scope.node)
    )
    return any(reads) or any(
        isinstance(one, LOOPS) and scope.node in module.ancestors(one)
        for one in module.ancestors(statement)
    )
