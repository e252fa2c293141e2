"""Which calls run a `nn.Sequential` in sight, and what makes it: `seq(x)`, and
`data_parallel(seq, x)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.forwards.sequence_ends import ends, put_behind
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.torch_facts.layers import LAYER_LIST, SEQUENCE
from amp_migrate.torch_facts.methods import GIVES_MODULE

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_CHANGES = re.compile(
    "append|add_module|extend|insert|pop|register_[a-z_]*hook"
)
_PARALLEL = "torch.nn.parallel.data_parallel"
_DEEP = 6
_Changes: TypeAlias = "dict[tuple[bool, str], list[tuple[ast.expr, Scope]]]"


def sequences(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[str, ast.Call]]:
    """The calls that make the Sequential which a call runs, with its name; nothing where it may be
    something else, or its layers come and go.
    """
    run = sequence_run(program, call)
    name = dotted_name(run) if run is not None else None
    if run is None or name is None:
        return []
    return [(name, made) for made in made_of(program, run, scope)]


def made_of(
    program: Program,
    run: ast.expr,
    scope: Scope,
) -> list[ast.Call]:
    """What makes the Sequential of a name; nothing where it may be something else."""
    name = dotted_name(run) or ""
    found: list[ast.Call] = []
    for made in _made(program, run, name, scope, _DEEP):
        if made is None or made.keywords:
            return []
        if _is_changed(program, name, made) or not ends(program, made):
            return []
        found.append(made)
    return found


def sequence_run(program: Program, call: ast.Call) -> ast.expr | None:
    """What a call runs as `seq(x)`, or as `data_parallel(seq, x, ids)`."""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if program.canonical(call.func) == _PARALLEL:
        named = all(one.arg is not None for one in call.keywords)
        return call.args[0] if len(call.args) > 1 and named else None
    return call.func if len(call.args) == 1 and not call.keywords else None


def _is_changed(program: Program, name: str, made: ast.Call) -> bool:
    """Whether layers come or go, or are listened to, once a Sequential of this name is made; but
    for those that the body that makes it puts behind the others.
    """
    key = "." in name, name.rpartition(".")[2]
    home = program.module.scope_of(made)
    return any(
        scope is not home
        and _is_of_same(program, node, scope, home)
        or scope is home
        and node.lineno > made.lineno
        and not _grows(program, node)
        for node, scope in _changes(program).get(key, ())
    )


def _grows(program: Program, change: ast.expr) -> bool:
    """`seq.append(layer)`, told by itself or by the layer; not `seq[0].append(layer)`"""
    for call in (change, program.module.parents.get(change)):
        if isinstance(call, ast.Call) and put_behind(call) is not None:
            assert isinstance(call.func, ast.Attribute)
            return dotted_name(call.func.value) is not None
    return False


def _is_of_same(
    program: Program, change: ast.expr, scope: Scope, home: Scope
) -> bool:
    """Whether what changes `self.main` may be of the class that `home` belongs to."""
    func = change.func if isinstance(change, ast.Call) else None
    root = func.value if isinstance(func, ast.Attribute) else None
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        root = root.value
    name = root.id if isinstance(root, ast.Name) else None
    graph = program.graph
    other, own = graph.class_around(scope), graph.class_around(home)
    if other is None or own is None or name is None:
        return True
    if name != scope.self_name:
        return True
    return own in graph.lineage(other) or other in graph.lineage(own)


def _changes(program: Program) -> _Changes:
    """What may change a Sequential, by what it is done to: whether that is an attribute, and its
    name.
    """

    def found() -> _Changes:
        changes: _Changes = {}
        for scope in program.module.scopes.values():
            for call in scope.calls:
                if _CHANGES.fullmatch(getattr(call.func, "attr", "")):
                    assert isinstance(call.func, ast.Attribute)
                    name = _held_by(call.func.value)
                    changes.setdefault(name, []).append((call, scope))
            for key, stored in scope.stored.items():
                for one in stored:
                    where = program.module.scope_of(one.value)
                    name = "." in key, key.rpartition(".")[2]
                    changes.setdefault(name, []).append((one.value, where))
        return changes

    return program.remembered(_changes, found)


def _held_by(holder: ast.expr) -> tuple[bool, str]:
    """`main` of `self.main[0]`, an attribute"""
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    if isinstance(holder, ast.Attribute):
        return True, holder.attr
    return False, dotted_name(holder) or ""


def _made(
    program: Program, expr: ast.expr, name: str, scope: Scope, deep: int
) -> Iterator[ast.Call | None]:
    """The calls of `nn.Sequential` behind a name; None for what is none."""
    cls = program.graph.class_around(scope)
    if name.partition(".")[0] == scope.self_name and cls is not None:
        attribute = f"self.{name.partition('.')[2]}"
        family = dict.fromkeys(
            [*program.graph.lineage(cls), *program.graph.heirs(cls)]
        )
        scopes = (program.module.scopes[owner] for owner in family)
        bindings = [
            b for owner in scopes for b in owner.bindings.get(attribute, ())
        ]
        last = program.reaching.at(expr, name)
        if last.complete and last.bindings:
            bindings = list(last.bindings)
    else:
        bindings = list(program.reaching.at(expr, name).bindings)
    if not bindings or deep == 0:
        yield None
        return
    for binding in bindings:
        plain = binding.how == "assign" and binding.index is None
        if binding.index is not None and binding.how == "assign":
            yield from _one_of(program, binding, deep - 1)
            continue
        made = _unkept(program, binding.value if plain else None)
        if isinstance(made, (ast.List, ast.Tuple)):
            continue  # what the layers stood in before
        inner = dotted_name(made) if made is not None else None
        if inner is None or made is None:
            yield from _called(program, made, deep - 1)
        elif inner != name or "." not in name:  # `net = net.to(device)`
            home = program.module.scope_of(made)
            yield from _made(program, made, inner, home, deep - 1)


def _one_of(
    program: Program, binding: Binding, deep: int
) -> Iterator[ast.Call | None]:
    """What one of several names is, that a function in sight gives back together."""
    made, index = binding.value, binding.index or 0
    values: list[ast.expr] = []
    if isinstance(made, ast.Call) and made in program.module.parents:
        home = program.module.scope_of(made)
        function = program.values.callee(made, home)
        values = returned(function) if function is not None else []
    if not values:
        yield None
    for value in values:
        parts = value.elts if isinstance(value, ast.Tuple) else []
        part = parts[index] if index < len(parts) else None
        name = dotted_name(part) if part is not None else None
        if part is None or name is None:
            yield from _called(program, part, deep)
        else:
            inner = program.module.scope_of(part)
            yield from _made(program, part, name, inner, deep)


def _called(
    program: Program, made: ast.expr | None, deep: int
) -> Iterator[ast.Call | None]:
    """`nn.Sequential(...)`, or what a function in sight gives back that makes one."""
    if not isinstance(made, ast.Call) or made not in program.module.parents:
        yield None
        return
    if program.canonical(made.func) in (SEQUENCE, LAYER_LIST):
        yield made
        return
    home = program.module.scope_of(made)
    function = program.values.callee(made, home)
    results = returned(function) if function is not None else []
    for one in results:
        name = dotted_name(one)
        if name is None:
            yield from _called(program, one, deep - 1) if deep else (None,)
        else:
            inner = program.module.scope_of(one)
            yield from _made(program, one, name, inner, deep)
    if not results:
        yield None


def _unkept(program: Program, made: ast.expr | None) -> ast.expr | None:
    """`nn.Sequential(...)` of `nn.Sequential(...).to(device)`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        if (
            made.func.attr not in GIVES_MODULE
            or program.canonical(made.func) is not None
        ):
            break
        made = made.func.value
    return made
