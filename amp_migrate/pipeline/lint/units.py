"""Which files are linted as one program: those that train with mixed precision, with their callers
and what they import, as far as a bound on the size allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from amp_migrate.project.module_graph import Project
from amp_migrate.records import NamedTuple

_MOST_BYTES = 80_000
"""Text around one file that is read with it."""
_MOST_SHARED = 160_000
"""Text of files that are linted together."""
_MOST_USERS = 8
_MOST_HELPERS = 24


class Around(NamedTuple):
    """What is known of the files of a tree, by resolved path."""

    project: Project
    sizes: Mapping[str, int]
    """In bytes, of all files that may be read."""
    seeds: AbstractSet[str]
    """The files that train with mixed precision."""
    matters: Callable[[str], bool]
    """Whether what a file defines may matter to those that import it."""
    breaks: Callable[[str], bool] = lambda _: False
    """Whether what a file defines may raise or overflow in half precision."""
    carries: Callable[[str], bool] = lambda _: False
    """Whether modules that a file defines may hand values on to others."""
    brain: AbstractSet[str] = frozenset()
    """Files with regions in bfloat16."""
    arrays: AbstractSet[str] = frozenset()
    """Files that make NumPy arrays, which matter to those."""


class Unit(NamedTuple):
    """Files that are linted together, by resolved path."""

    seeds: tuple[str, ...]
    near: tuple[str, ...] = ()
    """What is read with them."""


def units(seeds: Iterable[str], around: Around) -> list[Unit]:
    """Each of `seeds` in one unit; a unit grows as long as its files have to do with each other
    and are few.
    """
    made: list[tuple[list[str], dict[str, None]]] = []
    homes: dict[str, int] = {}
    for seed in seeds:
        members = dict.fromkeys(_near(seed, around))
        home = homes.get(seed)
        if home is None or not _fits(made[home][1], members, around):
            home = len(made)
            made.append(([], {}))
        made[home][0].append(seed)
        made[home][1].update(members)
        homes.update((file, home) for file in members if file not in homes)
    return [
        Unit(tuple(own), tuple(file for file in members if file not in own))
        for own, members in made
    ]


def _fits(held: Iterable[str], more: Iterable[str], around: Around) -> bool:
    return (
        sum(around.sizes.get(file, 0) for file in {*held, *more})
        <= _MOST_SHARED
    )


def _near(seed: str, around: Around) -> Iterator[str]:
    """The file itself, its users, what it imports and what they import, nearest first."""
    left = _MOST_BYTES
    taken = {seed: None}
    yield seed
    users = list(_users(seed, around))[:_MOST_USERS]
    helpers = around.project.helpers(seed, _MOST_HELPERS)
    theirs = (
        one for user in users for one in around.project.imports.get(user, ())
    )
    for file in dict.fromkeys((*users, *helpers, *theirs)):
        size = around.sizes.get(file)
        if size is None or size > left or file == seed:
            continue
        wanted = (
            file in users
            or around.matters(file)
            or seed in around.brain
            and file in around.arrays
        )
        if wanted:
            taken[file] = None
            left -= size
            yield file
    ways = around.project.between(seed, taken)
    for file in {**ways, **_carriers(seed, helpers, around)}:
        size = around.sizes.get(file)
        if size is not None and size <= left and file not in taken:
            left -= size
            yield file


def _carriers(
    seed: str, helpers: Sequence[str], around: Around
) -> dict[str, None]:
    """What hands values on to a module that breaks in half precision: the files through which it
    is imported, and those that define modules.
    """
    broken = [file for file in helpers if around.breaks(file)]
    ways = around.project.between(seed, broken)
    modules = [file for file in helpers if around.carries(file)]
    return dict.fromkeys([*ways, *modules] if broken else [])


def _users(seed: str, around: Around) -> Iterator[str]:
    """The files that import `seed`, through packages as well; those that use mixed precision
    first.
    """
    direct = dict.fromkeys(around.project.importers.get(seed, ()))
    for package in [file for file in direct if file.endswith("__init__.py")]:
        direct |= dict.fromkeys(around.project.importers.get(package, ()))
    yield from sorted(direct, key=lambda file: (file not in around.seeds, file))
