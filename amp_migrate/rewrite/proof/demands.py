"""What the use of a value demands of it: an operator of torch raises for anything but a tensor, and
no array, list or module has `.unsqueeze()`. So where such a use runs, the value is a tensor, or the
program would have ended there without any AMP.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.methods_elsewhere import method_elsewhere
from amp_migrate.model.forwards.sequence_calls import made_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import kept_operator
from amp_migrate.model.values.scalars import is_number
from amp_migrate.rewrite.proof.looped_layers import runs_layers
from amp_migrate.rewrite.proof.same_sources import have_one_source, is_sliced
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.methods import (
    ATTRIBUTES_OF_TENSORS,
    ONLY_OF_TENSORS,
    TAKES_NUMBERS,
)
from amp_migrate.torch_facts.ops import EVERY, Op

_DEEP = 8
_BUDGET = 4_000
_NO_TENSORS = ("number", "array")
_NAMED = frozenset(
    {"input", "other", "target", "tensor", "mat1", "mat2", "weight", "bias"}
)
_CHOICES = (
    ast.If,
    ast.Try,
    ast.Match,
    ast.IfExp,
    ast.BoolOp,
    ast.While,
    ast.ExceptHandler,
)


class Demands:
    """Answers `demanded` and `used` for one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[ast.expr, bool] = {}
        self._steps = 0

    def demanded(self, expr: ast.expr, scope: Scope, deep: int = _DEEP) -> bool:
        """Whether what is done with `expr` raises for anything but a tensor."""
        if expr not in self._known:
            self._steps += 1
            if deep <= 0 or self._steps > _BUDGET:
                return False
            self._known[expr] = False
            self._known[expr] = self._demands(expr, scope, deep - 1)
        return self._known[expr]

    def used(
        self,
        expr: ast.expr,
        dotted: str,
        bindings: tuple[Binding, ...],
        scope: Scope,
        deep: int,
    ) -> bool:
        """Whether another use of the same value, which runs whenever this one does, demands it."""
        if deep <= 0 or asks(scope, dotted):
            return False
        for other in self.reads(scope).get(dotted, ()):
            if other is not expr and self._runs_with(other, expr):
                if self.program.reaching.at(other, dotted).bindings == bindings:
                    if self.demanded(other, scope, deep - 1):
                        return True
        return False

    def _runs_with(self, other: ast.expr, expr: ast.expr) -> bool:
        """Whether `other` stands in a block around `expr`, so that it runs as well."""
        module = self.program.module
        block = module.block_of(self._entered(module.statement_of(other)))
        statement = module.statement_of(expr)
        around = {id(one) for one in (statement, *module.ancestors(statement))}
        return not self._is_chosen(other) and any(
            id(one) in around for one in block
        )

    def _entered(self, statement: ast.stmt) -> ast.stmt:
        """What holds a statement and always runs it: torch's contexts end no exception."""
        above = self.program.module.parents[statement]
        while isinstance(above, ast.With) and all(
            isinstance(one.context_expr, ast.Call)
            and (
                self.program.canonical(one.context_expr.func) or ""
            ).startswith("torch.")
            for one in above.items
        ):
            statement, above = above, self.program.module.parents[above]
        return statement

    def _is_chosen(self, expr: ast.expr) -> bool:
        """Whether it depends on a condition in its own statement whether `expr` is evaluated."""
        node: ast.AST | None = expr
        while node is not None and not isinstance(node, ast.stmt):
            node = self.program.module.parents.get(node)
            if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda)):
                return True
        return False

    def reads(self, scope: Scope) -> dict[str, list[ast.expr]]:
        """The names and attributes that a body reads."""
        return self.program.remembered((Demands, scope), lambda: _reads(scope))

    def _demands(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        parents = self.program.module.parents
        parent = parents.get(expr)
        if isinstance(parent, ast.Attribute):
            return self._asked_for(parent, scope, deep)
        if isinstance(parent, ast.Assign):
            return any(
                self._kept(one, parent, scope, deep) for one in parent.targets
            )
        if isinstance(parent, ast.BinOp):
            return self._computes(parent, expr, scope, deep)
        if isinstance(parent, ast.Subscript) and parent.value is expr:
            return is_sliced(parent) and self.demanded(parent, scope, deep)
        if isinstance(parent, (ast.Tuple, ast.List)):
            call = parents.get(parent)
            return isinstance(call, ast.Call) and self._joined(call, parent)
        named = parent.arg if isinstance(parent, ast.keyword) else None
        call = (
            parents.get(parent) if isinstance(parent, ast.keyword) else parent
        )
        if isinstance(call, ast.Call) and call.func is not expr:
            return self._taken(call, expr, named, scope, deep)
        return False

    def _computes(
        self, sum_: ast.BinOp, side: ast.expr, scope: Scope, deep: int
    ) -> bool:
        """`side` plus a number, or plus what is an array where it is one, must be a tensor where
        the sum must.
        """
        other = sum_.right if sum_.left is side else sum_.left
        same = is_number(self.program, other, scope) or have_one_source(
            self.program, side, other, scope
        )
        return same and self.demanded(sum_, scope, deep)

    def _asked_for(self, asked: ast.Attribute, scope: Scope, deep: int) -> bool:
        """`x.unsqueeze(0)`; `x.mean()` where a tensor must come of it."""
        call = self.program.module.parents.get(asked)
        if not (isinstance(call, ast.Call) and call.func is asked):
            return asked.attr in ATTRIBUTES_OF_TENSORS
        if asked.attr in ONLY_OF_TENSORS:
            return True
        found = ops.method(asked.attr)
        if found is not None and any(
            one.arg in ("dim", "keepdim") for one in call.keywords
        ):
            return True  # arrays have `axis` and `keepdims`
        passes = found is not None and found.op.result not in _NO_TENSORS
        return passes and self.demanded(call, scope, deep)

    def _kept(
        self, target: ast.expr, statement: ast.Assign, scope: Scope, deep: int
    ) -> bool:
        """`out = x.float()`, where `out` is used as a tensor afterwards."""
        dotted = dotted_name(target)
        if dotted is None or asks(scope, dotted):
            return False
        for read in self.reads(scope).get(dotted, ()):
            bindings = self.program.reaching.at(read, dotted).bindings
            is_this = len(bindings) == 1 and bindings[0].statement is statement
            if (
                is_this
                and self._runs_with(read, target)
                and self.demanded(read, scope, deep)
            ):
                return True
        return isinstance(target, ast.Attribute) and self._kept_by_object(
            target, deep
        )

    def _kept_by_object(self, target: ast.Attribute, deep: int) -> bool:
        """`self.out = x.float()`, where a method of the class uses it as a tensor."""
        program = self.program
        cls = program.graph.class_around(program.module.scope_of(target))
        for method in cls.body if cls is not None else ():
            if isinstance(method, FUNCTIONS):
                scope = program.scope(method)
                for read in self.reads(scope).get(
                    f"{scope.self_name}.{target.attr}", ()
                ):
                    if self.demanded(read, scope, deep):
                        return True
        return False

    def _joined(self, call: ast.Call, display: ast.expr) -> bool:
        """`torch.cat([x, y])`"""
        op = self.operator(call)
        return op is not None and op.sequence and call.args[:1] == [display]

    def _taken(
        self,
        call: ast.Call,
        expr: ast.expr,
        named: str | None,
        scope: Scope,
        deep: int,
    ) -> bool:
        """Whether an operator, a layer, or a function or model in sight takes it as a tensor."""
        op = self.operator(call)
        if op is not None:
            if self._compares(op, call) and call.args[1] is expr:
                return True
            return not op.sequence and _takes(op, call, expr, named)
        if self._is_scaled(call):
            return True
        abroad = self.program.values.abroad(call.func, scope)
        if abroad is None and self.program.canonical(call.func) is not None:
            return False
        if self.layer(call, scope) is not None or self._first_is_layer(
            call, scope
        ):
            return True
        return any(
            home.wants(function, call, expr, deep)
            for home, function in self.run(call, scope)
        )

    def _is_scaled(self, call: ast.Call) -> bool:
        """`scaler.scale(loss).backward()`"""
        above = self.program.module.parents.get(call)
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "scale"
            and isinstance(above, ast.Attribute)
            and above.attr == "backward"
        )

    def _compares(self, op: Op, call: ast.Call) -> bool:
        """`torch.min(x, y) - z`: of a dimension `y` it would give values and indices, of which
        nothing can be subtracted.
        """
        parent = self.program.module.parents.get(call)
        return (
            op.result == "either"
            and len(call.args) == 2
            and isinstance(parent, ast.BinOp)
            and isinstance(parent.op, (ast.Sub, ast.Div, ast.Pow))
        )

    def wants(
        self, function: Function, call: ast.Call, given: ast.expr, deep: int
    ) -> bool:
        """Whether a function uses what it is given as a tensor, whatever else it does."""
        scope = self.program.scope(function)
        for name, bindings in scope.bindings.items():
            if bindings[0].how != "parameter" or asks(scope, name):
                continue
            if argument(call, scope, name, scope.takes_receiver) is not given:
                continue
            for read in self.reads(scope).get(name, ()):
                reach = self.program.reaching.at(read, name).bindings
                own = all(one.how == "parameter" for one in reach)
                if own and not self._depends(read, function):
                    if self.demanded(read, scope, deep):
                        return True
        return False

    def _depends(self, read: ast.expr, function: Function) -> bool:
        """Whether a condition decides whether it is evaluated."""
        if self._is_chosen(read):
            return True
        around = self.program.module.ancestors(read)
        inside = []
        for one in around:
            if one is function:
                break
            inside.append(one)
        return any(isinstance(one, _CHOICES) for one in inside)

    def _first_is_layer(self, call: ast.Call, scope: Scope) -> bool:
        """`nn.Sequential(nn.Linear(2, 2), ...)` gets what its first layer gets."""
        if runs_layers(self.program, call, scope):
            return True
        held = self.layers_of(call, scope)
        if not held:
            return False
        home = self.program.module.scope_of(held[0])
        row = layers.layer(self.program.values.of(held[0], home).name)
        return row is not None and row.role == "layer"

    # -- what a call runs

    def layers_of(self, call: ast.Call, scope: Scope) -> list[ast.expr]:
        """The layers of the `nn.Sequential` that a call runs."""
        made = self.sequence(call, scope)
        return [] if made is None else made.args

    def sequence(self, call: ast.Call, scope: Scope) -> ast.Call | None:
        """What makes the `nn.Sequential` that a call runs."""
        func = call.func
        if isinstance(func, ast.Subscript) and isinstance(
            func.slice, ast.Slice
        ):
            func = func.value
        value = self.program.values.of(func, scope)
        row, made = layers.layer(value.name), value.origin
        if row is not None and row.name == "Sequential":
            return made if isinstance(made, ast.Call) and made.args else None
        return next(iter(made_of(self.program, func, scope)), None)

    def operator(self, call: ast.Call) -> Op | None:
        """The function of torch that a call names, or a variable holds."""
        canonical = self.program.canonical(call.func)
        found = ops.function(canonical)
        if canonical is None:
            found = kept_operator(self.program, call.func)
        return None if found is None else found.op

    def layer(self, call: ast.Call, scope: Scope) -> layers.Layer | None:
        """The layer or criterion of torch that a call runs."""
        row = layers.layer(self.program.values.of(call.func, scope).name)
        return (
            row
            if row is not None and row.role in ("layer", "criterion")
            else None
        )

    def run(
        self, call: ast.Call, scope: Scope
    ) -> Iterator[tuple[Demands, Function]]:
        """The functions, or the `forward` of the model, in sight that a call runs."""
        program = self.program
        functions = program.values.callees(call, scope)
        if functions:
            yield from (
                (self, one) for one in functions if one.name != "__init__"
            )
            return
        other = method_elsewhere(program, call, scope)
        if other is not None:
            yield demands_of(other[0]), other[1]
            return
        value = program.values.of(call.func, scope)
        home, cls = value.foreign or (program, value.cls)
        forward = home.graph.method(cls, "forward") if cls is not None else None
        if forward is not None:
            yield demands_of(home), forward


def demands_of(program: Program) -> Demands:
    """Those of a program, made once."""
    return program.remembered(Demands, lambda: Demands(program))


def asks(scope: Scope, name: str) -> bool:
    """Whether a body asks what a value is: then one use of it says nothing about the others."""
    for call in scope.calls:
        if isinstance(call.func, ast.Name) and call.func.id in (
            "isinstance",
            "hasattr",
            "type",
        ):
            if any(dotted_name(one) == name for one in call.args):
                return True
    return False


def _takes(op: Op, call: ast.Call, expr: ast.expr, named: str | None) -> bool:
    """Whether an argument of an operator stands where a tensor must."""
    if named is not None:
        return named in _NAMED and bool(op.tensors)
    place = next((i for i, one in enumerate(call.args) if one is expr), None)
    if place == 0 and op.result == "bool" and op.name not in TAKES_NUMBERS:
        return True
    return place is not None and (op.tensors == EVERY or place in op.tensors)


def _reads(scope: Scope) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for statement in scope.body:
        for node in nodes_in(statement):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(
                node.ctx, ast.Load
            ):
                dotted = dotted_name(node)
                if dotted is not None:
                    found.setdefault(dotted, []).append(node)
    return found
