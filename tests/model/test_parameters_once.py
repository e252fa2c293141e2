"""Where a parameter belongs, and what is spread for it, is found once for all loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from amp_migrate.model.program import Program
from amp_migrate.model.tensors import parameters

TEXT = """\
def loss(x, *rest):
    return x


def fit(a, b):
    return loss(*a), loss(b)
"""


def test_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()

    def counted(name: str) -> None:
        whole = getattr(parameters, name)

        def count(*args: Any) -> Any:
            calls[name] += 1
            return whole(*args)

        monkeypatch.setattr(parameters, name, count)

    for name in ("_owner_of", "_spread_for", "_hooks"):
        counted(name)
    program = Program(TEXT, "loss.py")
    [scope] = [one for one in program.module.scopes.values() if one.qualname == "loss"]
    binding = scope.bindings["x"][0]
    for _ in range(3):
        assert parameters.parameter_of(program, binding) is not None
        assert len(parameters.spread_arguments(program, binding)) == 1
        assert not parameters._is_of_hook(program, binding)
    assert calls == {"_owner_of": 1, "_spread_for": 1, "_hooks": 1}
