"""The table of pytorch/examples can be made anew: made-up data have the formats, and rows tell
what happened.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.bench import example_data
from tests.bench.verify_examples import EXAMPLES, Example, Result, row, run, told
from tests.runtime.programs import BEFORE


def test_made_up_digits_have_the_format_of_mnist(tmp_path: Path) -> None:
    example_data.mnist(tmp_path / "mnist")
    raw = tmp_path / "data" / "MNIST" / "raw"
    images, labels = (raw / f"train-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1"))
    count = example_data.IMAGES
    assert struct.unpack(">4I", images.read_bytes()[:16]) == (2051, count, 28, 28)
    assert len(images.read_bytes()) == 16 + count * 784
    assert len(labels.read_bytes()) == 8 + count
    assert set(labels.read_bytes()[8:]) == set(range(10))
    assert sorted(path.name[:4] for path in raw.iterdir()) == ["t10k", "t10k", "trai", "trai"]


def test_papers_come_from_the_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import tarfile

    example_data.papers(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "stand-in"))
    monkeypatch.delitem(sys.modules, "requests", raising=False)
    requests = importlib.import_module("requests")
    with (
        requests.get("https://example.org", stream=True) as file,
        tarfile.open(fileobj=file.raw, mode="r:gz") as archive,
    ):
        names = archive.getnames()
    monkeypatch.delitem(sys.modules, "requests")
    assert {"cora/cora.content", "cora/cora.cites"} <= set(names)
    first = (
        (tmp_path / "stand-in" / "cora" / "cora.content")
        .read_text(encoding="utf-8")
        .splitlines()[0]
        .split("\t")
    )
    assert (first[0], len(first), first[-1][:4]) == ("0", 72, "kind")


def test_words(tmp_path: Path) -> None:
    example_data.words(tmp_path)
    place = tmp_path / "data" / "wikitext-2"
    assert len((place / "train.txt").read_text(encoding="utf-8").split()) == 7200
    assert (place / "valid.txt").is_file()


@pytest.mark.parametrize(
    ("text", "verdict", "word"),
    [
        (BEFORE, "pass", "| it | nothing | pass: 4 steps, "),
        ("print('no loop')\n", "fail", "| nothing to compare: no loop |"),
    ],
)
def test_one_row(text: str, verdict: str, word: str, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "it").mkdir(parents=True)
    (checkout / "it" / "main.py").write_text(text, encoding="utf-8")
    example = Example("it/main.py", options="--steps 4")
    result = run(example, checkout, tmp_path / "copy")
    assert result.verdict == verdict, result.output
    assert word in row("it", example, result)
    assert [path.name for path in checkout.rglob("*")] == ["it", "main.py"]


def test_a_program_that_verify_cannot_run_is_told_with_its_last_line() -> None:
    assert told(Result("not run", {}, "one\ntwo\n")) == "not run: two"


def test_every_example_says_what_it_needs() -> None:
    assert all(example.needs and example.script.endswith(".py") for example in EXAMPLES.values())
