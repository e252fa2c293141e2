"""What calls give: operators of torch, layers, functions and models in sight, and the rest."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.methods_elsewhere import method_elsewhere
from amp_migrate.model.gradients.flow import functions_run
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.tensors.array_dtypes import of_array
from amp_migrate.model.tensors.bounds_of_calls import bounds_given
from amp_migrate.model.tensors.dimensions import drawn_from, settled
from amp_migrate.model.tensors.fact import (
    ANY_BUT_HALF,
    ARRAY,
    FLOAT,
    INTEGER,
    NOT_HALF,
    NUMBER,
    OTHER,
    UNKNOWN,
    DType,
    Fact,
    Origin,
    join,
    origin_of,
    promoted,
    widest,
)
from amp_migrate.model.tensors.held import gives_kept, held_half
from amp_migrate.model.tensors.lambdas import got_from
from amp_migrate.model.tensors.library_calls import of_library
from amp_migrate.model.tensors.modules import is_of_any_class, of_module
from amp_migrate.model.tensors.one_call import given_back
from amp_migrate.model.tensors.other_files import (
    run_elsewhere,
)
from amp_migrate.model.tensors.parameter_lists import of_parameters
from amp_migrate.model.tensors.results import in_region, named_dtype, result
from amp_migrate.model.tensors.sequences import (
    returns,
    unseen_layer,
)
from amp_migrate.model.tensors.sparse_results import with_sparse
from amp_migrate.model.tensors.spelling import (
    names_its_type,
    operands,
    spelled,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.ops import Op, Policy, Spelling, Trait

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference

_NUMBERS = frozenset(
    {
        "len",
        "int",
        "float",
        "bool",
        "round",
        "isinstance",
        "hasattr",
        "id",
        "ord",
    }
)
_SEQUENCES = frozenset({"list", "tuple", "reversed", "sorted", "iter", "set"})


def called(inference: Inference, call: ast.Call, scope: Scope) -> Fact:
    """The fact of a call."""
    found = spelled(inference, call, scope)
    if found is not None:
        return operator(inference, found, call, scope)
    if isinstance(call.func, ast.Name) and scope.lookup(call.func.id) is None:
        builtin = _builtin(inference, call.func.id, call, scope)
        if builtin is not None:
            return builtin
    given = drawn_from(inference.program, call, ("rsample",))
    if given:
        drawn = widest([inference.of(one, home) for one, home in given])
        return FLOAT if drawn.is_no_tensor else drawn
    canonical = inference.program.canonical(call.func)
    if canonical == "collections.deque":
        return _listed(inference, call, scope)
    known = of_library(inference, call, scope, canonical or "")
    if known is not None:
        return known
    if canonical in layers.PARAMETERS:
        made = inference.of(call.args[0], scope) if call.args else FLOAT
        if made.dtypes == DType.COMPLEX:
            return made
        return FLOAT._replace(
            sparse=made.sparse, origin=_made_for(call, trained=True)
        )
    held = of_parameters(inference, call, scope)
    return _object(inference, call, scope) if held is None else held


def operator(
    inference: Inference, found: Spelling, call: ast.Call, scope: Scope
) -> Fact:
    """What an operator gives where it is called."""
    op = found.op
    asked = named_dtype(inference, call, scope, first=op.result == "cast")
    facts = [inference.of(one, scope) for one in operands(found, call)]
    if op.sequence:
        facts = [fact._replace(container=False, elements=()) for fact in facts]
    if op.result == "cast":
        if names_its_type(call):
            return OTHER
        made = join(facts if asked is None else [asked])
        return made._replace(origin=origin_of(facts[:1]))
    if asked is not None and (
        op.own_dtype or op.result in ("default", "data", "like")
    ):
        made = asked._replace(bounds=op.bounds, origin=origin_of(facts))
        is_new = op.result in ("default", "data")
        return (
            made._replace(origin=_made_for(call, trained=False))
            if is_new
            else made
        )
    if op.result in ("default", "data"):
        return _made(inference, found, call, scope)
    policy: Policy = "keeps" if _has_out(call) else found.policy
    if policy == "keeps" and _has_dtype_of_first(op, facts):
        facts = facts[:1]
    made = result(op, policy, facts, inference.where(call))
    if policy == "keeps" and not _keeps_dtype(found, call):
        made = settled(inference, op, made, operands(found, call), scope)
    return made._replace(
        sparse=op.sparse or _stays_sparse(op, facts),
        bounds=bounds_given(inference, found, call, scope) or made.bounds,
    )


def _made(
    inference: Inference, found: Spelling, call: ast.Call, scope: Scope
) -> Fact:
    """A new tensor, of numbers that it may be given."""
    op = found.op
    made = (
        FLOAT
        if op.result == "default"
        else _of_data(inference, op, call, scope)
    )
    return made._replace(
        sparse=op.sparse,
        origin=_made_for(call, trained=False),
        bounds=bounds_given(inference, found, call, scope) or made.bounds,
    )


def _made_for(call: ast.Call, *, trained: bool) -> Origin:
    """Whether a tensor that a call makes is one of the network's own. `trained`: it is where the
    call says nothing.
    """
    for one in call.keywords:
        if one.arg == "requires_grad" and isinstance(one.value, ast.Constant):
            trained = bool(one.value.value)
    return Origin.NETWORK if trained else Origin.GIVEN


def _stays_sparse(op: Op, facts: list[Fact]) -> bool:
    """A product of a sparse matrix is sparse where both are; what works element by element leaves
    it sparse.
    """
    asked = facts if op.always_breaks else facts[:1]
    return (
        op.policy in ("keeps", "fp32")
        and not op.dense
        and Trait.REDUCES not in op.traits
        and bool(asked)
        and all(fact.sparse for fact in asked)
    )


def _has_dtype_of_first(op: Op, facts: list[Fact]) -> bool:
    """Whether the first operand is float32, and the others must be, too: `mean.lerp(x, 0.1)`."""
    is_strict = isinstance(op.strict, int) and not op.sequence
    return is_strict and bool(facts) and DType.FLOAT in facts[0].dtypes


def _keeps_dtype(found: Spelling, call: ast.Call) -> bool:
    """Whether what is given is written into: `x.add_(y)`, `torch.add(x, y, out=z)`."""
    return found.form == "in-place" or _has_out(call)


def _has_out(call: ast.Call) -> bool:
    return any(one.arg == "out" for one in call.keywords)


def _of_data(
    inference: Inference, op: Op, call: ast.Call, scope: Scope
) -> Fact:
    """`torch.tensor(data)`, `torch.arange(n)`: integers or float32, or the tensor that is given."""
    if not call.args:
        return ANY_BUT_HALF
    if all(number(arg, scope) is not None for arg in call.args):
        return INTEGER if all(_is_whole(arg) for arg in call.args) else FLOAT
    given = inference.of(call.args[0], scope)
    if given.dtypes & DType.HALF:
        return given._replace(container=False, elements=())
    arrays = [inference.of(one, scope) for one in _made_arrays(call.args[0])]
    if half := join(arrays).dtypes & DType.HALF if arrays else DType.NONE:
        return ANY_BUT_HALF._replace(dtypes=ANY_BUT_HALF.dtypes | half)
    if given.dtypes & DType.ARRAY:
        found = of_array(inference, call.args[0], scope)
        return ANY_BUT_HALF._replace(dtypes=found)
    return INTEGER if op.name == "arange" else ANY_BUT_HALF


def _made_arrays(expr: ast.expr) -> list[ast.expr]:
    """The tensors that become NumPy arrays in an expression, which keep their dtype."""
    calls = [node for node in ast.walk(expr) if isinstance(node, ast.Call)]
    funcs = [
        call.func for call in calls if isinstance(call.func, ast.Attribute)
    ]
    return [func.value for func in funcs if func.attr == "numpy"]


def _is_whole(expr: ast.expr) -> bool:
    return not (
        isinstance(expr, ast.Constant) and isinstance(expr.value, float)
    )


def _listed(inference: Inference, call: ast.Call, scope: Scope) -> Fact:
    """`list(x)`, `deque(maxlen=3)`: an empty one is filled later."""
    if not call.args:
        return Fact(DType.UNKNOWN, container=True)
    held = inference.of(call.args[0], scope)
    return held._replace(elements=(), container=True)


def _builtin(
    inference: Inference, name: str, call: ast.Call, scope: Scope
) -> Fact | None:
    if name in _NUMBERS:
        return NUMBER
    is_turned = name == "zip" and _is_spread(call)
    if (name in _SEQUENCES or is_turned) and call.args:
        return _listed(inference, call, scope)
    if name in ("sum", "max", "min", "abs", "next", "pow", "divmod"):
        facts = [inference.of(arg, scope) for arg in call.args]
        found = promoted(
            fact._replace(container=False, elements=()) for fact in facts
        )
        return found._replace(origin=origin_of(facts))
    return (
        OTHER
        if name in ("print", "range", "str", "dict", "open", "type", "repr")
        else None
    )


def _is_spread(call: ast.Call) -> bool:
    """`zip(*pairs)`"""
    return len(call.args) == 1 and isinstance(call.args[0], ast.Starred)


# -- functions, layers and models


def _object(inference: Inference, call: ast.Call, scope: Scope) -> Fact:
    program = inference.program
    if program.graph.class_named(call.func, scope) is not None:
        return OTHER
    functions = program.values.callees(call, scope)
    if functions and functions[0].name != "__init__":
        called = inference.called_at(call)
        every = join(returns(called, one) for one in functions)
        return _of_this_call(inference, functions, call, scope, every)
    found = _imported(inference, call, scope)
    if found is None:
        found = got_from(inference, call, scope)
    if found is not None:
        return found
    value = program.values.of(call.func, scope)
    is_module = value.kind in (Kind.MODEL, Kind.CRITERION)
    if is_module and not is_of_any_class(value):
        return of_module(inference, value, call, scope)
    if program.effects.is_forward(call, scope):
        return _of_forward(inference, call, scope)
    if is_module:
        return unseen_layer(inference, call)
    if value.kind in (Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER):
        return OTHER
    is_method = program.canonical(call.func) is None
    if (
        isinstance(call.func, ast.Attribute)
        and is_method
        and inference.of(call.func.value, scope).is_array
    ):
        return ARRAY
    found = _handed(inference, call, scope)
    if inference.inside(call):
        return found
    return with_sparse(inference, call, scope, found)


def _of_forward(inference: Inference, call: ast.Call, scope: Scope) -> Fact:
    """What a model gives of which no class is known."""
    region = inference.where(call)
    if region is None:
        found = _handed(inference, call, scope)
        return found._replace(origin=Origin.NETWORK)
    home = method_elsewhere(inference.program, call, scope)
    if home is not None:
        return run_elsewhere(inference, *home, region)
    return Fact(in_region(region).dtypes | DType.UNKNOWN)


def _of_this_call(
    inference: Inference,
    functions: tuple[Function, ...],
    call: ast.Call,
    scope: Scope,
    every: Fact,
) -> Fact:
    """What a function gives here, where what other calls give it says nothing."""
    if every.dtypes != DType.UNKNOWN or len(functions) != 1:
        return every
    program = inference.program
    if program.scope(functions[0]).self_name is not None:
        return every
    home = (program, functions[0])
    return given_back(inference, home, call, scope) or every


def _imported(
    inference: Inference, call: ast.Call, scope: Scope
) -> Fact | None:
    """What a function of another file of the project gives."""
    found = inference.program.values.abroad(call.func, scope)
    if found is None or isinstance(found[1], ast.ClassDef):
        return None
    return given_back(inference, (found[0], found[1]), call, scope)


def _handed(inference: Inference, call: ast.Call, scope: Scope) -> Fact:
    """A call out of sight: half where it may be, outside of a region, only by what it is given."""
    if inference.inside(call):
        return UNKNOWN
    given = [*call.args, *(one.value for one in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    half = held_half(inference, call)
    run = functions_run(inference.program, call, scope)
    if half and any(gives_kept(one) for _, one in run):
        return Fact(half | DType.UNKNOWN)
    for one in given:
        half |= inference.of(one, scope).dtypes & DType.HALF
        half |= held_half(inference, one, whole=True)
    if not half:
        program = inference.program
        is_named = (
            program.canonical(call.func) is not None
            or program.values.abroad(call.func, scope) is not None
        )  # the latter by `from helpers import *`
        is_model = not is_named and any(
            inference.of(one, scope).may_be_tensor for one in call.args
        )
        return Fact(NOT_HALF) if is_model else ANY_BUT_HALF
    # A function in sight that could not be followed is no reason for a cast.
    return UNKNOWN if run else Fact(half | DType.UNKNOWN)
