"""The variable that an optimizer lives in: what a subscript picks from, the list behind a loop
variable, and what a local of a function is only another name of.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts.iteration import BUILTINS_THAT_HAND_ON

_DEEP = 6


def sources_of(
    program: Program, optimizer: ast.expr, scope: Scope
) -> list[str]:
    """The variables that hold an optimizer for as long as it lives. Raises Refusal where it is in
    none.
    """
    return list(
        dict.fromkeys(_followed(program, root_of(optimizer), scope, _DEEP))
    )


def root_of(optimizer: ast.expr) -> str:
    """The variable an optimizer is reached through: `optimizer`, `optimizers` of `optimizers[i]`,
    `self.policy`.
    """
    while isinstance(optimizer, ast.Subscript):
        optimizer = optimizer.value
    if isinstance(optimizer, ast.Call) and isinstance(
        optimizer.func, ast.Attribute
    ):
        return root_of(optimizer.func.value)
    name = dotted_name(optimizer)
    if name is None:
        raise Refusal(
            "optimizer-not-in-sight",
            optimizer,
            "the optimizer is not a variable that can be followed",
        )
    return name


def held_by(
    program: Program, given: list[ast.expr], scope: Scope
) -> list[ast.expr]:
    """`train([net_g, net_d], [optim_g, optim_d])` hands over each of them."""
    found = [one for expr in given for one in _elements(expr)]
    known = [
        o for o in found if program.values.kind(o, scope) is Kind.OPTIMIZER
    ]
    return known if len(found) > len(given) and known else found


def _elements(given: ast.expr) -> list[ast.expr]:
    if isinstance(given, ast.Dict):
        return given.values
    return given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]


def are_made_here(
    program: Program, optimizers: list[ast.expr], scope: Scope
) -> bool:
    """`train(model, torch.optim.Adam(...))`: made in the call that is given them. Raises Refusal
    where that is so for some of them.
    """
    made = [
        isinstance(one, ast.Call)
        and program.values.of(one, scope).origin is one
        for one in optimizers
    ]
    if any(made) and not all(made):
        raise Refusal(
            "unsupported-shape",
            optimizers[0],
            "the optimizers of this loop are made in different places",
        )
    return any(made)


def is_parameter(name: str, home: Scope) -> bool:
    """Whether a variable is given to a function."""
    return home.bindings[name.partition(".")[0]][0].how == "parameter"


def _followed(
    program: Program, name: str, scope: Scope, deep: int
) -> list[str]:
    head, _, rest = name.partition(".")
    home = scope.lookup(head)
    if home is None or not deep:
        return [name]
    behind = (
        [source]
        if (source := _iterated(program, name, home))
        else _looked_up(head, home)
    )
    if not behind or head in behind:
        return [name]
    return [
        one
        for source in behind
        for one in _followed(
            program, f"{source}.{rest}" if rest else source, home, deep - 1
        )
    ]


def key_writes(
    program: Program, names: list[str], home: Scope
) -> list[ast.stmt]:
    """`conf["optimizer"] = Adam(...)` in the body of a function: made there, though what holds it
    is a parameter.
    """
    return [
        statement
        for statement in home.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Subscript)
        and program.values.kind(statement.value, home) is Kind.OPTIMIZER
        and (held := _variable(statement.targets[0])) is not None
        and set(_followed(program, held, home, _DEEP)) & set(names)
    ]


def _iterated(program: Program, name: str, home: Scope) -> str | None:
    """`for optimizer in optimizers:` leads to the list."""
    first = next(iter(home.bindings.get(name, ())), None)
    if first is None or first.how != "for" or first.value is None:
        return None
    return dotted_name(gone_through(program, first.value, first.index, home))


def gone_through(
    program: Program, iterable: ast.expr, index: int | None, home: Scope
) -> ast.expr:
    """`optimizers` of `optimizers[1:]`, `optimizers.values()`, `reversed(optimizers)` and, for the
    second of a pair, `zip(models, optimizers)`.
    """
    if isinstance(iterable, ast.Subscript):
        return gone_through(program, iterable.value, None, home)
    if not isinstance(iterable, ast.Call):
        return iterable
    if isinstance(iterable.func, ast.Attribute):
        return gone_through(program, iterable.func.value, None, home)
    inner = _handed_on(program, iterable, index, home)
    return (
        iterable if inner is None else gone_through(program, inner, None, home)
    )


def _handed_on(
    program: Program, call: ast.Call, index: int | None, home: Scope
) -> ast.expr | None:
    """What a function goes through for the part of its turns at `index`."""
    given, name = call.args, dotted_name(call.func) or ""
    known = [
        one
        for one in given
        if program.values.kind(one, home) is Kind.OPTIMIZERS
    ]
    if name not in BUILTINS_THAT_HAND_ON or home.lookup(name) is not None:
        return known[0] if known else None
    if name == "zip" and index is not None and index < len(given):
        return given[index]
    return next(iter(known or given), None)


def _looked_up(head: str, home: Scope) -> list[str]:
    """`optimizer = self.optimizer` and `model = data.model` make nothing: what a function only
    looks up lives longer than a call of it, and so must its scaler.
    """
    bindings = (
        home.bindings.get(head, []) if isinstance(home.node, FUNCTIONS) else []
    )
    found: list[str] = []
    for binding in bindings:
        names = _held(binding, home)
        if not names:
            return []
        found += names
    return found


def _held(binding: Binding, home: Scope) -> list[str]:
    """The variables that a local is another name of; none where it is more than that."""
    value = binding.value
    if binding.how != "assign" or value is None:
        return []
    if isinstance(value, ast.Tuple) and binding.index is not None:
        value = (
            value.elts[binding.index]
            if binding.index < len(value.elts)
            else value
        )
    elif binding.index is not None and not _is_given(value, home):
        return []
    arms = (
        [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    )
    names = [_variable(arm) for arm in arms]
    return (
        [name for name in names if name is not None]
        if None not in names
        else []
    )


def _is_given(value: ast.expr, home: Scope) -> bool:
    """`self.optimizers`, or a parameter: what is unpacked of it was made elsewhere."""
    if isinstance(value, ast.Name):
        bindings = home.bindings.get(value.id, [])
        return bool(bindings) and all(b.how == "parameter" for b in bindings)
    return isinstance(value, ast.Attribute)


def _variable(value: ast.expr) -> str | None:
    while isinstance(value, ast.Subscript):
        value = value.value
    return dotted_name(value)
