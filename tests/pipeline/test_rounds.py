"""A program grows by all files that a loop's functions ask for, not by one in each round."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline import programs
from amp_migrate.project.module_graph import Index, Project

MAIN = """\
import torch
from torch import nn

from inverses import inverse
from roots import root
from spectra import spectrum

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.randn(4, 4)] * 3:
    optimizer.zero_grad()
    out = model(x.to(device))
    loss = {called}
    loss.backward()
    optimizer.step()
"""
SAFE = """\
def spectrum(x):
    return x.abs().sum()
"""


def _function(name: str, computed: str) -> str:
    return f"import torch\n\n\ndef {name}(x):\n    y = x @ x.T\n    return {computed}\n"


INVERSES = _function("inverse", "torch.linalg.inv(y).mean()")
ROOTS = _function("root", "torch.linalg.cholesky(y).sum()")
SPECTRA = _function("spectrum", "torch.linalg.svd(y)[1].sum()")


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each round of growth has planned."""
    found: list[int] = []
    company = programs._company

    def counted(
        texts: dict[str, programs.ProgramText], settings: Settings, project: Project
    ) -> tuple[str, ...]:
        found.append(len(texts))
        return company(texts, settings, project)

    monkeypatch.setattr(programs, "_company", counted)
    return found


def _migrated(folder: Path, called: str, spectra: str) -> dict[str, str]:
    """The status of each file of the program."""
    held = {
        "main.py": MAIN.format(called=called),
        "inverses.py": INVERSES,
        "roots.py": ROOTS,
        "spectra.py": spectra,
    }
    for name, text in held.items():
        (folder / name).write_text(text)
    paths = {str((folder / name).resolve()): name for name in held}
    index = Index(paths)
    for path, name in paths.items():
        index.add(path, held[name].encode())
    project = index.project({path: path for path in paths})
    done = programs.rewrite_together([str(folder / "main.py")], Settings(), project)
    return {paths[real]: one.outcome.status for real, one in done.members.items()}


ALL = "inverse(out) + root(out) + spectrum(out)"


def test_files_with_hazards_join_in_one_round(tmp_path: Path, sizes: list[int]) -> None:
    """The first plan, which asks for one of them, is no round: it says that there is something."""
    assert set(_migrated(tmp_path, ALL, SPECTRA).values()) == {"migrated"}
    assert sizes == [2, 4]


def test_a_file_without_a_hazard_stays_out(tmp_path: Path, sizes: list[int]) -> None:
    found = _migrated(tmp_path, ALL, SAFE)
    assert "spectra.py" not in found
    assert set(found.values()) == {"migrated"}
    assert sizes == [2, 3]


def test_a_file_that_nothing_calls_stays_out(tmp_path: Path, sizes: list[int]) -> None:
    found = _migrated(tmp_path, "inverse(out) + spectrum(out)", SPECTRA)
    assert "roots.py" not in found
    assert sizes == [2, 3]
