"""Guards that end a run where a loss is no finite number. In half precision one may come now and
then, whose step the scaler would skip (amp-semantics section 3).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.dataflow.run_ends import ends_run
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import LOOPS, Module, Scope
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.outcome import Note
from amp_migrate.planner.loop import Loop
from amp_migrate.torch_facts.gradients import ASKS_FINITE


def finite_guards(loop: Loop) -> Iterator[tuple[Module, Note]]:
    """A note for each guard beside the backward calls of a loop."""
    module = loop.scope.module
    for statement in _beside(loop.scope, loop.backwards):
        for node in nodes_in(statement):
            if not isinstance(node, (ast.If, ast.Assert)):
                continue
            ended = _ended(node, loop.scope)
            if ended:
                message = (
                    f"`{ast.unparse(node.test)}` ends the {ended} at a loss that is not finite: in "
                    "half precision one may come now and then, and the scaler would skip its step"
                )
                yield module, Note(node.lineno, node.col_offset + 1, message)


def _beside(scope: Scope, backwards: list[ast.Call]) -> list[ast.stmt]:
    """The statements of the innermost loops around backward calls; the body where there are
    none.
    """
    found: dict[ast.stmt, None] = {}
    for call in backwards:
        around = scope.module.ancestors(call)
        inner = next((one for one in around if isinstance(one, LOOPS)), None)
        within = inner is not None and scope.module.scope_of(inner) is scope
        found.update(
            dict.fromkeys(
                inner.body if inner is not None and within else scope.body
            )
        )
    return list(found)


def _ended(guard: ast.If | ast.Assert, scope: Scope) -> str:
    """What a guard ends where a loss is not finite."""
    asked = [node for node in nodes_in(guard.test) if _asks(node)]
    if all(_is_data(node, scope) for node in asked):
        return ""
    if isinstance(guard, ast.Assert):
        return "run"
    done = [
        node
        for statement in (*guard.body, *guard.orelse)
        for node in nodes_in(statement)
    ]
    for node in done:
        if isinstance(node, ast.Raise) or ends_run(scope.module, node):
            return "run"
    is_left = any(isinstance(node, ast.Break) for node in done)
    is_inner = any(isinstance(node, LOOPS) for node in done)
    return "loop" if is_left and not is_inner else ""


def _asks(node: ast.AST) -> bool:
    """`math.isnan(x)`, `torch.isfinite(x)`, `x.isnan()`."""
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    name = func.attr if isinstance(func, ast.Attribute) else dotted_name(func)
    return name in ASKS_FINITE


def _is_data(asked: ast.AST, scope: Scope) -> bool:
    """Whether the question is about what a loader gives, and no loss."""
    bindings = (
        one for name in names_in(asked) for one in scope.bindings.get(name, ())
    )
    kinds = {one.how for one in bindings} - {"import"}
    return kinds == {"for"}
