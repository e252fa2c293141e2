"""Files on their way through the migrator in company: those that belong together are read, planned and kept together."""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome
from amp_migrate.source.errors import SourceError, reading
from amp_migrate.source.rewrite import Rewritten, crashed, failed, nested, settled, sift_file, syntax_error
from amp_migrate.telling import shown

if TYPE_CHECKING:
    from amp_migrate.model.project import Project
    from amp_migrate.source.notebook import Notebook
    from amp_migrate.source.text import Decoded

# A program of more files than this is no program but a library: its loops are planned by themselves.
MOST_FILES = 150
_ROUNDS = 6


@dataclass(frozen=True)
class Together:
    """What became of the files of one program, by resolved path; the first are those that were asked for."""

    members: Mapping[str, Rewritten]
    needed: bool = True
    """Whether the files that were asked for become something else in the company of the others."""

    @property
    def changed(self) -> dict[str, Rewritten]:
        """The members that are rewritten."""
        return _changed(self.members)


@dataclass(frozen=True)
class _Text:
    path: str
    data: bytes
    source: Decoded | Notebook


def rewrite_together(paths: Sequence[str], settings: Settings, project: Project) -> Together:
    """Migrate the files at `paths` in memory, with as many others of `project` as their loops need.

    Never raises for what a file or the migrator does wrong: that is told of the file.
    """
    settings = _for_program(paths, settings, project)
    texts: dict[str, _Text] = {}
    for path in paths:
        try:
            texts[_real(path)] = _read(path)
        except SourceError as error:
            return Together({_real(p): failed(p, error) if p == path else _unchanged(p) for p in paths})
    alone = _migrated(texts, settings, project)
    company, grown = alone.company, dict(texts)
    for _ in range(_ROUNDS):
        more = {real: text for real in company if real not in grown and (text := _readable(real, project))}
        if not more or len(grown) + len(more) > MOST_FILES:
            break
        grown |= more
        company = _company(grown, settings, project)
    best = alone if len(grown) == len(texts) else _migrated(grown, settings, project)
    if any(real not in alone.members and real not in project.writable for real in _changed(best.members)):
        best = alone  # whoever names one file wants no other one rewritten
    best = _better(alone, best, len(paths))
    return Together(best.members, any(best.members[real].after != one.after for real, one in alone.members.items()))


def _company(texts: Mapping[str, _Text], settings: Settings, project: Project) -> tuple[str, ...]:
    """The files that those at hand ask for; none where planning them fails, which the rewrite will tell of."""
    from amp_migrate.migrate import company_of

    try:
        return company_of({text.path: text.source.text for text in texts.values()}, settings, project)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return ()


def _for_program(paths: Sequence[str], settings: Settings, project: Project) -> Settings:
    """Settings with the oldest torch that the program's own requirements name, where the user named none."""
    if settings.target_torch is not None:
        return settings
    from amp_migrate.lint.target import target_for

    folders = [Path(_real(path)).parent for path in paths]
    bounds = [bound for folder in folders if (bound := target_for(folder, project.top or folder)) is not None]
    return settings._replace(target_torch=min(bounds)) if bounds else settings


def _changed(members: Mapping[str, Rewritten]) -> dict[str, Rewritten]:
    return {real: one for real, one in members.items() if one.outcome.status == "migrated"}


@dataclass(frozen=True)
class _Round:
    members: Mapping[str, Rewritten]
    company: tuple[str, ...] = ()


def _migrated(texts: Mapping[str, _Text], settings: Settings, project: Project) -> _Round:
    first = next(iter(texts.values()))
    try:
        from amp_migrate.migrate import migrate_texts

        joint = migrate_texts({text.path: text.source.text for text in texts.values()}, settings, project)
        members = {real: _placed(text, joint.outcomes[text.path]) for real, text in texts.items()}
    except SyntaxError as error:
        return _lost(texts, failed(first.path, syntax_error(error)))
    except (RecursionError, MemoryError):
        return _lost(texts, failed(first.path, nested()))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # one file's mishap must not cost the others; a panic in LibCST is no Exception
        return _lost(texts, crashed(first.path, error))
    return _Round(members, joint.company)


def _placed(text: _Text, outcome: FileOutcome) -> Rewritten:
    """The outcome of a text as that of its file."""
    try:
        placed = settled(text.source.placed(outcome))
        if outcome.output is None:
            return Rewritten(placed, encoding=text.source.encoding)
        return Rewritten(placed, text.data, text.source.encode(outcome.output), text.source.encoding)
    except SourceError as error:
        return failed(text.path, error)


def _lost(texts: Mapping[str, _Text], first: Rewritten) -> _Round:
    reals = list(texts)
    return _Round({reals[0]: first, **{real: _unchanged(texts[real].path) for real in reals[1:]}})


def _better(alone: _Round, joint: _Round, asked: int) -> _Round:
    """The joint result, unless something in it failed that did not fail alone: then the others keep what they had."""
    broken = [m for m in joint.members.values() if m.outcome.status == "failed"]
    if not broken:
        return joint
    own = list(alone.members)[:asked]
    members = {r: joint.members[r] if alone.members[r].outcome.status != "migrated" else alone.members[r] for r in own}
    return _Round(members)


def _read(path: str) -> _Text:
    from amp_migrate.source.text import decode

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise reading(error) from None
    return _Text(shown(path), data, decode(data, path))


def _readable(real: str, project: Project) -> _Text | None:
    """A file that joins; None where it cannot be read, which is told where it is asked for itself."""
    try:
        text = _read(project.writable.get(real, real))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.source.text)
    except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return text


def _unchanged(path: str) -> Rewritten:
    return Rewritten(FileOutcome(shown(path), "unchanged"))


def _real(path: str) -> str:
    return str(Path(path).resolve())


# -- several programs that share files


def rewrite_program(paths: Sequence[Path], settings: Settings) -> dict[Path, Rewritten]:
    """Migrate the files of one program in memory, in this process; a result for each."""
    from amp_migrate.model.project import Index

    reals = {str(path.resolve()): path for path in paths}
    index = Index(reals)
    results: dict[str, Rewritten] = {}
    for real, path in reals.items():
        sifted, data = sift_file(path)
        index.add(real, data)
        if isinstance(sifted, Rewritten):
            results[real] = sifted
    project = index.project({real: str(path) for real, path in reals.items()})
    held = [rewrite_together((str(path),), settings, project) for real, path in reals.items() if real not in results]
    while again := conflicts(held):
        merged = {id(program) for group in again for program in group}
        tasks = [dict.fromkeys(real for program in group for real in program.members) for group in again]
        rerun = [rewrite_together([str(reals.get(r, r)) for r in task], settings, project) for task in tasks]
        held = [program for program in held if id(program) not in merged] + rerun
    joint, _ = joined(held)
    told = {real: one for real, one in joint.items() if real not in results or one.outcome.status != "unchanged"}
    return {path: {**results, **told}[real] for real, path in reals.items()}


def conflicts(programs: Iterable[Together]) -> list[list[Together]]:
    """Programs that would write one file differently, in the groups in which they have to be planned anew."""
    parent: dict[int, int] = {}
    held: list[Together] = [p for p in programs if p.changed]
    by_file: dict[str, list[int]] = {}
    for index, program in enumerate(held):
        for real in program.changed:
            by_file.setdefault(real, []).append(index)
    for real, users in by_file.items():
        for one, other in itertools.combinations(users, 2):
            if held[one].changed[real].after != held[other].changed[real].after and not _covers(held[one], held[other]):
                parent[_root(parent, one)] = _root(parent, other)
    groups: dict[int, list[Together]] = {}
    for index in parent.keys() | set(parent.values()):
        groups.setdefault(_root(parent, index), []).append(held[index])
    return list(groups.values())


def _covers(one: Together, other: Together) -> bool:
    """Whether the larger program holds all files of the smaller one, so that it was planned with them."""
    large, small = sorted((one.members.keys(), other.members.keys()), key=len, reverse=True)
    return len(large) > len(small) and large >= small


def _root(parent: dict[int, int], index: int) -> int:
    while parent.get(index, index) != index:
        index = parent[index]
    return index


def joined(programs: Iterable[Together]) -> tuple[dict[str, Rewritten], list[list[str]]]:
    """One result for each file, and the files that have to be written together."""
    ordered = sorted(programs, key=lambda p: -len(p.members))
    results: dict[str, Rewritten] = {}
    chains: list[list[str]] = []
    for program in ordered:
        changed = program.changed
        shared = [real for real in changed if real in results]
        if changed and all(results[real].after == changed[real].after for real in shared):
            touched = [chain for chain in chains if any(real in chain for real in shared)]
            own = [real for real in changed if real not in results]
            chains = [chain for chain in chains if chain not in touched] + [[*itertools.chain(*touched), *own]]
            results |= changed
    for program in ordered:
        for real, one in program.members.items():
            known = results.get(real)
            if known is None or (known.outcome.status != "migrated" and _tells_more(one, known)):
                results[real] = one
    return results, chains


def _tells_more(one: Rewritten, known: Rewritten) -> bool:
    return len(one.outcome.loops) > len(known.outcome.loops) or (
        one.outcome.status == "failed" and known.outcome.status != "failed"
    )
