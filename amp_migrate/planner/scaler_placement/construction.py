"""Beside which statements a scaler is made: the constructions of its optimizers, out of branches
and epoch loops.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    LOOPS,
    Binding,
    Scope,
    blocks,
)
from amp_migrate.model.syntax.queries import (
    any_in,
    calls_in,
    is_elif,
    names_in,
    names_stored,
    nodes_in,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.files.notebook_cells import in_other_cells
from amp_migrate.planner.scaler_placement.homes import Home


class Anchors:
    """Places in one program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def of(
        self,
        bindings: list[Binding],
        home: Scope,
        scope: Scope,
        uses: list[ast.Call],
    ) -> list[ast.stmt]:
        """The constructions, climbed out of branches and loops that the training loop, or a call
        of it, is not in.
        """
        inside = self._around(scope, uses) if scope is home else set()
        statements = [
            b.statement for b in bindings if isinstance(b.statement, ast.stmt)
        ]
        statements = [
            s for b in bindings for s in self._fillings(b, home)
        ] or statements
        return [self._climbed(s, inside, statements) for s in statements]

    def _fillings(self, binding: Binding, home: Scope) -> list[ast.stmt]:
        """`optimizers = []` or `= Munch()`, filled later by `optimizers.append(...)` or
        `optimizers["g"] = ...`.
        """
        value, module = binding.value, self.program.module
        empty = isinstance(value, (ast.List, ast.Dict)) and not (
            getattr(value, "elts", None) or getattr(value, "keys", None)
        )
        made = isinstance(value, ast.Call) and not value.args
        target = (
            binding.statement.targets[0]
            if isinstance(binding.statement, ast.Assign)
            else None
        )
        name = dotted_name(target) if target is not None else None
        if not (empty or made) or name is None:
            return []
        head, _, rest = name.partition(".")
        of_object = home.owner is not None and head == home.self_name
        holder, key = (
            (home.owner, f"self.{rest}") if of_object else (home, name)
        )
        stored = holder.stored.get(key, ()) if holder is not None else ()
        return [
            self._out_of_loops(
                module.statement_of(one.statement), binding.statement
            )
            for one in stored
            if module.scope_of(one.statement) is home
            and self._is_optimizer(one.value, home)
        ]

    def _is_optimizer(self, value: ast.expr, scope: Scope) -> bool:
        return self.program.values.kind(value, scope) in (
            Kind.OPTIMIZER,
            Kind.UNKNOWN,
        )

    def _out_of_loops(self, statement: ast.stmt, origin: ast.AST) -> ast.stmt:
        module = self.program.module
        while module.parents[statement] is not module.parents[
            origin
        ] and isinstance(module.parents[statement], ast.stmt):
            parent = module.parents[statement]
            assert isinstance(parent, ast.stmt)
            statement = parent
        return statement

    def _climbed(
        self, statement: ast.stmt, inside: set[int], makers: list[ast.stmt]
    ) -> ast.stmt:
        """Out of an `if/elif` (or `try`) that makes the optimizer in several branches and does not
        hold the loop.
        """
        module = self.program.module
        top = statement
        for parent in module.ancestors(statement):
            if isinstance(parent, (ast.ExceptHandler, ast.match_case)):
                continue
            if (
                not isinstance(parent, (ast.If, ast.Try, ast.Match))
                or id(parent) in inside
            ):
                break
            branches = [
                b
                for b in blocks(parent)
                if any(self._holds(s, maker) for s in b for maker in makers)
            ]
            others = [b for b in blocks(parent) if b not in branches]
            if (
                len(branches) > 1
                or is_elif(top, parent)
                or self._stands_for_none(parent)
                or (
                    others
                    and all(
                        isinstance(b[-1], (ast.Raise, ast.Return))
                        for b in others
                    )
                )
            ):
                top = parent
        return top

    def _stands_for_none(self, branch: ast.AST) -> bool:
        """`if optimizer is None:` of a parameter, which the branch sets."""
        test = branch.test if isinstance(branch, ast.If) else None
        asked = test.left if isinstance(test, ast.Compare) else None
        if not isinstance(asked, ast.Name) or not isinstance(branch, ast.If):
            return False
        assert isinstance(test, ast.Compare)
        is_none = isinstance(test.ops[0], ast.Is) and not branch.orelse
        scope = self.program.module.scope_of(branch)
        given = {one.arg for one in scope.parameters()}
        return is_none and asked.id in given & names_stored(branch)

    def _holds(self, around: ast.stmt, statement: ast.stmt) -> bool:
        return statement is around or any(
            a is around for a in self.program.module.ancestors(statement)
        )

    def _around(self, scope: Scope, uses: list[ast.Call]) -> set[int]:
        """Everything around the steps of a scope, and around the calls that are given
        the scaler.
        """
        around: set[int] = set()
        for call in [
            *self.program.effects.steps(scope),
            *self.program.effects.backwards(scope),
            *uses,
        ]:
            around |= {id(n) for n in self.program.module.ancestors(call)}
        return around

    def lasting(self, bindings: list[Binding]) -> list[Binding]:
        """Those beside which an object's scaler is made: one that its constructor makes outlives
        optimizers that are rebuilt while it trains.
        """
        module = self.program.module
        found = [b for b in bindings if not self._is_rebuilt(b)]
        names = {
            getattr(module.scope_of(b.statement).node, "name", "")
            for b in found
        }
        return found if "__init__" in names else bindings

    def _is_rebuilt(self, binding: Binding) -> bool:
        """Whether a binding stands in a loop that trains."""
        scope = self.program.module.scope_of(binding.statement)
        for parent in self.program.module.ancestors(binding.statement):
            if parent is scope.node:
                return False
            effect = self.program.effects.of_statement(parent, scope)
            if isinstance(parent, LOOPS) and effect & (
                EventKind.BACKWARD | EventKind.STEP
            ):
                return True
        return False

    def placed(self, home: Home, anchor: ast.stmt) -> tuple[ast.stmt, bool]:
        """The statement beside which a scaler is made, and whether it is made before it."""
        moved = False
        if not home.attribute:
            anchor, moved = self.before_epochs(anchor)
        return anchor, home.top or moved or self._restores(anchor)

    def _restores(self, anchor: ast.stmt) -> bool:
        """Whether a branch that makes an optimizer loads its state, too: that of the scaler is
        loaded beside it.
        """
        return isinstance(anchor, (ast.If, ast.Try)) and any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "load_state_dict"
            and self._makes(call.func.value, anchor)
            for call in calls_in(anchor)
        )

    def _makes(self, optimizer: ast.expr, anchor: ast.stmt) -> bool:
        scope = self.program.module.scope_of(anchor)
        kind = self.program.values.kind(optimizer, scope)
        name = (dotted_name(optimizer) or "").partition(".")[0]
        return kind is Kind.OPTIMIZER and any(
            self._holds(anchor, one.statement)
            for one in scope.bindings.get(name, ())
            if isinstance(one.statement, ast.stmt)
        )

    def before_epochs(self, anchor: ast.stmt) -> tuple[ast.stmt, bool]:
        """Out of an epoch loop that rebuilds the optimizer, and not its model: the scaler keeps
        its scale over epochs. Says whether it moved.
        """
        top, moved = anchor, False
        for parent in self.program.module.ancestors(anchor):
            if isinstance(parent, FUNCTIONS):
                break
            if (
                isinstance(parent, (ast.For, ast.AsyncFor))
                and "epoch" in ast.unparse(parent.target).lower()
                and not self._trains_anew(anchor, parent)
            ):
                top, moved = parent, True
        return top, moved

    def _trains_anew(self, anchor: ast.stmt, loop: ast.stmt) -> bool:
        """Whether a loop makes the model, too, that an optimizer is made for, or made with: each
        turn is a training run.
        """
        scope = self.program.module.scope_of(anchor)
        named = names_in(anchor)
        return any(
            isinstance(node, ast.Name)
            and node.id in named
            and isinstance(node.ctx, ast.Load)
            and self.program.values.is_model(node, scope)
            and any(
                self._holds(loop, one.statement)
                for one in scope.bindings.get(node.id, ())
                if isinstance(one.statement, ast.stmt)
            )
            for node in nodes_in(loop)
        )

    def lasts(self, anchors: list[ast.stmt]) -> list[ast.stmt]:
        """One place for each time that optimizers are (re)built: the last of a run, and none
        inside a training loop.
        """
        ordered = sorted(
            {id(a): a for a in anchors}.values(),
            key=lambda a: (a.lineno, a.col_offset),
        )
        first = [a for a in ordered if not self.before_epochs(a)[1]]
        kept: list[ast.stmt] = []
        for anchor in self._after_branches(
            first or ordered
        ):  # one that is rebuilt between epochs keeps its scaler
            earlier = kept[-1] if kept else None
            if earlier is not None and self._covers(earlier, anchor):
                nested = (
                    self.program.module.parents[earlier]
                    is not self.program.module.parents[anchor]
                )
                if nested and not in_other_cells(self.program, earlier, anchor):
                    continue
                if not nested and self._quiet_between(earlier, anchor):
                    kept.pop()
            elif earlier is not None and self._replaces(anchor, earlier):
                kept.pop()
            kept.append(anchor)
        return kept

    def _after_branches(self, anchors: list[ast.stmt]) -> list[ast.stmt]:
        """`if sgd: optimizer = ...` and `if adam: optimizer = ...` in one block: one place, after
        the last `if`.
        """
        parents = [self.program.module.parents[a] for a in anchors]
        blocks_of = {
            id(self.program.module.block_of(p))
            for p in parents
            if isinstance(p, ast.If)
        }
        lone = (
            all(isinstance(p, ast.If) for p in parents)
            and len({id(p) for p in parents}) > 1
        )
        trains = any(
            self.program.effects.of_statement(
                p, self.program.module.scope_of(p)
            )
            & (EventKind.BACKWARD | EventKind.STEP)
            for p in parents
            if lone
        )
        last = parents[-1] if parents else None
        return (
            [last]
            if lone
            and not trains
            and len(blocks_of) == 1
            and isinstance(last, ast.If)
            else anchors
        )

    def _covers(self, earlier: ast.stmt, later: ast.stmt) -> bool:
        """Whether `earlier` always ran when `later` runs."""
        block = self.program.module.block_of(earlier)
        around = {
            id(later),
            *(id(a) for a in self.program.module.ancestors(later)),
        }
        return any(id(s) in around for s in block)

    def _replaces(self, later: ast.stmt, earlier: ast.stmt) -> bool:
        """Whether `later` always runs after the branch that `earlier` stands in, and nothing
        trains in between.
        """
        module = self.program.module
        block = module.block_of(later)
        for parent in module.ancestors(earlier):
            if not isinstance(parent, ast.If) or any_in(parent, ast.Return):
                return False
            if any(one is parent for one in block):
                return self._quiet_between(parent, later)
        return False

    def _quiet_between(self, earlier: ast.stmt, later: ast.stmt) -> bool:
        """Whether nothing trains between two constructions in one block."""
        block = self.program.module.block_of(earlier)
        first, last = (
            next(i for i, s in enumerate(block) if s is x)
            for x in (earlier, later)
        )
        scope = self.program.module.scope_of(earlier)
        return not any(
            self.program.effects.of_statement(s, scope)
            & (EventKind.BACKWARD | EventKind.STEP)
            for s in block[first + 1 : last]
        )
