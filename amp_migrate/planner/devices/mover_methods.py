"""Functions that do nothing but move a model: whoever calls them decides."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts.methods import MOVES


def is_left_to_callers(program: Program, scope: Scope) -> bool:
    """Whether a body is a method like `def cuda(self): self.net.cuda()`, of which no call is in
    sight, or one under a condition; or a function that a model is handed to under one.
    """
    method = scope.node
    if not isinstance(method, FUNCTIONS) or not is_mover(scope):
        return False
    if scope.owner is None:
        calls = calls_of_mover(program, scope)
        return any(_is_conditional(program, one) for one in calls)
    sites = [one for one in program.graph.sites(method) if _is_own(one)]
    return not sites or any(
        _is_conditional(program, site.call) for site in sites
    )


def is_uncalled(program: Program, scope: Scope) -> bool:
    """Whether a body is a method that only moves, of a name that nothing in the project calls."""
    method, near = scope.node, scope.module.neighbours
    if scope.owner is None or not is_mover(scope):
        return False
    assert isinstance(method, FUNCTIONS)
    others = near.mentioning(method.name) if near is not None else ()
    return not any(_names(one, method.name) for one in (program, *others))


def _names(program: Program, name: str) -> bool:
    """Whether a program has an attribute of a name, or spells it."""
    return any(
        isinstance(one, ast.Attribute)
        and one.attr == name
        or isinstance(one, ast.Constant)
        and one.value == name
        for one in program.module.parents
    )


def _is_conditional(program: Program, call: ast.Call) -> bool:
    return any(
        isinstance(parent, (ast.If, ast.IfExp))
        for parent in program.module.ancestors(call)
    )


def is_mover(scope: Scope) -> bool:
    """Whether a body is that of a function that only moves."""
    method = scope.node
    if not isinstance(method, FUNCTIONS):
        return False
    moves = any(
        isinstance(n, ast.Call) and _is_move(n) for n in nodes_in(method)
    )
    return moves and method.name != "__init__" and _all_move(method.body)


def calls_of_mover(program: Program, scope: Scope) -> list[ast.Call]:
    """The calls of a function that only moves: those that hand it a model; of a method, those of
    its objects, where any is known to be one, else of what may be one. A tensor is not moved by a
    statement that drops what it gives.
    """
    method, owner = scope.node, program.graph.class_around(scope)
    if not isinstance(method, FUNCTIONS) or not is_mover(scope):
        return []
    if owner is None:
        sites = program.reaching.entry.sites(method)
        return [c for c, where, _ in sites if _gets_model(program, c, where)]
    family = {*program.graph.heirs(owner), owner}
    known: list[ast.Call] = []
    perhaps: list[ast.Call] = []
    for call, where in _named(program, method.name):
        assert isinstance(call.func, ast.Attribute)
        value = program.values.of(call.func.value, where)
        if value.cls in family:
            known.append(call)
        elif value.kind is Kind.UNKNOWN and value.cls is None:
            alone = isinstance(program.module.parents[call], ast.Expr)
            perhaps += [call] if alone else []
    return known or perhaps


def _gets_model(program: Program, call: ast.Call, scope: Scope) -> bool:
    given = (*call.args, *(one.value for one in call.keywords))
    return any(program.values.is_model(one, scope) for one in given)


def _named(program: Program, name: str) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls of methods of that name, without those by which one mover leads to the next."""
    for scope in program.module.scopes.values():
        if is_mover(scope):
            continue
        for call in scope.calls:
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr == name:
                yield call, scope


def _is_own(site: CallSite) -> bool:
    """A call on the same object, in another of its methods: `net.cuda()` moves a module."""
    func = site.call.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and (func.value.id == site.scope.self_name)
    )


def _moves(statement: ast.stmt) -> bool:
    """Whether a statement moves something, or only goes with that: it chooses the GPU, wraps what
    is moved for several, tells of it, or gives it back.
    """
    if isinstance(statement, (ast.If, ast.For)):
        return _all_move([*statement.body, *statement.orelse])
    if isinstance(statement, ast.Return):
        return isinstance(statement.value, (ast.Name, type(None)))
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant):
        return True
    return (
        isinstance(statement, (ast.Expr, ast.Assign))
        and isinstance(value, ast.Call)
        and (_is_move(value) or _is_beside(value))
    )


def _is_move(call: ast.Call) -> bool:
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in MOVES


def _is_beside(call: ast.Call) -> bool:
    """`torch.cuda.set_device(0)`, `nn.DataParallel(net)`, `log("on the GPU")`"""
    name = dotted_name(call.func) or ""
    first = call.args[0] if call.args else None
    says = isinstance(first, ast.JoinedStr) or (
        isinstance(first, ast.Constant) and isinstance(first.value, str)
    )
    return says or name.endswith((".set_device", "DataParallel"))


def _all_move(statements: Iterable[ast.stmt]) -> bool:
    return all(map(_moves, statements))
