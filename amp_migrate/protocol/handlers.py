"""What each event does to a path: one function for each kind."""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, shallow
from amp_migrate.patterns import pattern
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.frames import Frame, identity
from amp_migrate.protocol.machine import State
from amp_migrate.protocol.participants import optimizer_of
from amp_migrate.protocol.paths import Val, joined
from amp_migrate.protocol.readers import readers
from amp_migrate.protocol.tracking import Tracker

_CLIPPER = pattern(r"(?i)clip")
Handler = Callable[[Tracker, Here], None]


def handle(kind: EventKind, tracker: Tracker, here: Here) -> None:
    """Follow one event on one path."""
    handler = HANDLERS.get(kind)
    if handler is not None:
        handler(tracker, here)


def on_backward(tracker: Tracker, here: Here) -> None:
    """Gradients are made for the optimizers whose models the loss was computed with."""
    path, participants = here.path, tracker.participants
    value = _loss(tracker, here)
    if value is None or value.scaled == "?" or _is_given(tracker, here):
        tracker.lose_all(path)
        return
    among = [
        name
        for name in participants.alive(here.frame)
        if value.scaled is None or value.scaled in participants.partners(name)
    ]
    models = (
        frozenset[str]() if value.vague and not value.models else value.models
    )
    only = len(participants.backwards) == 1
    fed = participants.owners.fed(models, among, only_backward=only)
    if value.scaled is not None:
        own = participants.sole_scaled(value.scaled)
        if fed is not None and own.isdisjoint(fed):
            fed = [*fed, *(name for name in among if name in own)]
        path.amp = True
        _strange(tracker, value.scaled, models, here)
    if fed is None:
        path.lost |= {"~" + name for name in among}
        return
    for name in fed:
        tracker.strip(name, path)
        path.forget(("bare", name))
    if value.scaled is None:
        _plain(tracker, fed, here)
    else:
        _scaled(tracker, value.scaled, fed, here)


def _is_given(tracker: Tracker, here: Here) -> bool:
    """Whether the loss is what a caller in another file gives: `self._backward(loss)` of an heir,
    who may have scaled it.
    """
    node, frame = here.node, here.frame
    func = node.func if isinstance(node, ast.Call) else None
    loss = func.value if isinstance(func, ast.Attribute) else None
    function = frame.scope.node
    if frame.caller is not None or not isinstance(function, FUNCTIONS):
        return False
    names = {one.arg for one in frame.scope.parameters()}
    if not isinstance(loss, ast.Name) or loss.id not in names:
        return False
    bound = frame.scope.bindings.get(loss.id, ())
    sites = tracker.participants.program.graph.sites(function)
    return len(bound) == 1 and (
        not sites
        or any(one.scope.module is not frame.scope.module for one in sites)
    )


def _scaled(tracker: Tracker, scaler: str, fed: list[str], here: Here) -> None:
    tracker.apply(scaler, EventKind.SCALED_BACKWARD, fed, here)
    for name in fed:
        here.path.forget(("cleared", name))
        here.path.mark(("scaled", name), here.node)
        tracker.fed.add(name)
        if scaler not in tracker.participants.partners(name):
            here.path.lost |= {name}


def _strange(
    tracker: Tracker, scaler: str, models: frozenset[str], here: Here
) -> None:
    """Gradients that were multiplied by a scaler which steps nothing are as good as plain ones to
    the scaler that steps with them, and so are those of any other to one that scales nothing.
    """
    participants = tracker.participants
    others = [
        name
        for name in participants.alive(here.frame)
        if all(
            participants.are_two(scaler, one)
            for one in participants.partners(name)
        )
    ]
    if participants.pairs.get(scaler):
        others = [n for n in others if participants.only_steps(n)]
    fed = [
        n
        for n in others
        if any(participants.owners.claims(n, m) for m in models)
    ]
    if (
        not fed
        and len(others) == 1
        and not {*participants.scaling} & {*participants.partners(*others)}
    ):
        fed = others  # nothing else in sight can have made its gradients
    _plain(tracker, fed, here)


def _plain(tracker: Tracker, fed: list[str], here: Here) -> None:
    participants = tracker.participants
    for scaler in participants.scalers():
        names = [name for name in fed if scaler in participants.partners(name)]
        tracker.apply(scaler, EventKind.PLAIN_BACKWARD, names, here)
    for name in fed:
        here.path.mark(("plain", name), here.node)


def _loss(tracker: Tracker, here: Here) -> Val | None:
    """What `backward` is called of, or is given (`x.backward(scaler.scale(gradient))`)."""
    node = here.node
    assert isinstance(node, ast.Call)
    program = tracker.participants.program
    is_function = program.canonical(node.func) == "torch.autograd.backward"
    given = [*node.args[:2], *(keyword.value for keyword in node.keywords)]
    if isinstance(node.func, ast.Attribute) and not is_function:
        given.insert(0, node.func.value)
    values = [
        tracker.evaluation.value(one, here.path, here.frame) for one in given
    ]
    return joined(values) if given else None


def on_unscale(tracker: Tracker, here: Here) -> None:
    """`scaler.unscale_(optimizer)`; one that first asks the scaler for its stage is done once."""
    name = optimizer_of(_call(here), here.frame, here.path)
    scaler = _receiver(here)
    is_done = (
        name is not None
        and scaler is not None
        and tracker.held(scaler, name, here.path).stage == "unscaled"
    )
    if is_done and _asks_for_stage(tracker, here):
        return
    _by_scaler(tracker, EventKind.UNSCALE, "unscale", here)


def on_scaler_step(tracker: Tracker, here: Here) -> None:
    """`scaler.step(optimizer)`; with more arguments it is not torch's alone."""
    node, path = _call(here), here.path
    if len(node.args) + len(node.keywords) > 1:
        tracker.lose_all(path)
        return
    name = optimizer_of(node, here.frame, path)
    bare = path.marks.get(("bare", name)) if name is not None else None
    if bare is not None:
        tracker.diagnostics.stepped_twice(bare, here)
        path.forget(("bare", name or ""))
        return
    scaler = _by_scaler(tracker, EventKind.SCALER_STEP, "step", here)
    if scaler is not None:
        path.forget(("left", scaler))


def _by_scaler(
    tracker: Tracker, kind: EventKind, mark: str, here: Here
) -> str | None:
    scaler = _receiver(here)
    name = optimizer_of(_call(here), here.frame, here.path)
    if scaler is None or name is None:
        tracker.lose_all(here.path)
        return None
    held = tracker.held(scaler, name, here.path)
    if held.gradients & {"scaled", "unscaled"}:
        tracker.diagnostics.credit_scaled(here.node)
    tracker.apply(scaler, kind, [name], here)
    here.path.mark((mark, scaler, name), here.node)
    return scaler


def on_update(tracker: Tracker, here: Here) -> None:
    """`scaler.update()`, or `update(new_scale)`."""
    scaler, node = _receiver(here), _call(here)
    if scaler is None:
        tracker.lose_all(here.path)
        return
    sets = bool(node.args or node.keywords)
    tracker.apply(
        scaler, EventKind.SET_SCALE if sets else EventKind.UPDATE, [], here
    )
    here.path.mark(("update", scaler), node)
    here.path.mark(("known", scaler), node)
    here.path.forget(("left", scaler))


def on_bare_step(tracker: Tracker, here: Here) -> None:
    """`optimizer.step()`."""
    name = _receiver(here)
    if name is None:
        tracker.lose_all(here.path)
        return
    for scaler in tracker.participants.partners(name):
        held = tracker.held(scaler, name, here.path)
        if held.gradients == {"plain"}:
            backwards = here.path.marks.get(("plain", name), ())
            tracker.diagnostics.credit_plain_step(here.node, backwards)
            tracker.hold(
                scaler, name, held._replace(gradients=frozenset()), here.path
            )
        else:
            tracker.apply(scaler, EventKind.BARE_STEP, [name], here)


def on_zero_grad(tracker: Tracker, here: Here) -> None:
    """`optimizer.zero_grad()`, or that of a model."""
    participants, path = tracker.participants, here.path
    name, owners = _receiver(here), participants.owners
    alive = participants.alive(here.frame)
    is_known = name is not None and name in owners.optimizers
    names = owners.alike(name, alive) if is_known and name else []
    names = names or owners.of_models([name or ""], alive) or alive
    path.lost -= {"~" + one for one in names}
    for optimizer in names:
        path.forget(("bare", optimizer))
        for scaler in participants.partners(optimizer):
            held = tracker.held(scaler, optimizer, path)
            if held.gradients == {"scaled"} and held.stage == "ready":
                path.mark(("cleared", optimizer), here.node)
            tracker.apply(scaler, EventKind.ZERO_GRAD, [optimizer], here)


def on_clip(tracker: Tracker, here: Here) -> None:
    """Gradients are bounded."""
    if _asks_for_scale(tracker, here.node):
        return
    for scaler, name in readers(tracker, here):
        held = tracker.held(scaler, name, here.path)
        divided = "unscaled" in held.gradients and not held.gradients & {
            "scaled",
            "stale",
        }
        if divided and tracker.follows(scaler, name, here.path):
            tracker.diagnostics.credit_reader(here.node)
            tracker.diagnostics.credit_read(here)
        tracker.apply(scaler, EventKind.CLIP, [name], here)


def on_read(tracker: Tracker, here: Here) -> None:
    """Gradients are looked at; in a function that clips, to bound them."""
    if _inside_clipper(here.frame):
        on_clip(tracker, here)
        return
    if _asks_for_scale(tracker, here.node):
        return
    for scaler, name in readers(tracker, here):
        held = tracker.held(scaler, name, here.path)
        if tracker.follows(scaler, name, here.path) and held.gradients & {
            "unscaled",
            "used",
        }:
            tracker.diagnostics.credit_read(here)
        tracker.apply(scaler, EventKind.READ, [name], here)


def on_created(tracker: Tracker, here: Here) -> None:
    """A scaler is made: it forgets what the one of the same name was."""
    parents = tracker.participants.program.module.parents
    statement = parents[here.node]
    while isinstance(statement, (ast.IfExp, ast.BoolOp)):
        statement = parents[statement]
    for target in (
        statement.targets if isinstance(statement, ast.Assign) else ()
    ):
        name = identity(target, here.frame, here.path)
        if name is not None:
            here.path.scalers[name] = State(has_scale=True)
            here.path.mark(("known", name), here.node)
            here.path.lost -= {name}


HANDLERS: dict[EventKind, Handler] = {
    EventKind.BACKWARD: on_backward,
    EventKind.UNSCALE: on_unscale,
    EventKind.SCALER_STEP: on_scaler_step,
    EventKind.UPDATE: on_update,
    EventKind.BARE_STEP: on_bare_step,
    EventKind.ZERO_GRAD: on_zero_grad,
    EventKind.CLIP: on_clip,
    EventKind.READ: on_read,
    EventKind.SCALER_CREATED: on_created,
}


def _call(here: Here) -> ast.Call:
    assert isinstance(here.node, ast.Call)
    return here.node


def _receiver(here: Here) -> str | None:
    func = _call(here).func
    assert isinstance(func, ast.Attribute)
    return identity(func.value, here.frame, here.path)


def _asks_for_scale(tracker: Tracker, node: ast.AST) -> bool:
    """Whether the factor is reckoned with right here: `norm / scaler.get_scale()`, a bound times
    it.
    """
    parents = tracker.participants.program.module.parents
    while isinstance(
        parents.get(node), (ast.expr, ast.keyword, ast.comprehension)
    ):
        node = parents[node]
    return any(
        isinstance(n, ast.Attribute) and n.attr == "get_scale"
        for n in shallow(node)
    )


def _asks_for_stage(tracker: Tracker, here: Here) -> bool:
    """Whether an `if` around an event reads what the scaler keeps of its optimizers, by name or
    right there: `if state["stage"] is not OptState.UNSCALED`.
    """
    program = tracker.participants.program
    scope = here.frame.scope
    tests = [
        above.test
        for above in program.module.ancestors(here.node)
        if isinstance(above, ast.If)
        and program.module.scope_of(above.test) is scope
    ]
    named = [
        one.value
        for test in tests
        for name in shallow(test)
        if isinstance(name, ast.Name)
        for one in program.reaching.at(name, name.id).bindings
        if one.value is not None
    ]
    return any(
        isinstance(inner, ast.Attribute)
        and inner.attr.startswith("_")
        and program.events.is_scaler(inner.value, scope)
        for expr in (*tests, *named)
        for inner in shallow(expr)
    )


def _inside_clipper(frame: Frame) -> bool:
    here: Frame | None = frame
    while here is not None:
        if isinstance(here.scope.node, FUNCTIONS) and _CLIPPER.search(
            here.scope.node.name
        ):
            return True
        here = here.caller
    return False
