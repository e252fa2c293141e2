"""A Fourier transform, or an operation on complex numbers, gets a half-precision value."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._half import half_arguments, to_float
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Op, Trait
from amp_migrate.torch_facts.ops.row import ALL

RULE = Rule("fft-half", severity="warning")
_WINDOW = 4
"""Its place in `torch.stft(x, n_fft, hop_length, win_length, window)`."""


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Transforms of values that are half for certain."""

    def wanted(call: ast.Call, scope: Scope) -> Sequence[ast.expr]:
        found = spelled(program.precision.inference, call, scope)
        is_function = found is not None and found.form == "function"
        return (
            operands(found, call)
            if found is not None
            and is_function
            and _is_ours(found.op)
            and not _is_windowed(program, found.op, call, scope)
            else []
        )

    for call, _, half in half_arguments(program, wanted):
        name = program.canonical(call.func)
        message = (
            f"`{name}` takes half precision for sizes that are powers of two at most, and "
            "bfloat16 not at all: "
            "write `.float()`"
        )
        fix = to_float(
            program,
            half,
            safe=False,
            message="convert to float32, in which all that follows is computed then",
        )
        yield finding_at(program, call, RULE, message, fix=fix)


def _is_windowed(
    program: Program, op: Op, call: ast.Call, scope: Scope
) -> bool:
    """Whether a float32 window comes first, which makes float32 of what it is multiplied by."""
    if Trait.WINDOWED not in op.traits:
        return False
    given = [one.value for one in call.keywords if one.arg == "window"]
    given += call.args[_WINDOW : _WINDOW + 1]
    return any(
        program.precision.of(one, scope).dtypes == DType.FLOAT for one in given
    )


def _is_ours(op: Op) -> bool:
    """Whether an operator is a transform, or one of spectra that half precision lacks."""
    return op in ops.spectral.ROWS and (
        Trait.FOURIER in op.traits or op.kernels != ALL
    )
