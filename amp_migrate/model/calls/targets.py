"""The functions in sight that a call runs: helpers, methods, and the `forward` of models and of
their layers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.partials import bound_call
from amp_migrate.model.dataflow.sources import held, put_into
from amp_migrate.model.dataflow.taken_entries import taken
from amp_migrate.model.forwards.loss_tables import picked
from amp_migrate.model.forwards.model_layers import layers
from amp_migrate.model.forwards.own_forwards import own_forwards
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.one_of_several import (
    all_abroad,
    all_here,
    is_looked_up,
    is_one_of_several,
)
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.methods import GIVES_MODULE

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 8
_MADE_DEEP = 20
"""A model passes from its class through a table, a factory, wrappers, `.to(...)` and calls."""


def targets(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Function, ...]:
    """What `call` runs; a call of a model runs the `forward` of every class that its body names.

    So does a call that is handed a model or a loss: `self.compute_loss(self.criterion, x, y)`.
    """
    return program.remembered(
        (targets, call, scope), lambda: tuple(_targets(program, call, scope))
    )


def _targets(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[Function]:
    """The functions in sight that a call may run, once for each way that leads there."""
    callees = program.values.callees(call, scope)
    yield from callees
    if not (program.canonical(call.func) or "").startswith("torch."):
        # Of an object that branches make of several classes a callee is one.
        found = kept_functions(program, call.func, scope)
        yield from (
            one for home, one in found if home is program and one not in callees
        )
    for cls in dict.fromkeys(_classes(program, call, scope)):
        yield from forwards(program, cls)


def _classes(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[ast.ClassDef]:
    """The classes of the modules that a call runs, or is handed."""
    value = program.values.of(call.func, scope)
    if value.cls is not None:
        yield value.cls
    is_open = (
        value.kind is Kind.UNKNOWN and program.canonical(call.func) is None
    )
    if value.kind in (Kind.MODEL, Kind.CRITERION) or is_open:
        yield from made_classes(program, call.func, scope)
    for given in [*call.args, *(one.value for one in call.keywords)]:
        if isinstance(given, (ast.Name, ast.Attribute)):
            handed = program.values.of(given, scope)
            if (
                handed.kind in (Kind.MODEL, Kind.CRITERION)
                and handed.cls is not None
            ):
                yield handed.cls


def kept_functions(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> tuple[tuple[Program, Function], ...]:
    """The functions that a variable may hold, bound methods included, whichever branch or list
    they come from; with the program that each stands in. Asked once per part and depth.
    """
    if deep == 0:
        return ()
    return program.remembered(
        (kept_functions, expr, scope, deep),
        lambda: tuple(
            dict.fromkeys(_kept_functions(program, expr, scope, deep))
        ),
    )


def kept_lambdas(
    program: Program, func: ast.expr, scope: Scope
) -> Iterator[ast.Lambda]:
    """`self.loss = lambda x, y: bce(x, y)`, where `self.loss(x, y)` is called."""
    if isinstance(func, (ast.Name, ast.Attribute)):
        for home, value, _ in held(program, func, scope):
            if home is program and isinstance(value, ast.Lambda):
                yield value


def _kept_functions(
    program: Program, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[Program, Function]]:
    named = [(program, one) for one in all_here(program, expr, scope)]
    functions = [
        (home, one)
        for home, one in (*named, *all_abroad(program, expr, scope))
        if not isinstance(one, ast.ClassDef)
    ]
    if functions:
        yield from functions
        return
    if isinstance(expr, ast.Attribute):
        yield from _bound_methods(program, expr, scope)
    if isinstance(expr, (ast.Name, ast.Attribute)):
        values = [
            (value, where)
            for home, value, where in held(program, expr, scope)
            if home is program
        ]
        values += _added_to(program, expr, scope)
    elif isinstance(expr, ast.Call):
        yield from _given_back(program, expr, scope)
        values = [(one, scope) for one in expr.args if _hands_on(expr, scope)]
        bound = bound_call(program.module, expr)
        values += [(bound.func, scope)] if bound is not None else []
    else:
        values = list(parts(program, expr, scope))
    for value, where in values:
        yield from kept_functions(program, value, where, deep - 1)


def _given_back(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function]]:
    """`loss_fn` of `get_loss_fn(sde)`: the functions of its own body that a factory returns."""
    home, factory = program.values.abroad(call.func, scope) or (
        program,
        program.graph.function_at(call.func, scope),
    )
    if not isinstance(factory, FUNCTIONS):
        return
    for value in returned(factory):
        name = value.id if isinstance(value, ast.Name) else ""
        for one in home.scope(factory).bindings.get(name, ()):
            if isinstance(one.statement, FUNCTIONS):
                yield home, one.statement


def _added_to(
    program: Program, name: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """`losses` as it was before `losses += [smoothness]`."""
    bindings = program.reaching.at(name, dotted_name(name) or "").bindings
    statements = [one.statement for one in bindings if one.how == "augmented"]
    return [
        (one.target, scope)
        for one in statements
        if isinstance(one, ast.AugAssign) and one.target is not name
    ]


def _hands_on(call: ast.Call, scope: Scope) -> bool:
    """`enumerate(losses)`, `zip(losses, weights)`: a builtin gives what it is given."""
    func = call.func
    return isinstance(func, ast.Name) and scope.lookup(func.id) is None


def _bound_methods(
    program: Program, expr: ast.Attribute, scope: Scope
) -> Iterator[tuple[Program, Function]]:
    """`Correlation(9).loss`, `self.train_one`"""
    own = program.values.of(expr.value, scope).cls
    for cls in program.graph.heirs(own) if own is not None else ():
        method = program.graph.method(cls, expr.attr)
        if method is not None:
            yield program, method
    for made in makers(program, expr.value, scope):
        if isinstance(made, ast.ClassDef):
            home, cls = program, made
        else:
            found = program.values.abroad(made, program.module.scope_of(made))
            if found is None or not isinstance(found[1], ast.ClassDef):
                continue
            home, cls = found[0], found[1]
        method = home.graph.method(cls, expr.attr)
        if method is not None:
            yield home, method


def made_classes(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[ast.ClassDef]:
    """Every class of this program that an expression may be an instance of, whichever branch of a
    factory or entry of a table makes it.
    """
    found = makers(program, expr, scope)
    yield from (one for one in found if isinstance(one, ast.ClassDef))


class Made(NamedTuple):
    """What may make a value."""

    found: tuple[ast.ClassDef | ast.expr, ...]
    """Classes of the program, and names that are imported from elsewhere."""
    is_cut: bool
    """Whether there may be more, which lies too far away."""


def makers(
    program: Program, expr: ast.expr, scope: Scope
) -> tuple[ast.ClassDef | ast.expr, ...]:
    """The same, and the names that are imported from elsewhere, which may be further classes."""
    return made(program, expr, scope).found


def made(program: Program, expr: ast.expr, scope: Scope) -> Made:
    """The same, and whether these are all. Each part is met once, though there are far more ways to
    a part than parts.
    """
    return program.remembered(
        (made, expr, scope), lambda: _made(program, expr, scope)
    )


def _made(program: Program, expr: ast.expr, scope: Scope) -> Made:
    found: dict[ast.ClassDef | ast.expr, None] = {}
    seen = {expr}
    level = [(expr, scope)]
    for _ in range(_MADE_DEEP):
        inner: list[tuple[ast.expr, Scope]] = []
        for part in level:
            found |= dict.fromkeys(_makes(program, *part))
            inner += _before(program, *part)
        level = []
        for one, where in inner:
            if one not in seen:
                seen.add(one)
                level.append((one, where))
    return Made(tuple(found), bool(level))


def _makes(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[ast.ClassDef | ast.expr]:
    """What a name stands for itself."""
    if dotted_name(expr) is None:
        if is_looked_up(program, expr, scope):
            yield expr
        return
    classes = _classes_here(program, expr, scope)
    if classes:
        yield from classes
        if is_one_of_several(expr, scope):
            yield expr
        return
    is_named = program.canonical(expr) is not None
    if is_named or _is_of_star(program, expr, scope):
        yield expr


def _classes_here(
    program: Program, expr: ast.expr, scope: Scope
) -> list[ast.ClassDef]:
    here = all_here(program, expr, scope)
    return [one for one in here if isinstance(one, ast.ClassDef)]


def _before(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a value was before, or is taken from."""
    if dotted_name(expr) is None:
        entry = picked((program, expr, scope))
        if entry is not None and entry[0] is program:
            yield entry[1:]
        elif not is_looked_up(program, expr, scope):
            yield from parts(program, expr, scope)
        return
    if _classes_here(program, expr, scope):
        return
    for home, value, where in (
        *held(program, expr, scope),
        *put_into(program, expr, scope),
    ):
        if home is program:
            yield value, where
    yield from _added_to(program, expr, scope)


def _is_of_star(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """`SP` of `from losses import *`, where `losses` is in sight."""
    if not isinstance(expr, ast.Name) or scope.lookup(expr.id) is not None:
        return False
    return program.values.abroad(expr, scope) is not None


def parts(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """The expressions that an expression gets its value from, with their scopes."""
    entries = taken((program, expr, scope))
    yield from (one[1:] for one in entries if one[0] is program)
    if entries:
        return
    if isinstance(expr, ast.Call):
        yield from _call_parts(program, expr, scope)
    elif isinstance(expr, ast.IfExp):
        yield from ((expr.body, scope), (expr.orelse, scope))
    elif isinstance(expr, ast.Dict):
        yield from ((value, scope) for value in expr.values)
    elif isinstance(expr, (ast.List, ast.Tuple)):
        yield from ((value, scope) for value in expr.elts)
    elif isinstance(
        expr, (ast.Subscript, ast.Attribute, ast.NamedExpr, ast.Await)
    ):
        yield expr.value, scope
    elif isinstance(expr, ast.BoolOp):
        yield from ((value, scope) for value in expr.values)
    elif isinstance(expr, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        yield expr.elt, scope
    elif isinstance(expr, (ast.DictComp, ast.Starred)):
        yield expr.value, scope


def _call_parts(
    program: Program, expr: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    if ops.function(program.canonical(expr.func)) is not None:
        return  # a tensor, which holds no module and no function
    function = program.graph.function_at(expr.func, scope)
    maker = function or _new(program, expr, scope)
    if maker is not None:
        inner = program.scope(maker)
        yield from ((one, inner) for one in returned(maker))
    if function is not None:
        return
    func = expr.func
    if isinstance(func, ast.Attribute) and (
        func.attr in GIVES_MODULE or dotted_name(func) is None
    ):
        yield func.value, scope
    yield expr.func, scope
    yield from ((arg, scope) for arg in expr.args)


def _new(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> Function | None:
    """`__new__` of a class that a call names, which may give back objects of others."""
    cls = program.graph.class_named(call.func, scope)
    return program.graph.method(cls, "__new__") if cls is not None else None


def forwards(program: Program, cls: ast.ClassDef) -> tuple[Function, ...]:
    """`forward` of a class and of the classes of this program that its layers may be of."""

    def found() -> tuple[Function, ...]:
        own = (one for home, one in layers(program, cls) if home is program)
        return tuple(f for one in own for f in own_forwards(program, one))

    return program.remembered((forwards, cls), found)
