"""TF32, on or off whichever of torch's interfaces the program uses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amp_migrate.runtime.supervise import Supervisor
from tests.runtime.test_supervise import job

OLD = "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cudnn.allow_tf32"
NEW = "torch.backends.cudnn.conv.fp32_precision = 'tf32'\ntorch.backends.cudnn.allow_tf32"


@pytest.mark.parametrize("way", [{"exact": True}, {"tf32": True}])
@pytest.mark.parametrize("text", [OLD, NEW])
def test_the_program_may_use_either_interface(
    way: dict[str, bool], text: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    if text is NEW and not hasattr(torch.backends.cudnn, "conv"):
        pytest.skip("an older torch, without the new interface")
    (trace,) = supervisor.run(job(tmp_path, f"import torch\n{text}\n", **way))
    assert trace.status == "finished", trace.error


def test_an_exact_run_has_none(supervisor: Supervisor, tmp_path: Path) -> None:
    text = "import os\nassert os.environ['NVIDIA_TF32_OVERRIDE'] == '0'\n"
    (trace,) = supervisor.run(job(tmp_path, text, exact=True))
    assert trace.status == "finished", trace.error
