"""What bindings give their names: assignments, loops, parameters, and what is added later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors import parameters
from amp_migrate.model.tensors.fact import (
    OTHER,
    UNKNOWN,
    DType,
    Fact,
    Origin,
    join,
    origin_of,
    promoted,
)
from amp_migrate.model.tensors.iteration import iterated, taken
from amp_migrate.model.values.stored_attributes import stored_values

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def of_binding(inference: Inference, binding: Binding) -> Fact:
    """What a binding gives its name."""
    statement = binding.statement
    if binding.how == "parameter":
        return parameters.passed(inference, binding)
    if binding.value is None and _has_star(statement):
        assert isinstance(statement, ast.Assign)
        rest = inference.of(
            statement.value, inference.program.module.scope_of(statement)
        )
        return rest._replace(elements=(), container=True)
    if (
        binding.value is None
        or statement not in inference.program.module.parents
    ):
        # Nested targets have no value of their own: `for index, (x, y) in enumerate(loader)`.
        return (
            OTHER
            if binding.how in ("import", "def")
            else inference.unseen(statement)
        )
    scope = inference.program.module.scope_of(binding.value)
    fact = inference.of(binding.value, scope)
    if binding.how == "augmented" and isinstance(statement, ast.AugAssign):
        return _augmented(inference, statement, fact, scope)
    if binding.how == "for":
        return iterated(inference, binding)
    if binding.how in ("assign", "walrus"):
        return taken(inference, binding) or _assigned(inference, binding, fact)
    return inference.unseen(binding.value)


def _assigned(inference: Inference, binding: Binding, fact: Fact) -> Fact:
    """What an assignment gives its name of a value, or of one of its parts."""
    place = None if _has_star(binding.statement) else binding.index
    whole = fact if place is None else fact.element(place)
    if isinstance(binding.value, ast.Constant):
        return join([whole, *_set_from_outside(inference, binding)])
    if whole.container:
        return _filled(inference, binding, whole)
    if whole.origin and _is_written(inference, binding):
        return whole._replace(origin=Origin.NETWORK)
    return whole


def _has_star(statement: ast.AST) -> bool:
    """`first, *rest = values`: where a part stands, its place does not tell."""
    return isinstance(statement, ast.Assign) and any(
        isinstance(one, ast.Starred)
        for target in statement.targets
        if isinstance(target, (ast.Tuple, ast.List))
        for one in target.elts
    )


def _set_from_outside(inference: Inference, binding: Binding) -> Iterator[Fact]:
    """`self.weight = None`, for which other code writes `layer.weight = ...`."""
    value, names = binding.value, _targets(binding)
    if not isinstance(value, ast.Constant) or value.value is not None:
        return
    for name in names:
        holder, _, attribute = name.rpartition(".")
        for given, scope in stored_values(inference.program, attribute):
            if given is not None and holder and given is not value:
                yield inference.of(given, scope)


def _filled(inference: Inference, binding: Binding, made: Fact) -> Fact:
    """A list with what is appended to it later, or put in the place of what it held."""
    value = binding.value
    if not isinstance(value, (ast.List, ast.ListComp, ast.Call)):
        return made
    found = list(_put_in(inference, binding))
    if not found:
        return made
    if isinstance(value, ast.ListComp) or _has_parts(value):
        found.append(made)
    parts = [one._replace(elements=(), container=False) for one in found]
    return join(parts)._replace(bounds=None, container=True)


def _has_parts(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and bool(value.elts)


def _put_in(inference: Inference, binding: Binding) -> Iterator[Fact]:
    program = inference.program
    added = program.remembered("appended", lambda: _appended(program))
    written = program.remembered(
        "placed", lambda: _written(program, deep=False)
    )
    scope = program.module.scope_of(binding.statement)
    for name in _targets(binding):
        for one, where in (*added.get(name, ()), *written.get(name, ())):
            if _same_home(name, scope, where):
                yield inference.of(one, where)


_ADDING = ("append", "appendleft", "extend", "insert")


def _appended(program: Program) -> dict[str, list[tuple[ast.expr, Scope]]]:
    """What is appended to each name and attribute."""
    found: dict[str, list[tuple[ast.expr, Scope]]] = {}
    for scope in program.module.scopes.values():
        for call in scope.calls:
            func = call.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr in _ADDING
                and call.args
            ):
                name = dotted_name(func.value) or ""
                found.setdefault(name, []).append((call.args[-1], scope))
    return found


def _is_written(inference: Inference, binding: Binding) -> bool:
    """Whether what a network gives is written into a tensor that was made for it."""
    program = inference.program
    written = program.remembered("written", lambda: _written(program))
    scope = program.module.scope_of(binding.statement)
    facts = [
        inference.of(value, where)
        for name in _targets(binding)
        for value, where in written.get(name, ())
        if _same_home(name, scope, where)
    ]
    return any(one.may_be_tensor and not one.origin for one in facts)


def _written(
    program: Program, *, deep: bool = True
) -> dict[str, list[tuple[ast.expr, Scope]]]:
    """What is written into parts of each name and attribute, `rows[i] = y`; with `deep`, into
    parts of parts, too.
    """
    found: dict[str, list[tuple[ast.expr, Scope]]] = {}
    for node in program.module.parents:
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target]
        )
        for target in targets:
            name = _whole(target) if deep else _holder(target)
            if name is not None:
                where = program.module.scope_of(node)
                found.setdefault(name, []).append((node.value, where))
    return found


def _holder(target: ast.expr) -> str | None:
    """`rows` of `rows[i]`."""
    if not isinstance(target, ast.Subscript):
        return None
    return dotted_name(target.value)


def _whole(target: ast.expr) -> str | None:
    """`rows` of `rows[i, :][mask]`."""
    if not isinstance(target, ast.Subscript):
        return None
    while isinstance(target, ast.Subscript):
        target = target.value
    return dotted_name(target)


def _augmented(
    inference: Inference, statement: ast.AugAssign, added: Fact, scope: Scope
) -> Fact:
    """`x += y` keeps the dtype of a tensor; a number becomes what is added."""
    name = dotted_name(statement.target)
    before = (
        inference.program.reaching.at(statement, name).bindings
        if name is not None
        else ()
    )
    held = join([inference.bound(one) for one in before]) if before else UNKNOWN
    if held.dtypes & (DType.NUMBER | DType.OTHER):
        return promoted([held, added])._replace(bounds=None)
    return held._replace(bounds=None, origin=origin_of([held, added]))


def _targets(binding: Binding) -> list[str]:
    """The names and attributes that an assignment gives a list; of `a, b = [], []` the one that
    gets this list.
    """
    statement = binding.statement
    if not isinstance(statement, ast.Assign):
        return []
    named: list[ast.expr] = []
    for target in statement.targets:
        if isinstance(target, ast.Tuple):
            named += _parts_given(target, statement.value, binding.value)
        else:
            named.append(target)
    return [name for one in named if (name := dotted_name(one)) is not None]


def _parts_given(
    target: ast.Tuple, value: ast.expr, given: ast.expr | None
) -> list[ast.expr]:
    """The parts of a target that get one of several values; all where these are not in sight."""
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
        return target.elts
    pairs = zip(target.elts, value.elts, strict=True)
    return [part for part, one in pairs if one is given]


def _same_home(name: str, scope: Scope, other: Scope) -> bool:
    """Whether a name means the same in two scopes; an attribute does in one class."""
    if "." in name:
        return scope.owner is other.owner
    return scope.lookup(name) is other.lookup(name)
