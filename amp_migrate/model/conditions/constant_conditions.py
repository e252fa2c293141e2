"""Code that never runs as a program is written: under `if USE_CUDA:` where `USE_CUDA = False`, or
under a parameter for which each caller that may run passes such a constant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.conditions.arms import arms
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function, Scope
from amp_migrate.project.import_paths import resolved

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 6
Values: TypeAlias = frozenset[object] | None
"""The constants that an expression may be; None where it may be anything else."""


def never_holds(
    program: Program, node: ast.AST, *, everywhere: bool = False
) -> ast.expr | None:
    """The condition around a node of which constants decide that the node never runs, whoever
    calls; `everywhere`: files count, too, that only use the program.
    """
    return _Constants(program, everywhere).against(node, _DEEP)


def is_decided(program: Program, test: ast.expr, holds: bool) -> bool:
    """Whether constants decide a test that way, whoever calls."""
    return program.remembered(
        (is_decided, test, holds), lambda: _decides(program, test, holds)
    )


def _decides(program: Program, test: ast.expr, holds: bool) -> bool:
    scope = program.module.scope_of(test)
    known = _Constants(program, everywhere=True).of(test, scope, _DEEP)
    return bool(known) and all(bool(one) is holds for one in known or ())


class _Constants:
    def __init__(self, program: Program, everywhere: bool = False) -> None:
        self.program = program
        self.everywhere = everywhere

    def against(self, node: ast.AST, deep: int) -> ast.expr | None:
        """The condition that keeps a node from running."""
        scope = self.program.module.scope_of(node)
        while isinstance(scope.node, ast.Lambda) and scope.parent is not None:
            scope = scope.parent
        for test, holds in arms(self.program, node, scope.node):
            known = self.of(test, scope, deep)
            if known is not None and all(bool(v) is not holds for v in known):
                return test
        return None

    def of(self, expr: ast.expr, scope: Scope, deep: int) -> Values:
        """What an expression may be."""
        if deep == 0:
            return None
        if isinstance(expr, ast.Constant):
            return frozenset({expr.value})
        if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.Not):
            known = self.of(expr.operand, scope, deep)
            return None if known is None else frozenset(not v for v in known)
        if isinstance(expr, ast.Compare) and len(expr.ops) == 1:
            return self._compared(expr, scope, deep)
        if isinstance(expr, ast.BoolOp) and isinstance(expr.op, ast.And):
            parts = [self.of(one, scope, deep) for one in expr.values]
            idle = any(p is not None and not any(p) for p in parts)
            return frozenset({False}) if idle else None
        dotted = dotted_name(expr)
        if dotted is None or expr not in self.program.module.parents:
            return None
        return self._named(expr, dotted, scope, deep - 1)

    def _compared(self, expr: ast.Compare, scope: Scope, deep: int) -> Values:
        first = self.of(expr.left, scope, deep)
        second = self.of(expr.comparators[0], scope, deep)
        kind = expr.ops[0]
        if first is None or second is None:
            return None
        pairs = [(one, other) for one in first for other in second]
        if isinstance(kind, (ast.Eq, ast.Is)):
            return frozenset(one == other for one, other in pairs)
        if isinstance(kind, (ast.NotEq, ast.IsNot)):
            return frozenset(one != other for one, other in pairs)
        return None

    def _named(
        self, expr: ast.expr, dotted: str, scope: Scope, deep: int
    ) -> Values:
        reach = self.program.reaching.at(expr, dotted)
        if reach.bindings and all(b.how == "import" for b in reach.bindings):
            home, bindings = imported_variable(self.program, dotted, scope) or (
                self.program,
                (),
            )
            there = _Constants(home, self.everywhere)
            return there.bound(bindings, deep) if bindings else None
        given = all(one.how == "parameter" for one in reach.bindings)
        whole = bool(reach.bindings) and (reach.complete or given)
        return self.bound(reach.bindings, deep) if whole else None

    def bound(self, bindings: Iterable[Binding], deep: int) -> Values:
        """What names may hold that got their values there."""
        return _either([self._given(one, deep) for one in bindings])

    def _given(self, binding: Binding, deep: int) -> Values:
        """The values that one binding may give; None where they are not known."""
        if binding.how == "parameter" and isinstance(
            binding.statement, ast.arg
        ):
            return self._passed(binding.statement, deep)
        if binding.how != "assign" or binding.index is not None:
            return None
        if binding.value is None:
            return None
        where = self.program.module.scope_of(binding.statement)
        return self.of(binding.value, where, deep)

    def _passed(self, parameter: ast.arg, deep: int) -> Values:
        """What the callers that may run pass."""
        scope = self.program.module.scope_of(parameter)
        entry = self.program.reaching.entry
        if not isinstance(scope.node, FUNCTIONS):
            return None
        sites = entry.sites(scope.node)
        if not (deep and sites and entry.is_followed(scope.node)):
            return None
        if self.everywhere and self._has_other_users(scope.node):
            return None
        default = default_of(scope.node, parameter.arg)
        found: list[Values] = []
        for call, caller, bound in sites:
            given = argument(call, scope, parameter.arg, bound) or default
            if given is None or _is_open(call):
                return None
            if self.against(call, deep - 1) is None:
                where = scope if given is default else caller
                found.append(self.of(given, where, deep))
        return _either(found)

    def _has_other_users(self, function: Function) -> bool:
        """Whether files outside of the program may call a function."""
        file = self.program.module.file_of(function)
        near = file.neighbours if file is not None else None
        if near is None:
            return False
        own = self.program.module.paths
        users = (resolved(str(one)) for one in near.users(function.name))
        return any(one not in own for one in users)


def _either(values: list[Values]) -> Values:
    if any(one is None for one in values):
        return None
    return frozenset().union(*(one for one in values if one is not None))


def _is_open(call: ast.Call) -> bool:
    """`sample(*given, **options)`"""
    return any(isinstance(one, ast.Starred) for one in call.args) or any(
        one.arg is None for one in call.keywords
    )
