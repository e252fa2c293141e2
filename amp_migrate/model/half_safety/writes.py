"""Writes that demand one dtype: by tensor index, by `scatter_` and its like, of products
in place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.forwards.buffers import is_tensor_index
from amp_migrate.model.half_safety.half_buffers import written_with_float
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.index_arrays import (
    index_parts,
    is_list_of_places,
    is_output,
    is_stretch,
)
from amp_migrate.model.half_safety.shared_dtypes import share_dtype
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import given_to, operands
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.ops import EVERY, Spelling

_RULE = "dtype-strict-inplace"
_HALF_METHODS = ("half", "bfloat16")


def by_index(asked: Asked, node: ast.Assign, scope: Scope) -> Iterator[Hazard]:
    """`buffer[mask] = half`, `u.data = half`; slices and integers convert."""
    for target in node.targets:
        if isinstance(target, ast.Attribute) and target.attr == "data":
            yield from _kept(asked, node, target, scope)
        if isinstance(target, ast.Subscript) and is_by_tensor(
            asked, target.slice, scope
        ):
            differ = _differ(asked, target.value, node.value, scope)
            if differ:
                yield from _mended(asked, node, target.value, node.value, scope)
            elif _is_demanded(asked, target, node.value, scope):
                yield _hazard(node, target.value, node.value)
            elif _is_open(asked, target.value, node.value, scope):
                yield _unknown(node, target.value)
            else:
                yield from written_with_float(
                    asked, node, target.value, node.value, scope
                )
        elif isinstance(target, ast.Tuple):
            yield from _together(asked, node, target.elts, scope)


def _together(
    asked: Asked, node: ast.Assign, targets: list[ast.expr], scope: Scope
) -> Iterator[Hazard]:
    """`values[mask], slopes[mask] = spline(x)`; no cast is possible of a part of what is given."""
    for part, target in enumerate(targets):
        if not isinstance(target, ast.Subscript) or not is_by_tensor(
            asked, target.slice, scope
        ):
            continue
        buffer = target.value
        given = asked.fact(node.value, scope)
        held = asked.fact(buffer, scope)
        if given.element(part).is_half and held.dtypes == DType.FLOAT:
            yield _hazard(node, buffer, node.value)._replace(casts=())
        elif given.container and given.elements:
            yield from written_with_float(
                asked, node, buffer, node.value, scope, part
            )


def _kept(
    asked: Asked, node: ast.Assign, target: ast.Attribute, scope: Scope
) -> Iterator[Hazard]:
    """Values that become those of a parameter or a buffer, with their dtype; `copy_` converts.
    What says `half()` itself is half without AMP, too.
    """
    if isinstance(node.value, ast.Call) and _is_cast(node.value):
        return
    is_half = asked.fact(node.value, scope).seen_half
    if is_half and not asked.fact(target.value, scope).seen_half:
        name = ast.unparse(target.value)
        message = f"`{name}` would become half precision here, and be read outside of autocast, too"
        yield Hazard(_RULE, node, (node.value,), message)


def _is_cast(call: ast.Call) -> bool:
    """`weight.data.half()`"""
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in _HALF_METHODS


def is_by_tensor(asked: Asked, index: ast.expr, scope: Scope) -> bool:
    """Whether an index is a tensor or a mask: by what it is, else by how it is written."""
    if isinstance(index, ast.Tuple):
        return any(is_by_tensor(asked, one, scope) for one in index.elts)
    if isinstance(index, (ast.Slice, ast.Constant)):
        return False
    if is_list_of_places(asked, index):
        return True
    fact = asked.fact(index, scope)
    dtypes = fact.dtypes
    if dtypes in (DType.NUMBER, DType.INTEGER):
        return dtypes == DType.INTEGER
    if dtypes == DType.OTHER and not fact.container:
        return False  # a string, the key of a dictionary
    if dtypes == DType.ARRAY and isinstance(index, ast.BinOp):
        sides = (index.left, index.right)  # `places + 1` is as much of an array
        return any(is_by_tensor(asked, one, scope) for one in sides)
    stretches = (is_stretch(asked, one) for one in index_parts(index))
    return is_tensor_index(index, scope) or any(stretches)


def _is_demanded(
    asked: Asked, target: ast.Subscript, value: ast.expr, scope: Scope
) -> bool:
    """Whether values that may be half meet a tensor of their own dtype, of which nothing else is
    known: an array as an index converts nothing, so that without AMP both were float32.
    """
    held = asked.fact(target.value, scope)
    if held.container or held.dtypes != DType.UNKNOWN:
        return False
    places = index_parts(target.slice)
    is_sure = any(is_stretch(asked, one) for one in places)
    is_given = is_output(asked, value, scope)
    return is_sure and is_given and asked.needs_cast(value, scope)


def of_call(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`buffer.index_add_(0, index, half)`, `distances.addmm_(a, b)`, computed parameters."""
    if found.op.strict == EVERY:
        yield from _product(asked, call, found, scope)
    elif found.op.strict is not None and not _is_promoted(asked, call, found):
        pair = written(call, found)
        if pair is not None and _differ(asked, *pair, scope):
            yield from _mended(asked, call, *pair, scope, found.form)
        elif pair is not None and _is_open(asked, *pair, scope):
            yield _unknown(call, pair[0])
        elif pair is not None and found.form != "in-place":
            if _differ(asked, pair[1], pair[0], scope):
                yield _hazard(call, pair[1], pair[0])
        elif pair is not None:
            yield from written_with_float(asked, call, *pair, scope)
    if found.policy == "lower":
        yield from _into(asked, call, found, scope)
    if found.op.float_parameters and found.form == "function":
        yield from _parameters(asked, call, found.op.float_parameters, scope)


def of_layer(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """`self.bag(words, per_sample_weights=self.attention(x))`."""
    row = layers.layer(asked.inference.program.values.of(call.func, scope).name)
    if row is not None and row.float_parameters:
        yield from _parameters(asked, call, row.float_parameters, scope)


def _is_promoted(asked: Asked, call: ast.Call, found: Spelling) -> bool:
    """Out of place, autocast brings the operands of `scatter_add` together."""
    return found.policy == "promote" and asked.inference.inside(call)


def written(
    call: ast.Call, found: Spelling
) -> tuple[ast.expr, ast.expr] | None:
    """The tensor that is written, and the values."""
    given = given_to(found, call)
    place = found.op.strict
    assert isinstance(place, int)
    named = [one.value for one in call.keywords if one.arg in _SOURCES]
    if not given or not (named or place < len(given)):
        return None
    return given[0], named[0] if named else given[place]


_SOURCES = ("src", "source", "values", "tensor")


def _hazard(node: ast.AST, buffer: ast.expr, value: ast.expr) -> Hazard:
    """Half values that are written into a float32 buffer, which takes no other dtype."""
    message = (
        f"`{ast.unparse(buffer)}` is float32, and nothing is converted here"
    )
    return Hazard(_RULE, node, (value,), message)


def _mended(
    asked: Asked,
    node: ast.AST,
    buffer: ast.expr,
    value: ast.expr,
    scope: Scope,
    form: str = "in-place",
) -> Iterator[Hazard]:
    """Half values that meet float32: it takes them as float32; where it is half on another path,
    both become float32, or what is half alone takes the dtype that it has.
    """
    held, given = asked.fact(buffer, scope), asked.fact(value, scope)
    is_named = dotted_name(buffer) is not None
    if not held.may_be_half or not (held.seen_half or is_named):
        yield _hazard(node, buffer, value)
    elif form != "in-place":
        message = _on_some_paths(buffer)
        yield Hazard(_RULE, node, (buffer, value), message)
    elif held.seen_half and DType.FLOAT in given.dtypes:
        yield from written_with_float(asked, node, buffer, value, scope)
    else:
        casts = (value,) if is_named else ()
        message = _on_some_paths(buffer)
        yield Hazard(_RULE, node, casts, message, like=buffer)


def _on_some_paths(buffer: ast.expr) -> str:
    return (
        f"`{ast.unparse(buffer)}` is float32 on some paths and may be half on others, and nothing "
        "is converted here"
    )


def _differ(
    asked: Asked, buffer: ast.expr, value: ast.expr, scope: Scope
) -> bool:
    """Whether half values meet a buffer that is float32 on a path in sight; values that may be
    half, one that is nothing else.
    """
    held = asked.fact(buffer, scope)
    if held.container or DType.FLOAT not in held.dtypes:
        return False
    is_float = held.dtypes == DType.FLOAT
    is_half = bool(asked.fact(value, scope).dtypes & DType.HALF)
    if not is_half and not (is_float and asked.needs_cast(value, scope)):
        return False
    return not share_dtype(asked, buffer, value)


def _is_open(
    asked: Asked, buffer: ast.expr, value: ast.expr, scope: Scope
) -> bool:
    """Whether half values meet a buffer of which nothing tells the dtype: it may be float32."""
    held = asked.fact(buffer, scope)
    if held.container or held.dtypes != DType.UNKNOWN:
        return False
    is_half = asked.fact(value, scope).seen_half
    return is_half and not share_dtype(asked, buffer, value)


def _unknown(node: ast.AST, buffer: ast.expr) -> Hazard:
    message = (
        f"nothing shows the dtype of `{ast.unparse(buffer)}`, and half "
        "values that are written here must have it"
    )
    return Hazard(_RULE, node, (), message)


def _product(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`distances.addmm_(x, x.t())` is not autocast: the factors must have the tensor's dtype."""
    is_out = any(one.arg == "out" for one in call.keywords)
    if (
        found.form != "in-place"
        or not isinstance(call.func, ast.Attribute)
        or is_out
    ):
        return
    factors = [
        *call.args,
        *(one.value for one in call.keywords if one.arg in _FACTORS),
    ]
    casts = [one for one in factors if asked.needs_cast(one, scope)]
    if not casts:
        return
    held = asked.fact(call.func.value, scope)
    message = (
        f"`{call.func.attr}` is not autocast, and half operands would not match: use the form "
        "without the underscore"
    )
    is_float = held.dtypes == DType.FLOAT
    yield Hazard(
        _RULE if is_float else "out=-or-inplace-matmul",
        call,
        tuple(casts) if is_float else (),
        message,
    )


def _into(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`torch.matmul(a, b, out=buffer)` is not autocast either, and the buffer is float32."""
    named = (one.value for one in call.keywords if one.arg == "out")
    into = next(named, None)
    if into is None or DType.FLOAT not in asked.fact(into, scope).dtypes:
        return
    given = operands(found, call)
    casts = tuple(one for one in given if asked.needs_cast(one, scope))
    if casts:
        message = f"`{ast.unparse(into)}` is float32, and takes no half product"
        yield Hazard(_RULE, call, casts, message)


_FACTORS = ("mat1", "mat2", "batch1", "batch2", "mat", "vec", "vec1", "vec2")


def _parameters(
    asked: Asked,
    call: ast.Call,
    wanted: tuple[tuple[int, str], ...],
    scope: Scope,
) -> Iterator[Hazard]:
    """`F.batch_norm(h, mean, var, weight, bias)` with a weight that a layer computed."""
    named = {one.arg: one.value for one in call.keywords}
    given = [call.args[i] for i, _ in wanted if i < len(call.args)]
    given += [named[name] for _, name in wanted if name in named]
    casts = tuple(one for one in given if asked.fact(one, scope).seen_half)
    if casts:
        message = f"`{ast.unparse(call.func)}` wants its parameters in float32"
        yield Hazard(_RULE, call, casts, message)
