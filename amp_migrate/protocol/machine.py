"""The protocol of `torch.amp.GradScaler` as a state machine over the events of a training step.

Written once and used twice: statically, over the paths of a program (states are hashable, so that
sets of them can be joined), and at run time, over what happens. One `State` follows one scaler. The
rules are read from torch 2.13's `torch/amp/grad_scaler.py`: stages READY -> UNSCALED -> STEPPED per
optimizer, wiped by `update()`; a scale that exists only once `scale()` was called; inf checks that
`step()` and `update()` want recorded. What torch does not notice follows from what the gradients
hold. Violations bear the names of the lint rules and are reported where bad gradients are used, not
where they are made: a generator's loss may leave scaled gradients in the critic if they are
cleared.
"""

from __future__ import annotations

from typing import Literal

from amp_migrate.model.steps.events import EventKind
from amp_migrate.records import NamedTuple

Stage = Literal["ready", "unscaled", "stepped"]
Gradient = Literal["scaled", "stale", "plain", "unscaled", "used"]
"""What gradients hold: scaled by the current or an earlier (`stale`) scale, never scaled,
unscaled, stepped with.
"""

PER_OPTIMIZER = (
    EventKind.BACKWARD
    | EventKind.UNSCALE
    | EventKind.READS_GRADIENTS
    | EventKind.STEP
    | EventKind.ZERO_GRAD
    | EventKind.OPTIMIZER_CREATED
)
"""Events that are about the gradients of some optimizers, not about the scaler alone."""


class Event(NamedTuple):
    """Something that happens in a training step."""

    kind: EventKind
    optimizers: tuple[str, ...] = ()
    """Whose gradients are made, read, clipped, unscaled, used or cleared."""
    where: int = 0
    """The caller's mark, such as a line; violations carry it."""


class Violation(NamedTuple):
    """A broken rule, the optimizer concerned (if one is), and the mark of the event to blame."""

    rule: str
    optimizer: str | None = None
    where: int = 0


class OptimizerState(NamedTuple):
    """One optimizer, as the scaler sees it, and what its gradients hold."""

    stage: Stage = "ready"
    gradients: frozenset[Gradient] = frozenset()
    checked: bool = False
    """Whether inf checks were recorded since the last update."""
    clipped: int | None = None
    """Where scaled gradients were clipped."""


class State(NamedTuple):
    """One scaler and all optimizers it may meet; the default is a scaler that was just created."""

    optimizers: frozenset[tuple[str, OptimizerState]] = frozenset()
    has_scale: bool = False
    """Whether `scale()` was called: it sets the scale up."""
    updates: int = 0
    """Updates since the scaler was created: 0, 1 or (several) 2."""
    optimizer_is_new: bool = False
    """Whether an optimizer was built since the last `scale()`."""
    regions: int = 0
    """Autocast regions that are open."""
    stepped_in_region: bool = False

    def of(self, name: str) -> OptimizerState:
        """The state of one optimizer; one not met yet is ready and has no gradients."""
        return dict(self.optimizers).get(name, OptimizerState())

    def with_optimizer(self, name: str, optimizer: OptimizerState) -> State:
        """The state with that optimizer's replaced."""
        others = {pair for pair in self.optimizers if pair[0] != name}
        return self._replace(optimizers=frozenset(others | {(name, optimizer)}))


Outcome = tuple[State, "tuple[Violation, ...]"]


def advance(state: State, event: Event) -> Outcome:
    """The state after `event`, and the rules that it breaks; after one that raises in torch the
    state is a guess.
    """
    if not event.kind & PER_OPTIMIZER:
        after, rules = _scaler(state, event)
        return after, tuple(rules)
    found: list[Violation] = []
    for name in event.optimizers or ("",):
        state, rules = _one(state, event, name)
        found += rules
    return state, tuple(dict.fromkeys(found))


def at_end(state: State, where: int = 0) -> tuple[Violation, ...]:
    """What is missing where an iteration ends (of accumulation: a boundary iteration) or the
    scaler is given up.
    """
    rules: dict[Stage, str] = {
        "stepped": "missing-scaler-update",
        "unscaled": "update-not-on-every-path",
    }
    pairs = sorted(state.optimizers, key=lambda pair: pair[0])
    return tuple(
        Violation(rules[held.stage], name, where)
        for name, held in pairs
        if held.stage in rules
    )


def _one(
    state: State, event: Event, name: str
) -> tuple[State, list[Violation]]:
    if event.kind & EventKind.BACKWARD:
        return _backward(state, event, name)
    if event.kind & EventKind.STEP:
        return _step(state, event, name)
    if event.kind is EventKind.OPTIMIZER_CREATED:
        return state.with_optimizer(name, OptimizerState())._replace(
            optimizer_is_new=True
        ), []
    return _gradients(state, event, name)


def _backward(
    state: State, event: Event, name: str
) -> tuple[State, list[Violation]]:
    found = (
        [Violation("backward-inside-autocast", None, event.where)]
        if state.regions
        else []
    )
    is_scaled = event.kind is EventKind.SCALED_BACKWARD
    if is_scaled:
        state = state._replace(has_scale=True, optimizer_is_new=False)
    if not name:
        return state, found
    held = state.of(name)
    new: frozenset[Gradient] = frozenset({"scaled" if is_scaled else "plain"})
    return state.with_optimizer(
        name, held._replace(gradients=held.gradients | new)
    ), found


def _step(
    state: State, event: Event, name: str
) -> tuple[State, list[Violation]]:
    held = state.of(name)
    is_bare = event.kind is EventKind.BARE_STEP
    rules = (
        _bare_step_rules(held) if is_bare else _scaler_step_rules(state, held)
    )
    found = [Violation(rule, name, event.where) for rule in rules]
    if (
        held.clipped is not None
        and held.gradients & {"scaled", "stale"}
        and held.stage == "ready"
    ):
        found.append(Violation("clip-without-unscale", name, held.clipped))
    if state.regions:
        found.append(Violation("step-inside-autocast", name, event.where))
        state = state._replace(stepped_in_region=True)
    if not is_bare:
        used: frozenset[Gradient] = frozenset(
            {"used"} if held.gradients else set()
        )
        held = held._replace(
            stage="stepped", gradients=used, checked=True, clipped=None
        )
    else:
        held = held._replace(clipped=None)
    return state.with_optimizer(name, held), found


def _bare_step_rules(held: OptimizerState) -> list[str]:
    if held.gradients & {"scaled", "stale"}:
        return ["bare-optimizer-step"]
    if "unscaled" in held.gradients:
        return ["bare-step-after-unscale"]
    return ["double-optimizer-step"] if "used" in held.gradients else []


def _scaler_step_rules(state: State, held: OptimizerState) -> list[str]:
    if not state.has_scale:
        return ["unscaled-backward-with-scaler-step"]
    if held.stage == "stepped":
        return [
            "missing-scaler-update"
            if held.gradients - {"used"}
            else "double-optimizer-step"
        ]
    if not (held.gradients if held.stage == "ready" else held.checked):
        return ["optimizer-without-grads"]
    if held.stage == "ready":
        return _division_rules(held.gradients)
    if held.gradients & {"scaled", "stale"}:
        return [
            "unscale-each-micro-batch"
            if "unscaled" in held.gradients
            else "update-not-on-every-path"
        ]
    return []


def _division_rules(gradients: frozenset[Gradient]) -> list[str]:
    """What is wrong with dividing these gradients by the current scale: only `scaled`
    ones may be.
    """
    if "plain" in gradients:
        return [
            "partially-scaled-losses"
            if len(gradients) > 1
            else "unscaled-backward-with-scaler-step"
        ]
    if "stale" in gradients:
        return [
            "update-while-accumulating"
            if "scaled" in gradients
            else "update-between-optimizers"
        ]
    if "unscaled" in gradients:
        return [
            "unscale-each-micro-batch"
            if "scaled" in gradients
            else "double-or-stray-update"
        ]
    if "used" in gradients:
        return [
            "partially-scaled-losses"
            if "scaled" in gradients
            else "double-optimizer-step"
        ]
    return []


def _gradients(
    state: State, event: Event, name: str
) -> tuple[State, list[Violation]]:
    held = state.of(name)
    is_scaled = bool(held.gradients & {"scaled", "stale"})
    if event.kind is EventKind.ZERO_GRAD:
        return state.with_optimizer(
            name, held._replace(gradients=frozenset(), clipped=None)
        ), []
    if event.kind is EventKind.CLIP:
        clipped = (
            event.where if is_scaled and held.clipped is None else held.clipped
        )
        return state.with_optimizer(name, held._replace(clipped=clipped)), []
    if event.kind is EventKind.READ:
        return state, [
            Violation("grad-read-before-unscale", name, event.where)
        ] if is_scaled else []
    found = [
        Violation(rule, name, event.where)
        for rule in _unscale_rules(state, held)
    ]
    if held.clipped is not None:
        found.append(Violation("unscale-after-clip", name, held.clipped))
    divided: frozenset[Gradient] = frozenset(
        {"unscaled"} if held.gradients else set()
    )
    held = OptimizerState(
        "unscaled", divided, held.checked or bool(held.gradients)
    )
    return state.with_optimizer(name, held), found


def _unscale_rules(state: State, held: OptimizerState) -> list[str]:
    if not state.has_scale:
        return ["unscaled-backward-with-scaler-step"]
    if held.stage == "stepped":
        return ["missing-scaler-update"]
    if held.stage == "unscaled":
        if not held.gradients & {"scaled", "stale"}:
            return ["double-unscale"]
        return [
            "unscale-each-micro-batch"
            if "unscaled" in held.gradients
            else "update-not-on-every-path"
        ]
    return _division_rules(held.gradients)


def _scaler(state: State, event: Event) -> tuple[State, list[Violation]]:
    if event.kind is EventKind.UPDATE:
        is_due = state.has_scale and any(
            held.checked for _, held in state.optimizers
        )
        found = [] if is_due else _stray_rules(state, event)
        return _wiped(state)._replace(updates=min(state.updates + 1, 2)), found
    if (
        event.kind is EventKind.SET_SCALE
    ):  # `update(new_scale)` needs no inf checks
        return _wiped(state), []
    if event.kind is EventKind.SCALER_CREATED:
        return _created(state, event)
    if event.kind is EventKind.FORWARD:
        is_late = bool(state.regions) and state.stepped_in_region
        return state, [
            Violation("loop-inside-autocast", None, event.where)
        ] if is_late else []
    regions = max(
        state.regions + (1 if event.kind is EventKind.AUTOCAST_ENTER else -1), 0
    )
    return state._replace(
        regions=regions,
        stepped_in_region=state.stepped_in_region and regions > 0,
    ), []


def _stray_rules(state: State, event: Event) -> list[Violation]:
    """An update before the step, and what was clipped before it: that is not followed further."""
    clipped = [
        Violation("clip-without-unscale", name, held.clipped)
        for name, held in sorted(state.optimizers, key=lambda pair: pair[0])
        if held.clipped is not None
        and held.gradients & {"scaled", "stale"}
        and held.stage == "ready"
    ]
    return [Violation("double-or-stray-update", None, event.where), *clipped]


def _created(state: State, event: Event) -> tuple[State, list[Violation]]:
    """A second scaler forgets what the first learnt, unless an optimizer was built anew with it."""
    rule = "scaler-created-per-epoch" if state.updates > 1 else "scaler-in-loop"
    is_repeated = state.has_scale and not state.optimizer_is_new
    fresh = _wiped(state)._replace(has_scale=False, updates=0)
    return fresh, [Violation(rule, None, event.where)] if is_repeated else []


def _wiped(state: State) -> State:
    """Every stage back to ready; gradients that are still scaled belong to a scale that may be
    gone.
    """
    wiped = {(name, _aged(held)) for name, held in state.optimizers}
    return state._replace(optimizers=frozenset(wiped))


def _aged(held: OptimizerState) -> OptimizerState:
    stale: frozenset[Gradient] = frozenset({"stale"})
    gradients = (
        (held.gradients - {"scaled"}) | stale
        if "scaled" in held.gradients
        else held.gradients
    )
    return held._replace(stage="ready", gradients=gradients, checked=False)
