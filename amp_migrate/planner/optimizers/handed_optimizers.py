"""Optimizers of unknown make: which of them come from a caller, or out of settings."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import calls_in, is_none
from amp_migrate.model.values.kinds import Kind, optimizer_name


def handed_over(program: Program, optimizer: ast.expr, scope: Scope) -> bool:
    """Whether an optimizer of unknown make is a parameter, or an attribute set from one: its
    callers decide what it is. Or an unknown maker is given parameters: the settings decide.
    """
    while isinstance(optimizer, ast.Subscript):
        optimizer = optimizer.value
    name = dotted_name(optimizer) or ""
    head = name.partition(".")[0]
    home = scope.lookup(head)
    if home is None:
        return False
    if "." not in name:
        bound = home.bindings[head]
        return bound[0].how in ("parameter", "for") or (
            _is_cleared(program, name, scope) and _are_of_parameters(bound)
        )
    cls = program.graph.class_around(scope)
    owner = program.module.scopes[cls] if cls is not None else None
    made = (
        owner.bindings.get(f"self.{name.split('.')[1]}", [])
        if owner is not None and head == home.self_name
        else []
    )
    values = [
        b.value for b in made if b.value is not None and not is_none(b.value)
    ]
    if name.count(".") > 1 and values:
        return _set_by_its_class(program, name.rpartition(".")[2])
    return not values or all(
        isinstance(v, ast.Name) or _takes_parameters(v) or _is_entry(v)
        for v in values
    )


def _is_cleared(program: Program, name: str, scope: Scope) -> bool:
    """Whether something is used or called as an optimizer is."""
    used = program.values.methods_used(name, scope)
    return "zero_grad" in used or optimizer_name(name)


def _are_of_parameters(bindings: list[Binding]) -> bool:
    """Whether whatever a variable is bound to, if only to None, is made of parameters."""
    values = [b.value for b in bindings if not is_none(b.value)]
    return bool(values) and all(
        one is not None and _takes_parameters(one) for one in values
    )


def _set_by_its_class(program: Program, attribute: str) -> bool:
    """Whether every class that sets an attribute of this name makes it of parameters: of an object
    out of `config.network_fn()` more is not known.
    """
    scopes = program.module.scopes
    made = [
        b
        for c in program.graph.classes()
        for b in scopes[c].bindings.get(f"self.{attribute}", ())
    ]
    values = [
        b.value for b in made if b.value is not None and not is_none(b.value)
    ]
    return bool(values) and all(
        _takes_parameters(v)
        or program.values.kind(v, program.module.scope_of(v)) is Kind.OPTIMIZER
        for v in values
    )


def _takes_parameters(made: ast.expr) -> bool:
    """`config.optimizer_fn(net.parameters())`: an unknown maker is given parameters, as torch's
    optimizers are.
    """
    given = (
        [*made.args, *(k.value for k in made.keywords)]
        if isinstance(made, ast.Call)
        else []
    )
    calls = [one.func for part in given for one in calls_in(part)]
    named = (dotted_name(one) or "" for one in [*calls, *_added(given)])
    return any(
        name.rpartition(".")[2].endswith(("parameters", "params"))
        for name in named
    )


def _added(given: list[ast.expr]) -> list[ast.expr]:
    """The parts of `a.params + b.params`."""
    return [
        p
        for g in given
        for p in (
            _added([g.left, g.right]) if isinstance(g, ast.BinOp) else [g]
        )
    ]


def _is_entry(value: ast.expr) -> bool:
    """`kwargs["optimizer"]`, `config.get("optimizer")`: handed over under a key."""
    key: ast.expr | None = (
        value.slice if isinstance(value, ast.Subscript) else None
    )
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "get"
        and value.args
    ):
        key = value.args[0]
    return (
        isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and optimizer_name(key.value)
    )
