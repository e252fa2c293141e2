"""Which statements an analysis of paths may skip: most of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import EVENTS, Events, Trait
from amp_migrate.model.syntax.evaluation_order import evaluated
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.patterns import pattern
from amp_migrate.protocol.frames import Frame, canonical, positive
from amp_migrate.protocol.overriding import overriding
from amp_migrate.protocol.paths import Path
from amp_migrate.records import NamedTuple

HARMLESS = pattern(
    r"(?i)save|load|log|print|checkpoint|resume|state|info|len$"
    r"|isinstance|hasattr|getattr|zero|sched|warm|lr$|adjust|"
    r"get_|format|write|append|eval|valid|test|report|repr|str$"
    r"|type$|id$|scale$|is_enabled|barrier|prepare|watch|num_|count"
)
"""Functions out of sight that are handed an optimizer or a scaler and do not step with it."""


_NAMES = pattern(r"(?:[\w.<>]+:)?\b[A-Za-z_][\w.]*(?:\[[^\]]*\])*(?![\w.(\[])")


class Reached(NamedTuple):
    """What running a function can involve, through the functions that it calls."""

    words: frozenset[str]
    """Every identifier that is written there."""
    functions: frozenset[ast.AST]
    homes: frozenset[str]
    """Qualified names of the functions whose local names are seen."""
    conditions: frozenset[str]
    """The forms of the conditions that are asked, names left out."""


class Relevance:
    """Answers for the statements of one module, each computed once."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.module = events.program.module
        self._nodes: dict[int, list[ast.AST]] = {}
        self._idle: dict[tuple[int, bool], bool] = {}
        self._heirs: dict[int, bool] = {}
        self._tested: set[str] | None = None
        self._holders: set[str] | None = None
        self._keepers: set[str] | None = None
        self._reached: dict[Function, Reached] = {}
        self._callees: dict[Function, tuple[Function, ...]] = {}

    def reached(self, function: Function) -> Reached:
        """What a call of `function` may name, and which functions it may run."""
        if function not in self._reached:
            functions = self._closure(function)
            words: set[str] = set()
            homes: set[str] = set()
            asked: set[str] = set()
            for one in functions:
                words |= _own_words(one)
                scope: Scope | None = self.module.scopes[one]
                while scope is not None and scope.parent is not None:
                    homes.add(scope.qualname)
                    scope = scope.parent
                asked |= self._asked(one)
            self._reached[function] = Reached(
                frozenset(words),
                frozenset(functions),
                frozenset(homes),
                frozenset(asked),
            )
        return self._reached[function]

    def _asked(self, function: Function) -> set[str]:
        """The forms of the conditions in a function, those that names are given included."""
        frame, path = Frame(self.module.scopes[function]), Path()
        nodes = [
            node for statement in function.body for node in shallow(statement)
        ]
        tests = [
            node.test for node in nodes if isinstance(node, (ast.If, ast.While))
        ]
        tests += [
            n
            for n in nodes
            if isinstance(n, (ast.Compare, ast.BoolOp, ast.UnaryOp))
        ]
        return {
            form(text)
            for test in tests
            for text in conditions_of(test, frame, path)
        }

    def _closure(self, function: Function) -> set[Function]:
        found = {function}
        wanted = [function]
        while wanted:
            for callee in self._called_by(wanted.pop()):
                if callee not in found:
                    found.add(callee)
                    wanted.append(callee)
        return found

    def _called_by(self, function: Function) -> tuple[Function, ...]:
        if function not in self._callees:
            scope = self.module.scopes[function]
            found = [
                callee
                for call in scope.calls
                if (
                    callee := self.events.callee(call, scope)
                    or self.computes(call, scope)
                )
            ]
            found += [
                one
                for call in scope.calls
                for one in (
                    *overriding(self.events, call, scope),
                    *self.events.by_name(call, scope),
                )
            ]
            self._callees[function] = tuple(dict.fromkeys(found))
        return self._callees[function]

    def leads(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether a compound statement holds events or exits, or calls of what heirs put in the
        place of a method that holds none.
        """
        return bool(
            self.events.of_node(statement, scope) & (EVENTS | Trait.JUMP)
        ) or self._leads_to_heirs(statement, scope)

    def _leads_to_heirs(self, statement: ast.stmt, scope: Scope) -> bool:
        if scope.owner is None or scope.self_name is None:
            return False
        if id(statement) not in self._heirs:
            self._heirs[id(statement)] = any(
                overriding(self.events, call, scope)
                for call in calls_in(statement)
            )
        return self._heirs[id(statement)]

    def idle(self, statement: ast.stmt, scope: Scope, *, tracks: bool) -> bool:
        """Whether running the statement changes nothing that the analysis follows."""
        key = (id(statement), tracks)
        if key not in self._idle:
            self._idle[key] = self._is_idle(statement, scope, tracks=tracks)
        return self._idle[key]

    def _is_idle(
        self, statement: ast.stmt, scope: Scope, *, tracks: bool
    ) -> bool:
        if isinstance(
            statement, (ast.Return, ast.Continue, ast.Break, ast.Raise)
        ):
            return False
        if self._leads_to_heirs(statement, scope):
            return False
        if self.events.of_node(statement, scope) or any(
            tracks or not self._only_computes(n, scope)
            for n in self.nodes(statement, scope)
        ):
            return False
        names = [
            n
            for n in shallow(statement)
            if isinstance(n, (ast.Name, ast.Attribute))
            and isinstance(n.ctx, ast.Store)
        ]
        if not names:
            return True
        return (
            not tracks
            and not any(self._matters(n) for n in names)
            and not self._names_scaler(statement)
        )

    def _only_computes(self, node: ast.AST, scope: Scope) -> bool:
        """A call that matters only where models are followed."""
        return (
            isinstance(node, ast.Call)
            and self.events.what(node, scope) is None
            and self.events.callee(node, scope) is None
            and not overriding(self.events, node, scope)
            and not self._runs_by_name(node, scope)
            and not self._may_hide(node, scope)
        )

    def _matters(self, node: ast.Name | ast.Attribute) -> bool:
        name = node.id if isinstance(node, ast.Name) else node.attr
        return name in self.tested or bool(
            re.search(r"(?i)scal|optim|opt", name)
        )

    def _names_scaler(self, statement: ast.stmt) -> bool:
        return any(
            "scal" in (n.id if isinstance(n, ast.Name) else n.attr).lower()
            for n in shallow(statement)
            if isinstance(n, (ast.Name, ast.Attribute))
        )

    @property
    def tested(self) -> set[str]:
        """Words that occur in conditions which decide about events, and in what is called with
        events.
        """
        if self._tested is None:
            self._tested = set()
            for node in self.module.parents:
                if isinstance(node, (ast.If, ast.While)) and self.leads(
                    node, self.module.scope_of(node)
                ):
                    self._tested |= _identifiers(node.test)
                elif (
                    isinstance(node, ast.Call)
                    and self.events.callee(node, self.module.scope_of(node))
                    is not None
                ):
                    self._tested |= _identifiers(node)
        return self._tested

    def nodes(self, node: ast.AST, scope: Scope) -> list[ast.AST]:
        """Events, calls that lead to events, and calls that may hide some, in the order of
        evaluation.
        """
        key = id(node)
        if key not in self._nodes:
            compound = isinstance(node, ast.stmt) and isinstance(
                getattr(node, "body", None), list
            )
            inner = (
                []
                if compound or isinstance(node, (*FUNCTIONS, ast.ClassDef))
                else evaluated(node)
            )
            self._nodes[key] = [
                n
                for n in inner
                if isinstance(n, (ast.Call, ast.Attribute))
                and self._counts(n, scope)
            ]
        return self._nodes[key]

    def _counts(self, node: ast.Call | ast.Attribute, scope: Scope) -> bool:
        if self.events.what(node, scope) is not None:
            return True
        if not isinstance(node, ast.Call):
            return False
        return (
            self.events.callee(node, scope) is not None
            or self.computes(node, scope) is not None
            or bool(overriding(self.events, node, scope))
            or self._runs_by_name(node, scope)
            or self._may_hide(node, scope)
        )

    def _runs_by_name(self, node: ast.Call, scope: Scope) -> bool:
        """Whether a call by a name in a variable may run a method with events."""
        return any(
            map(self.events.of_function, self.events.by_name(node, scope))
        )

    def computes(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function in sight that a call runs, if that runs models of its own accord."""
        program = self.events.program
        function = self.events.in_sight(call, scope)
        return (
            function
            if function is not None
            and EventKind.FORWARD in program.effects.of_function(function)
            else None
        )

    def _may_hide(self, call: ast.Call, scope: Scope) -> bool:
        name = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else getattr(call.func, "id", "")
        )
        if HARMLESS.search(name) or (
            self.events.program.canonical(call.func) or ""
        ).startswith("torch."):
            return False
        if isinstance(call.func, ast.Attribute) and self._is_role(
            call.func.value, scope
        ):
            return True
        return self._is_role(call.func, scope) or any(
            self._is_role(a, scope) or self._is_scaled(a, scope)
            for a in [*call.args, *(k.value for k in call.keywords)]
        )

    def _is_scaled(self, expr: ast.expr, scope: Scope) -> bool:
        """`scaler.scale(loss)`, handed to what may go backward."""
        return isinstance(expr, ast.Call) and (
            self.events.what(expr, scope) is EventKind.SCALE
        )

    def _is_role(self, expr: ast.expr, scope: Scope) -> bool:
        if isinstance(expr, ast.Starred):
            expr = expr.value
        name = dotted_name(expr)
        if name is None:
            return False
        return (
            name in self.holders
            or name in self.keepers
            or self.events.is_scaler(expr, scope)
            or self.events.program.effects.is_optimizer(expr, scope)
        )

    @property
    def holders(self) -> set[str]:
        """Names whose attributes are scalers or optimizers: `self`, `trainer`."""
        if self._holders is None:
            self._holders = set()
            for scope in self.module.scopes.values():
                for call in scope.calls:
                    if isinstance(
                        call.func, ast.Attribute
                    ) and self.events.what(call, scope) not in {
                        None,
                        EventKind.BACKWARD,
                        EventKind.CLIP,
                    }:
                        for expr in [call.func.value, *call.args]:
                            base = (dotted_name(expr) or "").rpartition(".")[0]
                            self._holders |= {base} if base else set()
        return self._holders

    @property
    def keepers(self) -> set[str]:
        """Names of objects whose constructors, out of sight, are handed an optimizer or
        a scaler.
        """
        if self._keepers is None:
            self._keepers = set()
            for scope in self.module.scopes.values():
                for call in scope.calls:
                    parent = self.module.parents[call]
                    if (
                        isinstance(parent, ast.Assign)
                        and len(parent.targets) == 1
                        and self._may_hide(call, scope)
                    ):
                        self._keepers |= {
                            dotted_name(parent.targets[0]) or ""
                        } - {""}
        return self._keepers


def _identifiers(node: ast.AST) -> set[str]:
    found = {n.id for n in shallow(node) if isinstance(n, ast.Name)}
    return found | {
        n.attr for n in shallow(node) if isinstance(n, ast.Attribute)
    }


def form(text: str) -> str:
    """The text of a condition without its names."""
    return _NAMES.sub("_", text)


def conditions_of(test: ast.expr, frame: Frame, path: Path) -> Iterator[str]:
    """The texts of a condition and of the conditions that it is made of."""
    wanted = [test]
    while wanted:
        one = wanted.pop()
        if isinstance(one, ast.BoolOp):
            wanted += one.values
        elif isinstance(one, ast.UnaryOp):
            wanted.append(one.operand)
        elif isinstance(one, ast.NamedExpr):
            wanted.append(one.value)
        yield canonical(positive(one), frame, path, set())


def _own_words(function: Function) -> set[str]:
    """Identifiers in the parameters and the body of a function."""
    found = {a.arg for a in shallow(function.args) if isinstance(a, ast.arg)}
    for statement in function.body:
        for node in shallow(statement):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return found
