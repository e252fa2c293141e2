"""Whether callers read a scaled loss that a function returns behind its own backward pass."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in

_HOPS = 3
IsRead = Callable[[Program, ast.expr], bool]


def returned(
    program: Program, scaled: ast.Assign, scope: Scope, is_read: IsRead
) -> Iterator[ast.Name]:
    """Where a function returns what `scaled` bound, after a backward pass from it, to callers that
    read it as the loss.
    """
    target, function = scaled.targets[0], scope.node
    if not isinstance(target, ast.Name) or not isinstance(function, FUNCTIONS):
        return
    uses = list(_uses(program, scaled, target.id, scope))
    if not any(_starts_backward(program, use) for use in uses):
        return
    for use in uses:
        place = _place(program, use)
        if place is not None and _is_wanted(
            program, function, place[0], is_read, _HOPS
        ):
            yield use


def is_returned_and_read(
    program: Program, product: ast.expr, scope: Scope, is_read: IsRead
) -> bool:
    """Whether a function returns a product as it stands, which callers start the backward pass from
    and read as the loss.
    """
    above = program.module.parents[product]
    given = above if isinstance(above, ast.IfExp) else product
    place, function = _place(program, given), scope.node
    return (
        place is not None
        and isinstance(function, FUNCTIONS)
        and all(
            _is_wanted(program, function, place[0], asked, _HOPS)
            for asked in (_starts_backward, is_read)
        )
    )


def _uses(
    program: Program, binder: ast.AST, name: str, scope: Scope
) -> Iterator[ast.Name]:
    """The loads of a name that what a statement bound may reach."""
    if name not in scope.bindings:
        return
    for node in nodes_in(scope.node):
        if (
            isinstance(node, ast.Name)
            and node.id == name
            and isinstance(node.ctx, ast.Load)
            and program.module.scope_of(node) is scope
            and any(
                one.statement is binder
                for one in program.reaching.at(node, name).bindings
            )
        ):
            yield node


def _starts_backward(program: Program, use: ast.expr) -> bool:
    above = program.module.parents[use]
    return isinstance(above, ast.Attribute) and above.attr == "backward"


def _place(
    program: Program,
    use: ast.expr,
) -> tuple[int | None] | None:
    """Which of the returned values it is; None where it is not returned."""
    above = program.module.parents[use]
    if isinstance(above, ast.Return):
        return (None,)
    if isinstance(above, ast.Tuple) and isinstance(
        program.module.parents[above], ast.Return
    ):
        return (above.elts.index(use),)
    return None


def _is_wanted(
    program: Program,
    function: Function,
    index: int | None,
    is_read: IsRead,
    hops: int,
) -> bool:
    """Whether a caller reads the value, or hands it to what does."""
    return any(
        _is_used(program, use, there, is_read, hops)
        for site in program.graph.sites(function)
        if program.values.callee(site.call, site.scope) is function
        for use, there in _given(program, site.call, index, site.scope)
    )


def _given(
    program: Program, call: ast.Call, index: int | None, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """The loads of the names that a call's value is given to; the call itself where it is used
    without a name: returned, or read as it stands.
    """
    statement = program.module.parents[call]
    if isinstance(statement, ast.Return) or index is None:
        yield call, scope
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target: ast.expr = statement.targets[0]
    if index is not None:
        if not isinstance(target, ast.Tuple) or any(
            isinstance(one, ast.Starred) for one in target.elts
        ):
            return
        target = target.elts[index]
    if isinstance(target, ast.Name):
        for use in _uses(program, statement, target.id, scope):
            yield use, scope


def _is_used(
    program: Program, use: ast.expr, scope: Scope, is_read: IsRead, hops: int
) -> bool:
    if is_read(program, use):
        return not _is_divided(program, use)
    place, function = _place(program, use), scope.node
    if place is not None and hops and isinstance(function, FUNCTIONS):
        return _is_wanted(program, function, place[0], is_read, hops - 1)
    above = program.module.parents[use]
    call = (
        program.module.parents[above]
        if isinstance(above, ast.keyword)
        else above
    )
    return (
        bool(hops)
        and isinstance(call, ast.Call)
        and call.func is not use
        and any(
            _is_used(program, one, inner, is_read, hops - 1)
            for body in _bodies(program, call, scope)
            for one, inner in _handed(program, call, use, body)
        )
    )


def _is_divided(program: Program, use: ast.expr) -> bool:
    """Whether what is read is divided at once, as by the factor."""
    return any(
        isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div)
        for above in program.module.ancestors(use)
        if isinstance(above, ast.expr)
    )


def _bodies(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[Function]:
    """What a call runs: the function, and what heirs have in its place."""
    function = program.values.callee(call, scope)
    if function is None:
        return
    yield function
    owner = program.scope(function).owner
    if owner is not None and isinstance(owner.node, ast.ClassDef):
        for heir in program.graph.heirs(owner.node):
            own = program.graph.method(heir, function.name)
            if own is not None and own is not function:
                yield own


def _handed(
    program: Program, call: ast.Call, use: ast.expr, function: Function
) -> Iterator[tuple[ast.Name, Scope]]:
    """The loads of the parameter that an argument becomes."""
    inner = program.scope(function)
    bound = inner.takes_receiver
    for name, bindings in inner.bindings.items():
        if (
            bindings[0].how == "parameter"
            and argument(call, inner, name, bound) is use
        ):
            for use_ in _uses(program, bindings[0].statement, name, inner):
                yield use_, inner
