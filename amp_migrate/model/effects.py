"""What calls, statements and functions do to a training step: forward, loss, backward, gradient reads, steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Flag, auto
from functools import cached_property

from amp_migrate.model.calls import CallGraph
from amp_migrate.model.kinds import Kind, criterion_name, optimizer_name, scheduler_name
from amp_migrate.model.syntax import Function, Module, Scope, blocks, shallow
from amp_migrate.model.values import Values
from amp_migrate.names import dotted_name


class Effect(Flag):
    """The events of a training step that the planner orders."""

    NONE = 0
    FORWARD = auto()
    BACKWARD = auto()
    STEP = auto()
    READS_GRADIENTS = auto()
    WRITES_GRADIENTS = auto()
    ZERO_GRAD = auto()
    BCE = auto()
    """A binary cross-entropy on probabilities."""


BARRIER = Effect.BACKWARD | Effect.STEP | Effect.READS_GRADIENTS | Effect.WRITES_GRADIENTS

# What a function of another module does is seen in its caller, but for backward and step: those loops are that module's.
_CARRIED = Effect.BCE | Effect.READS_GRADIENTS | Effect.FORWARD

_CLIPPERS = re.compile(r"(?i)clip_?grad|grad(ient)?s?_?clip|dispatch_clip|adaptive_clip|agc$|clamp_grad|clip_.*grad")
_LOGGERS = re.compile(
    r"(?i)grad(ient)?s?_?(norm|stat|flow|hist|info|mag)|(log|plot|check|print|norm|watch|save|record|write|get)_?grad|total_norm"
)
_PLAIN_METHODS = {
    "parameters", "named_parameters", "train", "eval", "zero_grad", "state_dict", "load_state_dict", "to", "cuda", "cpu",
    "half", "float", "double", "requires_grad_", "apply", "modules", "children", "named_modules", "named_children", "buffers",
    "share_memory", "register_buffer", "add_module", "type", "extra_repr", "init_hidden", "initHidden", "init_weights", "size",
    "reset_parameters", "save", "load", "save_pretrained", "print_networks", "save_networks", "summary", "reset",
}  # fmt: skip
_BUILTINS = {
    "print", "len", "range", "int", "float", "str", "zip", "enumerate", "list", "dict", "isinstance", "min", "max", "sum", "open",
    "super", "sorted", "round", "abs", "tuple", "set", "hasattr", "bool", "repr", "type", "any", "all", "id", "reversed",
}  # fmt: skip
_TENSOR_METHODS = {
    "view", "size", "item", "mean", "sum", "cuda", "cpu", "to", "detach", "numpy", "format", "append", "join", "items", "keys",
    "values", "float", "long", "squeeze", "unsqueeze", "reshape", "permute", "transpose", "contiguous", "max", "min", "argmax", "eq",
    "add_argument", "parse_args", "write", "info", "split", "replace", "type", "repeat", "expand", "flatten", "tolist", "data_ptr",
    "parameters", "named_parameters", "state_dict", "load_state_dict", "train", "eval", "add_scalar", "extend", "copy", "get", "dim",
    "clone", "abs", "exp", "log", "pow", "sqrt", "t", "startswith", "endswith", "strip", "add_", "mul_", "fill_", "copy_", "zero_",
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
)
_TELLING = (ast.Call, ast.Attribute)  # the only nodes with effects of their own
_ACTIVATIONS = {
    f"torch.nn.{name}"
    for name in ("Sigmoid", "ReLU", "LeakyReLU", "Tanh", "Softmax", "LogSoftmax", "GELU", "ELU", "Softplus")
}
_SCALE_FREE = {
    "zero_",
    "detach_",
    "requires_grad_",
    "mul_",
    "div_",
    "shape",
    "device",
    "dtype",
    "is_sparse",
    "size",
    "numel",
}
_GRADIENTS = {"grad", "_grad"}
_BCE = {"torch.nn.functional.binary_cross_entropy", "torch.binary_cross_entropy"}
# In-place methods on `p.grad` that bound or scale it, as a clipper does.
_CLIPPING_METHODS = {"clamp_", "clip_", "mul_", "div_", "zero_", "detach_", "clamp_min_", "clamp_max_"}
_WRITING_METHODS = {
    "add_",
    "sub_",
    "copy_",
    "fill_",
    "set_",
    "addcmul_",
    "addcdiv_",
    "normal_",
    "uniform_",
    "nan_to_num_",
}
_REDUCERS = re.compile(r"(?i)all_?reduce|average_grad|avg_grad|mpi_avg|sync_grad|reduce_grad|synchronize")


class Effects:
    """Answers what the calls and statements of one module do, through the functions in sight."""

    def __init__(self, module: Module, graph: CallGraph, values: Values) -> None:
        self.module = module
        self.graph = graph
        self.values = values
        self._functions: dict[int, Effect] = {}
        self._statements: dict[ast.AST, Effect] = {}

    def is_backward(self, call: ast.Call, scope: Scope) -> bool:
        """`loss.backward(...)` of a tensor, or `torch.autograd.backward(...)`."""
        if self.module.canonical(call.func) == "torch.autograd.backward":
            return True
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "backward"):
            return False
        receiver = call.func.value
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super":
            return False
        value = self.values.of(receiver, scope)
        if value.cls is not None and self.graph.method(value.cls, "backward") is not None:
            return False
        name = dotted_name(receiver) or ""
        # A criterion has no `backward`: the name is that of a loss, from a function with a capital (`CE_Loss(...)`).
        return (
            value.kind in (Kind.UNKNOWN, Kind.OTHER, Kind.CRITERION) and name.rpartition(".")[2] not in _BACKWARD_OWNERS
        )

    def is_step(self, call: ast.Call, scope: Scope) -> bool:
        """`X.step(...)` where X is, or is used as, an optimizer (or a wrapper of one)."""
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "step"):
            return False
        return self.is_optimizer(call.func.value, scope)

    def is_optimizer(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is an optimizer by what it is; failing that, by use and name."""
        value = self.values.of(expr, scope)
        if value:
            return value.kind in (Kind.OPTIMIZER, Kind.WRAPPER, Kind.FOREIGN_OPTIMIZER)
        keys = []
        while isinstance(expr, ast.Subscript):
            if isinstance(expr.slice, ast.Constant) and isinstance(expr.slice.value, str):
                keys.append(expr.slice.value)
            expr = expr.value
        name = dotted_name(expr)
        if name is None:
            return False
        called = [name.rpartition(".")[2], *keys]
        if any(scheduler_name(word) for word in called):
            return False
        used = self.values.methods_used(name, scope)
        return any(optimizer_name(word) for word in called) or {"zero_grad", "step"} <= used

    def is_forward(self, call: ast.Call, scope: Scope) -> bool:
        """Whether `call` runs a model, itself or inside what it calls."""
        if self.values.of(call.func, scope).name in _ACTIVATIONS:
            return False
        function = self.values.callee(call, scope)
        if function is not None:
            if function.name == "forward" and self.module.scopes[function].owner is not None:
                return True
            return bool(self.of_function(function) & Effect.FORWARD) or self._takes_model(call, scope, function)
        func = call.func
        canonical = self.module.canonical(func)
        head = (dotted_name(func) or "").partition(".")[0]
        imported = canonical is not None and (scope.lookup(head) is None or self._is_import(head, scope))
        if isinstance(func, ast.Attribute) and not imported:
            computes = bool(_LOSS_METHOD.search(func.attr)) and self._given_model(call, scope, func.attr)
            return self._method_forward(func, scope) or computes
        if imported:
            assert canonical is not None
            return not criterion_only(canonical) and self._given_model(call, scope, canonical)
        return self._plain_forward(func, scope) or self._helper_with_model(call, scope)

    def _helper_with_model(self, call: ast.Call, scope: Scope) -> bool:
        """`get_loss(model, batch)` where `get_loss` is handed over, or `LOSSES[kind](model, batch)`."""
        table = isinstance(call.func, ast.Subscript)
        dotted = dotted_name(call.func.value if isinstance(call.func, ast.Subscript) else call.func)
        known = dotted is None or self.values.of(call.func, scope)
        return not known and self._given_model(call, scope, "" if table else dotted or "")

    def _is_import(self, head: str, scope: Scope) -> bool:
        home = scope.lookup(head)
        return home is not None and all(b.how == "import" for b in home.bindings[head])

    def _takes_model(self, call: ast.Call, scope: Scope, function: Function) -> bool:
        """A helper that is handed a model and calls its parameter."""
        inner = self.module.scopes[function]
        names = {a.arg for a in inner.parameters()}
        called = {c.func.id for c in inner.calls if isinstance(c.func, ast.Name)} & names
        return bool(called) and self._given_model(call, scope, "")

    def _given_model(self, call: ast.Call, scope: Scope, canonical: str) -> bool:
        """An unknown function (not of torch's own, but for checkpoint and the like) that is handed a model."""
        last = canonical.rpartition(".")[2]
        if canonical.startswith("torch.") and last not in (
            "data_parallel",
            "checkpoint",
            "functional_call",
            "checkpoint_sequential",
        ):
            return False
        if (
            canonical.startswith(("torch.nn.init", "torch.save", "copy.", "numpy.", "os.", "logging.", "wandb."))
            or last[:1].isupper()
        ):
            return False
        given = [*call.args, *(k.value for k in call.keywords)]
        return any(self.values.is_model(a, scope) for a in given)

    def _method_forward(self, func: ast.Attribute, scope: Scope) -> bool:
        holder = func.value
        if self.values.is_model(func, scope):
            return True
        value = self.values.of(func, scope)
        if value.kind is Kind.CRITERION:
            return False
        if func.attr in _PLAIN_METHODS:
            return False
        if self.values.is_model(holder, scope):
            return not func.attr.startswith(
                ("init_", "set_", "reset", "save", "load", "update_", "get_optim", "configure")
            )
        name = dotted_name(func) or ""
        if value or not name.startswith("self."):
            return False
        computes = bool(_LOSS_METHOD.search(func.attr)) and name.count(".") > 1 and not self.values.of(holder, scope)
        return bool(_MODEL_NAME.search(func.attr)) or computes

    def _plain_forward(self, func: ast.expr, scope: Scope) -> bool:
        """A call of a variable: a model, unless it is known or named to be something else."""
        if isinstance(func, ast.Subscript):
            if self.values.is_model(func.value, scope) or self._plain_forward(func.value, scope):
                return True
            named = isinstance(func.value, ast.Attribute) and _MODEL_NAME.search(func.value.attr)
            return bool(named) and not self.values.of(func.value, scope)
        if not isinstance(func, ast.Name):
            return isinstance(func, ast.Call) and self.values.is_model(func, scope)
        value = self.values.of(func, scope)
        if value:
            return value.kind is Kind.MODEL or (value.kind is Kind.OBJECT and self._object_forward(func, scope))
        home = scope.lookup(func.id)
        if home is None or func.id in _NOT_MODELS or criterion_name(func.id):
            return False
        held = any(b.how in ("parameter", "assign", "for") for b in home.bindings[func.id])
        return held or self.values.is_model(func, scope)

    def _object_forward(self, func: ast.Name, scope: Scope) -> bool:
        cls = self.values.of(func, scope).cls
        call = self.graph.method(cls, "__call__") if cls is not None else None
        return call is not None and bool(self.of_function(call) & Effect.FORWARD)

    def is_bce(self, call: ast.Call, scope: Scope) -> bool:
        """A direct binary cross-entropy on probabilities: `F.binary_cross_entropy` or a call of a `nn.BCELoss`."""
        canonical = self.module.canonical(call.func)
        if canonical in _BCE:
            return True
        value = self.values.of(call.func, scope)
        return value.kind is Kind.CRITERION and value.name == "torch.nn.BCELoss"

    def reads_gradients(self, node: ast.AST, scope: Scope) -> bool:
        """Whether this one node reads `.grad`, or is a call of a known clipper or gradient logger."""
        if isinstance(node, ast.Attribute) and node.attr in _GRADIENTS and isinstance(node.ctx, ast.Load):
            return self.module.canonical(node) is None and not self._only_tested(node)
        if not isinstance(node, ast.Call):
            return False
        last = _last(node.func)
        if last.startswith("clip_grad") or _CLIPPERS.search(last):
            return True
        return bool(_LOGGERS.search(last)) and last not in ("set_grad_enabled", "no_grad", "enable_grad", "zero_grad")

    def _only_tested(self, node: ast.Attribute) -> bool:
        """`p.grad is None`, resets (`p.grad.zero_()`) and constant factors (`p.grad /= n`) make no use of the values."""
        parent = self.module.parents[node]
        if isinstance(parent, ast.Compare):
            return any(isinstance(c, ast.Constant) and c.value is None for c in parent.comparators)
        if isinstance(parent, ast.Attribute) and parent.attr == "data":
            node, parent = parent, self.module.parents[parent]
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            return isinstance(parent.op, (ast.Mult, ast.Div))
        return isinstance(parent, ast.Attribute) and parent.attr in _SCALE_FREE

    def writes_gradients(self, node: ast.AST) -> bool:
        """Whether gradients are rewritten other than by bounding or scaling them."""
        if isinstance(node, ast.Attribute) and node.attr in _GRADIENTS and isinstance(node.ctx, ast.Store):
            parent = self.module.parents[node]
            value = getattr(parent, "value", None)
            if isinstance(parent, ast.AugAssign):
                return not isinstance(parent.op, (ast.Mult, ast.Div))
            return not (isinstance(value, ast.Constant) and value.value is None) and not _bounded(value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITING_METHODS:
            inner = node.func.value
            if isinstance(inner, ast.Attribute) and inner.attr == "data":
                inner = inner.value
            return isinstance(inner, ast.Attribute) and inner.attr in _GRADIENTS
        return False

    def of_node(self, node: ast.AST, scope: Scope) -> Effect:
        """Effects of one node by itself."""
        effect = Effect.NONE
        if self.reads_gradients(node, scope):
            effect |= Effect.READS_GRADIENTS
        if self.writes_gradients(node):
            effect |= Effect.WRITES_GRADIENTS
        if isinstance(node, ast.Call):
            effect |= self._of_call(node, scope)
        return effect

    def _of_call(self, call: ast.Call, scope: Scope) -> Effect:
        if self._is_harmless(call, scope):
            return Effect.NONE
        if self.is_backward(call, scope):
            return Effect.BACKWARD
        if self.is_step(call, scope):
            return Effect.STEP
        effect = Effect.NONE
        if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad":
            return Effect.ZERO_GRAD
        if self.is_bce(call, scope):
            effect |= Effect.BCE
        function = self.values.callee(call, scope)
        if function is not None:
            effect |= self.of_function(function)
        else:
            effect |= self._of_object_call(call, scope)
        return effect | (Effect.FORWARD if self.is_forward(call, scope) else Effect.NONE)

    def _handed_function(self, func: ast.expr, scope: Scope, hops: int = 3) -> Effect:
        """Effects of the functions that callers (or a plain assignment) put behind a name: `criterion=dice_loss`."""
        if not isinstance(func, ast.Name) or hops == 0 or (home := scope.lookup(func.id)) is None:
            return Effect.NONE
        effect = Effect.NONE
        for expr, where in self.values.given(func.id, home):
            definition = self.values.abroad(expr, where)
            own = self.graph.function_named(expr.id, where) if isinstance(expr, ast.Name) else None
            if own is not None:
                effect |= self.of_function(own)
            elif definition is not None and not isinstance(definition[1], ast.ClassDef):
                effect |= definition[0].effects.of_function(definition[1])
            else:
                effect |= self._handed_function(expr, where, hops - 1)
        return effect

    def _is_harmless(self, call: ast.Call, scope: Scope) -> bool:
        """Calls of builtins, NumPy and tensor methods, told by name: most calls of a program, and none does a training step."""
        func = call.func
        if isinstance(func, ast.Name):
            return func.id in _BUILTINS and scope.lookup(func.id) is None
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr in _TENSOR_METHODS and func.attr not in self._own_methods:
            return True
        return (self.module.canonical(func) or "").startswith(_HARMLESS_LIBRARIES)

    @cached_property
    def _own_methods(self) -> set[str]:
        """Names of everything that the module defines."""
        return {getattr(node, "name", "") for node in self.module.scopes}

    def _of_object_call(self, call: ast.Call, scope: Scope) -> Effect:
        """`model(x)` runs `forward` of its class, `obj(x)` its `__call__`, an imported function its body."""
        abroad = self.values.abroad(call.func, scope)
        if abroad is not None:
            program, node = abroad
            return Effect.NONE if isinstance(node, ast.ClassDef) else program.effects.of_function(node) & _CARRIED
        handed = self._handed_function(call.func, scope)
        if handed:
            return handed & _CARRIED
        value = self.values.of(call.func, scope)
        if value.foreign is not None:
            program, cls = value.foreign
            found = program.graph.method(cls, "forward") or program.graph.method(cls, "__call__")
            return program.effects.of_function(found) & _CARRIED if found is not None else Effect.NONE
        if (
            value.cls is None
            or isinstance(call.func, ast.Name)
            and self.graph.class_named(call.func, scope) is value.cls
        ):
            return Effect.NONE
        method = self.graph.method(value.cls, "forward") or self.graph.method(value.cls, "__call__")
        return self.of_function(method) if method is not None else Effect.NONE

    def of_function(self, function: Function) -> Effect:
        """Effects of calling a function in sight, transitively."""
        key = id(function)
        if key not in self._functions:
            self._functions[key] = Effect.NONE  # for recursive functions
            scope = self.module.scopes[function]
            effect = Effect.NONE
            for statement in function.body:
                effect |= self.of_statement(statement, scope)
            self._functions[key] = effect
        return self._functions[key]

    def of_statement(self, statement: ast.AST, scope: Scope) -> Effect:
        """Effects of a statement or expression with everything in it."""
        known = self._statements.get(statement)
        if known is not None:
            return known
        effect = Effect.NONE
        inner = [s for block in blocks(statement) for s in block] if isinstance(statement, ast.stmt) else []
        if inner and not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
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
        return sorted((c for c in scope.calls if self.is_step(c, scope)), key=_position)

    def backwards(self, scope: Scope) -> list[ast.Call]:
        """Backward calls written in `scope`, in source order."""
        return sorted((c for c in scope.calls if self.is_backward(c, scope)), key=_position)


def is_reducer(call: ast.Call) -> bool:
    """Averages gradients over processes by hand."""
    return bool(_REDUCERS.search(_last(call.func)))


def _bounded(value: ast.AST | None) -> bool:
    """`p.grad = p.grad.clamp(...)`, `torch.clamp(p.grad, ...)`, `p.grad / n`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Div)):
        return True
    return isinstance(value, ast.Call) and _last(value.func) in ("clamp", "clip", "clamp_", "clip_")


def _last(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _position(node: ast.expr) -> tuple[int, int]:
    return (node.lineno, node.col_offset)


def criterion_only(canonical: str) -> bool:
    """An imported function that is named as a loss."""
    return criterion_name(canonical.rpartition(".")[2])


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
            if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from inner_statements(inner)


_BACKWARD_OWNERS = {"accelerator", "fabric", "engine", "model_engine", "optimizer", "tape", "self"}
_LOSS_METHOD = re.compile(r"^(get_|compute_|calc(ulate)?_)?(.*_)?loss(es)?$")
_MODEL_NAME = re.compile(
    r"(?i)net|model|encod|decod|actor|critic|policy|generator|discriminator|backbone|classifier|embed|^[GDEFQ]$|^q|head|fc"
)
_NOT_MODELS = {
    "print",
    "len",
    "range",
    "transform",
    "collate_fn",
    "metric",
    "accuracy",
    "logger",
    "callback",
    "progress",
    "tokenizer",
    "scheduler",
}
