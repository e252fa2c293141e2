"""What code out of sight can get at: after it, nothing is known of that."""

from __future__ import annotations

import ast

from amp_migrate.model.classes.bases_abroad import inherited_method
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function
from amp_migrate.model.values.kinds import scheduler_name
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.frames import Frame, identity, place
from amp_migrate.protocol.participants import Participants
from amp_migrate.protocol.paths import Path
from amp_migrate.protocol.relevance import HARMLESS
from amp_migrate.protocol.values import Evaluation
from amp_migrate.torch_facts.methods import OF_MODULES

_OWN_METHODS = {"_found_inf_per_device", "_check_inf_per_device"}
"""Methods of a GradScaler that take an optimizer and change nothing about it."""


def after_unknown_call(
    participants: Participants,
    call: ast.Call,
    here: Here,
    evaluation: Evaluation,
) -> Path:
    """Code out of sight that is handed the scaler or an optimizer may do anything with them; one
    that is handed a scaled loss may go backward.
    """
    path, frame = here.path, here.frame
    if _is_known(participants, call, frame) or _is_asked_for(
        participants, call, here
    ):
        return path
    lost = _handed(participants, call, here) | _fed(
        participants, call, here, evaluation
    )
    keeper = _keeper(participants, call, here)
    if keeper is not None:
        if not scheduler_name(_word(keeper)):
            participants.kept.setdefault(keeper, set()).update(lost)
        return path
    if not lost - path.lost:
        return path
    path = path.fork()
    path.lost |= lost
    return path


def _is_known(participants: Participants, call: ast.Call, frame: Frame) -> bool:
    program = participants.program
    name = _last(call.func)
    if (
        HARMLESS.search(name)
        or program.values.callee(call, frame.scope) is not None
    ):
        return True
    if (program.canonical(call.func) or "").startswith("torch."):
        return True
    return (
        name in _OWN_METHODS
        and isinstance(call.func, ast.Attribute)
        and program.events.is_scaler(call.func.value, frame.scope)
    )


def _is_asked_for(
    participants: Participants, call: ast.Call, here: Here
) -> bool:
    """Whether a call gives the optimizers that are stepped here: `optimizer = self.optimizers()`.
    Who is asked for them does not step them.
    """
    statement = participants.program.module.parents[call]
    if not isinstance(statement, ast.Assign):
        return False
    targets = statement.targets
    if isinstance(targets[0], ast.Tuple):
        targets = targets[0].elts
    return all(
        place(one, here.frame, here.path) in participants.owners.optimizers
        for one in targets
    )


def _handed(participants: Participants, call: ast.Call, here: Here) -> set[str]:
    """Scalers and optimizers that a call can get at: its arguments, what they hold, and what its
    receiver keeps.
    """
    everyone = participants.everyone()
    found = set()
    for given in [*call.args, *(k.value for k in call.keywords), call.func]:
        own = identity(given, here.frame, here.path)
        if own is not None:
            inner = own + "." if given is not call.func else None
            found |= {
                r
                for r in everyone
                if r == own or (inner and r.startswith(inner))
            }
            found |= participants.kept.get(own, set())
    if not isinstance(call.func, ast.Attribute):
        return found
    own = identity(call.func.value, here.frame, here.path)
    if own is not None:
        found |= participants.kept.get(own, set())
        if _is_foreign_method(participants, call.func, here.frame):
            found |= {r for r in everyone if r.startswith(own + ".")}
    return found


def _fed(
    participants: Participants,
    call: ast.Call,
    here: Here,
    evaluation: Evaluation,
) -> set[str]:
    """The gradients of the optimizers that step by the scaler of a loss that is handed on."""
    given = [*call.args, *(k.value for k in call.keywords)]
    values = (evaluation.value(one, here.path, here.frame) for one in given)
    scalers = {value.scaled for value in values if value.scaled}
    return {
        f"~{name}"
        for scaler in scalers
        for name in participants.pairs.get(scaler, ())
    }


def _is_foreign_method(
    participants: Participants, func: ast.Attribute, frame: Frame
) -> bool:
    """A method of `self` that the classes in sight do not define, nor a base in another file,
    where it does nothing with gradients.
    """
    holder = func.value
    if not isinstance(holder, ast.Name) or holder.id != frame.scope.self_name:
        return False
    if func.attr in OF_MODULES:
        return False
    program = participants.program
    cls = program.graph.class_around(frame.scope)
    if cls is None or not program.attributes.has(cls, func.attr):
        found = cls and inherited_method(program.values, cls, func.attr)
        return not found or _may_train(*found)
    return False


def _may_train(program: Program, method: Function) -> bool:
    """Whether a method takes part in the training step, or hands its object on to what may."""
    scope = program.scope(method)
    given = (
        one
        for call in scope.calls
        for one in (*call.args, *(k.value for k in call.keywords))
    )
    hands_on = any(
        isinstance(one, ast.Name) and one.id == scope.self_name for one in given
    )
    return hands_on or bool(program.events.of_function(method))


def _keeper(
    participants: Participants, call: ast.Call, here: Here
) -> str | None:
    """The variable that keeps an object made of a scaler or an optimizer: only what is called of
    it can use them.
    """
    statement = participants.program.module.parents[call]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    own = place(statement.targets[0], here.frame, here.path)
    if own is None or not (
        scheduler_name(_word(own)) or _last(call.func)[:1].isupper()
    ):
        return None
    return own


def _word(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]


def _last(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
