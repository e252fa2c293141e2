"""Gradients that are taken within a forward, or within what a caller's region runs: no statement
that can be left out of autocast bounds them.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.half_safety.reach import perhaps_reachable
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.statement_runs import Region

GRAD = "torch.autograd.grad"


def must_be_float(node: ast.AST, why: str, *, above: bool = False) -> Refusal:
    """Why gradients that are taken here keep a loop from mixed precision; `above`: callers may
    show that none are.
    """
    return Refusal(
        "double-backward",
        node,
        f"gradients that the loop takes itself must be float32; {why}",
        above=above,
    )


def refuse_backward(program: Program, node: ast.AST, scope: Scope) -> None:
    """Raise Refusal for a backward pass that a region runs: of an attack, or an inner step."""
    if isinstance(node, ast.Call) and program.effects.is_backward(node, scope):
        raise must_be_float(
            node,
            f"here `{ast.unparse(node)}` takes them within the forward, of a loss that nothing "
            "scales",
        )


def refuse_inside_models(
    program: Program, scope: Scope, known: Collection[int]
) -> None:
    """Forces, flows, energies: the derivative is part of the forward, and no statement of the loop
    parts them. `known`: the calls that are kept in float32.
    """
    # What the loop runs is a costly question: first whether any gradient of such a kind is taken.
    if all(id(call) in known for call in _kept_graphs(program)):
        return
    for node, where in perhaps_reachable(program, scope.body, scope):
        if (
            isinstance(node, ast.Call)
            and id(node) not in known
            and _keeps_graph(node, where)
        ):
            raise must_be_float(node, _taken_in(where))


def refuse_in_callers(
    program: Program, regions: Iterable[tuple[Scope, Region]]
) -> None:
    """Inner steps and perturbations in what a caller's region runs: what is planned for the
    function that goes backward takes nothing out of it.
    """
    if not _gradients(program):
        return
    for scope, region in regions:
        for node, where in perhaps_reachable(
            program, region.statements(), scope
        ):
            if (
                isinstance(node, ast.Call)
                and where.module.canonical(node.func) == GRAD
            ):
                raise must_be_float(node, _taken_in(where))


def _gradients(program: Program) -> tuple[ast.Call, ...]:
    """Every call that takes gradients, whoever runs it."""
    return program.remembered(
        (_gradients,), lambda: tuple(_found_gradients(program))
    )


def _found_gradients(program: Program) -> Iterator[ast.Call]:
    home = program.module.scope_of
    for node in program.module.parents:
        if isinstance(node, ast.Call):
            if home(node).module.canonical(node.func) == GRAD:
                yield node


def _kept_graphs(program: Program) -> list[ast.Call]:
    """Those of them that can be differentiated again."""
    home = program.module.scope_of
    return [one for one in _gradients(program) if _keeps_graph(one, home(one))]


def _keeps_graph(call: ast.Call, scope: Scope) -> bool:
    """A call with a `create_graph` that is no constant False."""
    graph = next(
        (k.value for k in call.keywords if k.arg == "create_graph"), None
    )
    kept = graph is not None and not (
        isinstance(graph, ast.Constant) and not graph.value
    )
    return kept and scope.module.canonical(call.func) == GRAD


def _taken_in(scope: Scope) -> str:
    taken = scope.qualname.rpartition(".")[2]
    who = "the model's forward" if taken == "forward" else f"`{taken}`"
    return f"here {who} takes them"
