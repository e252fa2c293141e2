"""The `forward`s that stand in other files, whichever way their models are made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.targets import makers
from amp_migrate.model.classes.bases_abroad import (
    method_of,
    run_by,
    with_bases,
)
from amp_migrate.model.classes.factories import behind
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.files.neighbours import Definition
from amp_migrate.model.forwards.model_layers import layers, layers_made
from amp_migrate.model.forwards.own_forwards import own_forwards
from amp_migrate.model.naming.one_of_several import all_abroad
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.values.kinds import Kind, Value
from amp_migrate.planner.half_safety.called_bodies import (
    is_called,
    is_of_tensor,
)

_RUN = (Kind.MODEL, Kind.CRITERION)


def forwards_abroad(
    program: Program, home: Program, cls: ast.ClassDef
) -> Iterator[tuple[Program, Function, None]]:
    """The `forward`s of a class and of its layers, as far as they stand in other files."""
    for where, layer in layers(home, cls):
        yield from _of_layer(program, where, layer)


def made_by_factories(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function, None]]:
    """The `forward`s of what `self.flow` of `self.flow = build_flow(args)` is made of, where it is
    a model of another file.
    """
    if program.values.of(call.func, scope).foreign is None:
        return
    for home, value, _ in held(program, call.func, scope):
        if isinstance(value, ast.Call) and home is program:
            for where, layer in layers_made(program, value):
                yield from _of_layer(program, where, layer)


def _of_layer(
    program: Program, where: Program, layer: ast.ClassDef
) -> Iterator[tuple[Program, Function, None]]:
    """Of one layer, with what the base of its class calls of it."""
    if where is not program:
        yield from ((where, f, None) for f in own_forwards(where, layer))
    inherited = method_of(where, layer, "forward")
    if inherited is not None:
        yield from ((*one, None) for one in run_by(where, layer, inherited))


def part_abroad(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, ast.ClassDef]]:
    """The class of `net` in another file, where `net.head(x)` runs a part that its maker gave it:
    any of its layers.
    """
    part = call.func
    if not isinstance(part, ast.Attribute) or program.values.of(part, scope):
        return
    owner = program.values.of(part.value, scope)
    if owner.kind is Kind.MODEL and owner.foreign is not None:
        if method_of(*owner.foreign, part.attr) is None:
            yield from with_bases(*owner.foreign)


def made_abroad(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, ast.ClassDef]]:
    """The classes of other files that a model or a loss may be of, whichever branch makes it, or
    that the factory of another file names which does.
    """
    kind = program.values.kind(call.func, scope)
    is_open = kind is Kind.UNKNOWN and program.canonical(call.func) is None
    if kind not in _RUN and not is_open or is_of_tensor(call.func):
        return
    for made in makers(program, call.func, scope):
        if isinstance(made, ast.expr) and made in program.module.parents:
            where = program.module.scope_of(made)
            for found in all_abroad(program, made, where):
                for home, one in behind(*_at_home(found)):
                    if isinstance(one, ast.ClassDef) and (
                        not is_open or is_called(home, one)
                    ):
                        yield home, one


def _at_home(found: Definition) -> tuple[Program, Definition]:
    return found[0], found


def with_bases_abroad(
    program: Program, value: Value
) -> Iterator[tuple[Program, ast.ClassDef]]:
    """The class of a model in another file, and the bases of any model there, whose `forward` it
    may inherit.
    """
    own = (program, value.cls) if value.cls is not None else None
    wanted = [one for one in (value.foreign, own) if one is not None]
    yield from dict.fromkeys(
        found for one in wanted for found in with_bases(*one)
    )
