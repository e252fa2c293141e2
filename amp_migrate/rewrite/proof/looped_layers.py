"""The layers of torch that a loop runs, all of a `nn.ModuleList` in sight: each raises for anything
but a tensor.
"""

from __future__ import annotations

import ast

from amp_migrate.model.forwards.sequence_calls import made_of
from amp_migrate.model.forwards.sequence_ends import all_layers
from amp_migrate.model.half_safety.looped_layers import gone_through
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.ops import EVERY


def runs_layers(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call runs one of such layers, whichever it is: those that take numbers of classes
    aside.
    """
    func = call.func
    if not isinstance(func, ast.Name) or len(call.args) != 1:
        return False
    bindings = program.reaching.at(func, func.id).bindings
    made = [
        one for binding in bindings for one in _made(program, binding, scope)
    ]
    every = [one for each in made for one in all_layers(program, each)]
    return (
        len(bindings) == 1
        and bool(every)
        and all(
            one is not None and _takes_floats(program, one) for one in every
        )
    )


def _made(program: Program, binding: Binding, scope: Scope) -> list[ast.Call]:
    if binding.how != "for" or binding.value is None:
        return []
    through = gone_through(binding.value)
    counted = through is not binding.value
    if binding.index != (1 if counted else None):
        return []
    return made_of(program, through, scope)


def _takes_floats(program: Program, layer: ast.expr) -> bool:
    func = layer.func if isinstance(layer, ast.Call) else None
    name = program.canonical(func) if func is not None else None
    row = layers.layer(name)
    op = row.op if row is not None else None
    return op is not None and (op.tensors == EVERY or 0 in op.tensors)
