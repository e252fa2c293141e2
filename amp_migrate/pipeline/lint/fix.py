"""Fixes, applied to a fixed point: overlapping ones wait for the next round, and none may bring in
an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.engine import lint
from amp_migrate.pipeline.lint.results import Fixed, Left, Linted
from amp_migrate.rewrite.edits import (
    InsertAfter,
    InsertBefore,
    ReplaceStatement,
)

if TYPE_CHECKING:
    from amp_migrate.rewrite.edits import Edit

# A fix may uncover a mistake that has a fix; more rounds than this mean that two fixes undo each
# other.
ROUNDS = 20


Look = Callable[[str], Linted]

Mended = tuple[str, list[Finding], list[Left]]
"""The new text, what was mended in it, and what could not be."""

Mend = Callable[[str, str, Settings, Sequence[Finding], Linted], Mended]


class NotFixedError(Exception):
    """A fix cannot be made; the message says why."""


def fix(
    text: str,
    path: str,
    settings: Settings,
    unsafe: bool,
    look: Look | None = None,
    migrate: Mend | None = None,
) -> Fixed:
    """Mend `text` with safe fixes, and with `unsafe` the others, until a round finds nothing to
    do.

    `look` lints a text in the place of this one; by default, by itself. `migrate` mends loops
    without AMP, see `by_migration`; without it they stay as they are.
    """
    look = look or partial(lint, path=path, settings=settings)
    applied: list[Finding] = []
    left: list[Left] = []
    linted = look(text)
    for _ in range(ROUNDS):
        wanted = [
            one
            for one in linted.findings
            if one.fix and (unsafe or one.fix.safety == "safe")
        ]
        new, done, left = _round(
            text, path, settings, wanted, linted, unsafe, migrate
        )
        if new == text:
            break
        applied += done
        text, linted = new, look(new)
    return Fixed(text, tuple(applied), tuple(left), linted)


def _round(
    text: str,
    path: str,
    settings: Settings,
    wanted: Sequence[Finding],
    linted: Linted,
    unsafe: bool,
    migrate: Mend | None,
) -> Mended:
    """Edits first; comments only where none is left, since edits move them; the migration last of
    all.
    """
    edits = [one for one in wanted if one.fix and one.fix.edits]
    comments = [one for one in wanted if one.fix and one.fix.comments]
    loops = [one for one in wanted if one.fix and one.fix.migrates]
    left: list[Left] = []
    for some, mend in (
        (edits, partial(_edited, careful=not unsafe)),
        (comments, _commented),
        (loops, migrate),
    ):
        if some and mend is not None:
            new, done, more = mend(text, path, settings, some, linted)
            left += more
            if new != text:
                return new, done, left
    return text, [], left


def _edited(
    text: str,
    path: str,
    settings: Settings,
    wanted: Sequence[Finding],
    linted: Linted,
    careful: bool,
) -> Mended:
    """All at once where they get on with each other, else as many as do, in source order."""
    try:
        return _applied(text, path, settings, wanted, careful), list(wanted), []
    except NotFixedError as error:
        if len(wanted) == 1:
            return text, [], [Left(wanted[0], str(error))]
    new, done, left = text, list[Finding](), list[Left]()
    for one in wanted:
        try:
            new = _applied(text, path, settings, [*done, one], careful)
            done.append(one)
        except NotFixedError as error:
            left.append(Left(one, str(error)))
    return new, done, left


def _applied(
    text: str,
    path: str,
    settings: Settings,
    fixes: Sequence[Finding],
    careful: bool,
) -> str:
    from amp_migrate.rewrite.writer import (
        EditConflict,
        SpanNotFound,
        UnparsableModule,
        WriteError,
        apply,
    )

    wanted: list[Edit] = [
        edit for one in fixes if one.fix for edit in one.fix.edits
    ]
    edits = list(
        dict.fromkeys(wanted)
    )  # several findings may ask for the same move
    _moves_once(edits)
    try:
        new = apply(text, edits)
    except EditConflict as error:
        raise NotFixedError(f"it overlaps with another fix: {error}") from error
    except (SpanNotFound, UnparsableModule, WriteError) as error:
        raise NotFixedError(str(error)) from error
    _prove(text, new, path, settings, careful)
    return new


def _moves_once(edits: Sequence[Edit]) -> None:
    """What is taken out of its place is put back in one place only, or it would run twice."""
    gone = {edit.target for edit in edits if isinstance(edit, ReplaceStatement)}
    put = Counter(
        part
        for edit in edits
        if isinstance(edit, (InsertAfter, InsertBefore, ReplaceStatement))
        for template in edit.statements
        for part in template.parts
    )
    if any(put[span] > 1 for span in gone):
        raise NotFixedError("two fixes would move the same statement")


def _prove(
    text: str, new: str, path: str, settings: Settings, careful: bool
) -> None:
    """The new text must compile and hold no mistake that the old one lacks; what is mended without
    asking loses no comment.
    """
    import warnings

    from amp_migrate.pipeline.new_findings import RuleFailedError, brought_in
    from amp_migrate.rewrite.proof import comments, step_counts

    lost = comments.comments_of(text) - comments.comments_of(new)
    if careful and lost:
        raise NotFixedError(
            f"it would drop the comment `{next(iter(lost))}`: fix this by hand, or with "
            "--unsafe-fixes"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(new, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotFixedError(f"the result would not compile: {error}") from error
    try:
        worse = brought_in(text, new, path, settings)
    except RuleFailedError as error:
        raise NotFixedError(f"{error}; please report it") from error
    if worse:
        raise NotFixedError(
            f"the result would break {worse[0].rule} in line {worse[0].line}"
        )
    wrong = step_counts.miscounted(text, new, path)
    if wrong is not None:
        raise NotFixedError(f"in the result {wrong}")


def _commented(
    text: str,
    path: str,
    settings: Settings,
    wanted: Sequence[Finding],
    linted: Linted,
) -> Mended:
    data = text.encode()
    changes = {
        change for one in wanted if one.fix for change in one.fix.comments
    }
    for span, new in sorted(changes, reverse=True):
        data = data[: span.start] + new.encode() + data[span.end :]
    return data.decode(), list(wanted), []
