"""One module through the rules: model, checks, suppression, and what is wrong with the
suppressions.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from amp_migrate.checks._finding import Finding, Fix, Rule
from amp_migrate.config import Settings
from amp_migrate.model.budget import (
    BudgetEndedError,
    at_most,
    for_loop,
    given_up,
)
from amp_migrate.pipeline.lint.results import Crash, Linted
from amp_migrate.pipeline.lint.selection import selected, unknown
from amp_migrate.project.prefilter import AMP_WORDS

if TYPE_CHECKING:
    from amp_migrate.checks import Check
    from amp_migrate.model.program import Program
    from amp_migrate.pipeline.lint import suppress
    from amp_migrate.project.module_graph import Project

_MARK = "amp-migrate:"
"""What every ignore comment holds."""
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def names_amp(text: str) -> bool:
    """Whether a module can hold a word of AMP at all; a byte search, since most files do not."""
    return any(word in text for word in AMP_WORDS) or (
        "ightning" in text and "precision" in text
    )


def concerns(text: str) -> bool:
    """Whether any rule can have something to say about a module."""
    return (
        "backward" in text
        or _MARK in text
        or names_amp(text)
        or _makes_trainer(text)
    )


def _makes_trainer(text: str) -> bool:
    from amp_migrate.model.autocast.frameworks import names_framework

    return names_framework(text)


def lint(
    text: str,
    path: str,
    settings: Settings,
    relative: str | None = None,
    project: Project | None = None,
    joint: tuple[Finding, ...] | None = None,
) -> Linted:
    """Lint one module; never raises for what is wrong with it or with a rule.

    `text` has no byte order mark. `relative` is the path below the settings file's folder, for
    per-file ignores. `project` is the tree around the module, `joint` what the rules of mixed
    precision say of it as a part of a program of several files.
    """
    checks = selected(settings, relative or path)
    try:
        program = _read(text, path, bool(joint))
    except _UNREADABLE as error:
        return Linted(tuple(_unparsable(error, path, checks)))
    if program is None:
        return Linted()
    program.project = project
    crashes: list[Crash] = []
    if joint is not None:
        found = _joint(program, checks, joint, settings, crashes)
    else:
        is_named = names_amp(text)
        found = [
            finding
            for check in checks
            if is_named or check.rule.without_amp
            for finding in run(check, program, settings, crashes)
        ]
    linted = _suppressed(text, program, checks, found, crashes)
    return linted._replace(notes=tuple(_notes(program)))


def _joint(
    program: Program,
    checks: Iterable[Check],
    joint: tuple[Finding, ...],
    settings: Settings,
    crashes: list[Crash],
) -> list[Finding]:
    """What the program of several files shows, with the fixes that the module by itself allows."""
    told = {one.rule for one in joint}
    own = {
        check: run(check, program, settings, crashes)
        for check in checks
        if check.rule.by_file or check.rule.name in told
    }
    fixes = {
        (one.rule, one.line, one.column): one.fix
        for found in own.values()
        for one in found
    }
    wanted = {check.rule.name for check in own}
    return [
        one
        for check, found in own.items()
        if check.rule.by_file
        for one in found
    ] + [
        one._replace(fix=fixes.get((one.rule, one.line, one.column)))
        for one in joint
        if one.rule in wanted
    ]


def _notes(program: Program) -> Iterator[str]:
    """What was not looked at: the steps of a file with more paths than can be followed, and what
    rules gave up.
    """
    from amp_migrate.protocol.mistakes import explored

    if not explored(program):
        path = program.module.path
        yield (
            f"{path}: too many paths lead through its training steps; the rules about the order "
            "of backward, unscale_, step and update have not followed all of them"
        )
    if rules := given_up(program):
        yield (
            f"{program.module.path}: it leads to more than can be followed; nothing was looked for "
            f"by {_listed(rules)}"
        )


def _read(text: str, path: str, wanted: bool = False) -> Program | None:
    """The model of a module, or None where no rule can have anything to say about it beyond its
    syntax; `wanted`: one has.
    """
    if not wanted and not concerns(text):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
        return None
    from amp_migrate.model.program import Program

    return Program(text, path)


def run(
    check: Check, program: Program, settings: Settings, crashes: list[Crash]
) -> list[Finding]:
    """What one rule finds; where it fails, that is kept in `crashes`."""
    try:
        with at_most(for_loop(program.module.text)):
            found = list(check.run(program, settings))
        return [_for_target(one, settings) for one in found]
    except BudgetEndedError:
        given_up(program).append(check.rule.name)
        return []
    except Exception:  # one rule's mishap must not cost the others
        import traceback

        crashes.append(
            Crash(check.rule.name, program.module.path, traceback.format_exc())
        )
        return []


def _for_target(finding: Finding, settings: Settings) -> Finding:
    fix = finding.fix
    return (
        finding
        if fix is None
        else finding._replace(fix=fix.under(settings.target_torch))
    )


def _suppressed(
    text: str,
    program: Program,
    checks: Iterable[Check],
    found: list[Finding],
    crashes: list[Crash],
) -> Linted:
    if _MARK not in text:
        return Linted(tuple(sorted(set(found), key=_order)), tuple(crashes))
    from amp_migrate.pipeline.lint import suppress

    ignores = suppress.read(text)
    failed = {crash.rule for crash in crashes}
    told = [one for one in found if not suppress.is_suppressed(one, ignores)]
    for finding in list(_unused(text, program, ignores, checks, failed)):
        if not suppress.is_suppressed(finding, ignores):
            told.append(finding)
    silenced = frozenset(rule for ignore in ignores for rule in ignore.used)
    findings = tuple(sorted(set(told), key=_order))
    return Linted(findings, tuple(crashes), silenced)


def _order(finding: Finding) -> tuple[int, int, str, str]:
    return finding.line, finding.column, finding.rule, finding.message


def _unused(
    text: str,
    program: Program,
    ignores: list[suppress.Ignore],
    checks: Iterable[Check],
    failed: Collection[str],
) -> Iterator[Finding]:
    """Ignored rules that were looked for and did not report anything; those that are not selected
    are left alone.
    """
    judged = {check.rule.name: check.rule for check in checks}
    rule = judged.get("unused-ignore")
    if rule is None:
        return
    looked_for = judged.keys() - failed - {rule.name}
    for ignore in ignores:
        strange = unknown(ignore.rules)
        idle = [
            name
            for name in ignore.rules
            if name in looked_for and name not in ignore.used
        ]
        if not ignore.rules or strange or idle:
            message = _unused_message(ignore, strange, idle)
            fix = _without(ignore, [*strange, *idle], text)
            yield _at(ignore, rule, message, program.module.path, fix)


def _without(ignore: suppress.Ignore, names: list[str], text: str) -> Fix:
    from amp_migrate.pipeline.lint import suppress

    comment = suppress.without(ignore, names, text)
    return Fix("safe", "remove what is not needed", comments=(comment,))


def _at(
    ignore: suppress.Ignore, rule: Rule, message: str, path: str, fix: Fix
) -> Finding:
    line, column = ignore.line, ignore.column + 1
    end = column + len(ignore.text)
    return Finding(
        rule.name,
        message,
        rule.severity,
        path,
        line,
        column,
        line,
        end,
        fix=fix,
    )


def _unused_message(
    ignore: suppress.Ignore, strange: list[str], idle: list[str]
) -> str:
    if not ignore.rules:
        return "names no rule, so nothing is ignored: write `ignore[RULE]`"
    said = (
        [
            f"{_listed(strange)} {'is no rule' if len(strange) == 1 else 'are no rules'}"
        ]
        if strange
        else []
    )
    said += (
        [
            f"{_listed(idle)} {'reports' if len(idle) == 1 else 'report'} nothing here"
        ]
        if idle
        else []
    )
    return f"{' and '.join(said)}: remove the comment, or it hides the next mistake on this line"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _unparsable(
    error: BaseException, path: str, checks: Iterable[Check]
) -> Iterator[Finding]:
    rule = next(
        (check.rule for check in checks if check.rule.name == "syntax"), None
    )
    if rule is None:
        return
    line, column, message = _told(error)
    yield Finding(
        rule.name, message, rule.severity, path, line, column, line, column + 1
    )


def _told(error: BaseException) -> tuple[int, int, str]:
    import platform

    if isinstance(error, SyntaxError):
        what = f"{error.msg} (read by Python {platform.python_version()})"
        remedy = (
            "mend it, use the Python it is written for, or exclude the file"
        )
        return error.lineno or 1, max(error.offset or 1, 1), f"{what}: {remedy}"
    if isinstance(error, (RecursionError, MemoryError)):
        return (
            1,
            1,
            "nested too deeply to be read: split its longest expression, or exclude the file",
        )
    place = re.search(r"line (\d+)", str(error))
    return (
        int(place[1]) if place else 1,
        1,
        f"{error}: mend it, or exclude the file",
    )
