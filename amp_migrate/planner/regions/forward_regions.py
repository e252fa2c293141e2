"""Where autocast goes: the runs of sibling statements from the first forward to the last statement
that defines a loss.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from amp_migrate.model.classes.lazy_construction import makes_optimizer
from amp_migrate.model.forwards.loss_modules import runs_model
from amp_migrate.model.forwards.quiet_forwards import runs_quietly
from amp_migrate.model.gradients.flow import is_no_grad, under_no_grad
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.data_fetches import fetches_data
from amp_migrate.model.steps.events import BARRIER, TRAINING, EventKind
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.syntax.queries import is_elif
from amp_migrate.model.values.kinds import Kind, criterion_name
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.handed_on import hands_on
from amp_migrate.planner.regions.loss_flow import (
    Step,
    flow_of,
    header,
    is_apart,
)
from amp_migrate.planner.regions.missing_forward import MissingForward
from amp_migrate.planner.regions.statement_runs import (
    Hoist,
    Region,
    Regions,
    acts,
    checked,
    index_in,
    inside_larger,
    is_power,
    rebased,
    receivers,
    stretched,
)
from amp_migrate.planner.steps.graphs_of_turns import Turns
from amp_migrate.torch_facts.methods import LOSS_ARITHMETIC, NOT_ELEMENTWISE

_Behind: TypeAlias = tuple[ast.Call, list[ast.stmt], list[ast.expr]]
"""A backward, and the statements and the parts of its receiver that compute the loss."""


class RegionFinder:
    """Finds the regions of one training scope."""

    def __init__(
        self,
        program: Program,
        scope: Scope,
        backwards: list[ast.Call],
        late: frozenset[ast.stmt],
        losses: Callable[[ast.Call], list[ast.expr]] | None = None,
        outputs: frozenset[str] = frozenset(),
    ) -> None:
        """`backwards` are calls that end in a backward; `late` are statements that must stay
        outside (BCE losses); `losses` finds what such a call differentiates; `outputs` are
        attributes that a forward before the scope is called has set.
        """
        self._outputs = outputs
        self._losses = losses or (lambda call: receivers(call, program))
        self.program = program
        self.scope = scope
        self.backwards = backwards
        self.late = late
        self.flow = flow_of(scope, program)
        self._turns = Turns(program, scope, backwards, self.flow.behind)
        self.tainted: set[str] = set()
        self._models = EventKind.FORWARD
        """What counts as a forward: variables that may hold a model, too, where none surely is
        one.
        """
        self._around_late = {
            id(a)
            for s in late
            for a in (s, *program.module.ancestors(s))
            if isinstance(a, ast.stmt)
        }

    def find(self) -> Regions:
        """All regions of the scope. Raises Refusal where a loss has no forward in sight or the run
        cannot be wrapped.
        """
        behind = [
            (call, *self._forward_behind(call)) for call in self.backwards
        ]
        self._check_forwards(behind)
        hoisted = [
            (call, expr, self.program.module.statement_of(call))
            for call, _, inline in behind
            for expr in inline
        ]
        regions = [
            r
            for group in self._runs(behind)
            for r in self._regions(group)
            if self._worthwhile(r)
        ]
        regions.sort(key=lambda r: r.first.lineno)
        hoists = tuple(
            self._hoist(call, expr, at, regions) for call, expr, at in hoisted
        )
        return Regions(
            tuple(stretched(r, hoists) for r in regions),
            rebased(hoists),
            frozenset(self.tainted),
        )

    def _check_forwards(self, behind: list[_Behind]) -> None:
        """Raise Refusal for a loss without a forward, but for a penalty on parameters beside one
        with it.
        """
        beside = any(found or inline for _, found, inline in behind)
        for call, found, inline in behind:
            at = self.program.module.statement_of(call)
            if found or inline or self._late_forward(call, at):
                continue
            losses = self._losses(call)
            missing = MissingForward(self.program, self.scope, losses)
            if not beside or not missing.is_penalty(at):
                raise missing.refusal(call)

    def _runs(
        self, behind: list[_Behind]
    ) -> Iterable[list[tuple[ast.stmt, list[ast.stmt]]]]:
        """What computes the losses, by the block it stands in and the barriers in that. No part of
        a loss is one, whatever it reads: it goes under autocast, and so may what follows it.
        """
        tops = [
            self._top(statement, self.program.module.statement_of(call))
            for call, found, _ in behind
            for statement in found
            if not hands_on(
                self.program, statement, self.program.module.statement_of(call)
            )
        ]
        inside = {top for top, _ in tops}
        members: dict[
            tuple[int, int], list[tuple[ast.stmt, list[ast.stmt]]]
        ] = {}
        for top, block in tops:
            key = (id(block), self._segment(top, block, inside))
            members.setdefault(key, []).append((top, block))
        return members.values()

    def _forward_behind(
        self, call: ast.Call
    ) -> tuple[list[ast.stmt], list[ast.expr]]:
        """The statements, and the parts of the receiver, that compute a loss."""
        at = self.program.module.statement_of(call)
        for self._models in (
            EventKind.FORWARD,
            EventKind.FORWARD | EventKind.CALLABLE,
        ):
            losses = () if at in self.late else self._losses(call)
            inline = [e for e in losses if self._computes(e)]
            found = self._members(call, at)
            if found or inline:
                break
        if not found and not inline and self._outputs:
            found = self._members(call, at, self._outputs)
        return found, inline

    def _late_forward(self, call: ast.Call, at: ast.stmt) -> bool:
        """Whether every forward behind a backward is one that must stay in float32: then it needs
        no region at all.
        """
        steps = (
            s for expr in self._losses(call) for s in self.flow.slice(expr, at)
        )
        return any(s.statement in self.late for s in steps)

    def _computes(self, expr: ast.expr) -> bool:
        """Whether a receiver runs a model or a loss function, rather than only joining losses."""
        return any(
            isinstance(node, ast.Call) and self._is_compute(node)
            for node in shallow(expr)
        )

    def _is_compute(self, call: ast.Call) -> bool:
        effects = self.program.effects
        if effects.forward_of(
            call, self.scope
        ) & self._models or effects.is_bce(call, self.scope):
            return True
        if self.program.values.kind(call.func, self.scope) is Kind.CRITERION:
            return True
        name = (dotted_name(call.func) or "").rpartition(".")[2]
        canonical = self.program.canonical(call.func) or ""
        return canonical.startswith("torch.nn.functional.") or (
            bool(name) and criterion_name(name) and name not in LOSS_ARITHMETIC
        )

    def _members(
        self,
        call: ast.Call,
        at: ast.stmt,
        outputs: frozenset[str] = frozenset(),
    ) -> list[ast.stmt]:
        """Statements of the loss's slice that carry gradients from a forward on, or from
        `outputs`, in source order.
        """
        tainted: set[str] = set(outputs)
        floats: set[str] = set()
        members: list[Step] = []
        for expr in self._losses(call):
            for step in self.flow.slice(expr, at, self.flow.without_gradient):
                if step in members or not self._turns.holds(step.statement, at):
                    continue
                if self._stands_alone(step.statement):
                    continue
                if self.flow.without_gradient(step.statement):
                    if self._runs_on_halves(step, tainted):
                        members.append(step)
                    continue
                if self._runs_forward(step.statement) or step.uses & tainted:
                    if self._stays_float(step, tainted, floats):
                        floats |= step.defines
                    else:
                        if (
                            id(step.statement) not in self._around_late
                        ):  # a loop around one: only what it holds is wrapped
                            members.append(step)
                        floats -= step.defines
                    tainted |= step.defines
        members.sort(key=lambda s: s.order)
        if not outputs and not any(
            self._runs_forward(m.statement) for m in members
        ):
            members = []
        self.tainted |= tainted
        return [m.statement for m in members]

    def _runs_on_halves(self, step: Step, tainted: set[str]) -> bool:
        if step.statement in self.late or not step.uses & tainted:
            return False
        return self._runs_forward(
            step.statement, quiet=True
        ) and not under_no_grad(self.program, step.statement)

    def _stays_float(
        self, step: Step, tainted: set[str], floats: set[str]
    ) -> bool:
        """Arithmetic on nothing but what late statements gave, as a penalty is made of gradients
        in float32.
        """
        if step.statement in self.late:
            return True
        return (
            not self._runs_forward(step.statement)
            and step.uses & tainted <= floats
        )

    def _runs_forward(self, statement: ast.stmt, quiet: bool = False) -> bool:
        """Whether a statement runs a model; with `quiet`, also one without gradients."""
        return any(
            isinstance(node, ast.Call)
            and runs_model(self.program, node, self.scope, self._models)
            and (quiet or not runs_quietly(self.program, node, self.scope))
            for root in header(statement)
            for node in shallow(root)
        )

    def _stands_alone(self, statement: ast.stmt) -> bool:
        """A fitting with backwards and steps of its own, whose results are no part of this graph;
        the making of the optimizer.
        """
        trains = any(self._effect(r) & TRAINING for r in header(statement))
        return trains or makes_optimizer(self.program, statement, self.scope)

    def _top(
        self, member: ast.stmt, at: ast.stmt
    ) -> tuple[ast.stmt, list[ast.stmt]]:
        """The highest statement around `member`, free of barriers, on the way to the block it
        shares with `at`.
        """
        module = self.program.module
        around = {id(n) for n in (at, *module.ancestors(at))}
        top, block = member, module.block_of(member)
        below = top, block
        while not any(id(sibling) in around for sibling in block):
            parent = module.statement_around(top)
            if parent is None or not is_elif(top, parent):
                below = top, block
            if (
                parent is None
                or self._effect(parent) & BARRIER
                or acts(parent)
                or id(parent) in self._around_late
            ):
                break
            top, block = parent, module.block_of(parent)
        if id(top) in around:
            raise Refusal(
                "unsupported-shape",
                member,
                "the loss is computed in the head of the statement that holds backward",
            )
        parent = module.statement_around(top)
        return (
            below
            if parent is not None and is_elif(top, parent)
            else (top, block)
        )

    def _effect(self, statement: ast.AST) -> EventKind:
        return self.program.effects.of_statement(statement, self.scope)

    def _segment(
        self, top: ast.stmt, block: list[ast.stmt], inside: set[ast.stmt]
    ) -> int:
        above = block[: index_in(block, top)]
        return sum(
            s not in inside and bool(self._effect(s) & BARRIER) for s in above
        )

    def _regions(
        self, group: list[tuple[ast.stmt, list[ast.stmt]]]
    ) -> Iterator[Region]:
        """One run of statements, cut where a forward without gradients (or a late loss) stands
        inside.
        """
        block = group[0][1]
        places = sorted({index_in(block, top) for top, _ in group})
        run: list[int] = []
        for place in places:
            if run and any(
                self._keep_out(s) for s in block[run[-1] + 1 : place]
            ):
                yield checked(Region(block[run[0]], block[run[-1]], block))
                run = []
            run.append(place)
        yield checked(Region(block[run[0]], block[run[-1]], block))

    def _worthwhile(self, region: Region) -> bool:
        """A run of plain arithmetic on values that left another region needs none of its own."""
        nodes = (n for s in region.statements() for n in shallow(s))
        return any(
            isinstance(n, ast.Call)
            and (self._is_compute(n) or self._wants_float(n))
            or is_power(n)
            for n in nodes
        )

    def _wants_float(self, call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return name in NOT_ELEMENTWISE

    def _keep_out(self, statement: ast.stmt) -> bool:
        """A target under `no_grad` inside a run, a loss that must stay in float32, fetched data."""
        if (
            id(statement) in self._around_late
            or fetches_data(statement)
            or makes_optimizer(self.program, statement, self.scope)
        ):
            return True
        no_grad = isinstance(statement, (ast.With, ast.AsyncWith)) and any(
            is_no_grad(i.context_expr, self.program) for i in statement.items
        )
        if no_grad:
            return bool(self._effect(statement) & EventKind.FORWARD)
        return is_apart(self.program, statement, self.scope, self.tainted)

    def _hoist(
        self,
        call: ast.Call,
        expr: ast.expr,
        at: ast.stmt,
        regions: list[Region],
    ) -> Hoist:
        if not (isinstance(at, ast.Expr) and at.value is call):
            raise inside_larger(call, expr)
        block = self.program.module.block_of(at)
        place = index_in(block, at)
        for region in reversed(regions):
            if region.block is block and index_in(block, region.last) < place:
                between = block[index_in(block, region.last) + 1 : place]
                if not any(
                    self._effect(s) & BARRIER or self._keep_out(s)
                    for s in between
                ):
                    return Hoist(call, expr, at, region)
        return Hoist(call, expr, at, None)
