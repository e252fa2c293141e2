"""Whole programs of shapes that the other cases do not have: `whole.md`, `trainers.md` and `picks.md`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.runtime.verdicts.cases import Case

_HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
"""
_SCALER = 'scaler = torch.amp.GradScaler("cuda", enabled=use_amp)  #+'
_REGION = 'with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):'
_SECTION = re.compile(r"^## (.+)\n\n((?:.*\n)*?)```python\n((?:.*\n)*?)```$", re.MULTILINE)
_FAILS = re.compile(r"^Fails: (.+)$", re.MULTILINE)


def _version(text: str, own: str, other: str, region: str) -> str:
    lines = (line for line in text.splitlines() if not line.endswith(other))
    plain = (line.removesuffix(own).rstrip() for line in lines)
    return "\n".join(plain).replace("with AMP:", region) + "\n"


def _case(name: str, told: str, program: str) -> Case:
    text = _HEAD + program.replace("SCALER\n", f"{_SCALER}\n")
    fails = _FAILS.search(told)
    return Case(
        name,
        _version(text, "#-", "#+", "if True:"),
        _version(text, "#+", "#-", _REGION),
        tuple(fails[1].split(", ")) if fails else (),
        "bfloat16" if "bfloat16" in told else "float16",
    )


_TEXTS = [
    Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("whole.md", "trainers.md", "picks.md")
]
CASES = [_case(*found) for text in _TEXTS for found in _SECTION.findall(text)]
