"""Where the states of optimizers are kept, and whose scaler belongs to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
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
    """Whether the class around binds the scaler itself, and not only an heir or a base of it."""
    cls = program.graph.class_around(scope)
    if cls is None or "." not in scaler:
        return True
    bindings = program.module.scopes[cls].bindings
    return f"self.{scaler.partition('.')[2]}" in bindings


def is_kept_by(
    program: Program, target: ast.expr, scope: Scope, cls: ast.ClassDef
) -> bool:
    """Whether an attribute is one of an object of a class, of an heir or a base of it: of the
    method's own, or of one that a function is handed.
    """
    if not isinstance(target, ast.Attribute):
        return False
    holder = target.value
    if dotted_name(holder) == scope.self_name:
        own = program.graph.class_around(scope)
    else:
        own = program.values.of(holder, scope).cls
    return own is not None and (
        cls in program.graph.lineage(own) or own in program.graph.lineage(cls)
    )


def calls_on_scaler(program: Program, method: str) -> bool:
    return any(
        is_on_scaler(call, scope, method)
        for scope in program.module.scopes.values()
        for call in scope.calls
    )


def is_on_scaler(call: ast.Call, scope: Scope, method: str) -> bool:
    """Whether a call is of a method of what is called a scaler, or of one after the other of what
    is called so.
    """
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != method:
        return False
    holder = func.value
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    name = dotted_name(holder) or ""
    turns = [
        binding.value
        for binding in scope.bindings.get(name, ())
        if binding.how == "for" and binding.value is not None
    ]
    words = [name, *(ast.unparse(one) for one in turns)]
    return any("scal" in word.lower() for word in words)


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
        if (
            named
            and hops
            and _runs_scaled(program, call, scope, named[0], hops)
        ):
            return True
    return False


def _runs_scaled(
    program: Program, call: ast.Call, scope: Scope, given: ast.expr, hops: int
) -> bool:
    """Whether the function that a call runs, or a method of the object that it makes, steps with a
    scaler what it is given.
    """
    cls = program.graph.class_named(call.func, scope)
    begin = program.graph.method(cls, "__init__") if cls is not None else None
    if cls is not None and calls_on_scaler(program, "state_dict"):
        return False  # the object may save it
    if cls is None or begin is None:
        function = program.values.callee(call, scope)
        inner = program.scope(function) if function is not None else None
        return inner is not None and any(
            is_stepped_by_scaler(program, inner, own, hops - 1)
            for own in _parameters_of(call, inner, given)
        )
    inner = program.scope(begin)
    kept = {
        name
        for name, bindings in program.module.scopes[cls].bindings.items()
        for own in _parameters_of(call, inner, given)
        if any(own == dotted_name(one.value) for one in bindings if one.value)
    }
    return any(
        is_stepped_by_scaler(
            program, one, name.replace("self", one.self_name, 1), hops - 1
        )
        for one in program.module.scopes.values()
        if program.graph.class_around(one) is cls and one.self_name
        for name in kept
    )


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
