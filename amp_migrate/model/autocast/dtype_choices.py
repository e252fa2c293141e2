"""Which dtypes an expression may name: by literals, choices, tables and variables."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.autocast.dtypes_abroad import given_abroad
from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.model.values.unpacked import values_given

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Choices = frozenset[str]
_ALIASES = {"half": "float16", "float": "float32"}
_HOPS = 4


def dtype_choices(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> Choices | None:
    """Names such as `bfloat16`; None where some value is not in sight."""
    name = program.canonical(expr)
    if name is not None and name.startswith("torch."):
        name = name.removeprefix("torch.")
        return frozenset({_ALIASES.get(name, name)})
    if isinstance(expr, ast.Call) and dotted_name(expr.func) == "getattr":
        return _looked_up(program, expr, scope)
    if not hops:
        return None
    here = _parts(program, expr, scope)
    parts = (
        [(program, one, where) for one, where in here]
        if here
        else given_abroad(program, expr, scope)
    )
    if not parts:
        return None
    found = [
        dtype_choices(home, one, where, hops - 1) for home, one, where in parts
    ]
    known = [one for one in found if one is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def is_chosen_abroad(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> bool:
    """Whether another file chooses among several dtypes, for reasons that are not followed."""
    here = _parts(program, expr, scope) if hops else None
    if here:
        return any(
            is_chosen_abroad(program, one, where, hops - 1)
            for one, where in here
        )
    return bool(given_abroad(program, expr, scope))


def _looked_up(
    program: Program, call: ast.Call, scope: Scope
) -> Choices | None:
    """`getattr(torch, "bfloat16")`, be the name an entry of a table."""
    if len(call.args) != 2 or program.canonical(call.args[0]) != "torch":
        return None
    text = call.args[1]
    if isinstance(text, ast.Subscript):
        tables = bound(program, text.value, scope) or []
        entries = [
            value
            for table, _ in tables
            if isinstance(table, ast.Dict)
            for key, value in zip(table.keys, table.values, strict=True)
            if key is not None and ast.dump(key) == ast.dump(text.slice)
        ]
    else:
        entries = [one for one, _ in bound(program, text, scope) or []]
        entries = entries or [text]
    names = [
        one.value
        for one in entries
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    if not names or len(names) != len(entries):
        return None
    return frozenset(_ALIASES.get(name, name) for name in names)


def keys_of(
    program: Program, expr: ast.expr, scope: Scope, dtype: str
) -> tuple[ast.expr, frozenset[object]] | None:
    """What a dtype is looked up by in a table, and the keys that name `dtype` there."""
    held = bound(program, expr, scope) or [(expr, scope)]
    one, where = held[0]
    asked = _table_and_key(one) if len(held) == 1 else None
    if asked is None:
        return None
    holder, slot = asked
    tables = bound(program, holder, where) or [(holder, where)]
    table, home = tables[0]
    if len(tables) > 1 or not isinstance(table, ast.Dict):
        return None
    wanted = frozenset({dtype})
    keys = frozenset(
        key.value
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant)
        and dtype_choices(program, value, home) == wanted
    )
    return slot, keys


def _table_and_key(expr: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The table and the key of `table[key]` and `table.get(key)`."""
    if isinstance(expr, ast.Subscript):
        return expr.value, expr.slice
    func = expr.func if isinstance(expr, ast.Call) else None
    if not isinstance(expr, ast.Call) or not isinstance(func, ast.Attribute):
        return None
    asks = func.attr == "get" and bool(expr.args)
    return (func.value, expr.args[0]) if asks else None


def _parts(
    program: Program, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]] | None:
    if isinstance(expr, ast.IfExp):
        return [(expr.body, scope), (expr.orelse, scope)]
    if isinstance(expr, ast.Subscript):
        return _table(program, expr.value, scope)
    if isinstance(expr, ast.Dict):
        return [(value, scope) for value in expr.values]
    if isinstance(expr, ast.Call):
        function = program.values.callee(expr, scope)
        if function is not None:
            home = program.scope(function)
            return [(value, home) for value in returned(function)]
    if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
        if expr.func.attr == "get" and expr.args:
            table = _table(program, expr.func.value, scope)
            rest = [(one, scope) for one in expr.args[1:]]
            return [*table, *rest] if table else None
    return bound(program, expr, scope) or property_values(program, expr, scope)


def _table(
    program: Program, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]] | None:
    if isinstance(expr, ast.Dict):
        return [(value, scope) for value in expr.values]
    held = bound(program, expr, scope)
    if held is None or not all(isinstance(one, ast.Dict) for one, _ in held):
        return None
    return [
        (value, where)
        for one, where in held
        if isinstance(one, ast.Dict)
        for value in one.values
    ]


def property_values(
    program: Program, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]] | None:
    """What a property of the own class gives."""
    if (
        not isinstance(expr, ast.Attribute)
        or dotted_name(expr.value) != scope.self_name
    ):
        return None
    cls = program.graph.class_around(scope)
    method = program.graph.method(cls, expr.attr) if cls is not None else None
    if method is None or not any(
        (dotted_name(one) or "").endswith("property")
        for one in method.decorator_list
    ):
        return None
    home = program.scope(method)
    return [(value, home) for value in returned(method)] or None


def bound(
    program: Program, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]] | None:
    """Everything that is assigned to a name or to an attribute of `self`."""
    name = dotted_name(expr)
    if name is None:
        return None
    home = scope.lookup(name)
    if home is None and name.partition(".")[0] == scope.self_name:
        cls = program.graph.class_around(scope)
        home = program.module.scopes[cls] if cls is not None else None
        name = "self." + name.partition(".")[2]
    if home is None and isinstance(expr, ast.Attribute):
        home, name = _of_class(program, expr, scope)
    bindings = home.bindings.get(name, []) if home is not None else []
    if home is None:
        return None
    given = [
        values_given(program, one, home)
        for one in bindings
        if one.how != "assign" or one.value is not None
    ]
    known = [one for one in given if one is not None]
    if len(known) < len(given):
        return None
    return [pair for pairs in known for pair in pairs] or None


def _of_class(
    program: Program, expr: ast.Attribute, scope: Scope
) -> tuple[Scope | None, str]:
    """The class that sets an attribute of an object, where nothing else in sight does."""
    cls = program.values.of(expr.value, scope).cls or _default_class(
        program, expr.value, scope
    )
    if cls is None:
        return None, expr.attr
    home = program.module.scopes[cls]
    ends = f".{expr.attr}"
    set_elsewhere = any(
        name.endswith(ends)
        for one in program.module.scopes.values()
        for name in one.bindings
    )
    return (None if set_elsewhere else home), expr.attr


def _default_class(
    program: Program, expr: ast.expr, scope: Scope
) -> ast.ClassDef | None:
    """The class that a parameter is where no caller in sight gives another: `cfg=Config`."""
    function = scope.node
    if not isinstance(expr, ast.Name) or not isinstance(function, FUNCTIONS):
        return None
    held = scope.bindings.get(expr.id, ())
    default = default_of(function, expr.id)
    if default is None or [one.how for one in held] != ["parameter"]:
        return None
    is_given = any(
        argument(site.call, scope, expr.id, site.bound) is not None
        for site in program.graph.sites(function)
    )
    return None if is_given else program.graph.class_named(default, scope)
