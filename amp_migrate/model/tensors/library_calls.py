"""What functions of libraries give, of which no operator of torch tells."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import ARRAY, NUMBER, Fact, promoted
from amp_migrate.torch_facts.amp_api import LIMITS
from amp_migrate.torch_facts.float_libraries import OF_HALF
from amp_migrate.torch_facts.methods import ARRAY_LIBRARIES

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference


def of_library(
    inference: Inference, call: ast.Call, scope: Scope, canonical: str
) -> Fact | None:
    """What a call of an imported function gives; None where nothing is known of it."""
    if canonical.startswith(ARRAY_LIBRARIES):
        return ARRAY
    if canonical in LIMITS:
        return NUMBER
    if not canonical.startswith(OF_HALF):
        return None
    given = [inference.of(one, scope) for one in call.args]
    for keyword in call.keywords:
        given.append(inference.of(keyword.value, scope))
    return promoted(given)
