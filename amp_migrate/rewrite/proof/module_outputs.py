"""What a module gives is a tensor, or several: a use that takes no list, tuple or dict tells."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.distributions import distribution

_MODULES = (Kind.MODEL, Kind.CRITERION)


def takes_no_several(program: Program, cast: ast.expr) -> bool:
    """`x.float().sum()`, `y.to(x.float())`, `Categorical(logits=x.float())`: no list, tuple or dict
    will do.
    """
    asked = program.module.parents.get(cast)
    if isinstance(asked, ast.keyword):
        asked = program.module.parents.get(asked)
        return isinstance(asked, ast.Call) and _draws(program, asked)
    if isinstance(asked, ast.Call) and cast in asked.args:
        method = asked.func
        is_move = isinstance(method, ast.Attribute) and method.attr == "to"
        return is_move and asked.args == [cast] or _draws(program, asked)
    if not isinstance(asked, ast.Attribute) or ops.method(asked.attr) is None:
        return False
    return not any(hasattr(one, asked.attr) for one in (list, tuple, dict, str))


def _draws(program: Program, call: ast.Call) -> bool:
    """Whether a call makes one of torch's distributions."""
    return distribution(program.canonical(call.func)) is not None


def is_output(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """What a module gives in each case: a tensor, or several."""
    if isinstance(expr, ast.Call):
        is_module = program.values.kind(expr.func, scope) in _MODULES
        return is_module or program.effects.is_forward(expr, scope)
    dotted = dotted_name(expr)
    bindings = (
        program.reaching.at(expr, dotted).bindings if dotted is not None else ()
    )
    given = [one.value for one in bindings if isinstance(one.value, ast.Call)]
    if not given or len(given) < len(bindings):
        return False
    return all(
        is_output(program, one, program.module.scope_of(one)) for one in given
    )
