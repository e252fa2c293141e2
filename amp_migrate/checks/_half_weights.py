"""Models, and what they get, that a call converts to half precision."""

from __future__ import annotations

import ast

from amp_migrate.model.autocast.dtype_choices import dtype_choices
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts.amp_api import HALVES

_EITHER = ("float16", "bfloat16")


def converts(
    program: Program, call: ast.Call, dtypes: tuple[str, ...] = ("float16",)
) -> bool:
    """`.half()`, `.to(torch.float16)`, `from_pretrained(torch_dtype=torch.float16)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "half":
        return not call.args
    given = [
        *call.args,
        *(
            one.value
            for one in call.keywords
            if one.arg in ("dtype", "torch_dtype")
        ),
    ]
    return call.func.attr in ("to", "from_pretrained") and any(
        _is_half(program, one, dtypes) for one in given
    )


def _is_half(
    program: Program,
    expr: ast.expr,
    dtypes: tuple[str, ...],
) -> bool:
    """Whether an argument is one of some types, or a variable that holds nothing else."""
    if HALVES.get(program.canonical(expr) or "") in dtypes:
        return True
    if not isinstance(expr, (ast.Name, ast.Attribute)):
        return False
    scope = program.module.scope_of(expr)
    choices = dtype_choices(program, expr, scope)
    return choices is not None and frozenset() < choices <= set(dtypes)


def bound_name(program: Program, call: ast.Call) -> str | None:
    """The variable that holds the converted thing: what it is assigned to, else what is converted
    in place.
    """
    statement = program.module.statement_of(call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        inner: ast.AST = statement.value
        while (
            inner is not call
            and isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
        ):
            inner = inner.func.value
        return dotted_name(statement.targets[0]) if inner is call else None
    if (
        isinstance(statement, ast.Expr)
        and statement.value is call
        and isinstance(call.func, ast.Attribute)
    ):
        return dotted_name(call.func.value)
    return None


def half_models(program: Program, scope: Scope) -> set[str]:
    """The names in a function under which models are made in half precision, or converted to it."""
    found = {
        bound_name(program, call)
        for call in scope.calls
        if converts(program, call, _EITHER)
        and (_is_loaded(call) or _is_model(program, call, scope))
    }
    return {name for name in found if name is not None}


def _is_loaded(call: ast.Call) -> bool:
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr == "from_pretrained"


def _is_model(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a method of a model is called."""
    func = call.func
    return isinstance(func, ast.Attribute) and program.values.is_model(
        func.value, scope
    )
