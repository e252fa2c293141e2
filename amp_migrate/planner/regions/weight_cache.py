"""Models that one region runs both without and with gradients.

Autocast keeps the half copies of weights until the region ends. Before torch 2.10 a copy that was
made under `no_grad` served later forwards as well, whose weights then got no gradient, silently
(pytorch issues 65766 and 112583). Such a region keeps no copies.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.config import Settings
from amp_migrate.model.forwards.quiet_forwards import runs_quietly
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Binding, Scope
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.half_safety.reach import abroad, reachable
from amp_migrate.planner.refusal import Refusal
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.amp_api import CACHE_KEEPS_GRADIENTS, CACHE_SWITCH

_HOPS = 6


def loses_gradients(
    program: Program,
    settings: Settings,
    statements: Sequence[ast.stmt],
    scope: Scope,
) -> bool:
    """Whether a region may reuse weights that it cast under `no_grad`, on the oldest torch that
    the program may run on.
    """
    oldest = settings.target_torch
    if oldest is not None and oldest >= CACHE_KEEPS_GRADIENTS:
        return False
    found: dict[bool, list[_Run]] = {True: [], False: []}
    for home, node, where in _run(program, list(statements), scope):
        if isinstance(node, ast.Call) and _is_forward(home, node, where):
            run = _Run(node, where, tuple(_run_by(home, node, where, scope)))
            found[runs_quietly(home, node, where)].append(run)
    return any(
        _share(quiet, loud)
        and not _are_branches(program, quiet, loud, statements, scope)
        for quiet in found[True]
        for loud in found[False]
    )


def _run(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> Iterator[tuple[Program, ast.AST, Scope]]:
    """All that the statements run, in whichever file."""
    for node, where in reachable(program, statements, scope):
        yield program, node, where
    for home, function, _ in abroad(program, statements, scope):
        inner = home.scope(function)
        for node, where in reachable(home, function.body, inner):
            yield home, node, where


def _is_forward(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Also of what a module or a function was given: which file made it, its own does not tell."""
    if program.effects.of_node(call, scope) & EventKind.FORWARD:
        return True
    if program.values.kind(call.func, scope) is not Kind.UNKNOWN:
        return False
    if program.values.callees(call, scope):
        return False
    return _is_given(program, call.func, scope)


def _is_given(program: Program, func: ast.expr, scope: Scope) -> bool:
    """An attribute of the object, a parameter, or what a loop takes out of something."""
    if isinstance(func, ast.Attribute):
        holder = dotted_name(func.value)
        return holder is not None and holder == scope.self_name
    if not isinstance(func, ast.Name):
        return False
    bindings = program.reaching.at(func, func.id).bindings
    return any(one.how in ("parameter", "for") for one in bindings)


class _Model(NamedTuple):
    """A model by its place: the object or function that it is a variable of, and its path there."""

    home: int
    path: str


_ANY = _Model(0, "")


class _Run(NamedTuple):
    """A call that runs models."""

    call: ast.Call
    scope: Scope
    models: tuple[_Model, ...]


def _share(quiet: _Run, loud: _Run) -> bool:
    if _ANY in quiet.models:
        return True
    return any(_share_weights(a, b) for a in quiet.models for b in loud.models)


def _are_branches(
    program: Program,
    one: _Run,
    other: _Run,
    statements: Sequence[ast.stmt],
    scope: Scope,
) -> bool:
    """Whether the two stand in the branches of one `if` that the region runs once."""
    if one.scope is not scope or other.scope is not scope:
        return False
    mine = _branches(program, one.call, statements)
    its = _branches(program, other.call, statements)
    return any(
        mine.get(branch, held) is not held for branch, held in its.items()
    )


def _branches(
    program: Program, call: ast.Call, statements: Sequence[ast.stmt]
) -> dict[ast.AST, bool]:
    """Each `if` around a call that the region runs once at most, and whether it is in its body."""
    found: dict[ast.AST, bool] = {}
    inner: ast.AST = call
    for above in program.module.ancestors(call):
        if isinstance(above, LOOPS):
            found.clear()
        elif isinstance(above, ast.If) and inner is not above.test:
            found[above] = inner in above.body
        if above in statements:
            break
        inner = above
    return found


def _run_by(
    program: Program, call: ast.Call, scope: Scope, region: Scope
) -> Iterator[_Model]:
    """The models whose weights a call may cast: the one that is called, the one whose method is,
    and those that a function is given. `region`: the scope of the region, whose parameters are
    taken for models of their own.
    """
    given = [*call.args, *(one.value for one in call.keywords)]
    models = [one for one in given if program.values.is_model(one, scope)]
    for expr in (call.func, *models):
        yield from _places(program, expr, scope, region, _HOPS)
    if isinstance(call.func, ast.Attribute):
        holder = dotted_name(call.func.value)
        if holder is not None and holder != scope.self_name:
            yield from _places(program, call.func.value, scope, region, _HOPS)


def _places(
    program: Program, expr: ast.expr, scope: Scope, region: Scope, hops: int
) -> Iterator[_Model]:
    """A name; what it is only another name of, or a layer of; and what callers pass for it. What
    is passed out of sight may be any model.
    """
    dotted = dotted_name(expr)
    if dotted is None or not hops:
        return
    yield _placed(dotted, scope)
    if dotted == scope.self_name:
        return
    for one in program.reaching.at(expr, dotted).bindings:
        before = list(_before(program, one))
        is_open = one.how == "parameter" and not before
        if is_open and scope is not region:
            yield _ANY
        for inner, where in before:
            yield from _places(program, inner, where, region, hops - 1)


def _before(
    program: Program, binding: Binding
) -> Iterator[tuple[ast.expr, Scope]]:
    value, module = binding.value, program.module
    if binding.how == "parameter":
        yield from arguments(program, binding)
    elif binding.how in ("assign", "for") and binding.index is None:
        if value is not None and value in module.parents:
            yield value, module.scope_of(value)


def _placed(path: str, scope: Scope) -> _Model:
    """Attributes of an object are the same in all methods of its class."""
    head = path.partition(".")[0]
    if head == scope.self_name and scope.owner is not None:
        return _Model(id(scope.owner), path)
    return _Model(id(scope.lookup(head) or scope), path)


def _share_weights(one: _Model, other: _Model) -> bool:
    """Whether one is the other, or a part of it."""
    paths = (f"{one.path}.", f"{other.path}.")
    is_part = paths[0].startswith(paths[1]) or paths[1].startswith(paths[0])
    return one.home == other.home and is_part


def refuse_cached(
    program: Program,
    settings: Settings,
    statements: Sequence[ast.stmt],
    scope: Scope,
) -> None:
    """Raise Refusal where such a region cannot be told to keep no copies."""
    oldest = settings.target_torch
    if oldest is None or oldest >= CACHE_SWITCH:
        return
    if loses_gradients(program, settings, statements, scope):
        raise Refusal(
            "torch-too-old",
            statements[0],
            "a model runs here both under no_grad and with gradients, for which autocast must keep "
            "no casts of weights, and takes cache_enabled since torch 1.10: raise the bound of "
            "torch, or pass --target-torch 1.10",
        )
