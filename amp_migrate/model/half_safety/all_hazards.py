"""All questions about what breaks in half precision, asked of the nodes that a region runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.half_safety import (
    angles,
    constants,
    decompositions,
    degrees,
    demands,
    distances,
    distributions,
    divided_sums,
    divisors,
    encoded_places,
    finite_differences,
    given_products,
    gram_products,
    growth,
    kernels,
    layer_constants,
    long_sums,
    loss_data,
    mixtures,
    overflow,
    plain_sums,
    positions,
    products,
    quadrants,
    root_squares,
    row_differences,
    sampled_places,
    second_moments,
    singular,
    spectra,
    tested_dtypes,
    unlike_dtypes,
    writes,
)
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import spelled

_DOES = (
    ast.Call,
    ast.BinOp,
    ast.Assign,
    ast.AugAssign,
    ast.Compare,
    ast.Assert,
    ast.If,
    ast.Subscript,
)
"""What computes, writes or tests: names and constants, most of all nodes, do nothing that could
break."""


def apart(
    asked: Asked, nodes: Iterable[tuple[ast.AST, Scope]]
) -> Iterator[Hazard]:
    """What must be computed with autocast off, before anything else is asked."""
    for node, scope in nodes:
        if not isinstance(node, _DOES):
            continue
        yield from angles.hazards(asked, node, scope)
        yield from spectra.hazards(asked, node, scope)
        yield from distances.hazards(asked, node, scope)
        yield from second_moments.hazards(asked, node, scope)
        yield from plain_sums.hazards(asked, node, scope)
        yield from divided_sums.hazards(asked, node, scope)
        yield from decompositions.hazards(asked, node, scope)
        yield from divisors.hazards(asked, node, scope)
        yield from loss_data.hazards(asked, node, scope)
        yield from kernels.apart(asked, node, scope)
        yield from products.apart(asked, node, scope)
        yield from positions.products(asked, node, scope)
        yield from positions.steep(asked, node, scope)
        yield from sampled_places.hazards(asked, node, scope)
        yield from encoded_places.hazards(asked, node, scope)
        yield from given_products.hazards(asked, node, scope)
        if asked.float16:
            yield from gram_products.hazards(asked, node, scope)
            yield from degrees.hazards(asked, node, scope)
            yield from mixtures.hazards(asked, node, scope)
            yield from overflow.products(asked, node, scope)
            yield from distributions.spreads(asked, node, scope)


def hazards(
    asked: Asked, nodes: Iterable[tuple[ast.AST, Scope]]
) -> Iterator[Hazard]:
    """What breaks among `nodes`, each with the scope that it stands in."""
    for node, scope in nodes:
        if not isinstance(node, _DOES):
            continue
        if asked.float16:
            yield from root_squares.hazards(asked, node, scope)
        yield from long_sums.hazards(asked, node, scope)
        yield from plain_sums.in_half(asked, node, scope)
        yield from singular.hazards(asked, node, scope)
        if asked.float16:
            yield from constants.hazards(asked, node, scope)
            yield from overflow.hazards(asked, node, scope)
            yield from growth.hazards(asked, node, scope)
            yield from distributions.hazards(asked, node, scope)
        yield from demands.hazards(asked, node, scope)
        yield from tested_dtypes.hazards(asked, node, scope)
        yield from unlike_dtypes.hazards(asked, node, scope)
        yield from finite_differences.hazards(asked, node, scope)
        yield from row_differences.hazards(asked, node, scope)
        yield from _of_kind(asked, node, scope)


def _of_kind(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """What is asked of calls, of operators and of assignments."""
    if isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        if found is not None:
            yield from positions.casts(asked, node, found, scope)
            if asked.float16:
                yield from quadrants.hazards(asked, node, found, scope)
            yield from kernels.hazards(asked, node, found, scope)
            yield from writes.of_call(asked, node, found, scope)
            yield from products.of_call(asked, node, found, scope)
        else:
            yield from products.of_layer(asked, node, scope)
            yield from writes.of_layer(asked, node, scope)
            if asked.float16:
                yield from layer_constants.hazards(asked, node, scope)
    elif isinstance(node, ast.BinOp):
        yield from products.of_operator(asked, node, scope)
    elif isinstance(node, ast.Assign):
        yield from writes.by_index(asked, node, scope)
