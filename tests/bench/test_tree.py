"""The large tree can be made anew, and measured."""

from __future__ import annotations

from pathlib import Path

from tests.bench import bench_tree


def test_tree(tmp_path: Path) -> None:
    bench_tree.make_tree(tmp_path, 120, 6)
    programs = list(tmp_path.glob("*/program_*"))
    assert 5 <= len(programs) <= 7
    assert sum(bool(list(program.rglob("*.py"))) for program in programs) >= 5
    assert 120 <= len(list(tmp_path.rglob("*.py"))) <= 125
    imported = tmp_path / "package_0000" / "module_00001.py"
    assert imported.read_text().endswith("from package_0000 import module_00000\n")
    assert " files may train; the index is " in bench_tree.index(tmp_path)
