"""Other modules of the same project, found from the names that a file imports, read only when they are asked about."""

from __future__ import annotations

import ast
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.places import candidates
from amp_migrate.model.syntax import FUNCTIONS, Function

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Definition: TypeAlias = "tuple[Program, Function | ast.ClassDef]"
_HOPS = 5
_MOST = 300
_LARGEST = 400_000


class Neighbours:
    """Looks up the definitions behind imported names from one file's place in the tree."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find(self, canonical: str, hops: int = _HOPS) -> Definition | None:
        """The class or function of the project that `canonical` names, through re-exports; None outside the project."""
        if hops == 0:
            return None
        for file, attributes in candidates(self.path, canonical):
            if len(attributes) != 1 or not Path(file).is_file():
                continue
            program = _load(file, Path(file).stat().st_mtime_ns)
            if program is not None:
                return _definition(program, attributes[0], hops)
        return None

    def user_of(self, name: str) -> str | None:
        """A file near this one that imports the module and mentions `name`, relative to this file's folder."""
        here = Path(self.path).absolute()
        word, module = name.encode(), here.stem.encode()
        if not here.is_file():
            return None
        near = [*here.parent.glob("*.py"), *here.parent.parent.glob("*.py"), *here.parent.glob("*/*.py")]
        for file in near[:_MOST]:
            try:
                text = file.read_bytes() if file != here and file.stat().st_size < _LARGEST else b""
            except OSError:
                continue
            if word in text and re.search(rb"(?m)^\s*(from|import)\s[^\n]*\b" + re.escape(module) + rb"\b", text):
                return str(Path(os.path.relpath(file, here.parent)))
        return None


def _definition(program: Program, name: str, hops: int) -> Definition | None:
    for binding in reversed(program.module.root.bindings.get(name, [])):
        if isinstance(binding.statement, (*FUNCTIONS, ast.ClassDef)):
            return program, binding.statement
        if binding.how == "import" and program.module.neighbours is not None:
            origin = program.module.imports.names.get(name)
            return program.module.neighbours.find(origin, hops - 1) if origin else None
    for star in program.module.imports.stars if name not in program.module.root.bindings else ():
        neighbours = program.module.neighbours
        found = neighbours.find(f"{star}.{name}", hops - 1) if neighbours is not None else None
        if found is not None:
            return found
    return None


@lru_cache(maxsize=128)
def _load(file: str, changed: int) -> Program | None:
    """The program of a neighbouring file; None where it cannot be read or parsed (its own run says why)."""
    from amp_migrate.model.program import Program

    try:
        if Path(file).stat().st_size > _LARGEST:
            return None
        text = Path(file).read_text(encoding="utf-8-sig")
        return Program(text, file, Neighbours(file))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
