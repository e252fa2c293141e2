"""The numbers that an expression may be, beside a literal: through variables and attributes, the
defaults of parameters and what callers pass, entries of displays, fields of classes, and imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.model.values.literals import computed, number

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 5
_MOST = 16
READS = (ast.Name, ast.Attribute, ast.Subscript)
_DISPLAYS = (ast.Dict, ast.Tuple, ast.List)
_Display: TypeAlias = ast.Dict | ast.Tuple | ast.List


def numbers(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> tuple[float, ...]:
    """Those in sight; there may be others."""
    value = number(expr, scope)
    if value is not None:
        return (value,)
    if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.USub):
        return tuple(
            -one for one in numbers(program, expr.operand, scope, deep)
        )
    if isinstance(expr, ast.BinOp) and deep:
        return tuple(_arithmetic(program, expr, scope, deep - 1))
    if deep == 0 or not isinstance(expr, READS):
        return ()
    key = (numbers, expr, deep)
    return program.remembered(
        key, lambda: tuple(_read(program, expr, scope, deep - 1))
    )


def sole_number(
    program: Program, expr: ast.Name | ast.Attribute
) -> float | None:
    """`self.scope` of `self.scope = 512`, where nothing else sets it."""
    dotted = dotted_name(expr)
    if dotted is None:
        return None
    bindings = program.reaching.at(expr, dotted).bindings
    if len(bindings) != 1 or bindings[0].how != "assign":
        return None
    value = None if bindings[0].index is not None else bindings[0].value
    if value is None:
        return None
    return number(value, program.module.scope_of(value))


def _arithmetic(
    program: Program, expr: ast.BinOp, scope: Scope, deep: int
) -> Iterator[float]:
    """`1 - self.eps`, of whatever `self.eps` may be."""
    left = numbers(program, expr.left, scope, deep)
    right = numbers(program, expr.right, scope, deep) if left else ()
    for pair in islice(product(left, right), _MOST):
        value = computed(expr, *pair)
        if value is not None:
            yield value


def _read(
    program: Program, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[float]:
    """What a name, an attribute or an entry holds."""
    if isinstance(expr, ast.Subscript):
        for shown in _displays(program, expr.value):
            yield from _under(program, shown, expr.slice, deep)
        return
    dotted = dotted_name(expr)
    abroad = imported_variable(program, dotted or "", scope)
    if abroad is not None:
        for one in abroad[1]:
            yield from _bound(abroad[0], one, deep)
        return
    bindings = (
        program.reaching.at(expr, dotted).bindings if dotted is not None else ()
    )
    for one in bindings:
        yield from _bound(program, one, deep)
    if not bindings and isinstance(expr, ast.Attribute):
        yield from _field(program, expr, scope, deep)


def _bound(program: Program, binding: Binding, deep: int) -> Iterator[float]:
    """What one binding may give; the parameter of a constructor what it is made with."""
    if binding.how == "parameter":
        function = _function(program, binding)
        default = default_of(*function) if function is not None else None
        if function is not None and default is not None:
            yield from numbers(
                program, default, program.scope(function[0]), deep
            )
        for expr, where in arguments(program, binding):
            yield from numbers(program, expr, where, deep)
    elif binding.value is not None and binding.how == "assign":
        value = _part(binding.value, binding.index)
        if value is not None and value in program.module.parents:
            where = program.module.scope_of(value)
            yield from numbers(program, value, where, deep)
    elif binding.value is not None and binding.how == "for":
        for one in islice(_turns(program, binding), _MOST):
            yield from numbers(program, one, program.module.scope_of(one), deep)


def _turns(program: Program, binding: Binding) -> Iterator[ast.expr]:
    """`8` and `16` of `for stride in (8, 16)`, also beside others: `zip(maps, (8, 16))`."""
    through, index = binding.value, binding.index
    while isinstance(through, ast.Call) and index is not None:
        named = dotted_name(through.func)
        if named == "enumerate" and index == 1 and through.args:
            through, index = through.args[0], None
        elif named == "zip" and 0 <= index < len(through.args):
            through, index = through.args[index], None
        else:
            return
    for shown in _displays(program, through) if through is not None else ():
        if isinstance(shown, (ast.List, ast.Tuple)):
            yield from (
                part
                for one in shown.elts
                if (part := _part(one, index)) is not None
            )


def _part(value: ast.expr, index: int | None) -> ast.expr | None:
    """What `self.w, self.h = w, h` sets one of its targets to."""
    if index is None:
        return value
    elements = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    starred = any(isinstance(one, ast.Starred) for one in elements)
    known = 0 <= index < len(elements) and not starred
    return elements[index] if known else None


def _function(
    program: Program, binding: Binding
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, str] | None:
    """The function of a parameter, and the name that it has there: a default belongs to a
    name.
    """
    for parent in program.module.ancestors(binding.statement):
        if isinstance(parent, FUNCTIONS):
            bindings = program.scope(parent).bindings
            names = (
                n
                for n, held in bindings.items()
                if any(one is binding for one in held)
            )
            name = next(names, None)
            return (parent, name) if name is not None else None
    return None


def _displays(program: Program, expr: ast.expr) -> Iterator[_Display]:
    """The displays that a dict, tuple or list may be, through its other names and the callers
    that pass it.
    """
    seen: set[ast.expr] = set()
    waiting = [expr]
    while waiting:
        here = waiting.pop()
        if here in seen:  # a method may hand its parameter to its namesake
            continue
        seen.add(here)
        if isinstance(here, _DISPLAYS):
            yield here
        else:
            waiting += _other_names(program, here)


def _other_names(program: Program, expr: ast.expr) -> Iterator[ast.expr]:
    """What a variable is another name of, and what callers pass for it."""
    dotted = dotted_name(expr)
    if dotted is None:
        return
    for one in program.reaching.at(expr, dotted).bindings:
        if one.how == "parameter":
            yield from (given for given, _ in arguments(program, one))
        elif one.value in program.module.parents and isinstance(
            one.value, (*_DISPLAYS, ast.Name)
        ):
            yield one.value


def _under(
    program: Program, shown: _Display, key: ast.expr, deep: int
) -> Iterator[float]:
    wanted = key.value if isinstance(key, ast.Constant) else None
    pairs: Iterable[tuple[object, ast.expr]] = enumerate(
        shown.elts if not isinstance(shown, ast.Dict) else ()
    )
    if isinstance(shown, ast.Dict):
        names = [getattr(one, "value", None) for one in shown.keys]
        pairs = zip(names, shown.values, strict=True)
    for name, value in pairs:
        if wanted is not None and name == wanted:
            where = program.module.scope_of(value)
            yield from numbers(program, value, where, deep)


def _field(
    program: Program, expr: ast.Attribute, scope: Scope, deep: int
) -> Iterator[float]:
    """`self.config.fill` of an object whose class says what it is."""
    value = program.values.of(expr.value, scope)
    home, cls = value.foreign or (program, value.cls)
    if cls is None:
        return
    held = home.module.scopes[cls].bindings
    for one in (*held.get(expr.attr, ()), *held.get(f"self.{expr.attr}", ())):
        yield from _bound(home, one, deep)
