"""Which files are planned as one program: each group once, whoever asked for it."""

from __future__ import annotations

import ast
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.pipeline.one_file import Rewritten
from amp_migrate.pipeline.programs import MOST_FILES, Task, Together
from amp_migrate.project.module_graph import Project
from amp_migrate.records import NamedTuple


class _Group(NamedTuple):
    """Files that asked for others, and all that they asked for."""

    seeds: dict[str, None]
    files: dict[str, None]


def tasks_of(
    related: Mapping[str, tuple[str, ...]],
    training: Collection[str],
    project: Project,
) -> list[Task]:
    """The programs that files belong to, by resolved path.

    Args:
        related: for each file that was planned by itself, the files with which more of its loops
            might be migrated.
        training: files that may hold a loop; two programs that share one, or a file that imports
            one, are one program, as long as it does not become a library. What else they share is
            a helper, which is read and seldom changed.
        project: who imports whom.
    """

    def binds(file: str) -> bool:
        return file in training or any(
            one in training for one in project.imports.get(file, ())
        )

    groups: dict[int, _Group] = {}
    of: dict[str, int] = {}
    for number, (seed, own) in enumerate(related.items()):
        group = _Group({seed: None}, _closure(seed, own, related))
        for file in list(filter(binds, group.files)):
            home = of.get(file, -1)
            joint = _joint(groups.get(home), group)
            if joint is not None:
                del groups[home]
                group = joint
        groups[number] = group
        of.update((file, number) for file in filter(binds, group.files))
    return [_task(group) for group in groups.values()]


def _joint(one: _Group | None, other: _Group) -> _Group | None:
    """Both together, where they do not become too many."""
    if one is None:
        return None
    joint = _Group(one.seeds | other.seeds, one.files | other.files)
    return joint if len(joint.files) <= MOST_FILES else None


def _task(group: _Group) -> Task:
    others = (file for file in group.files if file not in group.seeds)
    return Task(tuple(group.seeds), tuple(others))


def _closure(
    seed: str, own: tuple[str, ...], related: Mapping[str, tuple[str, ...]]
) -> dict[str, None]:
    """All files that `seed` leads to; only those that it names itself where they become
    too many.
    """
    found, waiting = dict.fromkeys((seed, *own)), deque(own)
    while waiting:
        for file in related.get(waiting.popleft(), ()):
            if file not in found:
                found[file] = None
                waiting.append(file)
        if len(found) > MOST_FILES:
            return dict.fromkeys((seed, *own))
    return found


def apart(task: Task, related: Mapping[str, tuple[str, ...]]) -> list[Task]:
    """The same files each with what it asked for itself, where they did not come out together."""
    return [
        Task(
            (seed,),
            tuple(
                file
                for file in _closure(seed, related[seed], related)
                if file != seed
            ),
        )
        for seed in task.paths
    ]


# -- programs that were planned apart and share files


def conflicts(programs: Iterable[Together]) -> list[list[Together]]:
    """Programs that would write one file differently, or of which one leaves a file as it is whose
    parameters another one changes, in the groups in which they have to be planned anew.
    """
    parent: dict[int, int] = {}
    held: list[Together] = list(programs)
    by_file: dict[str, list[int]] = {}
    for index, program in enumerate(held):
        for real in program.changed:
            by_file.setdefault(real, []).append(index)
    for real, users in by_file.items():
        for one, other in itertools.combinations(users, 2):
            if held[one].changed[real].after != held[other].changed[
                real
            ].after and not _covers(held[one], held[other]):
                parent[_root(parent, one)] = _root(parent, other)
    for one, other in _left_behind(held, by_file):
        parent[_root(parent, one)] = _root(parent, other)
    groups: dict[int, list[Together]] = {}
    for index in parent.keys() | set(parent.values()):
        groups.setdefault(_root(parent, index), []).append(held[index])
    return list(groups.values())


def _left_behind(
    held: list[Together], by_file: Mapping[str, list[int]]
) -> Iterator[tuple[int, int]]:
    """Two programs of which the first knows a file as it was, with other parameters than the
    second gives it: its calls were planned for those.
    """
    for index, program in enumerate(held):
        left = program.members.keys() - program.changed.keys()
        for real in sorted(left) if len(program.members) > 1 else ():
            for user in by_file.get(real, ()):
                one = held[user].changed[real]
                apart = not _covers(program, held[user])
                if apart and _parameters(one.before) != _parameters(one.after):
                    yield index, user


@lru_cache(maxsize=256)
def _parameters(data: bytes) -> tuple[str, ...]:
    """The functions of a file, with their parameters; all of it where it is no plain module."""
    try:
        nodes = nodes_in(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (data.decode("latin-1"),)
    return tuple(
        f"{node.name}({ast.unparse(node.args)})"
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def _covers(one: Together, other: Together) -> bool:
    """Whether the larger program holds all files of the smaller one, so that it was planned with
    them.
    """
    large, small = sorted(
        (one.members.keys(), other.members.keys()), key=len, reverse=True
    )
    return len(large) > len(small) and large >= small


def _root(parent: dict[int, int], index: int) -> int:
    while parent.get(index, index) != index:
        index = parent[index]
    return index


def merged(groups: Iterable[Iterable[Together]]) -> list[Task]:
    """Tasks in which programs that are in conflict are planned as one."""
    return [
        Task(
            tuple(
                dict.fromkeys(
                    real for program in group for real in program.members
                )
            )
        )
        for group in groups
    ]


def joined(
    programs: Iterable[Together],
) -> tuple[dict[str, Rewritten], list[list[str]]]:
    """One result for each file, and the files that have to be written together."""
    ordered = sorted(programs, key=lambda p: -len(p.members))
    results: dict[str, Rewritten] = {}
    chains: list[list[str]] = []
    for program in ordered:
        changed = program.changed
        shared = [real for real in changed if real in results]
        if changed and all(
            results[real].after == changed[real].after for real in shared
        ):
            touched = [
                chain
                for chain in chains
                if any(real in chain for real in shared)
            ]
            own = [real for real in changed if real not in results]
            chains = [chain for chain in chains if chain not in touched] + [
                [*itertools.chain(*touched), *own]
            ]
            results |= changed
    for program in ordered:
        for real, one in program.members.items():
            known = results.get(real)
            if known is None or (
                known.outcome.status != "migrated" and _tells_more(one, known)
            ):
                results[real] = one
    return results, chains


def _tells_more(one: Rewritten, known: Rewritten) -> bool:
    return len(one.outcome.loops) > len(known.outcome.loops) or (
        one.outcome.status == "failed" and known.outcome.status != "failed"
    )
