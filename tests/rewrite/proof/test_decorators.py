"""A decorator goes only where it is declared, letter for letter."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.proof import Introduced, check

BEFORE = "class F:\n    @staticmethod\n    def forward(ctx, x):\n        return x\n"
DECLARED = Introduced(decorators=frozenset({"torch.amp.custom_fwd(device_type='cuda')"}))
AFTER = {
    "declared": ("@torch.amp.custom_fwd(device_type='cuda')", True),
    "another argument": ("@torch.amp.custom_fwd(device_type='cpu')", False),
    "another decorator": ("@torch.no_grad()", False),
}


@pytest.mark.parametrize(("mark", "right"), AFTER.values(), ids=AFTER)
def test_decorators(mark: str, right: bool) -> None:
    after = BEFORE.replace("    def", f"    {mark}\n    def")
    assert (check(BEFORE, after, DECLARED) == ()) is right
    assert check(BEFORE, after, Introduced()) != ()


def test_a_lost_decorator() -> None:
    assert check(BEFORE, BEFORE.replace("    @staticmethod\n", ""), DECLARED) != ()
