"""One file through the linter: bytes, text, findings, and with fixes bytes again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate import regular_files
from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.display import shown
from amp_migrate.pipeline.deep_stack import with_deep_stack
from amp_migrate.pipeline.lint.engine import lint
from amp_migrate.pipeline.lint.linked import NO_COMPANY, Company
from amp_migrate.pipeline.lint.results import (
    Crash,
    Fixed,
    Linted,
    Place,
    Report,
)
from amp_migrate.project.errors import SourceError, reading
from amp_migrate.project.prefilter import (
    hides_words,
    is_notebook,
    may_train,
    names_amp,
)
from amp_migrate.records import NamedTuple
from amp_migrate.torch_floor import target_for

if TYPE_CHECKING:
    from amp_migrate.project.module_graph import Project

_MARK = b"amp-migrate:"


class Options(NamedTuple):
    """How files are linted; `folder` is where the settings file is, which its patterns are
    relative to.
    """

    settings: Settings
    folder: Path
    fix: bool = False
    unsafe: bool = False
    project: Project | None = None
    """The tree around the files: a loop, or a mistake, may belong to several."""


def concerns(data: bytes, path: str) -> bool:
    """Whether any rule can have something to say about a file; false alarms cost time, missed
    alarms a finding.
    """
    notebook = is_notebook(path)
    return (
        may_train(data, notebook)
        or names_amp(data)
        or _MARK in data
        or hides_words(data, notebook)
    )


def unreadable(path: str, error: SourceError) -> Report:
    """A file that cannot be processed is a finding, so that no report passes it over."""
    line, column = max(error.line, 1), max(error.column, 1)
    finding = Finding(
        "syntax", str(error), "error", path, line, column, line, column + 1
    )
    return Report(path, (finding,))


def lint_file(
    path: Path, options: Options, company: Company = NO_COMPANY
) -> Report:
    """Lint the file at `path`; never raises for what is wrong with the file or with a rule."""
    try:
        data = regular_files.read(path)
    except OSError as error:
        return unreadable(shown(path), reading(error))
    return lint_bytes(shown(path), data, options, company)


def lint_bytes(
    path: str, data: bytes, options: Options, company: Company = NO_COMPANY
) -> Report:
    """Lint `data`, the content of a module called `path`, in company of other files."""
    return with_deep_stack(_lint_bytes, path, data, options, company)


def _lint_bytes(
    path: str, data: bytes, options: Options, company: Company
) -> Report:
    from amp_migrate.project.text import decode

    try:
        source = decode(data, path)
    except SourceError as error:
        return unreadable(path, error)
    settings = with_target(path, options)
    relative = _relative(path, options.folder)
    try:
        look = partial(
            _look,
            path=path,
            settings=settings,
            options=options,
            company=company,
        )
        fixed = _fixed(source.text, path, settings, look, options)
        after = source.encode(fixed.text)
    except SourceError as error:
        return unreadable(path, error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # One file's mishap must not cost the others; a panic in LibCST is no Exception.
        return _crashed(path, error)
    report = _report(path, fixed)._replace(encoding=source.encoding)
    if is_notebook(path):
        from amp_migrate.pipeline.lint.notebooks import by_cell

        report = by_cell(report, fixed.text, after, settings, relative)
    if after == data:
        return report
    return report._replace(before=data, after=after)


def _report(path: str, fixed: Fixed) -> Report:
    linted = fixed.linted
    return Report(
        path,
        linted.findings,
        linted.crashes,
        applied=fixed.applied,
        left=fixed.left,
        lines=_lines(fixed.text, linted.findings),
        notes=linted.notes,
    )


def _fixed(
    text: str,
    path: str,
    settings: Settings,
    look: Callable[[str], Linted],
    options: Options,
) -> Fixed:
    if options.fix:
        from amp_migrate.pipeline.lint.fix import fix
        from amp_migrate.pipeline.lint.migration import by_migration

        return fix(
            text,
            path,
            settings,
            options.unsafe,
            look,
            by_migration(options.project),
        )
    return Fixed(text, (), (), look(text))


def _look(
    text: str,
    *,
    path: str,
    settings: Settings,
    options: Options,
    company: Company,
) -> Linted:
    """What the rules say of a module in company of other files."""
    relative = _relative(path, options.folder)
    joint = company.joint(text, path, settings)
    return lint(text, path, settings, relative, options.project, joint)


def with_target(path: str, options: Options) -> Settings:
    """The settings for a file, with the oldest torch that its project admits."""
    settings = options.settings
    if settings.target_torch is not None:
        return settings
    found = target_for(Path(path).absolute().parent, options.folder)
    return settings._replace(target_torch=found or settings.admitted_torch)


def _relative(path: str, folder: Path) -> str:
    absolute = Path(path).absolute()
    try:
        return absolute.relative_to(folder).as_posix()
    except ValueError:
        return (
            os.path.relpath(absolute, folder)
            if absolute.drive == folder.drive
            else path
        )


def _lines(
    text: str, findings: Iterable[Finding]
) -> tuple[tuple[Place, str], ...]:
    wanted = sorted({one.line for one in findings})
    if not wanted:
        return ()
    lines = text.encode().splitlines()
    return tuple(
        ((None, number), lines[number - 1].decode())
        for number in wanted
        if number <= len(lines)
    )


def _crashed(path: str, error: BaseException) -> Report:
    import traceback

    return Report(
        path,
        crashes=(
            Crash(
                "the engine", path, "".join(traceback.format_exception(error))
            ),
        ),
    )


__all__ = [
    "Linted",
    "Options",
    "Report",
    "concerns",
    "lint_bytes",
    "lint_file",
    "unreadable",
    "with_target",
]
