"""Who calls a function that needs the scaler: in its file, in other files of the project, or nobody that can be seen."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.calls import CallSite
from amp_migrate.model.dispatch import follow
from amp_migrate.model.program import Program
from amp_migrate.model.project import Project
from amp_migrate.model.syntax import Function, Module
from amp_migrate.names import dotted_name

_PLAIN_MARKS = ("torch.", "functools.", "typing.", "staticmethod", "classmethod", "contextlib.", "abc.", "numpy.")
_REMEDY = "give amp-migrate these files too, or their folder"


@dataclass(frozen=True)
class Callers:
    """The calls of a function in sight."""

    sites: tuple[CallSite, ...]
    peers: tuple[Function, ...] = ()
    """Functions that the same calls may reach: what one is given the others are given."""
    unknown: str | None = None
    """Why there may be more callers; None where these are all."""


def callers_of(program: Program, project: Project, function: Function) -> Callers:
    """Every call of `function`. Raises Refusal where files that may call it are still to be linked, or may not change."""
    refuse_unlinked(program, project, function)
    sites = [s for s in program.graph.sites(function) if may_call(program, s, function)]
    for site in sites:
        refuse_locked(project, site.scope.module, function)
    keeper = _registrar(program, function)
    if keeper is not None:
        return Callers(tuple(sites), unknown=f"`{keeper}` may keep `{function.name}` for callers out of sight")
    if not program.graph.escapes(function):
        none = f"nothing in sight calls `{function.name}`" if not sites else None
        return Callers(tuple(sites), unknown=none)
    followed = follow(program, function)
    if followed is None:
        return Callers(tuple(sites), unknown=f"`{function.name}` is passed around as a value")
    return Callers((*sites, *followed.sites), followed.peers)


def _registrar(program: Program, function: Function) -> str | None:
    """A decorator that may put the function where others find it."""
    for mark in function.decorator_list:
        maker = mark.func if isinstance(mark, ast.Call) else mark
        name = program.canonical(maker) or dotted_name(maker) or ""
        if not name.startswith(_PLAIN_MARKS):
            return f"@{ast.unparse(maker)}"
    return None


def refuse_unlinked(program: Program, project: Project, node: Function | ast.ClassDef, *words: str) -> None:
    """Raise Refusal where files of the project that are no part of the program name a function, or a class with `words`."""
    file = program.module.scopes[node].module
    here = Path(file.path).resolve()
    linked = {str(Path(f.path).resolve()) for f in program.module.files}
    users = [u for u in project.users(str(here), node.name, *words) if u not in linked]
    if program.module.scopes[node].parent is file.root:
        users = [u for u in users if _may_name(u, node.name)]
    if isinstance(node, ast.ClassDef) or users or project.imports or file.neighbours is None:
        pass
    elif not program.graph.sites(node):
        near = file.neighbours.user_of(node.name)
        users = [str(here.parent / near)] if near else []
    if users:
        near = os.path.relpath(users[0], here.parent)
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        use = "is used" if isinstance(node, ast.ClassDef) else "is called"
        what = f"`{node.name}` {use} in {near}{more}, which may have to make the scaler or pass it"
        raise Refusal("callers-in-other-modules", node, f"{what}: {_REMEDY}", files=tuple(users))


def _may_name(user: str, name: str) -> bool:
    """Whether a file imports `name`, or takes it from what it imports; `model.train()` takes nothing from an import."""
    try:
        tree = ast.parse(Path(user).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    aliases = [alias for statement in imports for alias in statement.names]
    if any(alias.name in (name, "*") for alias in aliases):
        return True
    bound = {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
    taken = (n.value for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name)
    return any((dotted_name(value) or "").partition(".")[0] in bound for value in taken)


def refuse_locked(project: Project, file: Module, node: ast.AST) -> None:
    """Raise Refusal where a file that must change is not among those that were named."""
    if project.imports and str(Path(file.path).resolve()) not in project.writable:
        near = os.path.relpath(file.path)
        raise Refusal("callers-in-other-modules", node, f"{near} would have to make the scaler or pass it: {_REMEDY}")


def may_call(program: Program, site: CallSite, function: Function) -> bool:
    """Whether a call of a method's name may be a call of this method: `model.train()` is none of `Executor.train`."""
    called = program.values.callee(site.call, site.scope)
    if called is not None or not isinstance(site.call.func, ast.Attribute):
        return called is function
    if program.values.of(site.call.func.value, site.scope):
        return False
    inner = program.scope(function)
    optional = len(function.args.defaults) + len(function.args.kwonlyargs) + (1 if site.bound else 0)
    return len(site.call.args) + len(site.call.keywords) >= len(inner.parameters()) - optional
