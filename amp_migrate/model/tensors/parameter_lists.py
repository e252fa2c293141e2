"""Lists and dictionaries of parameters, which are float32 as parameters are, however they are
read: `nn.ParameterDict(...)`, and its `items()` and `values()`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import FLOAT, NUMBER, DType, Fact
from amp_migrate.torch_facts.layers import PARAMETER_LISTS

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference

_VIEWS = ("items", "values")


def of_parameters(
    inference: Inference, call: ast.Call, scope: Scope
) -> Fact | None:
    """The fact of such a list, where a call makes one or shows what it holds; complex ones are
    followed no further.
    """
    if inference.program.canonical(call.func) in PARAMETER_LISTS:
        given = [inference.of(one, scope) for one in call.args]
        if any(one.dtypes & DType.COMPLEX for one in given):
            return None
        return FLOAT._replace(container=True)
    return None if call.args else _shown(inference, call, scope)


def _shown(inference: Inference, call: ast.Call, scope: Scope) -> Fact | None:
    """Pairs of a name and a parameter, or the parameters: only a dictionary has either."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _VIEWS:
        return None
    held = inference.of(func.value, scope)
    if not held.container or held.dtypes != DType.FLOAT:
        return None
    if func.attr == "values":
        return held
    return Fact(held.dtypes, (NUMBER, held), container=True)
