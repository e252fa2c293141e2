"""`amp-migrate [migrate]`: what it writes, prints and returns."""

from __future__ import annotations

import io
import json
import os
import platform
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from amp_migrate import regular_files
from amp_migrate.pipeline import atomic_write as replace
from amp_migrate.pipeline import batch
from tests.cli import stub
from tests.cli.conftest import Run

Write = Callable[..., Path]


@pytest.fixture
def tree(write: Write, tmp_path: Path) -> Path:
    """One file of each kind."""
    write("b/loop.py", stub.LOOP)
    write("b/refused.py", stub.REFUSED)
    write("a/skipped.py", stub.SKIPPED)
    write("a/plain.py", "print()\n")
    write("c/broken.py", "x = 1\nloss.backward(\n")
    return tmp_path


def test_rewrites_in_place_and_tells(run: Run, tree: Path) -> None:
    ran = run(".")
    assert ran.code == 1  # a file failed
    assert (tree / "b/loop.py").read_text() == stub.DONE
    lines = ran.text.splitlines()
    assert lines[:3] == [
        "migrated  b/loop.py:2 in <module>",
        "          line 2 loss scaled before backward",
        "failed    c/broken.py:2:14",
    ]
    at = lines.index("refused   b/refused.py:2 in fit: step-with-closure")
    assert lines[at + 1].startswith("          the closure would run")
    way = lines.index(
        "          Way out: Use `--dtype bfloat16`: it has float32's range, so it needs no scaler, "
        "and the"
    )
    skipped = lines.index("skipped   a/skipped.py:1 in <module>: no-optimizer")
    assert at < way < skipped
    assert (
        "Migrated 1 loop in 1 file, refused 1 loop, skipped 1 loop, 1 file failed (5 files "
        "looked at)." in lines
    )
    assert lines[-1].startswith("`amp-migrate explain step-with-closure` tells why")
    assert "\x1b" not in ran.text


def test_second_run_changes_nothing(run: Run, write: Write) -> None:
    path = write("a.py", stub.LOOP)
    run(".")
    before = path.stat()
    ran = run(".")
    assert ran.code == 0
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert "Skipped 1 loop (1 file looked at)." in ran.text


def test_nothing_to_do(run: Run, write: Write, tmp_path: Path) -> None:
    assert run(".").text == "No Python files found.\n"
    write("a.py", "x = 1\n")
    ran = run(".")
    assert (ran.code, ran.text) == (0, "No plain training loop found (1 file looked at).\n")


def test_check(run: Run, tree: Path) -> None:
    (tree / "c/broken.py").unlink()
    ran = run("--check", ".")
    assert ran.code == 1
    assert "Would migrate 1 loop in 1 file" in ran.text
    assert (tree / "b/loop.py").read_text() == stub.LOOP
    assert run("--check", "a").code == 0


def test_diff_is_a_patch(run: Run, write: Write, tmp_path: Path) -> None:
    sources = {
        "lf.py": b"a = '\x0c'\n" + stub.LOOP.encode(),
        "crlf.py": stub.LOOP.replace("\n", "\r\n").encode(),
        "no_end.py": stub.LOOP.rstrip().encode(),
        "latin.py": b"# coding: latin-1\n# \xe9\n" + stub.LOOP.encode(),
        "mark.py": b"\xef\xbb\xbf" + stub.LOOP.encode(),
        'a folder/of "mine"/\xe9.py': stub.LOOP.encode(),
        "a folder/b.py": stub.LOOP.encode(),
    }
    paths = [write(name, data) for name, data in sources.items()]
    ran = run("--diff", ".")
    assert ran.code == 0
    assert [path.read_bytes() for path in paths] == list(sources.values())
    assert ran.out.count(b"+    scaler.scale(loss).backward()") == len(sources)
    assert "Would migrate 7 loops in 7 files" in ran.err
    (tmp_path / "p.diff").write_bytes(ran.out)
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    for path, before in zip(paths, sources.values(), strict=True):
        assert path.read_bytes() == before.replace(
            b"loss.backward()", b"scaler.scale(loss).backward()"
        )


def test_bytes_outside_the_edit_stay(run: Run, write: Write) -> None:
    for data in (
        b"\xef\xbb\xbf" + stub.LOOP.replace("\n", "\r\n").encode(),
        b"# coding: latin-1\n# \xe9\r\n" + stub.LOOP.encode(),
        b"if x:\n\tpass\r\n" + stub.LOOP.rstrip().encode(),
    ):
        path = write("a.py", data)
        assert run(path).code == 0
        assert path.read_bytes() == data.replace(
            b"loss.backward()", b"scaler.scale(loss).backward()"
        )


def test_links_and_modes_stay(run: Run, write: Write, tmp_path: Path) -> None:
    path = write("a.py", stub.LOOP)
    path.chmod(0o755)
    (tmp_path / "link.py").symlink_to("a.py")
    ran = run("link.py", "a.py", ".")
    assert "(1 file looked at)" in ran.text
    assert os.readlink(tmp_path / "link.py") == "a.py"
    assert path.read_text() == stub.DONE
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


SCHEMA = {
    "type": "object",
    "required": ["version", "complete", "files", "summary"],
    "additionalProperties": False,
    "properties": {
        "version": {"const": 1},
        "complete": {"type": "boolean"},
        "summary": {"type": "object"},
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "status", "loops"],
                "additionalProperties": False,
                "properties": {
                    "path": {"type": "string"},
                    "status": {"enum": ["migrated", "unchanged", "refused", "failed"]},
                    "error": {"type": "string"},
                    "notes": {"type": "array"},
                    "changes": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["line", "kind", "message", "why"],
                            "additionalProperties": False,
                            "properties": {
                                "cell": {"type": "integer", "minimum": 1},
                                "line": {"type": "integer", "minimum": 1},
                                **{key: {"type": "string"} for key in ("kind", "message", "why")},
                            },
                        },
                    },
                    "loops": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["line", "scope", "status", "reason", "message"],
                            "additionalProperties": False,
                            "properties": {
                                "line": {"type": "integer", "minimum": 1},
                                "scope": {"type": "string"},
                                "status": {"enum": ["migrated", "refused", "skipped"]},
                                "reason": {"type": ["string", "null"]},
                                "message": {"type": ["string", "null"]},
                            },
                        },
                    },
                },
            },
        },
    },
}


def test_json(run: Run, tree: Path) -> None:
    ran = run("--check", "--output-format", "json", ".")
    report = json.loads(ran.out)
    jsonschema.validate(report, SCHEMA)
    assert [(one["path"], one["status"]) for one in report["files"]] == [
        ("a/plain.py", "unchanged"),
        ("a/skipped.py", "unchanged"),
        ("b/loop.py", "migrated"),
        ("b/refused.py", "refused"),
        ("c/broken.py", "failed"),
    ]
    refused = report["files"][3]["loops"][0]
    assert (refused["line"], refused["scope"], refused["reason"]) == (2, "fit", "step-with-closure")
    assert report["summary"] == {
        "files": {"migrated": 1, "unchanged": 2, "refused": 1, "failed": 1},
        "loops": {"migrated": 1, "refused": 1, "skipped": 1},
    }
    assert "error" not in report["files"][0]
    assert ran.code == 1


def test_notes(run: Run, write: Write) -> None:
    write("a.py", "isnan\n" + stub.LOOP)
    assert (
        "note      a.py:2:5\n          an infinite loss now ends the run\n"
        in run("--check", "a.py").text
    )
    report = json.loads(run("--output-format=json", "a.py").out)
    assert report["files"][0]["notes"] == [
        {"line": 2, "column": 5, "message": "an infinite loss now ends the run", "kind": "note"}
    ]


def test_strict(run: Run, write: Write) -> None:
    path = write("a.py", stub.REFUSED)
    assert run(path).code == 0
    assert run("--strict", path).code == 1
    write("pyproject.toml", "[tool.amp-migrate]\nstrict = true\n")
    assert run(path).code == 1


def test_settings_from_file_and_flags(run: Run, write: Write) -> None:
    write("pyproject.toml", '[tool.amp-migrate]\ndtype = "bfloat16"\nexclude = ["/legacy"]\n')
    path = write("pkg/a.py", stub.LOOP)
    old = write("legacy/b.py", stub.LOOP)
    write("pkg/c.py", stub.LOOP)
    ran = run("--exclude", "c.py", "pkg", "legacy")
    assert "(1 file looked at)" in ran.text
    assert path.read_text().endswith("# bf16\n")
    assert old.read_text() == stub.LOOP
    path.write_text(stub.LOOP)
    run("--dtype", "float16", path)
    assert path.read_text() == stub.DONE


@pytest.mark.parametrize(
    ("toml", "part"),
    [
        ('dtype = "float8"', "dtype: must be one of"),
        ("target-torch = 2.0", 'target-torch: must be a version like "2.4"'),
        ("dtyp = 1", "dtyp: no such setting; did you mean dtype?"),
        ("dtype = ", "line 2, column 9"),
    ],
)
def test_bad_settings_name_file_and_key(run: Run, write: Write, toml: str, part: str) -> None:
    write("pyproject.toml", f"[tool.amp-migrate]\n{toml}\n")
    path = write("a.py", stub.LOOP)
    ran = run(path)
    assert ran.code == 2
    assert "pyproject.toml: " in ran.err
    assert part in " ".join(ran.err.split())
    assert path.read_text() == stub.LOOP


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["nowhere"], "'nowhere' is not there"),
        (["a.py", "nowhere"], "'nowhere' is not there"),
        (["-", "a.py"], "cannot be joined"),
        (["--diff", "--output-format", "json", "a.py"], "--diff prints text"),
        (["--output-format", "json", "-"], "add --check"),
        (["--dtype", "float8", "a.py"], "float8"),
        (["--target-torch", "two", "a.py"], "must be a version"),
        (["--target-torch", "1.5", "a.py"], "no automatic mixed precision"),
        (["--frobnicate", "a.py"], "--frobnicate"),
        (["--check"], "PATH"),
    ],
)
def test_wrong_usage(run: Run, write: Write, args: list[str], part: str) -> None:
    path = write("a.py", stub.LOOP)
    ran = run(*args)
    assert ran.code == 2
    assert part in " ".join(ran.err.split())
    assert path.read_text() == stub.LOOP


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("data", "output"),
    [
        (b"\xef\xbb\xbf" + stub.LOOP.encode(), b"\xef\xbb\xbf" + stub.DONE.encode()),
        (stub.LOOP.replace("\n", "\r\n").encode(), stub.DONE.replace("\n", "\r\n").encode()),
        (stub.REFUSED.encode(), stub.REFUSED.encode()),
        (b"no \xff loop", b"no \xff loop"),
    ],
)
def test_standard_input(
    run: Run, monkeypatch: pytest.MonkeyPatch, data: bytes, output: bytes
) -> None:
    feed(monkeypatch, data)
    ran = run("-")
    assert (ran.code, ran.out) == (0, output)
    assert "(1 file looked at)" in ran.err


def test_standard_input_diff_check_and_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, stub.LOOP.encode())
    ran = run("--diff", "-")
    assert ran.text.startswith("--- a/-\n+++ b/-\n")
    feed(monkeypatch, stub.LOOP.encode())
    ran = run("--check", "-", "--output-format", "json")
    assert ran.code == 1
    assert json.loads(ran.out)["files"][0]["path"] == "-"
    feed(monkeypatch, b"loss.backward(")
    ran = run("-")
    assert (ran.code, ran.out) == (1, b"")
    assert "failed    -:1:14\n" in ran.err


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (
            b"x = 1\nloss.backward(\n",
            ["bad.py:2:14", f"read by Python {platform.python_version()}"],
        ),
        (b"print 1\nloss.backward()\n", ["bad.py:1:1", "read by Python"]),
        (
            b"loss.backward()\n\xff\n",
            ["bad.py:2:1", "0xff is no utf-8 text", "save the file as UTF-8"],
        ),
        (b"# coding: klingon\nloss.backward()\n", ["unknown encoding", "coding comment"]),
        (b"loss.backward()\rx\r", ["bad.py:1:16", "carriage return", "convert"]),
        (b"loss.backward()\0", ["null byte"]),
        (b"DEEP" + b" + 1" * 2_000 + b"\nloss.backward()\n", ["nested too deeply", "exclude it"]),
    ],
)
def test_bad_input_has_place_and_remedy(
    run: Run, write: Write, data: bytes, parts: list[str]
) -> None:
    path = write("bad.py", data)
    good = write("good.py", stub.LOOP)
    ran = run(".")
    assert ran.code == 1
    told = " ".join(ran.text.split())
    assert "failed bad.py" in told
    for part in parts:
        assert part in told
    assert path.read_bytes() == data
    assert good.read_text() == stub.DONE


def test_file_that_cannot_be_read(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", stub.LOOP)
    good = write("b.py", stub.LOOP)
    real = regular_files.read

    def read(path: Path, *rest: Any) -> bytes:
        if Path(path).name == "a.py":
            raise PermissionError(13, "denied")
        return real(path, *rest)

    monkeypatch.setattr(regular_files, "read", read)
    ran = run(".")
    assert ran.code == 1
    assert "no permission to read it" in ran.text
    assert good.read_text() == stub.DONE


def test_read_only_file(run: Run, write: Write) -> None:
    path = write("a.py", stub.LOOP)
    path.chmod(0o444)
    ran = run("a.py")
    assert ran.code == 1
    assert "it is read-only" in ran.text
    assert path.read_text() == stub.LOOP
    report = json.loads(run("--output-format=json", "a.py").out)
    assert (report["files"][0]["status"], report["files"][0]["loops"]) == ("failed", [])


def test_full_disk_costs_the_file_alone(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write("a.py", stub.LOOP + "#\n"), write("b.py", stub.LOOP)
    real = os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) == len(stub.DONE) + 2:
            raise OSError(28, "full")
        return real(handle, data)

    monkeypatch.setattr(os, "write", full)
    ran = run(".")
    assert ran.code == 1
    assert "no space left on the disk" in ran.text
    assert first.read_text() == stub.LOOP + "#\n"
    assert second.read_text() == stub.DONE


def test_internal_error_costs_the_file_alone(run: Run, write: Write) -> None:
    bad, good = write("a.py", stub.CRASH), write("b.py", stub.LOOP)
    ran = run(".")
    assert ran.code == 2
    assert "internal error (RuntimeError: seen CRASH)" in " ".join(ran.text.split())
    assert "Please report it" in " ".join(ran.text.split())
    assert "Traceback" in ran.err
    assert bad.read_text() == stub.CRASH
    assert good.read_text() == stub.DONE


def test_interrupt_between_files(run: Run, write: Write) -> None:
    # The largest goes first.
    first = write("z.py", stub.LOOP + "# large enough to go first\n")
    second = write("a.py", "INTERRUPT\nloss.backward()\n")
    write("plain.py", "x\n")
    ran = run(".")
    assert ran.code == 130
    assert "interrupted; 2 of 3 files were done, the others are as they were" in ran.err
    assert first.read_text().startswith(stub.DONE)
    assert second.read_text() == "INTERRUPT\nloss.backward()\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_while_writing_waits_for_the_file(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    first, second = write("a.py", stub.LOOP + "# first\n"), write("b.py", stub.LOOP)
    real = os.fsync

    def fsync(handle: int) -> None:
        signal.raise_signal(number)
        real(handle)

    monkeypatch.setattr(replace.os, "fsync", fsync)
    ran = run(".")
    assert ran.code == 130
    assert "1 of 2 files were done" in ran.err
    assert first.read_text().startswith(stub.DONE)
    assert second.read_text() == stub.LOOP
    assert sorted(os.listdir(first.parent)) == ["a.py", "b.py"]


def test_progress_bar_on_a_terminal(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(f"{number}.py", stub.LOOP) for number in range(batch.WORTH_A_BAR)]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ran = run(".")
    assert ran.code == 0
    assert "Migrating" in ran.err
    assert all(path.read_text() == stub.DONE for path in paths)
    assert "Migrating" not in run(".").text


def test_colours_on_a_terminal(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", stub.LOOP)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ran = run("--diff", "a.py")
    assert "\x1b[31m-    loss.backward()\n" in ran.text
    assert "\x1b[32m+    scaler.scale(loss).backward()\n" in ran.text


def test_names_that_are_no_text(run: Run, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.py"
    with open(name, "w") as file:
        file.write(stub.LOOP)
    ran = run(".")
    assert ran.code == 0
    assert "migrated  \\xff.py:2" in ran.text or "migrated  \\udcff.py:2" in ran.text
    with open(name) as file:
        assert file.read() == stub.DONE
