"""Batch norms that apex converts behind the optimizer's back.

`apex.parallel.convert_syncbn_model` gives the layers new parameters, torch's conversion keeps those
that are there. So an optimizer that is made before holds them in torch, and does not in apex.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.optimizers import optimizer

_GIVES = ("parameters", "named_parameters")


def optimizer_before(module: Module, call: ast.Call) -> ast.Call | None:
    """An optimizer that is made before a conversion, in its function, for what is converted."""
    scope = module.scope_of(call)
    above = [
        node
        for statement in scope.body
        for node in nodes_in(statement)
        if getattr(node, "lineno", call.lineno) < call.lineno
        and module.scope_of(node) is scope
    ]
    made = [node for node in above if isinstance(node, ast.Assign)]
    models = _behind(made, _all_named(call.args[:1]))
    for node in above:
        if isinstance(node, ast.Call):
            canonical = module.imports.canonical(node.func)
            if optimizer(canonical) and models & _trained(made, node):
                return node
    return None


def _trained(made: list[ast.Assign], call: ast.Call) -> set[str]:
    """The models whose parameters are among what an optimizer is given."""
    given = [*call.args, *(one.value for one in call.keywords)]
    named = _behind(made, _all_named(given))
    lists = [one.value for one in made if named & _targets(one)]
    return {
        dotted_name(one.func.value) or ""
        for expr in (*given, *lists)
        for one in nodes_in(expr)
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr in _GIVES
    }


def _behind(made: list[ast.Assign], named: set[str]) -> set[str]:
    """Names, and those of which assignments above make them: of `DDP(net)` also `net`."""
    found = set(named)
    for one in reversed(made):
        if found & _targets(one):
            found |= _all_named([one.value])
    return found


def _targets(made: ast.Assign) -> set[str]:
    return {dotted_name(one) or "" for one in made.targets}


def _all_named(given: list[ast.expr]) -> set[str]:
    """Every variable and attribute that is named."""
    return {
        dotted_name(node) or ""
        for expr in given
        for node in nodes_in(expr)
        if isinstance(node, (ast.Name, ast.Attribute))
    }
