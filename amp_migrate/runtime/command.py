"""`amp-migrate verify`: from its options to the report on the terminal, as JSON and as a page."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from amp_migrate.runtime.checks import Check, Limits
from amp_migrate.runtime.launch import prepare, tell
from amp_migrate.runtime.needs import require_torch
from amp_migrate.runtime.plan import Plan, ProgramError, find_program
from amp_migrate.runtime.progress import Progress
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.verify import default_device, verify

_COLOURS = {"pass": "green", "fail": "red", "skip": "yellow"}


def verify_command(program: str, arguments: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Verify and report; 0 passed, 1 failed, 130 interrupted."""
    require_torch("verify")
    what, plans = _program(program, arguments, options)
    if not any(what.rewrites.values()):
        return _nothing(plans, options)
    progress = Progress()
    report = verify(what, _options(options), progress).report
    progress.close()
    _write(report, what, options)
    return 130 if report.interrupted else int(report.verdict == "fail")


def _options(options: Mapping[str, Any]) -> Options:
    given = {field.name: options.get(field.name) for field in dataclasses.fields(Limits)}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    return Options(
        device=options["device"] or default_device(), steps=options["steps"], seed=options["seed"],
        scratch=options["scratch"], timeout=options["timeout"], processes=options["nproc"],
        drills=not options["no_drills"], bisect=options["bisect"], limits=limits,
    )  # fmt: skip


def _program(program: str, arguments: tuple[str, ...], options: Mapping[str, Any]) -> tuple[Program, list[Plan]]:
    as_module, cwd = options["as_module"], Path.cwd()
    dtypes = ("float16", "bfloat16") if options["dtype"] == "both" else (options["dtype"],)
    if options["against"] is not None:
        other = _against(program, as_module, cwd, options["against"])
        return Program(program, arguments, as_module, dict.fromkeys(dtypes, other), cwd), []
    flags = {"device": options["program_device"]}
    plans = [prepare(program, as_module, {"dtype": dtype, **flags}) for dtype in dtypes]
    tell(plans[0])
    rewrites = {dtype: plan.texts for dtype, plan in zip(dtypes, plans, strict=True)}
    return Program(program, arguments, as_module, rewrites, cwd), plans


def _against(program: str, as_module: bool, cwd: Path, other: Path) -> dict[str, str]:
    try:
        script = find_program(program, as_module, cwd)
    except ProgramError as error:
        raise click.UsageError(str(error)) from None
    return {os.path.realpath(script): importlib.util.decode_source(other.read_bytes())}


def _nothing(plans: list[Plan], options: Mapping[str, Any]) -> int:
    loops = [(outcome.path, loop) for plan in plans[:1] for outcome in plan.outcomes for loop in outcome.loops]
    why = [f"{Path(path).name}:{loop.line} is {loop.status}: {loop.reason}" for path, loop in loops]
    told = f" ({'; '.join(why)})" if why else ""
    message = f"no loop of the program is migrated{told}, so there is nothing to compare"
    report = Report(Options(), [Check("migrated", "fail", 0, 1, message)])
    _write(report, None, options)
    return 1


def _write(report: Report, program: Program | None, options: Mapping[str, Any]) -> None:
    to_stdout = options["json_file"] == "-"
    for line in lines(report):
        click.echo(line, err=to_stdout)
    if options["json_file"]:
        with click.open_file(options["json_file"], "w", encoding="utf-8", atomic=not to_stdout) as file:
            file.write(json.dumps(report.as_json(), indent=2, allow_nan=False) + "\n")
    if options["html_file"]:
        from amp_migrate.runtime.page import page

        with click.open_file(options["html_file"], "w", encoding="utf-8", atomic=True) as file:
            file.write(page(report, program))
    for name in ("json_file", "html_file"):
        if options[name] and options[name] != "-":
            click.echo(f"wrote {options[name]}", err=to_stdout)


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
    failed = sum(check.verdict == "fail" for check in report.checks)
    colour = "red" if failed else "green"
    yield click.style(
        f"{'FAIL' if failed else 'PASS'}: {failed} of {len(report.checks)} checks failed", fg=colour, bold=True
    )


def _numbers(check: Check) -> str:
    measured, limit = (f"{x:.3g}" if isinstance(x, float) else str(x) for x in (check.measured, check.limit))
    if check.limit is None or (check.verdict == "pass" and check.measured == 0):
        return ""
    return f" [{measured}, limit {limit}]"
