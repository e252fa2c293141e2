"""Where the states of optimizers are kept, and whose scaler belongs to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in


def holds_optimizer(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether an expression is an optimizer, or one after the other of a list of optimizers."""
    if program.effects.is_optimizer(expr, scope):
        return True
    held = scope.bindings.get(expr.id, []) if isinstance(expr, ast.Name) else []
    return len(held) == 1 and any(
        isinstance(one.statement, ast.For)
        and isinstance(one.statement.target, ast.Name)
        and program.effects.is_optimizer(one.statement.iter, scope)
        for one in held
    )


def is_own(program: Program, scope: Scope, scaler: str) -> bool:
    """Whether the class around binds the scaler itself, and not only an heir of it."""
    cls = program.graph.class_around(scope)
    if cls is None or "." not in scaler:
        return True
    bindings = program.module.scopes[cls].bindings
    return f"self.{scaler.partition('.')[2]}" in bindings


def is_kept_by(
    program: Program, target: ast.expr, scope: Scope, cls: ast.ClassDef
) -> bool:
    """Whether an attribute is one of an object of a class, or of an heir of it: of the method's
    own, or of one that a function is handed.
    """
    if not isinstance(target, ast.Attribute):
        return False
    holder = target.value
    if dotted_name(holder) == scope.self_name:
        own = program.graph.class_around(scope)
    else:
        own = program.values.of(holder, scope).cls
    return own is not None and (own is cls or cls in program.graph.lineage(own))


def is_stepped_by_scaler(
    program: Program, scope: Scope, name: str, hops: int = 2
) -> bool:
    """Whether a scaler steps an optimizer of that name in a function, or in one that it is handed
    to there.
    """
    for call in scope.calls:
        if program.events.what(call, scope) is EventKind.SCALER_STEP:
            if call.args and dotted_name(call.args[0]) == name:
                return True
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        named = [one for one in given if dotted_name(one) == name]
        function = (
            program.values.callee(call, scope) if named and hops else None
        )
        inner = program.scope(function) if function is not None else None
        if inner is not None and any(
            is_stepped_by_scaler(program, inner, own, hops - 1)
            for own in _parameters_of(call, inner, named[0])
        ):
            return True
    return False


def handed_over(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[tuple[CallSite, ast.expr]]:
    """The calls that give a parameter its value, or an attribute through the constructor, and the
    argument of each.
    """
    function = scope.node
    if isinstance(expr, ast.Name) and isinstance(function, FUNCTIONS):
        if scope.lookup(expr.id) is not scope:
            return
        if {b.how for b in scope.bindings[expr.id]} != {"parameter"}:
            return
        for site in program.graph.sites(function):
            given = argument(site.call, scope, expr.id, site.bound)
            if (
                given is not None
                and program.values.callee(site.call, site.scope) is function
            ):
                yield site, given
    elif isinstance(expr, ast.Attribute):
        yield from _constructed_with(program, expr, scope)


def _constructed_with(
    program: Program, expr: ast.Attribute, scope: Scope
) -> Iterator[tuple[CallSite, ast.expr]]:
    cls = program.graph.class_around(scope)
    if cls is None or dotted_name(expr.value) != scope.self_name:
        return
    for owner in program.graph.lineage(cls):
        held = program.module.scopes[owner].bindings.get(f"self.{expr.attr}")
        if held:
            break
    begin = program.graph.method(cls, "__init__")
    value = held[0].value if held and len(held) == 1 else None
    if begin is None or not isinstance(value, ast.Name):
        return
    inner = program.scope(begin)
    if program.module.scope_of(value) is not inner:
        return
    for one in program.graph.heirs(cls):
        for call, caller in program.graph.constructions(one):
            given = argument(call, inner, value.id, True)
            if given is not None:
                yield CallSite(call, caller, True), given


def _parameters_of(
    call: ast.Call, inner: Scope, given: ast.expr
) -> Iterator[str]:
    """What the function calls an argument."""
    bound = inner.takes_receiver
    for name, bindings in inner.bindings.items():
        if (
            bindings[0].how == "parameter"
            and argument(call, inner, name, bound) is given
        ):
            yield name


_GROUPS = (ast.List, ast.Tuple, ast.ListComp, ast.DictComp, ast.GeneratorExp)


def whole_value(program: Program, node: ast.expr) -> ast.expr:
    """What is assigned or stored with an expression in it: an arm of a choice, one of a list, what
    a comprehension makes for each turn.
    """
    while True:
        above = program.module.parents[node]
        is_arm = isinstance(above, ast.IfExp) and above.test is not node
        if not is_arm and not isinstance(above, _GROUPS):
            return node
        assert isinstance(above, ast.expr)
        node = above


def kept_as(program: Program, call: ast.Call) -> ast.expr:
    """Where a state stands that a variable holds for one use: `state = optimizer.state_dict() if
    optimizer is not None else None`; else the call, with the list that it is in.
    """
    node = whole_value(program, call)
    above = program.module.parents[node]
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return node
    scope = program.module.scope_of(call)
    uses = [
        one
        for one in nodes_in(scope.node)
        if isinstance(one, ast.Name)
        and one.id == target.id
        and isinstance(one.ctx, ast.Load)
    ]
    is_plain = len(scope.bindings.get(target.id, ())) == 1
    return uses[0] if is_plain and len(uses) == 1 else node


def entry_of(parent: ast.AST, call: ast.Call) -> ast.expr | None:
    """Of `held["optimizer"] = state` and `held["optimizers"].append(state)`, the entry."""
    if isinstance(parent, ast.Assign):
        return parent.targets[0]
    if (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr == "append"
        and parent.args == [call]
    ):
        return parent.func.value
    return None


def is_written(program: Program, entry: ast.expr, hops: int = 2) -> bool:
    """Whether an entry belongs to a dict that its function saves, or that is an entry of such a
    one.
    """
    holder = (
        dotted_name(entry.value) if isinstance(entry, ast.Subscript) else None
    )
    if holder is None:
        return False
    scope = program.module.scope_of(entry)
    if any(
        program.canonical(call.func) == "torch.save"
        and call.args
        and dotted_name(call.args[0]) == holder
        for call in scope.calls
    ):
        return True
    return hops > 0 and any(
        is_written(program, node.targets[0], hops - 1)
        for node in nodes_in(scope.node)
        if isinstance(node, ast.Assign) and dotted_name(node.value) == holder
    )


def is_lent(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether a parameter stands for a scaler at another call: one helper for every state."""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    function = scope.node
    if not isinstance(expr, ast.Name) or not isinstance(function, FUNCTIONS):
        return False
    for site in program.graph.sites(function):
        given = argument(site.call, scope, expr.id, site.bound)
        if given is not None and program.events.is_scaler(given, site.scope):
            return True
    return False
