"""Outputs that an object keeps: set under autocast, read by its other methods outside of it, where
weights, arrays and metrics expect float32. They are kept in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.uses import viewed
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.half_safety.hazards import Hazards

_OF_TENSORS = frozenset({"detach", "detach_", "data", "clone", "cpu", "numpy"})
_SHOWN = _OF_TENSORS - {"numpy"}


def kept_in_float(program: Program, trained: Scope, hazards: Hazards) -> None:
    """Collect the casts of one loop: what other loops read, they read in regions of their own."""
    others = {one for one in program.training_scopes if one is not trained}
    for scope in program.module.scopes.values():
        cls = program.graph.class_around(scope)
        if (
            cls is None
            or scope.owner is None
            or not isinstance(scope.node, FUNCTIONS)
        ):
            continue
        for name, value in _stored(scope, hazards):
            found = _read_outside(program, cls, name, hazards)
            reads = [
                one
                for one in found
                if program.module.scope_of(one) not in others
            ]
            if reads and _is_half_tensor(program, value, scope, name, hazards):
                hazards.cast(value)


def _stored(scope: Scope, hazards: Hazards) -> Iterator[tuple[str, ast.expr]]:
    """`self.output = net(x)`, where autocast may be on."""
    assert scope.owner is not None
    for key, bindings in scope.owner.bindings.items():
        for one in bindings:
            plain = (
                one.how == "assign"
                and one.index is None
                and key.startswith("self.")
            )
            own = scope.module.parents.get(one.statement) is not None
            if plain and own and one.value is not None:
                if scope.module.scope_of(one.statement) is scope:
                    if hazards.asked.inference.inside(one.statement):
                        yield key.removeprefix("self."), one.value


def _read_outside(
    program: Program, cls: ast.ClassDef, name: str, hazards: Hazards
) -> Iterator[ast.Attribute]:
    """Where the objects of a class read an attribute outside of autocast."""
    family = {*program.graph.lineage(cls), *program.graph.heirs(cls)}
    for node in _all_reads(program).get(name, ()):
        if hazards.asked.inference.inside(node):
            continue
        scope = program.module.scope_of(node)
        own = (
            isinstance(node.value, ast.Name)
            and node.value.id == scope.self_name
        )
        holder = program.graph.class_around(scope) if own else None
        if (holder or program.values.of(node.value, scope).cls) in family:
            if _meets_float(program, node, scope, hazards):
                yield node


def _all_reads(program: Program) -> dict[str, list[ast.Attribute]]:
    return program.remembered(_all_reads, lambda: _reads(program))


def _reads(program: Program) -> dict[str, list[ast.Attribute]]:
    """Where attributes are read, by name."""
    found: dict[str, list[ast.Attribute]] = {}
    for node in program.module.parents:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.attr, []).append(node)
    return found


def _meets_float(
    program: Program, read: ast.Attribute, scope: Scope, hazards: Hazards
) -> bool:
    """Whether a read becomes an array, or meets weights in a product or in another model."""
    last = viewed(program.module, read, _SHOWN)
    parent = program.module.parents[last]
    if isinstance(parent, ast.Attribute):
        return parent.attr == "numpy"
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.MatMult)
    if isinstance(parent, ast.keyword):
        parent = program.module.parents[parent]
    if not isinstance(parent, ast.Call) or parent.func is last:
        return False
    found = spelled(hazards.asked.inference, parent, scope)
    if found is not None:
        return found.policy == "lower"
    if (program.canonical(parent.func) or "").startswith("numpy."):
        return True
    if program.values.callee(parent, scope) is not None or program.canonical(
        parent.func
    ):
        return False
    kind = program.values.kind(parent.func, scope)
    return (
        kind is Kind.MODEL
        or kind is Kind.UNKNOWN
        and isinstance(parent.func, ast.Attribute)
    )


def _is_half_tensor(
    program: Program, value: ast.expr, scope: Scope, name: str, hazards: Hazards
) -> bool:
    """Whether a value is half, or comes out of a model out of sight, and is a tensor."""
    fact = hazards.asked.fact(value, scope)
    if fact.container or fact.elements:
        return False
    if fact.seen_half:
        return True
    runs = isinstance(value, ast.Call) and program.effects.is_forward(
        value, scope
    )
    parents = program.module.parents
    asked = (parents[read] for read in _all_reads(program).get(name, ()))
    is_tensor = any(
        isinstance(one, ast.Attribute) and one.attr in _OF_TENSORS
        for one in asked
    )
    return runs and fact.may_be_half and is_tensor
