"""Code that runs only where there is an accelerator."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.conditions.arms import arms
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.opposites import conjuncts
from amp_migrate.torch_facts.devices import HAS_ACCELERATOR

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 3


def is_there(program: Program, node: ast.AST) -> bool:
    """Whether `node` stands where the run has asked for an accelerator, and has one."""
    scope = program.module.scope_of(node)
    return any(
        holds and _asks(program, test, _HOPS)
        for test, holds in arms(program, node, scope.node)
    )


def _asks(program: Program, test: ast.expr, hops: int) -> bool:
    """Whether a test fails where there is none: `wanted and torch.accelerator.is_available()`, or
    a name that holds it.
    """
    return any(_is_question(program, one, hops) for one in conjuncts(test))


def _is_question(program: Program, test: ast.expr, hops: int) -> bool:
    if isinstance(test, ast.Call):
        return program.canonical(test.func) in HAS_ACCELERATOR
    name = dotted_name(test)
    if name is None or not hops or test not in program.module.parents:
        return False
    reach = program.reaching.at(test, name)
    return (
        reach.complete
        and bool(reach.bindings)
        and all(
            one.how == "assign"
            and one.index is None
            and one.value is not None
            and _asks(program, one.value, hops - 1)
            for one in reach.bindings
        )
    )
