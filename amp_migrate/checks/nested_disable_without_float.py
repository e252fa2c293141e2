"""A region that switches autocast off uses half-precision values from the region around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._half import to_float
from amp_migrate.checks._layers_behind import gives_product
from amp_migrate.checks._region_values import bare_uses, half_names, note
from amp_migrate.checks._regions import Region, region_of, regions, statements
from amp_migrate.config import Settings
from amp_migrate.model.calls.targets import targets
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Scope,
    blocks,
    shallow,
)
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.values.kinds import criterion_name
from amp_migrate.torch_facts.methods import TYPES, WIDENS

RULE = Rule("nested-disable-without-float", severity="error")
_CASTS = {*WIDENS, *TYPES, "to", "float32", "autocast"}


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """Find uses of the outer region's values in an island that is switched off."""
    for region in regions(program):
        if not region.off or not isinstance(region.node, ast.With):
            continue
        outer = region_of(program, region.node)
        if outer is None:
            yield from _below_callers(program, region, region.node)
        elif not outer.off and outer.dtype != "float32":
            names = _half_before(program, region, outer)
            yield from _in_island(program, region, outer.place, names)


def _below_callers(
    program: Program, region: Region, node: ast.With
) -> Iterator[Finding]:
    """The same in the forward of a module, which runs where somebody switches autocast on: what
    its layers gave before the island is half precision then.
    """
    function = region.scope.node
    on = next((one for one in regions(program) if not one.off), None)
    if on is None or on.dtype == "float32" or region.scope.self_name is None:
        return
    if not isinstance(function, FUNCTIONS) or function.name != "forward":
        return
    names: set[str] = set()
    for statement in statements(function.body):
        if statement is node:
            break
        _follow(program, statement, region.scope, names)
    yield from _in_island(program, region, on.place, names)


def _follow(
    program: Program, statement: ast.stmt, scope: Scope, names: set[str]
) -> None:
    """Note what a layer gives, and what keeps its type."""
    note(program, statement, scope, names, may_start=False)
    made = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(made, ast.Call) and gives_product(program, made, scope):
        assert isinstance(statement, ast.Assign)
        names |= {
            one.id for one in statement.targets if isinstance(one, ast.Name)
        }


def _in_island(
    program: Program,
    region: Region,
    outer: ast.expr | ast.stmt,
    names: set[str],
) -> Iterator[Finding]:
    message = (
        "this value is half precision, which autocast no longer casts: layers raise, and "
        "other maths stays half; cast it with `.float()`"
    )
    for statement in statements(region.blocks()):
        head = statement if not any(True for _ in blocks(statement)) else None
        uses = (
            [
                u
                for u in bare_uses(head, names)
                if _computes(program, u) and not _is_float(program, u)
            ]
            if head is not None
            else []
        )
        place = _operation(program, uses[0]) if uses else None
        fix = to_float(program, uses, True, "cast it to float32")
        if place is not None and (
            fix is not None or not _is_out_of_sight(program, place)
        ):
            yield finding_at(
                program,
                place,
                RULE,
                message,
                related=[(outer, "autocast is on here")],
                fix=fix,
            )
        note(program, statement, region.scope, names, may_start=False)


def _is_float(program: Program, use: ast.expr) -> bool:
    """Whether everything that gives a value gives float32."""
    known = program.precision.of(use, program.module.scope_of(use))
    return known.dtypes == DType.FLOAT and not known.container


def _is_out_of_sight(program: Program, place: ast.expr) -> bool:
    """Whether a function is called that nobody sees, which may take a list, and cast each of it;
    a model computes with what it gets.
    """
    if not isinstance(place, ast.Call):
        return False
    scope = program.module.scope_of(place)
    return not (
        (program.canonical(place.func) or "").startswith("torch.")
        or any(targets(program, place, scope))
        or program.effects.is_forward(place, scope)
    )


def _casts(program: Program, call: ast.Call) -> bool:
    """Whether a function in sight converts what it gets, one by one where that is a list."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in _CASTS
        for function in targets(program, call, program.module.scope_of(call))
        for node in nodes_in(function)
    )


def _half_before(
    program: Program,
    region: Region,
    outer: Region,
) -> set[str]:
    """Names that are half where the island begins."""
    found: set[str] = set()
    for statement in statements(outer.blocks()):
        if statement is region.node:
            return found
        note(program, statement, region.scope, found, may_start=True)
    return half_names(program, outer)


def _operation(program: Program, use: ast.expr) -> ast.expr:
    """The call or product around a use."""
    here: ast.AST = use
    while isinstance(parent := program.module.parents[here], ast.expr):
        here = parent
        if (
            isinstance(here, ast.Call)
            or isinstance(here, ast.BinOp)
            and isinstance(here.op, ast.MatMult)
        ):
            return here
    return use


def _computes(program: Program, use: ast.expr) -> bool:
    """An argument of a call that computes, or an operand of a matrix product; not logging, nor a
    mere return.
    """
    place = _operation(program, use)
    if isinstance(place, ast.BinOp):
        return True
    if not isinstance(place, ast.Call):
        return False
    name = (
        place.func.attr
        if isinstance(place.func, ast.Attribute)
        else getattr(place.func, "id", "")
    )
    inside_receiver = isinstance(place.func, ast.Attribute) and any(
        n is use for n in shallow(place.func.value)
    )
    if inside_receiver:
        parent = program.module.parents[place]
        return isinstance(parent, ast.BinOp) and isinstance(
            parent.op, ast.MatMult
        )
    return (
        not _is_handed_loss(program, place)
        and not _casts(program, place)
        and name
        not in {
            "print",
            "len",
            "isinstance",
            "float",
            "append",
            "detach",
            "update",
            "log",
        }
        and not isinstance(place, FUNCTIONS)
    )


def _is_handed_loss(program: Program, call: ast.Call) -> bool:
    """A criterion that callers hand over beside the model: a model that belongs to such a region
    may give float32 itself.
    """
    func = call.func
    scope = program.module.scope_of(call)
    if not isinstance(func, ast.Name) or not criterion_name(func.id):
        return False
    home = scope.lookup(func.id)
    return home is not None and func.id in {
        one.arg for one in home.parameters()
    }
