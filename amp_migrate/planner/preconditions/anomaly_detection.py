"""Anomaly detection around a scaled backward: it ends the run at the first NaN, where the scaler
would skip the step and go on with a smaller scale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.files.run_before import mentions_near, run_before
from amp_migrate.planner.files.vicinity import callers_of_scope
from amp_migrate.planner.refusal import Refusal, file_seen_from
from amp_migrate.project.import_paths import resolved
from amp_migrate.project.module_graph import Project

_CONTEXT = "torch.autograd.detect_anomaly"
_SWITCH = "torch.autograd.set_detect_anomaly"
_WORD = "detect_anomaly"
_MOST = 40


def refuse_anomaly_detection(
    program: Program, project: Project, scope: Scope, backwards: list[ast.Call]
) -> None:
    """Raise Refusal where it is on in any case while a loop runs its backward."""
    if not mentions_near(program, project, _WORD):
        return
    for call, home in _switches(program):
        if _surrounds(program, call, home, scope, backwards):
            raise _refusal(program, program, call, backwards[0])
    for where, call in run_before(program, scope):
        if _turns_on(where, call):
            raise _refusal(program, where, call, backwards[0])


def files_that_may_switch(
    program: Program, project: Project, scope: Scope
) -> Iterator[str]:
    """Files of the tree that run the loop, or are imported by those, and name anomaly detection:
    whether it is on, they show together.
    """
    holders = set(project.mentioning(_WORD)) if project.imports else set()
    here = resolved(scope.module.path)
    linked = program.module.paths
    for user in project.users(here)[:_MOST] if holders - linked else ():
        brought = [user, *project.helpers(user, _MOST)]
        if holders.intersection(brought):
            yield from (
                one
                for one in dict.fromkeys((user, *brought))
                if (one == user or one in holders) and one not in linked
            )


def _refusal(
    program: Program, where: Program, call: ast.Call, backward: ast.Call
) -> Refusal:
    said = f"`{ast.unparse(call)}`"
    why = (
        "ends the run at the first NaN of a backward, where a scaler would "
        "skip the step: it finds its scale by what overflows"
    )
    if where is program:
        return Refusal("anomaly-detection", call, f"{said} {why}")
    near = file_seen_from(program, where)
    told = f"{near}:{call.lineno}: {said} {why}"
    return Refusal("anomaly-detection", backward, told)


def _switches(program: Program) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls that turn it on, and look for NaN."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if _looks_for_nan(program, call):
                yield call, scope


def _looks_for_nan(program: Program, call: ast.Call) -> bool:
    name = program.canonical(call.func)
    words = {one.arg: one.value for one in call.keywords}
    if name == _CONTEXT:
        nan = words.get("check_nan", next(iter(call.args), None))
        return not _is(nan, False)
    if name != _SWITCH:
        return False
    mode = words.get("mode", next(iter(call.args), None))
    nan = words.get("check_nan", next(iter(call.args[1:]), None))
    return _is(mode, True) and not _is(nan, False)


def _is(expr: ast.expr | None, value: bool) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is value


def _turns_on(program: Program, call: ast.Call) -> bool:
    """`torch.autograd.set_detect_anomaly(True)`, a statement of its own."""
    parent = program.module.parents.get(call)
    return isinstance(parent, ast.Expr) and _looks_for_nan(program, call)


def _surrounds(
    program: Program,
    call: ast.Call,
    home: Scope,
    scope: Scope,
    backwards: list[ast.Call],
) -> bool:
    """Whether it stands around the loop, or around what runs it."""
    parents = list(program.module.ancestors(call))
    above = next((one for one in parents if isinstance(one, ast.stmt)), None)
    if not isinstance(above, (ast.With, ast.AsyncWith)):
        return False
    held = [one for one in nodes_in(above) if isinstance(one, ast.Call)]
    around = {scope.node, *callers_of_scope(program, scope)}
    return any(one in held for one in backwards) or any(
        callee in around
        for one in held
        for callee in program.values.callees(one, home)
    )
