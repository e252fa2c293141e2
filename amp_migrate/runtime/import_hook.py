"""The import hook: modules of the user's project, from their rewritten text, under their own name
and lines.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from amp_migrate.runtime.entered import Marks
from amp_migrate.runtime.linemap import line_map, relocate
from amp_migrate.runtime.scalars import note_returned
from amp_migrate.runtime.sources import names_for, source
from amp_migrate.runtime.switch import force_switch

Rewrite = Callable[[str], "str | None"]
"""From the real path of a file to its rewritten text; None where it stays as it is."""


def compile_rewritten(
    original: str,
    rewritten: str,
    path: str,
    switch: bool | None = None,
    marks: Marks | None = None,
    shown: str | None = None,
    returned: bool = False,
) -> CodeType:
    """Code of `rewritten` that looks like code of `original`, or of the file `shown` that it is
    from; `switch` forces AMP on or off, `marks` notes which lines are entered.
    """
    name = shown or path
    tree, lines = ast.parse(rewritten, name), line_map(original, rewritten)
    if switch is not None:
        force_switch(tree, lines, switch)
    if marks is not None:
        marks.insert(tree, name, lines.same)
    if returned:
        note_returned(tree)
    if shown is None:
        relocate(tree, lines)
    return compile(tree, name, "exec", dont_inherit=True)


class Compiler:
    """Code objects for files, rewritten where `rewrite` says so."""

    def __init__(
        self,
        rewrite: Rewrite,
        switch: bool | None = None,
        marks: Marks | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> None:
        self.rewrite = rewrite
        self.switch = switch
        self.marks = marks
        self.shown = shown or {}
        self.returned = False
        """Have the script's calls hand over what they return (see `scalars`)."""
        self.back: dict[str, tuple[str, tuple[int, ...]]] = {}
        """From the files that are shown to the original ones (see `against`)."""

    def code(self, path: str, main: bool = False) -> CodeType | None:
        """The rewritten code of the file at `path`; None where it stays as it is."""
        real = os.path.realpath(path)
        rewritten = self.rewrite(real)
        if rewritten is None:
            return None
        original = source(path)
        shown = self.shown.get(real)
        if shown is not None:
            self.back[shown] = path, line_map(original, rewritten).line
        notes = main and self.returned
        return compile_rewritten(
            original, rewritten, path, self.switch, self.marks, shown, notes
        )


class _Loader(SourceFileLoader):
    """No byte code is read or written: the cache belongs to the original."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class RewritingFinder(MetaPathFinder):
    """Stands before the ordinary finder and takes only the files that are rewritten."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The spec of a rewritten module, else None."""
        spec = PathFinder.find_spec(fullname, path, target)
        if (
            spec is None
            or not isinstance(spec.loader, SourceFileLoader)
            or spec.origin is None
        ):
            return None
        code = self._compiler.code(spec.origin)
        if code is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, code)
        return spec


def install(compiler: Compiler) -> None:
    """Put the hook in front of the other finders."""
    sys.meta_path.insert(0, RewritingFinder(compiler))


def exec_script(
    path: str,
    arguments: Sequence[str],
    compiler: Compiler,
    base: Path | None = None,
) -> None:
    """Run the script at `path` as Python does: `__main__`, `sys.argv` and `sys.path[0]` are its
    own.

    With `base`, the current folder, tracebacks show where the script is, as Python's do.
    """
    file = str(Path(path) / "__main__.py") if Path(path).is_dir() else path
    file = file if base is None else str(base / file)
    code = compiler.code(file, main=True)
    if code is None:
        tree = ast.parse(source(file), file)
        if compiler.returned:
            note_returned(tree)
        code = compile(tree, file, "exec", dont_inherit=True)
    sys.argv = [path, *arguments]
    sys.path[0] = str(Path(file).resolve().parent)
    main = _main_module(str(Path.cwd() / file))
    main.__dict__.update(names_for(file))
    exec(code, main.__dict__)


def _main_module(file: str) -> ModuleType:
    module: Any = ModuleType("__main__")
    module.__file__, module.__cached__ = file, None
    module.__loader__ = SourceFileLoader("__main__", file)
    module.__builtins__ = importlib.import_module("builtins")
    sys.modules["__main__"] = module
    result: ModuleType = module
    return result


def exec_module(name: str, arguments: Sequence[str]) -> None:
    """Run the module `name` as `python -m` does; the installed hook gives its code."""
    import runpy

    sys.argv = [name, *arguments]
    sys.path[0] = str(Path.cwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)
