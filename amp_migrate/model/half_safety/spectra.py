"""Front ends of sound: mel spectra and what is made of them, whose logarithm is taken next."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts.float_libraries import SPECTRA


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`self.mel(sound)`, also where it is the last layer of an `nn.Sequential`."""
    if not isinstance(node, ast.Call) or not asked.inference.inside(node):
        return
    program = asked.inference.program
    made = [
        value
        for home, value, _ in held(program, node.func, scope)
        if home is program
    ]
    if not any(_is_spectrum(program, one) for one in made):
        return
    casts = [one for one in node.args[:1] if asked.fact(one, scope).is_half]
    message = (
        f"`{ast.unparse(node)}` multiplies spectra of power in half precision, which keeps too few "
        "digits of the quiet ones: compute it with autocast switched off"
    )
    yield Hazard("loses-precision", node, tuple(casts), message)


def _is_spectrum(program: Program, made: ast.expr) -> bool:
    """By the class that it is made of; of a sequence, by those of its layers."""
    if not isinstance(made, ast.Call):
        return False
    name = program.canonical(made.func) or ""
    if name.endswith("nn.Sequential"):
        return any(_is_spectrum(program, one) for one in made.args)
    return name in SPECTRA
