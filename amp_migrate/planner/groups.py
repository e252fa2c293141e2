"""Which backwards of a scope feed which steps: each group is a training loop with a verdict of its
own, and a backward that feeds none is a demonstration beside them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Scope
from amp_migrate.planner.gradients.cleared_before_steps import all_cleared
from amp_migrate.planner.regions.loss_flow import flow_of, header
from amp_migrate.planner.regions.statement_runs import receivers
from amp_migrate.planner.steps.later_steps import clearing
from amp_migrate.planner.steps.step_calls import StepCall, step_calls


@dataclass(frozen=True, eq=False)
class Group:
    """Backwards of one scope, and the steps there that use their gradients."""

    scope: Scope
    backwards: list[ast.Call]
    steps: list[StepCall]
    around: tuple[ast.stmt, ...]
    """The statements of the scope's body that hold them, with all between."""

    def training(self, program: Program) -> list[ast.stmt]:
        """The innermost loops around the backwards; without one, the statements that hold them and
        what follows.
        """
        found: dict[int, ast.stmt] = {}
        for backward in self.backwards:
            loops = _loops_around(program, self.scope, backward)
            first = index(program, self.scope, backward)
            for statement in loops[:1] or self.scope.body[first:]:
                found[id(statement)] = statement
        return list(found.values())


def groups(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> list[Group]:
    """The groups of a scope, in source order; those without a step are one. Raises Refusal."""
    steps = step_calls(program, scope)
    if not steps or not backwards:
        return [_group(program, scope, backwards, [])] if backwards else []
    used = _used(program, scope, backwards, steps)
    fed = [(step, _feeders(program, scope, step, used)) for step in steps]
    parts = _joined(fed)
    taken = {id(b) for _, some in parts for b in some}
    found = [
        _group(
            program,
            scope,
            [b for b in backwards if b in some],
            [s for s in steps if s in own],
        )
        for own, some in parts
        if some
    ]
    idle = [b for b in backwards if id(b) not in taken]
    if idle and found and not _is_apart(program, scope, idle, found):
        return [_group(program, scope, backwards, steps)]
    found += [_group(program, scope, idle, [])] if idle else []
    return sorted(
        found, key=lambda g: (g.backwards[0].lineno, g.backwards[0].col_offset)
    )


def group_of(program: Program, scope: Scope, backward: ast.Call) -> Group:
    """The group of a scope of which a backward is the first."""
    found = groups(program, scope, program.effects.backwards(scope))
    return next(one for one in found if one.backwards[0] is backward)


def _used(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    steps: Sequence[StepCall],
) -> list[ast.Call]:
    """The backwards but for those whose gradients are cleared before any step, and that share no
    forward with the others.
    """
    cleared = [b for b in backwards if all_cleared(program, b, steps)]
    if not cleared:
        return backwards
    others = [b for b in backwards if b not in cleared]
    run = {id(s) for b in others for s in _forwards(program, scope, b)}
    return [
        b
        for b in backwards
        if b in others
        or any(id(s) in run for s in _forwards(program, scope, b))
    ]


def _forwards(
    program: Program, scope: Scope, backward: ast.Call
) -> list[ast.stmt]:
    """The statements behind a backward that run a model."""
    flow, at = flow_of(scope, program), program.module.statement_of(backward)
    steps = (
        step.statement
        for loss in receivers(backward, program)
        for step in flow.slice(loss, at, flow.without_gradient)
    )
    effects = program.effects
    return [
        one
        for one in steps
        for root in header(one)
        if effects.of_statement(root, scope) & EventKind.FORWARD
    ]


def _group(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    steps: list[StepCall],
) -> Group:
    calls = [*backwards, *(step.call for step in steps)]
    places = [index(program, scope, call) for call in calls]
    around = (
        scope.body[min(places) : max(places) + 1]
        if not _is_lambda(scope)
        else []
    )
    return Group(scope, backwards, steps, tuple(around))


def _is_lambda(scope: Scope) -> bool:
    return isinstance(scope.node, ast.Lambda)


def _feeders(
    program: Program,
    scope: Scope,
    step: StepCall,
    backwards: Sequence[ast.Call],
) -> list[ast.Call]:
    """The backwards whose gradients a step may use."""
    for parent in program.module.ancestors(step.call):
        if parent is scope.node:
            break
        inside = [b for b in backwards if _is_inside(program, b, parent)]
        if isinstance(parent, LOOPS) and (
            inside or _trains(program, scope, parent)
        ):
            return inside
    if isinstance(scope.node, FUNCTIONS):
        # A function may be called again and again: its end leads to its top.
        return [] if _finds_none(program, step) else list(backwards)
    return [b for b in backwards if _may_precede(program, scope, b, step)]


def _trains(program: Program, scope: Scope, loop: ast.AST) -> bool:
    """A loop whose backward is in what it calls."""
    return bool(program.effects.of_statement(loop, scope) & EventKind.BACKWARD)


def _finds_none(program: Program, step: StepCall) -> bool:
    """`optimizer.zero_grad()` and at once `optimizer.step()`: it has nothing to step by."""
    statement = program.module.statement_of(step.call)
    block = program.module.block_of(statement)
    before = block[: block.index(statement)][-1:]
    mine = dotted_name(step.optimizer)
    return mine is not None and any(
        dotted_name(func.value) == mine
        for one in before
        if isinstance(one, ast.Expr)
        for func in clearing(one)
    )


def _may_precede(
    program: Program, scope: Scope, backward: ast.Call, step: StepCall
) -> bool:
    """Whether a script runs a backward before a step, and after the optimizer is made."""
    first, last = (
        index(program, scope, backward),
        index(program, scope, step.call),
    )
    made = program.values.of(step.optimizer, scope).origin
    begins = (
        index(program, scope, made)
        if made is not None and made in program.module.parents
        else 0
    )
    return begins <= first <= last


def _joined(
    fed: Iterable[tuple[StepCall, list[ast.Call]]],
) -> list[tuple[list[StepCall], list[ast.Call]]]:
    """Steps that share a backward belong together."""
    parts: list[tuple[list[StepCall], list[ast.Call]]] = []
    for step, backwards in fed:
        near = [p for p in parts if any(b in p[1] for b in backwards)]
        steps = [s for p in near for s in p[0]] + [step]
        shared = list(
            dict.fromkeys([*(b for p in near for b in p[1]), *backwards])
        )
        parts = [p for p in parts if p not in near] + [(steps, shared)]
    return parts


def _is_apart(
    program: Program, scope: Scope, idle: list[ast.Call], found: list[Group]
) -> bool:
    """Whether backwards that feed no step leave no gradient of a model behind for those that do."""
    clean = all(
        _clears_first(program, scope, group)
        or _cleared_before(program, scope, group, idle)
        for group in found
    )
    return clean or not any(
        _runs_model(program, scope, backward) for backward in idle
    )


def _runs_model(program: Program, scope: Scope, backward: ast.Call) -> bool:
    """Whether a forward leads to a backward."""
    flow, at = flow_of(scope, program), program.module.statement_of(backward)
    roots: list[ast.AST] = [at]
    for receiver in receivers(backward, program):
        roots += [
            r
            for step in flow.slice(receiver, at)
            for r in header(step.statement)
        ]
    return any(
        program.effects.of_statement(r, scope) & EventKind.FORWARD
        for r in roots
    )


def _loops_around(
    program: Program, scope: Scope, node: ast.AST
) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for parent in program.module.ancestors(node):
        if parent is scope.node:
            break
        found += [parent] if isinstance(parent, LOOPS) else []
    return found


def _clears_first(program: Program, scope: Scope, group: Group) -> bool:
    """Whether a group clears the gradients before its first backward in source order."""
    first = group.backwards[0].lineno
    calls = (c for c in scope.calls if c.lineno <= first)
    return any(
        isinstance(c.func, ast.Attribute)
        and c.func.attr == "zero_grad"
        and any(_is_inside(program, c, s) for s in group.around)
        for c in calls
    )


def _cleared_before(
    program: Program, scope: Scope, group: Group, idle: Sequence[ast.Call]
) -> bool:
    """Whether a statement between the last of the idle backwards and the group clears the
    gradients.
    """
    first = index(program, scope, group.backwards[0])
    places = [index(program, scope, backward) for backward in idle]
    last = max((place for place in places if place < first), default=-1)
    return any(
        isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and isinstance(one.value.func, ast.Attribute)
        and one.value.func.attr == "zero_grad"
        for one in scope.body[last + 1 : first]
    )


def _is_inside(program: Program, node: ast.AST, around: ast.AST) -> bool:
    return node is around or any(
        a is around for a in program.module.ancestors(node)
    )


def index(program: Program, scope: Scope, node: ast.AST) -> int:
    """The number of the statement of a scope's body that holds `node`; 0 where none does."""
    around = {id(node), *(id(one) for one in program.module.ancestors(node))}
    return next(
        (
            i
            for i, statement in enumerate(scope.body)
            if id(statement) in around
        ),
        0,
    )
