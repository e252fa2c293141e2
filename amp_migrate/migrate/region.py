"""Where autocast goes: the runs of sibling statements from the first forward to the last statement that defines a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.migrate.flow import Step, flow_of, header, tokens
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.effects import BARRIER, Effect
from amp_migrate.model.kinds import Kind, criterion_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import LOOPS, Scope, shallow
from amp_migrate.names import dotted_name

_NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
_CUTS = {"detach", "item", "numpy", "tolist", "argmax", "argmin", "multinomial", "argsort"}
# Operations that autocast runs in float32, or in half: arithmetic that is not elementwise.
_FLOAT_OPERATIONS = {
    "exp",
    "log",
    "pow",
    "sum",
    "softmax",
    "log_softmax",
    "norm",
    "logsumexp",
    "log_prob",
    "entropy",
    "matmul",
    "mm",
    "bmm",
}
_REDUCTIONS = {
    "sum",
    "mean",
    "stack",
    "cat",
    "tensor",
    "item",
    "squeeze",
    "view",
    "reshape",
    "div",
    "neg",
    "abs",
    "add",
    "mul",
    "unsqueeze",
}


@dataclass(frozen=True)
class Region:
    """Sibling statements to put under autocast."""

    first: ast.stmt
    last: ast.stmt
    block: list[ast.stmt]

    def statements(self) -> list[ast.stmt]:
        """The wrapped statements."""
        start, stop = _index(self.block, self.first), _index(self.block, self.last)
        return self.block[start : stop + 1]


@dataclass(frozen=True)
class Hoist:
    """A loss computed inside `.backward()`'s receiver: it gets a name and moves into a region."""

    backward: ast.Call
    receiver: ast.expr
    statement: ast.stmt
    region: Region | None
    """The region at whose end it is computed; None where it needs a region of its own."""


@dataclass(frozen=True)
class Regions:
    """Everything about autocast in one scope."""

    regions: tuple[Region, ...]
    hoists: tuple[Hoist, ...]
    tainted: frozenset[str]
    """Names that hold values computed under autocast."""


class RegionFinder:
    """Finds the regions of one training scope."""

    def __init__(self, program: Program, scope: Scope, backwards: list[ast.Call], late: frozenset[ast.stmt]) -> None:
        """`backwards` are calls that end in a backward; `late` are statements that must stay outside (BCE losses)."""
        self.program = program
        self.scope = scope
        self.backwards = backwards
        self.late = late
        self.flow = flow_of(scope, program)
        self.tainted: set[str] = set()
        self._around_late = {id(a) for s in late for a in (s, *program.module.ancestors(s)) if isinstance(a, ast.stmt)}

    def find(self) -> Regions:
        """All regions of the scope. Raises Refusal where a loss has no forward in sight or the run cannot be wrapped."""
        members: dict[tuple[int, int], list[tuple[ast.stmt, list[ast.stmt]]]] = {}
        hoisted = []
        for call in self.backwards:
            at = self.program.module.statement_of(call)
            inline = [e for e in receivers(call, self.program) if self._computes(e)]
            found = self._members(call, at)
            if not found and not inline and not self._late_forward(call, at):
                raise self._no_forward(call)
            for statement in found:
                top, block = self._top(statement, at)
                members.setdefault((id(block), self._segment(top, block)), []).append((top, block))
            hoisted += [(call, expr, at) for expr in inline]
        regions = [r for group in members.values() for r in self._regions(group) if self._worthwhile(r)]
        regions.sort(key=lambda r: r.first.lineno)
        hoists = tuple(self._hoist(call, expr, at, regions) for call, expr, at in hoisted)
        return Regions(
            tuple(self._stretched(r, hoists) for r in regions), self._rebased(hoists, regions), frozenset(self.tainted)
        )

    def _late_forward(self, call: ast.Call, at: ast.stmt) -> bool:
        """Whether every forward behind a backward is one that must stay in float32: then it needs no region at all."""
        steps = (s for expr in receivers(call, self.program) for s in self.flow.slice(expr, at))
        return any(s.statement in self.late for s in steps)

    def _computes(self, expr: ast.expr) -> bool:
        """Whether a receiver runs a model or a loss function, rather than only joining losses."""
        return any(isinstance(node, ast.Call) and self._is_compute(node) for node in shallow(expr))

    def _is_compute(self, call: ast.Call) -> bool:
        if self.program.effects.is_forward(call, self.scope) or self.program.effects.is_bce(call, self.scope):
            return True
        if self.program.values.kind(call.func, self.scope) is Kind.CRITERION:
            return True
        name = (dotted_name(call.func) or "").rpartition(".")[2]
        canonical = self.program.canonical(call.func) or ""
        return canonical.startswith("torch.nn.functional.") or (
            bool(name) and criterion_name(name) and name not in _REDUCTIONS
        )

    def _members(self, call: ast.Call, at: ast.stmt) -> list[ast.stmt]:
        """Statements of the loss's slice that carry gradients from a forward on, in source order."""
        tainted: set[str] = set()
        floats: set[str] = set()
        members: list[Step] = []
        for expr in receivers(call, self.program):
            for step in self.flow.slice(expr, at, self._without_gradient):
                if step in members or not self._in_turn(step.statement, at):
                    continue
                if self._without_gradient(step.statement):
                    if (
                        step.uses & tainted
                        and self._runs_forward(step.statement)
                        and not self._under_no_grad(step.statement)
                    ):
                        members.append(step)  # it runs on values that are half
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
        if not any(self._runs_forward(m.statement) for m in members):
            members = []
        self.tainted |= tainted
        return [m.statement for m in members]

    def _stays_float(self, step: Step, tainted: set[str], floats: set[str]) -> bool:
        """Arithmetic on nothing but what late statements gave, as a penalty is made of gradients in float32."""
        if step.statement in self.late:
            return True
        return not self._runs_forward(step.statement) and step.uses & tainted <= floats

    def _in_turn(self, statement: ast.stmt, at: ast.stmt) -> bool:
        """Whether a statement runs in each turn of the loop that steps: a graph from before it would be used up."""
        if self._keeps_graph:
            return True
        loop = next((a for a in self.program.module.ancestors(at) if isinstance(a, LOOPS) and self._steps(a)), None)
        return loop is None or any(a is loop for a in self.program.module.ancestors(statement))

    @property
    def _keeps_graph(self) -> bool:
        keywords = (k for call in self.backwards for k in call.keywords)
        return any(
            k.arg == "retain_graph" and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in keywords
        )

    def _steps(self, loop: ast.AST) -> bool:
        return bool(self.program.effects.of_statement(loop, self.scope) & (Effect.STEP | Effect.ZERO_GRAD))

    def _runs_forward(self, statement: ast.stmt) -> bool:
        return any(
            isinstance(node, ast.Call) and self.program.effects.is_forward(node, self.scope)
            for root in header(statement)
            for node in shallow(root)
        )

    def _without_gradient(self, statement: ast.stmt) -> bool:
        """Under `no_grad`, or wholly detached."""
        value = getattr(statement, "value", None)
        return self._under_no_grad(statement) or (isinstance(value, ast.expr) and detached(value))

    def _under_no_grad(self, statement: ast.stmt) -> bool:
        for parent in (statement, *self.program.module.ancestors(statement)):
            if parent is self.scope.node:
                break
            if isinstance(parent, (ast.With, ast.AsyncWith)) and any(
                is_no_grad(i.context_expr, self.program) for i in parent.items
            ):
                return True
        return False

    def _no_forward(self, call: ast.Call) -> Refusal:
        return Refusal(
            "loss-computed-elsewhere",
            call,
            "the loss is not computed here: no forward of a model leads to this backward, so there is nothing to put under autocast",
        )

    def _top(self, member: ast.stmt, at: ast.stmt) -> tuple[ast.stmt, list[ast.stmt]]:
        """The highest statement around `member`, free of barriers, on the way to the block it shares with `at`."""
        module = self.program.module
        around = {id(n) for n in (at, *module.ancestors(at))}
        top, block = member, module.block_of(member)
        while not any(id(sibling) in around for sibling in block):
            parent = module.statement_around(top)
            if (
                parent is None
                or self._effect(parent) & BARRIER
                or self._acts(parent)
                or id(parent) in self._around_late
            ):
                break
            top, block = parent, module.block_of(parent)
        if id(top) in around:
            raise Refusal(
                "unsupported-shape", member, "the loss is computed in the head of the statement that holds backward"
            )
        return top, block

    def _acts(self, statement: ast.stmt) -> bool:
        """A loop that steps an environment: a rollout, of which only the forwards belong under autocast."""
        return isinstance(statement, LOOPS) and any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "step" and n.args
            for n in shallow(statement)
        )

    def _effect(self, statement: ast.stmt) -> Effect:
        return self.program.effects.of_statement(statement, self.scope)

    def _segment(self, top: ast.stmt, block: list[ast.stmt]) -> int:
        return sum(bool(self._effect(s) & BARRIER) for s in block[: _index(block, top)])

    def _regions(self, group: list[tuple[ast.stmt, list[ast.stmt]]]) -> Iterator[Region]:
        """One run of statements, cut where a forward without gradients (or a late loss) stands inside."""
        block = group[0][1]
        places = sorted({_index(block, top) for top, _ in group})
        run: list[int] = []
        for place in places:
            if run and any(self._keep_out(s) for s in block[run[-1] + 1 : place]):
                yield self._checked(Region(block[run[0]], block[run[-1]], block))
                run = []
            run.append(place)
        yield self._checked(Region(block[run[0]], block[run[-1]], block))

    def _worthwhile(self, region: Region) -> bool:
        """A run of plain arithmetic on values that left another region needs none of its own."""
        nodes = (n for s in region.statements() for n in shallow(s))
        return any(
            isinstance(n, ast.Call) and (self._is_compute(n) or self._wants_float(n)) or _is_power(n) for n in nodes
        )

    def _wants_float(self, call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return name in _FLOAT_OPERATIONS

    def _keep_out(self, statement: ast.stmt) -> bool:
        """A target computed under `no_grad` inside a run, a loss that must stay in float32."""
        if id(statement) in self._around_late:
            return True
        no_grad = isinstance(statement, (ast.With, ast.AsyncWith)) and any(
            is_no_grad(i.context_expr, self.program) for i in statement.items
        )
        return no_grad and bool(self._effect(statement) & Effect.FORWARD)

    def _checked(self, region: Region) -> Region:
        for statement in region.statements():
            for node in shallow(statement):
                if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
                    raise Refusal(
                        "unsupported-shape", node, "a generator or coroutine gives up control inside forward and loss"
                    )
        return region

    def _hoist(self, call: ast.Call, expr: ast.expr, at: ast.stmt, regions: list[Region]) -> Hoist:
        if not (isinstance(at, ast.Expr) and at.value is call):
            raise Refusal("unsupported-shape", call, "backward is called inside a larger expression")
        block = self.program.module.block_of(at)
        place = _index(block, at)
        for region in reversed(regions):
            if region.block is block and _index(block, region.last) < place:
                between = block[_index(block, region.last) + 1 : place]
                if not any(self._effect(s) & BARRIER or self._keep_out(s) for s in between):
                    return Hoist(call, expr, at, region)
        return Hoist(call, expr, at, None)

    def _stretched(self, region: Region, hoists: tuple[Hoist, ...]) -> Region:
        """A region that a hoisted loss joins reaches down to the statement before backward."""
        for hoist in hoists:
            if hoist.region == region:
                return Region(region.first, region.block[_index(region.block, hoist.statement) - 1], region.block)
        return region

    def _rebased(self, hoists: tuple[Hoist, ...], regions: list[Region]) -> tuple[Hoist, ...]:
        return tuple(
            Hoist(h.backward, h.receiver, h.statement, self._stretched(h.region, hoists)) if h.region else h
            for h in hoists
        )


def receivers(call: ast.Call, program: Program) -> list[ast.expr]:
    """What a backward call differentiates: the receiver, or the tensors given to `autograd.backward`."""
    if program.canonical(call.func) == "torch.autograd.backward":
        given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "tensors"), None)
        if isinstance(given, (ast.List, ast.Tuple)):
            return list(given.elts)
        return [given] if given is not None else []
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


def is_no_grad(expr: ast.expr, program: Program) -> bool:
    """`torch.no_grad()` and its kin as a context."""
    func = expr.func if isinstance(expr, ast.Call) else expr
    return program.canonical(func) in _NO_GRAD


def detached(expr: ast.expr) -> bool:
    """Whether an expression is cut from the graph as a whole: `f(x).detach()`, `f(x).max(1)[1].item()`, `int(x)`, `dist.sample()`."""
    while True:
        if isinstance(expr, ast.Attribute) and expr.attr == "data":
            return True
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name):
            return expr.func.id in ("int", "float", "bool")
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in _CUTS or (expr.func.attr == "sample" and not expr.args):
                return True
            expr = expr.func.value
        elif isinstance(expr, (ast.Subscript, ast.Attribute)):
            expr = expr.value
        else:
            return False


def _is_power(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.MatMult))


def _index(block: list[ast.stmt], statement: ast.stmt) -> int:
    return next(i for i, s in enumerate(block) if s is statement)


__all__ = ["Hoist", "Region", "RegionFinder", "Regions", "detached", "is_no_grad", "receivers", "tokens"]
