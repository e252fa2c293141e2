"""What a violation of the protocol is told as: the node to blame, the rule, and what it conflicts with."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import NamedTuple

from amp_migrate.model.elsewhere import Elsewhere
from amp_migrate.model.owners import Owners
from amp_migrate.model.paths import Frame, Path
from amp_migrate.model.syntax import Function
from amp_migrate.protocol import Kind, State, Violation


class Mistake(NamedTuple):
    """A broken rule at a node, and the places that it conflicts with."""

    rule: str
    node: ast.expr | ast.stmt
    related: tuple[tuple[ast.expr | ast.stmt, str], ...] = ()
    scaler: ast.expr | None = None
    """The scaler as written where it last scaled or stepped."""
    optimizers: int = 1
    """How many optimizers the analysis has seen."""
    updates: bool = False
    """Whether the scaler is updated anywhere in sight."""
    optimizer: str = ""
    """The identity of the optimizer that lacks gradients."""
    owner: ast.expr | None = None
    """The optimizer that it is about, as first written."""


@dataclass(eq=False)
class Seen:
    """What one run over a scope has collected."""

    owners: Owners
    pairs: dict[str, set[str]] = field(default_factory=dict)
    """Optimizers that each scaler steps or unscales."""
    exprs: dict[str, ast.expr] = field(default_factory=dict)
    backwards: set[ast.AST] = field(default_factory=set)
    steps: dict[str, set[ast.AST]] = field(default_factory=dict)
    updates: dict[str, dict[ast.AST, tuple[ast.AST, ...]]] = field(default_factory=dict)
    """`update()` calls of each scaler with the loops around them."""
    given: Function | None = None
    """The function that gets its gradients from callers: no backward is in sight."""
    kept: dict[str, set[str]] = field(default_factory=dict)
    """Scalers and optimizers that were handed to the constructor of what a variable holds."""


class Blame:
    """Collects the mistakes of one program; each broken rule of the protocol has a method that finds the node to blame."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, ast.AST], Mistake] = {}
        self.double: set[ast.AST] = set()
        self.early: set[ast.AST] = set()
        self.pending: set[ast.AST] = set()
        self.nodes: list[ast.AST] = []
        self.loops: dict[ast.AST, tuple[ast.AST, ...]] = {}
        self.seen: Seen
        self.elsewhere: Elsewhere

    def violated(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        handler = getattr(self, "_broke_" + found.rule.replace("-", "_"), None)
        if handler is None:
            path.lost |= {found.optimizer or scaler}
            return
        handler(found, scaler, kind, before, node, path, frame)

    def report(
        self,
        rule: str,
        blamed: ast.AST | None,
        cause: ast.AST | None,
        words: str,
        path: Path,
        frame: Frame,
        optimizer: str = "",
        owner: str | None = None,
    ) -> None:
        if blamed is None or (rule, blamed) in self.found:
            return
        assert isinstance(blamed, (ast.expr, ast.stmt))
        related = ((cause, words),) if isinstance(cause, (ast.expr, ast.stmt)) and cause is not blamed else ()
        exprs = list(self.seen.exprs.values())
        self.found[rule, blamed] = Mistake(
            rule,
            blamed,
            related,
            exprs[0] if len(exprs) == 1 else None,
            len(self.seen.owners.optimizers),
            bool(self.seen.updates),
            optimizer,
            self.seen.owners.optimizers.get(owner or "", (None, None))[0],
        )

    def _broke_bare_optimizer_step(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        name = found.optimizer or ""
        self.report(found.rule, node, path.marks.get(("scaled", name)), "scaled here", path, frame)
        path.marks["bare", name] = node
        path.lost |= {"~" + name}

    _broke_bare_step_after_unscale = _broke_bare_optimizer_step

    def _broke_double_optimizer_step(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        if kind == "bare-step":
            self.double.add(node)
            self.report(
                found.rule,
                node,
                path.marks.get(("step", scaler, found.optimizer or "")),
                "the scaler steps here",
                path,
                frame,
            )
        path.lost |= {"~" + (found.optimizer or "")}

    def _broke_clip_without_unscale(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        if self.seen.given is not None and self.elsewhere.may_unscale(self.seen.given):
            return
        self.report(
            found.rule,
            self.nodes[found.where],
            path.marks.get(("scaled", found.optimizer or "")),
            "scaled here",
            path,
            frame,
            owner=found.optimizer,
        )

    def _broke_unscale_after_clip(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        self.report(found.rule, node, self.nodes[found.where], "clipped here", path, frame)

    def _broke_double_unscale(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        first = path.marks.get(("unscale", scaler, found.optimizer or ""))
        self.report(found.rule, node, first, "unscaled here", path, frame)

    def _broke_grad_read_before_unscale(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        cause = path.marks.get(("scaled", found.optimizer or ""))
        self.report(found.rule, node, cause, "scaled here", path, frame, owner=found.optimizer)

    def _broke_missing_scaler_update(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        name = found.optimizer or ""
        step = path.marks.get(("step", scaler, name))
        rule = "n-critic-steps-one-update" if self._is_inner(step, scaler) else found.rule
        self.report(rule, step, node, "called again here", path, frame)
        path.lost |= {name}

    def _is_inner(self, step: ast.AST | None, scaler: str) -> bool:
        """Whether the update stands in a loop around the one that steps, but not in that one."""
        loops = self.loops.get(step, ()) if step is not None else ()
        updates = self.seen.updates.get(scaler, {})
        return bool(loops) and any(
            around and around == loops[: len(around)] and len(around) < len(loops) for around in updates.values()
        )

    def _broke_update_not_on_every_path(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        unscaled = path.marks.get(("unscale", scaler, found.optimizer or ""))
        left = path.marks.get(("left", scaler))
        if left is not None:
            self.report("nan-guard-skips-update", left, unscaled, "unscaled here", path, frame)
        else:
            updates = self.seen.updates.get(scaler, {})
            shared = [
                u
                for u, loops in updates.items()
                if loops == frame.loops[: len(loops)] or loops[: len(frame.loops)] == frame.loops
            ]
            if shared and kind == "unscale":
                self.report(found.rule, shared[-1], unscaled, "unscaled here", path, frame)
        path.lost |= {found.optimizer or ""}

    def _broke_unscale_each_micro_batch(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        name = found.optimizer or ""
        unscaled = path.marks.get(("unscale", scaler, name))
        self.report(
            found.rule, unscaled, path.marks.get(("scaled", name)), "more gradients are added here", path, frame
        )
        path.lost |= {name}

    def _broke_partially_scaled_losses(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        name = found.optimizer or ""
        plain = self.loops.get(path.marks.get(("plain", name), node), frame.loops)
        is_before = len(plain) < len(frame.loops) and plain == frame.loops[: len(plain)]
        if "plain" in before.of(name).gradients and not is_before:
            cause = path.marks.get(("scaled", name)) if found.rule == "partially-scaled-losses" else node
            words = "scaled here" if found.rule == "partially-scaled-losses" else "the scaler is used here"
            self.report(found.rule, path.marks.get(("plain", name)), cause, words, path, frame)
        path.lost |= {"~" + name}

    _broke_unscaled_backward_with_scaler_step = _broke_partially_scaled_losses

    def _broke_update_between_optimizers(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        self.report(
            found.rule,
            path.marks.get(("update", scaler)),
            node,
            "the gradients of the old scale are used here",
            path,
            frame,
        )
        path.lost |= {"~" + (found.optimizer or "")}

    _broke_update_while_accumulating = _broke_update_between_optimizers

    def _broke_double_or_stray_update(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        if kind != "update":
            self.report(
                found.rule,
                path.marks.get(("update", scaler)),
                node,
                "the gradients are divided again here",
                path,
                frame,
            )
            path.lost |= {scaler}
            return
        is_known = ("known", scaler) in path.marks or (frame.loops and self.seen.given is None)
        is_idle = all(held.stage == "ready" for _, held in before.optimizers)
        self.pending |= {node} if any(held.gradients & {"scaled", "stale"} for _, held in before.optimizers) else set()
        if (
            is_known
            and is_idle
            and self.seen.steps.get(scaler)
            and not any(n in path.lost for n in self.seen.owners.optimizers)
        ):
            self.early.add(node)
            self.report(found.rule, node, path.marks.get(("update", scaler)), "updated here", path, frame)
        path.lost |= {scaler}

    def _broke_optimizer_without_grads(
        self, found: Violation, scaler: str, kind: Kind, before: State, node: ast.AST, path: Path, frame: Frame
    ) -> None:
        name = found.optimizer or ""
        several = len(self.seen.owners.optimizers) > 1
        fed_here = any(mark[0] == "scaled" for mark in path.marks)
        if several and frame.loops and fed_here and not path.lost:
            self.report(found.rule, node, None, "", path, frame, name)
        path.lost |= {"~" + name}
