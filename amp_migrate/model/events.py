"""Which calls are events of the AMP protocol, and which statements lead to any, through the functions in sight."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from enum import Flag, auto
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from amp_migrate.model.effects import is_reducer
from amp_migrate.model.kinds import Kind
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope, shallow
from amp_migrate.names import dotted_name

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

What: TypeAlias = Literal[
    "scale", "backward", "unscale", "scaler-step", "update", "bare-step", "zero-grad", "clip", "read", "created"
]

_SCALER_METHODS: dict[str, What] = {"scale": "scale", "unscale_": "unscale", "step": "scaler-step", "update": "update"}
_SCALER_NAME = re.compile(r"(?i)scaler")
_OTHER_SCALERS = {"fit", "transform", "fit_transform", "inverse_transform", "minimize", "partial_fit"}
_CLIPPERS = re.compile(r"(?i)^clip_?grad|dispatch_clip|adaptive_clip|clamp_?grad|^agc$|clip_.*grad")
_NORMS = re.compile(r"(?i)grad(ient)?s?_?norm_?$|^get_total_norm$")
_BOUNDS = {"clamp_", "clip_", "nan_to_num_"}
_OWN_CLIPPERS = re.compile(r"(?i)accelerat|fabric|engine|scaler")
_NO_CLIPPERS = {"clip_grad_norm_fn", "get_clip_grad"}
_SCALING = {
    "mul_",
    "div_",
    "zero_",
    "detach_",
    "requires_grad_",
    "copy_",
    "set_",
    "new",
    "new_zeros",
    "is_cuda",
    "is_sparse",
}
# Parts of a gradient that hold no values.
_SHAPES = {"shape", "size", "dtype", "device", "dim", "numel", "is_contiguous", "data_ptr", "layout", "is_sparse"}


class Trait(Flag):
    """What running a statement involves."""

    NONE = 0
    SCALER = auto()
    """A method of a scaler."""
    PLAIN = auto()
    """A plain backward, or a step past the scaler."""
    OTHER = auto()
    """Clipping, reading or clearing gradients."""
    JUMP = auto()
    """Leaves the block: continue, break, return."""
    END = auto()
    """Raises, or ends the program."""


EVENTS = Trait.SCALER | Trait.PLAIN | Trait.OTHER


class Events:
    """Recognizes the events of one module."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._whats: dict[int, What | None] = {}
        self._traits: dict[int, Trait] = {}
        self._functions: dict[int, Trait] = {}
        self._scalers: dict[tuple[int, int], bool] = {}

    def scaler_scopes(self) -> list[Scope]:
        """Functions, and the module, that call a method of a scaler themselves."""
        return [s for s in self.program.module.scopes.values() if any(self._on_scaler(c, s) for c in s.calls)]

    def _on_scaler(self, call: ast.Call, scope: Scope) -> bool:
        func = call.func
        return isinstance(func, ast.Attribute) and func.attr in _SCALER_METHODS and self.is_scaler(func.value, scope)

    def is_scaler(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is a GradScaler that may be enabled: by what it is; failing that, by name and use."""
        key = (id(expr), id(scope))
        if key not in self._scalers:
            self._scalers[key] = self._is_scaler(expr, scope)
        return self._scalers[key]

    def _is_scaler(self, expr: ast.expr, scope: Scope) -> bool:
        value = self.program.values.of(expr, scope)
        if value.kind is Kind.SCALER:
            return not (isinstance(value.origin, ast.Call) and is_disabled(value.origin)) or self._handed(expr, scope)
        if value or self._is_other_scaler(expr, scope):
            return False
        named = expr
        while isinstance(named, ast.Subscript):
            named = named.value
        name = dotted_name(named)
        if name is None or not _SCALER_NAME.search(name.rpartition(".")[2]):
            return False
        return (
            not self.program.values.methods_used(name, scope) & _OTHER_SCALERS and "torch" in self.program.module.text
        )

    def _handed(self, expr: ast.expr, scope: Scope) -> bool:
        """A parameter `scaler=None` that is disabled only where it is absent."""
        home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
        return home is not None and isinstance(expr, ast.Name) and home.bindings[expr.id][0].how == "parameter"

    def _is_other_scaler(self, expr: ast.expr, scope: Scope) -> bool:
        """Made by a class in sight of the imports that is no GradScaler: `DynamicLossScaler()`."""
        name = dotted_name(expr)
        around = self.program.graph.class_around(scope)
        home = scope.lookup(name) if name else None
        if name and around is not None and name.partition(".")[0] == scope.self_name:
            home, name = self.program.module.scopes[around], "self." + name.partition(".")[2]
        made = [b.value for b in home.bindings.get(name, ()) if isinstance(b.value, ast.Call)] if home and name else []
        makers = [_last(call.func) for call in made]
        return any(maker[:1].isupper() and "GradScaler" not in maker for maker in makers)

    def what(self, call: ast.AST, scope: Scope) -> What | None:
        """The event that a call (or a `.grad` read) is, if any; helpers in sight are none themselves."""
        key = id(call)
        if key not in self._whats:
            self._whats[key] = self._what(call, scope)
        return self._whats[key]

    def _what(self, node: ast.AST, scope: Scope) -> What | None:
        if isinstance(node, ast.Attribute):
            return self._of_gradient(node)
        if not isinstance(node, ast.Call):
            return None
        if self._on_scaler(node, scope):
            return self._of_scaler(node)
        effects = self.program.effects
        if effects.is_backward(node, scope):
            return "backward"
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "step" and self._is_bare_step(node, func, scope):
            return "bare-step"
        if isinstance(func, ast.Attribute) and func.attr == "zero_grad":
            return "zero-grad"
        if "caler" in _last(func) and self.program.values.kind(node, scope) is Kind.SCALER and self._makes(node, scope):
            return "created"
        return self._of_reader(node, scope)

    def _is_bare_step(self, call: ast.Call, func: ast.Attribute, scope: Scope) -> bool:
        value = self.program.values.of(func.value, scope)
        if value.cls is not None and self.program.graph.method(value.cls, "step") is not None:
            return False  # runs code in sight, or wraps an optimizer in its own way
        if value.kind is Kind.WRAPPER:
            return False
        return not call.args and self.program.effects.is_step(call, scope)

    def _makes(self, call: ast.Call, scope: Scope) -> bool:
        """A constructor, not a function that returns a scaler."""
        return self.program.values.callee(call, scope) is None

    def _of_scaler(self, call: ast.Call) -> What | None:
        assert isinstance(call.func, ast.Attribute)
        found = _SCALER_METHODS[call.func.attr]
        if found in {"scaler-step", "unscale", "scale"} and not call.args and not call.keywords:
            return None
        return found

    def _of_reader(self, call: ast.Call, scope: Scope) -> What | None:
        """Clippers and norms out of sight, and what bounds a gradient in place."""
        last = _last(call.func)
        holder = call.func.value if isinstance(call.func, ast.Attribute) else None
        if last in _BOUNDS:
            return "clip" if holder is not None and _is_gradient(holder) else None
        clips = bool(_CLIPPERS.search(last)) and last not in _NO_CLIPPERS and bool(call.args or call.keywords)
        norms = bool(_NORMS.search(last)) and bool(call.args) and not _mentions_gradient(call)
        if not (clips or norms) or self.program.values.callee(call, scope) is not None:
            return None
        name = (dotted_name(holder) or "") if holder is not None else ""
        if clips:
            return None if _OWN_CLIPPERS.search(name) else "clip"
        return "read"

    def _of_gradient(self, node: ast.Attribute) -> What | None:
        """A read of the values of `p.grad`."""
        if node.attr != "grad" or not isinstance(node.ctx, ast.Load) or self.program.canonical(node) is not None:
            return None
        if not self.program.effects.reads_gradients(node, self.program.module.root):
            return None
        parents = self.program.module.parents
        here: ast.AST = node
        while isinstance(parents[here], ast.Attribute) and parents[here].attr == "data":  # type: ignore[attr-defined]
            here = parents[here]
        parent = parents[here]
        if isinstance(parent, ast.Attribute) and parent.attr in _SCALING | _SHAPES | {"clamp_", "clip_", "nan_to_num_"}:
            return None
        if isinstance(parent, (ast.If, ast.BoolOp, ast.UnaryOp, ast.IfExp)) or _is_moved(parent, here):
            return None
        return None if isinstance(parent, ast.Call) and is_reducer(parent) else "read"

    def callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function in sight that `call` runs, `__call__` of an object too, if it holds events."""
        function = self.in_sight(call, scope)
        if function is None:
            if "__call__" not in self._defined:
                return None
            value = self.program.values.of(call.func, scope)
            if (
                value.cls is None
                or value.kind is Kind.OPTIMIZER
                or self.program.graph.class_named(call.func, scope) is value.cls
            ):
                return None
            function = self.program.graph.method(value.cls, "__call__")
        return function if function is not None and self.of_function(function) else None

    def in_sight(self, call: ast.Call, scope: Scope) -> Function | None:
        """The definition behind a call; asked for names that are defined at all."""
        return self.program.values.callee(call, scope) if _last(call.func) in self._defined else None

    @cached_property
    def _defined(self) -> set[str]:
        return {node.name for node in self.program.module.scopes if isinstance(node, FUNCTIONS)}

    def of_function(self, function: Function) -> Trait:
        """Events that calling a function in sight may cause; generators and optimizers' own methods cause none."""
        key = id(function)
        if key not in self._functions:
            self._functions[key] = Trait.NONE  # for recursive functions
            scope = self.program.module.scopes[function]
            if not self._is_apart(function, scope):
                self._functions[key] = self.of_block(function.body, scope) & EVENTS
        return self._functions[key]

    def _is_apart(self, function: Function, scope: Scope) -> bool:
        owner = scope.owner
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            bases = [self.program.canonical(b) or dotted_name(b) or "" for b in owner.node.bases]
            if any(b.startswith("torch.optim") or b.endswith(("Optimizer", "GradScaler")) for b in bases):
                return True
        return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for s in function.body for n in shallow(s))

    def of_block(self, block: Iterable[ast.stmt], scope: Scope) -> Trait:
        """The traits of several statements together."""
        found = Trait.NONE
        for statement in block:
            found |= self.of_node(statement, scope)
        return found

    def of_node(self, node: ast.AST, scope: Scope) -> Trait:
        """The traits of a statement or expression with everything in it."""
        key = id(node)
        if key not in self._traits:
            found = Trait.NONE
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
                for inner in shallow(node):
                    found |= self._trait(inner, scope)
            self._traits[key] = found
        return self._traits[key]

    def _trait(self, node: ast.AST, scope: Scope) -> Trait:
        if isinstance(node, (ast.Continue, ast.Break, ast.Return)):
            return Trait.JUMP
        if isinstance(node, ast.Raise):
            return Trait.END
        if not isinstance(node, (ast.Call, ast.Attribute)):
            return Trait.NONE
        what = self.what(node, scope)
        if what is None:
            if isinstance(node, ast.Call) and ends_program(node, self.program):
                return Trait.END
            function = self.callee(node, scope) if isinstance(node, ast.Call) else None
            return self.of_function(function) if function is not None else Trait.NONE
        if what in {"scale", "unscale", "scaler-step", "update", "created"}:
            return Trait.SCALER
        if what == "backward":
            return Trait.NONE if _is_scaled(node) else Trait.PLAIN
        return Trait.PLAIN if what == "bare-step" else Trait.OTHER


def ends_program(call: ast.Call, program: Program) -> bool:
    """`sys.exit(...)` and its like."""
    name = program.canonical(call.func) or dotted_name(call.func)
    return name in {"sys.exit", "exit", "quit", "os._exit", "os.abort"}


def is_disabled(call: ast.Call) -> bool:
    """`GradScaler(..., enabled=False)`, `autocast(..., enabled=False)`."""
    return any(k.arg == "enabled" and isinstance(k.value, ast.Constant) and not k.value.value for k in call.keywords)


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Everything evaluated in an expression or simple statement, operands before what is made of them."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
        return
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        if node.value is not None:
            yield from evaluated(node.value)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from evaluated(target)
        return
    for child in ast.iter_child_nodes(node):
        yield from evaluated(child)
    yield node


def _is_scaled(node: ast.AST) -> bool:
    """`scaler.scale(loss).backward()`, as written."""
    func = node.func if isinstance(node, ast.Call) else None
    inner = func.value if isinstance(func, ast.Attribute) else None
    return isinstance(inner, ast.Call) and _last(inner.func) == "scale"


def _is_gradient(expr: ast.expr) -> bool:
    if isinstance(expr, ast.Attribute) and expr.attr == "data":
        expr = expr.value
    return isinstance(expr, ast.Attribute) and expr.attr == "grad"


def _mentions_gradient(call: ast.Call) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(call))


def _is_moved(parent: ast.AST, node: ast.AST) -> bool:
    """Kept, not looked at: `saved = p.grad`, `p.grad = q.grad / 2`."""
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div)):
        return False
    return isinstance(parent, ast.Assign) and parent.value is node


def _last(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
