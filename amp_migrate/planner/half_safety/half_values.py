"""Which values of a scope may be half precision outside of its autocast regions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.model.gradients.flow import functions_run
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import viewed
from amp_migrate.model.program import Program
from amp_migrate.model.steps.effects import inner_statements
from amp_migrate.model.syntax.module import Module, Scope, shallow
from amp_migrate.model.tensors.helpers import keeps_half
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.regions.loss_flow import Step, flow_of, header
from amp_migrate.planner.regions.statement_runs import Regions
from amp_migrate.torch_facts.methods import ASKS, FOLLOWED, FRESH, PICKS, VIEWS

_COUNTS = re.compile(
    r"(?i)idx|ind(ex|ices|s)?$|pred|label|mask|_?ids?$|len|count|num|cls|class|code|target|^_$"
)
_COUNTED = {
    "len",
    "print",
    "isinstance",
    "type",
    "range",
    "int",
    "float",
    "bool",
    "str",
    "id",
}


class Halves:
    """Follows the outputs of models under autocast through the statements of one scope."""

    def __init__(
        self,
        program: Program,
        scope: Scope,
        regions: Regions,
        late: frozenset[ast.stmt],
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        """`late`: statements whose half inputs are cast, so that they and what they give are
        float32.

        `elsewhere`: attributes that another method sets under autocast before this scope runs.
        """
        self.elsewhere = elsewhere
        self.program = program
        self.scope = scope
        self.flow = flow_of(scope, program)
        inside = [
            s
            for region in regions.regions
            for top in region.statements()
            for s in (top, *inner_statements(top))
        ]
        self.inside = {id(s) for s in inside} | {
            id(h.statement) for h in regions.hoists
        }
        self.floats: set[ast.stmt] = set(late)
        """Statements whose results are float32, by where they stand or by a cast."""
        self._known: dict[tuple[str, int], bool] = {}

    def makes(self, step: Step) -> bool:
        """Whether a statement gives half values."""
        statement = step.statement
        if statement in self.floats:
            return False
        if id(statement) in self.inside and runs_forward(
            self.program, self.scope, statement
        ):
            return True
        value = getattr(statement, "value", None)
        if isinstance(value, ast.expr) and (
            self._fresh(value) or self._is_loss(value)
        ):
            return False
        if isinstance(value, ast.Call) and self._leaves_half(value):
            return False
        if not isinstance(
            statement,
            (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.Expr),
        ):
            return False
        return any(
            True
            for root in header(statement)
            for _ in self.tensors(root, step.order)
        )

    def forget(self) -> None:
        """Start over, after `floats` has grown."""
        self._known.clear()

    def holds(self, name: str, before: int) -> bool:
        """Whether a name may hold a half value at statement number `before`."""
        key = (name, before)
        if key not in self._known:
            self._known[key] = False  # for loops
            steps = list(self.flow.reaching(name, before))
            found = any(
                self.makes(s) and self._may_name(s.statement, name, s.order)
                for s in steps
            )
            self._known[key] = found if steps else name in self.elsewhere
        return self._known[key]

    def _may_name(self, made: ast.stmt, name: str, order: int) -> bool:
        """Whether a statement that gives half values gives one to `name`: labels beside them are
        cast to nothing.
        """
        target, value = _set_by(made)
        if not isinstance(target, (ast.Tuple, ast.List)):
            return True
        part = _part_for(name, target, value)
        if part is not None:
            return any(True for _ in self.tensors(part, order))
        return (
            isinstance(made, ast.Assign)
            and not _COUNTS.search(name)
            and runs_forward(self.program, self.scope, made)
        )

    def tensors(self, root: ast.AST, order: int) -> Iterator[ast.expr]:
        """The largest views of half values whose numbers `root` uses."""
        for node in shallow(root):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(
                node.ctx, ast.Load
            ):
                name = dotted_name(node)
                if (
                    name is not None
                    and self.holds(name, order)
                    and not self._asked_only(node)
                ):
                    read = viewed(self.scope.module, node, VIEWS)
                    if isinstance(getattr(read, "ctx", None), ast.Store):
                        continue  # `losses["penalty"] = ...`
                    yield read

    def _asked_only(self, node: ast.expr) -> bool:
        parent = self.scope.module.parents[node]
        if isinstance(parent, ast.Attribute):
            return parent.attr in ASKS
        called = (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Name)
            and parent.func.id in _COUNTED
        )
        return called or isinstance(parent, ast.Call) and parent.func is node

    def _is_loss(self, value: ast.expr) -> bool:
        """Losses come out of autocast in float32."""
        return (
            isinstance(value, ast.Call)
            and self.program.values.kind(value.func, self.scope)
            is Kind.CRITERION
        )

    def _leaves_half(self, call: ast.Call) -> bool:
        """Whether the helpers in sight that a call runs give back no half, whatever they get."""
        functions = functions_run(self.program, call, self.scope)
        return bool(functions) and not any(
            keeps_half(home, one) for home, one in functions
        )

    def _fresh(self, value: ast.expr) -> bool:
        """`torch.FloatTensor(x).to(device)`, `x > 0`, `torch.argmax(x)`: a tensor of its own
        dtype, whatever it is made of.
        """
        if isinstance(value, (ast.Compare, ast.BoolOp)):
            return True
        while isinstance(value, (ast.Call, ast.Attribute, ast.Subscript)):
            if isinstance(value, ast.Call):
                head, _, last = (
                    self.scope.module.canonical(value.func) or ""
                ).rpartition(".")
                if head == "torch" and last in FRESH | ASKS | PICKS:
                    return True
            value = value.func if isinstance(value, ast.Call) else value.value
        return False


def runs_forward(program: Program, scope: Scope, statement: ast.stmt) -> bool:
    """Whether a statement itself runs a model, other than inside a loss function."""
    value = getattr(statement, "value", None)
    if (
        isinstance(value, ast.Call)
        and program.values.kind(value.func, scope) is Kind.CRITERION
    ):
        return False
    calls = (
        n
        for root in header(statement)
        for n in shallow(root)
        if isinstance(n, ast.Call)
    )
    return any(program.effects.is_forward(call, scope) for call in calls)


def bare(expr: ast.expr, module: Module) -> ast.expr:
    """`x` of `x.detach()[0].sigmoid().cpu()`: what views and elementwise methods are applied to."""
    while True:
        if (
            isinstance(expr, ast.Call)
            and isinstance(expr.func, ast.Attribute)
            and expr.func.attr in FOLLOWED
        ):
            if module.canonical(expr.func) is not None:
                return expr
            expr = expr.func.value
        elif (
            isinstance(expr, ast.Subscript)
            or isinstance(expr, ast.Attribute)
            and expr.attr == "data"
        ):
            expr = expr.value
        else:
            return expr


def _set_by(made: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """What a statement sets, and to what."""
    if isinstance(made, ast.For):
        return made.target, made.iter
    if isinstance(made, ast.Assign):
        return made.targets[0], made.value
    return None, None


def _part_for(
    name: str, target: ast.Tuple | ast.List, value: ast.expr | None
) -> ast.expr | None:
    """What a name among others gets: `b` of `x, y = a, b`, or of `for x, y in zip(a, b)`."""
    parts: list[ast.expr] = []
    if isinstance(value, ast.Call) and dotted_name(value.func) == "zip":
        parts = value.args
    elif isinstance(value, (ast.Tuple, ast.List)):
        parts = value.elts
    if len(parts) != len(target.elts):
        return None
    pairs = zip(target.elts, parts, strict=True)
    return next((part for e, part in pairs if dotted_name(e) == name), None)
