"""Operations that must be computed in float32: their statement runs with autocast switched off."""

from __future__ import annotations

import ast
from collections.abc import Collection

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts import layers, ops

_WITHOUT_PARAMETERS = (
    one
    for one in ops.normalization.ROWS
    if one.policy == "keeps" and not one.float_parameters
)
_PLAIN = frozenset(
    (
        *ops.pointwise.ROWS,
        *ops.reductions.ROWS,
        *ops.shapes.ROWS,
        *_WITHOUT_PARAMETERS,
    )
)
_NUMBERS = frozenset(
    ("len", "int", "float", "bool", "range", "round", "abs", "str", "repr")
)
"""Builtins that run nothing that they are given, keys of tables among them."""
_DEEP = 2
"""Functions within functions."""
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)


def is_island(
    asked: Asked,
    statement: ast.stmt,
    wanted: Collection[ast.AST],
    *,
    products_may: bool = False,
) -> bool:
    """Whether a statement computes with nothing but operators of torch, of which none but the
    `wanted`, and with `products_may` products of matrices, would be autocast, or gets anything but
    float32: layers and functions in it would get what they do not expect.
    """
    scope = asked.inference.program.module.scope_of(statement)
    if not isinstance(statement, _SIMPLE) or not isinstance(
        scope.node, (*FUNCTIONS, ast.Module)
    ):
        return False
    made = _made_for(asked, wanted)
    layers_may = all(_is_layer(asked, one, scope) for one in wanted)
    for inner in nodes_in(statement):
        if isinstance(inner, (ast.Lambda, ast.Yield, ast.Await)):
            return False
        if inner in wanted or inner in made:
            continue
        if products_may and _is_product(asked, inner, scope):
            continue
        if is_lowered(asked, inner, scope):
            if not (layers_may and _gets_float32(asked, inner, scope)):
                return False
    return True


def _is_product(asked: Asked, node: ast.AST, scope: Scope) -> bool:
    """`torch.mm(x, w)`, an operator that computes in float32 what it gets in float32."""
    found = _lowering(asked, node, scope)
    return found is not None and all(
        asked.fact(one, scope).may_be_tensor for one in found
    )


def _lowering(
    asked: Asked, node: ast.AST, scope: Scope
) -> list[ast.expr] | None:
    """What an operator gets that autocast computes in half precision; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return [node.left, node.right]
    if not isinstance(node, ast.Call):
        return None
    found = spelled(asked.inference, node, scope)
    is_plain = found is not None and not found.op.always_breaks
    if found is None or not is_plain or found.policy != "lower":
        return None
    return operands(found, node)


def _is_layer(asked: Asked, node: ast.AST, scope: Scope) -> bool:
    """Whether a call runs a layer: beside an operator, it would get a statement of its own."""
    if not isinstance(node, ast.Call):
        return False
    return spelled(asked.inference, node, scope) is None


def _gets_float32(asked: Asked, node: ast.AST, scope: Scope) -> bool:
    """Whether an operator or a layer of torch is given nothing but float32: as its weights are, so
    that it computes there as it did before.
    """
    if isinstance(node, ast.BinOp):
        given = [node.left, node.right]
    elif isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        made = asked.inference.program.values.of(node.func, scope)
        row = layers.layer(made.name)
        if found is None and (row is None or row.role != "layer"):
            return False
        given = operands(found, node) if found is not None else node.args
    else:
        return False
    facts = [asked.fact(one, scope) for one in given]
    return bool(facts) and all(one.dtypes == DType.FLOAT for one in facts)


def _made_for(asked: Asked, wanted: Collection[ast.AST]) -> list[ast.Call]:
    """`nn.BCELoss()` of `nn.BCELoss()(p, y)`: making a layer of torch computes nothing."""
    found = (one.func for one in wanted if isinstance(one, ast.Call))
    canonical = asked.inference.program.canonical
    return [
        one
        for one in found
        if isinstance(one, ast.Call)
        and layers.layer(canonical(one.func)) is not None
    ]


def is_lowered(
    asked: Asked, node: ast.AST, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether autocast may have a hand in what a node computes."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call):
        return False
    found = spelled(asked.inference, node, scope)
    if found is None:
        return not (
            _is_plain_layer(asked, node, scope)
            or _is_number(asked, node, scope)
            or _is_plain_function(asked, node, scope, deep)
        )
    return found.policy in ("lower", "banned") or found.op.always_breaks


def _is_plain_function(
    asked: Asked, call: ast.Call, scope: Scope, deep: int
) -> bool:
    """`normalize(v)` of a function in sight that gives back what operators of torch make of its
    arguments, for which any dtype will do.
    """
    program = asked.inference.program
    functions = program.values.callees(call, scope) if deep else []
    return bool(functions) and all(
        _only_computes(statement)
        and not any(
            isinstance(one, (ast.Lambda, ast.Yield, ast.Await))
            or is_lowered(asked, one, program.scope(function), deep - 1)
            for one in nodes_in(statement)
        )
        for function in functions
        for statement in function.body
    )


def _only_computes(statement: ast.stmt) -> bool:
    """Whether a statement gives a value back, gives one to names, or is a docstring: it neither
    chooses nor writes into what it was given.
    """
    if isinstance(statement, ast.Assign):
        return all(isinstance(one, ast.Name) for one in statement.targets)
    is_text = isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Constant
    )
    return is_text or isinstance(statement, ast.Return)


def _is_number(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    """`len(x)`, of the builtin; `math.log(2 * math.pi)`."""
    if (asked.inference.program.canonical(call.func) or "").startswith("math."):
        return True
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return name in _NUMBERS and scope.lookup(name) is None


def operands_of_products(
    asked: Asked, statement: ast.stmt, wanted: Collection[ast.AST]
) -> list[ast.expr]:
    """What products of matrices of a statement get, but for the `wanted`: what is outside before
    what is within.
    """
    scope = asked.inference.program.module.scope_of(statement)
    return [
        one
        for node in nodes_in(statement)
        if node not in wanted
        for one in _lowering(asked, node, scope) or ()
    ]


def raised_operands(asked: Asked, statement: ast.stmt) -> list[ast.expr]:
    """What operators of a statement get in half precision that autocast would bring to float32, and
    no longer does where it is off.
    """
    scope = asked.inference.program.module.scope_of(statement)
    found: list[ast.expr] = []
    for node in nodes_in(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            half = asked.fact(node.left, scope).seen_half
            found += [node.left] if half else []
        made = (
            spelled(asked.inference, node, scope)
            if isinstance(node, ast.Call)
            else None
        )
        if made is not None and made.policy == "fp32":
            assert isinstance(node, ast.Call)
            given = operands(made, node)
            found += [one for one in given if asked.fact(one, scope).seen_half]
        elif made is not None and made.policy == "promote":
            assert isinstance(node, ast.Call)
            given = operands(made, node)
            narrow = [one for one in given if asked.needs_cast(one, scope)]
            found += narrow if len(narrow) < len(given) else []
        elif made is None and isinstance(node, ast.Call):
            found += _handed_in_half(asked, node, scope)
    return found


def _handed_in_half(
    asked: Asked, call: ast.Call, scope: Scope
) -> list[ast.expr]:
    """What a function in sight gets, whose own operators autocast would bring to float32."""
    if not asked.inference.program.values.callees(call, scope):
        return []
    given = [*call.args, *(one.value for one in call.keywords)]
    return [one for one in given if asked.fact(one, scope).seen_half]


def _is_plain_layer(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    """`self.softmax(x)`: a layer without parameters, for which any dtype will do."""
    made = asked.inference.program.values.of(call.func, scope)
    row = layers.layer(made.name)
    op = row.op if row is not None and row.role == "layer" else None
    return op is not None and op.policy != "lower" and op in _PLAIN
