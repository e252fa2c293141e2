"""The bases of a class, through the files of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name

if TYPE_CHECKING:
    from amp_migrate.model.dataflow.reaching import Reaching

_MOST = 200
"""Classes: more is no lineage that anybody wrote."""


def ancestry(
    home: Reaching, cls: ast.ClassDef, itself: bool = True
) -> Iterator[tuple[Reaching, ast.ClassDef]]:
    """The class and what it derives from, with the analysis of the files that hold each: all of
    its own program first, then base by base what other files define. Each once, so that files
    whose classes derive from each other come to an end.
    """
    lineage = home.graph.lineage(cls)
    seen = {_key(home, owner) for owner in lineage}
    yield from ((home, owner) for owner in lineage[0 if itself else 1 :])
    waiting = [_above(home, lineage)]
    while waiting and len(seen) < _MOST:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
        elif _key(*found) not in seen:
            there, base = found
            lineage = [
                o
                for o in there.graph.lineage(base)
                if _key(there, o) not in seen
            ]
            seen.update(_key(there, owner) for owner in lineage)
            yield from ((there, owner) for owner in lineage)
            waiting.append(_above(there, lineage))


def _key(home: Reaching, cls: ast.ClassDef) -> tuple[str, int]:
    return home.module.scopes[cls].module.path, cls.lineno


def _above(
    home: Reaching, lineage: list[ast.ClassDef]
) -> Iterator[tuple[Reaching, ast.ClassDef]]:
    """The bases that other files define."""
    for base in (base for owner in lineage for base in owner.bases):
        if base in home.module.parents:
            root = home.module.scope_of(base).root
            found = home.imported.definition(base, root)
            if found is not None and isinstance(found[1], ast.ClassDef):
                yield found[0].reaching, found[1]


def is_field(cls: ast.ClassDef, name: str) -> bool:
    """A field of a dataclass or named tuple, which its constructor sets."""
    makers = [
        *cls.bases,
        *(getattr(d, "func", d) for d in cls.decorator_list),
    ]
    if not any(
        (dotted_name(m) or "").endswith(("dataclass", "NamedTuple"))
        for m in makers
    ):
        return False
    fields = (s.target for s in cls.body if isinstance(s, ast.AnnAssign))
    return any(
        isinstance(field, ast.Name) and field.id == name for field in fields
    )
