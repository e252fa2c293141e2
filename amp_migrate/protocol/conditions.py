"""Which way a condition goes on a path: decided by what is known, or both ways, remembered for the
next test of the same.
"""

from __future__ import annotations

import ast

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Events, Trait
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.patterns import pattern
from amp_migrate.protocol.frames import (
    Frame,
    amp_name,
    amp_value,
    canonical,
    identity,
    place,
    positive,
)
from amp_migrate.protocol.paths import Path, Val

_DEVICE = pattern(r"(?i)cuda|gpu|cpu|device|backend|xpu|mps|npu")
Branches = list[tuple[bool, Path]]


class Conditions:
    """Decides conditions; tests of the AMP switch, however they are spelled, all have the same
    answer on one path.
    """

    def __init__(self, events: Events) -> None:
        self.events = events

    def switched(
        self, node: ast.If, rest: list[ast.stmt], frame: Frame
    ) -> bool | None:
        """Whether `node` tests the AMP switch: its branches use the scaler on one side and plain
        steps on the other.

        `rest` are the statements behind it. True where the first branch is that with AMP.
        """
        scope = frame.scope
        first = self.events.of_block(node.body, scope)
        other = self.events.of_block(node.orelse, scope)
        if (
            not node.orelse
            and node.body
            and isinstance(
                node.body[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise)
            )
        ):
            other = self.events.of_block(rest, scope)
        if (
            Trait.SCALER in first
            and Trait.PLAIN in other
            and Trait.SCALER not in other
        ):
            return True
        if (
            Trait.SCALER in other
            and Trait.PLAIN in first
            and Trait.SCALER not in first
        ):
            return False
        return None

    def may_switch(self, test: ast.expr, path: Path, frame: Frame) -> bool:
        """Whether a condition between scaler and plain step can be AMP's switch on this path: not
        where an unconditional scaler has scaled the loss, and the test is not about AMP or devices.
        """
        if path.amp is not True or not self._always_scales(frame):
            return True
        atoms = [
            n
            for n in shallow(test)
            if isinstance(n, (ast.Name, ast.Attribute, ast.Call))
        ]
        return any(
            self.polarity(atom, path, frame) is not None
            or _DEVICE.search(ast.unparse(atom))
            for atom in (test, *atoms)
        )

    def _always_scales(self, frame: Frame) -> bool:
        """Whether every scaler of the module is made here, or in the constructor of the object,
        without a condition.
        """
        program = self.events.program
        made = [
            (call, scope)
            for scope in program.module.scopes.values()
            for call in scope.calls
            if self.events.what(call, scope) is EventKind.SCALER_CREATED
        ]
        return bool(made) and all(
            (scope is frame.scope or self._constructs(scope, frame))
            and not any(
                keyword.arg in {"enabled", None} for keyword in call.keywords
            )
            and isinstance(program.module.parents[call], ast.Assign)
            and program.module.statement_of(call) in scope.body
            for call, scope in made
        )

    def _constructs(self, scope: Scope, frame: Frame) -> bool:
        """Whether a scope is the constructor of the class whose method runs."""
        around = self.events.program.graph.class_around
        return (
            isinstance(scope.node, FUNCTIONS)
            and scope.node.name == "__init__"
            and around(scope) is not None
            and around(scope) is around(frame.scope)
        )

    def branch(self, test: ast.expr, path: Path, frame: Frame) -> Branches:
        """The ways that `test` may go on `path`, each with the path on which it does."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return [
                (not way, after)
                for way, after in self.branch(test.operand, path, frame)
            ]
        if isinstance(test, ast.BoolOp):
            return self._bool(test, path, frame)
        if isinstance(test, ast.NamedExpr):
            return self.branch(test.value, path, frame)
        if isinstance(test, ast.Constant):
            return [(bool(test.value), path)]
        return self._atom(test, path, frame)

    def _bool(self, test: ast.BoolOp, path: Path, frame: Frame) -> Branches:
        ends = isinstance(
            test.op, ast.Or
        )  # the answer of one part that decides the whole
        done: Branches = []
        open_paths = [path]
        for part in test.values:
            following = []
            for here in open_paths:
                for way, after in self.branch(part, here, frame):
                    if way is ends:
                        done.append((ends, after))
                    else:
                        following.append(after)
            open_paths = following
        return [*done, *((not ends, after) for after in open_paths)]

    def _atom(self, test: ast.expr, path: Path, frame: Frame) -> Branches:
        known = self._constant(test, path, frame)
        if known is not None:
            return [(known, path)]
        polarity = self.polarity(test, path, frame)
        if polarity is not None:
            return [(on is polarity, after) for on, after in self._switch(path)]
        texts, mentions, _ = self._texts(test, path, frame)
        for text, contrary in texts:
            known = path.knows(text)
            if known is not None:
                return [(known is not contrary, path)]
        found: Branches = []
        for way in (True, False):
            after = path.fork()
            for text, contrary in texts:
                after.learn(text, way is not contrary, mentions)
            found.append((way, after))
        return found

    def _switch(self, path: Path) -> Branches:
        if path.amp is not None:
            return [(path.amp, path)]
        on, off = path.fork(), path.fork()
        on.amp, off.amp = True, False
        return [(True, on), (False, off)]

    def decide(self, path: Path, on: bool) -> Path | None:
        """The path on which AMP is on (or off); None where it is known to be the contrary."""
        if path.amp is not None and path.amp is not on:
            return None
        after = path if path.amp is on else path.fork()
        after.amp = on
        return after

    def _constant(
        self, test: ast.expr, path: Path, frame: Frame
    ) -> bool | None:
        value = self._value(test, path, frame)
        if value is not None and value.constant:
            return bool(value.constant[0])
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            known = self._equal(test.left, test.comparators[0], path, frame)
            if known is not None and isinstance(test.ops[0], (ast.Eq, ast.Is)):
                return known
            if known is not None and isinstance(
                test.ops[0], (ast.NotEq, ast.IsNot)
            ):
                return not known
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], (ast.Is, ast.IsNot))
        ):
            right = test.comparators[0]
            left = self._value(test.left, path, frame)
            if (
                isinstance(right, ast.Constant)
                and left is not None
                and left.constant
            ):
                return (left.constant[0] is right.value) is isinstance(
                    test.ops[0], ast.Is
                )
        return None

    def _equal(
        self, left: ast.expr, right: ast.expr, path: Path, frame: Frame
    ) -> bool | None:
        """Whether a name that holds a constant, or a member of a class, holds this one."""
        value = self._value(left, path, frame)
        if value is None:
            return None
        if isinstance(right, ast.Constant) and value.constant:
            known = value.constant[0]
            return (
                known == right.value
                if type(known) is type(right.value)
                else None
            )
        if (
            not isinstance(right, ast.Attribute)
            or value.text is None
            or value.amp is not None
        ):
            return None
        holder, other = (
            identity(right.value, frame, path),
            identity(right, frame, path),
        )
        is_class = (
            self.events.program.graph.class_named(right.value, frame.scope)
            is not None
        )
        same = (
            is_class
            and value.text.rpartition(".")[0] == holder
            and not value.flipped
        )
        return value.text == other if same else None

    def _value(self, expr: ast.expr, path: Path, frame: Frame) -> Val | None:
        own = place(expr, frame, path)
        return path.env.get(own) if own is not None else None

    def polarity(self, test: ast.expr, path: Path, frame: Frame) -> bool | None:
        """Whether `test` is true with AMP (True) or without (False); None where it says nothing
        about AMP.
        """
        value = self._value(test, path, frame)
        if value is not None and value.amp is not None:
            return value.amp
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.polarity(test.operand, path, frame)
            return None if inner is None else not inner
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test, path, frame)
        if isinstance(test, ast.Call):
            func = test.func
            asks = (
                isinstance(func, ast.Attribute)
                and func.attr == "is_enabled"
                and self.events.is_scaler(func.value, frame.scope)
            )
            return True if asks else None
        return True if self._named(test, path, frame) else None

    def _named(self, expr: ast.expr, path: Path, frame: Frame) -> bool:
        if isinstance(
            expr, (ast.Name, ast.Attribute, ast.Subscript)
        ) and self.events.is_scaler(expr, frame.scope):
            return True
        name = identity(expr, frame, path)
        return name is not None and amp_name(name)

    def _compared(
        self, test: ast.Compare, path: Path, frame: Frame
    ) -> bool | None:
        left, op, right = test.left, test.ops[0], test.comparators[0]
        equal = isinstance(op, (ast.Eq, ast.Is))
        if not equal and not isinstance(op, (ast.NotEq, ast.IsNot)):
            return None
        if isinstance(right, ast.Constant) and (
            right.value is None or isinstance(right.value, bool)
        ):
            return (
                (bool(right.value) is equal)
                if self._named(left, path, frame)
                else None
            )
        text = (
            right.value
            if isinstance(right, ast.Constant)
            else self.events.program.canonical(right)
        )
        value = amp_value(str(text)) if text is not None else None
        left_name = (identity(left, frame, path) or "").lower()
        is_about = any(
            word in left_name
            for word in ("dtype", "precision", "amp", "fp", "half", "mixed")
        )
        if value is None or not is_about:
            return None
        return value is equal

    def _texts(
        self, test: ast.expr, path: Path, frame: Frame
    ) -> tuple[list[tuple[str, bool]], frozenset[str], bool]:
        """Texts under which this condition is remembered, each with whether it is the contrary of
        `test`.
        """
        mentions: set[str] = set()
        flipped = False
        contrary = positive(test)
        if contrary is not test:
            return (
                [(canonical(contrary, frame, path, mentions), True)],
                frozenset(mentions),
                True,
            )
        own = place(test, frame, path)
        value = self._value(test, path, frame)
        if own is not None and value is not None and value.text is not None:
            return (
                [(own, False), (value.text, value.flipped)],
                frozenset({own}),
                flipped,
            )
        return (
            [(canonical(test, frame, path, mentions), False)],
            frozenset(mentions),
            flipped,
        )

    def held(self, expr: ast.expr, path: Path, frame: Frame) -> Val | None:
        """What a name holds that is given the condition `expr`."""
        if not isinstance(
            expr,
            (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Name, ast.Attribute),
        ):
            return None
        if isinstance(expr, ast.UnaryOp) and not isinstance(expr.op, ast.Not):
            return None
        amp = self.polarity(expr, path, frame)
        inner: ast.expr = expr
        contrary = False
        while isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            inner, contrary = inner.operand, not contrary
        texts, _, _ = self._texts(inner, path, frame)
        text, flipped = texts[-1]
        if isinstance(expr, (ast.Name, ast.Attribute)):
            amp = None  # an alias: its name decides
        return Val(text=text, flipped=flipped is not contrary, amp=amp)
