"""What a call may run although nothing says that it does: what it is handed, what a decorator puts
around a function, what is kept under the name that it calls, and, where nothing at all tells what
it runs, every function that is kept somewhere and takes such arguments.

Half precision is asked about all of these: one that runs outside of autocast after all has at
most a cast too many.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import fits
from amp_migrate.model.calls.kept_code import Code, KeptCode, kept_code
from amp_migrate.model.calls.targets import kept_functions, made_classes
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts.methods import FORWARD_HOOKS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_TRAINS = EventKind.BACKWARD | EventKind.STEP
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Starred)


def may_run(program: Program, call: ast.Call, scope: Scope) -> tuple[Code, ...]:
    """The functions and lambdas of the program; none that trains, which no region holds."""
    return program.remembered(
        (may_run, call, scope),
        lambda: tuple(
            one
            for one in dict.fromkeys(_may_run(program, call, scope))
            if not _trains(program, one)
        ),
    )


def properties(program: Program, asked: ast.Attribute) -> Iterator[Function]:
    """`model.penalty` of a class that has such a property."""
    if isinstance(asked.ctx, ast.Load):
        for method in program.graph.methods_named(asked.attr):
            if any(_is_property(one) for one in method.decorator_list):
                yield method


def _is_property(decorator: ast.expr) -> bool:
    name = dotted_name(decorator) or ""
    return name.rpartition(".")[2] in ("property", "cached_property")


def _trains(program: Program, code: Code) -> bool:
    if isinstance(code, ast.Lambda):
        return False
    return bool(program.effects.of_function(code) & _TRAINS)


def _may_run(program: Program, call: ast.Call, scope: Scope) -> Iterator[Code]:
    kept, func = kept_code(program), call.func
    yield from _handed(program, call, scope)
    if program.canonical(func) is not None:
        return
    callees = program.values.callees(call, scope)
    for one in callees:
        yield from _around(program, one)
    if isinstance(func, ast.Attribute):
        yield from _of_sisters(program, func, scope)
        yield from kept.under(func.attr)
    if program.effects.forward_of(call, scope) & EventKind.FORWARD:
        yield from _beside_forwards(program, kept)
    if not callees and _is_open(program, call, scope):
        yield from _by_names(kept, func)
        yield from (
            one for one in _of_any(program, kept, func) if _takes(one, call)
        )


def _handed(program: Program, call: ast.Call, scope: Scope) -> Iterator[Code]:
    """`map(penalty, outputs)`, `checkpoint(block, x)`, `partial(lambda x: ..., 3)`"""
    waiting = [*call.args, *(one.value for one in call.keywords)]
    for given in waiting:  # grows while it is read
        if isinstance(given, ast.Lambda):
            yield given
        elif isinstance(given, _DISPLAYS):
            waiting += [
                one
                for one in ast.iter_child_nodes(given)
                if isinstance(one, ast.expr)
            ]
        elif isinstance(given, (ast.Name, ast.Attribute)):
            found = kept_functions(program, given, scope)
            yield from (one for home, one in found if home is program)


def _around(program: Program, function: Function) -> Iterator[Function]:
    """What the decorators of a function define in their own bodies."""
    for mark in function.decorator_list:
        maker = mark.func if isinstance(mark, ast.Call) else mark
        home = program.module.scope_of(mark)
        decorator = program.graph.function_at(maker, home)
        cls = program.graph.class_named(maker, home)
        if decorator is not None:
            yield from _defined_in(program, decorator)
        elif cls is not None:
            called = program.graph.method(cls, "__call__")
            yield from () if called is None else (called,)


def _defined_in(program: Program, function: Function) -> Iterator[Function]:
    """The functions in the body of a function, and in theirs."""
    for node, scope in program.module.scopes.items():
        if isinstance(node, FUNCTIONS) and node is not function:
            around: Scope | None = scope.parent
            while around is not None and around.node is not function:
                around = around.parent
            if around is not None:
                yield node


def _of_sisters(
    program: Program, func: ast.Attribute, scope: Scope
) -> Iterator[Function]:
    """`super().penalty(x)` of a class that others are mixed into."""
    above = func.value
    if not isinstance(above, ast.Call) or dotted_name(above.func) != "super":
        return
    cls = program.graph.class_around(scope)
    for heir in program.graph.heirs(cls) if cls is not None else ():
        for one in program.graph.lineage(heir):
            yield from (
                node
                for node in one.body
                if isinstance(node, FUNCTIONS)
                and node.name == func.attr
                and one is not cls
            )


def _beside_forwards(program: Program, kept: KeptCode) -> Iterator[Code]:
    """What was put in the place of a forward, and the hooks around it."""
    yield from kept.under("forward")
    for name in FORWARD_HOOKS:
        for call, where in program.graph.calls_of(name):
            yield from _handed(program, call, where)


# -- calls of which nothing tells what they run


def _is_open(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether nothing is found that a call runs."""
    func = call.func
    value = program.values.of(func, scope)
    if value.cls is not None or value.foreign is not None:
        return False
    if value.kind not in (Kind.UNKNOWN, Kind.OTHER):
        return False
    if program.values.abroad(func, scope) is not None:
        return False
    if isinstance(func, ast.Name) and scope.lookup(func.id) is None:
        return not hasattr(builtins, func.id)
    return not kept_functions(program, func, scope) and not any(
        made_classes(program, func, scope)
    )


def _by_names(kept: KeptCode, func: ast.expr) -> Iterator[Code]:
    """`terms.first(x)`, `losses["first"](x)`: what is kept under one of the names."""
    while isinstance(func, (ast.Attribute, ast.Subscript)):
        if isinstance(func, ast.Attribute):
            yield from kept.under(func.attr)
        func = func.value
    if isinstance(func, ast.Name):
        yield from kept.under(func.id)


def _of_any(program: Program, kept: KeptCode, func: ast.expr) -> Iterator[Code]:
    """Methods of that name; where the name says nothing, whatever is kept."""
    if isinstance(func, ast.Attribute):
        yield from program.graph.methods_named(func.attr)
        if not _is_set(program, func):
            return
    if isinstance(func, ast.Call) and _is_getattr(func):
        yield from _looked_up(program, func)
    yield from kept.anywhere
    yield from (
        one
        for one in program.graph.methods_named("__call__")
        if _is_used(program, one)
    )


def _is_used(program: Program, method: Function) -> bool:
    """Whether the class of a method is named outside of itself, or put somewhere by a decorator:
    a library's classes of which nobody makes an object run nothing.
    """
    cls = program.graph.class_around(program.scope(method))
    if cls is None or cls.decorator_list:
        return True
    named = program.remembered(_loaded, lambda: _loaded(program))
    around = program.module.ancestors
    return any(cls not in around(one) for one in named.get(cls.name, ()))


def _loaded(program: Program) -> dict[str, list[ast.AST]]:
    """Where names and attributes are read, by the name."""
    found: dict[str, list[ast.AST]] = {}
    for node in program.module.parents:
        if isinstance(node, ast.Name):
            found.setdefault(node.id, []).append(node)
        elif isinstance(node, ast.Attribute):
            found.setdefault(node.attr, []).append(node)
    return found


def _is_set(program: Program, func: ast.Attribute) -> bool:
    """Whether an attribute is given a value that nobody follows."""
    dotted = dotted_name(func)
    if dotted is None:
        return False
    return bool(program.reaching.at(func, dotted).bindings)


def _is_getattr(func: ast.Call) -> bool:
    return dotted_name(func.func) == "getattr" and len(func.args) > 1


def _looked_up(program: Program, asked: ast.Call) -> Iterator[Function]:
    """`getattr(self, "loss_" + name)`: the methods whose names begin so."""
    first = _beginning(asked.args[1])
    for node, scope in program.module.scopes.items():
        if isinstance(node, FUNCTIONS) and scope.owner is not None:
            if node.name.startswith(first):
                yield node


def _beginning(name: ast.expr) -> str:
    """What a text begins with."""
    if isinstance(name, ast.BinOp):
        return _beginning(name.left)
    if isinstance(name, ast.JoinedStr):
        return _beginning(name.values[0]) if name.values else ""
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return name.value.partition("%")[0].partition("{")[0]
    return ""


def _takes(code: Code, call: ast.Call) -> bool:
    """Whether a call gives code what it asks for, which a bound method's object is no part of."""
    first = [*code.args.posonlyargs, *code.args.args][:1]
    return fits(call, code, [one.arg for one in first] in (["self"], ["cls"]))
