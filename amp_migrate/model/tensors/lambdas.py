"""Functions without a name, `area = lambda box: ...`: what their parameters are given, and what
calls of the variable get.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.tensors.fact import UNKNOWN, Fact, join
from amp_migrate.model.tensors.use import reads
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Binding, Scope
    from amp_migrate.model.tensors.inference import Inference


class _Calls(NamedTuple):
    """The calls in sight of what a lambda is assigned to."""

    sites: tuple[tuple[ast.Call, Scope], ...]
    are_all: bool
    """Whether the variable is used for nothing else."""


_NONE = _Calls((), are_all=False)


def given_to(inference: Inference, binding: Binding) -> Fact:
    """What a parameter of a lambda may be; unknown where its calls are out of sight."""
    node = _lambda_around(inference.program, binding.statement)
    if node is None:
        return UNKNOWN
    inner = inference.program.module.scopes[node]
    name = _name_in(inner, binding)
    calls = _calls_of(inference.program, node)
    facts = _passed(inference, calls, inner, name)
    default = default_of(node, name)
    if default is not None:
        where = inner.parent or inner
        facts.append(inference.of(default, where))
    if not calls.are_all:
        facts.append(UNKNOWN)
    return join(facts)


def arguments(
    program: Program, binding: Binding
) -> list[tuple[ast.expr | None, Scope]]:
    """What the calls pass for a parameter of a lambda, where all of them are in sight."""
    node = _lambda_around(program, binding.statement)
    if node is None:
        return []
    inner = program.module.scopes[node]
    name = _name_in(inner, binding)
    calls = _calls_of(program, node)
    found: list[tuple[ast.expr | None, Scope]] = []
    for call, where in calls.sites if calls.are_all else ():
        given = argument(call, inner, name, bound=False)
        found.append((given, where))
    return found


def got_from(inference: Inference, call: ast.Call, scope: Scope) -> Fact | None:
    """What a call gets where the callee holds nothing but lambdas."""
    program = inference.program
    facts: list[Fact] = []
    for home, value, _ in held(program, call.func, scope):
        if home is not program or not isinstance(value, ast.Lambda):
            return None
        inner = program.module.scopes[value]
        body = inference.called_at(call)
        facts.append(body.of(value.body, inner))
    if not facts:
        return None
    return join(facts)


def _passed(
    inference: Inference, calls: _Calls, inner: Scope, name: str
) -> list[Fact]:
    """What the calls pass for a parameter that stand inside of regions as the lambda does; or what
    the others do.
    """
    assert isinstance(inner.node, ast.Lambda)
    is_inside = inference.inside(inner.node.args)
    alike: list[Fact] = []
    others: list[Fact] = []
    for call, where in calls.sites:
        given = argument(call, inner, name, bound=False)
        fact = UNKNOWN
        if given is not None:
            fact = inference.of(given, where)
        if inference.inside(call) == is_inside:
            alike.append(fact)
        else:
            others.append(fact)
    return alike or others


def _lambda_around(program: Program, parameter: ast.AST) -> ast.Lambda | None:
    """The lambda that a parameter belongs to."""
    above = program.module.parents.get(parameter)
    if isinstance(above, ast.arguments):
        above = program.module.parents.get(above)
    if isinstance(above, ast.Lambda):
        return above
    return None


def _name_in(scope: Scope, binding: Binding) -> str:
    """The name of a parameter."""
    for name, bindings in scope.bindings.items():
        if any(one is binding for one in bindings):
            return name
    return ""


def _calls_of(program: Program, node: ast.Lambda) -> _Calls:
    """The calls of the variable that a lambda is assigned to."""
    assigned = program.module.parents[node]
    if not isinstance(assigned, ast.Assign):
        return _NONE
    target = assigned.targets[0]
    if len(assigned.targets) > 1 or not isinstance(target, ast.Name):
        return _NONE
    home = program.module.scope_of(assigned).lookup(target.id)
    if home is None:
        return _NONE
    return program.remembered(
        (_calls_of, target.id, home),
        lambda: _calls_of_name(program, target.id, home),
    )


def _calls_of_name(program: Program, name: str, home: Scope) -> _Calls:
    """The calls of a variable of some scope."""
    sites: list[tuple[ast.Call, Scope]] = []
    for call, scope in program.graph.calls_of(name):
        if isinstance(call.func, ast.Name) and scope.lookup(name) is home:
            sites.append((call, scope))
    read = 0
    for node in reads(program).get(name, ()):
        if program.module.scope_of(node).lookup(name) is home:
            read += 1
    return _Calls(tuple(sites), are_all=read == len(sites))
