"""The displays that a dictionary may be made by: `{"out": y, "features": z}`, here or in what a
function or a model in sight gives back; and the fields of records, `Output(out=y, features=z)`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope, returned
from amp_migrate.model.tensors.fact import ANY_BUT_HALF
from amp_migrate.model.tensors.parameters import all_arguments
from amp_migrate.model.values.stored_attributes import stored_values

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.fact import Fact
    from amp_migrate.model.tensors.inference import Inference

_DEEP = 8


def displays(program: Program, expr: ast.expr) -> list[ast.expr]:
    """All of them; nothing where it may be made by something else."""
    return _displays(program, expr, _DEEP) or []


def entries(program: Program, expr: ast.Subscript, key: str) -> list[ast.expr]:
    """What the displays that a dictionary was made by hold under a key; nothing where it is
    stored anew.
    """
    dotted = dotted_name(expr.value)
    if dotted is None and not isinstance(expr.value, ast.Call):
        return []
    if dotted is not None and (dotted, key) in stored_keys(program):
        return []
    held = [under(program, one, key) for one in displays(program, expr.value)]
    return [one for one in held if one is not None]


def field(program: Program, expr: ast.Attribute) -> list[ast.expr]:
    """What `result.out` may be; nothing where the object may be made, or the field set, by
    something else.
    """
    if any(True for _ in stored_values(program, expr.attr)):
        return []
    made = [one for one in displays(program, expr.value) if _is_record(one)]
    held = [under(program, one, expr.attr) for one in made]
    return [one for one in held if one is not None]


def _is_record(made: ast.expr) -> bool:
    return isinstance(made, ast.Call) and dotted_name(made.func) != "dict"


def under(program: Program, display: ast.expr, key: str) -> ast.expr | None:
    """The value of `{"key": value}`, `dict(key=value)` or `Record(value)`."""
    if isinstance(display, ast.Call):
        scope = program.module.scope_of(display)
        names = _fields(program.graph.class_named(display.func, scope))
        given: dict[str | None, ast.expr] = {}
        given.update(zip(names, display.args, strict=False))
        given.update((one.arg, one.value) for one in display.keywords)
        return given.get(key)
    assert isinstance(display, ast.Dict)
    pairs = zip(display.keys, display.values, strict=True)
    return next(
        (v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key),
        None,
    )


def stored_keys(program: Program) -> frozenset[tuple[str, str]]:
    """The dictionaries and keys that the program writes by `name[key] = ...`."""
    return program.remembered(stored_keys, lambda: _stored_keys(program))


def _stored_keys(program: Program) -> frozenset[tuple[str, str]]:
    return frozenset(
        (name, node.slice.value)
        for node in program.module.parents
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        if (name := dotted_name(node.value)) is not None
    )


def unseen_entry(
    inference: Inference, expr: ast.Subscript, key: str, held: Fact
) -> Fact:
    """An entry that nobody follows: where the dictionary came from outside of every region, and
    stays as it came, it did, too; what nothing in sight stores came with it.
    """
    program = inference.program
    is_of_outside = held.dtypes == ANY_BUT_HALF.dtypes
    if is_of_outside and is_only_read(program, expr.value):
        return held
    is_stored = any(key == one for _, one in stored_keys(program))
    fact = inference.unseen(expr)
    return fact if is_stored else fact._replace(origin=held.origin)


def is_only_read(program: Program, expr: ast.expr) -> bool:
    """Whether a dictionary holds what it came with: `batch` of `for batch in loader`, of which
    entries are read, and nothing else is done with it.
    """
    if not isinstance(expr, ast.Name):
        return False
    bindings = program.reaching.at(expr, expr.id).bindings
    if not bindings or any(one.how != "for" for one in bindings):
        return False
    home = program.module.scope_of(expr)
    if home.lookup(expr.id) is not home:
        return False
    return expr.id not in program.remembered(
        (is_only_read, home), lambda: _changed(program, home)
    )


def _changed(program: Program, home: Scope) -> set[str]:
    """The names in a scope that are read otherwise than by their entries."""
    parents, read = program.module.parents, set()
    for node, outer in parents.items():
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        is_entry = (
            isinstance(outer, ast.Subscript)
            and outer.value is node
            and isinstance(outer.ctx, ast.Load)
        )
        if (
            not is_entry
            and program.module.scope_of(node).lookup(node.id) is home
        ):
            read.add(node.id)
    return read


def _displays(
    program: Program, expr: ast.expr, deep: int
) -> list[ast.expr] | None:
    """None where one of them is not in sight."""
    if deep == 0:
        return None
    if isinstance(expr, ast.Dict):
        return [expr]
    if isinstance(expr, ast.Call):
        return _called(program, expr, deep)
    dotted = dotted_name(expr)
    reach = program.reaching.at(expr, dotted) if dotted is not None else None
    if reach is not None and [one.how for one in reach.bindings] == [
        "parameter"
    ]:
        given = all_arguments(program, reach.bindings[0])
        return _all(program, [one for one, _ in given], deep)
    if reach is None or not reach.bindings or not reach.complete:
        return None
    values = [
        one.value if one.how == "assign" and one.index is None else None
        for one in reach.bindings
    ]
    return _all(program, values, deep)


def _called(
    program: Program, call: ast.Call, deep: int
) -> list[ast.expr] | None:
    """Of `dict(out=y)`, and of what a function or a model gives back."""
    scope = program.module.scope_of(call)
    if isinstance(call.func, ast.Name) and call.func.id == "dict":
        is_own = scope.lookup("dict") is not None
        return None if is_own or call.args else [call]
    if _fields(program.graph.class_named(call.func, scope)):
        return [call]
    functions: list[Function] = list(program.values.callees(call, scope))
    value = program.values.of(call.func, scope)
    if not functions and value.cls is not None:
        own = program.graph.method(value.cls, "forward")
        functions = [own] if own is not None else []
    given = [one for function in functions for one in returned(function)]
    return _all(program, given, deep)


def _fields(cls: ast.ClassDef | None) -> list[str]:
    """The fields of a dataclass or a named tuple, in order."""
    if cls is None:
        return []
    marks = [getattr(one, "func", one) for one in cls.decorator_list]
    makers = {
        (dotted_name(one) or "").rpartition(".")[2]
        for one in (*marks, *cls.bases)
    }
    if makers.isdisjoint(("dataclass", "NamedTuple")):
        return []
    targets = [s.target for s in cls.body if isinstance(s, ast.AnnAssign)]
    return [one.id for one in targets if isinstance(one, ast.Name)]


def _all(
    program: Program, values: list[ast.expr | None] | list[ast.expr], deep: int
) -> list[ast.expr] | None:
    found: list[ast.expr] = []
    for value in values:
        own = _displays(program, value, deep - 1) if value is not None else None
        if own is None:
            return None
        found += own
    return found or None
