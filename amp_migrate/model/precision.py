"""Which expressions hold half precision for certain: products of autocast operations, followed to where they are used.

Only what is in sight counts as half: a layer or a matrix product in a region that may be on, and what keeps its dtype.
Everything else, float32 or not known, is no evidence. Sources: the operation lists of CUDA autocast, amp-pitfalls 2.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls import argument
from amp_migrate.model.kinds import Kind
from amp_migrate.model.literals import is_number
from amp_migrate.model.regions import HALVES
from amp_migrate.model.syntax import FUNCTIONS, Binding, Scope
from amp_migrate.model.values import returned
from amp_migrate.names import dotted_name

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_PRODUCTS = frozenset(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear matmul mm mv bmm addmm addmv addr addbmm "
    "baddbmm chain_matmul einsum prelu scaled_dot_product_attention multi_dot vecdot".split()
)
# They run in the dtype of what they get.
_KEEPS = frozenset(
    "view reshape transpose permute squeeze unsqueeze contiguous flatten expand expand_as repeat clone detach cpu cuda relu "
    "relu_ sigmoid tanh mean amax amin abs sqrt clamp clamp_ clip masked_fill masked_fill_ chunk split unbind gather index_select "
    "narrow t roll flip dropout gelu silu leaky_relu elu hardtanh relu6 mul add sub div neg unfold view_as reshape_as flip "
    "max_pool2d avg_pool2d adaptive_avg_pool2d max_pool1d adaptive_avg_pool1d pad repeat_interleave tril triu to T mT data real "
    "batch_norm instance_norm square var std median sort topk movedim swapaxes glu".split()
)
_TAKES_LIST = frozenset({"cat", "concat", "stack", "hstack", "vstack"})
_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_PASSING_LAYERS = frozenset(
    "ReLU Dropout Dropout1d Dropout2d Dropout3d BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm2d Sigmoid Tanh GELU SiLU "
    "LeakyReLU ELU Flatten Unflatten Identity MaxPool2d AvgPool2d AdaptiveAvgPool2d AdaptiveMaxPool2d ReLU6 Hardswish".split()
)
_DEEP = 24


class Precision:
    """Answers `half`: the dtype of an expression that is half precision for certain."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.regions = program.regions
        self._cache: dict[tuple[ast.expr, Scope], str | None] = {}

    def half(self, expr: ast.expr, scope: Scope) -> str | None:
        """`float16`, `bfloat16` or `half` (one of them, which cannot be told) if `expr` is that; else None."""
        if not self.regions.regions:
            return None
        return self._half(expr, scope, _DEEP)

    def _half(self, expr: ast.expr, scope: Scope, deep: int) -> str | None:
        key = (expr, scope)
        if key in self._cache:
            return self._cache[key]
        if deep == 0:
            return None
        self._cache[key] = None  # for values that are computed from themselves
        self._cache[key] = found = self._infer(expr, scope, deep - 1)
        return found

    def _infer(self, expr: ast.expr, scope: Scope, deep: int) -> str | None:
        if isinstance(expr, ast.Call):
            return self._call(expr, scope, deep)
        if isinstance(expr, ast.BinOp):
            return self._operation(expr, scope, deep)
        if isinstance(expr, ast.Name):
            return self._name(expr, scope, deep)
        if isinstance(expr, ast.Attribute) and expr.attr in _KEEPS:
            return self._half(expr.value, scope, deep)
        if isinstance(expr, (ast.Subscript, ast.NamedExpr, ast.Starred)):
            return self._half(expr.value, scope, deep)
        if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, (ast.USub, ast.UAdd)):
            return self._half(expr.operand, scope, deep)
        if isinstance(expr, ast.IfExp):
            return _same([self._half(expr.body, scope, deep), self._half(expr.orelse, scope, deep)])
        if isinstance(expr, (ast.Tuple, ast.List)):
            return _same([self._half(one, scope, deep) for one in expr.elts])
        return None

    def _operation(self, expr: ast.BinOp, scope: Scope, deep: int) -> str | None:
        if isinstance(expr.op, ast.MatMult):
            return self._product(expr)
        if not isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            return None
        left, right = self._half(expr.left, scope, deep), self._half(expr.right, scope, deep)
        if left and right:
            return _same([left, right])
        other = expr.right if left else expr.left
        return (left or right) if is_number(self.program, other, scope) else None

    def _product(self, node: ast.expr) -> str | None:
        """What a matrix product at `node` makes: half in a region that may be on."""
        region = self.regions.enabled_around(node)
        return None if region is None else region.dtype or "half"

    def _call(self, call: ast.Call, scope: Scope, deep: int) -> str | None:
        name = self.program.canonical(call.func)
        if name is not None and name.startswith("torch.") and self._is_library(call.func, scope):
            return self._library(name.rpartition(".")[2], call, scope, deep)
        made = self._layer(call, scope, deep)
        if made is not None:
            return made
        if not isinstance(call.func, ast.Attribute) or name is not None:
            return None
        if call.func.attr in _PRODUCTS and call.func.attr not in ("linear", "prelu") and call.args:
            return self._product(call) if self._half(call.func.value, scope, deep) else None
        if call.func.attr == "to":
            return self._cast(call, scope, deep)
        if call.func.attr in ("half", "bfloat16"):
            return None  # said by hand: other rules are about that
        return self._half(call.func.value, scope, deep) if call.func.attr in _KEEPS else None

    def _is_library(self, func: ast.expr, scope: Scope) -> bool:
        while isinstance(func, ast.Attribute):
            func = func.value
        home = scope.lookup(func.id) if isinstance(func, ast.Name) else None
        return home is None or all(one.how == "import" for one in home.bindings[func.id])  # type: ignore[attr-defined]

    def _library(self, last: str, call: ast.Call, scope: Scope, deep: int) -> str | None:
        if last in _PRODUCTS:
            return None if any(one.arg == "out" for one in call.keywords) else self._product(call)
        if last in _TAKES_LIST and call.args:
            return self._half(call.args[0], scope, deep)
        if last in _KEEPS and call.args and not any(one.arg == "dtype" for one in call.keywords):
            return self._half(call.args[0], scope, deep)
        return None

    def _cast(self, call: ast.Call, scope: Scope, deep: int) -> str | None:
        """`.to(device)` keeps the dtype; `.to(x.dtype)` and the like do not say."""
        given = [*call.args, *(one.value for one in call.keywords if one.arg != "non_blocking")]
        for one in given:
            if (self.program.canonical(one) or "") in HALVES:
                return None
            value = self.program.values.of(one, scope)
            if value.kind not in (Kind.DEVICE, Kind.DEVICE_NAME) and not isinstance(one, ast.Constant):
                return None
        return self._half(call.func.value, scope, deep) if isinstance(call.func, ast.Attribute) else None

    def _layer(self, call: ast.Call, scope: Scope, deep: int) -> str | None:
        value = self.program.values.of(call.func, scope)
        if value.kind is not Kind.MODEL:
            return None
        if value.cls is not None:
            return (
                self._forward(value.cls, deep)
                if not isinstance(call.func, ast.Name) or not self._makes(call, scope)
                else None
            )
        if value.origin is None or value.origin is call:
            return None
        return self._made_layer(value.origin, value.name or "", call, scope, deep)

    def _makes(self, call: ast.Call, scope: Scope) -> bool:
        """Whether `call` constructs the model instead of running it."""
        return self.program.graph.class_named(call.func, scope) is not None

    def _made_layer(self, origin: ast.expr, name: str, call: ast.Call, scope: Scope, deep: int) -> str | None:
        """The output of a layer of torch.nn, by its constructor at `origin`."""
        last = name.rpartition(".")[2]
        if last in _LAYERS:
            return self._product(call)
        if last in _PASSING_LAYERS:
            return self._half(call.args[0], scope, deep) if call.args else None
        if last == "Sequential" and isinstance(origin, ast.Call):
            return self._sequential(origin, call, scope, deep)
        return None

    def _sequential(self, origin: ast.Call, call: ast.Call, scope: Scope, deep: int) -> str | None:
        for layer in reversed(origin.args):
            name = (self.program.canonical(layer.func) or "") if isinstance(layer, ast.Call) else ""
            last = name.rpartition(".")[2] if name.startswith("torch.nn.") else ""
            if last in _LAYERS:
                return self._product(call)
            if last not in _PASSING_LAYERS:
                return None
        return self._half(call.args[0], scope, deep) if call.args and origin.args else None

    def _forward(self, cls: ast.ClassDef, deep: int) -> str | None:
        method = self.program.graph.method(cls, "forward")
        if method is None:
            return None
        inner = self.program.scope(method)
        return _same([self._half(one, inner, deep) for one in returned(method)])

    def _name(self, name: ast.Name, scope: Scope, deep: int) -> str | None:
        home = scope.lookup(name.id)
        if home is None or home is not scope:
            return None
        bindings = self._reaching(name, home)
        return _same([self._bound(one, name.id, home, deep) for one in bindings])

    def _reaching(self, name: ast.Name, home: Scope) -> list[Binding]:
        """The last binding before the use that every path passes, and later ones in branches."""
        module = self.program.module
        statement = module.statement_of(name)
        enclosing = {id(one) for one in module.ancestors(statement)}
        found: list[Binding] = []
        for binding in reversed(home.bindings[name.id]):
            at = binding.statement
            if getattr(at, "lineno", 0) > statement.lineno or at is statement:
                continue
            found.append(binding)
            if binding.how == "parameter" or id(module.parents.get(at)) in enclosing | {id(home.node)}:
                break
        return found

    def _bound(self, binding: Binding, name: str, home: Scope, deep: int) -> str | None:
        if binding.how == "parameter":
            return self._parameter(name, home, deep)
        if binding.how not in ("assign", "walrus") or binding.value is None:
            return None
        if binding.index is not None and isinstance(binding.value, ast.Call) and not self._unpacks(binding.value):
            return None
        return self._half(binding.value, home, deep)

    def _unpacks(self, call: ast.Call) -> bool:
        """Whether every element of what `call` returns has the dtype of its input."""
        return isinstance(call.func, ast.Attribute) and call.func.attr in ("chunk", "split", "unbind")

    def _parameter(self, name: str, home: Scope, deep: int) -> str | None:
        """What all callers in sight pass."""
        if not isinstance(home.node, FUNCTIONS) or home.node.name == "forward":
            return None
        found = []
        for site in self.program.graph.sites(home.node):
            given = argument(site.call, home, name, site.bound)
            found.append(self._half(given, site.scope, deep) if given is not None else None)
        return _same(found)


def _same(found: list[str | None]) -> str | None:
    """The dtype that all have; `half` where they differ."""
    kinds = set(found)
    if not found or None in kinds:
        return None
    return found[0] if len(kinds) == 1 else "half"


def says_float(expr: ast.expr) -> bool:
    """`x.float()`, `x.float().view(-1)`, `x.to(torch.float32)`: float32 by its own words."""
    while isinstance(expr, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in ("float", "double"):
                return True
            if expr.func.attr == "to" and any(
                (dotted_name(one) or "").endswith(("float32", ".float")) for one in expr.args
            ):
                return True
        expr = expr.func if isinstance(expr, ast.Call) else expr.value
    return False
