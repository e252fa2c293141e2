"""What a rule is, and what it finds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Module
    from amp_migrate.model.syntax.span import Span
    from amp_migrate.rewrite.edits import Edit

Severity: TypeAlias = Literal["error", "warning", "info"]
Safety: TypeAlias = Literal["safe", "unsafe"]
Place: TypeAlias = ast.stmt | ast.expr | ast.alias
Version: TypeAlias = tuple[int, int]
Related: TypeAlias = tuple[int, int, str]
"""1-based line and column, and what is there: `(41, 9, "scaled here")`."""

CURRENT_TORCH: Version = (2, 13)
"""Assumed where neither the user nor the project names a version."""


class Rule(NamedTuple):
    """The facts of a rule; its page says the same, and a test compares them."""

    name: str
    severity: Severity
    default: bool = True
    since: Version | None = None
    """The rule is silent where the project's oldest torch is older than this."""
    until: Version | None = None
    """The rule is silent where the project's oldest torch is newer than this (it is about old
    torch).
    """
    without_amp: bool = False
    """The rule concerns files that name neither autocast nor a scaler, too."""
    by_file: bool = False
    """The rule is about each file by itself: the planner, which it asks, looks for others."""

    not_for_tests: bool = False
    """The rule is silent in tests, which train little and on purpose, unless it is selected."""

    def applies(self, target: Version | None) -> bool:
        """Whether the rule concerns a project whose oldest torch is `target` (None: the current
        one).
        """
        version = target or CURRENT_TORCH
        return (self.since is None or version >= self.since) and (
            self.until is None or version <= self.until
        )


class Fix(NamedTuple):
    """How to mend a finding. `unsafe` ones change what is computed, or guess; `message` says what
    they do and why.
    """

    safety: Safety
    message: str
    edits: tuple[Edit, ...] = ()
    migrates: bool = False
    """The fix is the migration of the file, with all the proofs that belong to it, instead of
    `edits`.
    """
    comments: tuple[tuple[Span, str], ...] = ()
    """New text for byte ranges inside comments, which no edit reaches."""
    since: Version | None = None
    """The oldest torch that knows what is written: the fix is unsafe where the project may run on
    an older one, or does not say.
    """

    def under(self, target: Version | None) -> Fix:
        """The fix for a project whose oldest torch is `target`."""
        if self.since is None or (target is not None and target >= self.since):
            return self
        return self._replace(safety="unsafe")


class Finding(NamedTuple):
    """One mistake, where it is written. Lines and columns are 1-based, columns in characters; the
    end is exclusive.
    """

    rule: str
    message: str
    """The consequence in a few words, and what to write instead."""
    severity: Severity
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    scope: str = "<module>"
    """Dotted name of the function or class around, for baselines."""
    cell: int | None = None
    """In a notebook: the cell, 1-based among all cells; lines are then lines in it."""


def finding_at(
    program: Program,
    node: Place,
    rule: Rule,
    message: str,
    *,
    related: Sequence[tuple[Place, str]] = (),
    fix: Fix | None = None,
) -> Finding:
    """A finding of `rule` at `node`; of a compound statement or a definition, only the first line
    is meant.

    `related` are the places that it conflicts with, each with a few words (`"scaled here"`).
    """
    file = _file(program, node)
    line, column = position(program, node)
    end_line, end_column = _end(program, node)
    here = [
        (other, text)
        for other, text in related
        if _file(program, other) is file
    ]
    return Finding(
        rule.name,
        message,
        rule.severity,
        file.path,
        line,
        column,
        end_line,
        end_column,
        tuple((*position(program, other), text) for other, text in here),
        fix,
        program.module.scope_of(node).qualname,
    )


def position(program: Program, node: Place) -> tuple[int, int]:
    """1-based line and column, in characters, of the start of `node`."""
    return node.lineno, _column(program, node, node.lineno, node.col_offset)


def _file(program: Program, node: ast.AST) -> Module:
    """The file that holds `node`, of a program that may be several."""
    return program.module.scope_of(node).module


def _end(program: Program, node: Place) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    if isinstance(getattr(node, "body", None), list):
        return node.lineno, len(_file(program, node).line(node.lineno)) + 1
    return node.end_lineno, _column(
        program, node, node.end_lineno, node.end_col_offset
    )


def _column(program: Program, node: Place, line: int, offset: int) -> int:
    """`ast` counts bytes of UTF-8, people count characters."""
    text = _file(program, node).line(line)
    return (
        offset + 1
        if text.isascii()
        else len(text.encode()[:offset].decode(errors="replace")) + 1
    )
