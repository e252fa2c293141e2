"""Whether a name means at one place what it means at another: `args` of two functions, of which one
is handed the other's; not two variables that happen to have one name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.switch.reading_place import ReadingPlace


def means_the_same(
    program: Program, test: ast.expr, here: ReadingPlace
) -> bool:
    """Whether a condition of another place asks for the same variables at this one."""
    return all(
        _is_same(program, node, here)
        for node in nodes_in(test)
        if isinstance(node, ast.Name) and node in program.module.parents
    )


def _is_same(program: Program, name: ast.Name, here: ReadingPlace) -> bool:
    home = program.module.scope_of(name)
    if home is here.scope or name.id == home.self_name:
        return True
    theirs = program.reaching.at(name, name.id).bindings
    ours = here.bindings(name.id)
    if set(theirs) == set(ours):
        return True
    given = [one for one in (*ours, *theirs) if one.how == "parameter"]
    if given:
        return all(
            text == name.id for one in given for text in _passed(program, one)
        )
    return _written(theirs) == _written(ours)


def _passed(program: Program, parameter: Binding) -> Iterator[str | None]:
    """What callers in sight pass for a parameter, as it is written."""
    function = program.module.scope_of(parameter.statement)
    if not isinstance(parameter.statement, ast.arg):
        return
    if isinstance(function.node, FUNCTIONS):
        name = parameter.statement.arg
        for call, _, bound in program.reaching.entry.sites(function.node):
            value = argument(call, function, name, bound)
            if value is not None:
                yield dotted_name(value) or ast.unparse(value)


def _written(bindings: Iterable[Binding]) -> set[str]:
    return {
        ast.unparse(one.value) if one.value is not None else one.how
        for one in bindings
    }
