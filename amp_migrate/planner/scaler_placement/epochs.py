"""Whether a function holds a whole training run or one epoch or step of it, by the loops around
its backward.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Function, Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts.methods import MOVES

_HOPS = 3


class Epochs:
    """Answers for the functions of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.depth: dict[int, int] = {}
        """In how many loops what is called runs backward, by id of the call."""

    def called_per_epoch(self, home: Scope) -> bool:
        """A function that builds an optimizer and runs one epoch with it, or one step, and is
        called again and again.
        """
        if not isinstance(home.node, FUNCTIONS):
            return False
        sites = [
            s
            for s in self.program.graph.sites(home.node)
            if self.program.values.callee(s.call, s.scope) is home.node
        ]
        around = [
            (a, s)
            for s in sites
            for a in self.within(s.call, s.scope.node)
            if isinstance(a, LOOPS)
        ]
        loops = [loop for loop, _ in around]
        if loops and self._steps_once(home):
            return True
        is_plain = home.parent is home.root  # a scaler can be made above it
        if is_plain and any(
            self._steps_beside(loop, s.scope, home) for loop, s in around
        ):
            return True
        named = any(
            "epoch" in a.arg and not a.arg.endswith("s")
            for a in home.parameters()
        )
        return named and any(
            isinstance(a, ast.While) or "epoch" in ast.unparse(a.target).lower()
            for a in loops
        )

    def _steps_beside(self, loop: ast.AST, scope: Scope, home: Scope) -> bool:
        """Whether a loop steps an optimizer beside the calls of `home`: what is called is a part of
        each of its steps, an attack on the batch for one.
        """
        assert isinstance(home.node, FUNCTIONS)
        holding = [
            a
            for s in self.program.graph.sites(home.node)
            for a in (s.call, *self.program.module.ancestors(s.call))
        ]
        return any(
            self._steps_without(home, statement, scope, _HOPS)
            for statement in (loop.body if isinstance(loop, LOOPS) else ())
            if not any(statement is a for a in holding)
        )

    def _steps_without(
        self, home: Scope, statement: ast.stmt, scope: Scope, hops: int
    ) -> bool:
        """Whether a statement steps an optimizer other than by what leads to `home`."""
        effects = self.program.effects
        if not effects.of_statement(statement, scope) & EventKind.STEP:
            return False
        stepping = [
            call
            for call in calls_in(statement)
            if effects.of_node(call, scope) & EventKind.STEP
        ]
        return not stepping or any(
            self._is_other_step(home, call, scope, hops) for call in stepping
        )

    def _is_other_step(
        self, home: Scope, call: ast.Call, scope: Scope, hops: int
    ) -> bool:
        function = self.program.values.callee(call, scope)
        if function is home.node:
            return False
        if function is None or not hops:
            return True
        inner = self.program.scope(function)
        return any(
            self._steps_without(home, statement, inner, hops - 1)
            for statement in inner.body
        )

    def _steps_once(self, home: Scope) -> bool:
        """Whether a function runs backward itself, and in no loop: a scale that begins anew with
        each step never adapts.
        """
        calls = [
            c for c in home.calls if self.program.effects.is_backward(c, home)
        ]
        around = (a for call in calls for a in self.within(call, home.node))
        return bool(calls) and not any(isinstance(a, LOOPS) for a in around)

    def holds_everything(
        self, function: Function, scope: Scope, loops: list[ast.Call]
    ) -> bool:
        """Whether the function runs all epochs itself and is itself called in no loop."""
        if not loops or scope.node is not function:
            return False
        around = [
            [a for a in self.within(call, function) if isinstance(a, LOOPS)]
            for call in loops
        ]
        deepest = max(
            len(found) + self.depth.get(id(call), 0)
            for found, call in zip(around, loops, strict=True)
        )
        if deepest < 2 and not any(
            _counts_epochs(loop) for found in around for loop in found
        ):
            return False
        return all(
            not any(
                isinstance(a, LOOPS)
                for a in self.within(site.call, site.scope.node)
            )
            for site in self.program.graph.sites(function)
        )

    def within(self, node: ast.AST, top: ast.AST) -> list[ast.AST]:
        """What `node` is inside of, up to `top`; an expression that a loop iterates over is not
        inside that loop.
        """
        found = []
        here = node
        for parent in self.program.module.ancestors(node):
            if parent is top:
                break
            if not (
                isinstance(parent, (ast.For, ast.AsyncFor))
                and parent.iter is here
            ):
                found.append(parent)
            here = parent
        return found

    def top_of(self, function: Function, home: Scope) -> ast.stmt:
        """The first statement after the docstring, and after what makes a device or moves something
        to one.
        """
        body = function.body
        first = (
            1
            if ast.get_docstring(function, clean=False) is not None
            and len(body) > 1
            else 0
        )
        for index, statement in enumerate(body):
            if self.program.effects.of_statement(statement, home) & (
                EventKind.BACKWARD | EventKind.STEP
            ):
                break
            if self._settles_device(statement, home) and index + 1 < len(body):
                first = index + 1
        return body[first]

    def _settles_device(self, statement: ast.stmt, home: Scope) -> bool:
        """`device = torch.device(...)`, `model.to(device)`."""
        if not isinstance(statement, (ast.Assign, ast.Expr)):
            return False
        value = statement.value
        if isinstance(value, ast.Call) and isinstance(
            value.func, ast.Attribute
        ):
            if value.func.attr in MOVES:
                return True
        is_device = self.program.values.kind(value, home) in (
            Kind.DEVICE,
            Kind.DEVICE_NAME,
        )
        return isinstance(statement, ast.Assign) and is_device

    def note(self, call: ast.Call, function: Function) -> None:
        """Remember in how many loops the function behind a call runs backward."""
        inner = self.program.scope(function)
        calls = [
            c
            for c in inner.calls
            if id(c) in self.depth or self.program.effects.is_backward(c, inner)
        ]
        loops = [
            sum(isinstance(a, LOOPS) for a in self.within(c, function))
            + self.depth.get(id(c), 0)
            for c in calls
        ]
        self.depth[id(call)] = max(loops, default=1)


def _counts_epochs(loop: ast.AST) -> bool:
    """A loop over epochs, or over a number of steps, rather than over the batches of a loader."""
    if isinstance(loop, ast.While):
        return True
    assert isinstance(loop, (ast.For, ast.AsyncFor))
    counted = isinstance(loop.iter, ast.Call) and (
        dotted_name(loop.iter.func) or ""
    ).rpartition(".")[2] in (
        "range",
        "trange",
        "count",
    )
    return "epoch" in ast.unparse(loop.target).lower() or counted
