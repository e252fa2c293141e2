"""The protocol over rewritten programs: silent on the fixtures, and what is taken out of them is
missed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from amp_migrate.rewrite.proof.protocol import protocol_failures

FIXTURES = Path(__file__).parents[3] / "fixtures"
PROGRAMS = sorted(FIXTURES.glob("*/after.py"))
FAULTS = {
    "update": (re.compile(r"\S*scaler\S*\.update\(\)$"), "pass"),
    "unscale": (re.compile(r"\S*scaler\S*\.unscale_\(.*\)$"), "pass"),
    "bare": (re.compile(r"\S*scaler\S*\.step\((.*)\)$"), r"\1.step()"),
}
SAME_PROGRAM = {
    # The next update on every path comes before anything is stepped again.
    ("autoencoder_with_critic", "update", 26),
    ("wgan_weight_clamp", "update", 75),
}
OUT_OF_SIGHT = {
    # The generator's output is an attribute, and alpha is no model's parameter.
    ("pix2pix_methods", "bare", 81),
    ("pix2pix_gradient_penalty", "bare", 46),
    ("sac_entropy_tuning", "bare", 80),
    ("sac_entropy_tuning", "bare", 86),
}


@dataclass(frozen=True)
class Fault:
    """One line of a fixture, changed."""

    program: str
    kind: str
    line: int
    text: str

    @property
    def key(self) -> tuple[str, str, int]:
        return self.program, self.kind, self.line


def read(path: Path) -> str:
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def faults(path: Path) -> list[Fault]:
    """Every way to drop an update, drop an unscale_, or step past the scaler."""
    lines = read(path).splitlines(keepends=True)
    found = []
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        for kind, (pattern, replacement) in FAULTS.items():
            if pattern.fullmatch(bare):
                changed = line.replace(bare, pattern.sub(replacement, bare))
                text = "".join([*lines[: number - 1], changed, *lines[number:]])
                found.append(Fault(path.parent.name, kind, number, text))
    return found


SEEDED = [fault for path in PROGRAMS for fault in faults(path)]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_rewritten_programs_keep_the_protocol(path: Path) -> None:
    assert protocol_failures(read(path)) == []


def test_faults_are_seeded() -> None:
    assert {fault.kind for fault in SEEDED} == set(FAULTS)
    assert len(SEEDED) > 150


@pytest.mark.parametrize(
    "fault",
    [fault for fault in SEEDED if fault.key not in SAME_PROGRAM | OUT_OF_SIGHT],
    ids=lambda fault: "-".join(map(str, fault.key)),
)
def test_a_fault_is_seen(fault: Fault) -> None:
    assert protocol_failures(fault.text) != []


def test_a_message_has_its_line() -> None:
    text = (
        "import torch\n\n\ndef step(optimizer, scaler, loss):\n    "
        "scaler.scale(loss).backward()\n    scaler.step(optimizer)\n"
    )
    assert protocol_failures(text) == ["line 6: missing-scaler-update"]
