"""`name = E` right before the one statement that reads the name, and nowhere else, means the
statement with E in its place.

Hoisting is the one rewrite that renames, so both programs are folded alike before they are
compared. What the statement evaluates before the name must be nothing that E could change or that
could be seen from E.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from amp_migrate.rewrite.proof.scopes import Scope, build

_READING = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_COMPUTING = (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List)


def inline(
    tree: ast.Module,
    hoisted: frozenset[str],
    losses: frozenset[str] = frozenset(),
) -> None:
    """Fold every such pair of a name in `hoisted`, in place. `losses`: source of what is called
    for losses that only compute.
    """
    if not hoisted:
        return
    for scope in build(tree, hoisted).walk():
        _inline_in(scope, hoisted, losses)


def _inline_in(
    scope: Scope, hoisted: frozenset[str], losses: frozenset[str]
) -> None:
    mentioned = hoisted & {mention.name for mention in scope.mentions}
    own = {name for name in mentioned if scope.binds(name)}
    found = list(_runs(scope, own, losses))
    folded = Counter(name for run in found for name in run.values)
    whole = {n for n in own if len(list(scope.sees(n))) == 2 * folded[n]}
    for run in found:
        if whole.issuperset(run.values):
            run.fold()


@dataclass(frozen=True, eq=False)
class _Run:
    """Values that stand right before the statement that reads each of them once."""

    block: list[ast.stmt]
    reader: ast.stmt
    values: dict[str, ast.expr]

    def fold(self) -> None:
        """Put each value where its name stands."""
        _Put(self.values).visit(self.reader)
        ast.copy_location(self.reader, next(iter(self.values.values())))
        end = self.block.index(self.reader)
        del self.block[end - len(self.values) : end]


class _Put(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The value of a name, where it is read."""
        is_read = isinstance(node.ctx, ast.Load)
        return self.values.get(node.id, node) if is_read else node


def _runs(
    scope: Scope, names: set[str], losses: frozenset[str]
) -> Iterator[_Run]:
    for block in _blocks(scope.node):
        for index, reader in enumerate(block):
            if isinstance(reader, _READING) and reader.value is not None:
                parts = list(_evaluated(reader.value, names, losses))
                read = [p.id for p in parts if _is_one(p, names)]
                values = _values(block[:index], read)
                if values and _may_wait(parts, values):
                    yield _Run(block, reader, values)


def _is_one(part: ast.AST | None, names: set[str]) -> TypeGuard[ast.Name]:
    return isinstance(part, ast.Name) and part.id in names


def _values(before: list[ast.stmt], read: list[str]) -> dict[str, ast.expr]:
    """What the names were given, by the statements right before, in the order of reading."""
    found: dict[str, ast.expr] = {}
    for name, made in zip(
        read, before[len(before) - len(read) :], strict=False
    ):
        if (
            isinstance(made, ast.Assign)
            and len(made.targets) == 1
            and isinstance(made.targets[0], ast.Name)
            and made.targets[0].id == name
        ):
            found[name] = made.value
    return found if len(found) == len(read) <= len(before) else {}


def _may_wait(parts: list[ast.AST | None], values: dict[str, ast.expr]) -> bool:
    """Whether nothing in front of the last name could be seen from the values, or be changed by
    them.
    """
    last = max(i for i, part in enumerate(parts) if _is_one(part, {*values}))
    named = {"self"}.union(*map(_names, values.values()))
    bound = set[str]().union(*map(_bound, values.values()))
    return all(
        part is not None
        and not _names(part) & (bound if isinstance(part, ast.Name) else named)
        for part in parts[:last]
    )


def _bound(value: ast.expr) -> set[str]:
    """The names that an expression sets itself, by `:=`."""
    walruses = (
        one for one in ast.walk(value) if isinstance(one, ast.NamedExpr)
    )
    return {one.target.id for one in walruses}


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _evaluated(
    node: ast.expr, names: set[str], losses: frozenset[str]
) -> Iterator[ast.AST | None]:
    """Names, attributes and items, in the order of evaluation; None is what may do anything."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Call):
        yield from _called(node, names, losses)
    elif isinstance(node, _COMPUTING) or _names(node) & names:
        if not isinstance(node, (*_COMPUTING, ast.Attribute)):
            yield None
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                yield from _evaluated(part, names, losses)
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        calls = any(isinstance(one, ast.Call) for one in ast.walk(node))
        yield None if calls else node
    elif not isinstance(node, ast.Constant):
        yield None


def _called(
    call: ast.Call, names: set[str], losses: frozenset[str]
) -> Iterator[ast.AST | None]:
    if not _is_path(call.func) or _names(call.func) & names:
        yield from _evaluated(call.func, names, losses)
    for given in [*call.args, *(word.value for word in call.keywords)]:
        yield from _evaluated(given, names, losses)
    if ast.unparse(call.func) not in losses:
        yield None


def _is_path(node: ast.expr) -> bool:
    """`criterion`, `self.criterion`"""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """Every statement list of one scope, nested definitions left out."""
    found: list[list[ast.stmt]] = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            found.append(block)
    holders = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    for inner in [*(item for block in found for item in block), *holders]:
        if not isinstance(
            inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            found += _blocks(inner)
    return found
