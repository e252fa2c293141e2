"""Attributes of objects of the project: what their class sets them to, and what they were made
with, as the fields of a dataclass are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.tensors.fact import UNKNOWN, DType, Fact, join
from amp_migrate.model.values.stored_attributes import stored_values

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference

_DEEP = 4


def attribute(
    inference: Inference, expr: ast.Attribute, scope: Scope
) -> Fact | None:
    """What an attribute of an object may be; None where it cannot be told."""
    return _set_in_class(inference, expr, scope) or _field(
        inference, expr, scope
    )


def _set_in_class(
    inference: Inference, expr: ast.Attribute, scope: Scope
) -> Fact | None:
    """What the class of an object sets an attribute to, where that is of a known dtype."""
    program = inference.program
    cls = program.values.of(expr.value, scope).cls
    owners = program.graph.lineage(cls) if cls is not None else []
    made = [
        one
        for owner in owners
        for one in program.module.scopes[owner].bindings.get(
            f"self.{expr.attr}", ()
        )
    ]
    fact = join(inference.bound(one) for one in made) if made else UNKNOWN
    return None if fact.dtypes & DType.UNKNOWN else fact


def _field(
    inference: Inference, expr: ast.Attribute, scope: Scope
) -> Fact | None:
    given = given_to_field(inference.program, expr, scope)
    return join(inference.of(*one) for one in given) if given else None


def given_to_field(
    program: Program, expr: ast.Attribute, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """`h` of `model(x).logits`, where `forward` returns `Output(logits=h)`; nothing where not each
    object that it may be shows it, or the field is set again.
    """
    if stored_values(program, expr.attr):
        return []
    made = list(_made(program, expr.value, scope, _DEEP))
    given = [(_given(program, *one, expr.attr), one[1]) for one in made]
    known = [(one, home) for one, home in given if one is not None]
    return known if len(known) == len(given) else []


def _made(
    program: Program, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """The calls that an object may come from; of functions and models in sight what they return."""
    inner: list[tuple[ast.expr, Scope]] = []
    if isinstance(expr, ast.Name):
        bindings = program.reaching.at(expr, expr.id).bindings
        values = [
            one.value
            for one in bindings
            if one.how == "assign"
            and one.index is None
            and one.value is not None
        ]
        if len(values) == len(bindings):
            home = program.module.scope_of
            inner = [(one, home(one)) for one in values]
    elif isinstance(expr, ast.Call):
        inner = list(_returned(program, expr, scope))
    if not inner or not deep:
        yield expr, scope
        return
    for value, home_of_it in inner:
        yield from _made(program, value, home_of_it, deep - 1)


def _returned(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a function, or the model's `forward`, in sight gives back."""
    functions = list(program.values.callees(call, scope))
    cls = program.values.of(call.func, scope).cls
    forward = program.graph.method(cls, "forward") if cls is not None else None
    if not functions and forward is not None:
        functions = [forward]
    for function in functions:
        if function.name != "__init__":
            home = program.scope(function)
            yield from ((one, home) for one in returned(function))


def _given(
    program: Program, made: ast.expr, scope: Scope, name: str
) -> ast.expr | None:
    """What a call gives a field, which makes an object of a class without a constructor."""
    if not isinstance(made, ast.Call):
        return None
    cls = program.graph.class_named(made.func, scope)
    if cls is None or program.graph.method(cls, "__init__") is not None:
        return None
    for keyword in made.keywords:
        if keyword.arg == name:
            return keyword.value
    fields = [
        one.target.id
        for one in cls.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    place = fields.index(name) if name in fields else len(made.args)
    return made.args[place] if place < len(made.args) else None
