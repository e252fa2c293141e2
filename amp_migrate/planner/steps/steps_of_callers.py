"""Steps in other files whose functions call a backward by the name of its method alone:
`self.loss.sharded_compute_loss(batch)` and, further down, `optimizer.step()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import fits
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.groups import Group
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project.import_paths import resolved

_HOPS = 3


def stepped_by_callers(program: Program, group: Group) -> Refusal | None:
    """Why a backward is left alone whose gradients a caller in another file may step on."""
    near = group.scope.module.neighbours
    own = program.module.paths
    for function in _around(program, group.scope) if near is not None else ():
        text = f".{function.name}("
        for other in near.mentioning(text) if near is not None else ():
            if resolved(other.module.path) in own:
                continue
            for call, step in _joined(other, function):
                return Refusal(
                    "step-elsewhere",
                    group.backwards[0],
                    f"{other.module.path}:{call.lineno} calls `{ast.unparse(call.func)}` and "
                    f"steps in line {step.lineno}: nothing in sight says whether it is this one",
                )
    return None


def _around(program: Program, scope: Scope) -> Iterator[Function]:
    """The function around a backward, and those that call it in this program."""
    wanted = [(scope.node, _HOPS)]
    seen: set[ast.AST] = set()
    for node, hops in wanted:  # grows while it is read
        if not isinstance(node, FUNCTIONS) or node in seen:
            continue
        seen.add(node)
        if not node.name.startswith("__"):
            yield node
        sites = program.graph.sites(node) if hops else []
        wanted += [(site.scope.node, hops - 1) for site in sites]


def _joined(
    other: Program, function: Function
) -> Iterator[tuple[ast.Call, ast.Call]]:
    """A call that may be one of that method, and a step in the same function."""
    for scope in other.module.scopes.values():
        called = [
            one for one in scope.calls if _may_be(other, one, scope, function)
        ]
        steps = [one for one in scope.calls if _is_step(one)]
        if called and steps:
            yield called[0], steps[0]


def _may_be(
    other: Program, call: ast.Call, scope: Scope, function: Function
) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != function.name:
        return False
    held = other.values.of(func.value, scope)
    is_known = held.cls is not None or held.kind is not Kind.UNKNOWN
    return not is_known and fits(call, function, True)


def _is_step(call: ast.Call) -> bool:
    func = call.func
    is_bare = not call.args and not call.keywords
    return is_bare and isinstance(func, ast.Attribute) and func.attr == "step"
