"""Several files through the rules as one program."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.engine import run
from amp_migrate.pipeline.lint.results import Crash
from amp_migrate.pipeline.lint.selection import selected
from amp_migrate.records import NamedTuple

Findings = tuple[Finding, ...]


class Company(NamedTuple):
    """The files that a module is linted with: their texts by path, and what the rules said."""

    texts: Mapping[str, str] = MappingProxyType({})
    findings: Findings | None = None
    """Of the program as it stands on disk; None where it cannot be followed as a whole."""
    crashes: tuple[Crash, ...] = ()
    """Rules that failed on the program."""

    def joint(
        self, text: str, path: str, settings: Settings
    ) -> Findings | None:
        """What the rules say of the module at `path`, were this its text; None where it is to be
        linted alone.
        """
        if self.findings is None or path not in self.texts:
            return None
        now = self
        if self.texts[path] != text:
            now = lint_together(
                {path: text} | {**self.texts, path: text}, settings
            )
            if now.findings is None:
                return None
        assert now.findings is not None
        return tuple(one for one in now.findings if one.path == path)


NO_COMPANY = Company()


def lint_together(texts: Mapping[str, str], settings: Settings) -> Company:
    """Lint the files of a program, by path, the first one foremost. Those that do not parse are
    left out.
    """
    from amp_migrate.model.files.linking import LinkedProgram
    from amp_migrate.protocol.mistakes import explored

    company, readable = Company(dict(texts)), dict(texts)
    while len(readable) > 1:
        try:
            program = LinkedProgram(readable)
        except SyntaxError as error:
            if error.filename not in readable:
                return company
            del readable[error.filename]
            continue
        except (ValueError, RecursionError, MemoryError):
            return company
        crashes: list[Crash] = []
        checks = [c for c in selected(settings, "") if not c.rule.by_file]
        findings = [
            one
            for check in checks
            for one in run(check, program, settings, crashes)
        ]
        if crashes or not explored(program):
            return company._replace(crashes=tuple(crashes))
        return company._replace(findings=tuple(findings))
    return company
