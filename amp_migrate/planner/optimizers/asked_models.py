"""The models whose parameters an optimizer is made of: `model` of `SGD(model.parameters())`, also
through names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.queries import names_stored, nodes_in

PARAMETERS = ("parameters", "named_parameters")
_DEEP = 3


def asked_models(
    program: Program, made: ast.AST, deep: int = _DEEP
) -> Iterator[ast.expr]:
    """`model` of `model.parameters()`, in what is made and in what its names were made of."""
    for inner in nodes_in(made):
        if isinstance(inner, ast.Attribute) and inner.attr in PARAMETERS:
            if can_be_read(program, inner.value):
                yield inner.value
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield from _asked_by_name(program, inner, deep) if deep else ()


def _asked_by_name(
    program: Program, name: ast.Name, deep: int
) -> Iterator[ast.expr]:
    """What a name was made of asks; of several ways, what each has to do with."""
    ways = _made_of(program, name)
    for way in ways:
        for model in asked_models(program, way, deep - 1):
            called = dotted_name(model) or ""
            if all(_reads(program, one, called, deep - 1) for one in ways):
                yield model


def _made_of(program: Program, name: ast.Name) -> list[ast.expr]:
    """What a name is assigned on each way, where all of them are in sight."""
    bindings = program.reaching.at(name, name.id).bindings
    made = [b.value for b in bindings if b.how == "assign"]
    near = program.module.parents
    found = [value for value in made if value is not None and value in near]
    return found if len(found) == len(bindings) else []


def _reads(program: Program, value: ast.expr, called: str, deep: int) -> bool:
    """Whether an expression reads a model, itself or by what its names were made of."""
    for inner in nodes_in(value):
        if isinstance(inner, (ast.Name, ast.Attribute)):
            if dotted_name(inner) == called:
                return True
        if isinstance(inner, ast.Name) and deep:
            for way in _made_of(program, inner):
                if _reads(program, way, called, deep - 1):
                    return True
    return False


def can_be_read(program: Program, model: ast.expr) -> bool:
    """Whether a model has a name, and not in a comprehension alone: `net` of `{k:
    Adam(net.parameters()) for k, net in nets.items()}`.
    """
    dotted = dotted_name(model)
    around = program.module.ancestors(model)
    loops = [one for a in around for one in getattr(a, "generators", ())]
    return dotted is not None and not any(
        dotted.partition(".")[0] in names_stored(one.target) for one in loops
    )
