"""The verdict on one program: it is migrated, run before and after, and compared."""

from __future__ import annotations

import ast
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.engine import lint
from amp_migrate.pipeline.whole_program import rewrite_program
from amp_migrate.runtime.run_folder import run_folder
from tests.generated.programs import Program
from tests.generated.running import Mode, Run, run

RELATIVE, ABSOLUTE = 0.05, 0.03
"""How far a loss in half may be from the one in float32; four steps later twice as far."""
CARELESS = ("augment(", "normalise(", "environment.step(", ".cuda()", "torch.save(", ".numpy()")
"""What has no place in an autocast region."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with the migrated program; `check` is its class."""

    check: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """What became of a program."""

    status: str
    """migrated, refused, unchanged, failed; or broken, where the original does not run."""
    reasons: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    ugly: tuple[Fault, ...] = ()
    after: Mapping[str, str] = field(default_factory=dict)


def judge(program: Program) -> Verdict:
    """Migrate the program, and look for what is wrong with the outcome."""
    with run_folder("amp-generated-") as folder:
        before = _written(folder / "before", program.files)
        status, reasons, after = migrated(before, program)
        if status == "failed":
            return Verdict(status, reasons, (Fault("failed", "; ".join(reasons)),))
        if status != "migrated":
            return Verdict(status, reasons)
        return verdict(program, after, folder, reasons)


def migrated(folder: Path, program: Program) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Status, reasons of refusals, and the files afterwards."""
    settings = Settings(dtype=program.spec["dtype"])
    results = rewrite_program([folder / name for name in program.files], settings)
    outcomes = {str(p.relative_to(folder)): one for p, one in results.items()}
    states = {one.outcome.status for one in outcomes.values()}
    loops = [loop for one in outcomes.values() for loop in one.outcome.loops]
    reasons = [f"{loop.reason}: {loop.message}" for loop in loops if loop.status != "migrated"]
    reasons += [one.outcome.error for one in outcomes.values() if one.outcome.error]
    status = next(s for s in ("failed", "migrated", "refused", "unchanged") if s in states)
    after = {
        name: outcomes[name].after.decode() if outcomes[name].outcome.status == "migrated" else text
        for name, text in program.files.items()
    }
    return status, tuple(reasons), after


def verdict(
    program: Program, after: Mapping[str, str], folder: Path, reasons: tuple[str, ...] = ()
) -> Verdict:
    """What is wrong with `after` as a migration of the program."""
    faults = list(_static(program, after, folder))
    if any(fault.check == "syntax" for fault in faults):
        return Verdict("migrated", reasons, tuple(faults), after=after)
    runs = _Runs(program, after, folder)
    original = runs.of("before", "off")
    if original.error or not original.losses:
        return Verdict("broken", (original.error or "no loss",))
    faults += [*_off(original, runs.of("after", "off")), *_by_flag(program, runs)]
    on = runs.of("after", "on")
    faults += _on(program, runs.of("before", "on"), on)
    return Verdict("migrated", reasons, tuple(faults), tuple(_ugly(program, after, on)), after)


def _written(folder: Path, files: Mapping[str, str]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


class _Runs:
    """Runs of the original and the migrated program, each in a fresh folder."""

    def __init__(self, program: Program, after: Mapping[str, str], folder: Path) -> None:
        self._program, self._folder = program, folder
        self._files = {"before": program.files, "after": after}

    def of(self, which: str, mode: Mode, arguments: tuple[str, ...] = ()) -> Run:
        folder = _written(self._folder / "run", self._files[which])
        return run(folder, self._program.main, mode, arguments)


# -- what is seen in the text


def _static(program: Program, after: Mapping[str, str], folder: Path) -> Iterator[Fault]:
    for name, text in after.items():
        try:
            ast.parse(text)
        except SyntaxError as error:
            yield Fault("syntax", f"{name}: {error}")
            return
    settings = Settings(dtype=program.spec["dtype"])
    for name, text in after.items():
        for finding in lint(text, name, settings).findings:
            if finding.severity == "error":
                yield Fault(f"lint {finding.rule}", f"{name}:{finding.line}: {finding.message}")
    yield from _again(program, after, folder)


def _again(program: Program, after: Mapping[str, str], folder: Path) -> Iterator[Fault]:
    second = Program(program.spec, dict(after), program.main)
    path = _written(folder / "again", second.files)
    status, reasons, changed = migrated(path, second)
    if status == "migrated" or changed != dict(after):
        yield Fault("not stable", "a second migration changes the program again")
    elif status == "failed":
        yield Fault("second fails", "; ".join(reasons))


def _comments(after: Mapping[str, str]) -> Iterator[Fault]:
    for name, text in after.items():
        lines = [line.strip() for line in text.splitlines()]
        for at, line in enumerate(lines[:-1]):
            if not line.startswith("# about: "):
                continue
            following = next((one for one in lines[at + 1 :] if not one.startswith("#")), "")
            told = line.removeprefix("# about: ")
            if not _same_statement(told, following):
                yield Fault("comment", f"{name}:{at + 1}: {told!r} is followed by {following!r}")


def _same_statement(told: str, following: str) -> bool:
    """Whether the line is the statement of the comment, perhaps with AMP in it, or its region."""
    if following.startswith("with ") and "autocast" in following:
        return True
    words = [
        word for word in told.replace("(", " ").replace(".", " ").split() if word.isidentifier()
    ]
    return bool(words) and all(word in following for word in words[:1])


# -- what is seen in runs


def _off(original: Run, off: Run) -> Iterator[Fault]:
    if off.error:
        yield Fault("off raises", off.error)
    elif off.loss_digests != original.loss_digests:
        yield Fault("off losses", f"{original.losses[:4]} became {off.losses[:4]}")
    elif off.parameters != original.parameters:
        yield Fault("off parameters", "the parameters differ in the end")


def _by_flag(program: Program, runs: _Runs) -> Iterator[Fault]:
    if not program.cpu_arguments:
        return
    original = runs.of("before", "on", program.cpu_arguments)
    found = runs.of("after", "on", program.cpu_arguments)
    if found.error and not original.error:
        yield Fault("flag raises", found.error)
    elif found.enabled_scalers or found.autocast_dtypes:
        yield Fault("switch", f"AMP is on though the program runs with {program.cpu_arguments}")
    elif found.loss_digests != original.loss_digests:
        yield Fault("flag losses", f"{original.losses[:4]} became {found.losses[:4]}")


def _on(program: Program, original: Run, on: Run) -> Iterator[Fault]:
    if original.error:
        return
    if on.error:
        yield Fault("on raises", on.error)
        return
    if all(map(math.isfinite, original.losses)) and not all(map(math.isfinite, on.losses)):
        yield Fault("not finite", f"{original.losses[:6]} became {on.losses[:6]}")
    elif fault := _apart(original, on):
        yield fault
    if original.finite and not on.finite:
        yield Fault("parameters not finite", "")
    yield from (Fault("protocol", one) for one in dict.fromkeys(on.violations))
    yield from _engaged(program, original, on)


def _apart(original: Run, on: Run) -> Fault | None:
    if len(original.losses) != len(on.losses):
        return Fault("losses", f"{len(original.losses)} became {len(on.losses)}")
    largest = 0.0
    for at, (plain, half) in enumerate(zip(original.losses, on.losses, strict=True)):
        if original.steps_before[at] != on.steps_before[at]:
            return None  # a step was skipped: from here on the two train apart
        largest = max(largest, abs(plain))
        limit = (RELATIVE * largest + ABSOLUTE) * (1 + at / 4)
        if abs(plain - half) > limit:
            return Fault("losses", f"loss {at}: {plain} became {half}")
    return None


def _engaged(program: Program, original: Run, on: Run) -> Iterator[Fault]:
    """Autocast computes, and the scaler drives each step."""
    if program.spec["device_form"] in ("none", "cpu_object", "cpu_string"):
        if on.autocast_dtypes or on.enabled_scalers:
            yield Fault("switch", "AMP is on in a program that keeps to the CPU")
        return
    if on.autocast_dtypes != [program.spec["dtype"]]:
        yield Fault("autocast", f"regions of {on.autocast_dtypes}")
    elif not on.half_forwards:
        yield Fault("autocast", "no matrix product of a forward runs in half")
    scaled = program.spec["dtype"] == "float16"
    if scaled and not on.calls.get("step"):
        yield Fault("scaler", "the scaler never steps")
    if scaled and original.finite and on.steps < original.steps / 2:
        yield Fault("scaler", f"{on.steps} of {original.steps} steps were taken")
    ends = max(on.calls.get("step", 0), on.calls.get("unscale_", 0))
    if scaled and not 0 < on.calls.get("update", 0) <= ends:
        yield Fault("scaler", f"calls: {on.calls}")


def _ugly(program: Program, after: Mapping[str, str], on: Run) -> Iterator[Fault]:
    for line, count in on.float32_forwards.items():
        yield Fault("float32 forward", f"{line} ({count} times)")
    for line in on.idle_casts:
        name, _, number = line.rpartition(":")
        written = after[name].splitlines()[int(number) - 1] if name in after else ""
        if written.strip() and written.strip() not in program.files[name]:
            yield Fault("idle cast", f"{line}: {written.strip()}")
    yield from _crowded(after)
    yield from _comments(after)
    yield from _written_oddly(program, after)


def _written_oddly(program: Program, after: Mapping[str, str]) -> Iterator[Fault]:
    """What a person would not write."""
    for name, text in after.items():
        old = set(program.files[name].splitlines())
        for number, line in enumerate(text.splitlines(), 1):
            if line in old:
                continue
            where = f"{name}:{number}: {line.strip()}"
            if "GradScaler(" in line and "torch.device(" in line:
                yield Fault("odd switch", where)
            if program.spec["text"] == "one_per_line" and ", scaler=" in line:
                yield Fault("crammed", where)
    if sum("GradScaler(" in line for text in after.values() for line in text.splitlines()) > 1:
        yield Fault("several scalers", program.spec["layout"])


def _crowded(after: Mapping[str, str]) -> Iterator[Fault]:
    for name, text in after.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.With) and "autocast" in ast.unparse(node.items[0]):
                body = "\n".join(map(ast.unparse, node.body))
                for careless in CARELESS:
                    if careless in body:
                        yield Fault("region", f"{name}:{node.lineno}: {careless} inside")
