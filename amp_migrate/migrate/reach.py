"""What a run of statements leads to: functions and models' `forward`s in this module, and in others of the project."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from amp_migrate.model.kinds import Kind, Value
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope, shallow


def reachable(program: Program, statements: list[ast.stmt], scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    """Every node of the statements and of the functions in sight that they run, models' `forward` included."""
    seen: set[int] = set()
    wanted: deque[tuple[ast.AST, Scope]] = deque((s, scope) for s in statements)
    while wanted:
        root, where = wanted.popleft()
        for node in shallow(root):
            yield node, where
            if isinstance(node, ast.Call):
                for function in _targets(program, node, where):
                    if id(function) not in seen:
                        seen.add(id(function))
                        wanted.extend((s, program.scope(function)) for s in function.body)


def abroad(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> Iterator[tuple[Program, Function, ast.Call | None]]:
    """Functions of other modules of the project that the statements run, transitively; with the call of those called directly."""
    seen: set[int] = set()
    wanted = [(program, statements, scope, 0)]
    while wanted:
        where, block, inside, depth = wanted.pop()
        for other, function, call in _next_abroad(where, block, inside):
            if id(function) not in seen and depth < 4:
                seen.add(id(function))
                yield other, function, call if depth == 0 else None
                wanted.append((other, function.body, other.scope(function), depth + 1))


def _next_abroad(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> Iterator[tuple[Program, Function, ast.Call | None]]:
    """One import further: imported functions that are called, and `forward` of imported classes."""
    for node, where in reachable(program, statements, scope):
        if not isinstance(node, ast.Call):
            continue
        definition = program.values.abroad(node.func, where)
        if definition is not None and not isinstance(definition[1], ast.ClassDef):
            yield definition[0], definition[1], node
        for value in _run(program, node, where):
            if value.foreign is not None:
                yield from ((value.foreign[0], f, None) for f in _forwards(*value.foreign))


def _targets(program: Program, call: ast.Call, scope: Scope) -> Iterator[Function]:
    function = program.values.callee(call, scope)
    if function is not None:
        yield function
    value, *handed = _run(program, call, scope)
    classes = [v.cls for v in (value, *handed) if v.cls is not None]
    if value.kind is Kind.MODEL and value.origin is not None:
        classes += [
            c for n in ast.walk(value.origin) if isinstance(n, ast.Name) and (c := program.graph.class_named(n, scope))
        ]
    for cls in classes:
        yield from _forwards(program, cls)


def _run(program: Program, call: ast.Call, scope: Scope) -> list[Value]:
    """What a call runs, and the modules that it is handed, as `self.compute_loss(self.criterion, outputs, y)` is."""
    given = [*call.args, *(k.value for k in call.keywords)]
    handed = [program.values.of(a, scope) for a in given if isinstance(a, (ast.Name, ast.Attribute))]
    return [program.values.of(call.func, scope), *(v for v in handed if v.kind in (Kind.MODEL, Kind.CRITERION))]


def _forwards(program: Program, cls: ast.ClassDef) -> Iterator[Function]:
    """`forward` of a class and of every module class that its body names (its layers)."""
    yield from program.remembered((_forwards, cls), lambda: list(_found_forwards(program, cls)))


def _found_forwards(program: Program, cls: ast.ClassDef) -> Iterator[Function]:
    scope = program.module.scopes[cls]
    named = [c for n in ast.walk(cls) if isinstance(n, ast.Name) and (c := program.graph.class_named(n, scope))]
    for owner in {id(c): c for c in [cls, *named]}.values():
        for name in ("forward", "__call__"):
            method = program.graph.method(owner, name)
            if isinstance(method, FUNCTIONS):
                yield method
