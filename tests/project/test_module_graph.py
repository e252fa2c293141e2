"""Who imports whom, and who calls or defines what, told from the bytes of files."""

from pathlib import Path

import pytest

from amp_migrate.project.module_graph import Index

FILES = ("a", "b", "c")
STATEMENTS = {
    "import a\n": ["a"],
    "import a, b as x\n": ["a", "b"],
    "    from a import (\n        x,\n    )\nimport b\n": ["a", "b"],
    "from a import x; import b\n": ["a"],
    "important = 1\nimport c": ["c"],
    "x = 1; import a\n": [],
    "# import a\n": [],
    "reimport = 1\r\nimport b\r\n": ["b"],
    "from a import import_b\nimport c\n": ["a", "c"],
    "importlib.import_module('a')\n": [],
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_imports_are_told_from_the_lines_that_begin_with_them(text: str) -> None:
    index = Index([f"/t/{name}.py" for name in (*FILES, "main")])
    index.add("/t/main.py", text.encode())
    imported = index.project({}).imports.get("/t/main.py", ())
    assert [Path(file).stem for file in imported] == STATEMENTS[text]


CALLS = {
    "torch.load(path)\n": True,
    "def load (path):\n    pass\n": True,
    "    async def load(self):\n        pass\n": True,
    "self.loader(path)\n": False,
    "load(path)\n": False,
    "undef load(path)\n": False,
    "model.load\n": False,
}


@pytest.mark.parametrize("text", CALLS)
def test_methods_are_told_by_a_dot_or_a_definition(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    project = Index([str(file)]).project({str(file): "a.py"})
    assert project.with_method("load") == ([str(file)] if CALLS[text] else [])
