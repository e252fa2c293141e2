"""What a program demands of dtypes itself: float32 where autocast gives half, and gradients that
GradScaler has no kernel for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import constants_in
from amp_migrate.model.tensors.fact import DType
from amp_migrate.torch_facts.amp_api import (
    FLOATS,
    INTEGERS,
    RAW_POINTER,
)
from amp_migrate.torch_facts.float_libraries import FLOAT_ONLY

_BITS = "ops-without-half-kernel"
_OLD_TYPES = "hard-coded-float-tensors"
_FLOATS = frozenset(name for name in FLOATS if name.endswith("Tensor"))


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`assert x.element_size() == 4`, and raw pointers, behind which foreign code expects
    float32.
    """
    if isinstance(node, ast.Call) and is_raw_pointer(node):
        assert isinstance(node.func, ast.Attribute)
        if asked.fact(node.func.value, scope).seen_half:
            message = f"`{ast.unparse(node)}` hands the bytes of a half tensor to code out of sight"
            yield Hazard("ops-without-half-kernel", node, (), message)
    if isinstance(node, ast.Call):
        yield from _handed_abroad(asked, node, scope)
        yield from _read_as_bits(asked, node, scope)
    for tested in _of_old_type(asked.inference.program, node):
        if asked.fact(tested, scope).seen_half:
            message = f"`{ast.unparse(node)}` is no longer true where autocast gives half"
            yield Hazard(_OLD_TYPES, node, (tested,), message)
    if isinstance(node, ast.Assert):
        tests: list[ast.expr] = [node.test]
    elif isinstance(node, ast.If) and any(
        isinstance(one, ast.Raise) for one in node.body
    ):
        tests = [node.test]
    else:
        return
    for compared in (one for test in tests for one in ast.walk(test)):
        if isinstance(compared, ast.Compare):
            yield from _sized(asked, compared, scope)


def _read_as_bits(
    asked: Asked, call: ast.Call, scope: Scope
) -> Iterator[Hazard]:
    """`x.view(torch.int32)`, which reads two halves as one number."""
    func, given = call.func, call.args
    if not isinstance(func, ast.Attribute) or func.attr != "view":
        return
    named = asked.inference.program.canonical(given[0]) if given else None
    if named in INTEGERS and asked.fact(func.value, scope).seen_half:
        message = f"`{ast.unparse(call)}` reads the bits of a half tensor"
        yield Hazard(_BITS, call, (func.value,), message)


def _handed_abroad(
    asked: Asked, call: ast.Call, scope: Scope
) -> Iterator[Hazard]:
    """Half tensors for a library whose kernels take none."""
    name = asked.inference.program.canonical(call.func) or ""
    if not name.startswith(FLOAT_ONLY):
        return
    given = [*call.args, *(one.value for one in call.keywords)]
    half = [one for one in given if asked.fact(one, scope).seen_half]
    if half:
        message = f"`{name}` has no kernel for half precision"
        yield Hazard("ops-without-half-kernel", call, tuple(half), message)


def _of_old_type(program: Program, node: ast.AST) -> Iterator[ast.expr]:
    """`x` of `isinstance(x, torch.cuda.FloatTensor)` and `x.type() == "torch.cuda.FloatTensor"`,
    which ask for a device and a dtype at once.
    """
    if isinstance(node, ast.Call) and len(node.args) == 2:
        called = program.canonical(node.func) == "builtins.isinstance"
        named = isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if (called or named) and any(
            (program.canonical(one) or "") in _FLOATS
            for one in _alternatives(node.args[1])
        ):
            yield node.args[0]
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for side in sides if constants_in(node) & _FLOATS else ():
            if isinstance(side, ast.Call) and not side.args:
                func = side.func
                if isinstance(func, ast.Attribute) and func.attr == "type":
                    yield func.value


def _alternatives(kinds: ast.expr) -> list[ast.expr]:
    return kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]


def is_raw_pointer(node: ast.AST) -> bool:
    """`x.data_ptr()`"""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == RAW_POINTER
    )


def _sized(asked: Asked, test: ast.Compare, scope: Scope) -> Iterator[Hazard]:
    for side in (test.left, *test.comparators):
        sized = _measured(side)
        if sized is not None and asked.fact(sized, scope).seen_half:
            message = f"`{ast.unparse(side)}` is 2 where autocast makes it half"
            yield Hazard(
                "half-outside-autocast", test, (), message, demanded=True
            )


def _measured(side: ast.expr) -> ast.expr | None:
    """`x` of `x.element_size()`"""
    func = side.func if isinstance(side, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "element_size":
        return func.value
    return None


def complex_parameters(asked: Asked) -> Iterator[Hazard]:
    """`nn.Parameter(torch.randn(n, dtype=torch.cfloat))`: its gradient cannot be unscaled."""
    program = asked.inference.program
    for call, scope in program.remembered(
        complex_parameters, lambda: list(_parameters(program))
    ):
        if asked.fact(call.args[0], scope).dtypes == DType.COMPLEX:
            message = "GradScaler has no kernel that unscales the gradients of complex numbers"
            yield Hazard("ops-without-half-kernel", call, (), message)


def _parameters(program: Program) -> Iterator[tuple[ast.Call, Scope]]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = program.canonical(call.func) or ""
            if (
                name.startswith("torch.nn.")
                and name.endswith(".Parameter")
                and call.args
            ):
                yield call, scope
