"""A scaler that is made right behind its optimizer has a value where that has been read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.syntax.queries import nodes_in, surely_evaluated

_BLOCKS = ("body", "orelse", "finalbody")
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_Position = tuple[int, int]


def is_made_beside(home: ast.AST, name: str, position: _Position) -> bool:
    """Whether `name`, which is read at a position, has a value there because another name has: one
    that was read before, whose assignments in the scope are all followed by one of `name`.
    """
    read = _read_before(home, position)
    return any(_is_always_followed(home, one, name) for one in read)


def _read_before(home: ast.AST, position: _Position) -> set[str]:
    """The names that have been read wherever a position is reached: by the statement itself, and by
    those before it in the blocks around it.
    """
    found: set[str] = set()
    for block in _blocks(home):
        for at, statement in enumerate(block):
            if _spans(statement, position):
                for one in block[: at + 1]:
                    found |= _read_by(one, position)
    return found


def _blocks(home: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in nodes_in(home):
        for field in _BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _spans(statement: ast.stmt, position: _Position) -> bool:
    """Whether a statement holds a position, and no function that it defines does."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    end = statement.end_lineno or 0, statement.end_col_offset or 0
    return (statement.lineno, statement.col_offset) <= position < end


def _read_by(statement: ast.stmt, position: _Position) -> set[str]:
    """The names that a plain statement reads before a position, whatever it comes to."""
    if not isinstance(statement, _SIMPLE):
        return set()
    return {
        node.id
        for node in surely_evaluated(statement)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and (node.lineno, node.col_offset) < position
    }


def _is_always_followed(home: ast.AST, other: str, name: str) -> bool:
    """Whether nothing but assignments sets a name, each with one of `name` behind it."""
    set_at = [node for node in nodes_in(home) if _sets(node, other)]
    followed = [*_followed(home, other, name)]
    return bool(set_at) and all(
        any(node is target for target in followed) for node in set_at
    )


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a node gives or takes a name's value: a target, a parameter, an import."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.alias):
        return (node.asname or node.name).partition(".")[0] == name
    bound = getattr(node, "name", None), getattr(node, "arg", None)
    return name in bound and not isinstance(node, ast.keyword)


def _followed(home: ast.AST, other: str, name: str) -> Iterator[ast.expr]:
    """The targets of a name's assignments behind which `name` is set."""
    torch = {*_of_torch(home)}
    block_of = {id(one): block for block in _blocks(home) for one in block}
    above = {
        id(child): node
        for node in nodes_in(home)
        for child in ast.iter_child_nodes(node)
    }
    for node in nodes_in(home):
        here: ast.AST | None = node
        if not (isinstance(node, ast.Assign) and _assigns(node, other)):
            continue
        while isinstance(here, (ast.Assign, ast.If)):
            after = _after(here, block_of[id(here)], name, torch)
            if after is not None:
                if _assigns(after, name):
                    yield node.targets[0]
                break
            here = above.get(id(here))


def _after(
    statement: ast.stmt, block: list[ast.stmt], name: str, torch: set[str]
) -> ast.stmt | None:
    """What follows in a block, but for what torch makes."""
    rest = block[block.index(statement) + 1 :]
    following = (
        one
        for one in rest
        if _assigns(one, name) or not _is_made_by(one, torch)
    )
    return next(following, None)


def _assigns(statement: ast.stmt, name: str) -> bool:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(target, ast.Name) and target.id == name


def _is_made_by(statement: ast.stmt, names: set[str]) -> bool:
    """`scheduler = StepLR(optimizer, 30)` of what torch has: it runs nothing of the program."""
    if not isinstance(statement, ast.Assign):
        return False
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    return bool(calls) and all(_root(call.func) in names for call in calls)


def _root(func: ast.expr) -> str | None:
    while isinstance(func, ast.Attribute):
        func = func.value
    return func.id if isinstance(func, ast.Name) else None


def _of_torch(home: ast.AST) -> Iterator[str]:
    """The names by which a module knows things of torch."""
    for node in nodes_in(home):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "torch":
                    yield (one.asname or one.name).partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] == "torch":
                yield from (one.asname or one.name for one in node.names)
