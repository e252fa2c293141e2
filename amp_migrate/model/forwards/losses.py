"""Losses: every callable that may be behind a call, whichever branch, caller, attribute or file
puts it there, and whether it is a binary cross-entropy on probabilities.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.conditions.constant_conditions import never_holds
from amp_migrate.model.dataflow.sources import Part, bound
from amp_migrate.model.forwards.loss_origins import (
    Behind,
    definitions,
    origins,
)
from amp_migrate.model.gradients.effects import is_getter_of_gradients
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned
from amp_migrate.model.values.kinds import criterion_name
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


BCE = {"torch.nn.functional.binary_cross_entropy", "torch.binary_cross_entropy"}
_LAYER = "torch.nn.BCELoss"
_DEEP = 12
_NO_OUTPUTS = (ast.Starred, ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)
"""What no loss is called with: what may be anything, and what is no tensor."""
_BOUND_LATER = ("parameter", "for", "with")


def callables(program: Program, call: ast.Call, scope: Scope) -> list[Behind]:
    """What `call` may run, where its callee is a variable, a parameter or an attribute; where
    nothing in sight says what that holds, any binary cross-entropy that the program names.
    """
    func = call.func
    if program.graph.class_named(func, scope) is not None or _is_library(
        program, func, scope
    ):
        return []

    def found() -> list[Behind]:
        behind = list(_behind((program, func, scope), _DEEP).found)
        return behind or (
            _named(program) if _is_open(program, call, scope) else []
        )

    return program.remembered((callables, func), found)


def lambdas_behind(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, ast.Lambda]]:
    """The lambdas that a field or a parameter holds, where it holds nothing else."""
    behind = callables(program, call, scope)
    found = [(home, one) for home, one in behind if isinstance(one, ast.Lambda)]
    return found if len(found) == len(behind) else []


def is_told(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether what `call` runs is in sight, or it is called as a loss is: no callable of another
    kind that nothing tells of.
    """
    named = dotted_name(call.func) or ""
    return (
        program.graph.class_named(call.func, scope) is not None
        or _is_library(program, call.func, scope)
        or criterion_name(named.rpartition(".")[2])
        or bool(_behind((program, call.func, scope), _DEEP).found)
    )


def _is_library(
    program: Program,
    func: ast.expr,
    scope: Scope,
) -> bool:
    """A name of a library, and no variable of another file of the project."""
    if program.canonical(func) is None:
        return False
    if program.module.elsewhere(dotted_name(func) or "", scope) is not None:
        return False
    return program.reaching.imported.variable(func, scope) is None


def _is_open(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    """A variable with an unknown value that is called with outputs and targets."""
    func = call.func
    if not isinstance(func, ast.Name) or program.values.of(func, scope):
        return False
    if any(isinstance(one, _NO_OUTPUTS) for one in call.args):
        return False
    named = [one for one in call.keywords if one.arg is not None]
    if len(call.args) + len(named) < 2:
        return False
    home = scope.lookup(func.id)
    return home is not None and any(
        b.how in _BOUND_LATER for b in home.bindings[func.id]
    )


def _named(program: Program) -> list[Behind]:
    """Every mention of the loss in the program by which a variable may come to hold it."""

    def found() -> list[Behind]:
        nodes = [
            n
            for n in program.module.parents
            if isinstance(n, (ast.Name, ast.Attribute))
        ]
        return [
            (program, n)
            for n in nodes
            if program.canonical(n) in {*BCE, _LAYER}
            and not _is_only_called(program, n)
        ]

    return program.remembered(_named, found)


def _is_only_called(program: Program, name: ast.expr) -> bool:
    """Whether a name stands for the function in a call, and in a function that is only called
    itself: no variable holds either.
    """
    parent = program.module.parents[name]
    is_call = isinstance(parent, ast.Call) and parent.func is name
    if not is_call or program.canonical(name) not in BCE:
        return False
    scope = program.module.scope_of(name)
    function, near = scope.node, scope.module.neighbours
    if not isinstance(function, FUNCTIONS) or scope.self_name is not None:
        return isinstance(function, ast.Module)
    used = near is not None and any(near.users(function.name))
    return not used and not program.graph.mentions(function)


def bce_behind(program: Program, call: ast.Call, scope: Scope) -> list[Behind]:
    """Those of them that compute a binary cross-entropy on probabilities."""
    return [
        one for one in callables(program, call, scope) if _computes_bce(one)
    ]


def is_bce_given(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    """Whether a call is handed what computes one: `compute_loss(model, self.criterion, x, y)`."""
    return any(
        _computes_bce(one)
        for given in [*call.args, *(one.value for one in call.keywords)]
        if isinstance(given, (ast.Name, ast.Attribute, ast.Call))
        for one in _behind((program, given, scope), _DEEP).found
    )


def is_library_bce(behind: Behind) -> bool:
    """`F.binary_cross_entropy` or `nn.BCELoss` itself, unless constants keep what names it from
    running.
    """
    program, node = behind
    if not isinstance(node, ast.expr):
        return False
    if program.canonical(node) not in {*BCE, _LAYER}:
        return False
    return never_holds(program, node, everywhere=True) is None


def body_of(behind: Behind) -> Function | ast.Lambda | None:
    """The definition that a call of it runs; None for a library's."""
    program, node = behind
    if isinstance(node, ast.ClassDef):
        return program.graph.method(node, "forward") or program.graph.method(
            node, "__call__"
        )
    return node if isinstance(node, (*FUNCTIONS, ast.Lambda)) else None


def body_effects(behind: Behind) -> EventKind:
    """What running it does, as far as its body is in sight."""
    program, body = behind[0], body_of(behind)
    if body is not None:
        return program.effects.of_function(body)
    if _is_getter(behind):
        return EventKind.READS_GRADIENTS
    return EventKind.NONE


def _is_getter(behind: Behind) -> bool:
    """Whether it is a function of the library that reads gradients."""
    program, named = behind
    made = program.module.parents.get(named)
    if made is None:
        return False
    return is_getter_of_gradients(program.module, made)


def _computes_bce(behind: Behind) -> bool:
    return is_library_bce(behind) or bool(body_effects(behind) & EventKind.BCE)


class _Known(NamedTuple):
    """What may be behind a part, and how many levels had to be looked at to know all of it."""

    found: tuple[Behind, ...]
    levels: int


_CUT = _Known((), 1_000_000)
"""There is more, which was not looked at."""


class _Search:
    """What is found from one part on, at one depth."""

    def __init__(self, deep: int) -> None:
        self.deep = deep
        self.levels = 1

    def at(self, part: Part, deep: int) -> tuple[Behind, ...]:
        """What may be behind another part, with `deep` levels left."""
        known = _behind(part, deep)
        self.needs(known.levels, deep)
        return known.found

    def needs(self, levels: int, deep: int) -> None:
        """Note that so many levels count where `deep` are left."""
        self.levels = max(self.levels, levels + self.deep - deep)


def _behind(part: Part, deep: int) -> _Known:
    """What an expression may be. Asked once per part, or, where the search is cut off, once per
    part and depth: where many callers pass on what many callers gave them, there are far more ways
    to a part than parts.
    """
    if deep == 0:
        return _CUT
    program, expr, scope = part
    known = program.remembered((_behind, expr, scope), dict[int, _Known])
    whole = known.get(0)
    if whole is not None and whole.levels <= deep:
        return whole
    if deep not in known:
        search = _Search(deep)
        found = tuple(dict.fromkeys(_found(part, search)))
        answer = known[deep] = _Known(found, search.levels)
        if search.levels <= deep:
            known[0] = answer
    return known[deep]


def _found(part: Part, search: _Search) -> Iterator[Behind]:
    """What an expression stands for, as far back as the search goes."""
    program, expr, _ = part
    if isinstance(expr, ast.Lambda):
        yield program, expr
        return
    named = definitions(part) if dotted_name(expr) is not None else []
    if named:
        yield from named
        return
    if program.canonical(expr) is not None:
        yield program, expr
    members = (
        [*_attribute(part, expr, search)]
        if isinstance(expr, ast.Attribute)
        else []
    )
    if members and dotted_name(expr) is None:
        yield from members  # `nets[i].head` is a part of a net, and no net
        return
    for one in origins(part):
        found = search.at(one, search.deep - 1)
        is_called = isinstance(expr, ast.Call) and one[1] is expr.func
        yield from _made_by(found, search) if is_called else found
    yield from members


def _made_by(
    found: tuple[Behind, ...],
    search: _Search,
) -> Iterator[Behind]:
    """What functions give back that a call may run: `makers[name](size)`."""
    for home, node in found:
        if not isinstance(node, FUNCTIONS):
            yield home, node
            continue
        inner = home.scope(node)
        for value in returned(node):
            yield from search.at((home, value, inner), search.deep - 1)


def _attribute(
    part: Part, expr: ast.Attribute, search: _Search
) -> Iterator[Behind]:
    """`model.loss`: a method or an attribute of any class that the model may be of."""
    program, _, scope = part
    owners = [*search.at((program, expr.value, scope), search.deep - 1)]
    if not any(isinstance(one[1], ast.ClassDef) for one in owners):
        value = program.values.of(expr.value, scope)
        owners += [(program, value.cls)] if value.cls is not None else []
        owners += [value.foreign] if value.foreign is not None else []
    for owner in dict.fromkeys(owners):
        if isinstance(owner[1], ast.ClassDef):
            here = owner[0], owner[1]
            yield from _member(here, expr.attr, search, search.deep - 1)


def _member(
    here: tuple[Program, ast.ClassDef], name: str, search: _Search, deep: int
) -> Iterator[Behind]:
    program, cls = here
    methods = [
        program.graph.method(one, name)
        for one in (cls, *program.graph.heirs(cls))
    ]
    yield from (
        (program, one) for one in dict.fromkeys(methods) if one is not None
    )
    if methods[0] is not None:
        return
    for owner in dict.fromkeys(
        [*program.graph.lineage(cls), *program.graph.heirs(cls)]
    ):
        scope = program.module.scopes[owner]
        for binding in [
            *scope.bindings.get(f"self.{name}", ()),
            *scope.bindings.get(name, ()),
        ]:
            if binding.value is not None:
                for part in bound(program, binding, binding.value):
                    yield from search.at(part, deep)
        if owner.bases:
            search.needs(1, deep)
        for base in owner.bases if deep else ():
            above = program.values.abroad(
                base, scope.parent or program.module.root
            )
            if above is not None and isinstance(above[1], ast.ClassDef):
                yield from _member((above[0], above[1]), name, search, deep - 1)
