"""A loop is refused where what it runs is imported from a file that Python cannot parse."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.whole_program import rewrite_program

PROGRAM = """\
import torch
import torch.nn.functional as F
{imports}

device = torch.device("cuda")
model = {model}.to(device)
optimizer = torch.optim.Adam(model.parameters())
for x, y in []:
    optimizer.zero_grad()
    loss = {loss}(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
"""
BROKEN = "class Net:\n    pass\n\n\ndef mse(x, y):\n    print x\n"
NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def loop(folder: Path, imports: str, model: str, loss: str) -> tuple[str, str | None, str | None]:
    files = {
        "main.py": PROGRAM.format(imports=imports, model=model, loss=loss),
        "old.py": BROKEN,
        "net.py": NET,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    main = folder / "main.py"
    (found,) = rewrite_program([main], Settings())[main].outcome.loops
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("imports", "model", "loss"),
    [
        ("from old import Net", "Net()", "F.mse_loss"),
        ("import old", "old.Net()", "F.mse_loss"),
        ("from net import Net\nfrom old import mse", "Net()", "mse"),
    ],
)
def test_a_model_or_a_loss_of_python_2(tmp_path: Path, imports: str, model: str, loss: str) -> None:
    status, reason, message = loop(tmp_path, imports, model, loss)
    assert (status, reason) == ("refused", "syntax")
    assert message is not None
    assert "old.py, which does not parse (line 6: Missing parentheses" in message


@pytest.mark.parametrize(
    "imports", ["", "try:\n    import old\nexcept SyntaxError:\n    old = None"]
)
def test_a_file_that_the_loop_does_not_run(tmp_path: Path, imports: str) -> None:
    found = loop(tmp_path, f"from net import Net\n{imports}", "Net()", "F.mse_loss")
    assert found[:2] == ("migrated", None)
