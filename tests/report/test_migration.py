"""What is told of a migration: everything that changed, and the way out of what was refused."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from amp_migrate.outcome import Change, FileOutcome, LoopOutcome, Note
from amp_migrate.pipeline.annotate import MARK, annotated
from amp_migrate.pipeline.changes import CONSTRUCTS, changes
from amp_migrate.report import migration
from amp_migrate.report.document import document
from amp_migrate.report.summary import summary

FIXTURES = Path(__file__).parents[2] / "fixtures"
PAIRS = sorted(FIXTURES.glob("*/before.py"))


def outcome(path: str, *loops: LoopOutcome, **fields: object) -> FileOutcome:
    status = "migrated" if "changes" in fields else "refused"
    return FileOutcome(path, status, loops, **fields)  # type: ignore[arg-type]


def refused(line: int, scope: str, message: str) -> LoopOutcome:
    return LoopOutcome(line, scope, "refused", "step-with-closure", message)


def lines(
    *outcomes: FileOutcome, written: bool = True, of: int | None = None, verified: bool = False
) -> list[str]:
    return list(map(click.unstyle, summary(outcomes, written, 100, of, verified)))


@pytest.mark.parametrize("before", PAIRS, ids=lambda path: path.parent.name)
def test_every_changed_line_is_told(before: Path) -> None:
    """Near each line that a diff shows there is a change: within the lines that it replaces."""
    old = before.read_bytes().decode("utf-8-sig")
    new = before.with_name("after.py").read_bytes().decode("utf-8-sig")
    told = changes(old, new)
    assert (old == new) == (not told)
    import difflib

    matcher = difflib.SequenceMatcher(None, old.split("\n"), new.split("\n"), False)
    for tag, low, high, start, end in matcher.get_opcodes():
        moved = [line.strip() for line in old.split("\n")[low:high]]
        same = moved == [line.strip() for line in new.split("\n")[start:end]]
        if tag != "equal" and not same:
            assert any(low < one.line <= high + 1 for one in told), (low + 1, high)


@pytest.mark.parametrize("before", PAIRS[::6], ids=lambda path: path.parent.name)
def test_comments_change_no_program(before: Path) -> None:
    import ast

    old = before.read_bytes().decode("utf-8-sig")
    new = before.with_name("after.py").read_bytes().decode("utf-8-sig")
    text = annotated(old, new)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(new))
    if old != new:
        kinds = {one.kind for one in changes(old, new)} - {"other"}
        assert 0 < text.count(MARK) <= len(kinds)


def test_comments_are_short() -> None:
    assert max(len(one.why) for one in CONSTRUCTS) <= 72


def test_what_is_no_construct_is_quoted() -> None:
    assert changes("a = 1\n", "a = 2\n") == (
        Change(1, "other", "`a = 1` became `a = 2`", "the lines around it need it"),
    )
    assert [one.message for one in changes("a\nb\n", "b\n")] == ["`a` was taken out"]
    assert changes("if x:\n    a\n", "if x:\n        a\n") == ()


def test_each_construct_by_its_form() -> None:
    new = "".join(
        f"{line}\n"
        for line in (
            "import torch",
            'scaler = torch.amp.GradScaler("cuda")',
            'with torch.autocast("cuda", dtype=torch.float16):',
            "y = sigmoid(x.float())",
            'with torch.autocast("cuda", enabled=False):',
            "scaler.scale(loss).backward()",
            "scaler.unscale_(optimizer)",
            "scaler.step(optimizer)",
            "scaler.update()",
            "if scaler is None:",
            'state = {"scaler": scaler.state_dict()}',
            "train(model, scaler=scaler)",
        )
    )
    kinds = [one.kind for one in changes("", new)]
    assert kinds == [
        *["import", "scaler", "autocast", "float32", "float32", "scale", "unscale", "step"],
        *["update", "optional scaler", "checkpoint", "argument"],
    ]


def test_a_file_without_a_loop_is_told_as_well() -> None:
    island = Change(7, "float32", "part of it kept in float32", "it would overflow")
    told = lines(outcome("model.py", changes=(island,)))
    assert told[:2] == ["changed   model.py", "          line 7 part of it kept in float32"]
    assert told[-1] == "Changed 1 file (1 file looked at)."
    planned = lines(outcome("model.py", changes=(island,)), written=False)
    assert planned[0] == "planned   model.py"
    assert planned[-1].startswith("Would change 1 file")


def test_equal_refusals_are_one_paragraph() -> None:
    loops = [refused(line, "fit", f"line {line}: it has a closure") for line in range(1, 25)]
    told = lines(outcome("a.py", *loops), outcome("b.py", refused(3, "run", "no loss is in sight")))
    assert told[0] == "refused   24 loops: step-with-closure"
    assert told[1] == "          it has a closure"
    assert sum("it has a closure" in line for line in told) == 1
    assert "a.py:24 in fit" in " ".join(told)
    assert sum("Way out: " in line for line in told) == 1


def test_what_is_left_to_do_is_marked() -> None:
    note = Note(4, 1, "save the scaler's state beside it", kind="to do")
    told = lines(outcome("a.py", changes=(Change(1, "scaler", "made", "why"),), notes=(note,)))
    assert "to do     a.py:4:1" in told


def test_an_interrupted_run_says_so() -> None:
    files = [outcome("a.py", refused(1, "f", "no"))]
    assert "INCOMPLETE: interrupted after 1 of 9 files." in lines(*files, of=9)
    assert "**Incomplete:**" in document(files, True, 9)
    assert json.loads(migration.as_json(files, complete=False))["complete"] is False
    assert "INCOMPLETE" not in "".join(lines(*files))


def test_nothing_of_a_tree_reaches_the_terminal_raw() -> None:
    evil = "x\x1b[2J\u202e"
    told = "\n".join(lines(outcome("a.py", refused(1, evil, evil))))
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_the_document_tells_what_why_and_how_to_check() -> None:
    change = Change(7, "float32", "part of it | kept <in> float32", "it would overflow")
    text = document(
        [
            outcome("model.py", changes=(change,)),
            outcome("a.py", refused(3, "fit", "line 3: it has a closure")),
        ],
        written=True,
    )
    assert "| 7 | part of it \\| kept &lt;in> float32 | it would overflow |" in text
    assert "## How to check" in text
    assert "### `step-with-closure`\n\nit has a closure\n\n- `a.py:3 in fit`\n\nWay out: " in text
    assert "1 of 2 files were changed" in text


@pytest.mark.parametrize("verified", [True, False])
def test_what_verify_has_told_is_not_advised(verified: bool) -> None:
    change = Change(3, "scaler", "gradient scaler made", "")
    loop = LoopOutcome(3, "train", "migrated")
    told = lines(outcome("a.py", loop, changes=(change,)), verified=verified)
    assert any("amp-migrate verify SCRIPT" in line for line in told) != verified
