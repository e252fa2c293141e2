"""The configurations of a program that a place can read: command lines of argparse and click,
dataclasses and dicts of constants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from amp_migrate.model.arguments import argument
from amp_migrate.model.command_line import Followed, options
from amp_migrate.model.names import dotted_name
from amp_migrate.model.syntax import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 6
_WHOLE = {
    "vars",
    "asdict",
    "_asdict",
    "astuple",
    "__dict__",
    "to_dict",
    "model_dump",
}
_VIEWS = {"items", "keys", "values"}


class Configuration(NamedTuple):
    """One configuration, by what holds it at a place."""

    kind: Literal["argparse", "click", "dataclass", "dict"]
    holder: str
    """`args`, `self.cfg`; empty for click, whose options are parameters."""
    home: ast.stmt | ast.Dict
    """The statement after which an option can be declared (argparse), the function (click), the
    class, or the dict display.
    """
    parser: str = ""
    """The parser's name there."""


def configurations(
    program: Program, scope: Scope, place: ast.stmt
) -> Iterator[Configuration]:
    """Those that can be read before the statement `place` of `scope`, nearest names first; command
    lines before classes and dicts.
    """
    names = [
        n
        for n in names_in_reach(program, scope)
        if program.reaching.at(place, n).certain
    ]
    for name in names:
        yield from _argparse(program, place, name)
    for around in _functions(scope):
        if _click_marks(program, around):
            yield Configuration("click", "", around)
    for name in names:
        yield from _dataclass(program, scope, name)
    for name in names:
        known = _Displays(program).of(place, name)
        only = (
            next(iter(known.found), None)
            if known.complete and len(known.found) == 1
            else None
        )
        if only is not None and _holds_constants(only):
            yield Configuration("dict", name, only)


def is_spread(program: Program, configuration: Configuration) -> bool:
    """Whether all of a configuration is handed on by name, where one more option would be one
    too many: `Net(**vars(args))`, `Adam(**config)`; for a dict, also whether it is gone through.
    """
    nodes = list(program.module.parents)
    spread = [
        n.value for n in nodes if isinstance(n, ast.keyword) and n.arg is None
    ]
    spread += [
        v
        for n in nodes
        if isinstance(n, ast.Dict)
        for k, v in _pairs(n)
        if k is None
    ]
    if configuration.kind != "dict":
        inner = (child for value in spread for child in ast.walk(value))
        return any(_last(child) in _WHOLE for child in inner)
    spread += [
        n.value
        for n in nodes
        if isinstance(n, ast.Attribute) and n.attr in _VIEWS
    ]
    spread += [
        n.iter for n in nodes if isinstance(n, (ast.For, ast.comprehension))
    ]
    return any(_may_be(program, value, configuration.home) for value in spread)


def _pairs(display: ast.Dict) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    return zip(display.keys, display.values, strict=True)


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _may_be(program: Program, value: ast.expr, display: ast.AST) -> bool:
    """Whether an expression may be the dict that is made by `display`."""
    name = dotted_name(value)
    return (
        name is not None and display in _Displays(program).of(value, name).found
    )


def has_option(
    program: Program, configuration: Configuration, name: str
) -> bool:
    """Whether a configuration has an option of that name already."""
    home = configuration.home
    match configuration.kind:
        case "argparse":
            flag = f"--{name.replace('_', '-')}"
            spelled = (
                n.value
                for n in program.module.parents
                if isinstance(n, ast.Constant)
            )
            return name in options(program.module) or flag in spelled
        case "click":
            assert isinstance(home, FUNCTIONS)
            return name in program.scope(home).bindings
        case "dataclass":
            assert isinstance(home, ast.ClassDef)
            return program.reaching.entry.in_class(home, name)
    assert isinstance(home, ast.Dict)
    return any(
        isinstance(key, ast.Constant) and key.value == name for key in home.keys
    )


def names_in_reach(program: Program, scope: Scope) -> list[str]:
    """Plain names of the scope and those around it, and attributes of `self`."""
    found: dict[str, None] = {}
    here: Scope | None = scope
    while here is not None:
        if not isinstance(here.node, ast.ClassDef):
            found |= dict.fromkeys(
                name for name in here.bindings if name.isidentifier()
            )
        here = here.parent
    cls = (
        program.graph.class_around(scope)
        if scope.self_name is not None
        else None
    )
    for owner in program.graph.lineage(cls) if cls is not None else ():
        held = program.module.scopes[owner].bindings
        own = (n for n in held if n.startswith("self.") and n.count(".") == 1)
        found |= dict.fromkeys(
            f"{scope.self_name}.{n.removeprefix('self.')}" for n in own
        )
    return list(found)


def _functions(scope: Scope) -> Iterator[Function]:
    here: Scope | None = scope
    while here is not None:
        if isinstance(here.node, FUNCTIONS):
            yield here.node
        here = here.parent


# -- argparse


def _argparse(
    program: Program, place: ast.stmt, name: str
) -> Iterator[Configuration]:
    followed = Followed(program)
    if not followed.only_options(place, name) or len(followed.parsed) != 1:
        return
    call = next(iter(followed.parsed))
    found = _parser(program, call)
    if found is not None:
        yield Configuration("argparse", name, found[0], found[1])


def _parser(program: Program, call: ast.Call) -> tuple[ast.stmt, str] | None:
    """The last statement that declares an option of the parser behind `parser.parse_args()`, and
    the parser's name there.
    """
    assert isinstance(call.func, ast.Attribute)
    scope = program.module.scope_of(call)
    parser = call.func.value
    name = dotted_name(parser)
    if name is not None:
        found = _last_option(program, scope, name)
        made = [b.value for b in program.reaching.at(parser, name).bindings]
        parser = (
            made[0]
            if found is None and len(made) == 1 and made[0] is not None
            else parser
        )
        if found is not None:
            return found, name
    function = (
        program.values.callee(parser, scope)
        if isinstance(parser, ast.Call)
        else None
    )
    names = (
        {dotted_name(value) for value in returned(function)}
        if function is not None
        else set()
    )
    only = names.pop() if len(names) == 1 else None
    if function is None or only is None:
        return None
    found = _last_option(program, program.scope(function), only)
    return (found, only) if found is not None else None


def _last_option(
    program: Program, scope: Scope, parser: str
) -> ast.stmt | None:
    """Only where it runs on every path that reads the command line."""
    declared = options(program.module).values()
    own = [
        program.module.statement_of(call)
        for call in scope.calls
        if isinstance(call.func, ast.Attribute)
        and dotted_name(call.func.value) == parser
        and any(call is one for one in declared)
    ]
    return max(own, key=lambda statement: statement.lineno, default=None)


# -- click


def _click_marks(program: Program, function: Function) -> list[ast.expr]:
    """Its decorators that declare options."""
    marks = (
        mark.func
        for mark in function.decorator_list
        if isinstance(mark, ast.Call)
    )
    return [mark for mark in marks if program.canonical(mark) == "click.option"]


# -- dataclasses


def _dataclass(
    program: Program, scope: Scope, name: str
) -> Iterator[Configuration]:
    cls = program.values.of(ast.parse(name, mode="eval").body, scope).cls
    if cls is None or not _is_dataclass(cls) or not _fields(cls):
        return
    heirs = [heir for heir in program.graph.heirs(cls) if heir is not cls]
    if all(
        field.value is not None for heir in heirs for field in _fields(heir)
    ):
        yield Configuration("dataclass", name, cls)


def _is_dataclass(cls: ast.ClassDef) -> bool:
    marks = (getattr(mark, "func", mark) for mark in cls.decorator_list)
    return any(
        (dotted_name(mark) or "").rpartition(".")[2] == "dataclass"
        for mark in marks
    )


def _fields(cls: ast.ClassDef) -> list[ast.AnnAssign]:
    return [
        statement
        for statement in cls.body
        if isinstance(statement, ast.AnnAssign)
    ]


def last_field(cls: ast.ClassDef) -> ast.AnnAssign:
    """The field after which another one, with a default, may stand."""
    return _fields(cls)[-1]


# -- dicts


class _Displays:
    """The dict displays that a name may hold, through calls."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: dict[ast.Dict, None] = {}
        self.complete = True
        """Whether the name can hold nothing else."""

    def of(
        self, place: ast.expr | ast.stmt, name: str, hops: int = _HOPS
    ) -> _Displays:
        """Collect those that may reach `place`."""
        bindings = (
            self.program.reaching.at(place, name).bindings if hops else ()
        )
        self.complete &= bool(bindings)
        for binding in bindings:
            self._bound(binding, name, hops)
        return self

    def _bound(self, binding: Binding, name: str, hops: int) -> None:
        known = binding.statement in self.program.module.parents
        scope = (
            self.program.module.scope_of(binding.statement) if known else None
        )
        if (
            binding.how == "parameter"
            and scope is not None
            and isinstance(scope.node, FUNCTIONS)
        ):
            self._passed(scope, scope.node, name, hops)
        elif binding.how == "assign" and binding.index is None:
            self._value(binding.value, hops)
        else:
            self.complete = False

    def _passed(
        self, scope: Scope, function: Function, name: str, hops: int
    ) -> None:
        entry = self.program.reaching.entry
        sites = entry.sites(function)
        self.complete &= bool(sites) and not entry.escapes(function)
        for call, _, bound in sites:
            self._value(argument(call, scope, name, bound), hops)

    def _value(self, value: ast.expr | None, hops: int) -> None:
        dotted = dotted_name(value) if value is not None else None
        if isinstance(value, ast.Dict):
            self.found[value] = None
        elif (
            value is None
            or dotted is None
            or value not in self.program.module.parents
        ):
            self.complete = False
        else:
            self.of(value, dotted, hops - 1)


def entries_behind(
    program: Program, place: ast.expr | ast.stmt, name: str
) -> list[frozenset[str]] | None:
    """The keys of each dict display that a name may hold; None where it may hold others."""
    known = _Displays(program).of(place, name)
    if not known.complete:
        return None
    return [
        frozenset(
            str(key.value) for key in one.keys if isinstance(key, ast.Constant)
        )
        for one in known.found
    ]


def _holds_constants(display: ast.Dict) -> bool:
    """Settings, not results: names for constants."""
    named = all(
        isinstance(k, ast.Constant) and isinstance(k.value, str)
        for k in display.keys
    )
    return (
        bool(display.keys) and named and all(map(_is_constant, display.values))
    )


def _is_constant(value: ast.expr) -> bool:
    if isinstance(value, (ast.Tuple, ast.List)):
        return all(map(_is_constant, value.elts))
    if isinstance(value, ast.UnaryOp):
        return _is_constant(value.operand)
    return isinstance(value, ast.Constant)
