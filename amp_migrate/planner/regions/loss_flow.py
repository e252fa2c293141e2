"""Which statements define a loss: definitions and uses of names inside one scope, followed
backwards from `backward`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from amp_migrate.model.forwards.quiet_forwards import all_quiet
from amp_migrate.model.gradients.flow import (
    detached,
    under_no_grad,
    without_gradient,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.effects import inner_statements
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.planner.files.own_attributes import own_attributes, path_of
from amp_migrate.planner.regions.kept_by_models import (
    asked_objects,
    read_by_methods,
    written_by_models,
)

_MUTATORS = {
    "append",
    "extend",
    "add_",
    "sub_",
    "mul_",
    "div_",
    "insert",
    "update",
    "copy_",
    "add",
    "backward_hook",
    "setdefault",
}
_COMPOUND = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.Match,
)


@dataclass(frozen=True, eq=False)
class Step:
    """What one statement (or the header of a compound one) reads and binds."""

    statement: ast.stmt
    defines: frozenset[str]
    kills: frozenset[str]
    """Names that get a new value here, whatever they held."""
    uses: frozenset[str]
    order: int


class Flow:
    """The statements of one scope in source order, with their definitions and uses."""

    def __init__(self, scope: Scope, program: Program) -> None:
        self.scope = scope
        statements = list(_statements(scope))
        asked = asked_objects(
            (one for s in statements for one in header(s)), scope, program
        )
        self.steps = [
            _step(
                s,
                i,
                _touched_by_calls(s, scope, program, ast.Store)
                | written_by_models(header(s), scope, program, asked),
                _touched_by_calls(s, scope, program, ast.Load)
                | read_by_methods(header(s), scope, program),
            )
            for i, s in enumerate(statements)
        ]
        self._program = program
        self._cut: dict[int, bool] = {}
        self._by_statement = {id(s.statement): s for s in self.steps}

    def step(self, statement: ast.stmt) -> Step:
        """The facts of one statement of this scope."""
        return self._by_statement[id(statement)]

    def without_gradient(self, statement: ast.stmt) -> bool:
        """Whether nothing that a statement defines carries gradients: under `no_grad`, detached,
        or made by a helper that gives back numbers and arrays.
        """
        known = self._cut.get(id(statement))
        if known is None:
            known = self._cut[id(statement)] = self._is_cut(statement)
        return known

    def _is_cut(self, statement: ast.stmt) -> bool:
        if under_no_grad(self._program, statement):
            return True
        value = getattr(statement, "value", None)
        if not isinstance(value, ast.expr):
            return False
        helped = isinstance(
            statement, (ast.Assign, ast.AnnAssign)
        ) and isinstance(value, ast.Call)
        return (
            detached(value)
            or helped
            and without_gradient(self._program, value, self.scope)
        )

    def behind(self, expr: ast.expr, at: ast.stmt) -> list[ast.stmt]:
        """The statements before `at` that the value of `expr` depends on."""
        return [step.statement for step in self.slice(expr, at)]

    def slice(
        self,
        expr: ast.expr,
        at: ast.stmt,
        ends: Callable[[ast.stmt], bool] = lambda statement: False,
    ) -> list[Step]:
        """Statements before `at` that the value of `expr` depends on, in source order; nothing
        behind those that `ends`.
        """
        wanted: list[tuple[str, int]] = [
            (name, self.step(at).order) for name in tokens(expr)
        ]
        found: dict[int, Step] = {}
        seen: set[tuple[str, int]] = set()
        while wanted:
            name, before = wanted.pop()
            if (name, before) in seen:
                continue
            seen.add((name, before))
            for step in self._definitions(name, before):
                found[step.order] = step
                if not ends(step.statement):
                    wanted.extend((used, step.order) for used in step.uses)
        return [found[order] for order in sorted(found)]

    def reaching(self, name: str, before: int) -> Iterator[Step]:
        """Definitions of `name` that may reach statement number `before`, and those of an earlier
        turn of a loop around it.
        """
        return self._definitions(name, before)

    def _definitions(self, name: str, before: int) -> Iterator[Step]:
        """Definitions of `name` that may reach statement number `before`, nearest first."""
        at = self.steps[before].statement
        for step in reversed(self.steps[:before]):
            if name not in step.defines:
                continue
            yield step
            if name in step.kills and self._dominates(step.statement, at):
                return

    def _dominates(self, earlier: ast.stmt, later: ast.stmt) -> bool:
        """Whether `earlier` stands in a block around `later`, so that it always ran before."""
        module = self.scope.module
        parent = module.parents[earlier]
        block = module.block_of(earlier)
        here: ast.AST = later
        while here is not parent:
            if any(here is sibling for sibling in block):
                return True
            if here not in module.parents:
                return False
            here = module.parents[here]
        return False


def flow_of(scope: Scope, program: Program) -> Flow:
    """The flow of a scope, made once."""
    return program.remembered((Flow, scope), lambda: Flow(scope, program))


def _statements(scope: Scope) -> Iterator[ast.stmt]:
    """Every statement of a body, the inner ones too, nested definitions aside."""
    for statement in scope.body:
        yield statement
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield from inner_statements(statement)


def header(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions evaluated by a statement itself: all of a simple one, the head of a compound
    one.
    """
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        yield from (statement.target, statement.iter)
    elif isinstance(statement, (ast.If, ast.While)):
        yield statement.test
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        yield from statement.items
    elif isinstance(statement, ast.Match):
        yield statement.subject
    elif not isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Try)):
        yield statement


def _touched_by_calls(
    statement: ast.stmt, scope: Scope, program: Program, how: type
) -> set[str]:
    """`self.forward()` sets, or reads, what the method and those of heirs do: attributes of the
    same object, through the methods it calls.
    """
    found: set[str] = set()
    for root in header(statement) if scope.self_name else ():
        for node in shallow(root):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and dotted_name(node.func.value) == scope.self_name
            ):
                for method in program.values.callees(node, scope):
                    found |= own_attributes(method, program, how)
    return {f"{scope.self_name}.{name}" for name in found}


def _step(
    statement: ast.stmt, order: int, written: set[str], read: set[str]
) -> Step:
    defines, uses = set(written), set(read)
    kills: set[str] = set()
    for root in header(statement):
        for node in shallow(root):
            uses |= _uses(node)
            bound, fresh = _bound(node)
            defines |= bound
            kills |= bound if fresh else set()
    if isinstance(statement, ast.AugAssign):
        uses |= _target_tokens(statement.target)
        kills = set()
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        kills = set()
    return Step(
        statement, frozenset(defines), frozenset(kills), frozenset(uses), order
    )


def tokens(expr: ast.AST) -> set[str]:
    """Names and dotted paths read in an expression."""
    found: set[str] = set()
    for node in shallow(expr):
        found |= _uses(node)
    return found


def is_apart(
    program: Program, statement: ast.stmt, scope: Scope, tainted: set[str]
) -> bool:
    """Whether a statement runs models without gradients alone, on nothing that is half."""
    is_kept = any("." in name for name in tainted)
    return (
        not is_kept
        and not tokens(statement) & tainted
        and all_quiet(program, statement, scope)
    )


def _uses(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        path = path_of(node)
        return {path} if path is not None else set()
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return {node.id}
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and (dotted := dotted_name(node))
    ):
        return {dotted}
    return set()


def _target_tokens(target: ast.expr) -> set[str]:
    dotted = dotted_name(target)
    return {dotted} if dotted else names_in(target)


def _bound(node: ast.AST) -> tuple[set[str], bool]:
    """Names that evaluating `node` binds or changes, and whether they get a whole new value."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}, True
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and (dotted := dotted_name(node))
    ):
        return {dotted}, True
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and (dotted := dotted_name(node.value))
    ):
        return {dotted, path_of(node) or dotted}, False
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _MUTATORS
    ):
        holder = (
            node.func.value.value
            if isinstance(node.func.value, ast.Subscript)
            else node.func.value
        )
        dotted = dotted_name(holder)
        return ({dotted} if dotted else set()), False
    return set(), False
