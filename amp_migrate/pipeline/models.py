"""The models of programs on their way through the migrator: that of an output is built once, for
the second run, the proof, the rules and the protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from amp_migrate.model.files.linking import LinkedProgram
from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.program import Program


def program_of(texts: Mapping[str, str]) -> Program:
    return _built(tuple(texts.items()))


@functools.lru_cache(maxsize=2)
def _built(texts: tuple[tuple[str, str], ...]) -> Program:
    """The model of a program: that of its output is asked by the second run and by the proof."""
    if len(texts) == 1:
        [(path, text)] = texts
        return Program(text, path, Neighbours(path))
    return LinkedProgram(dict(texts))


def forget() -> None:
    """Forget the models: what lies beside their files may be another thing the next time."""
    _built.cache_clear()
