"""Methods that Lightning runs under autocast: the steps of a module, where every Trainer in sight
is made for half precision.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.autocast.dtype_choices import bound
from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.torch_facts.frameworks import (
    LIGHTNING_PRECISIONS,
    LIGHTNING_STEPS,
    LIGHTNING_TRAINERS,
)

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 3
_MODULE = ".LightningModule"


def lightning_regions(
    program: Program,
) -> Iterator[tuple[Function, ast.Call, frozenset[str]]]:
    """Methods, the call that makes a Trainer, and the dtypes that it may compute in."""
    if "ightning" not in program.module.text:
        return
    calls = [
        (call, scope)
        for scope in program.module.scopes.values()
        for call in scope.calls
        if program.canonical(call.func) in LIGHTNING_TRAINERS
    ]
    given = [_precisions(program, call, scope) for call, scope in calls]
    if not calls or any(one is None for one in given):
        return
    found = frozenset().union(*(one or () for one in given))
    dtypes = frozenset(
        LIGHTNING_PRECISIONS.get(one, "float32") for one in found
    )
    if dtypes <= {"float32"}:
        return
    for cls in program.graph.classes():
        if _is_module(program, cls):
            for name in LIGHTNING_STEPS:
                method = program.graph.method(cls, name)
                if method is not None:
                    yield method, calls[0][0], dtypes


def _is_module(program: Program, cls: ast.ClassDef) -> bool:
    return any(
        (program.canonical(base) or "").endswith(_MODULE)
        for one in program.graph.lineage(cls)
        for base in one.bases
    )


def _precisions(
    program: Program, call: ast.Call, scope: Scope
) -> frozenset[str] | None:
    """The values of `precision`, by keyword or in what is unpacked; None where they are not all
    in sight.
    """
    found: frozenset[str] | None = frozenset({"None"})
    for keyword in call.keywords:
        if keyword.arg == "precision":
            return _texts(program, keyword.value, scope, _HOPS)
        if keyword.arg is None:
            found = _unpacked(program, keyword.value, scope)
    return found


def _unpacked(
    program: Program, expr: ast.expr, scope: Scope
) -> frozenset[str] | None:
    """`precision` of a dict that stands in sight, or of `dict(...)`."""
    function = scope.node
    if (
        isinstance(expr, ast.Name)
        and isinstance(function, FUNCTIONS)
        and function.args.kwarg is not None
        and function.args.kwarg.arg == expr.id
    ):
        return _of_callers(program, function)
    kept = bound(program, expr, scope) or [(expr, scope)]
    table = kept[0][0]
    if len(kept) > 1:
        return None
    entries: list[tuple[str | None, ast.expr]] = []
    if isinstance(table, ast.Dict):
        entries = [
            (_text(key), value)
            for key, value in zip(table.keys, table.values, strict=True)
            if key is not None
        ]
    elif isinstance(table, ast.Call) and isinstance(table.func, ast.Name):
        if table.func.id == "dict" and not table.args:
            entries = [(one.arg, one.value) for one in table.keywords]
    wanted = [value for name, value in entries if name == "precision"]
    where = kept[0][1]
    return _texts(program, wanted[0], where, _HOPS) if wanted else None


def _of_callers(program: Program, function: Function) -> frozenset[str] | None:
    """What the callers of a function pass on as `precision` among further keywords."""
    found: frozenset[str] | None = frozenset()
    for site in program.graph.sites(function):
        given = _precisions(program, site.call, site.scope)
        if given is None or found is None:
            return None
        found |= given
    return found or None


def _texts(
    program: Program, expr: ast.expr, scope: Scope, hops: int
) -> frozenset[str] | None:
    """The constants that an expression may be, as text; None where some are not in sight."""
    if isinstance(expr, ast.Constant):
        return frozenset({str(expr.value)})
    if isinstance(expr, ast.IfExp):
        parts = [(expr.body, scope), (expr.orelse, scope)]
    elif hops:
        parts = bound(program, expr, scope) or _passed(program, expr, scope)
    else:
        parts = []
    found = [_texts(program, one, where, hops - 1) for one, where in parts]
    if not found or any(one is None for one in found):
        return None
    return frozenset().union(*(one or () for one in found))


def _passed(
    program: Program, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """What callers give for a parameter, and its default where they give nothing."""
    function = scope.node
    if not isinstance(expr, ast.Name) or not isinstance(function, FUNCTIONS):
        return []
    default = default_of(function, expr.id)
    found: list[tuple[ast.expr, Scope]] = []
    for site in program.graph.sites(function):
        given = argument(site.call, scope, expr.id, site.bound) or default
        if given is None:
            return []
        found.append((given, site.scope))
    return found or ([(default, scope)] if default is not None else [])


def _text(key: ast.expr) -> str | None:
    known = isinstance(key, ast.Constant) and isinstance(key.value, str)
    return ast.literal_eval(key) if known else None
