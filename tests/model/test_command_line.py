"""Attributes that hold the options of a command line, or something that another file has set."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.program import Program
from amp_migrate.model.settings.command_line import Followed

BASE = "class Base:\n    def __init__(self):\n        self.best = 0\n"
HEIR = """\
import argparse
from base import Base

class Heir(Base):
    def __init__(self):
        super().__init__()
        {own}
        print(self.best)

    def load(self):
        self.best = argparse.ArgumentParser().parse_args()
"""
OPTIONS = "self.best = argparse.ArgumentParser().parse_args()"


@pytest.mark.parametrize(("own", "expected"), [("pass", False), (OPTIONS, True)])
def test_what_a_base_in_another_file_has_set_is_no_option(
    tmp_path: Path, own: str, expected: bool
) -> None:
    (tmp_path / "base.py").write_text(BASE)
    path = str(tmp_path / "heir.py")
    program = Program(HEIR.format(own=own), path, Neighbours(path))
    [init] = [s for s in program.module.scopes.values() if s.qualname == "Heir.__init__"]
    assert Followed(program).only_options(init.body[-1], "self.best") is expected
