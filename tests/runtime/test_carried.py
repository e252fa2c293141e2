"""Programs without device code, as if their default device were the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.runtime.supervise import Supervisor
from tests.runtime.test_supervise import job


@pytest.mark.parametrize(
    "expression",
    [
        "torch.ones(3).is_cuda",
        "torch.cat([torch.ones(2), torch.ones(1)]).type(torch.FloatTensor).is_cuda",
        "torch.LongTensor([1, 2]).is_cuda",
        "torch.Tensor([[1, 2], [3, 4]]).is_cuda and torch.Tensor(2, 3).is_cuda",
        "torch.nn.Parameter(torch.Tensor(2)).is_cuda",
        "isinstance(torch.ones(3), torch.FloatTensor)",
        "torch.from_numpy(numpy.ones(3)).is_cuda",
        "torch.ones(3).numpy().sum() == 3",
        "torch.nn.Linear(2, 2).weight.is_cuda",
        "all(x.is_cuda for x in torch.utils.data.DataLoader(torch.ones(8), 4, True, num_workers=2))",
        "[len(x) for x in torch.utils.data.DataLoader(range(5), batch_size=2, drop_last=True)] == [2, 2]",
    ],
)
def test_what_it_makes_is_on_the_gpu(
    expression: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    text = f"import numpy, torch\nassert {expression}\n"
    (trace,) = supervisor.run(job(tmp_path, text, carried=True))
    assert trace.status == "finished", trace.error


def test_other_programs_are_left_alone(supervisor: Supervisor, tmp_path: Path) -> None:
    text = (
        "import torch\nassert not torch.ones(3).is_cuda\nassert not torch.FloatTensor(3).is_cuda\n"
    )
    (trace,) = supervisor.run(job(tmp_path, text))
    assert trace.status == "finished", trace.error
