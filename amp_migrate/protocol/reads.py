"""Helpers that read gradients and are called both before these are divided and behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.protocol import messages
from amp_migrate.protocol.broken import Mistake
from amp_migrate.protocol.frames import calls_to

if TYPE_CHECKING:
    from amp_migrate.protocol.ends import Here


class Reads:
    """What was read on all paths, by the calls on the way there."""

    def __init__(self) -> None:
        self._met: dict[tuple[ast.AST, tuple[ast.Call, ...]], Mistake] = {}
        self._good: set[tuple[ast.AST, ast.Call]] = set()

    def met(self, here: Here, mistake: Mistake) -> None:
        """Scaled gradients are read."""
        calls = tuple(calls_to(here.frame))
        self._met.setdefault((here.node, calls), mistake)

    def credit(self, here: Here) -> None:
        """Divided ones are."""
        self._good |= {(here.node, call) for call in calls_to(here.frame)}

    def early(self, good: set[tuple[str, ast.AST]]) -> Iterator[Mistake]:
        """The calls of a helper under which each path reads scaled gradients, while other calls of
        it are right.
        """
        known: set[ast.AST] = set()
        for (node, calls), mistake in self._met.items():
            if (mistake.rule, node) not in good:
                continue  # told where it reads
            call = next((c for c in calls if (node, c) not in self._good), None)
            if call is None or call in known:
                continue
            known.add(call)
            read = ((mistake.node, messages.READ), *mistake.related)
            yield mistake._replace(node=call, related=read)
