"""Modules that compute a loss of what models gave, and hold neither parameters nor a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.values.kinds import Kind, criterion_name

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_REGISTERS = frozenset({"register_parameter", "add_module", "register_module"})
_BASE = "torch.nn.Module"


def runs_model(
    program: Program, call: ast.Call, scope: Scope, models: EventKind
) -> bool:
    """Whether a call is one of `models`. A loss may be handed what a model gave elsewhere, in
    float32; so may a variable that is called one.
    """
    found = program.effects.forward_of(call, scope)
    if found & EventKind.FORWARD:
        return not computes_only(program, call, scope)
    name = (dotted_name(call.func) or "").rpartition(".")[2]
    return bool(found & models) and not criterion_name(name)


def computes_only(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether `call` runs a module of a class in sight that holds no parameter and no model."""
    cls = program.values.of(call.func, scope).cls
    return cls is not None and holds_nothing(program, cls)


def holds_nothing(program: Program, cls: ast.ClassDef) -> bool:
    """Whether a module of this class has no parameters, and holds no module but losses: all that it
    and its bases set is numbers, tensors and losses, and it runs nothing that it was given. One
    that holds no loss is itself one where it compares two things, and nothing trains it.
    """
    if not _holds_nothing(program, cls, frozenset()):
        return False
    held = _attributes(program, program.graph.lineage(cls))
    compares = _takes(program, cls) > 1 and cls not in _trained(program)
    return compares or any(_is_criterion(program, one) for one in held)


def _takes(program: Program, cls: ast.ClassDef) -> int:
    """How many values `forward` takes."""
    forward = program.graph.method(cls, "forward")
    return len(program.scope(forward).parameters()) - 1 if forward else 0


def _is_criterion(program: Program, binding: Binding) -> bool:
    """Whether a name is bound to a loss that is made there."""
    scope = program.module.scope_of(binding.statement)
    return (
        isinstance(binding.value, ast.Call)
        and program.values.of(binding.value, scope).kind is Kind.CRITERION
    )


def _trained(program: Program) -> frozenset[ast.ClassDef | None]:
    """The classes of the objects whose parameters are asked for."""
    return program.remembered(
        _trained, lambda: frozenset(_asked_for_parameters(program))
    )


def _asked_for_parameters(program: Program) -> Iterator[ast.ClassDef | None]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr == "parameters":
                yield program.values.of(func.value, scope).cls


def _holds_nothing(
    program: Program, cls: ast.ClassDef, seen: frozenset[ast.AST]
) -> bool:
    lineage = program.graph.lineage(cls)
    if cls in seen or program.graph.method(cls, "forward") is None:
        return False
    bases = [base for one in lineage for base in one.bases]
    if not all(_is_known(program, base) for base in bases):
        return False
    held = list(_attributes(program, lineage))
    return all(
        _is_plain(program, binding, seen | {cls}) for binding in held
    ) and not any(_runs_or_registers(program, one) for one in lineage)


def _is_known(program: Program, base: ast.expr) -> bool:
    scope = program.module.scope_of(base)
    return (
        program.graph.class_named(base, scope) is not None
        or program.canonical(base) == _BASE
    )


def _attributes(
    program: Program, lineage: list[ast.ClassDef]
) -> Iterator[Binding]:
    for owner in lineage:
        held = program.module.scopes[owner].bindings
        for name, bindings in held.items():
            if name.startswith("self."):
                yield from bindings


def _is_plain(
    program: Program, binding: Binding, seen: frozenset[ast.AST]
) -> bool:
    """Whether an attribute is no parameter, and no module but a loss."""
    value = binding.value
    if not isinstance(value, ast.Call):
        return value is not None
    made = program.values.of(value, program.module.scope_of(binding.statement))
    if made.cls is not None:
        return _holds_nothing(program, made.cls, seen)
    library = (program.canonical(value.func) or "").startswith("torch.nn.")
    return made.kind is Kind.CRITERION or not (
        library or made.kind is Kind.MODEL
    )


def _runs_or_registers(program: Program, cls: ast.ClassDef) -> bool:
    """Whether a method runs what may be a module, or registers what cannot be seen."""
    methods = (one for one in cls.body if isinstance(one, FUNCTIONS))
    return any(
        _may_run_module(program, cls, call, program.scope(method))
        for method in methods
        for call in program.scope(method).calls
    )


def _may_run_module(
    program: Program, cls: ast.ClassDef, call: ast.Call, scope: Scope
) -> bool:
    path = (dotted_name(call.func) or "").split(".")
    if path[-1] in _REGISTERS:
        return True
    if len(path) == 1:  # a variable, or an item; a method of a value is none
        is_item = not path[0] and not isinstance(call.func, ast.Attribute)
        return is_item or path[0] in scope.bindings
    if path[0] != scope.self_name or len(path) > 2:
        return False
    if program.graph.method(cls, path[1]) is not None:
        return False
    value = program.values.of(call.func, scope)
    plain = value.kind is Kind.CRITERION or value.cls is not None
    return not plain  # the class of an attribute was asked where it is set
