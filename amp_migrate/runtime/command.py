"""`amp-migrate verify`: from its options to the report on the terminal, as JSON and as a page."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from amp_migrate.display import escaped
from amp_migrate.project.text import decode
from amp_migrate.report.diffs import changes
from amp_migrate.runtime.check import Check, Limits
from amp_migrate.runtime.endings import last_words
from amp_migrate.runtime.launch import prepare, tell
from amp_migrate.runtime.needs import device_of, require_torch
from amp_migrate.runtime.plan import Plan, ProgramError, find_program
from amp_migrate.runtime.progress import Progress
from amp_migrate.runtime.report import Options, Program, Report, counted
from amp_migrate.runtime.sources import source
from amp_migrate.runtime.verify import verify

_COLOURS = {"pass": "green", "fail": "red", "skip": "yellow"}


def verify_command(
    program: str, arguments: tuple[str, ...], options: Mapping[str, Any]
) -> int:
    """Verify and report; 0 passed, 1 failed, 130 interrupted."""
    report, what = verified(program, arguments, options)
    _write(report, what, options)
    return 130 if report.interrupted else int(report.verdict == "fail")


def verified(
    program: str, arguments: tuple[str, ...], options: Mapping[str, Any]
) -> tuple[Report, Program | None]:
    """The report, and what was run; nothing where no loop is migrated."""
    require_torch("verify")
    what, plans = _program(program, arguments, options)
    if not any(what.rewrites.values()):
        return _nothing(plans), None
    progress = Progress()
    report = verify(what, options_of(options), progress).report
    progress.close()
    return report, what


def options_of(options: Mapping[str, Any]) -> Options:
    """From those of the command line."""
    given = {
        field.name: options.get(field.name)
        for field in dataclasses.fields(Limits)
    }
    if options["quick"]:
        given["loss_floor"] = given["loss_floor"] or 3 * Limits.loss_floor
    limits = Limits(
        **{name: value for name, value in given.items() if value is not None}
    )
    return Options(
        device=device_of(options["device"]), steps=options["steps"], seed=options["seed"],
        scratch=options["scratch"], timeout=options["timeout"], processes=options["nproc"],
        drills=not (options["no_drills"] or options["quick"]), bisect=options["bisect"],
        quick=options["quick"], diagnose=not options["quick"], limits=limits,
        metric=options["metric"], metric_seeds=options["metric_seeds"], epochs=options["epochs"],
        metric_margin=options["metric_margin"], resume=options["resume"],
    )  # fmt: skip


def _program(
    program: str, arguments: tuple[str, ...], options: Mapping[str, Any]
) -> tuple[Program, list[Plan]]:
    as_module, cwd = options["as_module"], Path.cwd()
    dtypes = (
        ("float16", "bfloat16")
        if options["dtype"] == "both"
        else (options["dtype"],)
    )
    if options["against"] is not None:
        other = _against(program, as_module, cwd, options["against"])
        shown = dict.fromkeys(other, str(options["against"]))
        rewrites = dict.fromkeys(dtypes, other)
        return Program(
            program, arguments, as_module, rewrites, cwd, shown=shown
        ), []
    flags = {"device": options["program_device"]}
    plans = [
        prepare(program, as_module, {"dtype": dtype, **flags})
        for dtype in dtypes
    ]
    tell(plans[0])
    rewrites = {
        dtype: plan.texts for dtype, plan in zip(dtypes, plans, strict=True)
    }
    carried = options["program_device"] == "cuda"
    return Program(program, arguments, as_module, rewrites, cwd, carried), plans


def _against(
    program: str, as_module: bool, cwd: Path, other: Path
) -> dict[str, str]:
    try:
        script = find_program(program, as_module, cwd)
    except ProgramError as error:
        raise click.UsageError(str(error)) from None
    return {os.path.realpath(script): source(other)}


def _nothing(plans: list[Plan]) -> Report:
    loops = [
        (outcome.path, loop)
        for plan in plans[:1]
        for outcome in plan.outcomes
        for loop in outcome.loops
    ]
    why = [
        f"{Path(path).name}:{loop.line} is {loop.status}: {loop.reason}"
        for path, loop in loops
    ]
    told = f" ({'; '.join(why)})" if why else ""
    message = f"no loop of the program is migrated{told}, so there is nothing to compare"
    return Report(Options(), [Check("migrated", "fail", 0, 1, message)])


def _write(
    report: Report, program: Program | None, options: Mapping[str, Any]
) -> None:
    to_stdout = options["json_file"] == "-"
    for line in lines(report):
        click.echo(line, err=to_stdout)
    if options["json_file"]:
        with click.open_file(
            options["json_file"], "w", encoding="utf-8", atomic=not to_stdout
        ) as file:
            file.write(
                json.dumps(report.as_json(), indent=2, allow_nan=False) + "\n"
            )
    if options["html_file"]:
        from amp_migrate.runtime.page import page

        with click.open_file(
            options["html_file"], "w", encoding="utf-8", atomic=True
        ) as file:
            file.write(page(report, program))
    if options["patch_file"]:
        _write_patch(report, program, options["patch_file"], to_stdout)
    elif report.patched is not None:
        click.echo("--patch FILE writes what passes", err=to_stdout)
    for name in ("json_file", "html_file"):
        if options[name] and options[name] != "-":
            click.echo(f"wrote {options[name]}", err=to_stdout)


def _write_patch(
    report: Report, program: Program | None, file: str, to_stderr: bool
) -> None:
    """What passed, against the files as they are."""
    texts = report.patched
    if texts is None and report.verdict == "pass" and program is not None:
        texts = dict(next(iter(program.rewrites.values())))
    if texts is None:
        click.echo(f"nothing passed, so {file} was not written", err=to_stderr)
        return
    with click.open_file(file, "wb", atomic=True) as out:
        for path, text in sorted(texts.items()):
            data = Path(path).read_bytes()
            before = decode(data, path)
            after = before.encode(text)
            for line in changes(
                os.path.relpath(path), data, after, before.encoding
            ):
                out.write(line.encode(before.encoding))
    click.echo(f"wrote {file}", err=to_stderr)


def lines(report: Report) -> Iterator[str]:
    """The report for people."""
    for note in report.notes:
        yield f"note: {note}"
    width = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        verdict = click.style(f"{check.verdict:4}", fg=_COLOURS[check.verdict])
        yield f"{verdict}  {check.name:{width}} {check.message}{_numbers(check)}"
    for advice in report.advice:
        yield f"advice: {advice}"
    for name, text in last_words(report.runs.traces):
        yield f"what {name} said last:"
        yield from (
            f"    {escaped(line, keep=chr(9))}" for line in text.splitlines()
        )
    failed = report.verdict == "fail"
    told = f"{'FAIL' if failed else 'PASS'}: {counted(report)}"
    yield click.style(told, fg="red" if failed else "green", bold=True)


def _numbers(check: Check) -> str:
    measured, limit = (
        f"{x:.3g}" if isinstance(x, float) else str(x)
        for x in (check.measured, check.limit)
    )
    if check.limit is None or (check.verdict == "pass" and check.measured == 0):
        return ""
    return f" [{measured}, limit {limit}]"
