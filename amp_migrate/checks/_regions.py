"""Autocast regions: `with` statements and decorated functions, with what can be read off their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope, blocks, shallow

AUTOCAST = {
    "torch.autocast",
    "torch.amp.autocast",
    "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast",
    "torch.xpu.amp.autocast",
}
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
        return self.call if isinstance(self.node, FUNCTIONS) else self.node

    @property
    def scope(self) -> Scope:
        """The scope of the statements inside."""
        module = self.program.module
        return module.scopes[self.node] if isinstance(self.node, FUNCTIONS) else module.scope_of(self.node)

    def argument(self, name: str) -> ast.expr | None:
        """An argument of the call, by keyword or position."""
        found = next((k.value for k in self.call.keywords if k.arg == name), None)
        order = _POSITIONS.get(self.canonical, _OLD_POSITIONS)
        if found is None and name in order and order.index(name) < len(self.call.args):
            found = self.call.args[order.index(name)]
        return found

    @property
    def canonical(self) -> str:
        """The name that was called."""
        return self.program.canonical(self.call.func) or ""

    def is_false(self, name: str) -> bool:
        """Whether that argument is the constant False."""
        value = self.argument(name)
        return isinstance(value, ast.Constant) and not value.value

    @property
    def off(self) -> bool:
        """Switched off for good."""
        return self.is_false("enabled")

    @property
    def device(self) -> str | None:
        """The device type, where it is written out."""
        if self.canonical not in _POSITIONS:
            return self.canonical.split(".")[1]
        value = self.argument("device_type")
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None

    @property
    def dtype(self) -> str | None:
        """`float16`, `bfloat16`, ...; the device's default where none is given; None where it is not known."""
        value = self.argument("dtype")
        if value is None:
            return {"cuda": "float16", "mps": "float16", "cpu": "bfloat16", "xpu": "float16"}.get(self.device or "")
        return dtype_name(self.program, value, self.program.module.scope_of(self.call))

    def blocks(self) -> list[ast.stmt]:
        """The statements inside."""
        return self.node.body


def dtype_name(program: Program, expr: ast.expr, scope: Scope) -> str | None:
    """`bfloat16` for `torch.bfloat16`, also under a name that is bound once."""
    name = program.canonical(expr)
    if name is not None and name.startswith("torch."):
        name = name.removeprefix("torch.")
        return {"half": "float16", "float": "float32"}.get(name, name)
    if isinstance(expr, ast.Name):
        home = scope.lookup(expr.id)
        bindings = home.bindings[expr.id] if home is not None else []
        if home is not None and len(bindings) == 1 and bindings[0].how == "assign" and bindings[0].value is not None:
            return dtype_name(program, bindings[0].value, home) if not isinstance(bindings[0].value, ast.Name) else None
    return None


def is_autocast(program: Program, call: ast.AST) -> bool:
    """Whether `call` is a call of autocast under one of its names."""
    return isinstance(call, ast.Call) and program.canonical(call.func) in AUTOCAST


_CACHE: dict[int, tuple[Program, list[Region]]] = {}


def regions(program: Program) -> list[Region]:
    """All regions of a module that are opened by a call in place, in source order."""
    held = _CACHE.get(id(program))
    if held is None or held[0] is not program:
        _CACHE.clear()
        found = (
            sorted(_found(program), key=lambda r: (r.call.lineno, r.call.col_offset))
            if "autocast" in program.module.text
            else []
        )
        held = _CACHE[id(program)] = (program, found)
    return held[1]


def _found(program: Program) -> Iterator[Region]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not is_autocast(program, call):
                continue
            parent = program.module.parents[call]
            if isinstance(parent, ast.withitem):
                statement = program.module.parents[parent]
                assert isinstance(statement, (ast.With, ast.AsyncWith))
                yield Region(program, call, statement)
            elif isinstance(parent, FUNCTIONS) and call in parent.decorator_list:
                yield Region(program, call, parent)


def region_of(program: Program, node: ast.AST) -> Region | None:
    """The innermost region around `node` in the same function."""
    by_node = {id(r.node): r for r in regions(program)}
    here = node
    while here in program.module.parents:
        parent = program.module.parents[here]
        inside = not isinstance(here, (ast.withitem, ast.arguments)) and here not in getattr(
            parent, "decorator_list", ()
        )
        if inside and id(parent) in by_node:
            return by_node[id(parent)]
        if isinstance(parent, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return None
        here = parent
    return None


def without_gradients(program: Program, node: ast.AST) -> bool:
    """Whether `node` runs under `no_grad` or `inference_mode`, as far as its function shows."""
    for around in program.module.ancestors(node):
        contexts: list[ast.expr] = []
        if isinstance(around, (ast.With, ast.AsyncWith)):
            contexts = [item.context_expr for item in around.items]
        elif isinstance(around, FUNCTIONS):
            contexts = around.decorator_list
        for context in contexts:
            name = program.canonical(context.func if isinstance(context, ast.Call) else context) or ""
            if name.rpartition(".")[2] in {"no_grad", "inference_mode"}:
                return True
        if isinstance(around, FUNCTIONS):
            return False
    return False


def steps(program: Program, node: ast.stmt, scope: Scope, depth: int = 4) -> Iterator[ast.Call]:
    """Optimizer steps that running `node` makes, the calls that lead to one in sight included."""
    events = events_of(program)
    for call in (n for n in nodes([node]) if isinstance(n, ast.Call)):
        if events.what(call, scope) in {"bare-step", "scaler-step"} or program.effects.is_step(call, scope):
            yield call
            continue
        function = events.callee(call, scope) if depth else None
        if function is not None:
            inner = program.module.scopes[function]
            if any(next(steps(program, s, inner, depth - 1), None) is not None for s in function.body):
                yield call


def nodes(block: list[ast.stmt]) -> Iterator[ast.AST]:
    """Everything evaluated in the statements of a block, without nested definitions."""
    for statement in block:
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield from shallow(statement)


def statements(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a block and of the blocks inside, in source order, without nested definitions."""
    for statement in block:
        yield statement
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for inner in blocks(statement):
                yield from statements(inner)
