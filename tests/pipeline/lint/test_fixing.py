"""Fixes to a fixed point."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amp_migrate import checks
from amp_migrate.checks import Check
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.pipeline import new_findings
from amp_migrate.pipeline.lint import fix_text, lint_text, selection
from amp_migrate.pipeline.lint.fix import fix
from amp_migrate.pipeline.lint.migration import by_migration
from amp_migrate.rewrite.edits import ReplaceExpression, Template
from tests.pipeline.lint.programs import BCE, BROKEN, NEW, OLD, PLAIN

CURRENT = Settings(target_torch=(2, 4))


def test_what_an_older_torch_may_lack_is_unsafe() -> None:
    """Where the project does not say which torch it runs on."""
    assert fix_text(OLD, "train.py", Settings()) == OLD
    assert fix_text(OLD, "train.py", Settings(), unsafe=True) == NEW


def test_safe_fixes_are_applied() -> None:
    done = fix(OLD, "train.py", CURRENT, unsafe=False)
    assert done.text == NEW
    assert [finding.rule for finding in done.applied] == ["deprecated-cuda-amp"]
    assert (done.left, done.linted.findings) == ((), ())


def test_unsafe_fixes_wait_to_be_asked_for() -> None:
    assert fix_text(BCE, "train.py", Settings()) == BCE
    fixed = fix_text(BCE, "train.py", Settings(), unsafe=True)
    assert 'with torch.autocast("cuda", enabled=False):' in fixed
    assert "F.binary_cross_entropy(scores.float(), targets.float())" in fixed
    assert lint_text(fixed, "train.py", Settings()) == []


def test_what_is_not_selected_or_ignored_is_not_fixed() -> None:
    assert fix_text(OLD, "train.py", Settings(ignore=("deprecated-cuda-amp",))) == OLD
    held = OLD.replace("()\n", "()  # amp-migrate: ignore[deprecated-cuda-amp]\n")
    assert fix_text(held, "train.py", Settings()) == held


def test_what_cannot_be_read_stays() -> None:
    assert fix_text(BROKEN, "train.py", Settings()) == BROKEN


def test_an_import_and_all_its_uses() -> None:
    text = (
        "from torch.cuda.amp import GradScaler, autocast\n\na = GradScaler()\nb = "
        "GradScaler(512.0)\n"
    )
    text += "with autocast():\n    pass\n"
    expected = (
        'import torch\nfrom torch.amp import GradScaler, autocast\n\na = GradScaler("cuda")\n'
    )
    expected += (
        'b = GradScaler("cuda", init_scale=512.0)\nwith autocast("cuda", '
        "dtype=torch.float16):\n    pass\n"
    )
    fixed = fix_text(text, "train.py", CURRENT)
    assert sorted(fixed.splitlines()) == sorted(expected.splitlines())
    assert lint_text(fixed, "train.py", Settings()) == []


def test_the_migration_is_a_fix() -> None:
    done = fix(PLAIN, "train.py", Settings(), unsafe=False, migrate=by_migration())
    assert [finding.rule for finding in done.applied] == ["loop-without-amp"]
    assert "scaler.step(optimizer)" in done.text
    assert done.linted.findings == ()


def test_a_loop_that_is_ignored_keeps_the_file_from_migration() -> None:
    again = PLAIN[PLAIN.index("optimizer = ") :].replace(
        "loss.backward()", "loss.backward()  # late"
    )
    held = PLAIN.replace(
        "loss.backward()", "loss.backward()  # amp-migrate: ignore[loop-without-amp] later"
    )
    two = (
        held
        + "\n\ndef again():\n"
        + "".join(f"    {line}\n" for line in again.splitlines())
        + "\n\nagain()\n"
    )
    done = fix(two, "train.py", Settings(), unsafe=False, migrate=by_migration())
    assert [finding.rule for finding in done.linted.findings] == ["loop-without-amp"]
    assert done.text == two
    assert "migrated as a whole" in done.left[0].why


def _rule(name: str, old: str, new: str) -> Check:
    """A rule that replaces the expression written `old`."""
    rule = Rule(name, "info")

    def run(program: Program, settings: Settings) -> Iterator[Finding]:
        for use in program.uses.all():
            node = use.call or use.node
            if program.module.source(node) == old:
                edit = ReplaceExpression(program.module.span(node), Template(new))
                yield finding_at(program, node, rule, "no", fix=Fix("safe", "yes", (edit,)))

    return Check(rule, run)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Puts other rules in the place of all."""

    def put(*rules: Check) -> None:
        for module in (checks, new_findings):
            monkeypatch.setattr(module, "all_checks", lambda: rules)
        selection._selected.cache_clear()
        selection._names.cache_clear()

    yield put
    selection._selected.cache_clear()
    selection._names.cache_clear()


def test_overlapping_fixes_are_resolved_in_rounds(only) -> None:  # type: ignore[no-untyped-def]
    only(
        _rule("a", "torch.autocast('cuda')", "torch.amp.autocast('cuda')"),
        _rule("b", "torch.autocast('cuda')", "torch.one()"),
    )
    done = fix("import torch\n\nx = torch.autocast('cuda')\n", "train.py", Settings(), unsafe=False)
    assert done.text == "import torch\n\nx = torch.amp.autocast('cuda')\n"
    assert [finding.rule for finding in done.applied] == ["a"]


def test_an_overlap_that_stays_is_told(only) -> None:  # type: ignore[no-untyped-def]
    inner = _rule("inner", "torch.autocast('cuda')", "torch.amp.autocast('cuda')")
    only(inner, inner._replace(rule=inner.rule._replace(name="same")))
    done = fix("import torch\n\nx = torch.autocast('cuda')\n", "train.py", Settings(), unsafe=False)
    assert done.text == "import torch\n\nx = torch.amp.autocast('cuda')\n"


def test_a_fix_that_would_break_a_rule_is_not_made(only) -> None:  # type: ignore[no-untyped-def]
    worse = Rule("worse", "error")

    def run(program: Program, settings: Settings) -> Iterator[Finding]:
        for use in program.uses.of("torch.amp.two"):
            yield finding_at(program, use.node, worse, "no")

    only(_rule("a", "torch.autocast()", "torch.amp.two()"), Check(worse, run))
    done = fix("import torch\n\nx = torch.autocast()\n", "train.py", Settings(), unsafe=False)
    assert done.text == "import torch\n\nx = torch.autocast()\n"
    assert [(left.finding.rule, left.why) for left in done.left] == [
        ("a", "the result would break worse in line 3")
    ]


def test_fixes_that_undo_each_other_end(only) -> None:  # type: ignore[no-untyped-def]
    only(
        _rule("a", "torch.autocast(1)", "torch.autocast(2)"),
        _rule("b", "torch.autocast(2)", "torch.autocast(1)"),
    )
    done = fix("import torch\n\nx = torch.autocast(1)\n", "train.py", Settings(), unsafe=False)
    assert done.text in (
        "import torch\n\nx = torch.autocast(1)\n",
        "import torch\n\nx = torch.autocast(2)\n",
    )


def test_a_safe_fix_loses_no_comment() -> None:
    text = "import torch\n\nscaler = torch.cuda.amp.GradScaler(\n    enabled=True,  # always\n)\n"
    done = fix(text, "a.py", CURRENT, unsafe=False)
    assert done.text == text
    assert [one.why for one in done.left] == [
        "it would drop the comment `# always`: fix this by hand, or with --unsafe-fixes"
    ]
    assert fix(text, "a.py", Settings(), unsafe=True).text.endswith(
        'scaler = torch.amp.GradScaler("cuda", enabled=True)\n'
    )


TAIL = """import torch


def train(model, disc, optimizer, scaler, loader, gan):
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
            if gan:
                scaler.scale(disc(x).mean()).backward()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


def test_what_several_findings_move_is_moved_once() -> None:
    done = fix(TAIL, "train.py", Settings(), unsafe=False)
    assert len(done.applied) > 1
    calls = ("scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()")
    assert [done.text.count(call) for call in calls] == [1, 1, 1]
