"""Autocast regions of one program: their device, dtype and switch, and which functions run inside
them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.autocast.contexts import SWITCH, called_name, opened
from amp_migrate.model.autocast.dtype_choices import dtype_choices
from amp_migrate.model.autocast.framework_regions import lightning_regions
from amp_migrate.model.calls.targets import targets
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.amp_api import API, HALVES
from amp_migrate.torch_facts.devices import DEVICES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_ROWS = [row for row in API if row.role == "autocast"]
NEW = tuple(row.name for row in _ROWS if not row.device)
OLD = {row.name: row.device for row in _ROWS if row.device}
_SWITCHES = {**OLD, SWITCH: "cuda"}
_NAMED = {*NEW, *_SWITCHES, "functools.partial"}
DEFAULTS = {row.name: row.dtype for row in DEVICES}
"""What a region computes in on each device where no type is given."""


class Region(NamedTuple):
    """One `with autocast(...)` or decorator."""

    call: ast.Call
    name: str
    """Canonical name of what is called."""
    device: str | None
    """The device type, where it is a literal."""
    dtype: str | None
    """`float16`, `bfloat16`, or None where it cannot be told."""
    choices: frozenset[str]
    """The dtypes that it may have, where all of them are written out."""
    enabled: bool | None
    """None where it depends on a value."""
    cached: bool | None


class RegionIndex:
    """Answers which region a node is in: around it in its scope, or around the calls of its
    function.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.module = program.module
        self._around: dict[ast.AST, Region] = {}
        if program.uses.of(*NEW, *_SWITCHES):
            for place, call in opened(program):
                name = program.canonical(call.func)
                if name not in _NAMED:
                    name = called_name(program, call)
                self._around[place] = self.region(name or "", call)
        for method, call, dtypes in lightning_regions(program):
            self._around.setdefault(method, _of_lightning(call, dtypes))
        self.regions: list[Region] = list(self._around.values())
        self._inherited: dict[ast.AST, list[Region]] | None = None

    def region(self, name: str, call: ast.Call) -> Region:
        """The facts in the call `call` of the autocast called `name`."""
        old = _SWITCHES.get(name)
        places = (
            {"enabled": 0, "dtype": 1, "cache_enabled": 2}
            if old
            else {"dtype": 1, "enabled": 2, "cache_enabled": 3}
        )
        device = old or _literal(argument_of(call, 0, "device_type"))
        dtype = argument_of(call, places["dtype"], "dtype")
        enabled = argument_of(call, places["enabled"], "enabled")
        cached = argument_of(call, places["cache_enabled"], "cache_enabled")
        return Region(
            call,
            name,
            device,
            self._dtype(dtype, device),
            self._choices(dtype, call),
            True if enabled is None else _truth(enabled),
            True if cached is None else _truth(cached),
        )

    def _dtype(
        self,
        dtype: ast.expr | None,
        device: str | None,
    ) -> str | None:
        if dtype is None:
            return DEFAULTS.get(device or "")
        return HALVES.get(self.program.canonical(dtype) or "")

    def _choices(
        self, dtype: ast.expr | None, call: ast.Call
    ) -> frozenset[str]:
        if dtype is None:
            return frozenset()
        scope = self.module.scope_of(call)
        return dtype_choices(self.program, dtype, scope) or frozenset()

    def at(self, node: ast.AST) -> Region | None:
        """The innermost region written around `node` in its own function (its decorators
        included); the parameters of a function stand for the whole of its body.
        """
        inner = node
        for above in self.module.ancestors(node):
            if (
                isinstance(above, (ast.With, ast.AsyncWith))
                and above in self._around
                and isinstance(inner, ast.stmt)
            ):
                return self._around[above]
            if isinstance(above, FUNCTIONS):
                inside = node is above.args or inner in above.body
                return self._around.get(above) if inside else None
            if isinstance(above, (ast.ClassDef, ast.Lambda)):
                return None
            inner = above
        return None

    def outside(self, call: ast.Call) -> Region | None:
        """The region in which the `with` of the region `call` stands, in its own function."""
        above = self.module.parents[call]
        if not isinstance(above, ast.withitem):
            return None
        return self.at(self.module.parents[above])

    def around(self, node: ast.AST) -> list[Region]:
        """The region at `node`, else those in which the function around it is called."""
        own = self.at(node)
        if own is not None:
            return [own]
        if self._inherited is None:
            self._inherited = self._inherit()
        for above in self.module.ancestors(node):
            if isinstance(above, FUNCTIONS):
                return self._inherited.get(above, [])
        return []

    def enabled_around(self, node: ast.AST) -> Region | None:
        """A region that is, or may be, on where `node` runs."""
        return next(
            (
                region
                for region in self.around(node)
                if region.enabled is not False
            ),
            None,
        )

    def _inherit(self) -> dict[ast.AST, list[Region]]:
        """Functions in sight that are called from enabled regions, transitively, with those
        regions.
        """
        found: dict[ast.AST, list[Region]] = {}
        wanted = [
            (call, scope, region)
            for region, call, scope in self._calls_inside()
            if region.enabled is not False
        ]
        while wanted:
            call, scope, region = wanted.pop()
            for function in targets(self.program, call, scope):
                held = found.setdefault(function, [])
                if region in held:
                    continue
                held.append(region)
                wanted += [
                    (inner, self.program.scope(function), region)
                    for inner in self._free_calls(function)
                ]
        return found

    def _calls_inside(self) -> Iterator[tuple[Region, ast.Call, Scope]]:
        for place, region in self._around.items():
            body: list[ast.stmt] = getattr(place, "body", [])
            for statement in body:
                scope = self.module.scope_of(statement)
                for node in shallow(statement):
                    if isinstance(node, ast.Call) and self.at(node) is region:
                        yield region, node, scope

    def _free_calls(self, function: Function) -> Iterator[ast.Call]:
        """Calls in a function that no region of its own covers."""
        return (
            call
            for call in self.program.scope(function).calls
            if self.at(call) is None
        )


def _of_lightning(
    call: ast.Call,
    dtypes: frozenset[str],
) -> Region:
    """The region of a Trainer, which is off where its precision may be float32."""
    half = dtypes - {"float32"}
    dtype = next(iter(half)) if len(half) == 1 else None
    enabled = None if "float32" in dtypes else True
    return Region(call, "Trainer", "cuda", dtype, half, enabled, True)


def _literal(expr: ast.expr | None) -> str | None:
    return (
        expr.value.partition(":")[0]
        if isinstance(expr, ast.Constant) and isinstance(expr.value, str)
        else None
    )


def _truth(expr: ast.expr) -> bool | None:
    return bool(expr.value) if isinstance(expr, ast.Constant) else None
