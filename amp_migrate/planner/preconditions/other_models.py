"""Models that a program makes beside the one that it trains: copies that are averaged, counted or
saved may be of another dtype.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned

_TRAINS = EventKind.BACKWARD | EventKind.STEP
_RUNS = _TRAINS | EventKind.FORWARD


def is_another(
    program: Program, call: ast.Call, made: ast.expr, scope: Scope
) -> bool:
    """Whether the model is made in the same expression and given away: `validate(load(f).half())`,
    `save({"model": deepcopy(model).half()})`; or counted.
    """
    if not isinstance(made, ast.Call) or not _is_new(program, made, scope):
        return False
    above = program.module.parents[call]
    if isinstance(above, ast.Assign):
        return _is_kept_aside(program, above, scope)
    return (
        isinstance(above, (ast.Call, ast.keyword, ast.Dict))
        and above is not made
    )


def _is_kept_aside(program: Program, made: ast.Assign, scope: Scope) -> bool:
    """Whether a statement names a model that is only counted, written or averaged."""
    target = made.targets[0]
    if not isinstance(target, ast.Name) or len(made.targets) > 1:
        return False
    return _is_looked_at(program, target.id, scope, {made})


def _is_looked_at(
    program: Program, name: str, scope: Scope, seen: set[ast.AST]
) -> bool:
    """Whether no statement that reads a name runs the model or trains it, hands it back, or gives
    it another name; nor what functions do with a parameter that gets it.
    """
    module = program.module
    reads = [
        node
        for node in module.parents
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and module.file_of(node) is scope.module
    ]
    own = [one for one in reads if scope in _around(module.scope_of(one))]
    if any(module.scope_of(one) is not scope for one in own):
        return False
    return all(_only_looks(program, one, scope, seen) for one in own)


def _around(scope: Scope) -> Iterator[Scope]:
    """A scope and those around it."""
    around: Scope | None = scope
    while around is not None:
        yield around
        around = around.parent


def _only_looks(
    program: Program, read: ast.Name, scope: Scope, seen: set[ast.AST]
) -> bool:
    """Whether one place that reads a model does no more than look at it."""
    at = program.module.statement_of(read)
    if isinstance(at, ast.Return) or getattr(at, "value", None) is read:
        return False
    above: ast.AST = program.module.parents[read]
    if isinstance(above, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return True
    call = above
    if isinstance(above, ast.keyword):
        call = program.module.parents[above]
    if isinstance(call, ast.Call) and call.func is not read:
        function = program.values.callee(call, scope)
        if function is not None:
            return _function_looks(program, call, read, function, seen)
        if program.values.is_model(call.func, scope):
            return False
        # A function out of sight that restores, averages or saves it.
        return not program.effects.of_statement(at, scope) & _TRAINS
    return not program.effects.of_statement(at, scope) & _RUNS


def _function_looks(
    program: Program,
    call: ast.Call,
    read: ast.Name,
    function: Function,
    seen: set[ast.AST],
) -> bool:
    """The same of the parameter of a function that gets the model."""
    inner, bound = (
        program.scope(function),
        program.scope(function).takes_receiver,
    )
    names = [
        one.arg
        for one in inner.parameters()
        if argument(call, inner, one.arg, bound) is read
    ]
    if not names:
        return False
    if function in seen:
        return True
    return _is_looked_at(program, names[0], inner, seen | {function})


def _is_new(program: Program, made: ast.Call, scope: Scope) -> bool:
    """Whether a call gives a model that nothing else holds."""
    if program.canonical(made.func) == "copy.deepcopy":
        return True
    if program.graph.class_named(made.func, scope) is not None:
        return True
    own = program.graph.function_at(made.func, scope)
    found = (
        (program, own)
        if own is not None
        else program.values.abroad(made.func, scope)
    )
    if found is None or not isinstance(found[1], FUNCTIONS):
        return found is not None and isinstance(found[1], ast.ClassDef)
    inner = found[0].scope(found[1])
    values = returned(found[1])
    return bool(values) and all(
        _is_made_here(found[0], value, inner) for value in values
    )


def _is_made_here(program: Program, value: ast.expr, scope: Scope) -> bool:
    """`model` or `models[-1]` of a function that made it by a call of a class."""
    while isinstance(value, (ast.Subscript, ast.Attribute)):
        value = value.value
    if isinstance(value, ast.Call):
        return program.graph.class_named(value.func, scope) is not None
    bindings = (
        scope.bindings.get(value.id, ()) if isinstance(value, ast.Name) else ()
    )
    return bool(bindings) and all(
        b.how == "assign"
        and isinstance(b.value, ast.Call)
        and _is_made_here(program, b.value, scope)
        for b in bindings
    )
