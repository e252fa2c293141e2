"""What a loop gives its variable: rows of tensors, elements of lists, numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.fact import (
    NUMBER,
    UNKNOWN,
    DType,
    Fact,
    join,
)
from amp_migrate.torch_facts.methods import KEEPS_DTYPE

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def iterated(inference: Inference, binding: Binding) -> Fact:
    """What a loop gives its variable."""
    if binding.value is None:
        return UNKNOWN
    return _drawn(inference, binding.value, binding.index)


def taken(inference: Inference, binding: Binding) -> Fact | None:
    """What `_, first = next(rows)` gives of `rows = enumerate(scores)`; None of all else."""
    drawn = drawn_from(inference.program, binding)
    if drawn is None:
        return None
    return _drawn(inference, drawn, binding.index)


def drawn_from(program: Program, binding: Binding) -> ast.expr | None:
    """`rows` of `_, first = next(rows)`, where `rows = enumerate(scores)`."""
    call = binding.value
    if not isinstance(call, ast.Call) or dotted_name(call.func) != "next":
        return None
    if len(call.args) != 1 or not _is_paired(_made(program, call.args[0])):
        return None
    return call.args[0]


def _drawn(inference: Inference, expr: ast.expr, place: int | None) -> Fact:
    """What each step through a value gives, or the part of it at a place."""
    program = inference.program
    several = _alternatives(program, expr)
    if several:
        return join(_drawn(inference, one, place) for one in several)
    if place == 0 and _has_keys(program, expr):
        return Fact(DType.NUMBER | DType.OTHER)
    rows = rows_of(program, expr, place)
    if rows is None:
        return NUMBER
    found = _rows(inference, rows, program.module.scope_of(rows))
    if place is None or not isinstance(expr, (ast.List, ast.Tuple)):
        return found
    return found.element(place)


def _alternatives(program: Program, expr: ast.expr) -> list[ast.expr]:
    """What made an iterator in the branches before: `enumerate(rows)`, or a list of pairs."""
    if not isinstance(expr, ast.Name):
        return []
    bindings = program.reaching.at(expr, expr.id).bindings
    made = [
        one.value
        for one in bindings
        if one.how == "assign" and one.index is None
        if one.value is not None and one.value in program.module.parents
    ]
    whole = 1 < len(made) == len(bindings)
    return made if whole and any(map(_is_paired, made)) else []


def _has_keys(program: Program, expr: ast.expr) -> bool:
    """`rows.items()` of a dictionary: no tensor is a key, which would be found by itself alone."""
    if not isinstance(expr, ast.Call) or expr.args or expr.keywords:
        return False
    func = expr.func
    if not isinstance(func, ast.Attribute) or func.attr != "items":
        return False
    return not program.graph.methods_named("items")


def rows_of(
    program: Program, expr: ast.expr, place: int | None
) -> ast.expr | None:
    """What a loop takes one row of at each step, `scores` of `enumerate(scores)` at place 1; None
    where it counts.
    """
    value = _made(program, expr)
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
        return value
    if value.func.id == "range":
        return None
    if value.func.id == "enumerate" and value.args:
        return None if place == 0 else value.args[0]
    if value.func.id == "zip" and place is not None and place < len(value.args):
        return value.args[place]
    return value


def _made(program: Program, expr: ast.expr) -> ast.expr:
    """The call that made an iterator which a name holds, `rows = enumerate(scores)`."""
    if not isinstance(expr, ast.Name):
        return expr
    bindings = program.reaching.at(expr, expr.id).bindings
    only = bindings[0] if len(bindings) == 1 else None
    if only is None or only.how != "assign" or only.index is not None:
        return expr
    made = only.value
    return made if made is not None and _is_paired(made) else expr


def _is_paired(made: ast.expr) -> bool:
    """`enumerate(scores)`, `zip(scores, masks)`"""
    return isinstance(made, ast.Call) and dotted_name(made.func) in (
        "enumerate",
        "zip",
    )


def listed(
    inference: Inference, made: ast.ListComp | ast.GeneratorExp, scope: Scope
) -> Fact:
    """What a comprehension gives: element by element what it goes through, where it only moves
    that, `[one.to(device) for one in (x, y)]`.
    """
    found = inference.of(made.elt, scope)
    if len(made.generators) == 1 and _keeps(made.elt, made.generators[0]):
        whole = inference.of(made.generators[0].iter, scope)
        if whole.elements and whole.element(None).dtypes == found.dtypes:
            return whole
    return found._replace(elements=(), container=True)


def _keeps(element: ast.expr, generator: ast.comprehension) -> bool:
    """`one`, `one.to(device)`, `one.cuda()` of `for one in ...`."""
    if isinstance(element, ast.Call) and isinstance(
        element.func, ast.Attribute
    ):
        if element.func.attr in KEEPS_DTYPE:
            return _keeps(element.func.value, generator)
    target = generator.target
    return (
        isinstance(element, ast.Name)
        and isinstance(target, ast.Name)
        and element.id == target.id
        and not generator.ifs
    )


def _rows(inference: Inference, expr: ast.expr, scope: Scope) -> Fact:
    """The elements of a list, or the rows of a tensor; pairs of such, as `zip` gives them; of
    anything else they are unseen.
    """
    several = _alternatives(inference.program, expr)
    if several:
        return join(_rows(inference, one, scope) for one in several)
    made = _made(inference.program, expr)
    if isinstance(made, ast.Call) and _is_paired(made):
        return _pairs(inference, made)
    fact = inference.of(expr, scope)
    if fact.dtypes == DType.OTHER:
        return inference.unseen(expr)
    return fact.element(None)


def _pairs(inference: Inference, made: ast.Call) -> Fact:
    """What each step through `zip(forward, backward)` or `enumerate(rows)` gives."""
    parts = [_drawn(inference, one, None) for one in made.args]
    if dotted_name(made.func) == "enumerate":
        parts = [NUMBER, *parts[:1]]
    return join(parts)._replace(elements=tuple(parts), container=True)
