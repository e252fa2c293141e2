"""Values that may be the numbers of classes: what a method out of sight gives, or gives beside an
output, and a loss out of sight is given as its target, or a model is asked for. A cast would make
fractions of them, which such a loss and an embedding do not take.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import viewed
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.model.values.kinds import criterion_name
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.torch_facts.methods import VIEWS

_DEEP = 4
_TARGETS = ("target", "targets", "label", "labels")


def may_be_classes(program: Program, cast: ast.Call, scope: Scope) -> bool:
    """Whether nothing tells that an added cast is of outputs, and not of numbers of classes."""
    assert isinstance(cast.func, ast.Attribute)
    if not _is_asked_for(program, cast, scope, _DEEP):
        return False
    return _is_found(program, cast.func.value, scope, _DEEP)


def _is_asked_for(
    program: Program, expr: ast.expr, scope: Scope, deep: int
) -> bool:
    """Whether code out of sight gets a value where it may want the numbers of classes."""
    last = viewed(program.module, expr, VIEWS)
    parent = program.module.parents[last]
    name = None
    if isinstance(parent, ast.keyword):
        name = parent.arg
        parent = program.module.parents[parent]
    if isinstance(parent, ast.Assign):
        for read in _reads(program, parent, scope):
            if deep and _is_asked_for(program, read, scope, deep - 1):
                return True
    if not isinstance(parent, ast.Call) or parent.func is last:
        return False
    if program.values.callees(parent, scope):
        for read, where in _reads_inside(program, parent, last, scope):
            if deep and _is_asked_for(program, read, where, deep - 1):
                return True
        return False
    if not _is_out_of_sight(program, parent, scope):
        return False
    if name is not None:
        return name in _TARGETS
    return _is_place(program, parent, last, scope)


def _is_place(
    program: Program, call: ast.Call, given: ast.expr, scope: Scope
) -> bool:
    """The second argument of a loss, and the only one of a model."""
    name = dotted_name(call.func) or ""
    if criterion_name(name.rpartition(".")[2]):
        return given in call.args[1:2]
    if call.keywords or call.args != [given]:
        return False
    return program.effects.is_forward(call, scope)


def _reads(
    program: Program, statement: ast.Assign, scope: Scope
) -> Iterator[ast.expr]:
    """Where the names are read that a statement sets."""
    reads = demands_of(program).reads(scope)
    for target in statement.targets:
        name = dotted_name(target) or ""
        for one in reads.get(name, ()):
            reached = program.reaching.at(one, name)
            setters = {b.statement for b in reached.bindings}
            if statement in setters:
                yield one


def _reads_inside(
    program: Program, call: ast.Call, given: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """Where functions in sight read what a call gives them."""
    for function in program.values.callees(call, scope):
        inner = program.scope(function)
        bound = inner.takes_receiver
        reads = demands_of(program).reads(inner)
        for one in inner.parameters():
            if argument(call, inner, one.arg, bound) is given:
                for read in reads.get(one.arg, ()):
                    yield read, inner


def _is_found(
    program: Program, expr: ast.expr, scope: Scope, deep: int
) -> bool:
    """Whether code out of sight gives a value, as no model gives its first output."""
    expr = _viewed_of(expr)
    if isinstance(expr, ast.Call):
        return _gives(program, expr, None, scope)
    name = dotted_name(expr)
    if name is None or not deep:
        return False
    for binding in program.reaching.at(expr, name).bindings:
        if _is_bound(program, binding, deep - 1):
            return True
    return False


def _viewed_of(expr: ast.expr) -> ast.expr:
    """`y` of `y.view(-1)[0]`."""
    while True:
        inner = expr.func if isinstance(expr, ast.Call) else expr
        if not isinstance(inner, (ast.Attribute, ast.Subscript)):
            return expr
        if isinstance(inner, ast.Attribute) and inner.attr not in VIEWS:
            return expr
        expr = inner.value


def _is_bound(program: Program, binding: Binding, deep: int) -> bool:
    if binding.how == "parameter":
        for one, where in arguments(program, binding):
            if _is_found(program, one, where, deep):
                return True
        return False
    value, place = binding.value, binding.index
    if value is None or value not in program.module.parents:
        return False
    scope = program.module.scope_of(value)
    if place is None:
        return _is_found(program, value, scope, deep)
    if not isinstance(value, ast.Call):
        return False
    return _gives(program, value, place, scope)


def _gives(
    program: Program, call: ast.Call, place: int | None, scope: Scope
) -> bool:
    """Whether a call out of sight may give numbers of classes in a place of what it gives."""
    if program.values.callees(call, scope):
        return False
    if not _is_out_of_sight(program, call, scope):
        return False
    if not program.effects.is_forward(call, scope):
        return True
    return place not in (None, 0)


def _is_out_of_sight(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether nothing in sight, and no library, tells what a call runs."""
    func = call.func
    if isinstance(func, ast.Name) and scope.lookup(func.id) is None:
        return False  # one of Python's own
    value = program.values.of(func, scope)
    if value.cls or value.foreign or value.name:
        return False
    if program.canonical(func) is not None:
        return False
    if program.graph.class_named(func, scope) is not None:
        return False
    return program.values.abroad(func, scope) is None
