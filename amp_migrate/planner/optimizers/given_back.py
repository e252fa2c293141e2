"""Optimizers that code out of sight is handed, and of which it gives back what it likes:
`model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer)`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.dataflow.sources import Part, held
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import optimizers as library_optimizers

_HOPS = 4
_ATTACHING = frozenset(
    row.name.partition(".")[0]
    for row in library_optimizers.OPTIMIZERS
    if row.attaches
)


def given_back(
    program: Program, optimizer: ast.expr, scope: Scope
) -> ast.Call | None:
    """The call that may have made what a step finds, of the optimizer that is known."""
    wanted: list[Part] = [(program, optimizer, scope)]
    seen = {optimizer}
    for _ in range(_HOPS):
        found = [
            one
            for home, expr, where in wanted
            if isinstance(expr, (ast.Name, ast.Attribute))
            for one in held(home, expr, where)
        ]
        wanted = [one for one in found if one[1] not in seen]
        seen.update(expr for _, expr, _ in wanted)
        for home, expr, where in wanted:
            if isinstance(expr, ast.Call) and _hides(home, expr, where):
                return expr
    return None


def _hides(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call that is handed an optimizer runs code that nobody sees. A class is told by
    what it is called.
    """
    values = program.values
    last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        last = call.func.id
    is_builtin = isinstance(call.func, ast.Name) and hasattr(builtins, last)
    if last[:1].isupper() or is_builtin and scope.lookup(last) is None:
        return False
    given = [*call.args, *(one.value for one in call.keywords)]
    if not any(values.kind(one, scope) is Kind.OPTIMIZER for one in given):
        return False
    if values.of(call, scope) or values.callees(call, scope):
        return False
    is_abroad = values.abroad(call.func, scope) is not None
    return not is_abroad and body_abroad(program, call, scope) is None


def attached(
    program: Program, optimizer: ast.expr, scope: Scope
) -> ast.Call | None:
    """`PrivacyEngine(model).attach(optimizer)`, by which a library that GradScaler cannot drive
    puts a step of its own in the place of the optimizer's.
    """
    values = program.values
    origin = values.of(optimizer, scope).origin
    if origin is None:
        return None
    for call, where in program.remembered(
        attached, lambda: list(_of_libraries(program))
    ):
        given = [*call.args, *(one.value for one in call.keywords)]
        if any(values.of(one, where).origin is origin for one in given):
            return call
    return None


def _of_libraries(program: Program) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls of methods of what such a library makes."""
    files = program.module.files
    named = {one for file in files for one in file.imports.names.values()}
    if not any(one.partition(".")[0] in _ATTACHING for one in named):
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not isinstance(call.func, ast.Attribute):
                continue
            makers = _makers(program, call.func.value, scope)
            if any(map(_is_undriven, makers)):
                yield call, scope


def _makers(
    program: Program, holder: ast.expr, scope: Scope
) -> Iterator[str | None]:
    """What makes an object, by its full name."""
    made = [holder]
    if isinstance(holder, (ast.Name, ast.Attribute)):
        made = [value for _, value, _ in held(program, holder, scope)]
    for one in made:
        if isinstance(one, ast.Call):
            yield program.canonical(one.func)


def _is_undriven(maker: str | None) -> bool:
    row = library_optimizers.optimizer(maker)
    return row is not None and row.attaches
