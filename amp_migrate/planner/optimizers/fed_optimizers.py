"""Whether the gradients that a step needs are there on every path: a model that runs in one branch
alone has none where the other was taken, and `scaler.step` raises.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import LOOPS, Scope, shallow
from amp_migrate.model.syntax.queries import names_in, names_stored
from amp_migrate.planner.optimizers.bound_names import BoundNames
from amp_migrate.planner.optimizers.fed_values import (
    FED,
    NONE,
    OTHER,
    FedValues,
    State,
    Values,
    together,
)
from amp_migrate.planner.optimizers.parameter_uses import ParameterUses
from amp_migrate.planner.regions.loss_flow import flow_of

_GRADIENTS = "<gradients>"
_MOST = 4
"""How many conditions that stand twice are told apart."""
_COMPARES: dict[type[ast.cmpop], tuple[str, bool]] = {
    ast.Eq: ("==", True),
    ast.NotEq: ("==", False),
    ast.Is: ("is", True),
    ast.IsNot: ("is", False),
    ast.In: ("in", True),
    ast.NotIn: ("in", False),
}
_ADDS = frozenset({"append", "extend", "insert", "add", "update"})


class Feeding:
    """What one optimizer's parameters get, in one scope."""

    def __init__(
        self, scope: Scope, backwards: list[ast.Call], uses: ParameterUses
    ) -> None:
        self.scope = scope
        self.backwards = set(backwards)
        self.values = FedValues(scope, uses)
        self.module = uses.program.module
        self.flow = flow_of(scope, uses.program)
        self.step: ast.stmt | None = None
        self.assumed: dict[str, bool] = {}
        self.found: Values = frozenset()
        self.left: list[State] = []
        self.bound = BoundNames(scope)

    def may_starve(self, step: ast.stmt) -> bool:
        """Whether a statement that steps can be reached without gradients for its parameters, and
        on other paths with some.
        """
        around = dict(self._around(step))
        if self._asks_alike(step, around):
            return False
        twice = set(self._twice()) - set(around)
        if len(twice) > _MOST:
            return False
        free = sorted(twice)
        self.step = step
        for ways in itertools.product((True, False), repeat=len(free)):
            self._follow({**dict(zip(free, ways, strict=True)), **around})
        return self.found == {FED, OTHER}

    def _follow(self, assumed: dict[str, bool]) -> None:
        """Find what the step finds where some conditions hold."""
        self.assumed, self.left = assumed, []
        start = {_GRADIENTS: frozenset({OTHER})}
        self._block(self.scope.body, start, inner=False)

    # -- conditions

    def _around(self, step: ast.stmt) -> Iterator[tuple[str, bool]]:
        """The conditions that hold where a statement runs."""
        here: ast.AST = step
        for parent in self.module.ancestors(step):
            if parent is self.scope.node:
                return
            if isinstance(parent, ast.If):
                is_then = any(here is one for one in parent.body)
                yield from _holding(parent.test, is_then)
            here = parent

    def _tests(self) -> list[ast.expr]:
        return [
            node.test
            for statement in self.scope.body
            for node in shallow(statement)
            if isinstance(node, ast.If)
        ]

    def _twice(self) -> list[str]:
        """The conditions that stand in more than one place, those that are a part of others too,
        where they are few.
        """
        keys = [_plain(test)[0] for test in self._tests()]
        parts = [key for test in self._tests() for key in _keys(test)]
        whole, some = (
            [key for key in found if found.count(key) > 1]
            for found in (keys, parts)
        )
        return some if len(set(some)) <= _MOST else whole

    def _asks_alike(self, step: ast.stmt, around: dict[str, bool]) -> bool:
        """Whether a condition around the step has a name in common with another, that may hold
        whenever it does.
        """
        above = [
            one.test
            for one in self.module.ancestors(step)
            if isinstance(one, ast.If)
        ]
        asked = {name for test in above for name in names_in(test)}
        others = (t for t in self._tests() if t not in above)
        return any(
            names_in(test) & asked
            for test in others
            if _plain(test)[0] not in around
        )

    # -- statements

    def _block(
        self, block: list[ast.stmt], state: State | None, *, inner: bool
    ) -> State | None:
        """The state behind some statements; None where nothing gets there."""
        for statement in block:
            if state is not None and statement is self.step:
                self.found |= state[_GRADIENTS]
                return None
            if state is not None:
                state = self._statement(statement, state, inner)
        return state

    def _statement(
        self, one: ast.stmt, state: State, inner: bool
    ) -> State | None:
        if isinstance(one, (ast.Return, ast.Raise)):
            return None
        if isinstance(one, (ast.Break, ast.Continue)):
            self.left += [state] if inner else []
            return None
        if isinstance(one, ast.If):
            return self._branches(one, state, inner)
        if isinstance(one, LOOPS):
            return self._loop(one, state)
        if isinstance(one, (ast.With, ast.AsyncWith)):
            return self._block(one.body, state, inner=inner)
        if isinstance(one, ast.Try):
            body = [*one.body, *one.orelse, *one.finalbody]
            return self._block(body, state, inner=inner)
        if isinstance(one, ast.Match):
            ends = [
                self._block(case.body, dict(state), inner=inner)
                for case in one.cases
            ]
            return _joined([*ends, state])
        return self._simple(one, state)

    def _branches(self, one: ast.If, state: State, inner: bool) -> State | None:
        known = _truth(one.test, self.assumed)
        return _joined(
            [
                self._block(block, dict(state), inner=inner)
                for block, value in ((one.body, True), (one.orelse, False))
                if known is None or known is value
            ]
        )

    def _loop(self, one: ast.stmt, state: State) -> State | None:
        """A loop runs once at least; the one around the step is not left before."""
        assert isinstance(one, LOOPS)
        if isinstance(one, (ast.For, ast.AsyncFor)):
            given = self.values.of(one.iter, state)
            state.update(dict.fromkeys(names_stored(one.target), given))
        outside, self.left = self.left, []
        holds = any(above is one for above in self.module.ancestors(self._at))
        end = self._block(one.body, state, inner=not holds)
        end = _joined([end, *self.left])
        self.left = outside
        return end

    @property
    def _at(self) -> ast.stmt:
        assert self.step is not None
        return self.step

    def _simple(self, one: ast.stmt, state: State) -> State | None:
        if not self.bound.keeps(one, state):
            return None  # it raises NameError
        for node in shallow(one):
            if isinstance(node, ast.Call) and node in self.backwards:
                given = self._backward(node, state) - {NONE}
                if not given:
                    return None  # backward raises, with AMP or without
                before = state[_GRADIENTS]
                if FED in given and OTHER in before:
                    state[_GRADIENTS] = (
                        given if given == {FED} else before | given
                    )
        self._write(one, state)
        if isinstance(one, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._assign(one, state)
        elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
            self._add(one.value, state)
        return state

    def _backward(self, call: ast.Call, state: State) -> Values:
        """What `loss.backward()`, or a function that leads to it, is given."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "backward":
            return self.values.of(func.value, state)
        return self.values.of(call, state)

    def _write(self, one: ast.stmt, state: State) -> None:
        """`self.forward()` sets `self.fake`, and `model(x)` sets `model.loss`."""
        for name in self.flow.step(one).defines if _calls(one) else ():
            if "." in name and any(
                self.values.of(call, state) != {OTHER} for call in _calls(one)
            ):
                state[name] = frozenset({FED})

    def _assign(
        self, one: ast.Assign | ast.AnnAssign | ast.AugAssign, state: State
    ) -> None:
        """Follow an assignment."""
        if one.value is None:
            return
        given = self.values.of(one.value, state)
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        for target in targets:
            if isinstance(one, ast.AugAssign):
                self._mix(target, given, state)
            else:
                self._bind(target, one.value, given, state)

    def _bind(
        self, target: ast.expr, value: ast.expr, given: Values, state: State
    ) -> None:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        for index, part in enumerate(parts):
            own, its = value, given
            if isinstance(value, (ast.Tuple, ast.List)) and len(
                value.elts
            ) == len(parts):
                own = value.elts[index]
                its = self.values.of(own, state)
            self._bind(part, own, its, state)
        if isinstance(target, ast.Starred):
            self._bind(target.value, value, given, state)
        elif isinstance(target, ast.Subscript):
            self._mix(target.value, given, state)
        elif (name := dotted_name(target)) is not None:
            state[name] = given

    def _mix(self, holder: ast.expr, given: Values, state: State) -> None:
        """`losses["all"] = loss`, `losses.append(loss)`."""
        name = dotted_name(holder)
        if name is not None:
            before = state.get(name, frozenset({NONE}))
            state[name] = together([before, given])

    def _add(self, call: ast.Call, state: State) -> None:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _ADDS:
            given = [self.values.of(one, state) for one in call.args]
            self._mix(func.value, together(given), state)


def _calls(statement: ast.stmt) -> list[ast.Call]:
    return [one for one in shallow(statement) if isinstance(one, ast.Call)]


def _plain(test: ast.expr) -> tuple[str, bool]:
    """A condition without its negation, and whether it holds where the test does."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        key, sense = _plain(test.operand)
        return key, not sense
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        kind = type(test.ops[0])
        word, sense = _COMPARES.get(kind, ("", True))
        if word:
            sides = ast.unparse(test.left), ast.unparse(test.comparators[0])
            return f"{sides[0]} {word} {sides[1]}", sense
    return ast.unparse(test), True


def _keys(test: ast.expr) -> Iterator[str]:
    """A condition, and those that it is made of."""
    key, _ = _plain(test)
    yield key
    if isinstance(test, ast.BoolOp):
        for one in test.values:
            yield from _keys(one)


def _truth(test: ast.expr, assumed: dict[str, bool]) -> bool | None:
    """What a test is where some conditions hold; None where they do not tell."""
    key, sense = _plain(test)
    if key in assumed:
        return assumed[key] is sense
    if not isinstance(test, ast.BoolOp):
        return None
    parts = [_truth(one, assumed) for one in test.values]
    ends = isinstance(test.op, ast.Or)
    if ends in parts:
        return ends
    return None if None in parts else not ends


def _holding(test: ast.expr, value: bool) -> Iterator[tuple[str, bool]]:
    """What is known where a test is true, or false."""
    key, sense = _plain(test)
    yield key, sense is value
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is value:
        for one in test.values:
            yield from _holding(one, value)


def _joined(ends: list[State | None]) -> State | None:
    """What may hold where paths meet; a name that one of them does not bind is bound by none that
    reads it.
    """
    known = [one for one in ends if one is not None]
    if not known:
        return None
    names = {name for one in known for name in one}
    return {
        name: frozenset().union(*(one[name] for one in known if name in one))
        for name in names
    }
