"""Gradients that a program adds up over its steps: sums, moving averages and lists of its own.

Where a step overflows, the scaler skips it, and the next one is as good as if nothing had been. But
gradients that are infinite stay in what they were added to, for the rest of the run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.gradients.uses import is_gradient
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS, Binding, Scope
from amp_migrate.model.syntax.queries import children_of, holds, nodes_in
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.half_safety.reach import abroad, reachable
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.gradients import ASKS_FINITE, TO_NUMBERS

_ADDS = frozenset("add_ sub_ addcmul_ addcdiv_ lerp_".split())
_KEEPS = frozenset(("append", "extend"))
_OF_MODELS = frozenset(
    "parameters named_parameters modules named_modules param_groups".split()
)
_DEEP = 4


class Addition(NamedTuple):
    """Something that is added to what a program keeps."""

    target: ast.expr
    values: tuple[ast.expr, ...]
    is_kept: bool = False
    """Whether it stays what it is, in a list."""


def refuse_sums(program: Program, scope: Scope, step: ast.Call) -> None:
    """Raise Refusal where gradients are added to something that outlives the turn of `step`."""
    turn = turn_of(program, scope, step)
    search = _Search(program, turn)
    for home, node, where in _run(program, scope, turn):
        found = search if home is program else _Search(home, None)
        if found.keeps_gradients(node, where):
            where_to = (
                "here" if home is program else f"in {place_of(home, node)}"
            )
            raise Refusal(
                "gradients-summed-up",
                node if home is program else step,
                _told(node, where_to),
            )


def _told(node: ast.AST, place: str) -> str:
    added = addition(node)
    is_kept = added is not None and added.is_kept
    skips = "where one overflows, the scaler skips its step, but"
    if is_kept:
        return f"gradients are kept in a list {place}: {skips} it stays in the list"
    return f"gradients are added up over the steps {place}: {skips} the sum stays infinite for good"


def _run(
    program: Program, scope: Scope, turn: ast.AST
) -> Iterator[tuple[Program, ast.AST, Scope]]:
    """All nodes that a turn runs in sight, the step of an optimizer aside: it is skipped whole."""
    statements = [one for one in children_of(turn) if isinstance(one, ast.stmt)]
    bodies = [(program, statements, scope)]
    for other, function, _ in abroad(program, statements, scope):
        bodies.append((other, function.body, other.scope(function)))
    for home, body, inner in bodies:
        if ".grad" not in home.module.text:
            continue
        for node, where in reachable(home, body, inner):
            cls = home.graph.class_around(where)
            is_step = cls is not None and (
                home.values.class_kind(cls) is Kind.OPTIMIZER
            )
            if not is_step:
                yield home, node, where


def turn_of(program: Program, scope: Scope, step: ast.Call) -> ast.AST:
    """The innermost loop around a step; the function where there is none: each call is a turn."""
    for parent in program.module.ancestors(step):
        if isinstance(parent, LOOPS) or parent is scope.node:
            return parent
    return scope.node


class _Search:
    """What one program keeps; `turn`: the loop whose names may be older than one turn."""

    def __init__(self, program: Program, turn: ast.AST | None) -> None:
        self.program, self.turn = program, turn

    def keeps_gradients(self, node: ast.AST, scope: Scope) -> bool:
        """Whether a node adds gradients to what is older than the turn."""
        added = addition(node)
        if added is None or is_gradient(added.target):
            return False
        given = any(
            self._holds(one, _DEEP)
            for one in added.values
            if not (added.is_kept and _is_record(one))
        )
        return (
            given
            and not is_guarded(self.program, node)
            and self._outlives(added.target, scope, _DEEP)
        )

    # -- values

    def _holds(self, expr: ast.expr, deep: int) -> bool:
        """Whether a value is made of gradients, and is no number for a log. Found once for each
        depth: there are far more ways through names than names.
        """
        return self.program.remembered(
            (_Search._holds, expr, deep), lambda: self._reads(expr, deep)
        )

    def _reads(self, expr: ast.expr, deep: int) -> bool:
        """The same, found anew."""
        for node in nodes_in(expr):
            if self._is_reduced(node, expr):
                continue
            if is_gradient_read(node):
                return True
            if isinstance(node, ast.Name) and deep:
                bindings = self.program.reaching.at(node, node.id).bindings
                if any(self._gives(one, deep - 1) for one in bindings):
                    return True
        return False

    def _gives(self, binding: Binding, deep: int) -> bool:
        """Whether a name is bound to gradients."""
        if binding.how == "parameter":
            passed = arguments(self.program, binding)
            return any(self._holds(one, deep) for one, _ in passed)
        if binding.value is None or binding.how not in ("assign", "for"):
            return False
        given = binding.value
        if binding.index is not None and isinstance(given, ast.Call):
            given = _zipped(given, binding.index)
        return self._holds(given, deep)

    def _is_reduced(self, node: ast.AST, top: ast.expr) -> bool:
        """`p.grad` of `p.grad.norm().item()`, or of `p.grad is not None`."""
        for parent in self.program.module.ancestors(node):
            if isinstance(parent, ast.Compare):
                return True
            func = parent.func if isinstance(parent, ast.Call) else None
            name = (
                func.attr
                if isinstance(func, ast.Attribute)
                else getattr(func, "id", "")
            )
            if name in TO_NUMBERS:
                return True
            if parent is top or isinstance(parent, ast.stmt):
                return False
        return False

    # -- targets

    def _outlives(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """Whether what an expression names was there before the turn."""
        if not deep:
            return False
        own = dotted_name(expr)
        if own is not None and "." in own:
            made = self.program.reaching.at(expr, own).bindings
            if made:
                return any(self._is_older(one, scope, deep) for one in made)
        while isinstance(expr, (ast.Attribute, ast.Subscript, ast.Call)):
            expr = expr.func if isinstance(expr, ast.Call) else expr.value
        if not isinstance(expr, ast.Name):
            return False
        if expr.id == scope.self_name:
            return True
        bindings = self.program.reaching.at(expr, expr.id).bindings
        return any(self._is_older(one, scope, deep) for one in bindings)

    def _is_older(self, binding: Binding, scope: Scope, deep: int) -> bool:
        if binding.how == "parameter":
            given = arguments(self.program, binding)
            return not given or any(
                self._outlives(one, home, deep - 1) for one, home in given
            )
        if binding.how == "augmented":
            return False
        if not self._is_of_turn(binding.statement, scope):
            return True
        value = binding.value
        if binding.how == "for" and value is not None:
            return any(
                self._outlives(one, scope, deep - 1)
                for one in _sources(value, binding.index)
            )
        alias = isinstance(value, (ast.Name, ast.Attribute, ast.Subscript))
        return (
            alias
            and value is not None
            and self._outlives(value, scope, deep - 1)
        )

    def _is_of_turn(self, statement: ast.AST, scope: Scope) -> bool:
        """Whether a statement runs anew in each turn; what a function binds is made in a call."""
        module = self.program.module
        home = module.scope_of(statement)
        if home is not scope:
            return False
        if self.turn is None or module.scope_of(self.turn) is not scope:
            return scope.is_function
        return statement is not self.turn and any(
            parent is self.turn for parent in module.ancestors(statement)
        )


def is_guarded(program: Program, node: ast.AST) -> bool:
    """`if torch.isfinite(norm): total += p.grad`"""
    return any(
        isinstance(parent, (ast.If, ast.IfExp))
        and holds(parent.test, _asks_finite)
        for parent in program.module.ancestors(node)
    )


def is_gradient_read(node: ast.AST) -> bool:
    """`p.grad`"""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.ctx, ast.Load)
        and dotted_name(node) not in ("torch.autograd.grad", "autograd.grad")
    )


def addition(node: ast.AST) -> Addition | None:
    """`total += x`, `mean = b * mean + x`, `mean.mul_(b).add_(x)`, `kept.append(x)`."""
    if isinstance(node, ast.AugAssign):
        is_sum = isinstance(node.op, (ast.Add, ast.Sub))
        return Addition(node.target, (node.value,)) if is_sum else None
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        target = node.targets[0]
        name = ast.unparse(target)
        inside = (
            isinstance(one, ast.expr) and ast.unparse(one) == name
            for one in nodes_in(node.value)
        )
        return Addition(target, (node.value,)) if any(inside) else None
    if not isinstance(node, ast.Call) or not isinstance(
        node.func, ast.Attribute
    ):
        return None
    given = (*node.args, *(one.value for one in node.keywords))
    name = node.func.attr
    is_kept = name in _KEEPS
    is_sum = is_kept or name in _ADDS
    return Addition(node.func.value, given, is_kept) if is_sum else None


def _is_record(expr: ast.expr) -> bool:
    """`p.grad.cpu().numpy()`, for a plot: no tensor takes part in what is computed later."""
    func = expr.func if isinstance(expr, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in ("numpy", "tolist")


def _asks_finite(node: ast.AST) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    name = (dotted_name(func) or "") if func is not None else ""
    return name.rpartition(".")[2] in ASKS_FINITE


def _zipped(call: ast.Call, index: int) -> ast.expr:
    """What `for a, b in zip(first, second)` takes its `index`th name from."""
    is_zip = dotted_name(call.func) == "zip" and index < len(call.args)
    return call.args[index] if is_zip else call


def _sources(iterable: ast.expr, index: int | None) -> list[ast.expr]:
    """What a loop over several things takes a name from, models aside."""
    if isinstance(iterable, ast.Call) and index is not None:
        iterable = _zipped(iterable, index)
    if not isinstance(iterable, ast.Call):
        return [iterable]
    func = iterable.func
    if isinstance(func, ast.Attribute):
        return [] if func.attr in _OF_MODELS else [func.value]
    return list(iterable.args)
