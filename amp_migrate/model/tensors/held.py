"""What is put into dictionaries, lists and objects whose entries nobody follows one by one: where
some of it is half precision, what is read of them may be, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.receivers import is_module
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


class Put(NamedTuple):
    """Something that becomes an entry of a holder."""

    holder: ast.expr
    value: ast.expr
    key: str | None = None
    """The key or attribute that it is put under; None where that is not in sight."""
    handed: bool = False
    """Whether it is put there by a method, which a tensor does not have."""


class Entry(NamedTuple):
    """What was put somewhere, with all that tells who reads it: found once for all who ask."""

    value: ast.expr
    scope: Scope
    key: str | None
    deep: int
    """How deep the holder lies in what its name holds."""
    handed: bool
    variable: Scope | None
    """The scope whose variable the name is; None for an attribute."""


class Place(NamedTuple):
    """What an expression reads of."""

    name: str
    key: str | None = None
    """The first key or attribute that is read of it."""
    deep: int = 0
    """How many there are: a tensor that halves are written into keeps its own dtype."""


def held_half(
    inference: Inference, node: ast.AST, *, whole: bool = False
) -> DType:
    """The half dtypes of what was put into what `node` reads of; with `whole`, into what it is."""
    if not isinstance(node, ast.expr):
        return DType.NONE
    read = _place(node)
    program = inference.program
    known = program.remembered("what is put", lambda: _entries(program))
    entries = known.get(read.name)
    if not entries:
        return DType.NONE
    variable = _variable(program, read.name, node)

    def joined() -> Fact:
        half = DType.NONE
        for one in entries:
            if _is_read(one, read, whole) and one.variable is variable:
                half |= inference.of(one.value, one.scope).dtypes & DType.HALF
        return Fact(half)

    # Many expressions read of the same things, into which much may be put.
    return inference.shared((read, whole, variable), joined).dtypes


_TAKES = ("pop", "popleft", "get")


def gives_kept(function: ast.AST) -> bool:
    """Whether a function gives what is kept somewhere: `return self.rows[key]`."""
    if not isinstance(function, FUNCTIONS):
        return False
    for value in returned(function):
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            return True
        func = value.func if isinstance(value, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr in _TAKES:
            return True
    return False


def _is_read(entry: Entry, read: Place, whole: bool) -> bool:
    """Whether an entry, or what is read of it, may be what was put."""
    deep = read.deep + (whole or entry.handed)
    if deep <= entry.deep:
        return False
    return entry.key is None or read.key is None or entry.key == read.key


def _variable(program: Program, name: str, node: ast.expr) -> Scope | None:
    """The scope whose variable a name is where an expression stands."""
    if "." in name:
        return None
    return program.module.scope_of(node).lookup(name)


def _place(node: ast.AST) -> Place:
    """`seen` and `out` of `seen["out"][0]`, of `seen.out.detach()`, of `seen.get("out")`;
    `self.kept` of `self.kept[-1]`.
    """
    key, deep = None, 0
    while isinstance(node, (ast.Subscript, ast.Call, ast.Attribute)):
        name = dotted_name(node) or ""
        if name.startswith("self.") and name.count(".") == 1:
            return Place(name, key, deep)
        key, deep = _key(node), deep + 1
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func
        node = node.func if isinstance(node, ast.Call) else node.value
    return Place(node.id if isinstance(node, ast.Name) else "", key, deep)


def _key(node: ast.Subscript | ast.Call | ast.Attribute) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    given = [node.slice] if isinstance(node, ast.Subscript) else node.args[:1]
    first = given[0] if given else None
    is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return str(getattr(first, "value", "")) if is_text else None


def _entries(program: Program) -> dict[str, list[Entry]]:
    """By the names of what they are put into."""
    found: dict[str, list[Entry]] = {}
    for node in program.module.parents:
        for put in _put(program, node):
            above = _place(put.holder)
            if not above.name or _is_library(program, put.value, above.name):
                continue
            found.setdefault(above.name, []).append(
                Entry(
                    put.value,
                    program.module.scope_of(put.value),
                    above.key if above.deep else put.key,
                    above.deep,
                    put.handed,
                    _variable(program, above.name, put.value),
                )
            )
    return found


def _put(program: Program, node: ast.AST) -> Iterator[Put]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, (ast.Subscript, ast.Attribute)):
                yield Put(target.value, node.value, _key(target))
            if isinstance(target, (ast.Name, ast.Attribute)):
                yield from _made_of(target, node.value)
    elif isinstance(node, ast.Call):
        yield from _given(program, node)


def _made_of(holder: ast.expr, value: ast.expr) -> Iterator[Put]:
    """The parts of what a name is set to: `{"out": y}`, `{k: f(v) for ...}`, `Record(out=y)`."""
    if isinstance(value, ast.Dict):
        for key, one in zip(value.keys, value.values, strict=True):
            text = getattr(key, "value", None)
            yield Put(holder, one, text if isinstance(text, str) else None)
    elif isinstance(value, ast.DictComp):
        yield Put(holder, value.value)
    elif isinstance(value, ast.Call):
        yield from _arguments(holder, value)


def _arguments(holder: ast.expr, call: ast.Call) -> Iterator[Put]:
    for given in call.args:
        yield Put(holder, given)
        if isinstance(given, ast.Dict):
            yield from _made_of(holder, given)
    for one in call.keywords:
        yield Put(holder, one.value, one.arg)


def _given(program: Program, call: ast.Call) -> Iterator[Put]:
    """`seen.update(out=y)`, `state.push(y)`, whose value nobody takes; `setattr(box, name, y)`."""
    if isinstance(call.func, ast.Name) and call.func.id == "setattr":
        holder, name, value = [*call.args, *[call] * 3][:3]
        text = getattr(name, "value", None)
        yield Put(holder, value, text if isinstance(text, str) else None)
    func, parent = call.func, program.module.parents[call]
    is_dropped = isinstance(parent, (ast.Expr, ast.Lambda))
    if isinstance(func, ast.Attribute) and is_dropped:
        is_in_place = func.attr.endswith("_")  # of a tensor
        if not is_in_place:
            for put in _arguments(func.value, call):
                yield put._replace(handed=True)


def _is_library(program: Program, node: ast.expr, name: str) -> bool:
    """`torch` of `torch.save(model, path)`: a module that is none of the project's keeps nothing
    that anybody reads of it.
    """
    scope = program.module.scope_of(node)
    if not is_module(ast.Name(name, ast.Load()), scope):
        return False
    near = scope.module.neighbours
    if near is None:
        return True
    origin = scope.module.imports.names.get(name)
    return near.module(origin or name) is None
