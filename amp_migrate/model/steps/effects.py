"""What calls, statements and functions do to a training step: forward, loss, backward, gradient
reads, steps.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amp_migrate.model.calls.late_bound_calls import of_property
from amp_migrate.model.conditions.constant_conditions import never_holds
from amp_migrate.model.dataflow.answers import any_open
from amp_migrate.model.forwards.losses import (
    BCE,
    callables,
    is_library_bce,
)
from amp_migrate.model.forwards.model_calls import Forwards
from amp_migrate.model.gradients.effects import (
    last_name,
    reads_gradients,
    writes_gradients,
)
from amp_migrate.model.gradients.scale_free import is_scale_free
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import names_module
from amp_migrate.model.steps.called_effects import CalledEffects
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    blocks,
    shallow,
)
from amp_migrate.model.values.kinds import Kind, optimizer_name, scheduler_name
from amp_migrate.patterns import pattern
from amp_migrate.torch_facts.iteration import HAND_ON, MAPPING_VIEWS
from amp_migrate.torch_facts.methods import HARMLESS, TENSOR_BACKWARD

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_OPTIMIZERS = (Kind.OPTIMIZER, Kind.WRAPPER, Kind.FOREIGN_OPTIMIZER)
_BUILTINS = {
    "print", "len", "range", "int", "float", "str", "zip", "enumerate", "list", "dict",
    "isinstance", "min", "max", "sum", "open",
    "super", "sorted", "round", "abs", "tuple", "set", "hasattr", "bool", "repr", "type", "any",
    "all", "id", "reversed",
}  # fmt: skip
_HARMLESS_LIBRARIES = (
    "numpy.",
    "math.",
    "os.",
    "time.",
    "random.",
    "sys.",
    "json.",
    "logging.",
    "matplotlib.",
    "argparse.",
    *HAND_ON,
)
_TELLING = (
    ast.Call,
    ast.Attribute,
    ast.Subscript,
)  # the only nodes with effects of their own
_REDUCERS = pattern(
    r"(?i)all_?reduce|average_grad|avg_grad|mpi_avg|sync_grad|reduce_grad|synchronize"
)


class _Open:
    """The bodies that are being walked, of all files: one file's lead to those of others."""

    bodies = 0


class Effects:
    """Answers what the calls and statements of one module do, through the functions in sight."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.module = program.module
        self.graph = program.graph
        self.values = program.values
        self._functions: dict[int, EventKind] = {}
        self._statements: dict[ast.AST, EventKind] = {}
        self._forward_of: dict[tuple[ast.Call, Scope], EventKind] = {}
        self._forwards = Forwards(self)
        self._called = CalledEffects(self)

    def is_backward(self, call: ast.Call, scope: Scope) -> bool:
        """`loss.backward(...)` of a tensor, or `torch.autograd.backward(...)`."""
        if self.module.canonical(call.func) == "torch.autograd.backward":
            return True
        if not (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "backward"
        ):
            return False
        receiver = call.func.value
        if (
            isinstance(receiver, ast.Call)
            and isinstance(receiver.func, ast.Name)
            and receiver.func.id == "super"
        ):
            return False
        value = self.values.of(receiver, scope)
        if (
            value.cls is not None
            and self.graph.method(value.cls, "backward") is not None
        ):
            return False
        if len(call.args) > TENSOR_BACKWARD or (
            call.args and self._is_module(receiver, scope)
        ):
            return False  # of an extension: `kernels.backward(x, y, grad_x, grad_y, grad)`
        name = dotted_name(receiver) or ""
        # A criterion has no `backward`: the name is that of a loss, from a function with a capital
        # (`CE_Loss(...)`).
        return (
            value.kind in (Kind.UNKNOWN, Kind.OTHER, Kind.CRITERION)
            and name.rpartition(".")[2] not in _BACKWARD_OWNERS
        )

    def _is_module(self, receiver: ast.expr, scope: Scope) -> bool:
        """A module or object of an import that is none of torch's."""
        name = self.module.canonical(receiver)
        if name is None or name.startswith("torch."):
            return False
        return self.values.reaching.imported.is_import(receiver, scope)

    def is_step(self, call: ast.Call, scope: Scope) -> bool:
        """`X.step(...)` where X is, or is used as, an optimizer (or a wrapper of one)."""
        if not (
            isinstance(call.func, ast.Attribute) and call.func.attr == "step"
        ):
            return False
        return self.is_optimizer(call.func.value, scope)

    def is_optimizer(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is an optimizer by what it is; failing that, by use and name."""
        value = self.values.of(expr, scope)
        # No module of torch steps: only a call that never runs gives one.
        if value and not (value.name or "").startswith("torch.nn."):
            return value.kind in _OPTIMIZERS
        if isinstance(expr, ast.Subscript) and self._is_mapping(expr):
            return False
        keys = []
        while isinstance(expr, ast.Subscript):
            if isinstance(expr.slice, ast.Constant) and isinstance(
                expr.slice.value, str
            ):
                keys.append(expr.slice.value)
            expr = expr.value
        name = dotted_name(expr)
        if name is None or names_module(name, scope):
            return False
        called = [name.rpartition(".")[2], *keys]
        if any(scheduler_name(word) for word in called):
            return False
        used = self.values.methods_used(name, scope)
        return (
            any(optimizer_name(word) for word in called)
            or {"zero_grad", "step"} <= used
        )

    def _is_mapping(self, expr: ast.expr) -> bool:
        """`losses["opt"].items()`: no optimizer is asked for these."""
        above = self.module.parents.get(expr)
        return isinstance(above, ast.Attribute) and above.attr in MAPPING_VIEWS

    def is_forward(self, call: ast.Call, scope: Scope) -> bool:
        """Whether `call` runs a model, itself or inside what it calls."""
        return bool(self.forward_of(call, scope) & EventKind.FORWARD)

    def forward_of(self, call: ast.Call, scope: Scope) -> EventKind:
        """FORWARD where `call` runs a model, CALLABLE where it may, for all that is in sight;
        remembered once the bodies and values that it rests on are known.
        """
        key = (call, scope)
        known = self._forward_of.get(key)
        if known is None:
            known = self._forwards.of_call(call, scope)
            if not (_Open.bodies or any_open()):
                self._forward_of[key] = known
        return known

    def is_module_method(self, function: Function) -> bool:
        """Whether a function is a method of a `nn.Module`."""
        owner = self.module.scopes[function].owner
        return (
            owner is not None
            and isinstance(owner.node, ast.ClassDef)
            and self.values.class_kind(owner.node) is Kind.MODEL
        )

    def is_bce(self, call: ast.Call, scope: Scope) -> bool:
        """A direct binary cross-entropy on probabilities: `F.binary_cross_entropy` or a call of a
        `nn.BCELoss`, unless no caller's constants lead there.
        """
        return self.program.remembered(
            (Effects.is_bce, call, scope),
            lambda: (
                self._names_bce(call, scope)
                and never_holds(self.program, call, everywhere=True) is None
            ),
        )

    def _names_bce(self, call: ast.Call, scope: Scope) -> bool:
        if self.module.canonical(call.func) in BCE:
            return True
        value = self.values.of(call.func, scope)
        if value.kind is Kind.CRITERION and value.name == "torch.nn.BCELoss":
            return True
        return any(map(is_library_bce, callables(self.program, call, scope)))

    def reads_gradients(self, node: ast.AST) -> bool:
        """Whether this one node reads `.grad`, or is a call of a known clipper or
        gradient logger.
        """
        return reads_gradients(self.module, node) and not self._is_free(node)

    def _is_free(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and self.is_scale_free_at(node)

    def is_scale_free_at(self, node: ast.AST) -> bool:
        """Whether the method around a node asks only for the direction of a gradient."""
        function = self.module.scope_of(node).node
        return isinstance(function, FUNCTIONS) and is_scale_free(
            self.program, function
        )

    def writes_gradients(self, node: ast.AST) -> bool:
        """Whether gradients are rewritten other than by bounding or scaling them."""
        return writes_gradients(self.module, node)

    def of_node(self, node: ast.AST, scope: Scope) -> EventKind:
        """Effects of one node by itself."""
        effect = EventKind.NONE
        if self.reads_gradients(node):
            effect |= EventKind.READS_GRADIENTS
        if self.writes_gradients(node):
            effect |= EventKind.WRITES_GRADIENTS
        if isinstance(node, ast.Call):
            effect |= self._of_call(node, scope)
        elif isinstance(node, ast.Attribute):
            effect |= of_property(self.program, node)
        return effect

    def _of_call(self, call: ast.Call, scope: Scope) -> EventKind:
        if self.is_harmless(call, scope):
            return self._called.of_given(call, scope)
        if self.is_backward(call, scope):
            return EventKind.BACKWARD
        if self.is_step(call, scope):
            return EventKind.STEP
        effect = EventKind.NONE
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "zero_grad"
        ):
            return EventKind.ZERO_GRAD
        if self.is_bce(call, scope):
            effect |= EventKind.BCE
        effect |= self._called.of(call, scope)
        effect |= self._called.of_given(call, scope)
        return effect | self.forward_of(call, scope)

    def is_harmless(self, call: ast.Call, scope: Scope) -> bool:
        """Calls of builtins, NumPy and tensor methods, told by name: most calls of a program, and
        none does a training step.
        """
        func = call.func
        if isinstance(func, ast.Name):
            return func.id in _BUILTINS and scope.lookup(func.id) is None
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr in HARMLESS and func.attr not in self._own_methods:
            return self.values.of(func.value, scope).foreign is None
        return (self.module.canonical(func) or "").startswith(
            _HARMLESS_LIBRARIES
        )

    @cached_property
    def _own_methods(self) -> set[str]:
        """Names of everything that the module defines, layers of objects (`self.mean`) too."""
        names = {getattr(node, "name", "") for node in self.module.scopes}
        for scope in self.module.scopes.values():
            names |= {
                key.rpartition(".")[2] for key in scope.bindings if "." in key
            }
        return names

    def of_function(self, function: Function | ast.Lambda) -> EventKind:
        """Effects of calling a function in sight, transitively."""
        key = id(function)
        if key not in self._functions:
            self._functions[key] = EventKind.NONE  # for recursive functions
            _Open.bodies += 1
            try:
                self._functions[key] = self._of_body(function)
            finally:
                _Open.bodies -= 1
        return self._functions[key]

    def _of_body(self, function: Function | ast.Lambda) -> EventKind:
        scope = self.module.scopes[function]
        effect = EventKind.NONE
        body = function.body
        for statement in body if isinstance(body, list) else [body]:
            effect |= self.of_statement(statement, scope)
        return effect

    def of_statement(self, statement: ast.AST, scope: Scope) -> EventKind:
        """Effects of a statement or expression with everything in it."""
        known = self._statements.get(statement)
        if known is not None:
            return known
        effect = EventKind.NONE
        inner = (
            [s for block in blocks(statement) for s in block]
            if isinstance(statement, ast.stmt)
            else []
        )
        if inner and not isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            for part in [*_head(statement), *inner]:
                effect |= self.of_statement(part, scope)
        elif not inner:
            for node in shallow(statement):
                if isinstance(node, _TELLING):
                    effect |= self.of_node(node, scope)
        self._statements[statement] = effect
        return effect

    def steps(self, scope: Scope) -> list[ast.Call]:
        """Optimizer steps written in `scope`, in source order."""
        return sorted(
            (c for c in scope.calls if self.is_step(c, scope)), key=_position
        )

    def backwards(self, scope: Scope) -> list[ast.Call]:
        """Backward calls written in `scope`, in source order."""
        return sorted(
            (c for c in scope.calls if self.is_backward(c, scope)),
            key=_position,
        )


def is_reducer(call: ast.Call) -> bool:
    """Averages gradients over processes by hand; `AllReduce.apply` is a function of autograd."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "apply":
        func = func.value
    return bool(_REDUCERS.search(last_name(func)))


def _position(node: ast.expr) -> tuple[int, int]:
    return (node.lineno, node.col_offset)


def _head(statement: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a compound statement outside of its blocks."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child


def inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """All statements inside a compound one, nested functions and classes left out."""
    for block in blocks(statement):
        for inner in block:
            yield inner
            if not isinstance(
                inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ):
                yield from inner_statements(inner)


_BACKWARD_OWNERS = {
    "accelerator",
    "fabric",
    "engine",
    "model_engine",
    "optimizer",
    "tape",
    "self",
}
