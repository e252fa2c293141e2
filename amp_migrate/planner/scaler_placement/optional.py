"""Functions that may be called without an optimizer, or without a scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.passed_on import options_are_told
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import is_none
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.spelling import Spellings
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import (
    AddArgument,
    Edit,
    InsertBefore,
    Template,
)


class Optional(NamedTuple):
    """A function that may be called without a scaler, why, and what stands for one there."""

    function: Function
    why: str
    prologue: InsertBefore
    closed: bool
    """Whether all callers are in sight."""


def optional(
    program: Program,
    spellings: Spellings,
    function: Function,
    why: str,
    closed: bool,
    name: str,
) -> Optional:
    """`if scaler is None: scaler = GradScaler("cuda", enabled=False)` at a function's top."""
    made = spellings.of(program.scope(function)).scaler('"cuda"', "False")
    documented = ast.get_docstring(function, clean=False) is not None
    top = function.body[1 if documented and len(function.body) > 1 else 0]
    lines = Template(f"if {name} is None:\n    {name} = {made}")
    where = program.module.span(top)
    prologue = InsertBefore(where, (lines,), above=True)
    return Optional(function, why, prologue, closed)


def is_idle(
    program: Program, found: Optional | None, edits: Iterable[Edit]
) -> bool:
    """Whether all callers of a function are in sight, and none gives it a scaler."""
    if found is None or not found.closed:
        return False
    sites = program.graph.sites(found.function)
    calls = {program.module.span(site.call) for site in sites}
    return not any(
        isinstance(edit, AddArgument) and edit.call in calls for edit in edits
    )


def refuse_idle(
    program: Program, found: Optional | None, edits: Iterable[Edit]
) -> None:
    """Raise Refusal where nothing would ever turn mixed precision on in a function that trains."""
    if found is not None and is_idle(program, found, edits):
        name = found.function.name
        raise Refusal(
            "callers-unknown",
            found.function,
            f"no call in sight gives `{name}` the optimizer that it steps, so none could give it "
            "the scaler",
        )


def called_without(function: Function) -> str:
    """Why a function may lack a scaler that all its callers in sight could give it."""
    return f"`{function.name}` is called without an optimizer, too"


def given_at(
    program: Program, site: CallSite, inner: Scope, names: list[str]
) -> list[ast.expr | None]:
    """What a call passes for the optimizers, by their names in `**options` as well."""
    heads = [name.partition(".")[0] for name in names]
    return [
        argument(site.call, inner, one, site.bound)
        or _spread_at(program, site, one)
        for one in heads
    ]


def _spread_at(program: Program, site: CallSite, name: str) -> ast.expr | None:
    """The one entry of `**options` that a call gives under a name, where it is made beside it."""
    if not options_are_told(site.call, site.scope):
        return None
    found = list(program.values.contents.spread(site.call, name, site.scope))
    is_one = len(found) == 1 and found[0][1] is site.scope
    return found[0][0] if is_one else None


def passes_none(
    program: Program, site: CallSite, inner: Scope, names: list[str]
) -> bool:
    """Whether a call leaves out an optimizer that is None by default, as an evaluation
    does.
    """
    given = given_at(program, site, inner, names)
    return any(one is None for one in given) and _defaults_to_none(inner, names)


def _defaults_to_none(inner: Scope, names: list[str]) -> bool:
    assert isinstance(inner.node, FUNCTIONS)
    own = inner.node.args
    pairs = [
        *zip(
            reversed([*own.posonlyargs, *own.args]),
            reversed(own.defaults),
            strict=False,
        ),
        *zip(own.kwonlyargs, own.kw_defaults, strict=True),
    ]
    none = {
        a.arg
        for a, d in pairs
        if isinstance(d, ast.Constant) and d.value is None
    }
    return {name.partition(".")[0] for name in names} <= none


def given_none(
    program: Program, site: CallSite, inner: Scope, names: list[str]
) -> bool:
    """A call for evaluation: `run(model, loader, optimizer=None)`."""
    given = given_at(program, site, inner, names)
    return bool(given) and all(is_none(g) for g in given)


def divided(
    program: Program,
    sites: Sequence[CallSite],
    inner: Scope,
    names: list[str],
) -> tuple[list[CallSite], list[CallSite]]:
    """The calls that pass optimizers, and those that need none: for evaluation, or of what only
    stands beside a function that trains.
    """
    idle = [
        s for s in sites if not names or given_none(program, s, inner, names)
    ]
    return [one for one in sites if one not in idle], idle


def counterparts(inner: Scope, other: Scope, names: list[str]) -> list[str]:
    """What the parameters `names` of a function are called in one that the same calls may reach:
    as they are, or what stands at their place; none where it lacks one.
    """
    ours, theirs = ([p.arg for p in s.parameters()] for s in (inner, other))
    found: list[str] = []
    for name in names:
        head, dot, rest = name.partition(".")
        place = ours.index(head) if head in ours else len(theirs)
        at_place = (
            head if head in theirs else (*theirs, "")[min(place, len(theirs))]
        )
        found += [at_place + dot + rest] if at_place else []
    return found if len(found) == len(names) else []
