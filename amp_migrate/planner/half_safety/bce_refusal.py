"""How a loss on probabilities is refused: what is wrong, and in which file."""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.model.forwards.loss_origins import Behind
from amp_migrate.model.forwards.losses import body_of, is_bce_given
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.planner.half_safety.naming import Unnamed
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project.import_paths import resolved


def unsafe(
    program: Program,
    scope: Scope,
    node: ast.AST,
    why: str,
    unnamed: tuple[Unnamed, ...] = (),
    behind: tuple[Behind, ...] = (),
    *,
    above: bool = False,
    is_loss: bool = True,
) -> Refusal:
    """The refusal of a loop of `scope`; `unnamed` is what needs a name before it can be planned,
    `behind` definitions of other programs, in whose company it may be; `above`: callers may
    show more; `is_loss`: `node` computes the loss, and not what comes into it.
    """
    what = (
        "BCELoss on probabilities is unsafe in half precision"
        if is_loss
        else "BCELoss takes what is computed here for a probability"
    )
    file = program.module.scope_of(node).module
    place = f" ({Path(file.path).name})" if file is not scope.module else ""
    return Refusal(
        "bce-on-probabilities",
        node,
        f"{what}{place}; {why}",
        files=tuple(resolved(_file_of(one).path) for one in behind),
        above=above,
        unnamed=unnamed,
    )


def refuse_handed(program: Program, call: ast.Call, scope: Scope) -> None:
    """Raise Refusal where a function of another file is handed the loss: where both files are
    planned together, it is set apart there.
    """
    behind = program.values.abroad(call.func, scope)
    if behind is None or not isinstance(behind[1], FUNCTIONS):
        return
    own = program.regions.at(call)
    is_off = own is not None and own.enabled is False
    if not is_off and is_bce_given(program, call, scope):
        why = f"it is computed in {place_of_definition(behind)}, out of reach"
        raise unsafe(program, scope, call, why, behind=(behind,))


def place_of_definition(behind: Behind) -> str:
    """Where a definition stands, of this program or of another."""
    return f"{Path(_file_of(behind).path).name}:{behind[1].lineno}"


def _file_of(behind: Behind) -> Module:
    """The file of the project in which a definition stands."""
    program, node = behind
    file = program.module.file_of(node)
    return file or program.module


def loss_in(behind: Behind) -> Behind:
    """The call in a body that computes the loss; the body itself where none stands in it."""
    program, body = behind[0], body_of(behind)
    if not isinstance(body, FUNCTIONS):
        return behind
    scope = program.scope(body)
    computing = (
        one
        for one in scope.calls
        if program.effects.of_node(one, scope) & EventKind.BCE
    )
    return program, next(computing, behind[1])
