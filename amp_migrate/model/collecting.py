"""What a first run over a scope collects: scalers, optimizers, and what belongs to what."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.blame import Blame
from amp_migrate.model.events import Events, What
from amp_migrate.model.paths import Frame, Path, Val, identity, joined
from amp_migrate.model.program import Program

if TYPE_CHECKING:
    from amp_migrate.model.execution import Executor


class Collector(Blame):
    """Fills `seen`, and answers who is meant by an event."""

    program: Program
    events: Events
    executor: Executor

    def _collect_scaler(self, node: ast.AST, path: Path, frame: Frame) -> None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            scaler = identity(node.func.value, frame, path)
            if scaler is not None:
                self.seen.exprs.setdefault(scaler, node.func.value)

    def _collect(self, what: What, node: ast.AST, path: Path, frame: Frame) -> None:
        seen = self.seen
        if what == "backward":
            seen.backwards.add(node)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        func = node.func
        if what in {"unscale", "scaler-step", "update"}:
            scaler = identity(func.value, frame, path)
            if scaler is None:
                return
            seen.exprs.setdefault(scaler, func.value)
            optimizer = self._argument(node, frame, path)
            if what != "update" and optimizer is not None:
                seen.owners.add(optimizer, node.args[0] if node.args else node.keywords[0].value, frame.scope)
                seen.pairs.setdefault(scaler, set()).add(optimizer)
            if what == "update":
                seen.updates.setdefault(scaler, {})[node] = frame.loops
            elif what == "scaler-step":
                seen.steps.setdefault(scaler, set()).add(node)
        elif what == "bare-step":
            name = identity(func.value, frame, path)
            if name is not None:
                seen.owners.add(name, func.value, frame.scope)

    def _argument(self, call: ast.Call, frame: Frame, path: Path) -> str | None:
        given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "optimizer"), None)
        return identity(given, frame, path) if given is not None else None

    def _loss(self, node: ast.AST, path: Path, frame: Frame) -> Val | None:
        assert isinstance(node, ast.Call)
        is_function = self.program.canonical(node.func) == "torch.autograd.backward"
        receiver = node.func.value if isinstance(node.func, ast.Attribute) and not is_function else None
        given = [*([receiver] if receiver is not None else []), *node.args[:2], *(k.value for k in node.keywords)]
        values = [self.executor.value(one, path, frame) for one in given]  # `x.backward(scaler.scale(gradient))`
        return joined(values) if given else None

    def _alive(self, frame: Frame) -> list[str]:
        """Optimizers that can be reached from here: locals of functions that do not run are none."""
        running = []
        here: Frame | None = frame
        while here is not None:
            running.append(here.scope.qualname)
            here = here.caller
        homes = {name: name.rpartition(":")[0] for name in self.seen.owners.optimizers if "[" not in name}
        dead = {
            n for n, home in homes.items() if home and not any(r == home or r.startswith(home + ".") for r in running)
        }
        return [name for name in self.seen.owners.optimizers if name not in dead]

    def _is_foreign_method(self, call: ast.Call, frame: Frame) -> bool:
        """A method of `self` (or of `super()`) that the classes in sight do not define."""
        func = call.func
        if not isinstance(func, ast.Attribute):
            return False
        holder = func.value
        return (
            isinstance(holder, ast.Name) and holder.id == frame.scope.self_name and not self._is_attribute(func, frame)
        )

    def _is_attribute(self, func: ast.Attribute, frame: Frame) -> bool:
        """`self.model(x)`: an attribute that is set in sight is no method."""
        cls = self.program.graph.class_around(frame.scope)
        if cls is None:
            return False
        family = [*self.program.graph.lineage(cls), *self.program.graph.heirs(cls)]
        if any(f"self.{func.attr}" in self.program.module.scopes[c].bindings for c in family):
            return True
        return any(self._looks_into(c, func.attr) for c in family)

    def _looks_into(self, cls: ast.ClassDef, name: str) -> bool:
        """`self.model.parameters()`: what has attributes of its own is an object that the base class keeps."""
        key = ("looked into", id(cls))
        names = self.program.remembered(
            key,
            lambda: {
                inner.attr
                for node in ast.walk(cls)
                if isinstance(node, ast.Attribute) and isinstance(inner := node.value, ast.Attribute)
                if isinstance(inner.value, ast.Name) and inner.value.id == "self"
            },
        )
        return name in names
