"""An operation without a half-precision kernel gets a half-precision value."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.checks._half import half_arguments, to_float
from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Rule, finding_at
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope

RULE = Rule("ops-without-half-kernel", severity="error")
# On CUDA, not rescued by autocast's float32 list (torch's own operator database, 2.13).
_TORCH = frozenset(
    "inverse svd qr cholesky symeig eig lu pinverse logdet slogdet det quantile nanquantile histc triangular_solve "
    "cholesky_solve cholesky_inverse lstsq solve geqrf ormqr matrix_rank lu_solve histogram igamma igammac ctc_loss".split()
)
_METHODS = frozenset("inverse svd qr cholesky symeig pinverse logdet slogdet det quantile nanquantile histc".split())
_LINALG = frozenset(
    "cholesky cholesky_ex cond det eig eigh eigvals eigvalsh householder_product inv inv_ex lstsq lu lu_factor matrix_power "
    "matrix_rank pinv qr slogdet solve svd svdvals tensorinv tensorsolve solve_triangular ldl_factor".split()
)
_TWO = frozenset({"solve", "lstsq", "cholesky_solve", "triangular_solve", "lu_solve"})
_LOW_RANK = ("torch.pca_lowrank", "torch.svd_lowrank")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Calls with operands that are half for certain, and the two that multiply matrices inside."""

    def operands(call: ast.Call, scope: Scope) -> Sequence[ast.expr]:
        return _operands(program, call)

    for call, _, half in half_arguments(program, operands):
        message = f"half precision has no kernel for `{_name(program, call)}`, so this raises under autocast: write `.float()`"
        fix = to_float(program, half, safe=True, message="convert to float32, which does nothing without autocast")
        yield finding_at(program, call, RULE, message, fix=fix)
    for call, _ in program.uses.calls(*_LOW_RANK):
        if program.regions.enabled_around(call) is not None:
            name = program.canonical(call.func)
            message = (
                f"`{name}` multiplies matrices inside, in half precision, and raises: compute it with autocast off"
            )
            yield finding_at(program, call, RULE, message)


def _operands(program: Program, call: ast.Call) -> Sequence[ast.expr]:
    name = program.canonical(call.func)
    if name is None:
        method = isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
        return [call.func.value] if method and isinstance(call.func, ast.Attribute) else []
    head, _, last = name.rpartition(".")
    listed = (
        (head == "torch" and last in _TORCH)
        or (head == "torch.linalg" and last in _LINALG)
        or name == "torch.nn.functional.ctc_loss"
    )
    return call.args[: 2 if last in _TWO else 1] if listed else []


def _name(program: Program, call: ast.Call) -> str:
    name = program.canonical(call.func)
    return name or (f"Tensor.{call.func.attr}" if isinstance(call.func, ast.Attribute) else "this")
