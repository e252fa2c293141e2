"""The configurations of a program that a place can read: command lines of argparse and click,
dataclasses and dicts of constants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.settings.click_options import click_marks, click_names
from amp_migrate.model.settings.command_line import Followed, options
from amp_migrate.model.syntax.displays import Displays
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


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
        if click_marks(program, around) and click_names(program, around):
            yield Configuration("click", "", around)
    for name in names:
        yield from _dataclass(program, scope, name)
    for name in names:
        known = Displays(program).of(place, name)
        only = (
            next(iter(known.found), None)
            if known.complete and len(known.found) == 1
            else None
        )
        if isinstance(only, ast.Dict) and _holds_constants(only):
            yield Configuration("dict", name, only)


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
            given = [a for m in home.decorator_list for a in nodes_in(m)]
            flag = f"--{name.replace('_', '-')}"
            return name in program.scope(home).bindings or any(
                isinstance(a, ast.Constant) and a.value == flag for a in given
            )
        case "dataclass":
            assert isinstance(home, ast.ClassDef)
            return program.reaching.entry.in_class(home, name)
    assert isinstance(home, ast.Dict)
    return any(
        isinstance(key, ast.Constant) and key.value == name for key in home.keys
    )


def reads_option(
    program: Program, configuration: Configuration, name: str
) -> bool:
    """Whether the program reads or sets an option of that name, which nothing declares:
    `args.amp = 0.5`, `getattr(args, "amp", 1)`, `"amp" in config`.
    """
    held = configuration.holder.rpartition(".")[2]
    for node in program.module.parents:
        if isinstance(node, ast.Attribute) and node.attr == name:
            holder = dotted_name(node.value) or ""
            if held and holder.rpartition(".")[2] == held:
                return True
        elif isinstance(node, ast.Constant) and node.value == name:
            above = program.module.parents[node]
            if _is_key(above, node):
                return True
        elif isinstance(node, ast.keyword) and node.arg == name:
            call = program.module.parents[node]
            if isinstance(call, ast.Call) and _last(call.func) in _SETTERS:
                return True
    return False


_KEYED = ("get", "pop", "setdefault", "getattr", "hasattr", "setattr")
_SETTERS = ("set_defaults", "Namespace", "replace")


def _is_key(above: ast.AST, node: ast.Constant) -> bool:
    if isinstance(above, ast.Call):
        return _last(above.func) in _KEYED
    if isinstance(above, ast.Subscript):
        return above.slice is node
    return isinstance(above, ast.Compare) and above.left is node


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


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
    """The statement after which an option of the parser behind `parser.parse_args()` can be
    declared, and the parser's name there.
    """
    assert isinstance(call.func, ast.Attribute)
    if any(k.arg == "prefix_chars" for k in _keywords(program)):
        return None  # `--amp` might be no option there
    scope = program.module.scope_of(call)
    parser = call.func.value
    name = dotted_name(parser)
    if name is not None:
        found = _last_option(program, scope, name)
        if found is not None:
            return found, name
        made = program.reaching.at(parser, name).bindings
        if len(made) != 1 or made[0].value is None:
            return None
        if _is_made(program, made[0]):
            return _below(program, made[0])
        parser = made[0].value
    return _of_function(program, parser, scope)


def _keywords(program: Program) -> Iterator[ast.keyword]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            yield from call.keywords


def _of_function(
    program: Program, parser: ast.expr, scope: Scope
) -> tuple[ast.stmt, str] | None:
    """The same of a parser that a function returns."""
    if not isinstance(parser, ast.Call):
        return None
    function = program.values.callee(parser, scope)
    if function is None:
        return None
    names = {dotted_name(value) for value in returned(function)}
    only = names.pop() if len(names) == 1 else None
    if only is None:
        return None
    inner = program.scope(function)
    found = _last_option(program, inner, only)
    if found is not None:
        return found, only
    made = inner.bindings.get(only, [])
    return _below(program, made[0]) if len(made) == 1 else None


def _is_made(program: Program, binding: Binding) -> bool:
    """`parser = argparse.ArgumentParser()`"""
    made = binding.value
    name = program.canonical(made.func) if isinstance(made, ast.Call) else None
    return (name or "").endswith(".ArgumentParser")


def _below(program: Program, made: Binding) -> tuple[ast.stmt, str] | None:
    """Below where a parser is made, or its last option there."""
    statement = made.statement
    if not isinstance(statement, ast.Assign) or not _is_made(program, made):
        return None
    name = dotted_name(statement.targets[0])
    if name is None:
        return None
    scope = program.module.scope_of(statement)
    return _last_option(program, scope, name) or statement, name


def _last_option(
    program: Program, scope: Scope, parser: str
) -> ast.stmt | None:
    """Only where it runs on every path that reads the command line."""
    declared = options(program.module).values()
    own = [
        _whole_statement(program, call)
        for call in scope.calls
        if isinstance(call.func, ast.Attribute)
        and dotted_name(call.func.value) == parser
        and any(call is one for one in declared)
    ]
    return max(own, key=lambda statement: statement.lineno, default=None)


def _whole_statement(program: Program, call: ast.Call) -> ast.stmt:
    """The statement of a call, or the loop around it."""
    statement = program.module.statement_of(call)
    for above in program.module.ancestors(statement):
        if isinstance(above, FUNCTIONS):
            break
        if isinstance(above, (ast.For, ast.With)):
            statement = above
    return statement


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
    """Whether a class is decorated as a dataclass, of whichever library."""
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
    if isinstance(value, ast.Dict):
        return _holds_constants(value)
    return isinstance(value, ast.Constant)
