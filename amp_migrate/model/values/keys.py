"""Keys of containers: literals, and texts with a part that varies, `"optim_{}".format(i)`."""

from __future__ import annotations

import ast
from string import Formatter

from amp_migrate.records import NamedTuple


class Pattern(NamedTuple):
    """How a text begins and ends."""

    begin: str = ""
    end: str = ""


_ANY = Pattern()


def literal(key: ast.expr | str | None) -> object:
    """A key where it is told; None for any."""
    if isinstance(key, ast.Constant):
        return key.value
    return key if isinstance(key, str) else None


def may_be(one: ast.expr | str | None, other: ast.expr | str | None) -> bool:
    """Whether two keys may be the same."""
    first, second = _shape(one), _shape(other)
    if first is None or second is None:
        return True
    if not isinstance(first, Pattern) and not isinstance(second, Pattern):
        return first == second
    begins, ends = _ends(first), _ends(second)
    if begins is None or ends is None:
        return False  # a number is no text
    return _agree(begins.begin, ends.begin) and _agree(
        begins.end[::-1], ends.end[::-1]
    )


def _agree(one: str, other: str) -> bool:
    """Whether two texts may begin so: one is the other, and perhaps goes on."""
    return one.startswith(other) or other.startswith(one)


def _ends(shape: object) -> Pattern | None:
    """How what has this shape begins and ends; a text that is known does so with all of it."""
    if isinstance(shape, Pattern):
        return shape
    return Pattern(shape, shape) if isinstance(shape, str) else None


def _shape(key: ast.expr | str | None) -> object:
    """The key itself, a pattern, or None for any."""
    told = literal(key)
    if told is not None:
        return told
    if not isinstance(key, ast.expr):
        return None
    pattern = _pattern(key)
    return None if pattern == _ANY else pattern


def _pattern(key: ast.expr) -> Pattern:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return Pattern(key.value, key.value)
    if isinstance(key, ast.JoinedStr) and key.values:
        ends = [_pattern(one) for one in (key.values[0], key.values[-1])]
        return Pattern(ends[0].begin, ends[1].end)
    if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Add):
        return Pattern(_pattern(key.left).begin, _pattern(key.right).end)
    if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Mod):
        return Pattern(_pattern(key.left).begin.partition("%")[0])
    if isinstance(key, ast.Call) and isinstance(key.func, ast.Attribute):
        text = literal(key.func.value)
        if key.func.attr == "format" and isinstance(text, str):
            return _of_format(text)
    return _ANY


def _of_format(text: str) -> Pattern:
    """How `"optim_{}".format(i)` begins."""
    try:
        parsed = iter(Formatter().parse(text))
        begin, field, _, _ = next(parsed, ("", None, "", ""))
    except ValueError:
        return _ANY
    return Pattern(begin, "" if field is not None else begin)
