"""One judgement for both: the migrator asks the linter whether its output holds a mistake that the
original lacks.
"""

from __future__ import annotations

from collections import Counter

from amp_migrate.checks import all_checks
from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.model.budget import BudgetEndedError
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
    plain = settings._replace(
        select=(), ignore=(), extend_select=(), per_file_ignores=()
    )
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
