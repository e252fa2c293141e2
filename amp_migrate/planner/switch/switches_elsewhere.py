"""Switches for AMP that other loops of the program read, by their names (`args.amp`,
`cfg["train"]["fp16"]`, `cfg.get("amp", False)`), and whether the same object is read elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.torch_facts.amp_api import OWN_CHOICES, OWN_OPTIONS

_HOPS = 4


def is_named_switch(test: ast.expr) -> bool:
    """Whether a condition reads a switch out of settings, by what it is called."""
    read = _read(test)
    key = _key(read)
    names = OWN_CHOICES if isinstance(test, ast.Compare) else OWN_OPTIONS
    return key is not None and key.lower() in names and _root(read) is not None


def _read(test: ast.expr) -> ast.expr:
    """What a condition asks."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _read(test.operand)
    constant = isinstance(test, ast.Compare) and all(
        isinstance(one, ast.Constant) for one in test.comparators
    )
    return test.left if isinstance(test, ast.Compare) and constant else test


def _key(read: ast.expr) -> str | None:
    """The last name of a path."""
    if isinstance(read, ast.Attribute):
        return read.attr
    key: ast.expr | None = None
    if isinstance(read, ast.Subscript):
        key = read.slice
    elif isinstance(read, ast.Call) and _is_get(read):
        key = read.args[0]
    value = key.value if isinstance(key, ast.Constant) else None
    return value if isinstance(value, str) else None


def _is_get(call: ast.Call) -> bool:
    """`cfg.get("amp", False)`"""
    plain = all(isinstance(one, ast.Constant) for one in call.args)
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "get"
    return bool(call.args) and plain and named and not call.keywords


def _root(read: ast.expr) -> ast.Name | None:
    """The name that a path begins with."""
    while True:
        if isinstance(read, ast.Call) and _is_get(read):
            read = read.func
        elif isinstance(read, ast.Attribute) or (
            isinstance(read, ast.Subscript)
            and isinstance(read.slice, ast.Constant)
        ):
            read = read.value
        else:
            return read if isinstance(read, ast.Name) else None


def same_switches(
    program: Program, known: Iterable[tuple[ast.expr, Scope]], place: ast.stmt
) -> Iterator[ast.expr]:
    """Those that read an object that has the same name at `place`: the program itself reads them
    there.
    """
    for test, _ in known:
        root = _root(_read(test)) if is_named_switch(test) else None
        if root is not None and not isinstance(_read(test), ast.Call):
            there = _origins(program, root, root.id)
            if there and there == _origins(program, place, root.id):
                yield test


def _origins(
    program: Program,
    at: ast.expr | ast.stmt,
    name: str,
    hops: int = _HOPS,
) -> frozenset[Binding]:
    """What gives a name its value, through the parameters of functions; nothing where that is not
    sure.
    """
    bindings = program.reaching.at(at, name).bindings
    if len(bindings) != 1 or not hops:
        return frozenset()
    (only,) = bindings
    if only.how != "parameter":
        return frozenset(bindings)
    scope = program.module.scope_of(only.statement)
    if not isinstance(scope.node, FUNCTIONS):
        return frozenset()
    entry = program.reaching.entry
    sites = () if entry.escapes(scope.node) else entry.sites(scope.node)
    found = [argument(call, scope, name, bound) for call, _, bound in sites]
    origins = [
        _origins(program, one, one.id, hops - 1)
        for one in found
        if isinstance(one, ast.Name)
    ]
    sure = len(origins) == len(found) and len(set(origins)) == 1
    return origins[0] if sure else frozenset()


def is_of_user(program: Program, test: ast.expr) -> bool:
    """Whether who runs the program decides: an option of the command line, or an entry of
    settings that the file holds.
    """
    root = _root(_read(test)) if is_named_switch(test) else None
    if root is None:
        return False
    dotted = dotted_name(_read(test))
    if dotted is not None and option_of(program, test, dotted) is not None:
        return True
    origins = _origins(program, root, root.id)
    own = [one for one in origins if one.how in ("assign", "import")]
    return bool(own) and all(
        isinstance(program.module.scope_of(one.statement).node, (ast.Module,))
        for one in own
    )
