"""Which expressions hold half precision for certain, in the regions that a program has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.torch_facts.methods import WIDENS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


class Precision:
    """Answers `half`: the dtype of an expression that is half precision for certain."""

    def __init__(self, program: Program) -> None:
        self.regions = program.regions
        self.inference = Inference(program, self._where, self._own)

    def half(self, expr: ast.expr, scope: Scope) -> str | None:
        """`float16`, `bfloat16` or `half` (one of them, which cannot be told) if `expr` is that;
        else None.
        """
        fact = self.of(expr, scope)
        if not fact.is_half:
            return None
        return {DType.FLOAT16: "float16", DType.BFLOAT16: "bfloat16"}.get(
            fact.dtypes, "half"
        )

    def of(self, expr: ast.expr, scope: Scope) -> Fact:
        """All that is known of an expression."""
        return (
            self.inference.of(expr, scope)
            if self.regions.regions
            else Fact(DType.FLOAT)
        )

    def _own(self, node: ast.AST) -> str | None:
        region = self.regions.at(node)
        return (
            None
            if region is None or region.enabled is False
            else region.dtype or "half"
        )

    def _where(self, node: ast.AST) -> str | None:
        region = self.regions.enabled_around(node)
        return None if region is None else region.dtype or "half"


def says_float(expr: ast.expr) -> bool:
    """`x.float()`, `x.float().view(-1)`, `x.to(torch.float32)`: float32 by its own words."""
    while isinstance(expr, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in WIDENS:
                return True
            if expr.func.attr == "to" and any(
                (dotted_name(one) or "").endswith(("float32", ".float"))
                for one in expr.args
            ):
                return True
        expr = expr.func if isinstance(expr, ast.Call) else expr.value
    return False
