"""Conditions of other places, asked by names that have the same values here: `args.cuda` of the
function that makes an object for the `self.args.cuda` of its methods.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.dataflow.origins import Origin, origin_at, origin_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.syntax.substitution import with_dotted
from amp_migrate.planner.switch.reading_place import ReadingPlace

Question: TypeAlias = "tuple[str, tuple[Origin, ...]]"


def question(program: Program, test: ast.expr) -> Question:
    """What two conditions have in common that ask for the same values in other names."""
    names = dict(_variables(program, test))
    origins = [origin_at(program, *one) for one in names.items()]
    known = tuple(one for one in origins if one is not None)
    if len(known) < len(origins):
        return ast.unparse(test), ()
    put = {name: f"_{place}" for place, name in enumerate(names)}
    return ast.unparse(with_dotted(test, put)), known


def asked_here(
    program: Program, test: ast.expr, here: ReadingPlace
) -> str | None:
    """The condition in names that can be read here."""
    put: dict[str, str] = {}
    for dotted, node in _variables(program, test):
        found = _name_here(
            program, dotted, origin_at(program, dotted, node), here
        )
        if found is None:
            return None
        put[dotted] = found
    return ast.unparse(with_dotted(test, put)) if put else None


def _variables(
    program: Program, test: ast.expr
) -> Iterator[tuple[str, ast.expr]]:
    """The dotted names of a condition that are no module's."""
    parents = program.module.parents
    for node in nodes_in(test):
        if isinstance(node, (ast.Name, ast.Attribute)) and node in parents:
            inner = isinstance(parents[node], ast.Attribute)
            dotted = dotted_name(node)
            if dotted and not inner and program.canonical(node) is None:
                yield dotted, node


def _name_here(
    program: Program, dotted: str, wanted: Origin | None, here: ReadingPlace
) -> str | None:
    """The name that a value has here: the most alike, else the shortest."""
    if wanted is None or not _is_one_here(program, wanted, here):
        return None
    found = []
    for name in _names(here):
        own = origin_of(program, name, here.bindings)
        if own is not None and own.made is wanted.made:
            read = wanted.attributes[: len(own.attributes)]
            rest = wanted.attributes[len(own.attributes) :]
            if read == own.attributes and here.is_bound(name):
                found.append(".".join((name, *rest)))
    last = dotted.rpartition(".")[2]
    return min(
        found,
        key=lambda one: (one.split(".")[-1] != last, one.count("."), len(one)),
        default=None,
    )


def _is_one_here(program: Program, wanted: Origin, here: ReadingPlace) -> bool:
    """Whether a value that callers give is one for this place: of this call of the function, or
    of the object whose method it is.
    """
    if not isinstance(wanted.made, ast.arg):
        return True
    inner = program.module.scope_of(wanted.made)
    makes = isinstance(inner.node, FUNCTIONS) and inner.node.name == "__init__"
    return inner is here.scope or makes and inner.owner is here.scope.owner


def _names(here: ReadingPlace) -> Iterator[str]:
    """The local names of a place, those of its module, and the attributes of its object."""
    yield from here.scope.bindings
    if here.scope.is_function:
        yield from here.scope.module.root.bindings
    owner = here.scope.owner
    for name in owner.bindings if owner is not None else ():
        if name.startswith("self."):
            yield f"{here.scope.self_name}.{name.removeprefix('self.')}"
