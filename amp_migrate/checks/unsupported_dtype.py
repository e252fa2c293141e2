"""Autocast is given a type that it does not support, and switches itself off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import CURRENT_TORCH, Finding, Rule, finding_at
from amp_migrate.checks._regions import without_gradients
from amp_migrate.config import Settings
from amp_migrate.model.autocast.dtype_choices import bound
from amp_migrate.model.autocast.regions import NEW, OLD, Region
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow

RULE = Rule("unsupported-dtype", severity="warning")
_TYPES = (
    "float32 float float64 double int8 int16 int32 int64 int long short uint8 bool "
    "complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()
_UNSUPPORTED = {f"torch.{name}" for name in _TYPES}

_WITH_PRODUCTS = {
    "Sequential",
    "Linear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "LSTM",
    "GRU",
    "Transformer",
    "DataParallel",
}
_WIDE = {"torch.float32", "torch.float", "torch.float64", "torch.double"}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Literal types that no autocast has, and float16 on an old CPU."""
    for use in program.uses.of(*NEW, *OLD):
        if use.call is None:
            continue
        region = program.regions.region(use.name, use.call)
        given = argument_of(use.call, 1, "dtype")
        said = (
            _wrong(program, region, given, settings)
            if given is not None and region.enabled is not False
            else None
        )
        if given is not None and said is not None:
            yield finding_at(program, given, RULE, said)


def _wrong(
    program: Program, region: Region, given: ast.expr, settings: Settings
) -> str | None:
    text = _text(program, given)
    if text is not None:
        return (
            "a string is no type: this raises on CUDA and switches autocast off on a CPU; "
            f"write `torch.{text}`"
        )
    name = program.canonical(given)
    if name in _UNSUPPORTED and not (
        name in _WIDE and _is_island(program, region)
    ):
        return (
            f"autocast has no `{name}`, so nothing runs in lower precision here: write "
            "torch.float16 or torch.bfloat16, or `enabled=False`"
        )
    if (
        region.device == "cpu"
        and region.dtype == "float16"
        and (settings.target_torch or CURRENT_TORCH) < (2, 2)
    ):
        return (
            "before torch 2.2 a CPU has no float16 autocast, and it switches itself off: "
            "write torch.bfloat16"
        )
    return None


def _text(program: Program, given: ast.expr) -> str | None:
    """A string, or what a variable or an attribute is given that is nothing but strings."""
    values = bound(program, given, program.module.scope_of(given))
    texts = [
        one.value if isinstance(one, ast.Constant) else None
        for one in ([one for one, _ in values] if values else [given])
    ]
    known = [one for one in texts if isinstance(one, str)]
    return known[0] if len(known) == len(texts) else None


def _is_island(program: Program, region: Region) -> bool:
    """On CUDA, a float32 region inside another one forces float32; without a model in it, in a
    method of one, or where nothing is trained, that is what it is for.
    """
    above = program.module.parents[region.call]
    block = (
        program.module.parents[above]
        if isinstance(above, ast.withitem)
        else above
    )
    if not isinstance(block, (ast.With, ast.AsyncWith, *FUNCTIONS)):
        return False
    scope = program.module.scope_of(block.body[0])
    function = scope.node
    is_part = isinstance(
        function, FUNCTIONS
    ) and program.effects.is_module_method(function)
    if is_part or without_gradients(program, region.call):
        return True
    return not any(
        _runs_model(program, node, scope)
        for one in block.body
        for node in shallow(one)
    )


def _runs_model(program: Program, node: ast.AST, scope: Scope) -> bool:
    """Whether a call runs more than an activation of torch.nn."""
    if not isinstance(node, ast.Call) or not program.effects.is_forward(
        node, scope
    ):
        return False
    name = program.values.of(node.func, scope).name or ""
    return (
        not name.startswith("torch.nn.")
        or name.rpartition(".")[2] in _WITH_PRODUCTS
    )
