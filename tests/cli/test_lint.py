"""`amp-migrate lint`: what it prints, writes and returns."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import amp_migrate
from amp_migrate import checks
from amp_migrate.cli import main
from amp_migrate.pipeline.lint import batch, engine
from amp_migrate.pipeline.lint.files import Options, Report
from amp_migrate.pipeline.lint.tree import Task
from amp_migrate.report.findings import FORMATS
from tests.cli.conftest import Ran, python
from tests.pipeline.lint.programs import BCE, BROKEN, NEW, OLD, PLAIN

Lint = Callable[..., Ran]
Write = Callable[..., Path]


@pytest.fixture
def lint(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Lint:
    """`lint("--fix", path)`, from the folder `tmp_path`, a project of today's torch."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")

    def run(*args: object) -> Ran:
        code = main(["lint", *(str(arg) for arg in args)])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ran(code, out, err.decode())

    return run


@pytest.fixture
def tree(write: Write, tmp_path: Path) -> Path:
    write("a/old.py", OLD)
    write("a/clean.py", NEW)
    write("b/bce.py", BCE)
    write("b/broken.py", BROKEN)
    write("b/other.py", "print()\n")
    return tmp_path


def rules(ran: Ran) -> list[tuple[str, str, int]]:
    return [(one["path"], one["rule"], one["line"]) for one in json.loads(ran.out)]


FOUND = [
    ("a/old.py", "deprecated-cuda-amp", 3),
    ("b/bce.py", "bce-under-autocast", 7),
    ("b/broken.py", "syntax", 3),
]


def test_a_finding_per_bad_file_and_the_rest_linted(lint: Lint, tree: Path) -> None:
    ran = lint(".", "--output-format", "json")
    assert ran.code == 1
    assert rules(ran) == FOUND
    assert ran.err == (
        "3 findings in 3 files (5 files looked at). 1 can be fixed with --fix, 1 with "
        "--unsafe-fixes.\n"
    )


def test_text_is_the_default(lint: Lint, tree: Path) -> None:
    ran = lint(".")
    assert ran.text.startswith("a/old.py:3:10: info deprecated-cuda-amp: ")
    assert "3 | scaler = torch.cuda.amp.GradScaler()\n" in ran.text
    assert ran.text.splitlines()[-1].startswith("3 findings in 3 files")
    assert (ran.err, "\x1b" in ran.text) == ("", False)


def test_nothing_found(lint: Lint, write: Write) -> None:
    write("a.py", NEW)
    ran = lint("a.py")
    assert (ran.code, ran.text, ran.err) == (0, "Nothing found in 1 file.\n", "")


def test_quiet(lint: Lint, tree: Path) -> None:
    ran = lint("-q", ".", "--output-format", "concise")
    assert (ran.code, len(ran.text.splitlines()), ran.err) == (1, 3, "")
    assert lint("-q", "a/clean.py").out == b""


def test_exit_zero(lint: Lint, tree: Path) -> None:
    assert lint(".", "--exit-zero").code == 0


def test_fix_writes_and_leaves_the_rest(lint: Lint, tree: Path) -> None:
    ran = lint(".", "--fix", "--output-format", "json")
    assert ran.code == 1
    assert rules(ran) == FOUND[1:]
    assert ran.err.startswith("Fixed 1, 2 findings in 2 files")
    assert (tree / "a/old.py").read_text() == NEW
    assert (tree / "b/bce.py").read_text() == BCE
    assert lint("a", "--fix").code == 0


def test_unsafe_fixes(lint: Lint, tree: Path) -> None:
    assert lint("b/bce.py", "--unsafe-fixes").code == 0
    assert "enabled=False" in (tree / "b/bce.py").read_text()


def test_diff_changes_nothing(lint: Lint, tree: Path) -> None:
    ran = lint("a", "--diff", "--target-torch", "2.4")
    assert ran.code == 1
    assert ran.text.splitlines()[:2] == ["--- a/a/old.py", "+++ b/a/old.py"]
    assert '+scaler = torch.amp.GradScaler("cuda")' in ran.text
    assert (tree / "a/old.py").read_text() == OLD
    assert lint("a/clean.py", "--diff").code == 0


def test_fixes_keep_encoding_and_line_ends(lint: Lint, tmp_path: Path) -> None:
    before = (
        b"\xef\xbb\xbf# \xc3\xa4\r\nimport torch\r\n\r\nscaler = torch.cuda.amp.GradScaler()\r\n"
    )
    (tmp_path / "a.py").write_bytes(before)
    assert lint("a.py", "--fix").code == 0
    assert (tmp_path / "a.py").read_bytes() == before.replace(
        b"torch.cuda.amp.GradScaler()", b'torch.amp.GradScaler("cuda")'
    )


def test_the_migration_is_a_fix(lint: Lint, write: Write) -> None:
    path = write("train.py", PLAIN)
    assert lint("train.py", "--fix").code == 0
    assert "scaler.step(optimizer)" in path.read_text()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--select", "syntax"], FOUND[2:]),
        (["--select", "syntax,bce-under-autocast"], FOUND[1:]),
        (["--select", "syntax", "--select", "bce-under-autocast"], FOUND[1:]),
        (["--select", "syntax", "--extend-select", "deprecated-cuda-amp"], [FOUND[0], FOUND[2]]),
        (["--ignore", "syntax"], FOUND[:2]),
        (["--select", "ALL", "--ignore", "syntax,scaler-without-autocast"], FOUND[:2]),
        (["--target-torch", "2.0"], [FOUND[1], FOUND[2], ("a/clean.py", "wrong-amp-path", 3)]),
    ],
)
def test_selection(
    lint: Lint, tree: Path, args: list[str], expected: list[tuple[str, str, int]]
) -> None:
    assert rules(lint(".", "--output-format", "json", *args)) == sorted(expected)


def test_settings_file(lint: Lint, tree: Path) -> None:
    (tree / "pyproject.toml").write_text(
        '[tool.amp-migrate]\nignore = ["syntax"]\nper-file-ignores = { "b/" = ["ALL"] }\n'
    )
    assert rules(lint("a", "b", "--output-format", "json")) == FOUND[:1]


def test_per_file_ignores_are_relative_to_the_settings_file(
    lint: Lint, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "pyproject.toml").write_text(
        '[tool.amp-migrate]\nper-file-ignores = { "a/old.py" = ["deprecated-cuda-amp"] }\n'
    )
    monkeypatch.chdir(tree / "a")
    assert lint("old.py").code == 0


@pytest.mark.parametrize(
    "args", [["--select", "no-such-rule"], ["--ignore", "clip-without-unscal"]]
)
def test_unknown_rules_are_wrong_usage(lint: Lint, tree: Path, args: list[str]) -> None:
    ran = lint(".", *args)
    assert ran.code == 2
    assert f"there is no rule {args[1]!r}" in ran.err


def test_unknown_rules_in_the_settings_file(lint: Lint, tree: Path) -> None:
    (tree / "pyproject.toml").write_text(
        '[tool.amp-migrate]\nper-file-ignores = { "b/" = ["nope"] }\n'
    )
    assert "there is no rule 'nope'" in lint(".").err


def test_the_nearest_requirements_decide(lint: Lint, tree: Path) -> None:
    (tree / "a" / "requirements.txt").write_text("torch>=1.13\n")
    found = rules(lint("a", "--output-format", "json"))
    assert found == [("a/clean.py", "wrong-amp-path", 3)]


def test_output_file(lint: Lint, tree: Path) -> None:
    ran = lint(".", "--output-format", "sarif", "--output-file", "out.sarif")
    assert (ran.code, ran.out) == (1, b"")
    assert len(json.loads((tree / "out.sarif").read_text())["runs"][0]["results"]) == 3
    assert lint(".", "--output-file", "no/such/folder").code == 2


def test_statistics(lint: Lint, tree: Path) -> None:
    ran = lint(".", "--statistics", "-q")
    assert ran.text.splitlines() == [
        "1  [ ] bce-under-autocast",
        "1  [*] deprecated-cuda-amp",
        "1  [ ] syntax",
    ]


def test_baseline(lint: Lint, tree: Path) -> None:
    ran = lint(".", "--write-baseline", "known.json")
    assert (ran.code, ran.out) == (0, b"")
    assert lint(".", "--baseline", "known.json").code == 0
    (tree / "a/old.py").write_text("# moved\n\n" + OLD + "second = torch.cuda.amp.GradScaler()\n")
    ran = lint(".", "--baseline", "known.json", "--output-format", "json")
    assert rules(ran) == [("a/old.py", "deprecated-cuda-amp", 6)]
    assert "3" not in {
        str(one.get("line")) for one in json.loads((tree / "known.json").read_text())["findings"]
    }


def test_a_baseline_counts(lint: Lint, write: Write) -> None:
    write("a.py", OLD)
    lint(".", "--write-baseline", "known.json")
    write("a.py", OLD + OLD)
    assert len(rules(lint(".", "--baseline", "known.json", "--output-format", "json"))) == 1


@pytest.mark.parametrize("content", [None, "no json", "[]", '{"findings": [{"rule": "syntax"}]}'])
def test_a_baseline_that_cannot_be_used(lint: Lint, tree: Path, content: str | None) -> None:
    if content is not None:
        (tree / "known.json").write_text(content)
    ran = lint(".", "--baseline", "known.json")
    assert ran.code == 2
    assert "--write-baseline known.json" in ran.err


def test_add_ignore(lint: Lint, write: Write) -> None:
    twice = (
        "import torch\n\nx = torch.cuda.amp.GradScaler(), torch.GradScaler(2.0)  # why\ny = "
        "[\n    torch.cuda.amp.GradScaler(\n"
    )
    twice += (
        '    ),\n]\nz = """\n{}""", torch.cuda.amp.GradScaler()\nv = '
        'torch.cuda.amp.GradScaler(), """\n"""\n'
    )
    path = write("a.py", twice)
    assert lint("a.py", "--add-ignore").code == 0
    assert lint("a.py").code == 0
    text = path.read_text()
    assert (
        "# why  # amp-migrate: ignore[deprecated-cuda-amp, positional-args-in-GradScaler]\n" in text
    )
    assert "\n# amp-migrate: ignore[deprecated-cuda-amp]\nv = " in text
    lint("a.py", "--add-ignore")
    assert path.read_text() == text


def test_add_ignore_joins_a_comment_that_is_there(lint: Lint, write: Write) -> None:
    path = write(
        "a.py",
        (
            "import torch\n\n"
            "x = torch.cuda.amp.GradScaler(), torch.GradScaler(2.0)  # amp-migrate: "
            "ignore[deprecated-cuda-amp]\n"
        ),
    )
    assert lint("a.py", "--add-ignore").code == 0
    assert path.read_text().endswith(
        "# amp-migrate: ignore[deprecated-cuda-amp, positional-args-in-GradScaler]\n"
    )


@pytest.fixture
def halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C arrives when the first file is done."""
    real, done = batch.lint_task, []

    def task(task: Task, options: Options) -> tuple[Report, ...]:
        if done:
            raise KeyboardInterrupt
        done.append(task)
        return real(task, options)

    monkeypatch.setattr(batch, "lint_task", task)


@pytest.mark.usefixtures("halfway")
@pytest.mark.parametrize("form", ["text", "concise"])
def test_an_interrupted_run_tells_what_it_found(lint: Lint, write: Write, form: str) -> None:
    write("a.py", OLD + "# the longest is the first\n")
    write("b.py", OLD)
    ran = lint("--output-format", form, ".")
    assert ran.code == 130
    assert "a.py:" in ran.text
    assert "b.py:" not in ran.text
    assert "interrupted; 1 of 2 files were looked at.\n" in ran.err


@pytest.mark.usefixtures("halfway")
@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("text", "concise")])
def test_an_interrupted_run_reports_nothing_to_programs(
    lint: Lint, write: Write, form: str
) -> None:
    write("a.py", OLD)
    write("b.py", OLD)
    ran = lint("--output-format", form, ".")
    assert (ran.code, ran.out) == (130, b"")
    assert "no report is written, since it would be incomplete" in ran.err


@pytest.mark.usefixtures("halfway")
def test_an_interrupted_run_keeps_the_fixes_that_were_done(lint: Lint, write: Write) -> None:
    first, second = write("a.py", OLD + "# the longest is the first\n"), write("b.py", OLD)
    assert lint("--fix", ".").code == 130
    assert first.read_text() != OLD + "# the longest is the first\n"
    assert second.read_text() == OLD


@pytest.mark.usefixtures("halfway")
def test_an_interrupted_run_writes_no_baseline(lint: Lint, write: Write, tmp_path: Path) -> None:
    write("a.py", OLD)
    write("b.py", OLD)
    assert lint("--write-baseline", "known.json", ".").code == 130
    assert not (tmp_path / "known.json").exists()


def _stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_standard_input(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, OLD)
    ran = lint("-", "--stdin-filename", "src/a.py", "--output-format", "json")
    assert (ran.code, rules(ran)) == (1, [("src/a.py", "deprecated-cuda-amp", 3)])


def test_standard_input_fixed(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, OLD + BCE)
    ran = lint("-", "--fix")
    assert (ran.code, ran.text) == (1, NEW + BCE)
    assert "bce-under-autocast" in ran.err


@pytest.mark.parametrize(
    "args",
    [["--add-ignore", "--fix", "."], ["--add-ignore", "-"], ["--output-format", "xml", "."], []],
)
def test_wrong_usage(lint: Lint, tree: Path, args: list[str]) -> None:
    assert lint(*args).code == 2


def test_a_rule_that_fails_is_told(lint: Lint, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no such luck")

    check = next(check for check in checks.all_checks() if check.rule.name == "bce-under-autocast")
    monkeypatch.setattr(
        engine, "run", lambda one, *rest: fail() if one is check else original(one, *rest)
    )
    ran = lint("a", "b", "--output-format", "json")
    assert ran.code == 2
    assert "the engine failed on this file" in ran.err


original = engine.run


def test_workers_find_the_same_in_the_same_order(tmp_path: Path) -> None:
    for number in range(40):
        text = [OLD, BCE, BROKEN, NEW][number % 4] + "\n# filler" * 2_000 * (number % 3 + 1)
        (tmp_path / f"m{number:02}.py").write_text(text)
    script = (
        "import sys\nfrom amp_migrate.cli import main\n"
        "from amp_migrate.pipeline import workers as parallel\n"
        "if __name__ == '__main__':\n"
        "    count = int(sys.argv[1])\n"
        "    parallel.workers_for = lambda *_: count\n"
        "    sys.exit(main(['lint', '.', '--output-format', 'json', '-q']))\n"
    )
    file = tmp_path.parent / "run_lint.py"
    file.write_text(script)
    one, two = (python(file, count, cwd=tmp_path) for count in (0, 2))
    assert (one.stderr, two.stderr) == ("", "")
    assert one.stdout == two.stdout
    assert len(json.loads(one.stdout)) == 30


def test_a_hook_starts_fast(tmp_path: Path) -> None:
    """No module that takes long to import is needed for a file without findings."""
    (tmp_path / "a.py").write_text(NEW)
    code = (
        "import sys; from amp_migrate.cli import main; main(['lint', 'a.py']); print(*sys.modules)"
    )
    root = Path(amp_migrate.__file__).parent.parent
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ran.stdout.split())
    assert loaded.isdisjoint(
        {"torch", "libcst", "rich", "pathspec", "multiprocessing", "json", "difflib"}
    )


def test_files_that_hide_their_words_are_told(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes("import torch\nloss.backward()\n".encode("utf-16"))
    (tmp_path / "b.ipynb").write_bytes(b'{"cells": [1, 2], "nbformat": 4}')
    (tmp_path / "c.ipynb").write_bytes(b'{"cells": [], "nbformat": 4, "metadata": {}}')
    (tmp_path / "d.py").write_bytes(b"")
    ran = lint(".", "--output-format", "json")
    assert ran.code == 1
    assert [(path, rule) for path, rule, _ in rules(ran)] == [
        ("a.py", "syntax"),
        ("b.ipynb", "syntax"),
    ]
