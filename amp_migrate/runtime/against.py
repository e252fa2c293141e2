"""Lines of the file that is compared with the original (`--against`): the user is told these, and
what is compared by line is known by those of the original.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from amp_migrate.runtime.trace import Place

Back = Mapping[str, tuple[str, Sequence[int]]]
"""By the file that is shown: the original's name, and its line for each line of that file."""


def original_sites(sites: Sequence[str], back: Back) -> list[str]:
    """`file:line` as the original has it."""
    return [":".join(map(str, _moved(*_parts(site), back))) for site in sites]


def original_places(
    places: Mapping[str, Sequence[Place]], back: Back
) -> dict[str, list[Place]]:
    """Where modules are called, as the original has it."""
    found: dict[str, list[Place]] = {}
    for name, rows in places.items():
        moved = [(row, *_moved(row.file, row.line, back)) for row in rows]
        found[name] = [
            dataclasses.replace(row, file=file, line=line)
            for row, file, line in moved
        ]
    return found


def _parts(site: str) -> tuple[str, int]:
    file, _, line = site.rpartition(":")
    return file, int(line)


def _moved(file: str, line: int, back: Back) -> tuple[str, int]:
    if file not in back:
        return file, line
    original, lines = back[file]
    return original, lines[min(line, len(lines) - 1)]
