"""Whether half precision may change what is done with a value outside of autocast.

What only asks (its shape, the largest element, a comparison) is proved insensitive; views, copies,
names and functions in sight are followed; all else is taken to mind: a list that is kept, an array,
code out of sight, and a number that was computed of it, where each step rounds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.targets import makers
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import viewed
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function, Scope
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.tensors.spelling import given_to, operands, spelled
from amp_migrate.model.values.index_uses import counts
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.half_safety.methods_of_makers import (
    methods_of_makers,
)
from amp_migrate.planner.half_safety.uses_of_arrays import ArrayUses
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.torch_facts.loggers import SHOWS_NUMBERS
from amp_migrate.torch_facts.methods import (
    ARRAY_LIBRARIES,
    ASKS,
    PICKS_OF_ARRAYS,
    PYTHON_NUMBERS,
    VIEWS,
)
from amp_migrate.torch_facts.ops import Spelling, Trait

_DEEP = 4
_BUDGET = 400
_THROUGH = (ast.IfExp, ast.UnaryOp, ast.Starred, ast.Await, ast.NamedExpr)
_DISPLAYS = (ast.Tuple, ast.List)
_SETS = (ast.Assign, ast.AnnAssign, ast.For)
_KEEPS = (ast.Dict, ast.Set, ast.ListComp, ast.GeneratorExp, ast.Yield)
_ASKING = frozenset({"len", "isinstance", "type", "id", "hasattr", "range"})
_SHOWING = frozenset({"float", "int", "bool", "round", "print", "str", "repr"})
_HOLDING = frozenset({"zip", "enumerate", "list", "tuple", "reversed", "iter"})
_NO_NUMBERS = (Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER)
_NO_TENSOR = ("int", "bool", "number")


class Consumers:
    """Answers `expose` for the values of one program."""

    def __init__(
        self,
        asked: Asked,
        deep: int = _DEEP,
        *,
        inner: bool = False,
        on_cpu: bool = False,
    ) -> None:
        """`inner`: what a function returns is left to the one who asks about its call; `on_cpu`:
        the value lies on the CPU, where the autocast of an accelerator leaves it alone.
        """
        self.asked = asked
        self.program: Program = asked.inference.program
        self.deep = deep
        self.inner = inner
        self.on_cpu = on_cpu
        self._seen: set[tuple[ast.AST, bool]] = set()
        self._singles: dict[ast.expr, bool] = {}

    def expose(
        self, expr: ast.expr, scope: Scope, *, computed: bool = False
    ) -> bool:
        """Whether `expr` reaches what half precision may change; `computed`: with half steps on
        the way, so that to show it is enough.
        """
        last = viewed(self.program.module, expr, VIEWS)
        if last is not expr and not self._is_half(last, scope):
            return False  # the places in `x.max(1)[1]`
        key = (last, computed)
        if key in self._seen or last in self.asked.inference.casts:
            return False
        self._seen.add(key)
        if len(self._seen) > _BUDGET:
            return True
        parent = self.program.module.parents[last]
        if isinstance(parent, ast.keyword):
            parent = self.program.module.parents[parent]
        if isinstance(parent, ast.Call):
            return self._handed(parent, last, scope, computed)
        if isinstance(parent, ast.Attribute):
            return self._asked(parent, scope, computed)
        return self._met(parent, scope, computed)

    def _met(self, parent: ast.AST, scope: Scope, computed: bool) -> bool:
        if isinstance(parent, _THROUGH):
            return self.expose(parent, scope, computed=computed)
        if isinstance(parent, ast.BinOp):
            computed = computed or not self._is_single(parent, scope)
            if self.on_cpu and computed:
                return self.asked.fact(parent, scope).may_be_half
            return self._is_half(parent, scope) and self.expose(
                parent, scope, computed=computed
            )
        if isinstance(parent, _DISPLAYS):
            return self._displayed(parent, scope, computed)
        if isinstance(parent, _SETS):
            return self._named(parent, scope, computed)
        if isinstance(parent, ast.Subscript):
            return self._is_half(parent, scope) and self.expose(
                parent, scope, computed=computed
            )
        if isinstance(parent, ast.Return):
            return not self.inner and self._returned(scope, computed)
        if isinstance(parent, ast.FormattedValue):
            return computed
        return isinstance(parent, _KEEPS)

    def _is_half(self, expr: ast.expr, scope: Scope) -> bool:
        fact = self.asked.fact(expr, scope)
        return bool(fact.dtypes & DType.HALF)

    def _is_single(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether all that is half in a sum are single numbers, as losses are: `-a.mean() + b`.
        What a loop adds to itself, `total = total + loss`, is what else it is made of.
        """
        if expr not in self._singles:
            self._singles[expr] = True
            self._singles[expr] = self._sums_singles(expr, scope)
        return self._singles[expr]

    def _sums_singles(self, expr: ast.expr, scope: Scope) -> bool:
        if not self._is_half(expr, scope):
            return True
        if isinstance(expr, ast.BinOp):
            sides = (expr.left, expr.right)
            return all(self._is_single(one, scope) for one in sides)
        if isinstance(expr, ast.UnaryOp):
            return self._is_single(expr.operand, scope)
        if isinstance(expr, ast.Call):
            return self._reduces(expr, scope)
        dotted = dotted_name(expr)
        if dotted is None:
            return False
        bindings = self.program.reaching.at(expr, dotted).bindings
        made = [one.value for one in bindings if one.index is None]
        module = self.program.module
        return bool(made) and all(
            isinstance(one, (ast.Call, ast.BinOp, ast.UnaryOp))
            and one in module.parents
            and self._is_single(one, module.scope_of(one))
            for one in made
        )

    def _reduces(self, call: ast.Call, scope: Scope) -> bool:
        """`x.mean()`, `torch.sum(x)`: over all dimensions."""
        found = spelled(self.asked.inference, call, scope)
        if found is None or Trait.REDUCES not in found.op.traits:
            return False
        given = given_to(found, call)
        return len(given) == 1 and not call.keywords

    # -- names, and what keeps a value

    def _displayed(
        self, display: ast.Tuple | ast.List, scope: Scope, computed: bool
    ) -> bool:
        """`a, b = x, y`, `return x, y` and `torch.cat((x, y))`; another one keeps the values."""
        parent = self.program.module.parents[display]
        if isinstance(parent, ast.Assign) and isinstance(
            parent.targets[0], _DISPLAYS
        ):
            return self._named(parent, scope, computed)
        if isinstance(parent, (ast.Call, ast.Return, ast.For)):
            return self.expose(display, scope, computed=computed)
        return isinstance(parent, (ast.Assign, ast.AugAssign, *_DISPLAYS))

    def _named(
        self,
        statement: ast.Assign | ast.AnnAssign | ast.For,
        scope: Scope,
        computed: bool,
    ) -> bool:
        """What is done with the names that a statement gives a value."""
        whole = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
        )
        for target in (one for top in whole for one in _parts(top)):
            if isinstance(target, ast.Subscript):
                # What is written into a tensor takes its dtype.
                if self.asked.fact(target.value, scope).is_no_tensor:
                    return True
            dotted = dotted_name(target)
            if dotted is not None and any(
                self._is_half(one, scope)
                and self.expose(one, scope, computed=computed)
                for one in self._reads(statement, dotted, scope)
            ):
                return True
        return False

    def _reads(
        self, statement: ast.stmt, dotted: str, scope: Scope
    ) -> Iterator[ast.expr]:
        """Where a name is read that `statement` set, outside of autocast."""
        reads = demands_of(self.program).reads(scope).get(dotted, ())
        for one in reads:
            bindings = self.program.reaching.at(one, dotted).bindings
            if any(b.statement is statement for b in bindings):
                if self.on_cpu or not self.asked.inference.inside(one):
                    yield one

    def _returned(self, scope: Scope, computed: bool) -> bool:
        """Whether a caller does more with what the function returns than to drop it."""
        function = scope.node
        if not isinstance(function, FUNCTIONS):
            return True
        sites = self.program.graph.runs(function)
        if not sites or self.program.graph.escapes(function):
            return True
        return any(
            self.expose(one.call, one.scope, computed=computed)
            for one in sites
            if not self.asked.inference.inside(one.call)
        )

    # -- calls

    def _asked(
        self, attribute: ast.Attribute, scope: Scope, computed: bool
    ) -> bool:
        """`x.item()`, `x.numpy()`, `x.softmax(1)`, `x.T`"""
        call = self.program.module.parents[attribute]
        if not isinstance(call, ast.Call) or call.func is not attribute:
            return self._is_half(attribute, scope) and self.expose(
                attribute, scope, computed=computed
            )
        if attribute.attr == "numpy":
            uses = ArrayUses(self.asked, self._reads)
            return uses.mind(call, computed=computed)
        if attribute.attr in PYTHON_NUMBERS:
            return computed
        found = spelled(self.asked.inference, call, scope)
        if found is None or attribute.attr in ASKS:
            return False
        return self._operated(found, call, scope, computed)

    def _operated(
        self, found: Spelling, call: ast.Call, scope: Scope, computed: bool
    ) -> bool:
        """An operator of torch: what it gives is asked in its turn."""
        if found.op.result in _NO_TENSOR:
            return False
        rounds = (
            found.policy == "fp32" or len(operands(found, call)) > 1
        ) and not found.op.sequence
        if self.on_cpu and (rounds or found.policy == "lower"):
            return True
        return self._is_half(call, scope) and self.expose(
            call, scope, computed=computed or rounds
        )

    def _handed(
        self, call: ast.Call, given: ast.expr, scope: Scope, computed: bool
    ) -> bool:
        """A call that gets the value."""
        name = self._builtin(call, scope)
        if name is not None:
            if name in _HOLDING:
                return self.expose(call, scope, computed=computed)
            return name not in _ASKING and (name not in _SHOWING or computed)
        if counts(self.program, given, scope):
            return False
        found = spelled(self.asked.inference, call, scope)
        if found is not None:
            return self._operated(found, call, scope, computed)
        if self._logs(call, scope):
            return computed
        canonical = self.program.canonical(call.func) or ""
        if canonical.startswith(ARRAY_LIBRARIES):
            return canonical.rpartition(".")[2] not in PICKS_OF_ARRAYS
        if canonical.startswith("torch.") or self._steps(call, scope):
            return False
        return self._run(call, given, scope)

    def _builtin(self, call: ast.Call, scope: Scope) -> str | None:
        func = call.func
        if not isinstance(func, ast.Name) or scope.lookup(func.id) is not None:
            return None
        return func.id if func.id in _ASKING | _SHOWING | _HOLDING else None

    def _steps(self, call: ast.Call, scope: Scope) -> bool:
        """`scheduler.step(loss)`"""
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and self.program.values.kind(func.value, scope) in _NO_NUMBERS
        )

    def _logs(self, call: ast.Call, scope: Scope) -> bool:
        """`writer.add_scalar("loss", loss, step)`, which shows a number of float16; bfloat16 is
        more than some versions can read.
        """
        func = call.func
        if not isinstance(func, ast.Attribute) or not self.asked.float16:
            return False
        writers = makers(self.program, func.value, scope)
        names = [
            self.program.canonical(one) if isinstance(one, ast.expr) else None
            for one in writers
        ]
        return bool(names) and all(
            func.attr in SHOWS_NUMBERS.get(name or "", ()) for name in names
        )

    # -- functions in sight

    def _run(self, call: ast.Call, given: ast.expr, scope: Scope) -> bool:
        """Whether what a call runs minds, or is out of sight."""
        functions = self._functions(call, scope)
        if not functions or self.deep <= 0:
            return True
        for home, function in functions:
            name = _parameter(home, function, call, given)
            if name is None or self._minds(home, function, name):
                return True
        return self._is_half(call, scope) and self.expose(
            call, scope, computed=True
        )

    def _functions(
        self, call: ast.Call, scope: Scope
    ) -> list[tuple[Program, Function]]:
        if self.program.graph.class_named(call.func, scope) is not None:
            return []
        own = self.program.values.callees(call, scope)
        if own:
            return [(self.program, one) for one in own]
        found = self.program.values.abroad(call.func, scope)
        if found is None:
            return methods_of_makers(self.program, call, scope)
        if isinstance(found[1], ast.ClassDef):
            return []
        return [(found[0], found[1])]

    def _minds(self, home: Program, function: Function, name: str) -> bool:
        """Whether a function does with a parameter what half precision changes."""
        inner = home.scope(function)
        bindings = inner.bindings.get(name, [])
        given = next((one for one in bindings if one.how == "parameter"), None)
        if given is None:
            return True
        asked = self._asked_of(home, given)
        consumers = Consumers(
            asked, self.deep - 1, inner=True, on_cpu=self.on_cpu
        )
        return any(
            consumers.expose(one, inner)
            for one in demands_of(home).reads(inner).get(name, ())
            if given in home.reaching.at(one, name).bindings
        )

    def _asked_of(self, home: Program, parameter: Binding) -> Asked:
        """The facts of a function that is called outside of autocast with a half tensor."""
        there = Inference(home, lambda _: None, lambda _: None)
        if home is self.program:
            there.casts = self.asked.inference.casts
        there.assume(parameter, Fact(DType.HALF))
        return Asked(there, self.asked.float16)


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, _DISPLAYS):
        return [one for part in target.elts for one in _parts(part)]
    return [target]


def _parameter(
    home: Program, function: Function, call: ast.Call, given: ast.expr
) -> str | None:
    """The name under which a function gets an argument of a call."""
    inner = home.scope(function)
    bound = inner.takes_receiver  # `compute(x)` of an object gives it, too
    for one in inner.parameters():
        if argument(call, inner, one.arg, bound) is given:
            return one.arg
    return None
