"""Which dtypes the expressions of a program may have, given where autocast is on.

Values are followed through assignments (reaching definitions), calls of functions and models in
sight, and parameters to what the callers pass. What is made outside of autocast, of nothing that
was half, is not half. Sources: `torch_facts.ops` and `torch_facts.layers`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.budget import spend
from amp_migrate.model.conditions.decided_values import decided
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors import bindings, calls, dictionaries, parameters
from amp_migrate.model.tensors.bounds import of_operation
from amp_migrate.model.tensors.buffers import registered
from amp_migrate.model.tensors.dimensions import settled
from amp_migrate.model.tensors.dtype_guards import joined
from amp_migrate.model.tensors.fact import (
    ANY_BUT_HALF,
    ARRAY,
    FLOAT,
    INTEGER,
    NUMBER,
    OTHER,
    UNKNOWN,
    DType,
    Fact,
    beside,
    join,
    of_constant,
    promoted,
)
from amp_migrate.model.tensors.fields import attribute
from amp_migrate.model.tensors.fixpoint import Fixpoint
from amp_migrate.model.tensors.given_calls import GivenCalls
from amp_migrate.model.tensors.held import held_half
from amp_migrate.model.tensors.items import item
from amp_migrate.model.tensors.iteration import listed
from amp_migrate.model.tensors.results import result, signed
from amp_migrate.model.tensors.use import asked_as_tensor
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import READS, numbers
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops.row import Bounds

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Where: TypeAlias = Callable[[ast.AST], str | None]
"""The dtype of the region that a node runs in (`half` where it cannot be told); None outside."""
_DEEP = 160
"""Questions within one another; what lies deeper is asked by itself first, and what led there anew,
which costs several times as much: a transformer of four stages is 60 deep, an agent that dreams
150."""
_PARAMETERS = ("weight", "bias", "running_mean", "running_var")  # of layers
_DEEPEST = 240  # of all inferences of one question together
_BUDGET = 20_000
_SMALL = 2_000
"""How many steps each of them may take."""


class Inference:
    """Answers `of` for one program and one set of regions."""

    def __init__(self, program: Program, where: Where, own: Where) -> None:
        """`where` knows the regions that functions are called in, `own` only those that are
        written around a node in its own function.
        """
        self.program = program
        self._where = where
        self._own = own
        self.casts: set[ast.expr] = set()
        """Expressions that are going to be `.float()`."""
        self._abroad: dict[tuple[int, str | None], Inference] = {}
        self._given = GivenCalls()
        self._added: dict[Binding, Fact] = {}
        self._hops = 0
        self._within: Inference | None = None
        self.outside: Inference | None = None
        """The same for the bodies of functions that are called outside of autocast."""
        self._facts = Fixpoint()
        """Shared with the inferences that this one leads to, which may lead back to it."""
        self._depth = 0
        self._level = [0]  # shared with the inferences that this one leads to
        self._steps = 0
        self._cut: dict[ast.expr, Scope] = {}
        """What lay too deep for the question that led there."""
        self._asked: set[ast.expr] = set()
        """What is being asked by itself, since it lay too deep."""

    def of(self, expr: ast.expr, scope: Scope) -> Fact:
        """What `expr`, evaluated in `scope`, may be."""
        spend()
        if expr in self.casts:
            return FLOAT
        found = self._ask(expr, scope)
        if self._cut and not self._depth:
            return self._whole(expr, scope)
        return found

    def _ask(self, expr: ast.expr, scope: Scope) -> Fact:
        return self._facts.of((self, expr), lambda: self._bounded(expr, scope))

    def shared(self, key: object, find: Callable[[], Fact]) -> Fact:
        """The same of what several expressions share, by a key of its own."""
        return self._facts.of((self, key), find)

    def _whole(self, expr: ast.expr, scope: Scope) -> Fact:
        """The answer anew, where some of it lay too deep: that is asked by itself first. What comes
        back to itself there stays unknown.
        """
        cut, self._cut = self._cut, {}
        self._asked.add(expr)
        try:
            for one, where in cut.items():
                if one not in self._asked:
                    self.of(one, where)
            self._asked.update(cut)
            return self._ask(expr, scope)
        finally:
            self._asked.difference_update(cut, (expr,))
            self._cut = {}

    def _bounded(self, expr: ast.expr, scope: Scope) -> Fact:
        self._steps += 1
        if self._level[0] > _DEEPEST:  # each takes many frames of Python
            return UNKNOWN
        if self._steps > _BUDGET:
            return UNKNOWN
        if self._depth > _DEEP:
            return self._too_deep(expr, scope)
        self._depth += 1
        self._level[0] += 1
        try:
            return asked_as_tensor(self.program, expr, self._infer(expr, scope))
        finally:
            self._depth -= 1
            self._level[0] -= 1

    def _too_deep(self, expr: ast.expr, scope: Scope) -> Fact:
        """For now it is unknown, and so is what rests on it."""
        if expr not in self._asked:
            self._cut[expr] = scope
            self._facts.leave_open()
        return UNKNOWN

    def where(self, node: ast.AST) -> str | None:
        """The dtype of the region that `node` runs in."""
        self._facts.read(node)
        return self._where(node)

    def inside(self, node: ast.AST) -> bool:
        """Whether autocast may be on where `node` runs."""
        return self.where(node) is not None

    def called_at(self, call: ast.Call) -> Inference:
        """The inference for the body of what `call` runs: outside of autocast, if the call is."""
        if self.inside(call):
            return self._within or self
        if self.outside is None:
            there = Inference(self.program, self._own, self._own)
            there.casts, there._level = self.casts, self._level
            there._facts = self._facts
            self.outside = there.outside = there
            there._within = self
        return self.outside

    @property
    def is_spent(self) -> bool:
        """Whether more than half of what its questions may cost is used up."""
        return self._steps > _BUDGET // 2

    def abroad(self, program: Program, region: str | None) -> Inference:
        """The inference for another file of the project, all of which runs in the region, or
        outside of every one.
        """
        key = (id(program), region)
        if key not in self._abroad:
            there = Inference(program, lambda _: region, lambda _: None)
            there._level, self._abroad[key] = self._level, there
            there._facts = self._facts
        return self._abroad[key]

    def given(
        self, program: Program, region: str, facts: dict[Binding, Fact]
    ) -> Inference | None:
        """The inference for one call of a function, in this file or another, whose parameters are
        these; None where it was reached through too many of them.
        """
        key = (id(program), region, tuple(facts.items()))
        return self._given.of(
            key,
            self._hops,
            lambda: self._for_call(program, region, facts),
        )

    def _for_call(
        self, program: Program, region: str, facts: dict[Binding, Fact]
    ) -> Inference:
        is_own = program is self.program
        there = Inference(
            program,
            self._where if is_own else lambda _: region,
            self._own if is_own else lambda _: None,
        )
        there._given = self._given
        there._level, there._facts = self._level, self._facts
        there.casts = self.casts if is_own else set()
        for binding, fact in facts.items():
            there.assume(binding, fact)
        return there

    def begin(self, hops: int) -> None:
        """What is asked of one call, reached through so many others, may cost little."""
        self._hops = hops
        self._steps = _BUDGET - _SMALL

    def cast(self, expr: ast.expr) -> None:
        """`expr` is going to be `.float()`, so what is computed from it may be, too."""
        self.casts.add(expr)
        self._facts.forget({expr})
        self._given.begin()

    def left(self, statement: ast.stmt) -> None:
        """A statement, with all in it, runs in another region from now on."""
        self._facts.forget(set(nodes_in(statement)))
        self._given.begin()

    def _infer(self, expr: ast.expr, scope: Scope) -> Fact:
        if isinstance(expr, ast.Call):
            return calls.called(self, expr, scope)
        if isinstance(expr, ast.BinOp):
            return self._operation(expr, scope)
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, scope)
        if isinstance(expr, ast.Subscript):
            return item(self, expr, scope)
        if isinstance(expr, (ast.NamedExpr, ast.Starred, ast.Await)):
            return self.of(expr.value, scope)
        if isinstance(expr, ast.UnaryOp):
            inner = self.of(expr.operand, scope)
            return (
                NUMBER
                if isinstance(expr.op, ast.Not)
                else signed(expr.op, inner)
            )
        if isinstance(expr, ast.IfExp):
            return join(
                [self.of(expr.body, scope), self.of(expr.orelse, scope)]
            )
        return self._plain(expr, scope)

    def _plain(self, expr: ast.expr, scope: Scope) -> Fact:
        if isinstance(expr, ast.Constant):
            return of_constant(expr.value)
        if isinstance(expr, (ast.Tuple, ast.List)):
            return self.display(expr.elts, scope)
        if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
            return listed(self, expr, scope)
        if isinstance(expr, ast.DictComp):
            return OTHER._replace(origin=self.of(expr.value, scope).origin)
        if isinstance(expr, ast.Compare):
            return INTEGER
        if isinstance(expr, ast.BoolOp):
            return join(self.of(value, scope) for value in expr.values)
        return OTHER

    def display(self, elements: list[ast.expr], scope: Scope) -> Fact:
        """A tuple or list; an empty one is filled later, with what nobody follows."""
        facts = [self.of(one, scope) for one in elements]
        if not facts:
            return Fact(DType.UNKNOWN, container=True)
        is_open = any(isinstance(one, ast.Starred) for one in elements)
        known = () if is_open else tuple(facts)
        joined = join(facts)
        return joined._replace(elements=known, container=True)

    def _operation(self, expr: ast.BinOp, scope: Scope) -> Fact:
        op = ops.operator(expr.op)
        left, right = self.of(expr.left, scope), self.of(expr.right, scope)
        if op is None or promoted([left, right]).is_no_tensor:
            return promoted([left, right])
        found = result(op, op.policy, [left, right], self.where(expr))
        found = settled(self, op, found, [expr.left, expr.right], scope)
        first = self._bounds(expr.left, left, scope)
        second = self._bounds(expr.right, right, scope)
        return found._replace(bounds=of_operation(expr.op, first, second))

    def _bounds(
        self, expr: ast.expr, fact: Fact, scope: Scope
    ) -> Bounds | None:
        """The bounds of an operand: of a number, the number itself."""
        numeric = DType.NUMBER | DType.OTHER
        if DType.NUMBER in fact.dtypes:
            numeric |= DType.UNKNOWN  # a default, beside what nobody sees
        if fact.dtypes & ~numeric:
            return fact.bounds
        value = number(expr, scope)
        if value is None and isinstance(expr, READS):
            known = numbers(self.program, expr, scope)
            return (min(known), max(known)) if known else None
        return None if value is None else (value, value)

    def each(self, made: list[ast.expr]) -> list[Fact]:
        """What expressions give, wherever they stand."""
        home = self.program.module.scope_of
        return [self.of(one, home(one)) for one in made]

    def unseen(self, node: ast.AST) -> Fact:
        """A value that nobody follows: made outside of a region, it is not half, but where it is
        read of what some half was put into.
        """
        half = held_half(self, node) | DType.UNKNOWN
        is_open = self.inside(node) or half != DType.UNKNOWN
        return Fact(half) if is_open else ANY_BUT_HALF

    # -- names

    def _named(self, expr: ast.Name | ast.Attribute, scope: Scope) -> Fact:
        dotted = dotted_name(expr)
        if dotted is not None:
            reach = self.program.reaching.at(expr, dotted)
            given = decided(self.program, expr, reach.bindings)
            abroad = self._of_other_file(dotted, scope, given)
            if abroad is not None:
                return abroad
            if given:
                held = joined(self, expr, scope, given)
                first = () if reach.certain else self._registered(expr, scope)
                return join((held, *first))
        if isinstance(expr, ast.Attribute):
            return self._attribute(expr, scope)
        return UNKNOWN if self.inside(expr) else ANY_BUT_HALF

    def _of_other_file(
        self, dotted: str, scope: Scope, bindings: tuple[Binding, ...]
    ) -> Fact | None:
        """What a variable of another file of the project is made of, outside of any region."""
        if any(one.how != "import" for one in bindings):
            return None
        found = imported_variable(self.program, dotted, scope)
        if found is None or not found[1]:
            return None
        there = self.abroad(found[0], None)
        return join(there.bound(one) for one in found[1])

    def _registered(self, expr: ast.expr, scope: Scope) -> list[Fact]:
        """What a buffer is registered with, before anything else is bound to it."""
        if not isinstance(expr, ast.Attribute):
            return []
        buffer = registered(self.program, expr, scope)
        return [] if buffer is None else [self.of(*buffer)]

    def _attribute(self, expr: ast.Attribute, scope: Scope) -> Fact:
        for buffer in self._registered(expr, scope):
            return buffer
        spelling = ops.method(expr.attr)
        held = self.of(expr.value, scope)
        if held.is_array:
            return ARRAY
        given = spelling.op.result if spelling is not None else None
        if given == "number":
            return NUMBER
        if given in ("same", "real"):
            return OTHER if held.dtypes == DType.OTHER else held
        if self.program.canonical(expr) is not None:
            return NUMBER
        if expr.attr in _PARAMETERS:
            return FLOAT
        if fields := dictionaries.field(self.program, expr):
            return join(self.each(fields))
        return attribute(self, expr, scope) or self.unseen(expr)

    def assume(self, binding: Binding, fact: Fact) -> None:
        """Take a binding to give this, whatever gives it in sight."""
        self._facts.settle((self, binding), fact)

    def add(self, binding: Binding, fact: Fact) -> None:
        """What a caller out of sight gives a parameter, beside those in sight."""
        self._added[binding] = fact

    def passed(self, binding: Binding) -> list[tuple[ast.expr, Scope]]:
        """What the callers in sight pass for a parameter."""
        return parameters.arguments(self.program, binding)

    def bound(self, binding: Binding) -> Fact:
        """What a binding gives its name."""
        return self._facts.of((self, binding), lambda: self._bound(binding))

    def _bound(self, binding: Binding) -> Fact:
        found = bindings.of_binding(self, binding)
        added = self._added.get(binding)
        return found if added is None else beside(found, added)
