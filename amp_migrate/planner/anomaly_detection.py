"""Anomaly detection around a scaled backward: it ends the run at the first NaN, where the scaler
would skip the step and go on with a smaller scale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.queries import nodes_in
from amp_migrate.model.syntax import FUNCTIONS, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.vicinity import callers_of_scope, files_near

_CONTEXT = "torch.autograd.detect_anomaly"
_SWITCH = "torch.autograd.set_detect_anomaly"


def refuse_anomaly_detection(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> None:
    """Raise Refusal where it is on in any case while a loop runs its backward."""
    if "detect_anomaly" not in program.module.text:
        return
    for call in _switched_on(program):
        if _covers(program, call, scope, backwards):
            raise Refusal(
                "anomaly-detection",
                call,
                f"`{ast.unparse(call)}` ends the run at the first NaN of a "
                "backward, where a scaler would skip the step: it finds its "
                "scale by what overflows",
            )


def _switched_on(program: Program) -> Iterator[ast.Call]:
    """The calls that turn it on, and look for NaN."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = program.canonical(call.func)
            words = {one.arg: one.value for one in call.keywords}
            if name == _CONTEXT:
                mode: ast.expr | None = ast.Constant(True)
                nan = words.get("check_nan", next(iter(call.args), None))
            elif name == _SWITCH:
                mode = words.get("mode", next(iter(call.args), None))
                nan = words.get("check_nan", next(iter(call.args[1:]), None))
            else:
                continue
            if _is(mode, True) and not _is(nan, False):
                yield call


def _is(expr: ast.expr | None, value: bool) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is value


def _covers(
    program: Program,
    call: ast.Call,
    scope: Scope,
    backwards: list[ast.Call],
) -> bool:
    """Whether it stands around the loop, or is run before it without a condition."""
    parents = list(program.module.ancestors(call))
    above = next((one for one in parents if isinstance(one, ast.stmt)), None)
    home = program.module.scope_of(call)
    if isinstance(above, (ast.With, ast.AsyncWith)):
        held = [one for one in nodes_in(above) if isinstance(one, ast.Call)]
        return any(one in held for one in backwards) or any(
            _leads_to(program, one, home, scope) for one in held
        )
    if not isinstance(above, ast.Expr) or _is_conditional(parents):
        return False
    if home.parent is None:
        return home.module in files_near(program, scope)
    return home is scope or home.node in callers_of_scope(program, scope)


def _leads_to(
    program: Program, call: ast.Call, home: Scope, scope: Scope
) -> bool:
    """Whether a call runs the function of the loop."""
    around = {scope.node, *callers_of_scope(program, scope)}
    return any(one in around for one in program.values.callees(call, home))


def _is_conditional(parents: list[ast.AST]) -> bool:
    """Under an `if`, but for `if __name__ == "__main__":`."""
    for one in parents:
        if isinstance(one, FUNCTIONS):
            return False
        if isinstance(one, ast.If) and "__name__" not in ast.unparse(one.test):
            return True
    return False
