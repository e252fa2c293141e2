"""One file through the linter: bytes, text, findings, and with fixes bytes again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from amp_migrate.config import Settings
from amp_migrate.lint.engine import Crash, Linted
from amp_migrate.lint.finding import Finding
from amp_migrate.lint.fixing import Fixed, Left
from amp_migrate.lint.target import target_for
from amp_migrate.source.errors import SourceError, reading
from amp_migrate.source.prefilter import is_notebook, may_train
from amp_migrate.telling import shown

Place: TypeAlias = tuple[int | None, int]
"""Cell, where the file is a notebook, and line."""

_AMP = (b"autocast", b"GradScaler", b"grad_scaler", b".amp", b"apex", b"custom_fwd", b"custom_bwd", b"amp-migrate:")


@dataclass(frozen=True)
class Options:
    """How files are linted; `folder` is where the settings file is, which its patterns are relative to."""

    settings: Settings
    folder: Path
    fix: bool = False
    unsafe: bool = False


class Report(NamedTuple):
    """What became of one file."""

    path: str
    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    lines: tuple[tuple[Place, str], ...] = ()
    """Place and text of the lines that findings show."""
    applied: tuple[Finding, ...] = ()
    left: tuple[Left, ...] = ()
    before: bytes = b""
    after: bytes = b""
    """The file's bytes, where fixes change them."""
    encoding: str = "utf-8"

    def line(self, finding: Finding) -> str:
        """The text of the line that a finding is in."""
        return dict(self.lines).get((finding.cell, finding.line), "")


def concerns(data: bytes, path: str) -> bool:
    """Whether any rule can have something to say about a file; false alarms cost time, missed alarms a finding."""
    return may_train(data, is_notebook(path)) or any(word in data for word in _AMP)


def sift(path: Path) -> Report | int:
    """Settle a file that needs no parser; the size in bytes of one that does."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return unreadable(shown(path), reading(error))
    return len(data) if concerns(data, path.name) else Report(shown(path))


def unreadable(path: str, error: SourceError) -> Report:
    """A file that cannot be processed is a finding, so that no report passes it over."""
    line, column = max(error.line, 1), max(error.column, 1)
    finding = Finding("syntax", str(error), "error", path, line, column, line, column + 1)
    return Report(path, (finding,))


def lint_file(path: Path, options: Options) -> Report:
    """Lint the file at `path`; never raises for what is wrong with the file or with a rule."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return unreadable(shown(path), reading(error))
    return lint_bytes(shown(path), data, options)


def lint_bytes(path: str, data: bytes, options: Options) -> Report:
    """Lint `data`, the content of a module called `path`."""
    from amp_migrate.source.text import decode

    try:
        source = decode(data, path)
    except SourceError as error:
        return unreadable(path, error)
    settings = _with_target(path, options)
    relative = _relative(path, options.folder)
    try:
        fixed = _linted(source.text, path, settings, relative, options)
        after = source.encode(fixed.text)
    except SourceError as error:
        return unreadable(path, error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # one file's mishap must not cost the others; a panic in LibCST is no Exception
        return _crashed(path, error)
    report = Report(path, fixed.linted.findings, fixed.linted.crashes, applied=fixed.applied, left=fixed.left)
    report = report._replace(lines=_lines(fixed.text, fixed.linted.findings), encoding=source.encoding)
    if is_notebook(path):
        from amp_migrate.lint.cells import by_cell

        report = by_cell(report, fixed.text, after, settings, relative)
    return report if after == data else report._replace(before=data, after=after)


def _linted(text: str, path: str, settings: Settings, relative: str, options: Options) -> Fixed:
    if options.fix:
        from amp_migrate.lint.fixing import fix

        return fix(text, path, settings, options.unsafe, relative)
    from amp_migrate.lint.engine import lint

    return Fixed(text, (), (), lint(text, path, settings, relative))


def _with_target(path: str, options: Options) -> Settings:
    settings = options.settings
    if settings.target_torch is not None:
        return settings
    found = target_for(Path(path).absolute().parent, options.folder)
    return settings._replace(target_torch=found) if found else settings


def _relative(path: str, folder: Path) -> str:
    absolute = Path(path).absolute()
    try:
        return absolute.relative_to(folder).as_posix()
    except ValueError:
        return os.path.relpath(absolute, folder) if absolute.drive == folder.drive else path


def _lines(text: str, findings: Iterable[Finding]) -> tuple[tuple[Place, str], ...]:
    wanted = sorted({one.line for one in findings})
    if not wanted:
        return ()
    lines = text.encode().splitlines()
    return tuple(((None, number), lines[number - 1].decode()) for number in wanted if number <= len(lines))


def _crashed(path: str, error: BaseException) -> Report:
    import traceback

    return Report(path, crashes=(Crash("the engine", path, "".join(traceback.format_exception(error))),))


__all__ = ["Linted", "Options", "Report", "concerns", "lint_bytes", "lint_file", "sift", "unreadable"]
