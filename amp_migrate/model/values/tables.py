"""What a module's tables hold: `FACTORY = {"mot": MotTrainer}`, `REGISTRY["q"] = QLearner`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope


def entries_of(home: Scope, name: str) -> Iterator[ast.expr]:
    """The values of a table, those that it is made of and those that the same body puts in."""
    made = [one.value for one in home.bindings.get(name, ())]
    for value in made:
        if isinstance(value, ast.Dict):
            yield from value.values
    for statement in home.body if any(made) else ():
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Subscript)
            and dotted_name(target.value) == name
            for target in statement.targets
        ):
            yield statement.value
