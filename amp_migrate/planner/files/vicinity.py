"""What surrounds a loop: the functions that it runs, those that run it, and their files."""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import fits
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Module, Scope


def files_near(program: Program, scope: Scope) -> list[Module]:
    """The files that hold a loop, what it runs and what runs it; of a program of many files the
    others say nothing of it.
    """
    if len(program.module.files) == 1:
        return list(program.module.files)

    def near() -> list[Module]:
        nodes = [*reach_of(program, scope), *callers_of_scope(program, scope)]
        return list(
            {
                id(m): m
                for m in (program.module.scopes[node].module for node in nodes)
            }.values()
        )

    return program.remembered((files_near, scope), near)


def callers_of_scope(program: Program, scope: Scope) -> tuple[ast.AST, ...]:
    """Functions that lead to this scope, transitively; those around one lead to it, too, where they
    make it for others to call. Found once: several parts of a plan ask.
    """
    return program.remembered(
        (callers_of_scope, scope), lambda: tuple(_callers(program, scope))
    )


def _callers(program: Program, scope: Scope) -> list[ast.AST]:
    found: dict[int, ast.AST] = {}
    wanted: list[ast.AST] = [scope.node]
    while wanted:
        node = wanted.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        if isinstance(node, FUNCTIONS):
            wanted.extend(
                site.scope.node
                for site in program.graph.sites(node)
                if _may_run(program, site, node)
            )
            wanted.extend(
                program.module.scope_of(mention).node
                for mention in program.graph.mentions(node)
            )
            around = program.scope(node).parent
            if around is not None and isinstance(around.node, FUNCTIONS):
                wanted.append(around.node)
    return list(found.values())


def _may_run(program: Program, site: CallSite, function: Function) -> bool:
    """Whether a call of a method's name takes what the method needs: `bar.update(1)` is none of
    `Model.update(self, images, targets)`.
    """
    func = site.call.func
    if not isinstance(func, ast.Attribute) or not site.bound:
        return True
    if function.decorator_list:
        return True
    if program.values.callee(site.call, site.scope) is not None:
        return True
    if program.graph.class_named(func.value, site.scope) is not None:
        return True  # `Model.update(model, images, targets)`
    return fits(site.call, function, True)


def reach_of(program: Program, scope: Scope) -> tuple[ast.AST, ...]:
    """The scope and the functions in sight that it calls, transitively."""
    return program.remembered(
        (reach_of, scope), lambda: tuple(_reached(program, scope))
    )


def _reached(program: Program, scope: Scope) -> list[ast.AST]:
    found: dict[int, ast.AST] = {id(scope.node): scope.node}
    wanted = [scope]
    while wanted:
        here = wanted.pop()
        for call in here.calls:
            function: Function | None = program.values.callee(call, here)
            if function is not None and id(function) not in found:
                found[id(function)] = function
                wanted.append(program.scope(function))
    return list(found.values())
