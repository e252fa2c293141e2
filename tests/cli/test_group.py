"""The group: the default command, lazy commands, the last resort."""

from __future__ import annotations

from pathlib import Path

import pytest

import amp_migrate
from amp_migrate import cli
from tests.cli import stub
from tests.cli.conftest import Run, python


def test_the_default_command(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    for args in ([path], ["migrate", path], ["--output-format", "text", path]):
        path.write_text(stub.LOOP)
        assert run(*args).code == 0
        assert path.read_text() == stub.DONE


def test_help_lists_what_exists(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    assert "migrate" in ran.text
    assert "explain" in ran.text
    assert "amp-migrate --diff PATH..." in ran.text
    for name in cli.COMMANDS:
        there = (Path(cli.__file__).parent / f"{name}.py").exists()
        assert (f"\n  {name} " in ran.text) == there


def test_help_of_the_default_command(run: Run) -> None:
    ran = run("--diff", "--help")
    assert ran.code == 0
    assert "--target-torch" in ran.text


def test_version(run: Run) -> None:
    assert run("--version").text == f"amp-migrate {amp_migrate.__version__}\n"


def test_no_arguments_show_the_help(run: Run) -> None:
    ran = run()
    assert ran.code == 2
    assert "Commands:" in ran.text + ran.err


def test_a_mistyped_command_is_a_missing_path_with_a_hint(run: Run) -> None:
    ran = run("explian")
    assert ran.code == 2
    assert "'explian' is not there" in ran.err
    assert "Did you mean the command 'explain'?" in ran.err


def test_internal_error(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr("amp_migrate.cli.migrate.rewrite_all", broken)
    ran = run(tmp_path)
    assert ran.code == 2
    assert "ZeroDivisionError: deep inside" in ran.err
    assert "Please report it" in ran.err


def test_interrupt_before_anything(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("amp_migrate.cli.migrate.discover", interrupted)
    ran = run(tmp_path)
    assert ran.code == 130
    assert "interrupted" in ran.err


HEAVY = {
    "torch",
    "libcst",
    "rich",
    "pathspec",
    "multiprocessing",
    "concurrent.futures",
    "ast",
    "tomllib",
    "tomli",
}


@pytest.mark.parametrize("args", [["--help"], ["plain.py"]])
def test_start_imports_nothing_heavy(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('no loop')\n")
    code = (
        "import sys; import click; before = set(sys.modules); from amp_migrate.cli import main; "
        f"code = main({args!r}); print(code, *(set(sys.modules) - before), file=sys.stderr)"
    )
    done = python("-c", code, cwd=tmp_path)
    status, *modules = done.stderr.split()
    assert status == "0"
    assert "amp_migrate.cli" in modules
    assert HEAVY.isdisjoint(modules)


def test_module_entry_point(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("loss.backward(\n")
    done = python("-m", "amp_migrate", "bad.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "bad.py" in done.stdout


def test_the_program_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    """Much is printed into a pipe, and the process has a tree to free that nobody needs."""
    (tmp_path / "bad.py").write_text(
        "import torch\n" + "scaler = torch.cuda.amp.GradScaler()\n" * 400
    )
    code = (
        "import sys; from amp_migrate.cli import console\n"
        "class Tree:\n    def __del__(self): print('freed')\n"
        "kept = Tree(); sys.argv[1:] = ['lint', 'bad.py']; console()"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.count("bad.py:") >= 400
    assert "freed" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("400 findings")


def test_a_program_that_is_run_has_its_own_end(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import atexit\natexit.register(print, 'the end')\n")
    done = python("-m", "amp_migrate", "run", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "the end\n")
