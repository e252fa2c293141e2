"""What a model keeps of its forward: `model(x, y)` sets `model.loss`, which is `raw_model.loss`
where that is the same object, wrapped or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.forwards.losses import body_of, callables
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.planner.files.own_attributes import own_attributes

_HOPS = 3


def asked_objects(
    roots: Iterable[ast.AST], scope: Scope, program: Program
) -> dict[str, ast.expr]:
    """The objects of which a body reads attributes other than to call them, or calls methods that
    do, by their names.
    """
    found: dict[str, ast.expr] = {}
    for root in roots:
        for node in shallow(root):
            if isinstance(node, ast.Attribute) and isinstance(
                node.ctx, ast.Load
            ):
                parent = program.module.parents.get(node)
                called = parent if isinstance(parent, ast.Call) else None
                is_read = called is None or called.func is not node
                if is_read or _read_by(called, scope, program):
                    found[dotted_name(node.value) or ""] = node.value
    return found


def read_by_methods(
    roots: Iterable[ast.AST], scope: Scope, program: Program
) -> set[str]:
    """`model.out` and `model.target` of `model.loss()`, which are what the method asks for."""
    calls = (
        node
        for root in roots
        for node in shallow(root)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    return {
        f"{dotted_name(call.func.value)}.{name}"
        for call in calls
        if isinstance(call.func, ast.Attribute)
        for name in _read_by(call, scope, program)
    }


def _read_by(call: ast.Call | None, scope: Scope, program: Program) -> set[str]:
    """What a method of a model reads of it; methods of torch's own are not asked."""
    func = call.func if call is not None else None
    if call is None or not isinstance(func, ast.Attribute):
        return set()
    name = dotted_name(func.value)
    if name in (None, scope.self_name):
        return set()
    if not program.values.is_model(func.value, scope):
        return set()
    return _touched(call, scope, program, ast.Load)


def written_by_models(
    roots: Iterable[ast.AST],
    scope: Scope,
    program: Program,
    asked: dict[str, ast.expr],
) -> set[str]:
    """The attributes that the forwards and other methods of the models set which run in `roots`, by
    the names of the objects that are asked for them.
    """
    found: set[str] = set()
    for root in roots if asked else ():
        for node in shallow(root):
            if isinstance(node, ast.Call) and dotted_name(node.func):
                names = _asked_of(node.func, scope, program, asked)
                written = (
                    _touched(node, scope, program, ast.Store)
                    if names
                    else set()
                )
                found |= {f"{name}.{one}" for name in names for one in written}
    return found


def _asked_of(
    func: ast.expr, scope: Scope, program: Program, asked: dict[str, ast.expr]
) -> list[str]:
    """The names by which the model of `model(x)` or of `model.forward(x)` is asked."""
    names = list(_same_objects(func, scope, program, asked))
    if names or not isinstance(func, ast.Attribute):
        return names
    return list(_same_objects(func.value, scope, program, asked))


def _same_objects(
    called: ast.expr, scope: Scope, program: Program, asked: dict[str, ast.expr]
) -> Iterator[str]:
    """Of the objects that are asked, those that are what is called, or that it wraps."""
    name = dotted_name(called)
    models = {
        other: held
        for other, held in asked.items()
        if other != name and program.values.is_model(held, scope)
    }
    yield from [name] if name in asked else []
    ours = set(_origins(called, scope, program)) if models else set()
    for other, held in models.items():
        if ours & set(_origins(held, scope, program)):
            yield other


def _origins(
    model: ast.expr, scope: Scope, program: Program, hops: int = _HOPS
) -> Iterator[ast.AST]:
    """What makes a model, and the one that it wraps: `DistributedDataParallel(net)`."""
    made = program.values.of(model, scope).origin
    if made is None or not hops:
        return
    yield made
    if not isinstance(made, ast.Call) or made not in program.module.parents:
        return
    name = program.canonical(made.func) or ""
    if made.args and name.startswith("torch."):
        where = program.module.scope_of(made)
        yield from _origins(made.args[0], where, program, hops - 1)


def _touched(
    call: ast.Call, scope: Scope, program: Program, how: type
) -> set[str]:
    behind = [(one[0], body_of(one)) for one in callables(program, call, scope)]
    found: set[str] = set()
    for home, body in [*behind, *_of_class(call, scope, program)]:
        if isinstance(body, FUNCTIONS):
            found |= own_attributes(body, home, how)
    return found


def _of_class(
    call: ast.Call, scope: Scope, program: Program
) -> Iterator[tuple[Program, ast.AST]]:
    """The `forward` of a model, or its method, by the class of it."""
    func = call.func
    ways = [(func, "forward")]
    if isinstance(func, ast.Attribute):
        ways.append((func.value, func.attr))
    for expr, name in ways:
        value = program.values.of(expr, scope)
        own = (program, value.cls) if value.cls is not None else None
        made = value.foreign or own
        found = method_of(*made, name) if made is not None else None
        if found is not None:
            yield found
