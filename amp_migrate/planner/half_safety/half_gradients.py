"""Backwards of custom functions: they run outside of autocast, on gradients of the dtype that
their forward gave.
"""

from __future__ import annotations

from amp_migrate.model.half_safety.all_hazards import hazards
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.planner.half_safety.autograd_functions import Custom

_STRICT = ("dtype-strict-inplace", "ops-without-half-kernel")


def raises_on_half(custom: Custom) -> bool:
    """Whether the backward fails where it is given half gradients: `zeros(n).index_add_(0, i, g)`
    writes them into float32.
    """
    backward = custom.method("backward")
    if backward is None:
        return False
    program, inner = custom.program, custom.program.scope(backward)
    there = Inference(program, lambda _: None, lambda _: None)
    for one in inner.parameters()[1:]:
        for binding in inner.bindings.get(one.arg, ()):
            if binding.how == "parameter":
                there.assume(binding, Fact(DType.HALF))
    nodes = [(node, inner) for node in nodes_in(backward)]
    return any(
        one.certain and one.rule in _STRICT
        for one in hazards(Asked(there), nodes)
    )
