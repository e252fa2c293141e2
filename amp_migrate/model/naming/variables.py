"""Variables behind imported names: of other files of the program, which are planned with it, and of
files that are only read.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Scope

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Variable
    from amp_migrate.model.program import Program


def imported_variable(
    program: Program, dotted: str, scope: Scope
) -> Variable | None:
    """The program and the bindings of a name that is a variable of another file."""
    linked = program.module.elsewhere(dotted, scope) if dotted else None
    if linked is not None:
        home, name = linked
        made = tuple(
            one for one in home.bindings.get(name, ()) if one.value is not None
        )
        return (program, made) if made else None
    if not dotted:
        return None
    return program.reaching.imported.variable_named(dotted, scope)


def names_module(name: str, scope: Scope) -> bool:
    """Whether a name is that of a module in any case: `import torch.optim as optim`, and `from
    torch import optim`, whose name torch gives to no object.
    """
    home = scope.lookup(name)
    bindings = home.bindings.get(name, ()) if home is not None else ()
    return bool(bindings) and all(
        isinstance(one.statement, ast.Import)
        or isinstance(one.statement, ast.ImportFrom)
        and (one.statement.module or "").partition(".")[0] == "torch"
        for one in bindings
    )
