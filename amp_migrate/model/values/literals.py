"""What constants and flags are, through the names that hold them."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.torch_facts.amp_api import FINFO, FLOAT32, FLOAT32_LIMITS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_FLAG_CALLS = {"bool", "isinstance", "hasattr", "callable", "any", "all"}
_NUMBER_CALLS = {"int", "float", "len", "max", "min", "round", "abs"}
_DEEP = 6
_CONSTANTS = {
    f"{library}.{name}": value
    for library in ("math", "numpy", "torch")
    for name, value in (("pi", math.pi), ("e", math.e), ("inf", math.inf))
}


def number(expr: ast.expr, scope: Scope, deep: int = _DEEP) -> float | None:
    """The value of a numeric literal, of arithmetic with such, of `float("-1e9")` or `math.pi`, or
    of a name that is bound once to one.
    """
    if deep == 0:
        return None
    if isinstance(expr, ast.UnaryOp) and isinstance(
        expr.op, (ast.USub, ast.UAdd)
    ):
        inner = number(expr.operand, scope, deep - 1)
        return (
            -inner
            if inner is not None and isinstance(expr.op, ast.USub)
            else inner
        )
    if isinstance(expr, ast.Constant):
        return _constant(expr.value)
    if isinstance(expr, ast.BinOp):
        return computed(
            expr,
            number(expr.left, scope, deep - 1),
            number(expr.right, scope, deep - 1),
        )
    if (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Name)
        and expr.func.id == "float"
        and expr.args
    ):
        told = _float_of(expr.args[0])
        return number(expr.args[0], scope, deep - 1) if told is None else told
    if isinstance(expr, ast.Attribute):
        named = _CONSTANTS.get(scope.module.canonical(expr) or "")
        return _limit(expr, scope) if named is None else named
    value = _only_value(expr, scope)
    return number(value[0], value[1], deep - 1) if value is not None else None


def _limit(expr: ast.Attribute, scope: Scope) -> float | None:
    """`torch.finfo(torch.float32).min`; of another tensor's dtype it fits that dtype."""
    made = expr.value
    if (
        not isinstance(made, ast.Call)
        or scope.module.canonical(made.func) not in FINFO
    ):
        return None
    dtype = (
        scope.module.canonical(made.args[0]) if made.args else "torch.float32"
    )
    return FLOAT32_LIMITS.get(expr.attr) if dtype in FLOAT32 else None


def limited(expr: ast.expr, scope: Scope) -> ast.expr | None:
    """The tensor of `torch.finfo(tensor.dtype).min` and `.max`."""
    if not (isinstance(expr, ast.Attribute) and expr.attr in ("min", "max")):
        return None
    made = expr.value
    if (
        not isinstance(made, ast.Call)
        or scope.module.canonical(made.func) not in FINFO
    ):
        return None
    dtype = made.args[0] if made.args else None
    if isinstance(dtype, ast.Attribute) and dtype.attr == "dtype":
        return dtype.value
    return None


def _constant(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return (
        float(value)
        if isinstance(value, float) or abs(value) < 10**300
        else None
    )


def computed(
    expr: ast.BinOp, left: float | None, right: float | None
) -> float | None:
    if left is None or right is None:
        return None
    try:
        if isinstance(expr.op, ast.Pow):
            power = left**right if abs(right) < 100 else None
            return power if isinstance(power, float) else None
        if isinstance(expr.op, ast.Mult):
            return left * right
        if isinstance(expr.op, (ast.Add, ast.Sub)):
            return (
                left + right if isinstance(expr.op, ast.Add) else left - right
            )
        return left / right if isinstance(expr.op, ast.Div) else None
    except ArithmeticError:
        return None


def _float_of(expr: ast.expr) -> float | None:
    try:
        if not isinstance(expr, ast.Constant):
            return None
        value = expr.value
        return float(value) if isinstance(value, (str, int, float)) else None
    except ValueError:
        return None


def _only_value(expr: ast.expr, scope: Scope) -> tuple[ast.expr, Scope] | None:
    """What the single assignment to a plain name gives it, and where."""
    if (
        not isinstance(expr, ast.Name)
        or (home := scope.lookup(expr.id)) is None
    ):
        return None
    bindings = home.bindings[expr.id]
    value = bindings[0].value
    return (
        (value, home)
        if len(bindings) == 1
        and bindings[0].how == "assign"
        and value is not None
        else None
    )


def is_number(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether `expr` is a plain Python number: a literal, `math.sqrt(d)`, `x.size(-1) ** -0.5`, a
    name of one.
    """
    if deep == 0:
        return False
    if isinstance(expr, ast.Constant):
        return isinstance(expr.value, (int, float))
    if isinstance(expr, ast.UnaryOp):
        return is_number(program, expr.operand, scope, deep - 1)
    if isinstance(expr, ast.BinOp):
        return all(
            is_number(program, side, scope, deep - 1)
            for side in (expr.left, expr.right)
        )
    if isinstance(expr, ast.Subscript):
        return (
            isinstance(expr.value, ast.Attribute) and expr.value.attr == "shape"
        )
    if isinstance(expr, ast.Call):
        return _calls_number(program, expr)
    return held_as(
        program,
        expr,
        scope,
        lambda value, home: is_number(program, value, home, deep - 1),
    )


def _calls_number(program: Program, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in _NUMBER_CALLS:
        return True
    if isinstance(call.func, ast.Attribute) and call.func.attr in (
        "size",
        "item",
        "numel",
    ):
        return bool(call.args) or call.func.attr != "size"
    name = program.canonical(call.func) or ""
    return name.startswith("math.") or name in (
        "numpy.sqrt",
        "numpy.log",
        "numpy.prod",
    )


def is_flag(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether `expr` is a truth value: a literal, a comparison, a test of the device, a name or
    option with one.
    """
    if deep == 0:
        return False
    told = flag_by_form(
        program, expr, lambda part: is_flag(program, part, scope, deep - 1)
    )
    if told is not None:
        return told
    if isinstance(expr, ast.Attribute) and expr.attr in _options(program):
        return True
    return held_as(
        program,
        expr,
        scope,
        lambda value, home: is_flag(program, value, home, deep - 1),
    )


def flag_by_form(
    program: Program, expr: ast.expr, asked: Callable[[ast.expr], bool]
) -> bool | None:
    """Whether an expression is a truth value by what it is made of, whose parts are `asked`; None
    for a name and an attribute, which hold what they were given.
    """
    if isinstance(expr, ast.Constant):
        return isinstance(expr.value, bool)
    if isinstance(expr, ast.Compare):
        return True
    if isinstance(expr, ast.UnaryOp):
        return isinstance(expr.op, ast.Not)
    if isinstance(expr, ast.BoolOp):
        return all(map(asked, expr.values))
    if isinstance(expr, ast.IfExp):
        return asked(expr.body) and asked(expr.orelse)
    if isinstance(expr, ast.Call):
        return _calls_flag(program, expr)
    return None


def _calls_flag(program: Program, call: ast.Call) -> bool:
    """Whether a call gives a truth value."""
    if isinstance(call.func, ast.Name) and call.func.id in _FLAG_CALLS:
        return True
    if isinstance(call.func, ast.Attribute) and call.func.attr in (
        "is_enabled",
        "startswith",
        "endswith",
    ):
        return True
    name = program.canonical(call.func) or ""
    return name.startswith("torch.") and name.rpartition(".")[2].startswith(
        ("is_", "has_")
    )


def _options(program: Program) -> frozenset[str]:
    """Names of the switches that the module's argument parsers define."""
    found = set()
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "add_argument"
                and _is_switch(call)
            ):
                names = [
                    one.value
                    for one in call.args
                    if isinstance(one, ast.Constant)
                    and isinstance(one.value, str)
                ]
                found |= {
                    name.lstrip("-").replace("-", "_")
                    for name in names
                    if name.startswith("--")
                }
    return frozenset(found)


def _is_switch(call: ast.Call) -> bool:
    for keyword in call.keywords:
        action = (
            keyword.value.value
            if isinstance(keyword.value, ast.Constant)
            else None
        )
        if keyword.arg == "action" and action in ("store_true", "store_false"):
            return True
        if (
            keyword.arg == "type"
            and isinstance(keyword.value, ast.Name)
            and keyword.value.id == "bool"
        ):
            return True
    return False


def held_as(
    program: Program,
    expr: ast.expr,
    scope: Scope,
    wanted: Callable[[ast.expr, Scope], bool],
) -> bool:
    """Whether all that a name or `self` attribute is bound to, defaults and annotations included,
    is `wanted`.
    """
    if isinstance(expr, ast.Name):
        home = scope.lookup(expr.id)
        bindings = home.bindings[expr.id] if home is not None else []
        return (
            home is not None
            and bool(bindings)
            and all(_is_wanted(one, home, expr.id, wanted) for one in bindings)
        )
    name = dotted_name(expr) or ""
    head, _, attribute = name.partition(".")
    cls = (
        program.graph.class_around(scope)
        if attribute and "." not in attribute
        else None
    )
    if cls is None or not _is_self(head, scope):
        return False
    owner = program.module.scopes[cls]
    bindings = owner.bindings.get(f"self.{attribute}", [])
    return bool(bindings) and all(
        _is_wanted(
            one, program.module.scope_of(one.statement), attribute, wanted
        )
        for one in bindings
    )


def _is_self(head: str, scope: Scope) -> bool:
    here: Scope | None = scope
    while here is not None and here.self_name is None:
        here = here.parent
    return here is not None and here.self_name == head


def _is_wanted(
    binding: Binding,
    home: Scope,
    name: str,
    wanted: Callable[[ast.expr, Scope], bool],
) -> bool:
    if binding.how == "parameter":
        return _parameter_is(home, name, wanted)
    return (
        binding.how in ("assign", "walrus")
        and binding.index is None
        and binding.value is not None
        and wanted(binding.value, home)
    )


def _parameter_is(
    home: Scope, name: str, wanted: Callable[[ast.expr, Scope], bool]
) -> bool:
    if not isinstance(home.node, FUNCTIONS):
        return False
    arguments = home.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip(
            (one.arg for one in reversed(positional)),
            reversed(arguments.defaults),
            strict=False,
        )
    )
    defaults |= {
        one.arg: value
        for one, value in zip(
            arguments.kwonlyargs, arguments.kw_defaults, strict=True
        )
        if value is not None
    }
    annotation = next(
        (one.annotation for one in home.parameters() if one.arg == name), None
    )
    if isinstance(annotation, ast.Name) and annotation.id in (
        "bool",
        "int",
        "float",
    ):
        return wanted(_EXAMPLES[annotation.id], home)
    return name in defaults and wanted(defaults[name], home)


_EXAMPLES: dict[str, ast.expr] = {
    "bool": ast.Constant(True),
    "int": ast.Constant(1),
    "float": ast.Constant(1.0),
}
