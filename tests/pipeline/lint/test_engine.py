"""One module through the rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amp_migrate import checks
from amp_migrate.checks import Check
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.pipeline.lint import lint_text, new_errors
from amp_migrate.pipeline.lint.engine import lint
from tests.pipeline.lint.programs import BCE, BROKEN, NEW, OLD, PLAIN


def found(text: str, settings: Settings | None = None) -> list[tuple[str, int]]:
    return [
        (finding.rule, finding.line)
        for finding in lint_text(text, "train.py", settings or Settings())
    ]


def test_a_finding_says_where() -> None:
    (finding,) = lint_text(OLD, "a/train.py", Settings())
    assert (finding.path, finding.line, finding.column) == ("a/train.py", 3, 10)
    assert (finding.end_line, finding.end_column) == (
        3,
        len("scaler = torch.cuda.amp.GradScaler()") + 1,
    )
    assert (finding.severity, finding.scope) == ("info", "<module>")


def test_columns_count_characters() -> None:
    (finding,) = lint_text(
        'import torch\n\nx = "äö", torch.cuda.amp.GradScaler()\n', "train.py", Settings()
    )
    assert (finding.column, finding.end_column) == (11, 38)


def test_findings_are_in_source_order() -> None:
    text = OLD + "other = torch.cuda.amp.GradScaler(), torch.GradScaler(1.0)\n"
    assert found(text) == [
        ("deprecated-cuda-amp", 3),
        ("deprecated-cuda-amp", 4),
        ("positional-args-in-GradScaler", 4),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BROKEN, 3),
        ("x = 1\0\n", 1),
        ("x = " + "(" * 500 + ")" * 500 + "\n", 1),
        ("scaler = " + "-" * 100_000 + "1\n", 1),
    ],
)
def test_what_cannot_be_read_is_a_finding(text: str, line: int) -> None:
    ((rule, at),) = found(text)
    assert (rule, at) == ("syntax", line)


def test_selection() -> None:
    text = OLD + "print(torch.get_autocast_gpu_dtype())\n"
    both = [("deprecated-cuda-amp", 3), ("deprecated-state-getters", 4)]
    assert found(text) == both
    assert found(text, Settings(select=("deprecated-cuda-amp",))) == both[:1]
    assert found(text, Settings(select=("DEPRECATED-cuda-AMP",))) == both[:1]
    assert found(text, Settings(ignore=("deprecated-cuda-amp",))) == both[1:]
    assert found(text, Settings(select=("ALL",), ignore=("deprecated-cuda-amp",))) == both[1:]
    assert (
        found(text, Settings(select=("syntax",), extend_select=("deprecated-cuda-amp",)))
        == both[:1]
    )
    assert found(text, Settings(select=("ALL",), ignore=("ALL",))) == []


def test_rules_that_are_off_until_selected() -> None:
    text = (
        "import torch\n\n\ndef run(model, x, kind):\n    with torch.autocast(kind):\n        "
        "return model(x)\n"
    )
    assert found(text) == []
    assert found(text, Settings(extend_select=("cpu-default-dtype",))) == [("cpu-default-dtype", 5)]
    assert ("cpu-default-dtype", 5) in found(text, Settings(select=("ALL",)))


@pytest.mark.parametrize(
    ("pattern", "path", "silent"),
    [
        ("tests/", "tests/a.py", True),
        ("tests/**/*.py", "tests/deep/a.py", True),
        ("*.py", "a.py", True),
        ("old_*.py", "src/old_a.py", True),
        ("tests/", "src/a.py", False),
    ],
)
def test_per_file_ignores(pattern: str, path: str, silent: bool) -> None:
    settings = Settings(per_file_ignores=((pattern, ("deprecated-cuda-amp",)),))
    assert (lint_text(OLD, path, settings) == []) is silent


def test_the_oldest_torch_decides() -> None:
    assert found(OLD, Settings(target_torch=(2, 0))) == []
    assert found(OLD, Settings(target_torch=(2, 4))) == [("deprecated-cuda-amp", 3)]
    assert found(NEW, Settings(target_torch=(2, 0))) == [("wrong-amp-path", 3)]
    assert found(NEW, Settings(target_torch=(2, 3))) == []


def test_rule_bounds() -> None:
    young, old = Rule("a", "info", since=(2, 4)), Rule("b", "info", until=(1, 13))
    assert [young.applies(version) for version in [(2, 3), (2, 4), None]] == [False, True, True]
    assert [old.applies(version) for version in [(1, 13), (2, 0), None]] == [True, False, False]


def _failing(program: Program, settings: Settings) -> Iterator[Finding]:
    yield Finding("syntax", "seen before", "error", "", 1, 1, 1, 1)
    raise ZeroDivisionError("no such luck")


def test_a_crash_costs_one_rule_on_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    every = (*checks.all_checks(), Check(Rule("failing", "error"), _failing))
    monkeypatch.setattr(checks, "all_checks", lambda: every)
    from amp_migrate.pipeline.lint import selection

    selection._selected.cache_clear()
    selection._names.cache_clear()
    try:
        linted = lint(OLD, "train.py", Settings())
        with pytest.raises(RuntimeError, match=r"train\.py: the rule failing failed"):
            lint_text(OLD, "train.py", Settings())
    finally:
        selection._selected.cache_clear()
        selection._names.cache_clear()
    assert [finding.rule for finding in linted.findings] == ["deprecated-cuda-amp"]
    (crash,) = linted.crashes
    assert (crash.rule, crash.path) == ("failing", "train.py")
    assert "no such luck" in crash.trace


def test_new_errors() -> None:
    assert [(one.rule, one.line) for one in new_errors(PLAIN, BCE, "a.py", Settings())] == [
        ("bce-under-autocast", 7)
    ]
    assert new_errors(BCE, "\n\n" + BCE, "a.py", Settings()) == []
    assert new_errors(NEW, OLD, "a.py", Settings()) == []  # no error: it is deprecated
    twice = BCE.replace(
        "        return", "        F.binary_cross_entropy(scores, targets)\n        return"
    )
    assert len(new_errors(BCE, twice, "a.py", Settings())) == 1
    assert len(new_errors(PLAIN, BCE, "a.py", Settings(ignore=("ALL",)))) == 1
    assert new_errors(PLAIN, BROKEN, "a.py", Settings()) == []


def test_what_does_not_parse_is_told_whatever_is_selected() -> None:
    chosen = Settings(select=("clip-without-unscale",))
    assert [one.rule for one in lint_text(BROKEN, "a.py", chosen)] == ["syntax"]
    assert (
        lint_text(BROKEN, "a.py", Settings(select=("clip-without-unscale",), ignore=("syntax",)))
        == []
    )


@pytest.mark.parametrize(
    ("path", "select", "told"),
    [
        ("train.py", (), True),
        ("latest/train.py", (), True),
        ("tests/train.py", (), False),
        ("pkg/test/train.py", (), False),
        ("pkg/test_train.py", (), False),
        ("tests/train.py", ("loop-without-amp",), True),
    ],
)
def test_loops_in_tests_are_left_alone(path: str, select: tuple[str, ...], told: bool) -> None:
    linted = lint(PLAIN, path, Settings(select=select), path)
    assert ("loop-without-amp" in {one.rule for one in linted.findings}) is told


def test_a_plain_backward_in_float16_names_the_scaler_that_nothing_uses() -> None:
    text = (
        "import torch\n\n\ndef train(model, optimizer, loader):\n"
        '    scaler = torch.amp.GradScaler("cuda")\n    for x in loader:\n'
        '        optimizer.zero_grad()\n        with torch.autocast("cuda", dtype=torch.float16):\n'
        "            loss = model(x).mean()\n        loss.backward()\n        optimizer.step()\n"
    )
    (finding,) = lint_text(text, "train.py", Settings())
    assert finding.rule == "fp16-without-scaler"
    assert (5, 14, "a scaler that nothing uses") in finding.related
