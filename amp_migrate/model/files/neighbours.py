"""Other modules of the same project, found from the names that a file imports, read only when they
are asked about.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from amp_migrate.model.budget import Budget
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function
from amp_migrate.patterns import pattern
from amp_migrate.project import nearby
from amp_migrate.project.import_paths import (
    candidates,
    in_subfolders,
    starts_used,
)
from amp_migrate.records import NamedTuple

Definition: TypeAlias = tuple[Program, Function | ast.ClassDef]
Variable: TypeAlias = tuple[Program, tuple[Binding, ...]]
_HOPS = 5
_HELD = 384
"""Files that are held at once: more than most projects have. Of a project with more, each file is
read again whenever it comes up again, and what was known of it is found anew.
"""
_DECORATOR = pattern(rb"(?m)^@([\w.\x80-\xff]+)")
_ANY = "_"
"""Some name in a module, where the module is what is looked for."""


class Neighbours:
    """Looks up the definitions behind imported names from one file's place in the tree."""

    def __init__(self, path: str) -> None:
        """`path`: the file whose imports are followed."""
        self.path = path

    def find(self, canonical: str, hops: int = _HOPS) -> Definition | None:
        """The class or function of the project that `canonical` names, through re-exports; None
        outside the project.
        """
        home = self._home(canonical) if hops else None
        if home is not None:
            return _definition(*home, hops)
        return self._through_package(canonical, hops) if hops else None

    def _through_package(self, canonical: str, hops: int) -> Definition | None:
        """`nets.losses.Dice`, where the package `nets` imports a module as `losses`."""
        for file, attributes in self._places(canonical):
            program = program_of(file) if len(attributes) > 1 else None
            near = program.module.neighbours if program is not None else None
            if program is None or near is None:
                continue
            rest = ".".join(attributes[1:])
            origins = program.module.imports.origins(attributes[0])
            found = (near.find(f"{one}.{rest}", hops - 1) for one in origins)
            return next((one for one in found if one is not None), None)
        return None

    def variable(self, canonical: str, hops: int = _HOPS) -> Variable | None:
        """The bindings of a variable of the project that `canonical` names, through re-exports."""
        home = self._home(canonical) if hops else None
        if home is None:
            return None
        program, name = home
        bindings = program.module.root.bindings.get(name, [])
        origin = program.module.imports.names.get(name)
        if bindings and bindings[-1].how == "import" and origin is not None:
            near = program.module.neighbours
            return near.variable(origin, hops - 1) if near is not None else None
        given = tuple(b for b in bindings if b.value is not None)
        if given:
            return program, given
        near = program.module.neighbours
        for star in (
            program.module.imports.stars
            if near is not None and not bindings
            else ()
        ):
            found = (
                near.variable(f"{star}.{name}", hops - 1)
                if near is not None
                else None
            )
            if found is not None:
                return found
        return None

    def module(self, canonical: str) -> Program | None:
        """The file of the project that a dotted name of a module leads to."""
        home = self._home(f"{canonical}.{_ANY}")
        return home[0] if home is not None else None

    def exported(self, canonical: str, hops: int = _HOPS) -> list[Definition]:
        """The classes and functions that a module of the project has names for, its own and those
        that it imports from other modules of the project.
        """
        program = self.module(canonical) if hops else None
        near = program.module.neighbours if program is not None else None
        if program is None or near is None:
            return []
        named = (
            _definition(program, name, hops)
            for name in program.module.root.bindings
        )
        brought = (
            one
            for star in program.module.imports.stars
            for one in near.exported(star, hops - 1)
        )
        return [*(one for one in named if one is not None), *brought]

    def _home(self, canonical: str) -> tuple[Program, str] | None:
        """The file that a dotted name leads to, and the name there."""
        for file, attributes in self._places(canonical):
            program = program_of(file) if len(attributes) == 1 else None
            if program is not None:
                return program, attributes[0]
        return None

    def _places(self, canonical: str) -> Iterator[tuple[str, list[str]]]:
        for find in (candidates, in_subfolders):
            yield from find(self.path, canonical)

    def unparsed(self, canonical: str) -> Unparsed | None:
        """The file that a dotted name leads to, as a module or by what it holds, if Python cannot
        parse it.
        """
        for name in (f"{canonical}.{_ANY}", canonical):
            for file, attributes in self._places(name):
                if len(attributes) == 1 and nearby.changed(file) is not None:
                    return unparsed_file(file)
        return None

    def definers(self, name: str) -> list[Definition]:
        """The classes and functions of a name in the files near this one, of which a module that
        is imported by a computed name may be any.
        """
        pattern = re.compile(
            rb"(?m)^(class|def)\s+" + re.escape(name.encode()) + rb"\b"
        )
        word = name.encode()
        programs = (
            program_of(str(file))
            for file, text in self._beside()
            if word in text and pattern.search(text)
        )
        found = (
            _definition(program, name, 1)
            for program in programs
            if program is not None
        )
        return [one for one in found if one is not None]

    def marking(self) -> dict[str, list[Path]]:
        """The files near this one by the names in their decorators: `@name`, `@name.method(...)`
        and `@module.name`. Every call of a registry asks; the texts are read once.
        """
        found: dict[str, list[Path]] = {}
        for file, text in self._beside():
            marks = _DECORATOR.findall(text)
            parts = (one for mark in marks for one in mark.split(b"."))
            for name in dict.fromkeys(parts):
                found.setdefault(name.decode(errors="replace"), []).append(file)
        return found

    def imported_with(self, name: str, word: str) -> Iterator[Program]:
        """The files that this one imports of which `name` is a method, and that hold a word: few
        are, and the others are not parsed.
        """
        own = program_of(self.path)
        imports = own.module.imports if own is not None else None
        named = imports.names.values() if imports is not None else ()
        stars = imports.stars if imports is not None else ()
        method = re.compile(
            rb"(?m)^\s+def\s+" + re.escape(name.encode()) + rb"\b"
        )
        for origin in dict.fromkeys(
            [*named, *(f"{one}.{_ANY}" for one in stars)]
        ):
            for file, attributes in self._places(origin):
                text = nearby.text_of(file) if len(attributes) == 1 else None
                if text is None or word.encode() not in text:
                    continue
                found = program_of(file) if method.search(text) else None
                if found is not None:
                    yield found

    def mentioning(self, text: str) -> Iterator[Program]:
        """The files near this one in which a text stands."""
        wanted = text.encode()
        for file, held in self._beside():
            program = program_of(str(file)) if wanted in held else None
            if program is not None:
                yield program

    def roots(self) -> list[Path]:
        """The folders that the file imports from, its own among them."""
        own = program_of(self.path)
        names = own.module.imports.names.values() if own is not None else ()
        return starts_used(self.path, names)

    def _beside(self) -> Iterator[tuple[Path, bytes]]:
        return nearby.beside(Path(self.path).absolute())

    def user_of(self, name: str) -> str | None:
        """A file near this one that imports the module and mentions `name`, relative to this
        file's folder.
        """
        folder = Path(self.path).absolute().parent
        users = (Path(os.path.relpath(one, folder)) for one in self.users(name))
        return next((str(one) for one in users), None)

    def users(self, name: str) -> Iterator[Path]:
        """The files near this one that import the module and mention `name`."""
        here = Path(self.path).absolute()
        word, module = name.encode(), re.escape(here.stem.encode())
        imports = re.compile(
            rb"(?m)^\s*(from|import)\s[^\n]*\b" + module + rb"\b"
        )
        for file, text in self._beside():
            if word in text and imports.search(text):
                yield file


class Unparsed(NamedTuple):
    """A file that is no Python, or Python of another version."""

    path: str
    line: int
    said: str


def unparsed_file(file: str) -> Unparsed | None:
    """What keeps Python from parsing a file; None where nothing does."""
    if program_of(file) is not None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(nearby.text_of(file) or b"")
    except SyntaxError as error:
        return Unparsed(file, error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def program_of(file: str) -> Program | None:
    """The program of one file; None where there is none, or it cannot be read."""
    changed = nearby.changed(file)
    if changed is None:
        return None
    return _READINGS[-1].program_of(file, changed)


def in_tree(roots: Iterable[Path]) -> Iterator[Program]:
    """The files below some folders that have classes."""
    for root in roots:
        for file, text in nearby.below(root):
            program = program_of(str(file)) if b"class " in text else None
            if program is not None:
                yield program


def _definition(program: Program, name: str, hops: int) -> Definition | None:
    """What a name of a file stands for: a definition, or one that it imports."""
    for binding in reversed(program.module.root.bindings.get(name, [])):
        if isinstance(binding.statement, (*FUNCTIONS, ast.ClassDef)):
            return program, binding.statement
        if binding.how == "import" and program.module.neighbours is not None:
            origins = program.module.imports.origins(name)
            near = program.module.neighbours
            named = (near.find(one, hops - 1) for one in origins)
            return next((one for one in named if one is not None), None)
    for star in (
        program.module.imports.stars
        if name not in program.module.root.bindings
        else ()
    ):
        neighbours = program.module.neighbours
        found = (
            neighbours.find(f"{star}.{name}", hops - 1)
            if neighbours is not None
            else None
        )
        if found is not None:
            return found
    return None


def _load(file: str, changed: int) -> Program | None:
    """The program of a neighbouring file, as it was when it was last `changed`; None where it
    cannot be read or parsed (its own run says why).
    """
    data = nearby.text_of(file)
    if data is None:
        return None
    try:
        return Program(data.decode("utf-8-sig"), file, Neighbours(file))
    except (ValueError, SyntaxError, RecursionError):
        return None


class Reading:
    """The programs of neighbouring files; with `most`, no more than have that many characters."""

    def __init__(self, most: int | None = None) -> None:
        self._budget = Budget(most) if most is not None else None
        self._loaded = lru_cache(maxsize=_HELD)(_load)

    def program_of(self, file: str, changed: int) -> Program | None:
        """The program of a file that was last written at `changed`."""
        before = self._loaded.cache_info().misses
        found = self._loaded(file, changed)
        if found is not None and self._loaded.cache_info().misses > before:
            if self._budget is not None:
                self._budget.spend(len(found.module.text))
        return found


_READINGS = [Reading()]


@contextmanager
def reading_at_most(size: int) -> Iterator[None]:
    """Files for the programs that are made within, which share nothing with others: a budget that
    ends may leave them with half of an answer.
    """
    _READINGS.append(Reading(size))
    try:
        yield
    finally:
        _READINGS.pop()
