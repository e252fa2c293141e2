"""The operators of torch: what autocast makes of them, which kernels they have, which ranges.

One row per operator with all its spellings. `function`, `method` and `operator` find the row of a
spelling; `Spelling` knows what the form changes (in place and `out=` are not autocast).

Sources: `aten/src/ATen/autocast_mode.h` of torch 2.13 for the policies, torch's own operator
database (`torch.testing._internal`) for the kernels, trials on the emulated and the fake CUDA
device for composite operators. tests/torch_facts holds every row against the installed torch.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Literal

from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.ops import (
    creation,
    linalg,
    losses,
    normalization,
    pointwise,
    products,
    reductions,
    shapes,
    spectral,
    writes,
)
from amp_migrate.torch_facts.ops.row import EVERY, Kernels, Op, Policy, Trait

__all__ = [
    "EVERY",
    "ROWS",
    "Form",
    "Kernels",
    "Op",
    "Policy",
    "Spelling",
    "Trait",
]

Form = Literal["function", "method", "in-place"]

ROWS: tuple[Op, ...] = (
    *products.ROWS,
    *pointwise.ROWS,
    *reductions.ROWS,
    *normalization.ROWS,
    *losses.ROWS,
    *shapes.ROWS,
    *writes.ROWS,
    *linalg.ROWS,
    *spectral.ROWS,
    *creation.ROWS,
)

_OPERATORS: dict[type[ast.operator], str] = {
    ast.MatMult: "matmul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
}
_OF_PYTHON = {
    "operator.add": "add",
    "operator.floordiv": "floor_divide",
    "operator.matmul": "matmul",
    "operator.mod": "remainder",
    "operator.mul": "mul",
    "operator.pow": "pow",
    "operator.sub": "sub",
    "operator.truediv": "div",
}
"""Functions of Python that are its symbols: of tensors and of numbers alike."""
_ATEN = "torch.ops.aten."


class Spelling(NamedTuple):
    """One way to write an operator."""

    op: Op
    form: Form

    @property
    def policy(self) -> Policy:
        """What autocast does to it: nothing, where it writes in place."""
        return "keeps" if self.form == "in-place" else self.op.policy


@cache
def _by_name() -> dict[str, Op]:
    return {row.name: row for row in ROWS}


@cache
def _functions() -> dict[str, Spelling]:
    found = {
        name: Spelling(row, "function")
        for row in ROWS
        for name in row.functions
    }
    for row in ROWS:
        for name in row.methods:
            if name.endswith("_") and not name.endswith("__"):
                for home in ("torch", "torch.nn.functional"):
                    found.setdefault(
                        f"{home}.{name}", Spelling(row, "in-place")
                    )
    return found


@cache
def _methods() -> dict[str, Spelling]:
    return {
        name: Spelling(row, _method_form(name))
        for row in ROWS
        for name in row.methods
    }


def _method_form(name: str) -> Form:
    return "in-place" if writes_in_place(name) else "method"


def writes_in_place(name: str) -> bool:
    """Whether a function or method of that name writes into its tensor."""
    if name.endswith("__"):
        return name.startswith("__i") and name != "__invert__"
    return name.endswith("_")


def named(name: str) -> Op:
    """Return the row called `name`. Raises KeyError where there is none."""
    return _by_name()[name]


def function(canonical: str | None) -> Spelling | None:
    """Find the operator that a canonical name such as `torch.linalg.inv` calls."""
    if canonical is None:
        return None
    if canonical.startswith(_ATEN):
        return _of_aten(canonical.removeprefix(_ATEN).partition(".")[0])
    method = canonical.removeprefix("torch.Tensor.")
    return (
        _methods().get(method)
        if method != canonical
        else _functions().get(canonical)
    )


def _of_aten(name: str) -> Spelling | None:
    """`torch.ops.aten.div`, `torch.ops.aten.linear.default`"""
    homes = ("torch", "torch.nn.functional")
    found = (_functions().get(f"{home}.{name}") for home in homes)
    known = next((one for one in found if one is not None), None)
    if known is not None or name not in _methods():
        return known
    return Spelling(_methods()[name].op, "function")


def of_python(canonical: str) -> Spelling | None:
    """Find the operator behind `operator.truediv`, which says nothing of what it is given."""
    name = _OF_PYTHON.get(canonical)
    return None if name is None else Spelling(named(name), "function")


def functions_matching(home: str, last: re.Pattern[str]) -> list[Spelling]:
    """The operators of a module whose names match."""
    held = ((name.rpartition("."), one) for name, one in _functions().items())
    return [
        one
        for (module, _, name), one in held
        if module == home and last.fullmatch(name)
    ]


def method(name: str) -> Spelling | None:
    """Find the operator that a method or attribute of a tensor stands for."""
    return _methods().get(name)


@cache
def breaking_names() -> frozenset[str]:
    """What operators are called by that raise where they meet half precision: those without a
    kernel for it, or with one for some sizes, and those whose operands must be of one type.
    """
    return frozenset(
        name.rpartition(".")[2]
        for row in ROWS
        if row.strict is not None
        or Trait.FOURIER in row.traits
        or row.policy == "keeps"
        and Kernels.HALF not in row.kernels
        for name in (*row.functions, *row.methods)
    )


def is_indexed_write(op: Op) -> bool:
    """Whether an operator writes by index, mask or position."""
    return op in writes.ROWS


def operator(symbol: ast.operator) -> Op | None:
    """Find the operator behind `@`, `+`, `/` and the like."""
    name = _OPERATORS.get(type(symbol))
    return None if name is None else named(name)


def symbol_of(op: Op) -> ast.operator | None:
    """Find the symbol of an operation of two values: `+` of `add`."""
    return next(
        (kind() for kind, name in _OPERATORS.items() if name == op.name), None
    )
