"""`criterion(model(x), y)` becomes `model_output = model(x); criterion(model_output, y)`, on the
same line, before a program is planned: the loss can then leave the region.

What was named so is declared to the proof, which folds it back.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, pairwise

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.span import Span
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.planner.half_safety.naming import Operand, Unnamed
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import Edit, InsertAfter


@dataclass(frozen=True)
class Named:
    """A file with names given, and what the proof is told of them."""

    text: str
    names: frozenset[str] = frozenset()
    losses: frozenset[str] = frozenset()
    """The source of what is called for losses that only compute."""


def named(
    program: Program, unnamed: Iterable[Unnamed]
) -> dict[str, Named] | None:
    """The files of a program by path, with names for what has none; None where something cannot be
    moved as it is written.
    """
    given: dict[str, list[_Given]] = {
        file.path: [] for file in program.module.files
    }
    for one in unnamed:
        file = program.module.file_of(one.statement)
        made = _given(program, file, one) if file is not None else None
        if file is None or made is None:
            return None
        given[file.path].append(made)
    return {
        file.path: _rewritten(file, given[file.path])
        for file in program.module.files
    }


def declared(
    program: Program, plans: Mapping[str, Plan], names: Mapping[str, Named]
) -> dict[str, Plan]:
    """The plans of a program whose files were given names: the proof is told of them, and each
    gets a line.
    """
    found = dict(plans)
    for file in program.module.files:
        given = names.get(file.path, Named(""))
        plan = found[file.path]
        if given.names and plan.edits:
            known = plan.introduced
            hoisted = known.hoisted | given.names
            told = replace(known, hoisted=hoisted, losses=given.losses)
            parted = [*plan.edits, *_lines(program, file, given.names)]
            found[file.path] = replace(plan, edits=parted, introduced=told)
    return found


def _lines(
    program: Program, file: Module, names: frozenset[str]
) -> Iterator[Edit]:
    """The end of a line after each name that is followed by another one."""
    made = [
        binding.statement
        for scope in program.module.scopes.values()
        for name in names
        for binding in scope.bindings.get(name, ())
        if scope.module is file and isinstance(binding.statement, ast.Assign)
    ]
    made.sort(key=lambda one: (one.lineno, one.col_offset))
    for first, second in pairwise(made):
        if first.lineno == second.lineno:
            yield InsertAfter(_span(program, first), ())


class _Given(NamedTuple):
    """The names that one statement was given."""

    changes: tuple[tuple[Span, str], ...]
    """Bytes of its file, and what stands there instead."""
    names: frozenset[str]
    losses: frozenset[str]


def _given(program: Program, file: Module, one: Unnamed) -> _Given | None:
    taken: list[str] = []
    before, changes = "", []
    for operand in one.operands:
        text = program.module.source(operand.expr)
        if "\n" in text:
            return None
        name = _name(operand, {*file.identifiers, *taken})
        taken.append(name)
        before += f"{name} = {text}; "
        changes.append((_span(program, operand.expr), name))
    start = _span(program, one.statement).start
    changes.append((Span(start, start), before))
    return _Given(tuple(changes), frozenset(taken), one.losses)


def _rewritten(file: Module, given: Sequence[_Given]) -> Named:
    data = file.text.encode()
    changes = [change for one in given for change in one.changes]
    for span, new in sorted(changes, reverse=True):
        data = data[: span.start] + new.encode() + data[span.end :]
    names = frozenset().union(*(one.names for one in given))
    losses = frozenset().union(*(one.losses for one in given))
    return Named(data.decode(), names, losses)


def _span(program: Program, node: ast.stmt | ast.expr) -> Span:
    """Its bytes in its own file."""
    span = program.module.span(node)
    base = program.module.place(span)[1]
    return Span(span.start - base, span.end - base)


def _name(operand: Operand, taken: Container[str]) -> str:
    """`discriminator_output` for what the model of that name gives."""
    parts = (dotted_name(operand.model.func) or "").split(".")
    own = [part for part in parts if part not in ("", "self", "forward")]
    base = f"{own[-1]}_output" if own else "output"
    numbered = (f"{base}_{number}" for number in count(2))
    return next(n for n in chain([base], numbered) if n not in taken)
