"""Functions of libraries in a region that get half precision: what they do with it is out of sight,
so they get float32, where that is proved to be a tensor.

Modules are left alone: a library that offers layers has met autocast.
"""

from __future__ import annotations

import ast
import sys

from amp_migrate.model.half_safety import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.rewrite.proof.receivers import receivers_of
from amp_migrate.torch_facts.float_libraries import OF_OPERATORS
from amp_migrate.torch_facts.methods import ARRAY_LIBRARIES

_DEEP = 12


def handed_abroad(asked: Asked, call: ast.Call, scope: Scope) -> list[ast.expr]:
    """What a library's function gets in half precision, and can get as float."""
    program = asked.inference.program
    if not asked.inference.inside(call) or not _is_foreign(
        program, call, scope
    ):
        return []
    given = [*call.args, *(one.value for one in call.keywords)]
    receivers = receivers_of(program)
    return [
        one
        for one in given
        if asked.fact(one, scope).floats_alone
        and receivers.made(one, scope, _DEEP)
    ]


def _is_foreign(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call runs a function of a library that is not known to use torch's operators."""
    name = program.canonical(call.func)
    if name is None or name.startswith((*OF_OPERATORS, *ARRAY_LIBRARIES)):
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:
        return False
    if program.graph.class_named(call.func, scope) is not None:
        return False
    if program.values.callees(call, scope):
        return False
    return not _is_of_project(program, call.func, scope)


def _is_of_project(program: Program, func: ast.expr, scope: Scope) -> bool:
    """A function or class of another file, or what a variable there stands for."""
    if program.values.abroad(func, scope) is not None:
        return True
    dotted, imported = dotted_name(func), program.reaching.imported
    return dotted is not None and (
        imported.variable_named(dotted, scope) is not None
        or program.module.elsewhere(dotted, scope) is not None
    )
