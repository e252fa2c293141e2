"""Which values are tensors without dimensions: losses that are reduced to one number."""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.conditions.truth_values import keyword_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.module import Binding, Function, Scope, returned
from amp_migrate.model.tensors.parameters import arguments, parameter_of
from amp_migrate.model.values.kinds import Kind
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.layers import LOSSES

_REDUCED = ("mean", "sum")
_NUMBERS = ("len", "int", "float")
_HOPS = 6


def is_scalar(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> bool:
    """Whether `expr` is a loss or a mean of all elements, by each definition that may reach it,
    and by all that a function in sight returns.
    """
    name = dotted_name(expr)
    if name is None:
        return _is_reduced(program, expr, scope, hops)
    bindings = program.reaching.at(expr, name).bindings
    return bool(bindings) and all(
        _is_bound_to_scalar(program, one, name, scope, hops) for one in bindings
    )


def _is_bound_to_scalar(
    program: Program, binding: Binding, name: str, scope: Scope, hops: int
) -> bool:
    """The same of a name; `loss /= n` leaves it one."""
    value, statement = binding.value, binding.statement
    if value is None or not hops:
        return False
    if binding.index is not None:
        return isinstance(value, ast.Call) and _returns_scalar(
            program, value, scope, hops, binding.index
        )
    if isinstance(statement, ast.AugAssign):
        before = program.reaching.at(statement, name).bindings
        return (
            bool(before)
            and all(
                _is_bound_to_scalar(program, one, name, scope, hops - 1)
                for one in before
                if one is not binding
            )
            and (
                is_number(program, value, scope, hops - 1)
                or is_scalar(program, value, scope, hops - 1)
            )
        )
    return binding.how == "assign" and (
        _is_reduced(program, value, scope, hops)
    )


def _is_reduced(
    program: Program, expr: ast.expr, scope: Scope, hops: int
) -> bool:
    """The same of an expression."""
    if isinstance(expr, ast.UnaryOp):
        return _is_reduced(program, expr.operand, scope, hops)
    if isinstance(expr, ast.BinOp):
        sides = [
            one
            for one in (expr.left, expr.right)
            if not is_number(program, one, scope, hops)
        ]
        return (
            bool(sides)
            and bool(hops)
            and all(is_scalar(program, one, scope, hops - 1) for one in sides)
        )
    if isinstance(expr, ast.IfExp):  # `.data` of a tuple raises as well
        arms = [
            one
            for one in (expr.body, expr.orelse)
            if not isinstance(one, (ast.Tuple, ast.List))
        ]
        return bool(arms and hops) and all(
            is_scalar(program, one, scope, hops - 1) for one in arms
        )
    if not isinstance(expr, ast.Call):
        return False
    return _gives_scalar(program, expr, scope) or _returns_scalar(
        program, expr, scope, hops
    )


def _returns_scalar(
    program: Program,
    call: ast.Call,
    scope: Scope,
    hops: int,
    index: int | None = None,
) -> bool:
    """`loss_function(output, target)`, `criterion(output, target)` of a class in sight, all of
    whose results are; with `index`, what stands there in all of them.
    """
    results = [
        (home, _part(value, index), home.scope(one))
        for home, one in (_run(program, call, scope) if hops else ())
        for value in returned(one)
    ]
    return bool(results) and all(
        value is not None and is_scalar(home, value, inner, hops - 1)
        for home, value, inner in results
    )


def _part(value: ast.expr, index: int | None) -> ast.expr | None:
    if index is None:
        return value
    parts = value.elts if isinstance(value, ast.Tuple) else []
    whole = not any(isinstance(one, ast.Starred) for one in parts)
    return parts[index] if whole and index < len(parts) else None


def _run(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Function]]:
    own = program.values.callees(call, scope)
    value = program.values.of(call.func, scope)
    modules = (Kind.MODEL, Kind.CRITERION)
    if own or value.kind not in modules or value.mixed:
        return [(program, one) for one in own]
    home, cls = value.foreign or (program, value.cls)
    forward = home.graph.method(cls, "forward") if cls is not None else None
    return [(home, forward)] if forward is not None else []


def is_number(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> bool:
    """A literal, a name or an option for one, `len(...)`, `float(...)`, one of a tensor's
    sizes.
    """
    if number(expr, scope) is not None:
        return True
    if isinstance(expr, ast.Call):
        called = dotted_name(expr.func) or ""
        sized = bool(expr.args) and called.endswith(".size")
        return called in _NUMBERS or sized
    if isinstance(expr, ast.Subscript):  # `x.shape[0]`
        is_shape = getattr(expr.value, "attr", "") == "shape"
        return is_shape and isinstance(expr.slice, ast.Constant)
    if isinstance(expr, ast.BinOp):
        sides = (expr.left, expr.right)
        return all(is_number(program, one, scope, hops) for one in sides)
    name = dotted_name(expr)
    if name is None or not hops:
        return False
    option = option_of(program, expr, name)
    if option is not None:
        kind = keyword_of(option, "type")
        return kind is not None and dotted_name(kind) in _NUMBERS
    bindings = program.reaching.at(expr, name).bindings
    return bool(bindings) and all(
        _is_bound_to_number(program, one, scope, hops - 1) for one in bindings
    )


def _is_bound_to_number(
    program: Program, binding: Binding, scope: Scope, hops: int
) -> bool:
    """By what is assigned; of a parameter, by its default and what the callers in sight pass."""
    value = binding.value
    if binding.how != "parameter":
        is_whole = binding.how == "assign" and binding.index is None
        return (
            is_whole
            and value is not None
            and is_number(program, value, scope, hops)
        )
    found = parameter_of(program, binding)
    given = arguments(program, binding)
    default = default_of(found[0], found[2]) if found is not None else None
    if default is not None:
        given = [*given, (default, scope)]
    return bool(given) and all(
        is_number(program, one, where, hops) for one, where in given
    )


def _gives_scalar(program: Program, call: ast.Call, scope: Scope) -> bool:
    spelling = ops.function(program.canonical(call.func))
    if spelling is not None:
        if spelling.op.name in _REDUCED:
            return len(call.args) == 1 and not call.keywords
        return spelling.op.name in LOSSES and _reduces(call)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _REDUCED:
        return not call.args and not call.keywords
    criterion = program.values.of(call.func, scope)
    return (
        criterion.kind is Kind.CRITERION
        and criterion.cls is None
        and not criterion.mixed
        and isinstance(criterion.origin, ast.Call)
        and _reduces(criterion.origin)
    )


def _reduces(call: ast.Call) -> bool:
    """Whether nothing that is given switches the mean off: `reduction` and `reduce` have names
    wherever they are used.
    """
    return not any(
        keyword.arg in ("reduction", "reduce", None)
        for keyword in call.keywords
    )
