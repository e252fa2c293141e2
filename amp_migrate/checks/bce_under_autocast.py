"""Binary cross-entropy of probabilities is computed under autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._half import float_casts
from amp_migrate.config import Settings
from amp_migrate.model.autocast.precision import says_float
from amp_migrate.model.autocast.regions import Region
from amp_migrate.model.forwards.losses import callables, is_library_bce, is_told
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.rewrite.edits import WrapStatements

RULE = Rule("bce-under-autocast", severity="error")
_MESSAGE = (
    "this raises on CUDA, and half-precision probabilities have saturated before: use "
    "BCEWithLogitsLoss without the "
    "sigmoid, or compute sigmoid and loss in float32 with autocast off"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Calls of the loss where an enabled region is around, in its function or around the calls of
    it.
    """
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            region = program.regions.enabled_around(call)
            if region is None or region.device == "cpu" or _hands_on(call):
                continue
            if not program.effects.is_bce(call, scope) or not is_told(
                program, call, scope
            ):
                continue
            if not all(map(is_library_bce, callables(program, call, scope))):
                continue  # one of several losses, which another caller may choose
            if not _off_inside(program, call) and not _is_spared(program, call):
                related = [(region.call, "under this autocast")]
                yield finding_at(
                    program,
                    call,
                    RULE,
                    _MESSAGE,
                    related=related,
                    fix=_fix(program, call, scope, region),
                )


def _hands_on(call: ast.Call) -> bool:
    """`function(*args)` of a wrapper: what is wrapped is told of where it is written."""
    return any(isinstance(one, ast.Starred) for one in call.args)


def _off_inside(program: Program, call: ast.Call) -> bool:
    own = program.regions.at(call)
    return own is not None and own.enabled is False


def _is_spared(program: Program, call: ast.Call) -> bool:
    """Whether the other arm of an `if` around switches autocast off: this one runs without it."""
    inner: ast.AST = call
    for around in program.module.ancestors(call):
        if isinstance(around, ast.If):
            other = (
                around.body
                if any(inner is one for one in around.orelse)
                else around.orelse
            )
            regions = (
                program.regions.at(s.body[0])
                for s in other
                if isinstance(s, ast.With)
            )
            if any(
                region is not None and region.enabled is False
                for region in regions
            ):
                return True
        inner = around
    return False


def _fix(
    program: Program, call: ast.Call, scope: Scope, region: Region
) -> Fix | None:
    """The whole statement leaves autocast, with its own arguments in float32."""
    statement = program.module.statement_of(call)
    simple = isinstance(
        statement, (ast.Assign, ast.Return, ast.Expr, ast.AugAssign)
    )
    if (
        not simple
        or len(call.args) < 2
        or any(isinstance(one, ast.Starred) for one in call.args)
    ):
        return None
    others = [other for other in calls_in(statement) if other is not call]
    if any(program.effects.is_forward(other, scope) for other in others):
        return None
    torch = program.module.imports.local("torch")
    if torch is None:
        return None
    span = program.module.span(statement)
    device = region.device or "cuda"
    given = [one for one in call.args[:2] if not says_float(one)]
    casts = float_casts(program, given)
    if given and not casts:
        return None
    wrap = WrapStatements(
        span, span, f'{torch}.autocast("{device}", enabled=False)'
    )
    return Fix(
        "unsafe",
        "compute the loss with autocast off, in float32; move the sigmoid there by hand",
        (wrap, *casts),
    )
