"""Autocast regions: `with` statements and decorated functions, with what can be read off their
arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.autocast.contexts import (
    SWITCH,
    called_name,
    is_autocast,
    is_partial,
    opened,
)
from amp_migrate.model.autocast.dtype_choices import dtype_choices
from amp_migrate.model.autocast.regions import DEFAULTS
from amp_migrate.model.conditions.arms import (
    are_exclusive,
    runs_where_false,
)
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    blocks,
    shallow,
)
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.gradients import UNRECORDED

_POSITIONS = {
    "torch.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
    "torch.amp.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
}
_OLD_POSITIONS = ("enabled", "dtype", "cache_enabled")


class Region(NamedTuple):
    """Code that runs under one `autocast(...)` call."""

    program: Program
    call: ast.Call
    node: ast.With | ast.AsyncWith | Function
    """The statement that opens it, or the function that it decorates."""

    @property
    def place(self) -> ast.expr | ast.stmt:
        """Where it is reported: the `with`, or the decorator."""
        if not isinstance(self.node, FUNCTIONS):
            return self.node
        return self.call if self.is_here else self.node.decorator_list[0]

    @property
    def is_here(self) -> bool:
        """Whether the call is written where the region begins, so that it can be edited there."""
        if isinstance(self.node, FUNCTIONS):
            return any(self.call is one for one in self.node.decorator_list)
        return any(self.call is item.context_expr for item in self.node.items)

    @property
    def dtypes(self) -> frozenset[str] | None:
        """Every dtype that it may have, as far as the devices are in sight; None where none is
        known.
        """
        value = self.argument("dtype")
        scope = self.program.module.scope_of(self.call)
        if value is not None:
            return dtype_choices(self.program, value, scope)
        device = self.argument("device_type")
        names = {self.device or ""}
        if device is not None and self.device is None:
            held = Devices(self.program).of(device, scope)
            names = {name.rstrip(":") for name in held.names}
        return frozenset(DEFAULTS[n] for n in names if n in DEFAULTS) or None

    @property
    def scope(self) -> Scope:
        """The scope of the statements inside."""
        module = self.program.module
        return (
            module.scopes[self.node]
            if isinstance(self.node, FUNCTIONS)
            else module.scope_of(self.node)
        )

    def argument(self, name: str) -> ast.expr | None:
        """An argument of the call, by keyword or position."""
        found = next(
            (k.value for k in self.call.keywords if k.arg == name), None
        )
        order = _POSITIONS.get(self.canonical, _OLD_POSITIONS)
        given = self.call.args[1 if self._is_partial else 0 :]
        if found is None and name in order and order.index(name) < len(given):
            found = given[order.index(name)]
        return found

    @property
    def _is_partial(self) -> bool:
        return is_partial(self.program, self.call)

    @property
    def canonical(self) -> str:
        """The name that was called."""
        return called_name(self.program, self.call)

    def is_false(self, name: str) -> bool:
        """Whether that argument is the constant False."""
        value = self.argument(name)
        return isinstance(value, ast.Constant) and not value.value

    @property
    def off(self) -> bool:
        """Switched off for good."""
        return self.is_false("enabled")

    def off_at(self, node: ast.AST) -> bool:
        """Switched off where `node` runs: for good, or where a branch says so."""
        enabled = self.argument("enabled")
        if self.canonical == SWITCH and is_other_arm(self.program, node):
            return True
        if not self.is_here and self._is_made_elsewhere(node):
            return True
        return self.off or (
            enabled is not None
            and runs_where_false(self.program, node, enabled, self.node)
        )

    def _is_made_elsewhere(self, node: ast.AST) -> bool:
        """Whether the context is made of autocast only where `node` does not run: `if fp16: context
        = autocast()`, and further down `if fp16: ... else: loss.backward()`.
        """
        module = self.program.module
        is_near = module.scope_of(self.call) is module.scope_of(node)
        return is_near and are_exclusive(self.program, self.call, node)

    @property
    def device(self) -> str | None:
        """The device type, where it is written out."""
        if self.canonical == SWITCH:
            return "cuda"
        if self.canonical not in _POSITIONS:
            return self.canonical.split(".")[1]
        value = self.argument("device_type")
        return (
            value.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str)
            else None
        )

    @property
    def dtype(self) -> str | None:
        """`float16`, `bfloat16`, ...; the device's default where none is given; None where it is
        not known.
        """
        value = self.argument("dtype")
        if value is None:
            return DEFAULTS.get(self.device or "")
        return dtype_name(
            self.program, value, self.program.module.scope_of(self.call)
        )

    def blocks(self) -> list[ast.stmt]:
        """The statements inside."""
        return self.node.body


def is_other_arm(program: Program, node: ast.AST) -> bool:
    """Whether a node stands in the arm of an `if` whose other arm scales the loss: the one for the
    case that AMP is off.
    """
    inner = node
    for above in program.module.ancestors(node):
        if isinstance(above, ast.If) and inner is not above.test:
            other = above.orelse if inner in above.body else above.body
            scope = program.module.scope_of(above)
            return any(
                isinstance(one, ast.Call)
                and program.events.what(one, scope) is EventKind.SCALE
                for one in nodes(other)
            )
        inner = above
    return False


def dtype_name(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> str | None:
    """`bfloat16` where that is the only dtype which `expr` may name."""
    found = dtype_choices(program, expr, scope)
    return next(iter(found)) if found is not None and len(found) == 1 else None


_CACHE: dict[int, tuple[Program, list[Region]]] = {}


def regions(program: Program) -> list[Region]:
    """All regions of a module that are opened by a call in place, in source order."""
    held = _CACHE.get(id(program))
    if held is None or held[0] is not program:
        _CACHE.clear()
        found = (
            sorted(
                (Region(program, call, node) for node, call in opened(program)),
                key=lambda r: (r.call.lineno, r.call.col_offset),
            )
            if "autocast" in program.module.text
            else []
        )
        held = _CACHE[id(program)] = (program, found)
    return held[1]


def region_of(program: Program, node: ast.AST) -> Region | None:
    """The innermost region around `node` in the same function."""
    by_node = {id(r.node): r for r in regions(program)}
    here = node
    while here in program.module.parents:
        parent = program.module.parents[here]
        inside = not isinstance(
            here, (ast.withitem, ast.arguments)
        ) and here not in getattr(parent, "decorator_list", ())
        if inside and id(parent) in by_node:
            return by_node[id(parent)]
        if isinstance(parent, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return None
        here = parent
    return None


def region_of_callers(program: Program, scope: Scope) -> Region | None:
    """The region in which every call in sight of a function stands, those of a base class included
    that run it for an heir; None where one is elsewhere, or nobody calls it.
    """
    function = scope.node
    if not isinstance(function, FUNCTIONS) or program.graph.escapes(function):
        return None
    found = None
    for site in program.graph.sites(function):
        if not _runs(program, site.call, site.scope, function):
            continue
        region = region_of(program, site.call)
        if region is None or region.off_at(site.call):
            return None
        found = found or region
    return found


def _runs(
    program: Program, call: ast.Call, scope: Scope, function: Function
) -> bool:
    """Whether a call is known to run a function: by its name, or as a method of the same object."""
    func = call.func
    if program.values.callee(call, scope) is function:
        return True
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id == scope.self_name
    )


def without_gradients(program: Program, node: ast.AST) -> bool:
    """Whether `node` runs under `no_grad` or `inference_mode`, as far as its function shows."""
    for around in program.module.ancestors(node):
        contexts: list[ast.expr] = []
        if isinstance(around, (ast.With, ast.AsyncWith)):
            contexts = [item.context_expr for item in around.items]
        elif isinstance(around, FUNCTIONS):
            contexts = around.decorator_list
        for context in contexts:
            name = (
                program.canonical(
                    context.func if isinstance(context, ast.Call) else context
                )
                or ""
            )
            if name.rpartition(".")[2] in UNRECORDED:
                return True
        if isinstance(around, FUNCTIONS):
            return False
    return False


def steps(
    program: Program, node: ast.stmt, scope: Scope, depth: int = 4
) -> Iterator[ast.Call]:
    """Optimizer steps that running `node` makes, the calls that lead to one in sight included."""
    events = program.events
    for call in (n for n in nodes([node]) if isinstance(n, ast.Call)):
        if events.what(call, scope) in {
            EventKind.BARE_STEP,
            EventKind.SCALER_STEP,
        } or program.effects.is_step(call, scope):
            yield call
            continue
        function = events.callee(call, scope) if depth else None
        if function is not None:
            inner = program.module.scopes[function]
            if any(
                next(steps(program, s, inner, depth - 1), None) is not None
                for s in function.body
            ):
                yield call


def nodes(block: list[ast.stmt]) -> Iterator[ast.AST]:
    """Everything evaluated in the statements of a block, without nested definitions."""
    for statement in block:
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield from shallow(statement)


def statements(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a block and of the blocks inside, in source order, without nested
    definitions.
    """
    for statement in block:
        yield statement
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for inner in blocks(statement):
                yield from statements(inner)


__all__ = [
    "Region",
    "dtype_name",
    "is_autocast",
    "is_other_arm",
    "nodes",
    "region_of",
    "region_of_callers",
    "regions",
    "statements",
    "steps",
    "without_gradients",
]
