"""Line numbers of the original on the rewritten code."""

from __future__ import annotations

import ast
import traceback
from importlib.util import decode_source
from pathlib import Path

import pytest

from amp_migrate.runtime.import_hook import compile_rewritten
from amp_migrate.runtime.linemap import line_map
from amp_migrate.runtime.switch import force_switch

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*/after.py"))


def test_wrapped_lines_keep_their_numbers() -> None:
    old = "a = 1\nx = f(a)\nx.backward()\nb = 2\n"
    new = "a = 1\ns = make()\nwith region():\n    x = f(a)\ns.scale(x).backward()\nb = 2\n"
    lines = line_map(old, new)
    assert lines.line[1:7] == (1, 1, 2, 2, 3, 4)
    assert lines.same[1:7] == (True, False, False, True, False, True)


def test_a_header_belongs_to_the_statement_below_its_comment() -> None:
    old = "a = 1\n\n# forward\nx = f(a)\n"
    new = "a = 1\n\nwith region():\n    # forward\n    x = f(a)\n"
    assert line_map(old, new).line[3] == 4


def test_an_error_in_wrapped_code_is_reported_where_the_user_wrote_it() -> None:
    old = "def f(a):\n    b = a + 1\n    c = b / 0\n    return c\n"
    new = "def f(a):\n    b = a + 1\n    if True:\n        c = b / 0\n    return c\n"
    names: dict[str, object] = {}
    exec(compile_rewritten(old, new, "x.py"), names)
    with pytest.raises(ZeroDivisionError) as caught:
        names["f"](1)  # type: ignore[operator]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].lineno == 3


@pytest.mark.parametrize("after", FIXTURES, ids=lambda path: path.parent.name)
def test_every_fixture_compiles_with_lines_of_the_original(after: Path) -> None:
    before, text = (
        decode_source(path.read_bytes()) for path in (after.with_name("before.py"), after)
    )
    code = compile_rewritten(before, text, "x.py", switch=True)
    count = len(before.splitlines()) + 1
    assert all(line is None or line <= count for line in _lines(code))


def _lines(code: object) -> list[int | None]:
    from types import CodeType

    assert isinstance(code, CodeType)
    inner = [
        line
        for constant in code.co_consts
        if isinstance(constant, CodeType)
        for line in _lines(constant)
    ]
    return [line for _, _, line in code.co_lines()] + inner


@pytest.mark.parametrize(
    ("call", "forced"),
    [
        ('GradScaler("cuda", enabled=flag)', "(flag, True)[1]"),
        ('GradScaler("cuda")', "enabled=True"),
        ('GradScaler("cuda", enabled=False)', "enabled=False"),
        ('torch.autocast("cuda", enabled=scaler.is_enabled())', "enabled=scaler.is_enabled()"),
        ('torch.autocast("cuda", torch.half, flag)', "torch.half, (flag, True)[1])"),
        ('torch.autocast("cuda", torch.half)', "torch.half, enabled=True)"),
        ("torch.cuda.amp.autocast(flag)", "autocast((flag, True)[1])"),
        ("torch.cuda.amp.GradScaler(1024.0)", "1024.0, enabled=True)"),
    ],
)
def test_the_switch_is_forced_and_still_evaluated(call: str, forced: str) -> None:
    text = f"import torch\nx = {call}\ny = 1\n"
    tree = ast.parse(text)
    force_switch(tree, line_map("import torch\ny = 1\n", text), True)
    assert forced in ast.unparse(tree)


def test_calls_that_the_user_wrote_are_left_alone() -> None:
    text = "x = GradScaler('cuda', enabled=flag)\n"
    tree = ast.parse(text)
    force_switch(tree, line_map(text, text), True)
    assert ast.unparse(tree) == text.strip()
