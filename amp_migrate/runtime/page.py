"""The report as one HTML file that needs no network and no script: verdict, charts, protocol log,
and what was rewritten.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from amp_migrate import __version__
from amp_migrate.runtime.check import Check
from amp_migrate.runtime.endings import last_words
from amp_migrate.runtime.figures import Figure, figures
from amp_migrate.runtime.page_assets import STYLE
from amp_migrate.runtime.report import Program, Report, counted
from amp_migrate.runtime.sources import source
from amp_migrate.runtime.trace import Violation

_WHERE = {"cpu": "the CPU, with a GPU simulated", "cuda": "the GPU"}
_ORDER = {"fail": 0, "skip": 1, "pass": 2}


def page(report: Report, program: Program | None) -> str:
    """The whole file."""
    title = f"amp-migrate verify: {Path(program.program).name if program else 'no program'}"
    body = "\n".join(
        [
            *_head(report, program),
            *_checks(report),
            *_last_words(report),
            *map(_figure, figures(report)),
            *_log(report),
            *_diffs(program),
            *_passing(report),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta '
        f'charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _head(report: Report, program: Program | None) -> Iterator[str]:
    told = f"Checks: {counted(report)}."
    what = " ".join([program.program, *program.arguments]) if program else ""
    word = report.verdict
    yield f'<header class="verdict {word}"><h1>{word.upper()}</h1><p>{escape(told)}</p></header>'
    options = report.options
    where = _WHERE.get(options.device, options.device)
    facts = (
        f"{what} on {where}, at most {options.steps} steps a run, seed {options.seed}; "
        f"amp-migrate {__version__}"
    )
    yield f'<p class="soft">{escape(facts)}</p>'
    for note in report.notes:
        yield f"<p>{escape(note)}</p>"
    if report.advice:
        yield "<h2>What to do</h2>\n<ul>"
        yield from (f"<li>{escape(advice)}</li>" for advice in report.advice)
        yield "</ul>"


def _checks(report: Report) -> Iterator[str]:
    yield (
        "<h2>Checks</h2>\n<table><thead><tr><th>verdict</th><th>check</th><th>measured</th>"
    )
    yield "<th>limit</th><th>meaning</th></tr></thead><tbody>"
    for check in sorted(report.checks, key=lambda check: _ORDER[check.verdict]):
        yield _row(check)
    yield "</tbody></table>"


def _row(check: Check) -> str:
    cells = "".join(
        f'<td class="number" data-name="{name}">{escape(_number(value))}</td>'
        for name, value in (
            ("measured", check.measured),
            ("limit", check.limit),
        )
    )
    head = (
        f'<td class="{check.verdict}">{check.verdict}</td><td '
        f'class="name">{escape(check.name)}</td>'
    )
    return f"<tr>{head}{cells}<td>{escape(check.message)}</td></tr>"


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _last_words(report: Report) -> Iterator[str]:
    for name, text in last_words(report.runs.traces):
        yield f"<h2>What {escape(name)} said last</h2>\n<pre>{escape(text)}</pre>"


def _figure(plot: Figure) -> str:
    return (
        f'<figure id="{escape(plot.name)}"><h3>{escape(plot.title)}</h3>{plot.chart}'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def _log(report: Report) -> Iterator[str]:
    yield "<h2>Protocol</h2>"
    for name in report.runs.amp():
        found = report.runs[name].violations
        if not found:
            yield (
                f"<p>{escape(name)}: every one of {len(report.runs[name].taken)} steps follows "
                "AMP's protocol.</p>"
            )
            continue
        yield "<table><thead><tr><th>where</th><th>rule</th>"
        yield "<th>what</th><th>times</th></tr></thead><tbody>"
        yield from map(_violation, found)
        yield "</tbody></table>"


def _violation(found: Violation) -> str:
    where = f"{found.file}:{found.line}"
    return (
        f'<tr><td class="name">{escape(where)}</td><td class="name">{escape(found.rule)}</td>'
        f'<td>{escape(found.message)}</td><td class="number">{found.count}</td></tr>'
    )


def _diffs(program: Program | None) -> Iterator[str]:
    for dtype, files in program.rewrites.items() if program else ():
        yield f"<h2>Rewritten for {escape(dtype)}</h2>"
        yield from _texts(files)


def _passing(report: Report) -> Iterator[str]:
    """What --bisect has found."""
    if report.patched is not None:
        yield "<h2>Passes with modules in float32</h2>"
        yield from _texts(report.patched)


def _texts(files: Mapping[str, str]) -> Iterator[str]:
    for path, text in files.items():
        before = source(path)
        lines = difflib.unified_diff(
            before.splitlines(), text.splitlines(), path, path, lineterm=""
        )
        yield f"<pre>{''.join(map(_diff_line, lines))}</pre>"


def _diff_line(line: str) -> str:
    heading = line.startswith(("--- ", "+++ "))
    kind = (
        "at"
        if heading
        else {"+": "add", "-": "del", "@": "at"}.get(line[:1], "")
    )
    return f'<span class="{kind}">{escape(line) or " "}</span>'
