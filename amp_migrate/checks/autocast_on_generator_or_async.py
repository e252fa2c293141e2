"""Autocast decorates a generator or coroutine, or spans a `yield`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import Region, nodes, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS

RULE = Rule("autocast-on-generator-or-async", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find regions that do not hold while, or only while, their body is suspended."""
    for region in regions(program):
        if region.off:
            continue
        if isinstance(region.node, FUNCTIONS):
            if _suspends(region) or isinstance(
                region.node, ast.AsyncFunctionDef
            ):
                message = (
                    "the body runs after the decorated call has returned, without autocast; "
                    "write `with autocast` inside the body"
                )
                yield finding_at(program, region.place, RULE, message)
        elif _suspends(region) and not _holds_open(region):
            message = (
                "autocast stays on in the caller while this body is suspended; end the "
                "autocast block before `yield` or `await`"
            )
            yield finding_at(program, region.place, RULE, message)


def _suspends(region: Region) -> bool:
    return any(
        isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await))
        for node in nodes(region.blocks())
    )


def _holds_open(region: Region) -> bool:
    """A context manager is meant to hold the region open; `async with` bodies too, where a library
    runs them.
    """
    function = region.scope.node
    decorators = (
        function.decorator_list if isinstance(function, FUNCTIONS) else []
    )
    named = [d.func if isinstance(d, ast.Call) else d for d in decorators]
    last = {
        d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "")
        for d in named
    }
    return bool(last & {"contextmanager", "asynccontextmanager", "fixture"})
