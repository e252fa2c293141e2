"""Custom autograd functions and their decorators."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.spelling import Spelling
from amp_migrate.project.import_paths import resolved
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import AddDecorator, Edit
from amp_migrate.torch_facts import amp_api, ops
from amp_migrate.torch_facts.gradients import AUTOGRAD_FUNCTIONS

FORWARD = set(amp_api.names("custom_fwd"))
BACKWARD = set(amp_api.names("custom_bwd"))


class Custom(NamedTuple):
    """A class derived from `torch.autograd.Function`, and its methods."""

    program: Program
    node: ast.ClassDef

    def method(self, name: str) -> Function | None:
        """A method written in the class itself."""
        return next(
            (
                m
                for m in self.node.body
                if isinstance(m, FUNCTIONS) and m.name == name
            ),
            None,
        )


def functions(program: Program) -> Iterator[Custom]:
    """The custom functions of a module."""
    for node in program.graph.classes():
        bases = {program.canonical(base) for base in node.bases}
        if not bases.isdisjoint(AUTOGRAD_FUNCTIONS):
            yield Custom(program, node)


def multiplies(program: Program, node: ast.AST) -> bool:
    """Whether a node is an operation that autocast runs in half precision."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call):
        return False
    name = program.canonical(node.func)
    found = ops.function(name)
    if name is None and isinstance(node.func, ast.Attribute):
        found = ops.method(node.func.attr)
    return found is not None and found.op.policy == "lower"


def decorator(
    program: Program, method: Function, names: set[str]
) -> ast.expr | None:
    """The decorator of that name, called or not."""
    for found in method.decorator_list:
        if (
            program.canonical(
                found.func if isinstance(found, ast.Call) else found
            )
            in names
        ):
            return found
    return None


def writes_in_place(custom: Custom) -> bool:
    """Whether its forward writes into what it is given: of inputs that are cast, into copies."""
    forward = custom.method("forward")
    return forward is not None and any(
        isinstance(node, ast.Attribute) and node.attr == "mark_dirty"
        for node in nodes_in(forward)
    )


def unprotected(node: ast.AST, custom: Custom, *, elsewhere: bool) -> Refusal:
    """Why a region cannot run a custom function; `elsewhere`: where its file may be changed, it
    gets its decorators.
    """
    if writes_in_place(custom):
        return Refusal(
            "custom-function-without-custom_fwd-bwd",
            node,
            f"`{custom.node.name}` would get half tensors, and writes into what it is given: "
            "torch.amp.custom_fwd would hand it a copy. Call it with autocast switched off",
        )
    return Refusal(
        "custom-function-without-custom_fwd-bwd",
        node,
        (
            f"`{custom.node.name}` would get half tensors: decorate its forward with "
            "torch.amp.custom_fwd and its backward with custom_bwd"
        ),
        (resolved(custom.program.module.path),) if elsewhere else (),
    )


def decorate(program: Program, method: Function, text: str) -> Edit:
    """The method with one more decorator, next to the `def`."""
    return AddDecorator(program.module.span(method), text)


def written(spelling: Spelling, device: str, is_cast: bool) -> tuple[str, str]:
    """The decorators of forward and backward; `is_cast`: the inputs become float32."""
    th = spelling.torch
    cast = f"cast_inputs={th}.float32" if is_cast else ""
    if spelling.new_api or device != "cuda":
        given = ", ".join(filter(None, (f'device_type="{device}"', cast)))
        back = f'{th}.amp.custom_bwd(device_type="{device}")'
        return f"{th}.amp.custom_fwd({given})", back
    there = f"{th}.cuda.amp.custom_fwd"
    return f"{there}({cast})" if cast else there, f"{th}.cuda.amp.custom_bwd"
