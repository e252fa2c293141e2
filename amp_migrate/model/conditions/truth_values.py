"""Whether an expression is True or False wherever it is read, and no number, text or None that
counts as one: autocast takes nothing else for `enabled=`.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.settings.click_options import is_click_flag
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.module import FUNCTIONS, Binding
from amp_migrate.model.values.literals import flag_by_form

_DEEP = 6
_SWITCHES = ("store_true", "store_false")
_Key: TypeAlias = tuple[str, frozenset[Binding], frozenset[Binding]]


class TruthValues:
    """Asked at places of one program."""

    def __init__(self, program: Program, trusted: bool = True) -> None:
        """`trusted`: what the program gives to autocast is one, as it runs today."""
        self.program = program
        self.trusted = trusted

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
        told = flag_by_form(
            self.program,
            expr,
            lambda part: self._is(part, at, after, deep - 1),
        )
        return (
            told
            if told is not None
            else self._is_held(expr, at, after, deep - 1)
        )

    def _is_held(
        self, expr: ast.expr, at: ast.expr | ast.stmt, after: bool, deep: int
    ) -> bool:
        """Of a name, an attribute of an object, or an option of the command line."""
        dotted = dotted_name(expr)
        if dotted is None:
            return False
        if self.trusted and self._key(dotted, at, after) in self._asked:
            return True
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
            return self._is_switch(option, deep)
        return bool(reach.bindings) and reach.complete

    @cached_property
    def _asked(self) -> frozenset[_Key]:
        """What the program itself gives to autocast."""
        calls = (
            c for s in self.program.module.scopes.values() for c in s.calls
        )
        given = (
            keyword_of(call, "enabled")
            for call in calls
            if (self.program.canonical(call.func) or "").endswith(".autocast")
        )
        named = ((one, dotted_name(one)) for one in given if one is not None)
        return frozenset(
            self._key(dotted, one, False) for one, dotted in named if dotted
        )

    def _key(self, dotted: str, at: ast.expr | ast.stmt, after: bool) -> _Key:
        """A name, with what may have given it, and the object that it is read from, a value."""
        reaching = self.program.reaching
        names = (dotted, dotted.partition(".")[0])
        if after and isinstance(at, ast.stmt):
            found = [reaching.after(at, name).bindings for name in names]
        else:
            found = [reaching.at(at, name).bindings for name in names]
        return dotted, frozenset(found[0]), frozenset(found[1])

    def _is_switch(self, option: ast.Call, deep: int) -> bool:
        """`action="store_true"`, or `type=bool`, with a default that is a truth value."""
        default, action = (
            keyword_of(option, "default"),
            keyword_of(option, "action"),
        )
        is_plain = default is not None and self._is(
            default, default, False, deep
        )
        if isinstance(action, ast.Constant) and action.value in _SWITCHES:
            return default is None or is_plain
        kind = keyword_of(option, "type") if action is None else action
        named = (dotted_name(kind) or "") if kind is not None else ""
        return is_plain and (
            named == "bool" or named.endswith("BooleanOptionalAction")
        )

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
        if is_click_flag(self.program, scope.node, parameter.arg):
            return True
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


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """What a call passes by a name."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def truth_values(program: Program, *, trusted: bool = True) -> TruthValues:
    """Those of a program."""
    return program.remembered(
        (truth_values, trusted), lambda: TruthValues(program, trusted)
    )


def as_truth_value(
    program: Program, text: str, at: ast.stmt, *, after: bool = False
) -> str:
    """`text`, or `bool(text)` where it may be something that only counts as one."""
    expr = ast.parse(text, mode="eval").body
    known = truth_values(program).is_truth_value(expr, at, after=after)
    return text if known else f"bool({text})"
