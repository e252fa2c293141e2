"""One judgement for both: the migrator asks the linter whether its output holds a mistake that the original lacks."""

from __future__ import annotations

from collections import Counter

from amp_migrate.config import Settings
from amp_migrate.lint.engine import names_amp
from amp_migrate.lint.finding import Finding


def brought_in(original: str, output: str, path: str, settings: Settings) -> list[Finding]:
    """Findings of severity error in `output` beyond those in `original`, matched by rule and scope."""
    after = _errors(output, path, settings)
    if not after:
        return []
    before = Counter(_key(finding) for finding in _errors(original, path, settings))
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


def _errors(text: str, path: str, settings: Settings) -> list[Finding]:
    """What the default rules of severity error find; a rule that fails finds nothing."""
    from amp_migrate.checks import all_checks
    from amp_migrate.model.program import Program

    if not names_amp(text):
        return []
    try:
        program = Program(text, path)
    except (SyntaxError, ValueError, RecursionError):
        return []
    plain = settings._replace(select=(), ignore=(), extend_select=(), per_file_ignores=())
    found = []
    for check in all_checks():
        rule = check.rule
        if rule.default and rule.severity == "error" and rule.applies(settings.target_torch):
            try:
                found += list(check.run(program, plain))
            except Exception:  # noqa: S112 - lint reports it where the rule is run for its own sake
                continue
    return found
