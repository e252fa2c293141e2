"""What the last layer of a `nn.Sequential` may be: written there, at the end of a list that is made
before, `layers += [nn.Sigmoid()]`, or put behind the others by the body that makes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.conditions.constant_conditions import never_holds
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.torch_facts.layers import LAYER_LIST

_PLACES = {"add_module": 2, "append": 1}
"""How many arguments the methods take that put a layer behind the others."""
_ORDERED = "collections.OrderedDict"
_Addition: TypeAlias = "tuple[ast.stmt, ast.expr | None]"
"""A statement that adds to a list, and what it adds; None where that is not told."""


def ends(
    program: Program,
    made: ast.Call,
) -> list[ast.expr | None]:
    """The layers that may be the last one; None for one that is out of sight."""
    if made not in program.module.parents:
        return [None]  # a base class of another file makes it
    found: list[ast.expr | None] = []
    for statement, layer in reversed(list(_put_behind(program, made))):
        found.append(layer)
        if _surely_follows(program, statement, made):
            return found
    return [*found, *_written(program, made)]


def all_layers(program: Program, made: ast.Call) -> list[ast.expr | None]:
    """Every layer of a list of layers that one body fills; None for what is out of sight."""
    found: list[ast.expr | None] = [
        layer for _, layer in _put_behind(program, made)
    ]
    for given in made.args:
        if isinstance(given, (ast.List, ast.Tuple)):
            found += given.elts
        else:
            found.append(None)
    return found


def put_behind(call: ast.Call) -> ast.expr | None:
    """The layer of `seq.add_module("out", layer)`, of `seq.append(layer)`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    plain = not any(isinstance(one, ast.Starred) for one in call.args)
    is_one = _PLACES.get(name) == len(call.args) and not call.keywords
    return call.args[-1] if plain and is_one else None


def _put_behind(
    program: Program, made: ast.Call
) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """In the order of the source."""
    module, scope = program.module, program.module.scope_of(made)
    at = module.statement_of(made)
    targets = at.targets if isinstance(at, ast.Assign) else []
    names = {dotted_name(one) for one in targets} - {None}
    for call in sorted(scope.calls, key=lambda one: one.lineno):
        layer = put_behind(call)
        if layer is not None and call.lineno > made.lineno:
            assert isinstance(call.func, ast.Attribute)
            if dotted_name(call.func.value) in names:
                yield module.statement_of(call), layer


def _surely_follows(
    program: Program, statement: ast.stmt, made: ast.Call
) -> bool:
    """Whether a statement runs wherever the body goes on from what makes a Sequential."""
    at = program.module.statement_of(made)
    around = {at, *program.module.ancestors(at)}
    return bool(around.intersection(program.module.block_of(statement)))


def _written(program: Program, made: ast.Call) -> list[ast.expr | None]:
    """The last of the layers that a Sequential is made of."""
    if not made.args:
        return []
    last = made.args[-1]
    if program.canonical(made.func) == LAYER_LIST:
        return list(_of_list(program, last, made))
    if isinstance(last, ast.Starred):
        return list(_of_list(program, last.value, made))
    if isinstance(last, ast.Call) and program.canonical(last.func) == _ORDERED:
        pairs = last.args[0] if last.args else None
        pair = _last_of(pairs) if pairs is not None else None
        return [_last_of(pair) if pair is not None else None]
    return [last]


def _of_list(
    program: Program, given: ast.expr, made: ast.Call
) -> Iterator[ast.expr | None]:
    """The last elements of a list, from the last addition that is sure to be made."""
    name = dotted_name(given)
    if name is None:
        yield _last_of(given)
        return
    module, scope = program.module, program.module.scope_of(made)
    at = module.statement_of(made)
    around = {at, *module.ancestors(at)}
    before = [
        one for one in _additions(program, name, scope) if _before(one[0], at)
    ]
    for statement, added in reversed(before):
        yield from _last_elements(added)
        is_sure = around.intersection(module.block_of(statement))
        if is_sure and not _inserts(statement):
            return
    yield None


def _before(statement: ast.stmt, other: ast.stmt) -> bool:
    return statement.lineno < other.lineno


def _additions(
    program: Program,
    name: str,
    scope: Scope,
) -> list[_Addition]:
    """In the order of the source."""
    found: list[_Addition] = []
    for binding in _bindings(program, name, scope):
        if isinstance(binding.statement, ast.stmt):
            is_plain = binding.how in ("assign", "augmented")
            value = (
                binding.value if is_plain and binding.index is None else None
            )
            found.append((binding.statement, value))
    for call in scope.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and dotted_name(func.value) == name:
            found.append((program.module.statement_of(call), _added(call)))
    runs = [
        one
        for one in found
        if never_holds(program, one[0], everywhere=True) is None
    ]
    return sorted(runs, key=lambda one: one[0].lineno)


def _bindings(program: Program, name: str, scope: Scope) -> list[Binding]:
    """What a body sets, its own names and the object's."""
    own = list(scope.bindings.get(name, ()))
    cls = program.graph.class_around(scope)
    head, _, rest = name.partition(".")
    if cls is not None and rest and head == scope.self_name:
        found = program.module.scopes[cls].bindings.get(f"self.{rest}", ())
        home = program.module.scope_of
        own += [one for one in found if home(one.statement) is scope]
    return own


def _added(call: ast.Call) -> ast.expr | None:
    """What `layers.append(x)`, `layers.extend([x])`, `layers.insert(2, x)` add, as a list."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "insert" and len(call.args) > 1:
        return ast.List([call.args[1]], ast.Load())
    if len(call.args) != 1 or call.keywords:
        return None
    given = call.args[0]
    if call.func.attr == "append":
        return ast.List([given], ast.Load())
    return given if call.func.attr == "extend" else None


def _inserts(statement: ast.stmt) -> bool:
    """`layers.insert(2, x)`, which leaves the last one there, or not."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "insert"


def _last_elements(added: ast.expr | None) -> Iterator[ast.expr | None]:
    if isinstance(added, (ast.List, ast.Tuple)) and not added.elts:
        return
    yield _last_of(added) if added is not None else None


def _last_of(display: ast.expr) -> ast.expr | None:
    """The last element of `[a, b]`, of `[a] + [b]`."""
    if isinstance(display, ast.BinOp) and isinstance(display.op, ast.Add):
        return _last_of(display.right)
    if isinstance(display, (ast.List, ast.Tuple)) and display.elts:
        last = display.elts[-1]
        return None if isinstance(last, ast.Starred) else last
    return None
