"""Functions and losses of libraries in a region that get half precision: what they do with it is
out of sight, so they get float32; functions, where that is proved to be a tensor.

Other modules are left alone: a library that offers layers has met autocast.
"""

from __future__ import annotations

import ast
import sys

from amp_migrate.model.calls.targets import makers
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import NO_TENSOR, DType
from amp_migrate.model.values.kinds import criterion_name
from amp_migrate.rewrite.proof.asserted import is_asked_for
from amp_migrate.rewrite.proof.receivers import receivers_of
from amp_migrate.torch_facts.float_libraries import OF_HALF, OF_OPERATORS
from amp_migrate.torch_facts.methods import ARRAY_LIBRARIES

_DEEP = 12


def handed_abroad(asked: Asked, call: ast.Call, scope: Scope) -> list[ast.expr]:
    """What a library's function or loss gets in half precision, and can get as float."""
    program = asked.inference.program
    if not asked.inference.inside(call):
        return []
    given = [*call.args, *(one.value for one in call.keywords)]
    if _is_foreign_loss(program, call, scope):
        own = _libraries(program, call.func, scope)
        return [
            one
            for one in given
            if _is_half_output(asked, one, scope)
            and not _is_made_by(asked, one, own)
        ]
    if not _is_foreign(program, call, scope):
        return []
    if _is_for_half(asked, call, given, scope):
        return []
    receivers = receivers_of(program)
    return [
        one
        for one in given
        if _is_half(asked, one, scope) and receivers.made(one, scope, _DEEP)
    ]


def _is_half(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether a value is half on a path in sight and can be cast; under `if x is not None` it is
    no None.
    """
    fact = asked.fact(expr, scope)
    if DType.OTHER in fact.dtypes and is_asked_for(
        asked.inference.program, expr, scope
    ):
        fact = fact._replace(dtypes=fact.dtypes & ~DType.OTHER)
    return fact.floats_alone


def _libraries(program: Program, func: ast.expr, scope: Scope) -> set[str]:
    """The libraries whose classes make an object."""
    found = makers(program, func, scope)
    exprs = [one for one in found if isinstance(one, ast.expr)]
    names = [program.canonical(one) or "" for one in exprs]
    return {one.partition(".")[0] for one in names if one}


def _is_made_by(asked: Asked, expr: ast.expr, libraries: set[str]) -> bool:
    """Whether other objects of a loss's library give what it takes: the pairs of a miner."""
    program = asked.inference.program
    given = values_of(asked, expr) if isinstance(expr, ast.Name) else ()
    calls = [one for one in given if isinstance(one[0], ast.Call)]
    return bool(calls) and all(
        isinstance(call, ast.Call)
        and bool(_libraries(program, call.func, where) & libraries)
        for call, where in calls
    )


def _is_half_output(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether what a loss is given is half, or comes of a model and may be."""
    fact = asked.fact(expr, scope)
    if fact.floats_alone:
        return True
    if not fact.may_be_half:
        return False
    return _comes_of_model(asked, expr, scope, _DEEP)


def _comes_of_model(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> bool:
    """`model(x)`, under a name or a method."""
    if not deep:
        return False
    if isinstance(expr, ast.Name):
        made = values_of(asked, expr)
        return any(_comes_of_model(asked, *one, deep - 1) for one in made)
    if not isinstance(expr, ast.Call):
        return False
    if asked.inference.program.effects.is_forward(expr, scope):
        return True
    func = expr.func
    if not isinstance(func, ast.Attribute):
        return False
    return _comes_of_model(asked, func.value, scope, deep - 1)


def _is_foreign_loss(program: Program, call: ast.Call, scope: Scope) -> bool:
    """`criterion(outputs, y)` of `criterion = warpctc_pytorch.CTCLoss()`."""
    if program.canonical(call.func) is not None:
        return False
    if program.values.callees(call, scope):
        return False
    made = makers(program, call.func, scope)
    return bool(made) and all(_names_loss(program, one) for one in made)


def _names_loss(program: Program, maker: ast.AST) -> bool:
    """Whether what makes an object is the class of a loss of a library."""
    if not isinstance(maker, ast.expr):
        return False
    if maker not in program.module.parents:
        return False
    name = program.canonical(maker) or ""
    if not criterion_name(name.rpartition(".")[2]):
        return False
    scope = program.module.scope_of(maker)
    return _is_of_library(program, maker, scope)


def _is_for_half(
    asked: Asked, call: ast.Call, given: list[ast.expr], scope: Scope
) -> bool:
    """Whether a kernel that takes half gets nothing but half: its tensors must be of one dtype."""
    name = asked.inference.program.canonical(call.func) or ""
    if not name.startswith(OF_HALF):
        return False
    facts = [asked.fact(one, scope) for one in given]
    return all(not one.dtypes & ~(DType.HALF | NO_TENSOR) for one in facts)


def _is_foreign(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call runs a function of a library that is not known to use torch's operators."""
    if program.graph.class_named(call.func, scope) is not None:
        return False
    if program.values.callees(call, scope):
        return False
    return _is_of_library(program, call.func, scope)


def _is_of_library(program: Program, func: ast.expr, scope: Scope) -> bool:
    """Whether a name is that of a library which has kernels of its own, for all that is known."""
    name = program.canonical(func)
    if name is None or name.startswith((*OF_OPERATORS, *ARRAY_LIBRARIES)):
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:
        return False
    return not _is_of_project(program, func, scope)


def _is_of_project(program: Program, func: ast.expr, scope: Scope) -> bool:
    """A function or class of another file, what a variable there stands for, or a module; what is
    asked of one, too: `VAE.recon_loss`.
    """
    if program.values.abroad(func, scope) is not None:
        return True
    if isinstance(func, ast.Attribute) and _is_of_project(
        program, func.value, scope
    ):
        return True
    dotted, imported = dotted_name(func), program.reaching.imported
    if imported.is_module(func, scope):
        return True
    return dotted is not None and (
        imported.variable_named(dotted, scope) is not None
        or program.module.elsewhere(dotted, scope) is not None
    )
