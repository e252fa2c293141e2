"""Calls of methods on what nothing resolves: `model.train_loop(loader, optimizer)` may run the
method of that name of any class, and a call in a file that imports none of them may run this one.
A new parameter must reach them all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.calls.arguments import argument, fits
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.object_calls import classes_made
from amp_migrate.model.calls.targets import made_classes
from amp_migrate.model.files.neighbours import program_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.project.module_graph import Project

_MOST = 40


def namesakes(
    program: Program, function: Function, sites: Sequence[CallSite]
) -> tuple[Function, ...]:
    """The other methods of the program that unresolved calls of `function` may run."""
    calls = _unresolved(program, sites)
    others = [
        f
        for f in program.graph.methods_named(function.name)
        if f is not function
    ]
    return tuple(
        f for f in others if any(fits(call, f, True) for call in calls)
    )


def files_in_question(
    program: Program,
    project: Project,
    function: Function,
    sites: Sequence[CallSite],
    names: Sequence[str],
) -> list[str]:
    """Files outside of the program that may call a method with the optimizers `names`, or that
    define what an unresolved call may run in its place.
    """
    scope = program.scope(function)
    if (
        scope.owner is None
        or not isinstance(scope.owner.node, ast.ClassDef)
        or not names
    ):
        return []
    calls = _unresolved(program, sites)
    linked = program.module.paths
    files = [
        one for one in project.with_method(function.name) if one not in linked
    ]
    return [f for f in files[:_MOST] if _matters(f, scope, names, calls)]


def _unresolved(program: Program, sites: Sequence[CallSite]) -> list[ast.Call]:
    return [site.call for site in sites if _is_unresolved(program, site)]


def _is_unresolved(program: Program, site: CallSite) -> bool:
    """Whether nothing tells the one class of the receiver."""
    func = site.call.func
    if not isinstance(func, ast.Attribute) or isinstance(func.value, ast.Call):
        return False
    if isinstance(func.value, ast.Name) and func.value.id == _own_name(
        site.scope
    ):
        return False
    called = program.values.callee(site.call, site.scope)
    if called is None:
        return True
    if program.scope(called).owner is None and _is_module(program, site):
        return False
    known = classes_made(program.graph, (site.call, site.scope))
    if known is not None and len(set(known)) == 1:
        return False  # what its constructor is handed is not the object
    return len(set(made_classes(program, func.value, site.scope))) != 1


def _is_module(program: Program, site: CallSite) -> bool:
    """`training.step(state)`: whatever methods are called `step`, this is none of them."""
    assert isinstance(site.call.func, ast.Attribute)
    imported = program.reaching.imported
    return imported.is_import(site.call.func.value, site.scope)


def _own_name(scope: Scope) -> str | None:
    """What methods around call their object."""
    here: Scope | None = scope
    while here is not None and here.self_name is None:
        here = here.parent
    return here.self_name if here is not None else None


def _matters(
    file: str, scope: Scope, names: Sequence[str], calls: list[ast.Call]
) -> bool:
    other = program_of(file)
    assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if other is None:
        return False
    methods = other.graph.methods_named(scope.node.name)
    if any(fits(call, method, True) for method in methods for call in calls):
        return True
    heads = [name.partition(".")[0] for name in names]
    return any(
        fits(call, scope.node, True)
        and all(argument(call, scope, name, True) is not None for name in heads)
        for call in _calls(other, scope.node.name)
    )


def _calls(program: Program, name: str) -> Iterator[ast.Call]:
    """The calls of a method on what nothing in that file resolves."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr == name:
                value = program.values.of(func.value, scope)
                is_known = value.cls is not None or value.foreign is not None
                if not is_known and value.kind in (Kind.UNKNOWN, Kind.MODEL):
                    yield call


__all__ = ["files_in_question", "namesakes"]
