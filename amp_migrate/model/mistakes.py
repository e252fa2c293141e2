"""Where a program breaks the protocol of the GradScaler, on a path that can happen."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from amp_migrate.model.blame import Mistake, Seen
from amp_migrate.model.collecting import Collector
from amp_migrate.model.elsewhere import Elsewhere
from amp_migrate.model.events import Events, Trait, What
from amp_migrate.model.execution import LIMIT, Executor
from amp_migrate.model.kinds import scheduler_name
from amp_migrate.model.owners import Owners
from amp_migrate.model.paths import Frame, Path, identity, place
from amp_migrate.model.program import Program
from amp_migrate.model.relevance import HARMLESS
from amp_migrate.model.syntax import FUNCTIONS, Scope
from amp_migrate.protocol import Event, Kind, OptimizerState, Stage, State, Violation, advance

_CLIPPER = re.compile(r"(?i)clip")
_OWN_METHODS = {"_found_inf_per_device", "_check_inf_per_device"}
"""Methods of a GradScaler that take an optimizer and change nothing about it."""
_KINDS: dict[str, Kind] = {"unscale": "unscale", "scaler-step": "scaler-step", "bare-step": "bare-step"}


class Protocol(Collector):
    """Runs the state machine over the paths of every scope that uses a scaler."""

    def __init__(self, program: Program, events: Events) -> None:
        super().__init__()
        self.program = program
        self.elsewhere = Elsewhere(program)
        self.events = events
        self.executor = Executor(events, self._handle, self._jumped)
        self._good: set[tuple[str, ast.AST]] = set()
        self._due: set[ast.AST] = set()
        self._fed: set[str] = set()
        self._collecting = True
        self.seen = Seen(Owners(program))

    def run(self) -> list[Mistake]:
        """All mistakes, in source order."""
        for scope in self._roots():
            if scope.node in self.executor.entered:
                continue
            self.seen = Seen(Owners(self.program))
            for collecting in (True, False):
                self._collecting = collecting
                self.executor.limit, self.executor.turns = (8, 1) if collecting else (LIMIT, 2)
                self.executor.tracks = not collecting and len(self.seen.owners.optimizers) > 1
                if not collecting and not self.seen.exprs:
                    break
                start = Path() if collecting else self._entered(scope)
                ends = self.executor.block(scope.body, [start], Frame(scope))
                if not collecting:
                    self._left(scope, [*ends.next, *ends.returns])
        return sorted(self._kept(), key=lambda m: (m.node.lineno, m.node.col_offset, m.rule))

    def _entered(self, scope: Scope) -> Path:
        """What holds where a function begins: one that only unscales and steps gets scaled gradients from its callers."""
        path = Path()
        if self.seen.backwards or not isinstance(scope.node, FUNCTIONS):
            return path
        held = OptimizerState(gradients=frozenset({"scaled"}))
        pairs = self.seen.pairs
        if not pairs and not self._steps_anywhere:  # it updates, so what it steps with is scaled
            pairs = {scaler: set(self.seen.owners.optimizers) for scaler in self.seen.updates}
        for scaler, names in pairs.items():
            path.scalers[scaler] = State(has_scale=True)
            for name in names:
                self._hold(scaler, name, held, path)
                self._fed.add(name)
        self.seen.given = scope.node
        return path

    def _left(self, scope: Scope, paths: list[Path]) -> None:
        """A function that steps and never updates, where no file of the project does it behind the call."""
        if not isinstance(scope.node, FUNCTIONS) or self._updates_anywhere:
            return
        for path in paths:
            stepped = [(s, n) for s, n in self._stepped(path) if self._follows(s, n, path)]
            for scaler, name in stepped if path.amp is not False else ():
                step = path.marks.get(("step", scaler, name))
                if step is not None and not self.elsewhere.may_update(scope.node):
                    self.report("missing-scaler-update", step, None, "", path, Frame(scope))

    def _stepped(self, path: Path) -> list[tuple[str, str]]:
        return [
            (scaler, name)
            for scaler, state in path.scalers.items()
            for name, held in state.optimizers
            if held.stage == "stepped"
        ]

    @cached_property
    def _updates_anywhere(self) -> bool:
        """Whether anything that is called a scaler is updated in the module."""
        return bool(re.search(r"(?i)scal\w*\s*\.\s*update\(", self.program.module.text))

    @cached_property
    def _steps_anywhere(self) -> bool:
        """Whether a scaler steps in the module, or is not torch's own."""
        text = self.program.module.text
        return "GradScaler" not in text or bool(re.search(r"(?i)scal\w*\s*\.\s*step\(", text))

    def _roots(self) -> list[Scope]:
        """Scopes to start from: those that nobody in sight calls come first, so that the others are met in context."""
        scopes = [
            s
            for s in self.program.module.scopes.values()
            if not isinstance(s.node, (ast.ClassDef, ast.Lambda)) and self._uses(s)
        ]
        return sorted(
            scopes,
            key=lambda s: (
                isinstance(s.node, FUNCTIONS) and bool(self._callers(s)),
                s.node.lineno if isinstance(s.node, FUNCTIONS) else 0,
            ),
        )

    def _callers(self, scope: Scope) -> int:
        assert isinstance(scope.node, FUNCTIONS)
        return sum(site.scope is not scope for site in self.program.graph.sites(scope.node))

    def _uses(self, scope: Scope) -> bool:
        node = scope.node
        if isinstance(node, FUNCTIONS):
            return bool(self.events.of_function(node) & (Trait.SCALER | Trait.PLAIN))
        return bool(self.events.of_block(scope.body, scope) & Trait.SCALER)

    def _kept(self) -> list[Mistake]:
        kept = []
        for (rule, node), mistake in self.found.items():
            if (rule, node) in self._good:
                continue
            if mistake.optimizer and mistake.optimizer not in self._fed:
                continue  # nothing in sight ever gives it gradients, so they come from out of sight
            if rule == "update-not-on-every-path" and any(
                ("unscale-each-micro-batch", other) in self.found for other, _ in mistake.related
            ):
                continue  # the same mistake, met again in the next epoch
            if node in self.double and rule in {"bare-optimizer-step", "bare-step-after-unscale"}:
                continue
            told = self._told_as(rule, node)
            if told is not None:
                kept.append(mistake._replace(rule=told))
        return kept

    def _told_as(self, rule: str, node: ast.AST) -> str | None:
        """An early update that has its step on other paths belongs to accumulation, or to conditions out of sight."""
        if rule != "double-or-stray-update" or node not in self._due & self.early:
            return rule
        return "update-while-accumulating" if node in self.pending else None

    # -- events

    def _handle(self, node: ast.AST, path: Path, frame: Frame) -> list[Path]:
        what = self.events.what(node, frame.scope)
        if what is None:
            return [self._unknown(node, path, frame)] if isinstance(node, ast.Call) and not self._collecting else [path]
        if what == "scale":
            if self._collecting:
                self._collect_scaler(node, path, frame)
            return [path]
        path = path.fork()
        if self._collecting:
            self._collect(what, node, path, frame)
        elif path.amp is not False:
            self.loops[node] = frame.loops
            getattr(self, "_on_" + what.replace("-", "_"))(node, path, frame)
        return [path]

    def _on_backward(self, node: ast.Call, path: Path, frame: Frame) -> None:
        value = self._loss(node, path, frame)
        if value is None or value.scaled == "?":
            self._lose_all(path)
            return
        models = frozenset() if value.vague and not value.models else value.models
        among = [o for o in self._alive(frame) if value.scaled is None or value.scaled in self._partners(o)]
        fed = self.seen.owners.fed(models, among, only_backward=len(self.seen.backwards) == 1)
        if value.scaled is not None:
            path.amp = True
        if fed is None:
            path.lost |= {"~" + o for o in among}
            return
        for name in fed:
            self._strip(name, path)
            self._forget(path, ("bare", name))
        if value.scaled is not None:
            self._apply(value.scaled, "scaled-backward", fed, node, path, frame)
            for name in fed:
                path.marks["scaled", name] = node
                self._fed.add(name)
            self._losing_others(value.scaled, fed, path)
        else:
            for scaler in self._scalers():
                self._apply(
                    scaler, "plain-backward", [o for o in fed if scaler in self._partners(o)], node, path, frame
                )
            for name in fed:
                path.marks["plain", name] = node

    def _losing_others(self, scaler: str, fed: list[str], path: Path) -> None:
        for name in fed:
            if scaler not in self._partners(name):
                path.lost |= {name}

    def _scalers(self) -> list[str]:
        return list(self.seen.exprs)

    def _partners(self, optimizer: str) -> list[str]:
        """Scalers that have to do with an optimizer: those that step or unscale it, or all."""
        found = [s for s, names in self.seen.pairs.items() if optimizer in names]
        return found or self._scalers()

    def _on_unscale(self, node: ast.Call, path: Path, frame: Frame) -> None:
        self._by_scaler("unscale", node, path, frame)

    def _on_scaler_step(self, node: ast.Call, path: Path, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)
        if len(node.args) + len(node.keywords) > 1:
            self._lose_all(path)
            return
        name = self._argument(node, frame, path)
        bare = path.marks.get(("bare", name)) if name is not None else None
        if bare is not None:
            self.double.add(bare)
            self.report("double-optimizer-step", bare, node, "the scaler steps here", path, frame)
            self._forget(path, ("bare", name or ""))
            return
        self._by_scaler("scaler-step", node, path, frame)

    def _by_scaler(self, what: What, node: ast.Call, path: Path, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)
        scaler, name = identity(node.func.value, frame, path), self._argument(node, frame, path)
        if scaler is None or name is None:
            self._lose_all(path)
            return
        self._apply(scaler, _KINDS[what], [name], node, path, frame)
        path.marks["unscale" if what == "unscale" else "step", scaler, name] = node
        if what == "scaler-step":
            self._forget(path, ("left", scaler))

    def _on_update(self, node: ast.Call, path: Path, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)
        scaler = identity(node.func.value, frame, path)
        if scaler is None:
            self._lose_all(path)
            return
        self._apply(scaler, "set-scale" if node.args or node.keywords else "update", [], node, path, frame)
        path.marks["update", scaler] = node
        path.marks["known", scaler] = node
        self._forget(path, ("left", scaler))

    def _on_bare_step(self, node: ast.Call, path: Path, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)
        name = identity(node.func.value, frame, path)
        if name is None:
            self._lose_all(path)
            return
        for scaler in self._partners(name):
            held = self._state(scaler, path).of(name)
            if held.gradients == {"plain"}:
                self._credit(node, path.marks.get(("plain", name)))
                self._hold(scaler, name, held._replace(gradients=frozenset()), path)
                continue
            self._apply(scaler, "bare-step", [name], node, path, frame)

    def _credit(self, step: ast.AST, backward: ast.AST | None) -> None:
        """A plain step on plain gradients is right, and so is their backward."""
        self._good |= {
            (rule, step) for rule in ("bare-optimizer-step", "bare-step-after-unscale", "double-optimizer-step")
        }
        if backward is not None:
            self._good |= {(r, backward) for r in ("partially-scaled-losses", "unscaled-backward-with-scaler-step")}

    def _on_zero_grad(self, node: ast.Call, path: Path, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)
        name = identity(node.func.value, frame, path)
        owners = self.seen.owners
        names = (
            [name]
            if name in owners.optimizers
            else (owners.of_models([name or ""], self._alive(frame)) or self._alive(frame))
        )
        path.lost -= {"~" + str(o) for o in names}
        for optimizer in names:
            assert optimizer is not None
            self._forget(path, ("bare", optimizer))
            for scaler in self._partners(optimizer):
                self._apply(scaler, "zero-grad", [optimizer], node, path, frame)

    def _on_clip(self, node: ast.Call, path: Path, frame: Frame) -> None:
        for scaler, name in self._readers(node, path, frame):
            held = self._state(scaler, path).of(name)
            known = self._follows(scaler, name, path)
            if known and "unscaled" in held.gradients and not held.gradients & {"scaled", "stale"}:
                self._good |= {("clip-without-unscale", node), ("grad-read-before-unscale", node)}
            self._apply(scaler, "clip", [name], node, path, frame)

    def _on_read(self, node: ast.Attribute, path: Path, frame: Frame) -> None:
        if self._inside_clipper(frame):
            self._on_clip(node, path, frame)  # type: ignore[arg-type]
            return
        for scaler, name in self._readers(node, path, frame):
            held = self._state(scaler, path).of(name)
            if self._follows(scaler, name, path) and held.gradients & {"unscaled", "used"}:
                self._good.add(("grad-read-before-unscale", node))
            self._apply(scaler, "read-gradients", [name], node, path, frame)

    def _inside_clipper(self, frame: Frame) -> bool:
        here: Frame | None = frame
        while here is not None:
            if isinstance(here.scope.node, FUNCTIONS) and _CLIPPER.search(here.scope.node.name):
                return True
            here = here.caller
        return False

    def _readers(self, node: ast.AST, path: Path, frame: Frame) -> list[tuple[str, str]]:
        """Pairs of scaler and optimizer whose gradients an expression reads."""
        mentioned = self._mentioned(node, path, frame)
        here: Frame | None = frame
        while here is not None and here.call is not None and not mentioned & {*self.seen.owners.optimizers}:
            if here.caller is not None:  # `p.grad` in a helper that was handed the optimizer
                mentioned |= self._mentioned(here.call, path, here.caller)
            here = here.caller
        owners = self.seen.owners
        names = (
            [m for m in mentioned if m in owners.optimizers]
            or owners.of_models(sorted(mentioned), self._alive(frame))
            or []
        )
        return [(s, n) for n in names for s in self._partners(n)]

    def _mentioned(self, node: ast.AST, path: Path, frame: Frame) -> set[str]:
        inner = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
        return {name for n in inner if (name := identity(n, frame, path)) is not None}

    def _on_created(self, node: ast.Call, path: Path, frame: Frame) -> None:
        statement = self.program.module.parents[node]
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            name = identity(target, frame, path)
            if name is not None:
                path.scalers[name] = State(has_scale=True)
                path.marks["known", name] = node
                path.lost -= {name}

    def _jumped(self, statement: ast.stmt, path: Path) -> None:
        """Remember exits between unscale_ and update; the last statement of a function that only clips is none."""
        for scaler, state in path.scalers.items():
            if any(held.stage == "unscaled" for _, held in state.optimizers) and self._leaves(statement):
                path.marks.setdefault(("left", scaler), statement)

    def _leaves(self, statement: ast.stmt) -> bool:
        scope = self.program.module.scope_of(statement)
        later = [c for c in scope.calls if c.lineno > statement.lineno]
        return any(self.events.what(c, scope) in {"update", "scaler-step"} for c in later) or any(
            (f := self.events.callee(c, scope)) is not None and Trait.SCALER in self.events.of_function(f)
            for c in later
        )

    # -- what cannot be followed

    def _unknown(self, call: ast.Call, path: Path, frame: Frame) -> Path:
        """Code out of sight that is handed the scaler or an optimizer may do anything with them."""
        name = _last(call.func)
        if HARMLESS.search(name) or self.program.values.callee(call, frame.scope) is not None:
            return path
        if (self.program.canonical(call.func) or "").startswith("torch."):
            return path
        if (
            name in _OWN_METHODS
            and isinstance(call.func, ast.Attribute)
            and self.events.is_scaler(call.func.value, frame.scope)
        ):
            return path
        lost = self._handed(call, path, frame)
        keeper = self._keeper(call, path, frame)
        if keeper is not None:
            if not scheduler_name(keeper.rpartition(":")[2].rpartition(".")[2]):
                self.seen.kept.setdefault(keeper, set()).update(lost)
            return path
        if not lost - path.lost:
            return path
        path = path.fork()
        path.lost |= lost
        return path

    def _handed(self, call: ast.Call, path: Path, frame: Frame) -> set[str]:
        """Scalers and optimizers that a call can get at: its arguments, what they hold, and what its receiver keeps."""
        roles = {*self._scalers(), *self.seen.owners.optimizers}
        found = set()
        for given in [*call.args, *(k.value for k in call.keywords), call.func]:
            own = identity(given, frame, path)
            if own is not None:
                found |= {r for r in roles if r == own or (given is not call.func and r.startswith(own + "."))}
                found |= self.seen.kept.get(own, set())
        own = identity(call.func.value, frame, path) if isinstance(call.func, ast.Attribute) else None
        if own is not None:
            found |= self.seen.kept.get(own, set())
            if self._is_foreign_method(call, frame):
                found |= {r for r in roles if r.startswith(own + ".")}
        return found

    def _keeper(self, call: ast.Call, path: Path, frame: Frame) -> str | None:
        """The variable that keeps an object made of a scaler or an optimizer: only what is called of it can use them."""
        statement = self.program.module.parents[call]
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        own = place(statement.targets[0], frame, path)
        if own is None or not (
            scheduler_name(own.rpartition(":")[2].rpartition(".")[2]) or _last(call.func)[:1].isupper()
        ):
            return None
        return own

    def _lose_all(self, path: Path) -> None:
        path.lost |= {*self._scalers(), *self.seen.owners.optimizers}

    # -- the state machine

    def _follows(self, scaler: str, name: str, path: Path) -> bool:
        """Whether the state of this optimizer and its gradients is known on the path."""
        return not {scaler, name, "~" + name} & path.lost

    def _state(self, scaler: str, path: Path) -> State:
        return path.scalers.get(scaler) or State(has_scale=True)

    def _hold(self, scaler: str, name: str, held: OptimizerState, path: Path) -> None:
        path.scalers[scaler] = self._state(scaler, path).with_optimizer(name, held)

    def _strip(self, name: str, path: Path) -> None:
        """Gradients that were stepped with are cleared somewhere before the next backward, in sight or not."""
        for scaler in self._partners(name):
            held = self._state(scaler, path).of(name)
            if "used" in held.gradients:
                self._hold(scaler, name, held._replace(gradients=held.gradients - {"used"}), path)

    def _forget(self, path: Path, *marks: tuple[str, ...]) -> None:
        for mark in marks:
            path.marks.pop(mark, None)

    def _apply(self, scaler: str, kind: Kind, names: list[str], node: ast.AST, path: Path, frame: Frame) -> None:
        usable = tuple(n for n in names if n not in path.lost and "~" + n not in path.lost)
        if scaler in path.lost:
            return
        for name in names:
            if "~" + name in path.lost and name not in path.lost:
                self._advance_stage(scaler, kind, name, node, path, frame)
        if names and not usable:
            return
        self.nodes.append(node)
        before = self._state(scaler, path)
        after, violations = advance(before, Event(kind, usable, len(self.nodes) - 1))
        if kind == "update" and any(held.checked for _, held in before.optimizers):
            self._due.add(node)
        path.scalers[scaler] = after
        for violation in violations:
            self.violated(violation, scaler, kind, before, node, path, frame)

    def _advance_stage(self, scaler: str, kind: Kind, name: str, node: ast.AST, path: Path, frame: Frame) -> None:
        """What can be told of an optimizer without knowing its gradients: that it is stepped again before an update."""
        stages: dict[Kind, Stage] = {"unscale": "unscaled", "scaler-step": "stepped"}
        if kind not in stages:
            return
        before = self._state(scaler, path)
        if before.of(name).stage == "stepped":
            self.violated(Violation("missing-scaler-update", name), scaler, kind, before, node, path, frame)
        self._hold(scaler, name, OptimizerState(stages[kind], checked=True), path)


def events_of(program: Program) -> Events:
    """The events of a program, computed once and kept with it, so that they go when it goes."""
    held = vars(program)
    if "_events" not in held:
        held["_events"] = Events(program)
    found = held["_events"]
    assert isinstance(found, Events)
    return found


def mistakes(program: Program) -> list[Mistake]:
    """The broken rules of the scaler's protocol in a program, computed once and kept with it."""
    held = vars(program)
    if "_mistakes" not in held:
        uses = "caler" in program.module.text
        held["_mistakes"] = Protocol(program, events_of(program)).run() if uses else []
    return list(held["_mistakes"])


def _last(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


__all__ = ["Mistake", "events_of", "mistakes"]
