"""Reasons to refuse that lie with hooks: they are given gradients while these are scaled."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.gradients.hooks import asks_for_nan, is_linear_hook
from amp_migrate.model.gradients.recording_hooks import (
    is_blind,
    is_read,
    kept_by_hook,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.planner.files.vicinity import (
    callers_of_scope,
    files_near,
    reach_of,
)
from amp_migrate.planner.half_safety.reach import abroad
from amp_migrate.planner.preconditions.checks import is_false, own_nodes
from amp_migrate.planner.refusal import Refusal, file_seen_from

BACKWARD_HOOKS = {
    "register_backward_hook",
    "register_full_backward_hook",
    "register_post_accumulate_grad_hook",
}


def refuse_hooks(
    program: Program, scope: Scope, around: Sequence[ast.stmt]
) -> None:
    """Raise Refusal where a hook that runs with a loop would see scaled gradients."""
    near = {id(file) for file in files_near(program, scope)}
    for other, call, why in program.remembered(_hooks, lambda: _hooks(program)):
        if id(other.module) in near and _matters(program, call, other, scope):
            raise Refusal("gradient-mutated", call, why)
    for home, call, why in _hooks_abroad(program, scope, around):
        if home is program:
            raise Refusal("gradient-mutated", call, why)
        place = f"{file_seen_from(program, home)}:{call.lineno}"
        raise Refusal("gradient-mutated", around[0], f"{why}: {place}")


def _hooks_abroad(
    program: Program, scope: Scope, around: Sequence[ast.stmt]
) -> Iterator[tuple[Program, ast.Call, str]]:
    """The same of the functions that the loop runs in files which are no part of the program, and
    of what makes their objects.
    """
    for home, function, _ in abroad(program, list(around), scope):
        owner = home.scope(function).owner
        own = [(home, function)]
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            made = method_of(home, owner.node, "__init__")
            own += [made] if made is not None else []
        for where, code in own:
            found = _seeing(where, where.scope(code))
            yield from ((where, call, why) for call, why in found)


def _matters(
    program: Program, call: ast.Call, there: Scope, scope: Scope
) -> bool:
    """Not where a hook only keeps what nothing that runs with this loop reads: Grad-CAM of another
    method of training.
    """
    kept = kept_by_hook(program, call, there)
    reached = reach_of(program, scope)
    if kept is None or there.node in reached:
        return True
    made = [one for node in reached for one in _made_in(program, node)]
    running = [*reached, *callers_of_scope(program, scope)]
    nodes = [node for code in running for node in own_nodes(code)]
    return any(
        one is there.node or is_read(kept, one)
        for one in itertools.chain(nodes, *map(nodes_in, made))
    )


def _made_in(program: Program, code: ast.AST) -> Iterator[ast.ClassDef]:
    """The classes of which a function makes objects."""
    here = program.module.scopes[code]
    for call in here.calls:
        cls = program.graph.class_named(call.func, here)
        if cls is not None:
            yield cls


def _hooks(program: Program) -> list[tuple[Scope, ast.Call, str]]:
    """The calls that do not go with a scaled backward, wherever they are, and why."""
    return [
        (scope, call, why)
        for scope in program.module.scopes.values()
        for call, why in _seeing(program, scope)
    ]


def _seeing(program: Program, scope: Scope) -> Iterator[tuple[ast.Call, str]]:
    """The same of one scope."""
    for call in scope.calls:
        why = _sees_scaled(call)
        if (
            why
            and not is_linear_hook(program, call, scope)
            and not asks_for_nan(program, call, scope)
            and not is_blind(program, call, scope)
            and not _is_caught(program, call)
        ):
            yield call, why


def _is_caught(program: Program, call: ast.Call) -> bool:
    """Whether the error of a clip that asks for finite gradients goes to a handler which goes on:
    the scaler skips that step.
    """
    if isinstance(call.func, ast.Attribute) and call.func.attr in (
        "register_hook",
        *BACKWARD_HOOKS,
    ):
        return False
    inner: ast.AST = call
    for above in program.module.ancestors(call):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, ast.Try) and any(
            inner is one for one in above.body
        ):
            return any(map(_goes_on, above.handlers))
        inner = above
    return False


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """`except RuntimeError:`, and no `raise` or `exit()` in it."""
    caught = handler.type is None or bool(names_in(handler.type) & _CAUGHT)
    return caught and not any(
        isinstance(node, (ast.Raise, ast.Return))
        or isinstance(node, ast.Call)
        and "exit" in (dotted_name(node.func) or "")
        for statement in handler.body
        for node in nodes_in(statement)
    )


_CAUGHT = {"RuntimeError", "Exception", "BaseException"}


def _sees_scaled(call: ast.Call) -> str | None:
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in (
        "register_hook",
        *BACKWARD_HOOKS,
    ):
        return (
            f"`{func.attr}` sees gradients during backward, when they carry the scaler's factor "
            "(65,536 at first)"
        )
    if any(
        k.arg == "error_if_nonfinite" and not is_false(k.value)
        for k in call.keywords
    ):
        return (
            "the first overflow is normal with a GradScaler, and `error_if_nonfinite=True` ends "
            "the run on it"
        )
    return None
