"""Who takes part in the training step: scalers, optimizers, and what belongs to what."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.owners import Owners
from amp_migrate.model.syntax.module import Function
from amp_migrate.model.values.kinds import Kind
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.frames import Frame, identity
from amp_migrate.protocol.paths import Path


class Participants:
    """What a first run over a scope has collected, and who is meant by an event."""

    def __init__(self, program: Program, owners: Owners) -> None:
        self.program, self.owners = program, owners
        self.pairs: dict[str, set[str]] = {}
        """Optimizers that each scaler steps or unscales."""
        self.exprs: dict[str, ast.expr] = {}
        """Scalers, as first written."""
        self.scaling: dict[str, set[ast.AST]] = {}
        """Scalers that scale something, with the calls."""
        self.backwards: set[ast.AST] = set()
        self.steps: dict[str, set[ast.AST]] = {}
        self.updates: dict[str, dict[ast.AST, tuple[ast.AST, ...]]] = {}
        """`update()` calls of each scaler with the loops around them."""
        self.given: Function | None = None
        """The function that gets its gradients from callers: no backward is in sight."""
        self.kept: dict[str, set[str]] = {}
        """Scalers and optimizers that were handed to the constructor of what a variable holds."""

    def sole_scaled(self, scaler: str) -> set[str]:
        """The optimizers of a scaler that scales in one place only: what is scaled there feeds
        them.
        """
        is_one = len(self.scaling.get(scaler, ())) == 1
        return self.pairs.get(scaler, set()) if is_one else set()

    def scalers(self) -> list[str]:
        """Every scaler."""
        return list(self.exprs)

    def everyone(self) -> set[str]:
        """Every scaler and optimizer."""
        return {*self.exprs, *self.owners.optimizers}

    def partners(self, optimizer: str) -> list[str]:
        """Scalers that have to do with an optimizer: those that step or unscale it, or all."""
        found = [
            scaler for scaler, names in self.pairs.items() if optimizer in names
        ]
        return found or self.scalers()

    def only_steps(self, optimizer: str) -> bool:
        """Whether the scalers of an optimizer scale nothing that is used, anywhere in sight."""
        names = {
            (dotted_name(self.exprs[one]) or one).rpartition(".")[2]
            for one in self.partners(optimizer)
        }
        return not names & self._scaling_names

    @cached_property
    def _scaling_names(self) -> set[str]:
        """The last words of what scales in the program."""
        events, module = self.program.events, self.program.module
        return {
            (dotted_name(call.func.value) or "").rpartition(".")[2]
            for scope in module.scopes.values()
            for call in scope.calls
            if isinstance(call.func, ast.Attribute)
            and events.what(call, scope) is EventKind.SCALE
            and not isinstance(module.parents[call], ast.Expr)
        }

    def are_two(self, scaler: str, other: str) -> bool:
        """Whether two names stand for scalers that are made in different places, for certain."""
        made = [self._made(name) for name in (scaler, other)]
        return None not in made and made[0] is not made[1]

    def _made(self, scaler: str) -> ast.expr | None:
        """The construction of a scaler whose name is given nothing else."""
        expr = self.exprs.get(scaler)
        if not isinstance(expr, (ast.Name, ast.Attribute)):
            return None
        module = self.program.module
        scope = module.scope_of(expr)
        name, home = (
            dotted_name(expr) or "",
            scope.lookup(dotted_name(expr) or ""),
        )
        cls = self.program.graph.class_around(scope)
        if (
            home is None
            and cls is not None
            and name.startswith(f"{scope.self_name}.")
        ):
            name, home = "self." + name.partition(".")[2], module.scopes[cls]
        bindings = home.bindings.get(name, ()) if home is not None else ()
        made = bindings[0].value if len(bindings) == 1 else None
        is_made = (
            isinstance(made, ast.Call)
            and self.program.values.kind(made, scope) is Kind.SCALER
        )
        return made if is_made else None

    def alive(self, frame: Frame) -> list[str]:
        """Optimizers that can be reached from here: locals of functions that do not run
        are none.
        """
        running = []
        here: Frame | None = frame
        while here is not None:
            running.append(here.scope.qualname)
            here = here.caller
        return [
            name for name in self.owners.optimizers if _lives(name, running)
        ]

    def note(self, kind: EventKind, here: Here) -> None:
        """Remember who takes part in an event."""
        if kind is EventKind.BACKWARD:
            self.backwards.add(here.node)
        collect = _COLLECT.get(kind)
        node = here.node
        if collect is None or not isinstance(node, ast.Call):
            return
        if isinstance(node.func, ast.Attribute):
            name = identity(node.func.value, here.frame, here.path)
            if name is not None:
                collect(self, name, node, here)


def _scaler(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    assert isinstance(node.func, ast.Attribute)
    seen.exprs.setdefault(name, node.func.value)


def _scales(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _scaler(seen, name, node, here)
    seen.scaling.setdefault(name, set()).add(node)


def _pair(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _scaler(seen, name, node, here)
    given = optimizer_given(node)
    optimizer = (
        identity(given, here.frame, here.path) if given is not None else None
    )
    if given is not None and optimizer is not None:
        seen.owners.add(optimizer, given, here.frame.scope)
        seen.pairs.setdefault(name, set()).add(optimizer)


def _step(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _pair(seen, name, node, here)
    seen.steps.setdefault(name, set()).add(node)


def _update(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _scaler(seen, name, node, here)
    seen.updates.setdefault(name, {})[node] = here.frame.loops


def _bare_step(
    seen: Participants, name: str, node: ast.Call, here: Here
) -> None:
    assert isinstance(node.func, ast.Attribute)
    seen.owners.add(name, node.func.value, here.frame.scope)


_COLLECT: dict[
    EventKind, Callable[[Participants, str, ast.Call, Here], None]
] = {
    EventKind.SCALE: _scales,
    EventKind.UNSCALE: _pair,
    EventKind.SCALER_STEP: _step,
    EventKind.UPDATE: _update,
    EventKind.BARE_STEP: _bare_step,
}


def optimizer_given(call: ast.Call) -> ast.expr | None:
    """What `scaler.step(...)` or `scaler.unscale_(...)` is given."""
    if call.args:
        return call.args[0]
    return next((k.value for k in call.keywords if k.arg == "optimizer"), None)


def optimizer_of(call: ast.Call, frame: Frame, path: Path) -> str | None:
    """The optimizer that `scaler.step(...)` is about."""
    given = optimizer_given(call)
    return identity(given, frame, path) if given is not None else None


def _lives(name: str, running: list[str]) -> bool:
    home = name.rpartition(":")[0] if "[" not in name else ""
    return not home or any(
        one == home or one.startswith(home + ".") for one in running
    )
