"""What other files of the project do with a scaler that this file steps with: asked only where a
mistake hangs on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.model.values.attributes import self_calls
from amp_migrate.patterns import pattern
from amp_migrate.project import nearby

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_UPDATES = pattern(
    rb"(?i)(scal\w*|amp\w*)\s*\.\s*update\s*\(|\.\s*update\s*\(\s*\)"
)
"""A call of a name that says so, or without arguments: nothing but a scaler is updated with
nothing."""
_UNSCALES = pattern(rb"\bunscale_?\b")
_ROOTS = {
    "object",
    "torch.nn.Module",
    "abc.ABC",
    "typing.Generic",
    "typing.Protocol",
}


class Elsewhere:
    """Answers for one module; a file that is not on disk has unknown surroundings, and every
    answer is "perhaps".
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.here = Path(program.module.path).absolute()

    def may_unscale(self, function: Function) -> bool:
        """Whether a caller in another file may unscale the gradients before it calls `function`."""
        return not self.here.is_file() or any(
            _UNSCALES.search(text) for text in self._users(function)
        )

    def may_update(self, function: Function) -> bool:
        """Whether code in another file may update the scaler after `function` has
        stepped with it.
        """
        if not self.here.is_file():
            return True
        cls = self.program.graph.class_around(self.program.scope(function))
        if cls is not None and self._foreign_bases(cls):
            return any(
                self._base_updates(base, cls)
                for base in self._foreign_bases(cls)
            )
        users = list(self._users(function))
        return not users or any(_UPDATES.search(text) for text in users)

    def _users(self, function: Function) -> Iterator[bytes]:
        """The texts of files near this one that name the function, the one that makes it, or the
        class that it is a method of.
        """
        cls = self.program.graph.class_around(self.program.scope(function))
        around = self.program.module.ancestors(function)
        makers = [one for one in around if isinstance(one, FUNCTIONS)]
        named = cls or (makers[-1] if makers else function)
        word = re.compile(rb"\b" + named.name.encode() + rb"\b")
        texts = (text for _, text in nearby.beside(self.here, cousins=True))
        yield from (text for text in texts if word.search(text))

    def _foreign_bases(self, cls: ast.ClassDef) -> list[ast.expr]:
        own = self.program.module.scopes[cls].parent or self.program.module.root
        bases = [
            base
            for one in self.program.graph.lineage(cls)
            for base in one.bases
        ]
        return [
            base
            for base in bases
            if self.program.graph.class_named(base, own) is None
            and self.program.canonical(base) not in _ROOTS
        ]

    def _base_updates(self, base: ast.expr, cls: ast.ClassDef) -> bool:
        """Whether a method of a base class in another file updates the scaler, and still runs
        below `cls`.
        """
        found = Neighbours(str(self.here)).find(
            self.program.canonical(base) or ast.unparse(base)
        )
        if found is None or not isinstance(found[1], ast.ClassDef):
            return True
        program, parent = found[0], found[1]
        if any(program.canonical(b) not in _ROOTS for b in parent.bases):
            return True  # a longer lineage is not read
        own, inherited = (
            _calls_of_methods(self.program, cls),
            _calls_of_methods(program, parent),
        )
        methods = inherited.keys() - own.keys()
        overridden = set().union(
            *(inherited[name] for name in inherited.keys() & own.keys())
        )
        internal = set().union(*(inherited[name] for name in methods))
        live = (methods - overridden - internal) | (
            set().union(*own.values()) & methods
        )
        while (
            more := set().union(*(inherited[name] for name in live))
            & methods - live
        ):
            live |= more
        return any(
            _UPDATES.search(program.module.source(node).encode())
            for node in parent.body
            if isinstance(node, FUNCTIONS) and node.name in live
        )


def _calls_of_methods(
    program: Program, cls: ast.ClassDef
) -> dict[str, set[str]]:
    """Which methods of the same object each method of a class calls."""
    found: dict[str, set[str]] = {}
    for node in cls.body:
        if isinstance(node, FUNCTIONS):
            found.setdefault(node.name, set()).update(
                self_calls(node, program.scope(node).calls)
            )
    return found
