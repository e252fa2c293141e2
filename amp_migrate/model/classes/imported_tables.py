"""The classes that tables of other files hold, as the files see them that import the tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.classes.factories import put_by_decorators
from amp_migrate.model.files.neighbours import Definition
from amp_migrate.model.syntax.module import Module


def imported_tables(file: Module) -> Iterator[Definition]:
    """The classes that the variables hold which a file imports: `MODELS["unet"]()`."""
    for origin in (
        file.imports.names.values() if file.neighbours is not None else ()
    ):
        found = (
            file.neighbours.variable(origin)
            if file.neighbours is not None
            else None
        )
        home, bindings = found if found is not None else (None, ())
        if home is not None:
            key, root = origin.rpartition(".")[2], home.module.root
            yield from put_by_decorators(home, key, root)
        for value in (one.value for one in bindings if one.value is not None):
            for node in ast.walk(value):
                if home is not None and isinstance(
                    node, (ast.Name, ast.Attribute)
                ):
                    scope = home.module.root
                    own = home.graph.class_named(node, scope)
                    one = (
                        (home, own)
                        if own is not None
                        else home.values.abroad(node, scope)
                    )
                    if one is not None:
                        yield one
