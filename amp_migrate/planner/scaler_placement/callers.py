"""Who calls a function that needs the scaler: in its file, in other files of the project, or
nobody that can be seen.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.function_values import Followed, follow
from amp_migrate.model.calls.name_lookups import lookup_from, name_lookup
from amp_migrate.model.files.neighbours import program_of
from amp_migrate.model.forwards.model_runs import (
    class_of_forward,
    sites_of_forward,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Module
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.called_objects import (
    class_called,
    handed_to,
)
from amp_migrate.planner.scaler_placement.decorated import (
    refuse_strict_wrappers,
    registrar,
)
from amp_migrate.planner.scaler_placement.unparsed_users import (
    refuse_unparsed,
)
from amp_migrate.planner.scaler_placement.unresolved import (
    files_in_question,
    namesakes,
)
from amp_migrate.project import nearby
from amp_migrate.project.import_paths import resolved
from amp_migrate.project.module_graph import Project

_LOOKUPS = (b"getattr(", b"__dict__", b"globals(", b"vars(")
_MOST = 40
_REMEDY = "give amp-migrate these files too, or their folder"


@dataclass(frozen=True)
class Callers:
    """The calls of a function in sight."""

    sites: tuple[CallSite, ...]
    peers: tuple[Function, ...] = ()
    """Functions that the same calls may reach: what one is given the others are given."""
    unknown: str | None = None
    """Why there may be more callers; None where these are all."""
    handed: bool = False
    """Whether code in sight calls it as a value that cannot be followed."""


def callers_of(
    program: Program,
    project: Project,
    function: Function,
    optimizers: Sequence[str] = (),
) -> Callers:
    """Every call of `function`, which gets `optimizers` by these names. Raises Refusal where files
    that may call it are still to be linked, or may not change.
    """
    refuse_unlinked(program, project, function)
    sites = _sites(program, project, function)
    for site in sites:
        refuse_locked(project, site.scope.module, function)
    keeper = registrar(program, function)
    refuse_strict_wrappers(program, function)
    if keeper is not None:
        why = f"`{keeper}` may keep `{function.name}` for callers out of sight"
        return Callers(tuple(sites), unknown=why, handed=True)
    _refuse_unresolved(program, project, function, sites, optimizers)
    family = (
        *overriding(program, function, sites),
        *namesakes(program, function, sites),
    )
    if not program.graph.escapes(function):
        return Callers(
            tuple(sites),
            family,
            unknown=_unseen(program, project, function, sites),
        )
    followed = follow(program, function)
    if followed is None:
        why = f"`{function.name}` is passed around as a value"
        return Callers(tuple(sites), family, unknown=why, handed=True)
    _refuse_out_of_reach(program, project, function, followed)
    return Callers((*sites, *followed.sites), followed.peers)


def _sites(
    program: Program, project: Project, function: Function
) -> list[CallSite]:
    """What calls a function: a module's `forward` runs where the module is called. Raises Refusal
    where nothing in sight does, since no scaler would ever be given.
    """
    calls = program.graph.sites(function)
    sites = [s for s in calls if may_call(program, s, function)]
    module = class_of_forward(program, function)
    if module is None:
        return sites
    refuse_unlinked(program, project, module)
    sites += sites_of_forward(program, function)
    if not sites:
        raise Refusal(
            "callers-unknown",
            function,
            f"`{module.name}.forward` steps an optimizer that it is given, and no call in sight is "
            f"known to run a `{module.name}`: none could pass the scaler",
        )
    return sites


def _refuse_out_of_reach(
    program: Program, project: Project, function: Function, followed: Followed
) -> None:
    """Raise Refusal where who calls a factory that gives the function back is still to be linked,
    or may not change.
    """
    for factory in followed.factories:
        refuse_unlinked(program, project, factory)
    for site in followed.sites:
        refuse_locked(project, site.scope.module, function)


def _unseen(
    program: Program,
    project: Project,
    function: Function,
    sites: Sequence[CallSite],
) -> str | None:
    """Why there may be callers that nobody sees."""
    if not sites:
        return f"nothing in sight calls `{function.name}`"
    found = name_lookup(program, function)
    if found is None:
        return _found_by_name(program, project, function)
    return (
        f"`{ast.unparse(found)}` (line {found.lineno}) may be "
        f"`{function.name}`, too"
    )


def _found_by_name(
    program: Program, project: Project, function: Function
) -> str | None:
    """Why a file that is no part of the program may call it by a name that the run makes."""
    file = program.module.scopes[function].module
    linked = program.module.paths
    users = project.users(resolved(file.path)) if project.imports else []
    for user in [one for one in users if one not in linked][:_MOST]:
        text = nearby.text_of(user) or b""
        if not any(word in text for word in _LOOKUPS):
            continue
        other = program_of(user)
        if other is not None and lookup_from(other, function, file.path):
            near = os.path.relpath(user, Path(file.path).absolute().parent)
            return f"{near} may find `{function.name}` by its name"
    return None


def _refuse_unresolved(
    program: Program,
    project: Project,
    function: Function,
    sites: Sequence[CallSite],
    optimizers: Sequence[str],
) -> None:
    files = files_in_question(program, project, function, sites, optimizers)
    if files:
        where = program.module.scopes[function].module.path
        near = os.path.relpath(files[0], Path(where).absolute().parent)
        raise Refusal(
            "callers-in-other-modules",
            function,
            f"`{function.name}` may be what a call in {near} runs, or stand beside a method of "
            f"that name there, which would need the scaler, too: {_REMEDY}",
            files=tuple(files),
        )


def overriding(
    program: Program, function: Function, sites: Sequence[CallSite]
) -> tuple[Function, ...]:
    """The methods that calls of `function` may reach in its place: `self.fit()` of a base class
    calls that of whatever class `self` is of.
    """
    cls = _class_of(program, function)
    if cls is None:
        return ()
    called = {
        program.values.callee(site.call, site.scope) for site in sites
    } - {None}
    bases = [
        b
        for one in called
        if one is not None and (b := _class_of(program, one)) is not None
    ]
    owners = dict.fromkeys(
        heir for base in [cls, *bases] for heir in program.graph.heirs(base)
    )
    family = [program.graph.method(owner, function.name) for owner in owners]
    found = dict.fromkeys(
        one for one in family if one is not None and one is not function
    )
    return tuple(found)


def _overrides(program: Program, function: Function, other: Function) -> bool:
    cls, base = _class_of(program, function), _class_of(program, other)
    return (
        cls is not None
        and base is not None
        and function.name == other.name
        and base in program.graph.lineage(cls)
    )


def _class_of(program: Program, function: Function) -> ast.ClassDef | None:
    owner = program.scope(function).owner
    return (
        owner.node
        if owner is not None and isinstance(owner.node, ast.ClassDef)
        else None
    )


def _bases_that_call(program: Program, function: Function) -> list[str]:
    """Files of base classes that name a method: they may call it on `self`."""
    cls = _class_of(program, function)
    waiting = [(program, cls)] if cls is not None else []
    seen: list[ast.ClassDef] = []
    found: dict[str, None] = {}
    for where, one in waiting:  # grows while it is read
        if one in seen:
            continue
        seen.append(one)
        for owner in where.graph.lineage(one):
            home = where.module.scopes[owner].parent or where.module.root
            for base in owner.bases:
                above = where.values.abroad(base, home)
                if above is not None and isinstance(above[1], ast.ClassDef):
                    waiting.append((above[0], above[1]))
                    if function.name in above[0].module.identifiers:
                        found[resolved(above[0].module.path)] = None
    return list(found)


def refuse_unlinked(
    program: Program,
    project: Project,
    node: Function | ast.ClassDef,
    *words: str,
) -> None:
    """Raise Refusal where files of the project that are no part of the program name a function, or
    a class with `words`.
    """
    users = _unlinked(program, project, node, *words)
    if not users:
        return
    here = Path(resolved(program.module.scopes[node].module.path))
    use = "is used" if isinstance(node, ast.ClassDef) else "is called"
    refuse_unparsed(here, users, node, f"`{node.name}` {use}")
    near = os.path.relpath(users[0], here.parent)
    more = f" and {len(users) - 1} more" if len(users) > 1 else ""
    what = f"`{node.name}` {use} in {near}{more}, which may have to make the scaler or pass it"
    raise Refusal(
        "callers-in-other-modules",
        node,
        f"{what}: {_REMEDY}",
        files=tuple(users),
    )


def _unlinked(
    program: Program,
    project: Project,
    node: Function | ast.ClassDef,
    *words: str,
) -> list[str]:
    """The files that are no part of the program and use a function or class of it."""
    file = program.module.scopes[node].module
    here = Path(resolved(file.path))
    linked = program.module.paths
    called = class_called(program, node)
    name = (called or node).name
    users = [
        u for u in project.users(str(here), name, *words) if u not in linked
    ]
    if called is not None and not users:
        users = [u for u in handed_to(program, called) if u not in linked]
    if program.module.scopes[node].parent is file.root:
        users = [u for u in users if _may_name(u, node.name)]
    if isinstance(node, ast.ClassDef):
        return users
    users += [f for f in _bases_that_call(program, node) if f not in linked]
    if users or project.imports or file.neighbours is None:
        return users
    near = (
        file.neighbours.user_of(node.name)
        if not program.graph.sites(node)
        else None
    )
    return [str(here.parent / near)] if near else []


def _may_name(user: str, name: str) -> bool:
    """Whether a file imports `name`, or takes it from what it imports; `model.train()` takes
    nothing from an import. One that Python cannot parse runs nothing, and may be mended: there
    the name has to stand in more than an import.
    """
    data = nearby.text_of(user)
    if data is None:
        return True
    named = _named_by(data)
    if named is None:
        return name.encode() in _WORD.findall(_IMPORT.sub(b"", data))
    return name in named or "*" in named


_IMPORT = re.compile(rb"(?m)^\s*(?:from\s+\S+\s+)?import\s[^(\n]*$")
_WORD = re.compile(rb"\w+")


@lru_cache(maxsize=256)
def _named_by(data: bytes) -> frozenset[str] | None:
    """The names that a file imports, or takes from what it imports; None where it cannot be
    read. Every function of the files that it imports is looked for in it.
    """
    try:
        nodes = list(nodes_in(ast.parse(data)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    imports = [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    aliases = [alias for statement in imports for alias in statement.names]
    bound = {
        (alias.asname or alias.name).partition(".")[0] for alias in aliases
    }
    taken = (
        n.attr
        for n in nodes
        if isinstance(n, ast.Attribute)
        and (dotted_name(n.value) or "").partition(".")[0] in bound
    )
    return frozenset((*(alias.name for alias in aliases), *taken))


def refuse_locked(project: Project, file: Module, node: ast.AST) -> None:
    """Raise Refusal where a file that must change is not among those that were named."""
    if project.imports and resolved(file.path) not in project.writable:
        near = os.path.relpath(file.path)
        raise Refusal(
            "callers-in-other-modules",
            node,
            f"{near} would have to make the scaler or pass it: {_REMEDY}",
        )


def may_call(program: Program, site: CallSite, function: Function) -> bool:
    """Whether a call of a method's name may be a call of this method: `model.train()` is none of
    `Executor.train`.
    """
    called = program.values.callee(site.call, site.scope)
    if called is not None or not isinstance(site.call.func, ast.Attribute):
        return called is function or (
            called is not None and _overrides(program, function, called)
        )
    if program.values.of(site.call.func.value, site.scope):
        return False
    inner = program.scope(function)
    optional = (
        len(function.args.defaults)
        + len(function.args.kwonlyargs)
        + (1 if site.bound else 0)
    )
    return (
        len(site.call.args) + len(site.call.keywords)
        >= len(inner.parameters()) - optional
    )
