"""Values that leave a region in half precision and meet float32 outside: they leave as float."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from amp_migrate.config import Settings
from amp_migrate.model.half_safety.all_hazards import apart
from amp_migrate.model.half_safety.all_hazards import hazards as find_hazards
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.planner.half_safety.float_operands import meets_float
from amp_migrate.planner.half_safety.handed_outside import cast_handed
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.numpy_casts import array_casts
from amp_migrate.planner.half_safety.outputs_in_float import outputs_in_float
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.half_safety.second_models import mend_second_model
from amp_migrate.planner.half_safety.unseen_makers import may_be_half
from amp_migrate.planner.regions.loss_flow import flow_of

_JUDGED = (ast.Assign, ast.AugAssign, ast.Assert, ast.If)


def casts_after(
    program: Program,
    scope: Scope,
    late: frozenset[ast.stmt],
    hazards: Hazards,
    settings: Settings,
    *,
    own: bool = False,
) -> None:
    """Collect the casts of one scope: outputs given to another model outside autocast, to matrix
    products, sums and index writes, and to NumPy where they are bfloat16. With `own`, what it calls
    is left to others: a caller may call other loops, too, whose regions are not entered.
    """
    if settings.dtype != "float16":
        array_casts(program, scope, hazards)
    nodes = [
        (node, where)
        for node, where in _outside(program, scope, late, hazards)
        if where is scope or not own
    ]
    for hazard in (
        *apart(hazards.asked, nodes),
        *find_hazards(hazards.asked, nodes),
    ):
        if hazard.demanded:
            hazards.mend(hazard)
        casts = [one for one in hazard.casts if hazards.is_seen_half(one)]
        if casts and hazard.certain:
            for one in casts:
                hazards.cast(one, hazard.rule, hazard.like)
    for node, where in _inner_first(program, nodes):
        if program.module.statement_of(node) in hazards.islands:
            continue  # judged when it was set apart
        _cast_operands(program, node, where, hazards)
        if isinstance(node, ast.Call) and where is scope:
            _mend_call(program, node, scope, hazards)
    outputs_in_float(program, scope, nodes, hazards)
    _same_dtypes(program, scope, late, hazards)


def _cast_operands(
    program: Program, node: ast.AST, scope: Scope, hazards: Hazards
) -> None:
    for expr in meets_float(program, node, scope, hazards):
        perhaps = _runs_model(program, node, scope) and may_be_half(
            program, expr, scope, hazards
        )
        if perhaps or _is_made_half(program, expr, scope, hazards):
            hazards.cast(expr)


def _runs_model(program: Program, node: ast.AST, scope: Scope) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return program.values.is_model(node.func, scope)


def _is_made_half(
    program: Program, expr: ast.expr, scope: Scope, hazards: Hazards
) -> bool:
    """Whether the regions make a value half: not `images.half()` of the program itself, for a model
    that it has made half, too.
    """
    if not hazards.asked.fact(expr, scope).seen_half:
        return False
    plain = program.remembered(
        _is_made_half,
        lambda: Inference(program, lambda _: None, lambda _: None),
    )
    return not plain.of(expr, scope).is_half


def _mend_call(
    program: Program, call: ast.Call, scope: Scope, hazards: Hazards
) -> None:
    mend_second_model(program, call, scope, hazards)
    cast_handed(program, call, scope, hazards)


def _same_dtypes(
    program: Program, scope: Scope, late: frozenset[ast.stmt], hazards: Hazards
) -> None:
    """`F.binary_cross_entropy(p, torch.ones_like(out))`: its operands have one dtype, and the
    probability is float32.
    """
    for node, where in reachable(program, list(late), scope):
        if isinstance(node, ast.Call) and program.effects.is_bce(node, where):
            for expr in (*node.args, *(one.value for one in node.keywords)):
                if hazards.asked.fact(expr, where).seen_half:
                    hazards.cast(expr, "bce-under-autocast")


def _inner_first(
    program: Program, nodes: list[tuple[ast.AST, Scope]]
) -> Iterator[tuple[ast.AST, Scope]]:
    """The nodes of each statement from the inside: what is float there is cast no second time."""
    for _, own in itertools.groupby(
        nodes, lambda one: id(program.module.statement_of(one[0]))
    ):
        yield from reversed(list(own))


def _outside(
    program: Program, scope: Scope, late: frozenset[ast.stmt], hazards: Hazards
) -> Iterator[tuple[ast.AST, Scope]]:
    """The nodes that run outside of autocast, in this scope and in what it calls."""
    inference = hazards.asked.inference
    statements = [
        step.statement
        for step in flow_of(scope, program).steps
        if not inference.inside(step.statement) and step.statement not in late
    ]
    seen: set[int] = set()
    for node, where in reachable(
        program, _outermost(program, statements), scope
    ):
        if id(node) not in seen and not inference.inside(node):
            seen.add(id(node))
            if not isinstance(node, ast.stmt) or isinstance(node, _JUDGED):
                yield node, where


def _outermost(program: Program, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Those that no other one holds: a thousand `elif` hold each other a thousand deep."""
    held: set[ast.AST] = set()
    found: list[ast.stmt] = []
    for statement in statements:
        if program.module.parents.get(statement) not in held:
            found.append(statement)
        held.add(statement)
    return found
