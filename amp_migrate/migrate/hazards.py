"""What breaks in half precision in a region and in the functions in sight that it calls, and the `.float()` that mends it.

A `.float()` on a float32 tensor is the tensor itself, so a mended program is the same with AMP off. Sources: amp-semantics
section 2, amp-pitfalls sections 3.4 and 5 (`big-constant-in-half`, `dtype-strict-inplace`, `ops-without-half-kernel`).
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

from amp_migrate.edits import ReplaceExpression, Template
from amp_migrate.migrate.customs import mends
from amp_migrate.migrate.reach import abroad, reachable
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.calls import argument
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope, shallow
from amp_migrate.names import dotted_name

HALF_MAX = 65504.0
_NO_KERNEL = {
    "inverse", "svd", "qr", "cholesky", "symeig", "eig", "lu", "pinverse", "logdet", "slogdet", "det", "quantile", "nanquantile",
    "histc", "triangular_solve", "cholesky_solve", "cholesky_inverse", "lstsq", "solve", "geqrf", "ormqr", "matrix_rank", "lu_solve",
    "stft", "polar", "angle", "view_as_complex", "complex",
}  # fmt: skip
_NO_KERNEL_METHODS = {
    "inverse",
    "svd",
    "qr",
    "cholesky",
    "symeig",
    "pinverse",
    "logdet",
    "slogdet",
    "det",
    "quantile",
    "stft",
}
_LINALG_FINE = {"norm", "vector_norm", "matrix_norm", "multi_dot", "matmul", "vecdot", "cross", "diagonal"}
_SPARSE = {"torch.spmm", "torch.sparse.mm", "torch.hspmm", "torch.sspaddmm", "torch.sparse.addmm", "torch.smm"}
_VANISHES = 2.0**-25
_IN_FLOAT = {
    "sum", "norm", "exp", "log", "softmax", "log_softmax", "pow", "cumsum", "prod", "logsumexp", "item", "len", "size", "float",
    "vector_norm", "cosine_similarity", "reciprocal", "rsqrt", "cdist", "numpy", "int", "numel",
}  # fmt: skip
_LOW_RANK = {"torch.pca_lowrank", "torch.svd_lowrank"}
_FRESH = {
    "zeros",
    "ones",
    "empty",
    "full",
    "rand",
    "randn",
    "arange",
    "triu",
    "tril",
    "tensor",
    "eye",
    "linspace",
    "zeros_like",
    "ones_like",
}
_BUFFERS = {"zeros", "ones", "empty", "full"}
_STRICT_METHODS = {
    "scatter_": 2,
    "scatter_add_": 2,
    "index_add_": 2,
    "index_copy_": 2,
    "index_put_": 1,
    "masked_scatter_": 1,
    "put_": 1,
}
_PRODUCTS_IN_PLACE = {"addmm_", "addbmm_", "baddbmm_", "addmv_", "addr_"}
_FLOAT_UNDER_AUTOCAST = {"pow", "sum", "norm", "cdist", "exp", "cumsum", "zeros", "ones", "softmax"}
_MATMULS = {"matmul", "mm", "bmm", "addmm", "linear", "conv1d", "conv2d", "conv3d", "einsum", "baddbmm"}


class Hazards:
    """Collects the casts that make a set of statements, and what they call, safe in half precision."""

    def __init__(self, program: Program, *, float16: bool = True) -> None:
        """`float16` False leaves out what only float16's range forbids: bfloat16 has float32's."""
        self.program = program
        self.float16 = float16
        self.casts: dict[ReplaceExpression, str] = {}
        """The casts, with the rule that asks for each."""

    def check(self, statements: list[ast.stmt], scope: Scope, tainted: frozenset[str]) -> None:
        """Collect casts. Raises Refusal, under the rule's name, for what no cast mends."""
        self._check_here(statements, scope, tainted)
        for program, function, call in abroad(self.program, statements, scope):
            elsewhere = Hazards(program, float16=self.float16)
            elsewhere._check_here(function.body, program.scope(function), frozenset())
            if elsewhere.casts and not (call is not None and self._cast_arguments(call, program, function, elsewhere)):
                edit, rule = next(iter(elsewhere.casts.items()))
                raise self._elsewhere(statements[0], program, edit, rule)

    def _cast_arguments(self, call: ast.Call, program: Program, function: Function, elsewhere: Hazards) -> bool:
        """Mend a function of another file from here, where all that it needs as float is a parameter it gets from this call."""
        inner = program.scope(function)
        source = program.module.text.encode()
        names = {source[e.target.start : e.target.end].decode(): rule for e, rule in elsewhere.casts.items()}
        given = {
            n: argument(call, inner, n, False)
            for n in names
            if [b.how for b in inner.bindings.get(n, ())] == ["parameter"]
        }
        if set(given) != set(names) or any(g is None for g in given.values()):
            return False
        for name, expr in given.items():
            if expr is not None:
                self.cast(expr, names[name])
        return True

    def _elsewhere(self, node: ast.stmt, program: Program, edit: ReplaceExpression, rule: str) -> Refusal:
        """A hazard in another file is named, with the cast that mends it, for the user to write there."""
        source = program.module.text.encode()
        line = source[: edit.target.start].count(b"\n") + 1
        text = source[edit.target.start : edit.target.end].decode().split("\n")[0]
        path = os.path.relpath(program.module.path, Path(self.program.module.path).absolute().parent)
        message = f"{path}:{line} breaks in half precision: write `{text}.float()` there, then run again"
        return Refusal(rule, node, message, files=(str(Path(program.module.path).resolve()),))

    def _check_here(self, statements: list[ast.stmt], scope: Scope, tainted: frozenset[str]) -> None:
        for node, where in reachable(self.program, statements, scope):
            if self.float16:
                self._range(node, where)
            if isinstance(node, ast.Call):
                self._kernel(node, where)
                self._strict_method(node, where)
                self._product_in_place(node, where)
                self._sparse(node)
                self._own_gradient(node, where)
            elif isinstance(node, ast.Assign):
                self._index_write(node, where, tainted if where is scope else None)

    def _range(self, node: ast.AST, scope: Scope) -> None:
        """What float16 cannot hold: too large a constant or product, too small an addend."""
        if isinstance(node, ast.Call):
            self._constant(node, scope)
            self._gram(node, scope)
        elif isinstance(node, ast.BinOp):
            self._tiny(node, scope)
        elif isinstance(node, ast.Assign):
            self._constant_write(node, scope)

    def written(self, node: ast.Assign, scope: Scope, halves: frozenset[str]) -> None:
        """The index writes of a statement outside of autocast, of names that may be half."""
        for target in node.targets:
            if (
                isinstance(target, ast.Subscript)
                and self._tensor_index(target.slice, scope)
                and not self._keyed(target, scope)
            ):
                if _paths(node.value) & halves:
                    self._cast_value(node.value, scope)

    def _keyed(self, target: ast.Subscript, scope: Scope) -> bool:
        """A list or dict in plain sight, not a tensor."""
        if not isinstance(target.value, ast.Name) or (home := scope.lookup(target.value.id)) is None:
            return False
        made = [b.value for b in home.bindings[target.value.id] if b.value is not None]
        return any(isinstance(v, (ast.Dict, ast.List, ast.DictComp, ast.ListComp)) or _makes_container(v) for v in made)

    def after_region(self, call: ast.Call, scope: Scope, halves: set[int]) -> None:
        """Casts of values that left a region: into buffers of unknown make, and into operations without a half kernel."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _STRICT_METHODS:
            place = _STRICT_METHODS[call.func.attr]
            if len(call.args) > place and id(call.args[place]) in halves:
                self.cast(call.args[place])
        self._kernel(call, scope)

    def cast(self, expr: ast.expr, rule: str = "dtype-strict-inplace") -> None:
        """`expr` becomes `expr.float()`, unless it is float already."""
        if not says_float(expr):
            span = self.program.module.span(expr)
            self.casts.setdefault(ReplaceExpression(span, Template("$0.float()", (span,))), rule)

    def _constant(self, call: ast.Call, scope: Scope) -> None:
        """`masked_fill(mask, -1e9)` and the like on a tensor that may be half."""
        if not isinstance(call.func, ast.Attribute):
            return
        name = call.func.attr
        canonical = self.program.canonical(call.func)
        if canonical == "torch.where" and len(call.args) == 3 and any(self._huge(a, scope) for a in call.args[1:]):
            for argument in call.args[1:]:
                if not self._huge(argument, scope) and self._may_be_half(argument, scope):
                    self.cast(argument, "big-constant-in-half")
            return
        filled = call.args[1] if name in ("masked_fill", "masked_fill_") and len(call.args) > 1 else None
        filled = filled or next((k.value for k in call.keywords if k.arg in ("value", "min", "max")), None)
        if name in ("clamp", "clamp_", "clip") and call.args:
            filled = next((a for a in call.args if self._huge(a, scope)), filled)
        relevant = name in ("masked_fill", "masked_fill_", "clamp", "clamp_", "clip") and canonical is None
        if (
            not relevant
            or filled is None
            or not self._huge(filled, scope)
            or not self._may_be_half(call.func.value, scope)
        ):
            return
        if name.endswith("_") and self._cast_where_made(call.func.value, scope):
            return
        if name.endswith("_"):
            raise Refusal(
                "big-constant-in-half",
                call,
                f"`{ast.unparse(filled)}` does not fit into float16, and `{name}` writes it in place",
            )
        self.cast(call.func.value, "big-constant-in-half")

    def _constant_write(self, node: ast.Assign, scope: Scope) -> None:
        target = node.targets[0]
        if (
            isinstance(target, ast.Subscript)
            and self._huge(node.value, scope)
            and self._may_be_half(target.value, scope)
            and not self._cast_where_made(target.value, scope)
        ):
            raise Refusal(
                "big-constant-in-half",
                node,
                f"`{ast.unparse(node.value)}` does not fit into float16 and turns into an infinity",
            )

    def _cast_where_made(self, expr: ast.expr, scope: Scope) -> bool:
        """A local that is written in place is made float where it gets its values: `scores = (q @ k).float()`."""
        home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
        if home is not scope or not isinstance(expr, ast.Name) or not scope.is_function:
            return False
        bindings = scope.bindings[expr.id]
        values = [b.value for b in bindings if b.how == "assign" and b.index is None and b.value is not None]
        if len(values) != len(bindings) or any(isinstance(v, (ast.Tuple, ast.List, ast.Constant)) for v in values):
            return False
        for value in values:
            if self._may_be_half(value, scope):
                self.cast(value, "big-constant-in-half")
        return True

    def _huge(self, expr: ast.expr, scope: Scope) -> bool:
        value = self._number(expr, scope)
        return value is not None and HALF_MAX < abs(value) < float("inf")

    def _number(self, expr: ast.expr, scope: Scope) -> float | None:
        if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.USub):
            inner = self._number(expr.operand, scope)
            return None if inner is None else -inner
        if isinstance(expr, ast.Constant) and isinstance(expr.value, (int, float)):
            return float(expr.value)
        if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Pow):
            base, power = self._number(expr.left, scope), self._number(expr.right, scope)
            return base**power if base is not None and power is not None and abs(power) < 100 else None
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id == "float" and expr.args:
            text = expr.args[0]
            return _parsed(text.value) if isinstance(text, ast.Constant) and isinstance(text.value, str) else None
        if isinstance(expr, ast.Name) and (home := scope.lookup(expr.id)) is not None:
            bindings = home.bindings[expr.id]
            value = bindings[0].value
            return (
                self._number(value, home)
                if len(bindings) == 1 and value is not None and not isinstance(value, ast.Name)
                else None
            )
        return None

    def _may_be_half(self, expr: ast.expr, scope: Scope, depth: int = 4) -> bool:
        """Whether an expression may hold the output of an autocast operation."""
        if says_float(expr) or depth == 0:
            return not says_float(expr)
        root: ast.AST = expr
        while isinstance(root, (ast.Call, ast.Attribute, ast.Subscript)):
            if isinstance(root, ast.Call):
                canonical = self.program.canonical(root.func)
                if canonical is not None:
                    return not (canonical.startswith("torch.") and canonical.rpartition(".")[2] in _FRESH)
                if not isinstance(root.func, ast.Attribute):
                    return True
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and (home := scope.lookup(root.id)) is not None and home.is_function:
            values = [b.value for b in home.bindings[root.id] if b.how == "assign" and b.value is not None]
            if values and not any(b.how == "parameter" for b in home.bindings[root.id]):
                return any(self._may_be_half(v, home, depth - 1) for v in values if root.id not in _names(v))
        return True

    def _kernel(self, call: ast.Call, scope: Scope) -> None:
        """Operations without a half kernel get a float argument."""
        canonical = self.program.canonical(call.func)
        if canonical is None:
            method = isinstance(call.func, ast.Attribute) and call.func.attr in _NO_KERNEL_METHODS
            if method and isinstance(call.func, ast.Attribute) and not self.program.values.of(call.func.value, scope):
                if not self._array(call.func.value, scope):
                    self.cast(call.func.value, "ops-without-half-kernel")
            return
        if canonical in _LOW_RANK:
            raise Refusal(
                "ops-without-half-kernel",
                call,
                f"`{canonical}` multiplies matrices inside, in half precision under autocast",
            )
        head, _, last = canonical.rpartition(".")
        linalg = head == "torch.linalg" and last not in _LINALG_FINE
        fourier = head == "torch.fft" and last not in ("fftfreq", "rfftfreq", "fftshift", "ifftshift")
        if linalg or fourier or (head == "torch" and last in _NO_KERNEL):
            for argument in call.args[: 2 if last in ("solve", "lstsq", "complex", "polar", "cholesky_solve") else 1]:
                if not isinstance(argument, (ast.Constant, ast.Starred)):
                    self.cast(argument, "ops-without-half-kernel")

    def _sparse(self, call: ast.Call) -> None:
        """Sparse products have no half kernel on CUDA, and autocast casts their float32 operands to half again."""
        if self.program.canonical(call.func) in _SPARSE:
            raise Refusal(
                "ops-without-half-kernel",
                call,
                f"`{ast.unparse(call.func)}` has no half kernel for sparse tensors: give it a `torch.autocast(..., enabled=False)` of its own",
            )

    def _gram(self, call: ast.Call, scope: Scope) -> None:
        """The product of a flattened feature map with its own transpose sums over all pixels, beyond what half can hold."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name not in {"mm", "bmm", "matmul"} or not isinstance(call.func, ast.Attribute):
            return
        operands = call.args if self.program.canonical(call.func) is not None else [call.func.value, *call.args]
        if len(operands) != 2 or not isinstance(operands[0], ast.Name):
            return
        flat = operands[0].id
        if self._made_by(flat, {"view", "reshape", "flatten"}, scope) and self._transposed(operands[1], flat, scope):
            raise Refusal(
                "unsupported-shape",
                call,
                f"the Gram matrix of `{flat}` may pass float16's largest value: keep it out of autocast, or use bfloat16",
            )

    def _made_by(self, name: str, methods: set[str], scope: Scope) -> bool:
        home = scope.lookup(name)
        values = [b.value for b in home.bindings[name] if b.value is not None] if home is not None else []
        return any(
            isinstance(v, ast.Call) and isinstance(v.func, ast.Attribute) and v.func.attr in methods for v in values
        )

    def _transposed(self, expr: ast.expr, name: str, scope: Scope) -> bool:
        """`f.t()`, `f.transpose(1, 2)`, `f.T`, or a variable set to one of them."""
        if isinstance(expr, ast.Name) and (home := scope.lookup(expr.id)) is not None:
            values = [
                b.value for b in home.bindings[expr.id] if b.value is not None and not isinstance(b.value, ast.Name)
            ]
            return any(self._transposed(v, name, home) for v in values)
        inner = expr.func if isinstance(expr, ast.Call) else expr
        turned = isinstance(inner, ast.Attribute) and inner.attr in {"t", "T", "transpose", "permute", "mT"}
        return (
            turned and isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == name
        )

    def _own_gradient(self, call: ast.Call, scope: Scope) -> None:
        """A `torch.autograd.Function` with matrix products or extension calls, without `custom_fwd`."""
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "apply"):
            return
        program: Program = self.program
        cls = program.graph.class_named(call.func.value, scope)
        definition = program.values.abroad(call.func.value, scope)
        if cls is None and definition is not None and isinstance(definition[1], ast.ClassDef):
            program, cls = definition[0], definition[1]
        if program is self.program and cls is not None and mends(program, cls):
            return
        if cls is not None and _is_function_class(program, cls) and _unprotected(program, cls):
            raise Refusal(
                "custom-function-without-custom_fwd-bwd",
                call,
                f"`{cls.name}` would get half tensors: decorate its forward with torch.amp.custom_fwd and its backward with custom_bwd",
            )

    def _tiny(self, node: ast.BinOp, scope: Scope) -> None:
        """`1 / (x + 1e-8)`: the constant is zero in half, and so may be the sum. Source: amp-pitfalls `eps-underflow`."""
        if not isinstance(node.op, ast.Add) or not self._divides(node):
            return
        for value, constant in ((node.left, node.right), (node.right, node.left)):
            number = self._number(constant, scope)
            if (
                number is not None
                and 0 < number < _VANISHES
                and self._may_be_half(value, scope)
                and not self._sums(value, scope)
            ):
                self.cast(self._saturating(value) or value, "eps-underflow")

    def _saturating(self, value: ast.expr) -> ast.expr | None:
        """The input of a sigmoid inside `value`: in half, the sigmoid itself is 1 or 0 already."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and self.program.canonical(node.func) in (
                "torch.sigmoid",
                "torch.nn.functional.sigmoid",
            ):
                return node.args[0] if node.args else None
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "sigmoid"
                and not node.args
            ):
                return node.func.value
        return None

    def _divides(self, node: ast.BinOp) -> bool:
        parent = self.program.module.parents[node]
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, ast.Div) and parent.right is node
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("log", "sqrt", "rsqrt", "reciprocal")
        return isinstance(parent, ast.Call) and (dotted_name(parent.func) or "").rpartition(".")[2] in (
            "log",
            "sqrt",
            "rsqrt",
            "log2",
        )

    def _sums(self, value: ast.expr, scope: Scope) -> bool:
        """The result of an operation that CUDA autocast runs in float32, or a plain number."""
        if isinstance(value, ast.Name) and (home := scope.lookup(value.id)) is not None:
            made = [b.value for b in home.bindings[value.id] if b.value is not None and b.how == "assign"]
            return bool(made) and all(not isinstance(v, ast.Name) and self._sums(v, home) for v in made)
        while isinstance(value, (ast.Subscript, ast.Attribute)):
            value = value.value
        if isinstance(value, ast.BinOp):
            return self._sums(value.left, scope) and self._sums(value.right, scope)
        if not isinstance(value, ast.Call):
            return isinstance(value, ast.Constant)
        name = (dotted_name(value.func) or "").rpartition(".")[2] or (
            value.func.attr if isinstance(value.func, ast.Attribute) else ""
        )
        return name in _IN_FLOAT or (self.program.canonical(value.func) or "").startswith("numpy.")

    def _array(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether a receiver is a NumPy or pandas value by its maker."""
        origin = self.program.values.of(expr, scope)
        name = self.program.canonical(expr.func) if isinstance(expr, ast.Call) else None
        return origin.kind is Kind.OTHER or (name is not None and not name.startswith("torch."))

    def _strict_method(self, call: ast.Call, scope: Scope) -> None:
        """`buffer.scatter_add_(0, index, half)` wants one dtype."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _STRICT_METHODS:
            return
        place = _STRICT_METHODS[call.func.attr]
        if self._is_buffer(call.func.value, scope) and len(call.args) > place:
            self._cast_value(call.args[place], scope)

    def _product_in_place(self, call: ast.Call, scope: Scope) -> None:
        """`dist.addmm_(x, x.t())` is not autocast, and wants one dtype: `dist` is float32 where it was summed."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _PRODUCTS_IN_PLACE:
            return
        named = [k.value for k in call.keywords if k.arg in ("mat1", "mat2", "batch1", "batch2", "mat", "vec")]
        factors = [*(a for a in call.args if not _plain_number(a)), *named]
        if not any(self._may_be_half(factor, scope) for factor in factors):
            return
        if not self._summed(call.func.value, scope):
            what = f"`{call.func.attr}` is not autocast, and half operands would not match"
            raise Refusal("out=-or-inplace-matmul", call, f"{what}: use the form without the underscore")
        for factor in factors:
            self._cast_value(factor, scope)

    def _summed(self, tensor: ast.expr, scope: Scope) -> bool:
        """Whether a variable was made by what autocast computes in float32."""
        home = scope.lookup(tensor.id) if isinstance(tensor, ast.Name) else None
        if home is None or not isinstance(tensor, ast.Name):
            return False
        made = [b.value for b in home.bindings[tensor.id] if b.value is not None and tensor.id not in _names(b.value)]
        return bool(made) and all(
            any(isinstance(n, ast.Call) and _called(n) in _FLOAT_UNDER_AUTOCAST for n in ast.walk(value))
            for value in made
        )

    def _index_write(self, node: ast.Assign, scope: Scope, tainted: frozenset[str] | None) -> None:
        """`buffer[mask] = half` wants one dtype; slices and integers do not."""
        for target in node.targets:
            if not isinstance(target, ast.Subscript) or not self._is_buffer(target.value, scope):
                continue
            if self._tensor_index(target.slice, scope):
                if tainted is None or _names(node.value) & tainted or self._runs_forward(node.value, scope):
                    self._cast_value(node.value, scope)

    def _cast_value(self, value: ast.expr, scope: Scope) -> None:
        if (
            isinstance(value, ast.Constant)
            or self._number(value, scope) is not None
            or _plain_number(value)
            or not self._may_be_half(value, scope)
        ):
            return
        self.cast(value)

    def _runs_forward(self, value: ast.expr, scope: Scope) -> bool:
        return any(isinstance(n, ast.Call) and self.program.effects.is_forward(n, scope) for n in shallow(value))

    def _is_buffer(self, expr: ast.expr, scope: Scope) -> bool:
        """A tensor made in float32 in plain sight: `torch.zeros(n)` without a dtype."""
        if not isinstance(expr, ast.Name) or (home := scope.lookup(expr.id)) is None:
            return False
        values = [b.value for b in home.bindings[expr.id] if b.how == "assign" and b.value is not None]
        return any(self._makes_float_buffer(v) for v in values)

    def _makes_float_buffer(self, value: ast.expr) -> bool:
        while isinstance(value, ast.Call):
            canonical = self.program.canonical(value.func) or ""
            if canonical.startswith("torch.") and canonical.rpartition(".")[2] in _BUFFERS:
                return not any(k.arg == "dtype" for k in value.keywords)
            if not (
                isinstance(value.func, ast.Attribute)
                and value.func.attr in ("to", "cuda", "requires_grad_", "float", "fill_", "view")
            ):
                return False
            value = value.func.value
        return False

    def _tensor_index(self, index: ast.expr, scope: Scope) -> bool:
        if isinstance(index, ast.Tuple):
            return any(self._tensor_index(e, scope) for e in index.elts)
        if isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)):
            return False
        if isinstance(index, ast.Name) and (home := scope.lookup(index.id)) is not None:
            return not all(b.how == "for" or isinstance(b.value, ast.Constant) for b in home.bindings[index.id])
        if isinstance(index, ast.BinOp):
            return self._tensor_index(index.left, scope) and self._tensor_index(index.right, scope)
        return True


def _is_function_class(program: Program, cls: ast.ClassDef) -> bool:
    return any(
        program.canonical(b) in ("torch.autograd.Function", "torch.autograd.function.Function") for b in cls.bases
    )


def _unprotected(program: Program, cls: ast.ClassDef) -> bool:
    """Whether forward is undecorated and runs a matrix product or code out of sight on its inputs."""
    methods = [m for m in cls.body if isinstance(m, FUNCTIONS) and m.name in ("forward", "backward")]
    marks = [d.func if isinstance(d, ast.Call) else d for m in methods for d in m.decorator_list]
    if any("custom_fwd" in (dotted_name(m) or "") for m in marks):
        return False
    for call in (n for m in methods for n in ast.walk(m) if isinstance(n, ast.Call)):
        canonical = program.canonical(call.func) or ""
        if canonical.rpartition(".")[2] in _MATMULS or (
            canonical and not canonical.startswith(("torch.", "numpy.", "math."))
        ):
            return True
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult) for m in methods for n in ast.walk(m))


def _parsed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def says_float(expr: ast.expr) -> bool:
    """`x.float()`, `x.float().view(-1)`, `x.to(torch.float32)`: float by its own words."""
    while isinstance(expr, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in ("float", "double"):
                return True
            if expr.func.attr == "to" and any(
                (dotted_name(a) or "").endswith(("float32", ".float")) for a in expr.args
            ):
                return True
        expr = expr.func if isinstance(expr, ast.Call) else expr.value
    return False


def _plain_number(value: ast.expr) -> bool:
    """Arithmetic on Python numbers: `1.0 / float(n)`."""
    if isinstance(value, ast.BinOp):
        return _plain_number(value.left) and _plain_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return _plain_number(value.operand)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("float", "int", "len", "max", "min")
    return isinstance(value, ast.Constant)


def _makes_container(value: ast.expr) -> bool:
    name = dotted_name(value.func) or "" if isinstance(value, ast.Call) else ""
    return name.rpartition(".")[2] in ("dict", "list", "defaultdict", "OrderedDict", "Counter", "deque")


def _paths(expr: ast.AST) -> set[str]:
    """Names and dotted paths in an expression."""
    return {d for n in ast.walk(expr) if isinstance(n, (ast.Name, ast.Attribute)) and (d := dotted_name(n)) is not None}


def _names(expr: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(expr) if isinstance(n, ast.Name)}


def _called(call: ast.Call) -> str:
    """The last part of what a call names."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
