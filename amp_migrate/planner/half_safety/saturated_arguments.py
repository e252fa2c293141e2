"""Arguments that come into a logarithm or a division in another file of the project, as where the
losses have a file of their own: a sigmoid that half precision saturates must not come in there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.targets import kept_functions
from amp_migrate.model.half_safety.code_run import Foreign, code_run
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.singular import (
    demanded,
    parameters_behind,
    saturated,
)
from amp_migrate.model.half_safety.trail import Demand
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope, shallow
from amp_migrate.model.tensors.whole_files import all_in
from amp_migrate.planner.half_safety.called_bodies import run_by
from amp_migrate.planner.half_safety.reach import Part, parts

_FILES = 3


def hazards_of(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """What a call hands to other files that half precision has saturated."""
    if asked.float16 and asked.inference.inside(call):
        for given, demand in _given(asked, call, scope, _FILES):
            yield from saturated(asked, call, given, scope, demand)


def _given(
    asked: Asked, call: ast.Call, scope: Scope, files: int
) -> Iterator[tuple[ast.expr, Demand]]:
    """The arguments of a call, with what other files demand of them."""
    program = asked.inference.program
    kept = kept_functions(program, call.func, scope)
    abroad = [
        one for one in run_by(program, call, scope) if one[0] is not program
    ]
    if not abroad and not kept:
        kept = _methods_abroad(program, call, scope)
    for home, inner in (*abroad, *((one, one.scope(f)) for one, f in kept)):
        bound = inner.takes_receiver
        for name, demand in _demands(home, inner, asked.float16, files):
            given = argument(call, inner, name, bound)
            if given is not None:
                yield given, demand


def _methods_abroad(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Foreign, ...]:
    """`model.loss(near, far)` of each class that the model may be of."""
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else None
    found = code_run(program, call, scope).foreign if name else ()
    return tuple(one for one in found if one[1].name == name)


def _demands(
    program: Program, scope: Scope, float16: bool, files: int
) -> tuple[tuple[str, Demand], ...]:
    """What the body of a function demands of its parameters, also for the files behind it."""
    return program.remembered(
        (_demands, scope, float16, files),
        lambda: tuple(dict.fromkeys(_demanded(program, scope, float16, files))),
    )


def _demanded(
    program: Program, scope: Scope, float16: bool, files: int
) -> Iterator[tuple[str, Demand]]:
    """The same, found anew."""
    names = {
        one: name
        for name, found in scope.bindings.items()
        for one in found
        if one.how == "parameter"
    }
    for part in parts(program, scope.body, scope):
        for binding, demand in _wanted(program, part, float16, files):
            if binding in names:
                yield names[binding], demand


def _wanted(
    program: Program, part: Part, float16: bool, files: int
) -> tuple[tuple[Binding, Demand], ...]:
    """What a statement demands of the parameters of whatever functions lead to it."""
    return program.remembered(
        (_wanted, part.root, float16, files),
        lambda: tuple(_wants(program, part, float16, files)),
    )


def _wants(
    program: Program, part: Part, float16: bool, files: int
) -> Iterator[tuple[Binding, Demand]]:
    """The same, found anew."""
    asked = Asked(all_in(program, "float16"), float16)
    for node in shallow(part.root):
        yield from demanded(asked, node, part.scope)
        if isinstance(node, ast.Call) and files > 1:
            for given, demand in _given(asked, node, part.scope, files - 1):
                yield from parameters_behind(asked, given, part.scope, demand)
