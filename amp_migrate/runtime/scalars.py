"""Values of one name that a program writes to TensorBoard, or returns in a dict from what it calls
at its top level.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.abc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_RETURNED = "__amp_migrate_returned__"
_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
_DEPTH = 4


class Scalars:
    """`values`: those of `name`, in order."""

    def __init__(self, name: str) -> None:
        self.values: list[float] = []
        self._name = name.casefold()

    def listen(self) -> None:
        """Before anything of the program is imported."""
        sys.meta_path.insert(
            0, _Afterwards(dict.fromkeys(_WRITERS, self._follow))
        )
        setattr(builtins, _RETURNED, self.returned)

    def _follow(self, module: Any) -> None:
        add: Callable[..., Any] = module.SummaryWriter.add_scalar

        @functools.wraps(add)
        def added(
            writer: Any, tag: str, scalar_value: Any, *more: Any, **named: Any
        ) -> Any:
            if tag.casefold() == self._name:
                self.values.extend(_numbers(scalar_value))
            return add(writer, tag, scalar_value, *more, **named)

        module.SummaryWriter.add_scalar = added

    def returned(self, value: Any) -> Any:
        """Look through what a call at the top level returns, and hand it on."""
        for key, item in _items(value, _DEPTH):
            if str(key).casefold() == self._name:
                self.values.extend(_numbers(item))
        return value


def note_returned(tree: ast.Module) -> None:
    """Have the calls at the top level of a program (and under its `if __name__ ...`) hand over what
    they return, in place.
    """
    for statement in _top(tree.body):
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(
            statement.value, ast.Call
        ):
            call = ast.Call(
                ast.Name(_RETURNED, ast.Load()), [statement.value], []
            )
            statement.value = ast.fix_missing_locations(
                ast.copy_location(call, statement.value)
            )


def _top(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _top(statement.body)


def _items(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    if not depth:
        return
    if isinstance(value, Mapping):
        yield from value.items()
        for item in value.values():
            yield from _items(item, depth - 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _items(item, depth - 1)


def _numbers(value: Any) -> Iterator[float]:
    """Of a number, of what has one value (a tensor), or of a list of them."""
    for one in value if isinstance(value, (list, tuple)) else [value]:
        try:
            yield float(one)
        except (TypeError, ValueError, RuntimeError):
            return


class _Afterwards(importlib.abc.MetaPathFinder):
    """Looks at modules once they are imported."""

    def __init__(self, looks: Mapping[str, Callable[[Any], None]]) -> None:
        self._looks = looks

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        look = self._looks.get(fullname)
        spec = (
            PathFinder.find_spec(fullname, path) if look is not None else None
        )
        if look is None or spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            look(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
