"""Functions that are handed a model, `model_func(model, batch)`: of what calls them nothing else
shows that they are no models themselves.
"""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind

_DEEP = 3


def takes_models(
    program: Program, called: ast.expr, scope: Scope
) -> list[ast.expr]:
    """The models that a scope hands to something of which nothing is known, itself or through
    functions in sight, as they are called there.
    """
    name = dotted_name(called)
    if name is None or program.values.kind(called, scope) is not Kind.UNKNOWN:
        return []
    return _given(program, name, scope, _DEEP)


def _given(
    program: Program, name: str, scope: Scope, deep: int
) -> list[ast.expr]:
    found: list[ast.expr] = []
    for call in scope.calls if deep else ():
        if dotted_name(call.func) == name:
            given = [*call.args, *(one.value for one in call.keywords)]
            found += [
                one for one in given if program.values.is_model(one, scope)
            ]
        elif function := program.values.callee(call, scope):
            inner = program.scope(function)
            passed = {
                one.arg: value
                for one in inner.parameters()
                if (
                    value := argument(
                        call, inner, one.arg, inner.takes_receiver
                    )
                )
            }
            for own, value in passed.items():
                if dotted_name(value) == name:
                    theirs = _given(program, own, inner, deep - 1)
                    names = [dotted_name(one) or "" for one in theirs]
                    found += [passed[one] for one in names if one in passed]
    return found
