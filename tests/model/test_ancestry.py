"""Classes and variables of files that lead to each other come to an end."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from amp_migrate.model.classes.ancestry import ancestry
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.files.neighbours import program_of
from amp_migrate.model.program import Program
from amp_migrate.model.values.kinds import Kind

HEAD = "import torch\nimport {other}\n\n\nclass Base({other}.Base):\n    def {method}(self):\n        self.{method}_done = 1\n\n\nplace = {other}.place\n"
MAIN = """import torch
import one


class Trainer(one.Base):
    def fit(self):
        self.nowhere()
        self.there()
        return one.place


class Plain(torch.nn.Module):
    pass
"""


@pytest.fixture
def main(tmp_path: Path) -> Program:
    (tmp_path / "one.py").write_text(HEAD.format(other="two", method="here"))
    (tmp_path / "two.py").write_text(HEAD.format(other="one", method="there"))
    (tmp_path / "main.py").write_text(MAIN)
    program = program_of(str(tmp_path / "main.py"))
    assert program is not None
    return program


def _class(program: Program, name: str) -> ast.ClassDef:
    return next(cls for cls in program.graph.classes() if cls.name == name)


def test_each_class_comes_once(main: Program) -> None:
    found = list(ancestry(main.reaching, _class(main, "Trainer")))
    places = [Path(home.module.scopes[cls].module.path).stem for home, cls in found]
    assert places == ["main", "one", "two"]


def test_itself_is_left_out_on_demand(main: Program) -> None:
    found = ancestry(main.reaching, _class(main, "Trainer"), itself=False)
    assert [cls.name for _, cls in found] == ["Base", "Base"]
    assert not list(ancestry(main.reaching, _class(main, "Plain"), itself=False))


def test_questions_about_a_circle_are_answered(main: Program) -> None:
    trainer = _class(main, "Trainer")
    inherited = main.reaching.calls.inherited
    assert [one.function.name for one in inherited(trainer, "there")] == ["there"]
    assert inherited(trainer, "nowhere") == []
    assert main.reaching.entry.in_class(trainer, "here")
    assert not main.reaching.entry.in_class(trainer, "nowhere")
    assert main.values.class_kind(trainer) is Kind.OBJECT
    [value] = [n.value for n in ast.walk(trainer) if isinstance(n, ast.Return)]
    assert value is not None
    assert not Devices(main).of(value, main.module.scope_of(value)).is_device


def test_a_linked_base_is_followed_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    (tmp_path / "main.py").write_text("from base import Net\n\n\nclass Own(Net):\n    pass\n")
    program = program_of(str(tmp_path / "main.py"))
    assert program is not None
    own = _class(program, "Own")
    assert program.values.class_kind(own) is Kind.MODEL
    assert [m.function.name for m in program.reaching.calls.inherited(own, "forward")] == [
        "forward"
    ]
