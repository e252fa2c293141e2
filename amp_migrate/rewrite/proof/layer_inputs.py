"""What the forward of a layer of the project gets in an `nn.Sequential`: what the layer before it
gives.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding
from amp_migrate.model.tensors.parameters import parameter_of


def layers_before(program: Program, binding: Binding) -> list[ast.expr]:
    """The layers whose results a parameter of a `forward` is; nothing where not each object of its
    class stands behind another layer, and is never called by itself.
    """
    found = parameter_of(program, binding)
    if found is None or found[0].name != "forward":
        return []
    function, scope, name = found
    given = [one.arg for one in function.args.args][1:2]
    owner = scope.owner.node if scope.owner is not None else None
    if given != [name] or not isinstance(owner, ast.ClassDef):
        return []
    before: list[ast.expr] = []
    for made, _ in program.graph.constructions(owner):
        above = program.module.parents.get(made)
        if not isinstance(above, ast.Call) or made not in above.args[1:]:
            return []
        if program.canonical(above.func) != "torch.nn.Sequential":
            return []
        before.append(above.args[above.args.index(made) - 1])
    return before
