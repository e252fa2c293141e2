"""Whether an expression is True or False wherever it is read, and no number, text or None that
counts as one: autocast takes nothing else for `enabled=`.
"""

from __future__ import annotations

import ast

from amp_migrate.model.arguments import argument, default_of
from amp_migrate.model.command_line import option_of
from amp_migrate.model.literals import calls_flag
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Binding

_DEEP = 6
_SWITCHES = {"store_true": False, "store_false": True}


class TruthValues:
    """Asked at places of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def is_truth_value(
        self, expr: ast.expr, at: ast.expr | ast.stmt, *, after: bool = False
    ) -> bool:
        """Whether `expr`, read before (or `after`) the node `at` of the program, is a truth
        value.
        """
        return self._is(expr, at, after, _DEEP)

    def _is(
        self, expr: ast.expr, at: ast.expr | ast.stmt, after: bool, deep: int
    ) -> bool:
        if deep == 0:
            return False
        if isinstance(expr, ast.Constant):
            return isinstance(expr.value, bool)
        if isinstance(expr, ast.Compare):
            return True
        if isinstance(expr, ast.UnaryOp):
            return isinstance(expr.op, ast.Not)
        if isinstance(expr, ast.BoolOp):
            return all(self._is(v, at, after, deep - 1) for v in expr.values)
        if isinstance(expr, ast.IfExp):
            sides = (expr.body, expr.orelse)
            return all(self._is(side, at, after, deep - 1) for side in sides)
        if isinstance(expr, ast.Call):
            return calls_flag(self.program, expr)
        return self._is_held(expr, at, after, deep - 1)

    def _is_held(
        self, expr: ast.expr, at: ast.expr | ast.stmt, after: bool, deep: int
    ) -> bool:
        """Of a name, an attribute of an object, or an option of the command line."""
        dotted = dotted_name(expr)
        if dotted is None:
            return False
        reaching = self.program.reaching
        reach = (
            reaching.after(at, dotted)
            if after and isinstance(at, ast.stmt)
            else reaching.at(at, dotted)
        )
        if not all(self._is_bound(one, deep) for one in reach.bindings):
            return False
        option = option_of(self.program, at, dotted)
        if option is not None:
            return _is_switch(option)
        return bool(reach.bindings) and reach.complete

    def _is_bound(self, binding: Binding, deep: int) -> bool:
        """Whether a binding gives a truth value."""
        if binding.how == "parameter":
            statement = binding.statement
            return isinstance(statement, ast.arg) and self._is_given(
                statement, deep
            )
        value = binding.value
        plain = binding.how in ("assign", "walrus") and binding.index is None
        return (
            plain and value is not None and self._is(value, value, False, deep)
        )

    def _is_given(self, parameter: ast.arg, deep: int) -> bool:
        """Whether a parameter is annotated as one, or its default is one and so is what each call
        in sight passes.
        """
        kind = parameter.annotation
        if isinstance(kind, ast.Name) and kind.id == "bool":
            return True
        scope = self.program.module.scope_of(parameter)
        if not isinstance(scope.node, FUNCTIONS):
            return False
        default = default_of(scope.node, parameter.arg)
        sites = self.program.reaching.entry.sites(scope.node)
        given = [default] if default is not None else []
        for call, _, bound in sites:
            passed = argument(call, scope, parameter.arg, bound)
            if passed is None and default is None:
                return False
            given += [passed] if passed is not None else []
        return bool(given) and all(
            self._is(one, one, False, deep) for one in given
        )


def _is_switch(option: ast.Call) -> bool:
    """`action="store_true"`, or `type=bool`, with a default that is a truth value."""
    given = {one.arg: one.value for one in option.keywords}
    default = given.get("default")
    is_plain = isinstance(default, ast.Constant) and isinstance(
        default.value, bool
    )
    action = given.get("action")
    if isinstance(action, ast.Constant) and action.value in _SWITCHES:
        return default is None or is_plain
    named = dotted_name(action) if action is not None else None
    if named is not None:
        return named.endswith("BooleanOptionalAction") and is_plain
    kind = given.get("type")
    named = dotted_name(kind) if kind is not None else None
    return action is None and named == "bool" and is_plain


def truth_values(program: Program) -> TruthValues:
    """Those of a program."""
    return program.remembered(truth_values, lambda: TruthValues(program))


def as_truth_value(
    program: Program, text: str, at: ast.stmt, *, after: bool = False
) -> str:
    """`text`, or `bool(text)` where it may be something that only counts as one."""
    expr = ast.parse(text, mode="eval").body
    known = truth_values(program).is_truth_value(expr, at, after=after)
    return text if known else f"bool({text})"
