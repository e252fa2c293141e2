"""Devices that are CUDA's exactly where CUDA is available, whatever they are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.devices.forms import Form
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.model.syntax.queries import nodes_in

_ASKED = "torch.cuda.is_available"
_DEEP = 8


def follows_cuda(
    program: Program, devices: Devices, expr: ast.expr, scope: Scope
) -> bool:
    """Whether `expr` is a CUDA device where there is one, and the CPU where there is none: what
    names no choice, as `"cuda"`, fails there by itself.
    """
    return _Choices(program, devices).follows(expr, scope, _DEEP)


def asks_cuda(program: Program, test: ast.expr) -> bool:
    """`torch.cuda.is_available()`, or a name that holds nothing else."""
    if isinstance(test, ast.Call):
        return program.canonical(test.func) == _ASKED
    dotted = dotted_name(test)
    if dotted is None or test not in program.module.parents:
        return False
    reach = program.reaching.at(test, dotted)
    values = [
        b.value for b in reach.bindings if b.how == "assign" and b.index is None
    ]
    whole = reach.complete and len(values) == len(reach.bindings)
    return (
        bool(values)
        and whole
        and all(_is_question(program, value) for value in values)
    )


def asked_of_tensor(program: Program, expr: ast.expr) -> bool:
    """Whether a device is that of a tensor, `"cuda" if x.is_cuda else "cpu"`, `xs[0].device`: what
    is moved there follows the tensor, and chooses nothing.
    """
    if isinstance(expr, ast.Attribute) and isinstance(
        expr.value, (ast.Subscript, ast.Call)
    ):
        return expr.attr == "device"
    if isinstance(expr, ast.Attribute) and isinstance(expr.value, ast.Name):
        if expr.attr == "device" and _has_shape(program, expr.value):
            return True
    if isinstance(expr, ast.IfExp):
        test = expr.test
        return isinstance(test, ast.Attribute) and test.attr == "is_cuda"
    if isinstance(expr, ast.Call):
        return (
            isinstance(expr.func, ast.Attribute)
            and expr.func.attr == "get_device"
            and program.canonical(expr.func) is None
        )
    dotted = dotted_name(expr)
    if dotted is None or expr not in program.module.parents:
        return False
    reach = program.reaching.at(expr, dotted)
    values = [b.value for b in reach.bindings if b.how == "assign"]
    whole = reach.complete and len(values) == len(reach.bindings)
    return (
        bool(values)
        and whole
        and all(
            isinstance(one, (ast.IfExp, ast.Call, ast.Attribute))
            and asked_of_tensor(program, one)
            for one in values
        )
    )


def _has_shape(program: Program, name: ast.Name) -> bool:
    """Whether `x.shape[0]` or `x.size(0)` stands in the same body: settings have none."""
    if name not in program.module.parents:
        return False
    scope = program.module.scope_of(name)
    return any(
        _asks_shape(node, name.id, program)
        for statement in scope.body
        for node in nodes_in(statement)
    )


def _asks_shape(node: ast.AST, name: str, program: Program) -> bool:
    if not isinstance(node, ast.Attribute) or dotted_name(node.value) != name:
        return False
    parent = program.module.parents[node]
    if isinstance(parent, ast.Call):
        return node.attr == "size" and parent.func is node
    return node.attr == "shape" and isinstance(parent, ast.Subscript)


def _is_question(program: Program, value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Call) and program.canonical(value.func) == _ASKED
    )


class _Choices:
    def __init__(self, program: Program, devices: Devices) -> None:
        self.program = program
        self.devices = devices

    def follows(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """See `follows_cuda`; `deep` is how many names and calls are followed."""
        if deep == 0:
            return False
        if isinstance(expr, ast.IfExp):
            asked = asks_cuda(self.program, expr.test)
            return (
                asked
                and self._is_cuda(expr.body, scope)
                and self._is_cpu(expr.orelse, scope)
            )
        if isinstance(expr, ast.Call):
            return self._made(expr, scope, deep)
        dotted = dotted_name(expr)
        if dotted is None or expr not in self.program.module.parents:
            return self._is_cuda(expr, scope)
        reach = self.program.reaching.at(expr, dotted)
        known = reach.complete and all(map(self._is_told, reach.bindings))
        found = held(self.program, expr, scope) if known else ()
        return bool(found) and all(
            home is self.program and self._arm(value, where, deep - 1)
            for home, value, where in found
        )

    def _made(self, call: ast.Call, scope: Scope, deep: int) -> bool:
        if self.program.canonical(call.func) == "torch.device":
            return bool(call.args) and self.follows(
                call.args[0], scope, deep - 1
            )
        function = self.program.values.callee(call, scope)
        values = returned(function) if function is not None else []
        inner = self.program.scope(function) if function is not None else scope
        return bool(values) and all(
            self._arm(one, inner, deep - 1) for one in values
        )

    def _is_told(self, binding: Binding) -> bool:
        """Whether it is in sight what a binding gives a name, and it is a value, no item of one."""
        if binding.how == "parameter":
            return True
        value = binding.value
        is_value = binding.how == "assign" and value is not None
        return is_value and value in self.program.module.parents

    def _arm(self, value: ast.expr, scope: Scope, deep: int) -> bool:
        """A value that may stand under `if torch.cuda.is_available():`, or beside it."""
        for arm in self._arms(value):
            return (
                self._is_cuda(value, scope)
                if arm
                else self._is_cpu(value, scope)
            )
        return self.follows(value, scope, deep)

    def _arms(self, value: ast.expr) -> Iterator[bool]:
        """For each `if` around that asks for CUDA, whether the value stands where there is one."""
        here: ast.AST = value
        for above in self.program.module.ancestors(value):
            if isinstance(above, ast.If) and asks_cuda(
                self.program, above.test
            ):
                yield any(here is one for one in above.body)
            here = above

    def _is_cuda(self, expr: ast.expr, scope: Scope) -> bool:
        value = self.devices.of(expr, scope)
        if value.form is Form.INDEX:
            return True
        named = bool(value.names) and value.closed
        return named and all(name.rstrip(":") == "cuda" for name in value.names)

    def _is_cpu(self, expr: ast.expr, scope: Scope) -> bool:
        return self.devices.of(expr, scope).is_cpu
