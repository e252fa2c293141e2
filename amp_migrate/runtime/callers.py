"""Where the user's files call a module or define its class: there it can be kept in float32."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.runtime.call_site import OURS, TORCH
from amp_migrate.runtime.sources import source
from amp_migrate.runtime.trace import Place

_NONE: Mapping[str, Any] = {}


def places(
    module: Any, inputs: tuple[Any, ...], named: Mapping[str, Any] = _NONE
) -> list[Place]:
    """Of a module whose forward has just been called, the narrowest first."""
    given: list[tuple[int | str, Any]] = [*enumerate(inputs), *named.items()]
    floats = tuple(
        key
        for key, value in given
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    )
    return [*_calls(module, floats), *_definition(module, floats)]


def _calls(module: Any, floats: tuple[int | str, ...]) -> Iterator[Place]:
    """The call in the innermost frame that is not torch's, where it is a call of this module and
    not of one that holds it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(
        (OURS, TORCH, "<")
    ):
        frame = frame.f_back
    if frame is None or not _is_project(frame.f_code.co_filename):
        return
    for call in _calls_at(frame.f_code.co_filename, frame.f_lineno):
        if _value(call.func, frame) is module:
            yield Place(
                frame.f_code.co_filename,
                frame.f_lineno,
                ast.unparse(call.func),
                floats,
            )
            return


def _definition(module: Any, floats: tuple[int | str, ...]) -> Iterator[Place]:
    code: CodeType | None = getattr(type(module).forward, "__code__", None)
    if code is not None and _is_project(code.co_filename):
        yield Place(code.co_filename, code.co_firstlineno, "", floats)


def _is_project(file: str) -> bool:
    return "site-packages" not in file and not file.startswith(
        (OURS, TORCH, "<")
    )


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(source(file))
    except (OSError, SyntaxError, ValueError):
        return None


def _calls_at(file: str, line: int) -> list[ast.Call]:
    tree = _tree(file)
    nodes = nodes_in(tree) if tree is not None else ()
    return [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name, an attribute or an item is in `frame`; nothing is called."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Attribute(value=owner, attr=name):
            return _member(_value(owner, frame), name)
        case ast.Subscript(value=owner, slice=index):
            return _item(_value(owner, frame), _value(index, frame))
        case ast.Constant(value=constant):
            return constant
        case ast.UnaryOp(
            op=ast.USub(), operand=ast.Constant(value=int(constant))
        ):
            return -constant
    return None


def _member(owner: Any, name: str) -> Any:
    found = getattr(owner, "__dict__", {})
    return found.get(name, found.get("_modules", {}).get(name))


def _item(owner: Any, index: Any) -> Any:
    if not isinstance(
        owner, (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)
    ):
        return None
    key = str(
        index + len(owner) if isinstance(index, int) and index < 0 else index
    )
    return owner._modules.get(key)
