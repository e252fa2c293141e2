"""Modules kept in float32, as text: where they are called, or where their class is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amp_migrate.runtime.callers import places
from amp_migrate.runtime.float32_search import Search, Texts
from amp_migrate.runtime.islands import kept
from amp_migrate.runtime.trace import Place

FILE = """\
class Net:
    def forward(self, x, mask):
        # first
        h = self.body(x)
        for block in self.blocks:
            h = block(h, mask)
        return self.head(h), h
"""


def written(text: str, *found: Place) -> str | None:
    texts = kept(found, {}, lambda path: text)
    return None if texts is None else texts["/net.py"]


def call(line: int, expression: str, *floats: int | str) -> Place:
    return Place("/net.py", line, expression, floats)


def test_a_call_is_put_under_autocast_that_is_off() -> None:
    assert written(FILE, call(4, "self.body", 0)) == "import torch\n\n" + FILE.replace(
        "        # first\n        h = self.body(x)",
        """\
        with torch.autocast("cuda", enabled=False):
            # first
            h = self.body(x.float())""",
    )


def test_only_floating_arguments_are_cast() -> None:
    text = written(FILE, call(6, "block", 0))
    assert text is not None
    assert "h = block(h.float(), mask)" in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("h = self.head(self.body(x))", "h = OFF(self.head)(self.body(x).float())"),
        ("h = F.relu(self.head(x))", "h = F.relu(OFF(self.head)(x.float()))"),
        ("h = self.head(x @ self.w)", "h = OFF(self.head)((x @ self.w).float())"),
        ("h += self.head(x).view(2)", "with OFF:\n            h += self.head(x.float()).view(2)"),
    ],
)
def test_what_else_the_line_computes_stays_in_half(before: str, after: str) -> None:
    text = f"class Net:\n    def forward(self, x, h):\n        {before}\n        return h\n"
    found = written(text, call(3, "self.head", 0))
    assert found is not None
    assert f"        {after}\n" in found.replace('torch.autocast("cuda", enabled=False)', "OFF")


def test_arguments_with_a_keyword_are_cast() -> None:
    found = written(FILE.replace("block(h, mask)", "block(h, mask=mask)"), call(6, "block", "mask"))
    assert found is not None
    assert "h = block(h, mask=mask.float())" in found
    text = FILE.replace("x, mask", "x, *, mask")
    found = written(text, Place("/net.py", 2, "", (0, "mask")))
    assert found is not None
    assert "            x = x.float()\n            mask = mask.float()\n" in found


def test_a_return_keeps_what_it_returns() -> None:
    text = written(FILE, call(7, "self.head"))
    assert text is not None
    assert "            return self.head(h), h\n" in text


def test_a_forward_is_put_there_as_a_whole_below_its_docstring() -> None:
    text = FILE.replace("        # first", '        """Compute."""')
    found = written(text, Place("/net.py", 2, "", (0,)))
    assert found is not None
    assert (
        '        """Compute."""\n        with torch.autocast("cuda", enabled=False):\n'
        "            x = x.float()\n            h = self.body(x)\n"
    ) in found


def test_the_line_is_that_of_the_original_not_of_the_rewritten_text() -> None:
    rewritten = "import torch\n\n\n" + FILE
    found = kept([call(4, "self.body", 0)], {"/net.py": rewritten}, lambda path: FILE)
    assert found is not None
    assert "self.body(x.float())" in found["/net.py"]


@pytest.mark.parametrize(
    "place",
    [call(4, "self.other", 0), call(5, "self.blocks", 0), call(3, "self.body", 0)],
    ids=["another call", "the head of a loop", "another line"],
)
def test_what_does_not_stand_there_is_not_written(place: Place) -> None:
    assert written(FILE, place) is None


HOOK = "lambda module, inputs, output: found.extend(places(module, inputs))"
"""In no file, as that of verify is in none of the user's."""


class Part(torch.nn.Module):
    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        return x * count


class Whole(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList([Part(), Part()])
        self.found: list[Place] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hook = eval(HOOK, {"places": places, "found": self.found})
        self.parts[1].register_forward_hook(hook)
        return self.parts[-1](x, 2)  # here


def test_a_module_is_found_where_it_is_called_and_where_it_is_defined() -> None:
    whole = Whole()
    whole(torch.ones(2))
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    called = next(i for i, line in enumerate(lines, 1) if line.endswith("# here"))
    defined = next(i for i, line in enumerate(lines, 1) if "x: torch.Tensor, count" in line)
    assert whole.found == [
        Place(__file__, called, "self.parts[-1]", (0,)),
        Place(__file__, defined, "", (0,)),
    ]


BOTH = {"body": [call(4, "self.body", 0)], "head": [call(7, "self.head", 0)]}


def search(needed: set[str], **more: list[Place]) -> tuple[dict[str, str] | None, list[str]]:
    """Where the program passes with these modules in float32."""

    def trial(told: str, texts: Texts) -> list[str]:
        text = texts.get("/net.py", "")
        return (
            []
            if all(f"self.{name}({word}.float()" in text for name, word in wanted)
            else ["finite"]
        )

    wanted = [(name, "x" if name == "body" else "h") for name in needed]
    found = Search({**BOTH, **more}, {}, lambda path: FILE, trial)
    return found.run(["body.0", "head"]), found.said


def test_a_module_that_torch_calls_is_kept_with_the_one_that_holds_it() -> None:
    texts, said = search({"body"})
    assert texts is not None
    assert said == ["tried: body in float32 passes"]


def test_what_is_not_needed_is_given_up() -> None:
    texts, said = search({"head"})
    assert texts is not None
    assert "self.body(x)" in texts["/net.py"]
    assert said[-1] == "tried: head in float32 passes"


def test_where_nothing_passes_that_is_said_and_nothing_written() -> None:
    texts, said = search({"tail"})
    assert texts is None
    assert said[-1] == "no module was found that makes it pass when it is kept in float32"


def test_where_nothing_can_be_written_nothing_is_tried() -> None:
    found = Search({}, {}, lambda path: FILE, lambda told, texts: [])
    assert found.run(["body.0"]) is None
    assert found.said == [
        "no line of the program's own files calls or defines the modules in question"
    ]
