"""How runs ended, and whether they trained the same thing: asked before anything is compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.trace import Trace

_RESUMED = (
    "; if it goes on from a checkpoint that the run before has written, use --scratch, and if it "
    "stops by the clock, have it stop by its steps"
)
_IN_THE_WAY = (
    "; the first run came through, and what it has written may be in the way: --scratch has every "
    "run write into a copy"
)
_BY_HAND = (
    ": it calls backward, and counted are the steps of torch.optim's optimizers"
)
_NAMED = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt|Warning|Stop\w*): ")
_ELSEWHERE = (
    "it started {} processes itself, at {}, and only the first process of a program is measured: "
    "have a launcher start them (--nproc runs the program under torchrun), or verify what one of "
    "them does"
)
_CAPTURED = (
    "it captures its steps in a CUDA graph, and what a graph replays is left alone: verify the "
    "program without graphs"
)
_NO_DRIVER = (
    "; this torch is built for CUDA, and here its {} asks the driver of a GPU, which is not there: "
    "take a build of torch for the CPU, or --device cuda where there is one"
)
_SPARSE = (
    "; the simulated GPU has no sparse tensors, so these stay on the CPU: take --device cuda where "
    "there is a GPU, or verify the program with dense ones"
)
_MOST_LINES = 30
_NO_INPUT = "; a program under verify has no standard input: give it arguments in its place"
_WORKERS = (
    " (workers that load data may have entered them: these are not watched)"
)
ENDED = ("stopped", "finished")


def completed(
    name: str, trace: Trace, original: Trace | None
) -> Iterator[Check]:
    """The run came to its end or to the wanted number of steps, and trained the same parameters."""
    yield _ended(name, trace, original)
    yield from _unmeasured(name, trace)
    if (
        original is not None
        and trace.steps
        and not same_shapes(original, trace)
    ):
        yield _other_parameters(name, trace, original)


def _unmeasured(name: str, trace: Trace) -> Iterator[Check]:
    if trace.unmeasured:
        message = f"a part of the measuring failed: {trace.unmeasured[0]}"
        yield Check(
            f"{name}: measured", "fail", len(trace.unmeasured), 0, message
        )


def _ended(name: str, trace: Trace, original: Trace | None) -> Check:
    label = f"{name}: run"
    if trace.status not in ENDED:
        message = (
            f"the {name} run {how(trace)}{_in_the_way(name, trace, original)}"
        )
        if trace.processes and not trace.steps:
            message += f"; {_elsewhere(trace)}"
        return Check(
            label, "fail", trace.status, "stopped or finished", message
        )
    if not trace.steps:
        message = f"the {name} run took no optimizer step; {_no_step(trace, original)}"
        return Check(label, "fail", 0, 1, message)
    if original is not None and trace.steps != original.steps:
        message = (
            f"the {name} run made {trace.steps} steps, the original "
            f"{original.steps}{_RESUMED}"
        )
        return Check(label, "fail", trace.steps, original.steps, message)
    message = f"{_steps(trace)}, {len(trace.losses)} backward calls"
    return Check(label, "pass", trace.steps, None, message)


def _steps(trace: Trace) -> str:
    """Runs are as long as the steps of the optimizer that steps most often."""
    count = len(set(trace.optimizers))
    several = f" of {count} optimizers, {trace.steps} at most of one"
    return f"{len(trace.optimizers)} steps{several * (count > 1)}"


def _in_the_way(name: str, trace: Trace, original: Trace | None) -> str:
    """Where nothing but the time of the run differs from the first, or a file is there already."""
    again = name.startswith("original-again")
    there = _exception(trace.error.splitlines() or [""]).startswith(
        "FileExistsError"
    )
    return _IN_THE_WAY * (original is not None and (again or there))


def _no_step(trace: Trace, original: Trace | None) -> str:
    if trace.captured:
        return _CAPTURED
    if trace.processes:
        return _elsewhere(trace)
    if original is not None:
        return f"nothing can be compared{_RESUMED}"
    return "nothing can be compared" + _BY_HAND * bool(trace.losses)


def _elsewhere(trace: Trace) -> str:
    return _ELSEWHERE.format(
        len(trace.processes), ", ".join(sorted(set(trace.processes)))
    )


def _driver(trace: Trace) -> str:
    """What to do where the simulated GPU ends: at what only a driver can answer."""
    missing = trace.device == "cpu" and "NVIDIA driver" in trace.error
    return (
        _NO_DRIVER.format(
            "DistributedDataParallel"
            if "distributed.py" in trace.error
            else "code"
        )
        * missing
    )


def _input(told: list[str]) -> str:
    return _NO_INPUT * _exception(told).startswith("EOFError")


def how(trace: Trace) -> str:
    """How a run ended that did not come to its end: its error, and the user's line that raised."""
    told = trace.error.strip().splitlines() or ["no output"]
    if trace.status == "raised":
        place = f" at {trace.raised_at}" if trace.raised_at else ""
        hint = f"{_driver(trace)}{_input(told)}{_SPARSE * trace.sparse}"
        return f"raised an error{place}: {_exception(told)}{hint}"
    return f"did not come to an end: {told[0]}" + (
        f"; its last line: {told[-1]}" if len(told) > 1 else ""
    )


def _exception(lines: list[str]) -> str:
    """The line of a traceback that names the error; its message may have more lines."""
    return next(
        (line for line in reversed(lines) if _NAMED.match(line)), lines[-1]
    )


def last_words(traces: Mapping[str, Trace]) -> Iterator[tuple[str, str]]:
    """What the runs that did not come to their end have said: usage text, a traceback; each text
    once.
    """
    known: set[str] = set()
    for name, trace in traces.items():
        by_itself = trace.status != "raised" or trace.error.startswith(
            "SystemExit"
        )
        told = (trace.output if by_itself else trace.error).strip().splitlines()
        text = "\n".join(
            ["..."] * (len(told) > _MOST_LINES) + told[-_MOST_LINES:]
        )
        if trace.status not in ENDED and text and text not in known:
            known.add(text)
            yield name, text


def same_shapes(one: Trace, other: Trace) -> bool:
    """Whether both train as many parameters, of the same shapes."""
    return one.parameter_shapes == other.parameter_shapes


def _other_parameters(name: str, trace: Trace, original: Trace) -> Check:
    label = f"{name}: parameters trained"
    new = [
        one
        for one in trace.parameter_names
        if one not in original.parameter_names
    ]
    lost = [
        one
        for one in original.parameter_names
        if one not in trace.parameter_names
    ]
    parts = [f"more: {', '.join(new[:3])}"] * bool(new) + [
        f"less: {', '.join(lost[:3])}"
    ] * bool(lost)
    told = f" ({'; '.join(parts)})" if parts else ""
    measured, expected = (
        len(trace.parameter_names),
        len(original.parameter_names),
    )
    message = (
        f"the {name} run trains {measured} parameters, the original {expected}, or of other "
        f"shapes{told}; at {', '.join(sorted(set(trace.step_sites))) or 'no step'}"
    )
    return Check(label, "fail", measured, expected, message)


def drilled(name: str, trace: Trace, drill: str) -> Iterator[Check]:
    """Answers of a run that was made for a drill; none is a failure of the drill."""
    yield from _unmeasured(f"{name}: {drill}", trace)
    for one, result in trace.drills.items():
        yield Check(
            f"{name}: {one}", result["verdict"], result["measured"], result["limit"],
            result["message"],
        )  # fmt: skip
    if drill not in trace.drills:
        yield Check(
            f"{name}: {drill}",
            "fail",
            trace.status,
            None,
            f"its run {how(trace)}",
        )


def not_verified(trace: Trace) -> Iterator[str]:
    """Lines that the run with AMP has not entered, those that the rewrite changed first; and other
    processes of the program.
    """
    if trace.processes:
        where = ", ".join(sorted(set(trace.processes)))
        yield f"not verified: {len(trace.processes)} processes that the program starts at {where}"
    if trace.sparse:
        yield "not verified: sparse tensors, which stay on the CPU: the simulated GPU has none"
    if trace.captured:
        yield "not verified: what the program captures in CUDA graphs and replays is left alone"
    for changed in (True, False):
        places: dict[str, list[str]] = {}
        for path, first, last, touched in sorted(trace.not_entered):
            if touched == changed:
                told = str(first) if first == last else f"{first}-{last}"
                places.setdefault(Path(path).name, []).append(told)
        kind = "changed, and not entered" if changed else "not entered"
        for file, lines in places.items():
            more = (
                f" and {len(lines) - 12} more places" if len(lines) > 12 else ""
            )
            told = ", ".join(lines[:12])
            yield (
                f"not verified: lines {told}{more} of {file}, {kind} with AMP on"
                f"{_WORKERS * (trace.workers and not changed)}"
            )
