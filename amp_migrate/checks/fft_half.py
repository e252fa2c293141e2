"""A Fourier transform, or an operation on complex numbers, gets a half-precision value."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.checks._half import half_arguments, to_float
from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Rule, finding_at
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope

RULE = Rule("fft-half", severity="warning")
_COMPLEX = {"torch.stft": 1, "torch.istft": 1, "torch.polar": 2, "torch.complex": 2, "torch.view_as_complex": 1}
_NO_TRANSFORM = {"fftfreq", "rfftfreq", "fftshift", "ifftshift"}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Transforms of values that are half for certain."""

    def operands(call: ast.Call, scope: Scope) -> Sequence[ast.expr]:
        name = program.canonical(call.func) or ""
        head, _, last = name.rpartition(".")
        if head == "torch.fft" and last not in _NO_TRANSFORM:
            return call.args[:1]
        return call.args[: _COMPLEX.get(name, 0)]

    for call, _, half in half_arguments(program, operands):
        name = program.canonical(call.func)
        message = (
            f"`{name}` takes half precision for sizes that are powers of two at most, and bfloat16 not at all: "
            "write `.float()`"
        )
        fix = to_float(
            program, half, safe=False, message="convert to float32, in which all that follows is computed then"
        )
        yield finding_at(program, call, RULE, message, fix=fix)
