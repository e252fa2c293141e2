"""The floor of a migration is measured on what it reads and writes."""

from __future__ import annotations

from pathlib import Path

from tests.bench import bench_floor

FIXTURE = Path(__file__).parent.parent.parent / "fixtures" / "clip_value" / "before.py"


def test_what_changes_is_read(tmp_path: Path) -> None:
    source = FIXTURE.read_text()
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "other.py").write_text("x = 1\n")
    [text] = bench_floor.texts(tmp_path)
    assert text.before == source
    assert "GradScaler" in text.after
    changed = bench_floor.statements(text)
    assert ".step()" in changed
    assert len(changed) < len(source)


def test_what_stays_is_not() -> None:
    text = bench_floor.Text("a = 1\nb = 2\n", "a = 1\nwith amp:\n    b = 2\n")
    assert bench_floor.statements(text).strip() == "b = 2"


def test_a_row_for_each_tree(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIXTURE.read_text())
    head, line, row = bench_floor.table({"one": tmp_path})
    assert head.count("|") == line.count("|") == row.count("|")
    assert row.startswith("| one | ")
