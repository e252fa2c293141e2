"""One judgement for both: the migrator asks the linter whether its output holds a mistake that the
original lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from amp_migrate.checks import all_checks
from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.model.budget import BudgetEndedError, at_most, for_loop
from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.program import Program
from amp_migrate.pipeline.lint.engine import names_amp


class RuleFailedError(Exception):
    """A rule failed on an output, so that nothing shows that the output keeps it."""


def brought_in(
    original: str,
    output: str,
    path: str,
    settings: Settings,
    program: Program | None = None,
) -> list[Finding]:
    """Findings of severity error in `output` beyond those in `original`, matched by rule and
    scope. `program` is the model of the output, where there is one; the original is then seen
    with the same neighbours. Raises RuleFailedError.
    """
    failed: list[str] = []
    after = _errors(output, path, settings, failed, program)
    if failed:
        raise RuleFailedError(
            f"{path}: the rule {failed[0]} failed on the output"
        )
    if not after:
        return []
    neighbours = program.module.neighbours if program is not None else None
    before = Counter(
        _key(one)
        for one in _errors(original, path, settings, [], None, neighbours)
    )
    new = []
    for finding in after:
        key = _key(finding)
        if before[key]:
            before[key] -= 1
        else:
            new.append(finding)
    return new


def confirmed(
    found: Sequence[Finding], whole: Program, settings: Settings
) -> list[Finding]:
    """Those findings of one file that the program shows, too, of which the file is a part: what a
    rule asks for (the class of an optimizer, the type of a model) may stand in another one. A rule
    that cannot follow the program keeps what it found.
    """
    rules = {one.rule for one in found}
    followed: set[str] = set()
    told: set[tuple[str, str, str]] = set()
    for check in all_checks():
        if check.rule.name not in rules:
            continue
        try:
            with at_most(for_loop(whole.module.text)):
                shown = list(check.run(whole, _plain(settings)))
        except BudgetEndedError:
            continue
        followed.add(check.rule.name)
        told |= {(one.path, *_key(one)) for one in shown}
    return [
        one
        for one in found
        if one.rule not in followed or (one.path, *_key(one)) in told
    ]


def _key(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.scope


def _errors(
    text: str,
    path: str,
    settings: Settings,
    failed: list[str],
    program: Program | None = None,
    neighbours: Neighbours | None = None,
) -> list[Finding]:
    """What the default rules of severity error find; those that fail are noted."""
    if not names_amp(text):
        return []
    try:
        program = program or Program(text, path, neighbours)
    except (SyntaxError, ValueError, RecursionError):
        return []
    plain = _plain(settings)
    found = []
    for check in all_checks():
        rule = check.rule
        if (
            rule.default
            and rule.severity == "error"
            and rule.applies(settings.target_torch)
        ):
            try:
                found += list(check.run(program, plain))
            except BudgetEndedError:
                raise
            except Exception as error:
                failed.append(f"{rule.name} ({type(error).__name__}: {error})")
    return found


def _plain(settings: Settings) -> Settings:
    """Settings under which no rule is switched off."""
    return settings._replace(
        select=(), ignore=(), extend_select=(), per_file_ignores=()
    )
