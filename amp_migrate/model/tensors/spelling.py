"""Which operator of torch a call spells, and the tensors that it works on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.kinds import Kind
from amp_migrate.model.looked_up import module_searched, name_searched
from amp_migrate.model.syntax import Scope
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import EVERY, Spelling

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def spelled(
    inference: Inference, call: ast.Call, scope: Scope
) -> Spelling | None:
    """The operator of torch that a call spells."""
    program = inference.program
    canonical = program.canonical(call.func)
    if canonical is not None:
        return ops.function(canonical)
    func = call.func
    if not isinstance(func, ast.Attribute):
        return kept_operator(program, func)
    found = ops.method(func.attr)
    if found is None or program.values.callee(call, scope) is not None:
        return None
    held = inference.of(func.value, scope)
    value = program.values.of(func.value, scope)
    objects = (
        Kind.MODEL,
        Kind.OBJECT,
        Kind.CRITERION,
        Kind.OPTIMIZER,
        Kind.SCALER,
    )
    is_object = value.kind in objects or held.is_no_tensor
    return None if is_object or held.container else found


def kept_operator(program: Program, func: ast.expr) -> Spelling | None:
    """The operator that `convolve = F.conv2d`, or `getattr(F, f"conv{n}d")`, stands for; of
    several one, where autocast treats them alike.
    """
    values: list[ast.expr | None] = [func]
    if isinstance(func, ast.Name):
        bindings = program.reaching.at(func, func.id).bindings
        values = [one.value for one in bindings if one.how == "assign"]
        if len(values) != len(bindings):
            return None
    found = [one for value in values for one in _named(program, value)]
    alike = len({one.policy for one in found}) == 1
    return found[0] if alike and len(found) >= len(values) else None


def _named(program: Program, value: ast.expr | None) -> Iterator[Spelling]:
    if isinstance(value, ast.Call):
        pattern, module = name_searched(value), module_searched(value)
        if pattern is not None and module is not None:
            home = program.canonical(module) or ""
            yield from ops.functions_matching(home, pattern)
    elif isinstance(value, (ast.Name, ast.Attribute)):
        found = ops.function(program.canonical(value))
        if found is not None:
            yield found


def operands(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """The tensors that a call of an operator works on, the method's own first."""
    op = found.op
    given = given_to(found, call)
    if op.sequence:
        first = given[0] if given else None
        return (
            list(first.elts)
            if isinstance(first, (ast.List, ast.Tuple))
            else given[:1]
        )
    if op.tensors == EVERY:
        return [one for one in given if not isinstance(one, ast.Constant)]
    places = (0,) if op.result == "like" else op.tensors
    return [
        given[place]
        for place in places
        if isinstance(place, int) and place < len(given)
    ]


def given_to(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """What a call is given by position, the method's own object first."""
    if not is_method(found, call):
        return list(call.args)
    assert isinstance(call.func, ast.Attribute)
    return [call.func.value, *call.args]


def is_method(found: Spelling, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    root = call.func.value
    return found.form != "function" and not _is_module_path(root, call)


def _is_module_path(root: ast.expr, call: ast.Call) -> bool:
    """`torch.relu_(x)` is in place, and a function."""
    name = root.id if isinstance(root, ast.Name) else getattr(root, "attr", "")
    return bool(call.args) and name in ("torch", "functional", "F")


def operands_and_others(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """All arguments in the order of the function form."""
    if not is_method(found, call):
        return list(call.args)
    assert isinstance(call.func, ast.Attribute)
    return [call.func.value, *call.args]
