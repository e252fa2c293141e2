"""Several processes: each is asked what the first one is asked, and they must agree with each
other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.trace import Trace


def merged(answers: Sequence[Iterable[Check]]) -> Iterator[Check]:
    """The first process's checks; where another one fails what the first passes, its answer, with
    its rank.
    """
    groups = [{check.name: check for check in group} for group in answers]
    for name, check in groups[0].items():
        found = [
            (rank, group[name])
            for rank, group in enumerate(groups)
            if name in group
        ]
        rank, worst = next(
            ((rank, one) for rank, one in found if one.verdict == "fail"),
            (0, check),
        )
        yield (
            dataclasses.replace(worst, message=f"rank {rank}: {worst.message}")
            if rank
            else worst
        )


def agree(name: str, ranks: Sequence[Runs]) -> Check:
    """All processes skip the same steps at the same scale; those that keep the same parameters in
    the original (as DistributedDataParallel does) keep them here too. Losses differ, since each has
    its own data: they are held against the same rank's original.
    """
    label, traces = f"{name}: ranks agree", [runs[name] for runs in ranks]
    bad = [
        rank
        for rank, trace in enumerate(traces)
        if not _in_step(traces[0], trace)
    ]
    if bad:
        message = (
            f"rank {bad[0]} skips other steps or has another scale than rank 0"
        )
        return Check(label, "fail", len(bad), 0, message)
    if not _same([runs["original"] for runs in ranks]):
        message = (
            f"{len(traces)} processes skip the same steps; each trains parameters of its "
            "own, as in the original"
        )
        return Check(label, "pass", 0, 0, message)
    apart = [
        rank
        for rank, trace in enumerate(traces)
        if not _same([traces[0], trace])
    ]
    if apart:
        message = (
            f"the parameters of rank {apart[0]} are not those of rank 0, as they are in "
            "the original"
        )
        return Check(label, "fail", len(apart), 0, message)
    message = f"{len(traces)} processes skip the same steps and end with the same parameters"
    return Check(label, "pass", 0, 0, message)


def _in_step(one: Trace, other: Trace) -> bool:
    """As far as both went: a rank may have fewer batches."""
    pairs = zip(
        zip(one.taken, one.scales, strict=True),
        zip(other.taken, other.scales, strict=True),
        strict=False,
    )
    return all(first == second for first, second in pairs)


def _same(traces: Sequence[Trace]) -> bool:
    """Stopped at the same step with the same parameters."""
    return (
        len({(trace.steps, *trace.parameter_digests) for trace in traces}) == 1
    )
