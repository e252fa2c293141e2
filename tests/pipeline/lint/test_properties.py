"""What holds for every program: fixing twice is fixing once, ignoring silences, positions are
inside the text.
"""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import fix_text, lint_text
from amp_migrate.pipeline.lint.add_ignore import with_ignores

IMPORTS = (
    "import torch as th",
    "from torch.cuda.amp import GradScaler, autocast",
    "from torch.cuda import amp",
    "from torch.amp import custom_fwd as forward_rule",
)
CALLS = (
    "torch.cuda.amp.GradScaler()",
    "torch.cuda.amp.GradScaler(2.0**10, enabled=True)",
    "th.cuda.amp.autocast(True, th.bfloat16)",
    "torch.amp.GradScaler(1024.0)",
    "torch.autocast('cuda', True)",
    "torch.autocast(f'cuda:{0}')",
    "torch.autocast('cuda:1', False)",
    "torch.get_autocast_gpu_dtype()",
    "GradScaler(512.0)",
    "autocast(enabled=False)",
    "amp.autocast()",
    "amp.GradScaler()",
    "forward_rule(cast_inputs=torch.float32)",
    "'ä', torch.cuda.amp.autocast()",
)
TAILS = (
    "",
    "  # why",
    "  # amp-migrate: ignore[deprecated-cuda-amp]",
    "  # amp-migrate: ignore[no-such-rule] ä",
)
LINES = st.tuples(st.sampled_from(CALLS), st.sampled_from(TAILS)).map(
    lambda pair: f"x = {pair[0]}{pair[1]}"
)
NESTED = LINES.map(lambda line: f"def f(x=None):\n    {line}\n    return x")
PROGRAMS = st.tuples(
    st.lists(st.sampled_from(IMPORTS), unique=True),
    st.lists(LINES | NESTED, min_size=1, max_size=6),
    st.sampled_from(("\n", "\r\n")),
).map(
    lambda parts: "\n".join(["import torch", *parts[0], "", *parts[1], ""]).replace("\n", parts[2])
)


@settings(deadline=None, max_examples=60)
@given(PROGRAMS)
def test_fixing_twice_is_fixing_once(text: str) -> None:
    once = fix_text(text, "train.py", Settings(), unsafe=True)
    ast.parse(once)
    assert fix_text(once, "train.py", Settings(), unsafe=True) == once
    assert not [
        one
        for one in lint_text(once, "train.py", Settings())
        if one.fix and one.fix.safety == "safe"
    ]


@settings(deadline=None, max_examples=60)
@given(PROGRAMS)
def test_findings_lie_in_the_text(text: str) -> None:
    lines = text.splitlines()
    for one in lint_text(text, "train.py", Settings()):
        assert 1 <= one.line <= one.end_line <= len(lines)
        assert 1 <= one.column <= len(lines[one.line - 1]) + 1
        assert one.end_column <= len(lines[one.end_line - 1]) + 1
        assert (one.line, one.column) < (one.end_line, one.end_column)


@settings(deadline=None, max_examples=60)
@given(PROGRAMS)
def test_ignore_comments_silence_what_they_are_written_for(text: str) -> None:
    found = lint_text(text, "train.py", Settings(ignore=("unused-ignore",)))
    silenced = with_ignores(text, found)
    assert ast.dump(ast.parse(silenced)) == ast.dump(ast.parse(text))
    assert lint_text(silenced, "train.py", Settings(ignore=("unused-ignore",))) == []
