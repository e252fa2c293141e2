"""Backward, unscale_, step and update of one scope (amp-semantics section 3), as edits."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.edits import Edit, InsertAfter, InsertBefore, ReplaceExpression, Template
from amp_migrate.migrate.flow import flow_of, header
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.effects import Effect, is_reducer
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import LOOPS, Scope, blocks, names_read, shallow
from amp_migrate.names import dotted_name

_CONDITIONS = (ast.If, ast.Try, ast.ExceptHandler, ast.Match, ast.match_case, *LOOPS)
_EXITS = (ast.Continue, ast.Break, ast.Return)


@dataclass(frozen=True, eq=False)
class OptimizerStep:
    """One `X.step()` of the scope."""

    call: ast.Call
    statement: ast.stmt
    optimizer: ast.expr

    @property
    def key(self) -> str:
        """The optimizer as written, to tell whether two steps are of one."""
        return ast.dump(self.optimizer)


class Cycle:
    """Plans the gradient side of one scope."""

    def __init__(self, program: Program, scope: Scope, backwards: list[ast.Call], steps: list[ast.Call]) -> None:
        """`backwards`: calls that do (or lead to) a backward, in order; `steps`: optimizer steps written in the scope."""
        self.program = program
        self.scope = scope
        self.flow = flow_of(scope, program)
        self.backwards = backwards
        module = program.module
        self.steps = [OptimizerStep(c, module.statement_of(c), _receiver(c)) for c in steps]

    def step_edits(self, scaler: str) -> list[Edit]:
        """`X.step()` becomes `scaler.step(X)`."""
        span = self.program.module.span
        return [
            ReplaceExpression(span(s.call), Template(f"{scaler}.step($0)", (span(s.optimizer),))) for s in self.steps
        ]

    # -- unscale_

    def unscale_edits(self, scaler: str) -> list[Edit]:
        """`scaler.unscale_(X)` before the first reader of X's gradients. Raises Refusal for gradients rewritten by hand."""
        edits: dict[Edit, None] = {}
        for step in self.steps:
            place = self.unscale_place(step)
            if place is not None:
                text = Template(f"{scaler}.unscale_($0)", (self.program.module.span(step.optimizer),))
                edits[InsertBefore(self.program.module.span(place), self._for_all(step, place, text))] = None
        return list(edits)

    def _for_all(self, step: OptimizerStep, place: ast.stmt, text: Template) -> tuple[Template, ...]:
        """Inside `for optimizer in optimizers: optimizer.step()` the name means each of them; before it, none."""
        loop = self._optimizer_loop(step)
        if loop is None or self._inside(place, loop):
            return (text,)
        raise Refusal(
            "unsupported-shape",
            place,
            "gradients of several optimizers are read together: unscale_ is needed for each of them before this",
        )

    def _optimizer_loop(self, step: OptimizerStep) -> ast.stmt | None:
        """The loop over optimizers that binds the step's optimizer, where backward is outside of it."""
        name = (dotted_name(step.optimizer) or "").partition(".")[0]
        for parent in self.program.module.ancestors(step.statement):
            if isinstance(parent, (ast.For, ast.AsyncFor)) and name in {
                n.id for n in ast.walk(parent.target) if isinstance(n, ast.Name)
            }:
                holds = self.program.effects.of_statement(parent, self.scope) & Effect.BACKWARD
                return None if holds else parent
        return None

    def unscale_place(self, step: OptimizerStep) -> ast.stmt | None:
        readers = [s for s in self._between(step) if self._reads(s)]
        readers = [r for r in readers if self._of_optimizer(r, step)]
        if not readers:
            return None
        guards = self._guards(step.statement)
        tops = [self._out_of_parameter_loops(r, step) for r in readers]
        first = tops[0]
        if not guards <= self._guards(first):
            if self._cleared_each_turn(step, self._guards(first)):
                return first  # the step alone is conditional; update() comes with unscale_
            raise Refusal(
                "unsupported-shape",
                first,
                "gradients are read (or clipped) on every micro-batch but stepped only on some: unscale_ may run once per step",
            )
        conditional = self._guards(first) - guards
        if not conditional or len({id(t) for t in tops}) == 1 or all(conditional <= self._guards(t) for t in tops):
            return first
        return self._in_block_of(first, step.statement)

    def _cleared_each_turn(self, step: OptimizerStep, guards: set[str]) -> bool:
        """Whether gradients are cleared wherever they are read, so that nothing accumulates over turns."""
        loop = self._loop(step.statement)
        for statement in self.flow.steps:
            inside = loop is self.scope.node or any(
                a is loop for a in self.program.module.ancestors(statement.statement)
            )
            if (
                inside
                and self._header_effect(statement.statement) & Effect.ZERO_GRAD
                and self._guards(statement.statement) <= guards
            ):
                return True
        return False

    def _between(self, step: OptimizerStep) -> list[ast.stmt]:
        """Statements after the last backward before a step, up to the step."""
        end = self.flow.step(step.statement).order
        before = [self.flow.step(self.program.module.statement_of(b)).order for b in self.backwards]
        start = max((o for o in before if o < end), default=None)
        if start is None:  # the backward comes later in the loop body: gradients are read at the top of the next turn
            return []
        found = [s.statement for s in self.flow.steps[start + 1 : end]]
        if any(self._writes(s) for s in found):
            culprit = next(s for s in found if self._writes(s))
            raise Refusal(
                "gradient-mutated",
                culprit,
                "gradients are rewritten here between backward and step, by more than clipping or scaling",
            )
        return found

    def _header_effect(self, statement: ast.stmt) -> Effect:
        effect = Effect.NONE
        for root in header(statement):
            effect |= self.program.effects.of_statement(root, self.scope)
        return effect

    def _writes(self, statement: ast.stmt) -> bool:
        return bool(self._header_effect(statement) & Effect.WRITES_GRADIENTS)

    def _reads(self, statement: ast.stmt) -> bool:
        """Whether a statement itself reads gradients, averaging over processes aside."""
        if not self._header_effect(statement) & Effect.READS_GRADIENTS or self._header_effect(statement) & Effect.STEP:
            return False
        calls = [n for root in header(statement) for n in shallow(root) if isinstance(n, ast.Call)]
        return not any(self._reduces(call) for call in calls) and not self._inside_reducer_loop(statement)

    def _reduces(self, call: ast.Call) -> bool:
        if is_reducer(call):
            return True
        function = self.program.values.callee(call, self.scope)
        return function is not None and any(isinstance(n, ast.Call) and is_reducer(n) for n in ast.walk(function))

    def _inside_reducer_loop(self, statement: ast.stmt) -> bool:
        """`for p in ...: all_reduce(p.grad); p.grad /= n` averages as a whole."""
        for parent in self.program.module.ancestors(statement):
            if (
                isinstance(parent, LOOPS)
                and not self.program.effects.of_statement(parent, self.scope) & Effect.BACKWARD
            ):
                return any(isinstance(n, ast.Call) and self._reduces(n) for n in shallow(parent))
        return False

    def _of_optimizer(self, reader: ast.stmt, step: OptimizerStep) -> bool:
        """Whether the gradients read belong to the step's optimizer, where several step after one backward."""
        rivals = {s.key for s in self.steps if self._last_backward(s) == self._last_backward(step)}
        if len(rivals) == 1:
            return True
        read = self._parameter_owners(reader)
        matches = {s.key for s in self.steps if s.key in rivals and self._owners(s) & read}
        return not matches or step.key in matches

    def _last_backward(self, step: OptimizerStep) -> int:
        end = self.flow.step(step.statement).order
        orders = [self.flow.step(self.program.module.statement_of(b)).order for b in self.backwards]
        return max((o for o in orders if o < end), default=-1)

    def _owners(self, step: OptimizerStep) -> set[str]:
        """The models whose parameters an optimizer was given, and the optimizer itself."""
        origin = self.program.values.of(step.optimizer, self.scope).origin
        own = {dotted_name(step.optimizer) or ""}
        return own | (_owners_in(origin) if isinstance(origin, ast.Call) else set())

    def _parameter_owners(self, reader: ast.stmt) -> set[str]:
        found: set[str] = set()
        here: ast.AST = reader
        while isinstance(here, ast.stmt):
            for root in header(here):
                found |= _owners_in(root)
            here = self.program.module.parents[here]
            if not isinstance(here, LOOPS):
                break
        return found

    def _guards(self, statement: ast.stmt) -> set[str]:
        """The conditions a statement stands under inside its training loop, as text (two `if` of one test are one guard)."""
        found: set[str] = set()
        here: ast.AST = statement
        for parent in self.program.module.ancestors(statement):
            if parent is self.scope.node or (isinstance(parent, LOOPS) and self._holds_step_and_backward(parent)):
                break
            if isinstance(parent, ast.If):
                branch = "then" if any(here is s for s in parent.body) else "else"
                found.add(f"{branch} {ast.dump(parent.test)}")
            elif isinstance(parent, (ast.ExceptHandler, ast.match_case)):
                found.add(f"{parent.lineno if isinstance(parent, ast.ExceptHandler) else id(parent)}")
            here = parent
        return found

    def _holds_step_and_backward(self, loop: ast.stmt) -> bool:
        return bool(self.program.effects.of_statement(loop, self.scope) & (Effect.BACKWARD | Effect.STEP))

    def _out_of_parameter_loops(self, reader: ast.stmt, step: OptimizerStep) -> ast.stmt:
        """`for p in parameters: ... p.grad ...` is one reader; conditions inside it do not count."""
        top = reader
        for parent in self.program.module.ancestors(reader):
            if isinstance(parent, LOOPS):
                if self._holds_step_and_backward(parent):
                    break
                assert isinstance(parent, ast.stmt)
                top = parent
            if not isinstance(parent, ast.stmt) or parent is self.scope.node:
                break
        return top

    def _in_block_of(self, statement: ast.stmt, other: ast.stmt) -> ast.stmt:
        """The ancestor of `statement` in a block around `other`."""
        module = self.program.module
        around = {id(other), *(id(a) for a in module.ancestors(other))}
        while not any(id(s) in around for s in module.block_of(statement)):
            parent = module.statement_around(statement)
            assert parent is not None
            statement = parent
        return statement

    # -- update

    def update_edits(self, scaler: str) -> list[Edit]:
        """`scaler.update()` where each iteration has made its last step. Raises Refusal where no place is right."""
        update = Template(f"{scaler}.update()")
        span = self.program.module.span
        early = [InsertBefore(span(e), (update,)) for e in self.exits()]
        return [*early, *(InsertAfter(span(a), (update,)) for a in self.update_anchors())]

    def update_anchors(self) -> list[ast.stmt]:
        """The statements after which `update()` goes."""
        by_loop: dict[int, list[OptimizerStep]] = {}
        for step in self.steps:
            by_loop.setdefault(id(self._loop(step.statement)), []).append(step)
        self._check_trailing(by_loop)
        for step in self.steps:
            self._check_gradients(step)
        anchors = {id(a): a for group in by_loop.values() for a in map(self._with_unscale, self._anchors(group))}
        if len(anchors) > 1:
            self._check_pending(list(anchors.values()))
        return list(anchors.values())

    def _with_unscale(self, anchor: ast.stmt) -> ast.stmt:
        """Update follows unscale_ on every path: after the conditional step that unscale_ stands before."""
        for place in self._unscale_places(anchor):
            if not self._guards(anchor) <= self._guards(place):
                return self._in_block_of(anchor, place)
        return anchor

    def _unscale_places(self, anchor: ast.stmt) -> list[ast.stmt]:
        places = [self.unscale_place(s) for s in self.steps if self._inside(s.statement, anchor)]
        return [p for p in places if p is not None]

    def exits(self) -> list[ast.stmt]:
        """`continue`, `break` and `return` between unscale_ (or an earlier step) and update: each needs an update of its own."""
        found: dict[int, ast.stmt] = {}
        for anchor in self.update_anchors():
            for place in self._unscale_places(anchor):
                start = self._in_block_of(place, anchor)
                top = self._in_block_of(anchor, start)
                block = self.program.module.block_of(start)
                first, last = (next(i for i, s in enumerate(block) if s is x) for x in (start, top))
                for statement in block[first:last] if top is anchor else block[first : last + 1]:
                    found.update(
                        (id(e), e) for e in self._exits_in(statement) if not self._after_update(e, anchor, top)
                    )
        return list(found.values())

    def _after_update(self, leave: ast.stmt, anchor: ast.stmt, top: ast.stmt) -> bool:
        return top is not anchor and leave.lineno > anchor.lineno and self._guards(anchor) <= self._guards(leave)

    def _exits_in(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that leave the loop body (or function) around `statement`."""
        if isinstance(statement, _EXITS):
            return [statement]
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return []
        inner = [e for block in blocks(statement) for s in block for e in self._exits_in(s)]
        return [e for e in inner if isinstance(e, ast.Return)] if isinstance(statement, LOOPS) else inner

    def _check_gradients(self, step: OptimizerStep) -> None:
        """`if loss > 0: loss.backward()` and an unconditional step: without gradients `scaler.step` raises."""
        end, loop = self.flow.step(step.statement).order, self._loop(step.statement)
        around = [self.program.module.statement_of(b) for b in self.backwards]
        mine = [
            s for s in around if self.flow.step(s).order < end and (loop is self.scope.node or self._inside(s, loop))
        ]
        guards = self._guards(step.statement)
        missing = [self._guards(s) - guards for s in mine]
        alternatives = {g.partition(" ")[2] for extra in missing for g in extra if g.startswith("else ")}
        covered = any(not extra or all(g.partition(" ")[2] in alternatives for g in extra) for extra in missing)
        if mine and not covered:
            raise Refusal(
                "unsupported-shape",
                step.call,
                "the step runs where backward may not have: GradScaler.step does not accept an optimizer without gradients",
            )

    def _loop(self, statement: ast.stmt) -> ast.AST:
        """The innermost loop around a statement that also holds a backward, or the scope."""
        for parent in self.program.module.ancestors(statement):
            if parent is self.scope.node:
                break
            if isinstance(parent, LOOPS) and self.program.effects.of_statement(parent, self.scope) & Effect.BACKWARD:
                return parent
        return self.scope.node

    def _anchors(self, group: list[OptimizerStep]) -> list[ast.stmt]:
        """Where update goes for the steps of one loop body (or of one branch of it)."""
        if len(group) == 1:
            return [self._out_of_optimizer_loop(group[0].statement)]
        block, children = self._shared_block(group)
        if len(children) == 1:
            return [a for part in self._branches(children[0], group) for a in self._anchors(part)]
        certain = any(self._certain(child, group) for child in children)
        once = self._at_most_once(children, group)
        left_early = self._leaves_between(block, children)
        if certain and once and not left_early:
            return [children[-1]]
        return [a for unit in self._units(block, children) for a in self._unit_anchors(unit, group)]

    def _units(self, block: list[ast.stmt], children: list[ast.stmt]) -> list[list[ast.stmt]]:
        """Steps in a row after one backward belong together: no update may come between them."""
        units: list[list[ast.stmt]] = []
        for child in children:
            place = next(i for i, s in enumerate(block) if s is child)
            start = next(i for i, s in enumerate(block) if units and s is units[-1][-1]) if units else place
            between = block[start + 1 : place + 1]
            fresh = any(self.program.effects.of_statement(s, self.scope) & Effect.BACKWARD for s in between)
            if units and not fresh:
                units[-1].append(child)
            else:
                units.append([child])
        return units

    def _unit_anchors(self, unit: list[ast.stmt], group: list[OptimizerStep]) -> list[ast.stmt]:
        steps = [s for s in group for child in unit if self._inside(s.statement, child)]
        plain = all(any(s.statement is child for s in steps) for child in unit)
        if plain and len({s.key for s in steps}) == len(steps):
            return [unit[-1]]
        return [a for child in unit for a in self._anchors([s for s in group if self._inside(s.statement, child)])]

    def _out_of_optimizer_loop(self, statement: ast.stmt) -> ast.stmt:
        """`for optimizer in optimizers: optimizer.step()` steps as a whole."""
        top = statement
        for parent in self.program.module.ancestors(statement):
            if not isinstance(parent, (*LOOPS, ast.If)) or parent is self._loop(statement):
                break
            if isinstance(parent, LOOPS):
                assert isinstance(parent, ast.stmt)
                top = parent
        return top

    def _shared_block(self, group: list[OptimizerStep]) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The deepest block that holds all steps of a group, and its statements that do."""
        module = self.program.module
        statement = group[0].statement
        while True:
            block = module.block_of(statement)
            children = [s for s in block if any(self._inside(x.statement, s) for x in group)]
            if sum(self._inside(x.statement, c) for x in group for c in children) == len(group):
                return block, children
            parent = module.parents[statement]
            assert isinstance(parent, (ast.stmt, ast.ExceptHandler, ast.match_case))
            statement = parent if isinstance(parent, ast.stmt) else module.statement_of(parent)

    def _inside(self, statement: ast.stmt, around: ast.AST) -> bool:
        return statement is around or any(a is around for a in self.program.module.ancestors(statement))

    def _branches(self, compound: ast.stmt, group: list[OptimizerStep]) -> list[list[OptimizerStep]]:
        """The steps of each branch of one compound statement."""
        parts = [[s for s in group if any(self._inside(s.statement, x) for x in block)] for block in blocks(compound)]
        return [p for p in parts if p]

    def _certain(self, child: ast.stmt, group: list[OptimizerStep]) -> bool:
        """Whether running `child` always makes a step of the group."""
        if any(s.statement is child for s in group):
            return True
        if isinstance(child, (ast.With, ast.AsyncWith)):
            return any(self._certain(s, group) for s in child.body)
        if isinstance(child, ast.If) and child.orelse:
            return all(any(self._certain(s, group) for s in block) for block in (child.body, child.orelse))
        return False

    def _at_most_once(self, children: list[ast.stmt], group: list[OptimizerStep]) -> bool:
        """Whether no optimizer steps in two of the children, or twice inside one."""
        seen: set[str] = set()
        for child in children:
            keys = [s.key for s in group if self._inside(s.statement, child)]
            if isinstance(child, ast.If):
                keys = list(dict.fromkeys(keys))  # exclusive branches
            if len(set(keys)) < len(keys) or seen & set(keys):
                return False
            seen |= set(keys)
        return True

    def _leaves_between(self, block: list[ast.stmt], children: list[ast.stmt]) -> bool:
        """Whether the iteration can end between the first step and the place of update."""
        first, last = (next(i for i, s in enumerate(block) if s is c) for c in (children[0], children[-1]))
        return any(self._leaves(s) for s in block[first : last + 1])

    def _leaves(self, statement: ast.stmt) -> bool:
        """A `continue`, `break` or `return` that leaves the loop body which holds `statement`."""
        if isinstance(statement, _EXITS):
            return True
        for block in blocks(statement):
            for inner in block:
                own = isinstance(statement, LOOPS) and not isinstance(inner, ast.Return)
                if not own and self._leaves(inner):
                    return True
        return False

    def _check_trailing(self, by_loop: dict[int, list[OptimizerStep]]) -> None:
        """A step after the loop that already steps the same optimizer may find no gradients: then `scaler.step` raises."""
        for group in by_loop.values():
            for step in group:
                inner = [s for s in self.steps if s.key == step.key and s is not step and self._deeper(s, step)]
                no_backward = self._last_backward(step) <= max((self._last_backward(s) for s in inner), default=-2)
                if inner and no_backward and not self._guards(step.statement):
                    raise Refusal(
                        "unsupported-shape",
                        step.call,
                        "this step after the loop may find no gradients, which GradScaler.step does not accept: make it conditional",
                    )

    def _deeper(self, inner: OptimizerStep, outer: OptimizerStep) -> bool:
        loop = self._loop(inner.statement)
        before = isinstance(loop, ast.stmt) and loop.lineno < outer.statement.lineno
        return before and not any(a is loop for a in self.program.module.ancestors(outer.statement))

    def _check_pending(self, anchors: list[ast.stmt]) -> None:
        """An update between a backward and the step that uses its gradients would mix two scales without an error."""
        for step in self.steps:
            order = self.flow.step(step.statement).order
            last = self._last_backward(step)
            others = [
                a for a in anchors if not any(s.key == step.key and self._inside(s.statement, a) for s in self.steps)
            ]
            between = [e for e in map(self._last_order, others) if last < e < order]
            if between and last >= 0 and not self._exclusive(step, between):
                raise Refusal(
                    "unsupported-shape",
                    step.call,
                    "another optimizer steps between this optimizer's backward and its step, and would change the scale in between",
                )

    def _exclusive(self, step: OptimizerStep, orders: list[int]) -> bool:
        """Whether the updates at `orders` stand in branches that exclude the step."""
        module = self.program.module
        mine = {id(a): a for a in module.ancestors(step.statement)}
        for order in orders:
            other = self.flow.steps[order].statement
            shared = next((a for a in module.ancestors(other) if id(a) in mine), None)
            if not isinstance(shared, ast.If):
                return False
        return True

    def _last_order(self, statement: ast.stmt) -> int:
        return max(s.order for s in self.flow.steps if self._inside(s.statement, statement))


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _owners_in(node: ast.AST) -> set[str]:
    """`net`, `self.net` of `net.parameters()` and the like; plain names given to calls."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in ("parameters", "named_parameters", "param_groups"):
            found.add(dotted_name(inner.value) or "")
        elif isinstance(inner, ast.Call):
            found |= {d for a in inner.args if (d := dotted_name(a)) is not None}
    return found - {""}


__all__ = ["Cycle", "OptimizerStep", "names_read"]
