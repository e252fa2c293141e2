"""What a violation of the protocol is told as: the node to blame, the rule, and what it conflicts
with.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.model.steps.events import EventKind
from amp_migrate.patterns import pattern
from amp_migrate.protocol import messages
from amp_migrate.protocol.broken import Broken, Mistake
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.loops import is_same_each_turn
from amp_migrate.protocol.other_files import Elsewhere
from amp_migrate.protocol.participants import Participants
from amp_migrate.protocol.paths import Path, Witnesses
from amp_migrate.protocol.reads import Reads
from amp_migrate.protocol.surroundings import follow_at_once

Key = tuple[str, ast.AST]
_TURN = pattern(r"\[\d\](?::|$)")


class Diagnostics:
    """Collects the mistakes of one program."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self.elsewhere = elsewhere
        self.participants: Participants
        self.found: dict[Key, Mistake] = {}
        self.unsure: dict[Key, Mistake] = {}
        """Mistakes on paths that may not happen."""
        self.good: set[Key] = set()
        """What some path shows to be right."""
        self.reads = Reads()
        self.repeated: set[Key] = set()
        """What no other path can show to be right."""
        self.double: set[ast.AST] = set()
        """Bare steps beside one of the scaler."""
        self.early: set[ast.AST] = set()
        """Updates without a step before them on some path."""
        self.pending: set[ast.AST] = set()
        """Early updates while gradients wait for a step."""
        self.only: frozenset[str] | None = None
        """The rules that count at the moment; None for all."""
        self.loops: dict[ast.AST, tuple[ast.AST, ...]] = {}
        """The loops around each event."""

    def violated(self, broken: Broken) -> None:
        """Tell a violation; one that no rule tells ends what is known of its subject."""
        tell = TELL.get(broken.rule)
        if tell is None:
            broken.lose(broken.violation.optimizer or broken.scaler)
        else:
            tell(self, broken)

    def report(
        self,
        rule: str,
        blamed: Witnesses,
        path: Path,
        cause: Witnesses = (),
        words: str = "",
        optimizer: str = "",
        owner: str = "",
    ) -> None:
        """Remember a mistake at each of the blamed nodes."""
        if self.only is not None and rule not in self.only:
            return
        found = self.found if path.sure else self.unsure
        for node in blamed:
            if (rule, node) not in found:
                assert isinstance(node, (ast.expr, ast.stmt))
                mistake = self._mistake(
                    rule, node, cause[0] if cause else None, words
                )
                holder = self.participants.owners.optimizers.get(
                    owner, (None, None)
                )[0]
                found[rule, node] = mistake._replace(
                    optimizer=optimizer, owner=holder
                )

    def _mistake(
        self,
        rule: str,
        node: ast.expr | ast.stmt,
        cause: ast.AST | None,
        words: str,
    ) -> Mistake:
        is_place = isinstance(cause, (ast.expr, ast.stmt)) and cause is not node
        related = ((cause, words),) if is_place else ()
        exprs = list(self.participants.exprs.values())
        return Mistake(
            rule,
            node,
            related,  # type: ignore[arg-type]
            exprs[0] if len(exprs) == 1 else None,
            len(self.participants.owners.optimizers),
            tuple(n for ns in self.participants.updates.values() for n in ns),
        )

    def stepped_twice(self, bare: Witnesses, here: Here) -> None:
        """The scaler steps what was stepped past it."""
        self.double.update(bare)
        rule = "double-optimizer-step"
        self.report(rule, bare, here.path, (here.node,), messages.STEPPED)

    def credit_plain_step(self, step: ast.AST, backwards: Witnesses) -> None:
        """A plain step on plain gradients is right, and so is their backward."""
        steps = (
            "bare-optimizer-step",
            "bare-step-after-unscale",
            "double-optimizer-step",
        )
        losses = (
            "partially-scaled-losses",
            "unscaled-backward-with-scaler-step",
        )
        self.good |= {(rule, step) for rule in steps}
        self.good |= {
            (rule, backward) for backward in backwards for rule in losses
        }

    def credit_scaled(self, node: ast.AST) -> None:
        """Unscaling or stepping with gradients that a backward has just made is right."""
        self.good.add(("double-optimizer-step", node))

    def goes_round(self, here: Here) -> bool:
        """Whether a loop stands around this without a backward in it, and each turn has the same
        optimizer: from the second on, there are no new gradients.
        """
        inner = here.frame.loops[-1:]
        backwards = self.participants.backwards
        return (
            bool(inner)
            and not any(
                inner[0] in self.loops.get(one, inner) for one in backwards
            )
            and is_same_each_turn(inner[0], here.node)
        )

    def credit_reader(self, node: ast.AST) -> None:
        """Clipping after unscaling is right."""
        self.good.add(("clip-without-unscale", node))

    def credit_read(self, here: Here) -> None:
        """Reading after unscaling is right."""
        self.good.add(("grad-read-before-unscale", here.node))
        self.reads.credit(here)

    def is_inner(self, steps: Witnesses, scaler: str) -> bool:
        """Whether the update stands in a loop around the one that steps, but not in that one."""
        loops = self.loops.get(steps[0], ()) if steps else ()
        updates = self.participants.updates.get(scaler, {})
        return bool(loops) and any(
            around
            and around == loops[: len(around)]
            and len(around) < len(loops)
            for around in updates.values()
        )


def _bare_step(told: Diagnostics, broken: Broken) -> None:
    node = broken.here.node
    told.report(
        broken.rule,
        (node,),
        broken.path,
        broken.where("scaled"),
        messages.SCALED,
    )
    broken.path.mark(("bare", broken.name), node)
    broken.lose("~" + broken.name)


def _double_step(told: Diagnostics, broken: Broken) -> None:
    node = broken.here.node
    if broken.kind is EventKind.BARE_STEP:
        told.double.add(node)
    elif told.goes_round(broken.here):
        told.repeated.add((broken.rule, node))
    told.report(
        broken.rule,
        (node,),
        broken.path,
        broken.where("step"),
        messages.STEPPED,
        optimizer="" if broken.kind is EventKind.BARE_STEP else broken.name,
    )
    broken.lose("~" + broken.name)


def _is_given_unscaled(told: Diagnostics) -> bool:
    """Whether the gradients come from a caller in another file that may have unscaled them."""
    given = told.participants.given
    return given is not None and told.elsewhere.may_unscale(given)


def _clip(told: Diagnostics, broken: Broken) -> None:
    if _is_given_unscaled(told):
        return
    clips, scaled = broken.where("clip"), broken.where("scaled")
    told.report(
        broken.rule,
        clips,
        broken.path,
        scaled,
        messages.SCALED,
        owner=broken.name,
    )
    told.report(
        broken.rule,
        broken.where("clip again"),
        broken.path,
        clips,
        messages.CLIPPED,
        owner=broken.name,
    )


def _unscale_after_clip(told: Diagnostics, broken: Broken) -> None:
    node = broken.here.node
    told.report(
        broken.rule,
        (node,),
        broken.path,
        broken.where("clip"),
        messages.CLIPPED,
    )


def _double_unscale(told: Diagnostics, broken: Broken) -> None:
    node = broken.here.node
    told.report(
        broken.rule,
        (node,),
        broken.path,
        broken.where("unscale"),
        messages.UNSCALED,
    )


def _read(told: Diagnostics, broken: Broken) -> None:
    if _is_given_unscaled(told):
        return
    node, scaled = broken.here.node, broken.where("scaled")
    told.report(
        broken.rule,
        (node,),
        broken.path,
        scaled,
        messages.SCALED,
        owner=broken.name,
    )
    mistake = told.found.get((broken.rule, node))
    if mistake is not None and broken.path.sure:
        told.reads.met(broken.here, mistake)


def _missing_update(told: Diagnostics, broken: Broken) -> None:
    steps = broken.where("step")
    inner = told.is_inner(steps, broken.scaler)
    rule = "n-critic-steps-one-update" if inner else broken.rule
    told.report(
        rule, steps, broken.path, (broken.here.node,), messages.CALLED_AGAIN
    )
    broken.lose(broken.name)


def _update_not_on_every_path(told: Diagnostics, broken: Broken) -> None:
    unscaled, left = broken.where("unscale"), broken.where("left")
    if left:
        rule = "nan-guard-skips-update"
        told.report(rule, left, broken.path, unscaled, messages.UNSCALED)
    elif broken.kind is EventKind.UNSCALE:
        updates = told.participants.updates.get(broken.scaler, {})
        around = broken.here.frame.loops
        shared = [
            update
            for update, loops in updates.items()
            if not loops or not around or loops[0] is around[0]
        ]
        told.report(
            broken.rule,
            tuple(shared[-1:]),
            broken.path,
            unscaled,
            messages.UNSCALED,
        )
    broken.lose(broken.name)


def _unscale_each_micro_batch(told: Diagnostics, broken: Broken) -> None:
    unscaled, scaled = broken.where("unscale"), broken.where("scaled")
    told.report(
        broken.rule, unscaled, broken.path, scaled, messages.MORE_GRADIENTS
    )
    broken.lose(broken.name)


def _plain_loss(told: Diagnostics, broken: Broken) -> None:
    plain, around = broken.where("plain"), broken.here.frame.loops
    loops = told.loops.get(plain[0] if plain else broken.here.node, around)
    is_before = len(loops) < len(around) and loops == around[: len(loops)]
    if "plain" in broken.before.of(broken.name).gradients and not is_before:
        partial = broken.rule == "partially-scaled-losses"
        cause = broken.where("scaled") if partial else (broken.here.node,)
        words = messages.SCALED if partial else messages.USED
        told.report(broken.rule, plain, broken.path, cause, words)
    broken.lose("~" + broken.name)


def _update_between(told: Diagnostics, broken: Broken) -> None:
    updates, node = broken.where("update"), broken.here.node
    if not _is_given_unscaled(told):
        told.report(
            broken.rule, updates, broken.path, (node,), messages.OLD_SCALE
        )
    broken.lose("~" + broken.name)


def _stray_update(told: Diagnostics, broken: Broken) -> None:
    updates, node = broken.where("update"), broken.here.node
    if broken.kind is not EventKind.UPDATE:
        told.report(
            broken.rule, updates, broken.path, (node,), messages.DIVIDED_AGAIN
        )
    elif _is_stray(told, broken):
        told.early.add(node)
        told.report(
            broken.rule, (node,), broken.path, updates, messages.UPDATED
        )
    waits = (
        held.gradients & {"scaled", "stale"}
        for _, held in broken.before.optimizers
    )
    if broken.kind is EventKind.UPDATE and any(waits):
        told.pending.add(node)
    broken.lose(broken.scaler)


def _is_stray(told: Diagnostics, broken: Broken) -> bool:
    seen, path = told.participants, broken.path
    in_loop = bool(broken.here.frame.loops) and seen.given is None
    is_known = ("known", broken.scaler) in path.marks or in_loop
    is_idle = all(held.stage == "ready" for _, held in broken.before.optimizers)
    # an optimizer that was stepped past the scaler has left nothing to update for
    is_lost = any(
        name in path.lost or ("bare", name) in path.marks
        for name in seen.owners.optimizers
    )
    return (
        is_known
        and is_idle
        and bool(seen.steps.get(broken.scaler))
        and not is_lost
    )


def _no_gradients(told: Diagnostics, broken: Broken) -> None:
    path, node = broken.path, broken.here.node
    several = len(told.participants.owners.optimizers) > 1
    fed_here = any(mark[0] == "scaled" for mark in path.marks)
    cleared = broken.where("cleared")
    # of those that a loop goes through nobody can tell which one gets gradients
    one_of_many = _TURN.search(broken.name) is not None
    if one_of_many:
        broken.lose("~" + broken.name)
        return
    if follow_at_once(told.participants.program, cleared, node):
        told.report(broken.rule, (node,), path, cleared, messages.CLEARED)
    if several and broken.here.frame.loops and fed_here and not path.lost:
        told.report(broken.rule, (node,), path, optimizer=broken.name)
    broken.lose("~" + broken.name)


TELL: dict[str, Callable[[Diagnostics, Broken], None]] = {
    "bare-optimizer-step": _bare_step,
    "bare-step-after-unscale": _bare_step,
    "double-optimizer-step": _double_step,
    "clip-without-unscale": _clip,
    "unscale-after-clip": _unscale_after_clip,
    "double-unscale": _double_unscale,
    "grad-read-before-unscale": _read,
    "missing-scaler-update": _missing_update,
    "update-not-on-every-path": _update_not_on_every_path,
    "unscale-each-micro-batch": _unscale_each_micro_batch,
    "partially-scaled-losses": _plain_loss,
    "unscaled-backward-with-scaler-step": _plain_loss,
    "update-between-optimizers": _update_between,
    "update-while-accumulating": _update_between,
    "double-or-stray-update": _stray_update,
    "optimizer-without-grads": _no_gradients,
}
"""How each broken rule of the machine is told; a rule that is not here is not told."""
