"""Which module an expression names: followed through variables, parameters and attributes, and
what constructors keep of what they are given. Two names of one module have one place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.syntax.queries import is_none
from amp_migrate.model.values.kinds import Kind
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import layers

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 12
_SAME = frozenset(
    """
    to cuda cpu train eval float double requires_grad_ apply share_memory
    """.split()
)
"""Methods of a module that give the module back."""


class Place(NamedTuple):
    """A module by what made it, or brought it, and the attributes that lead to it."""

    root: ast.AST
    path: tuple[str, ...] = ()

    def holds(self, other: Place) -> bool:
        """Whether the other is this module, or a part that it is asked for by name."""
        size = len(self.path)
        return self.root is other.root and other.path[:size] == self.path

    def part(self, name: str) -> Place:
        """What stands in an attribute, or is made in a call."""
        return Place(self.root, (*self.path, name))


class Frame(NamedTuple):
    """One run of a body: what `self` is, and the call that gave the parameters, where these are
    known; `place`: of what is made in it.
    """

    program: Program
    scope: Scope
    own: Found | None = None
    call: ast.Call | None = None
    caller: Frame | None = None
    place: Place | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Found(NamedTuple):
    """A module, or what may be one."""

    place: Place
    frame: Frame
    """Where `call` is evaluated."""
    call: ast.Call | None = None
    """What makes it."""
    program: Program | None = None
    cls: ast.ClassDef | None = None
    """Its class, in a file of `program`."""
    is_module: bool = False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def maker(self) -> str:
        """The name of the library's function that makes it."""
        called = self.call.func if self.call is not None else None
        return (called and self.frame.program.canonical(called)) or ""


Source = tuple[ast.expr, int | None, Frame]
"""An expression that gives a name its value, the place in its tuple, and where it stands."""


def found(program: Program, expr: ast.expr, scope: Scope) -> list[Found]:
    """The modules that an expression may be; none where that cannot be told."""
    return objects(expr, Frame(program, scope))


def objects(
    expr: ast.expr, frame: Frame, place: Place | None = None, deep: int = _DEEP
) -> list[Found]:
    """The same in a frame; `place`: of what is made there, where it has one."""
    if not deep:
        return []
    if isinstance(expr, ast.Name) and expr.id == frame.scope.self_name:
        return [frame.own or _itself(frame)]
    if isinstance(expr, (ast.Name, ast.Attribute)):
        return _named(expr, frame, deep - 1)
    if isinstance(expr, ast.Call):
        return _made(expr, frame, place, deep - 1)
    if isinstance(expr, ast.IfExp):
        sides = (expr.body, expr.orelse)
        return [o for s in sides for o in objects(s, frame, place, deep - 1)]
    if isinstance(expr, ast.Subscript) and isinstance(
        expr.slice, (ast.Constant, ast.UnaryOp)
    ):
        key = f"[{ast.unparse(expr.slice)}]"
        whole = objects(expr.value, frame, None, deep - 1)
        return [
            Found(one.place.part(key), frame, is_module=one.is_module)
            for one in whole
        ]
    return []


def _named(
    expr: ast.Name | ast.Attribute, frame: Frame, deep: int
) -> list[Found]:
    """What the module that a name holds is called, where it came from."""
    known = list(sources(expr, frame, deep))
    made: list[Found] = []
    for value, index, where in known:
        if value is expr:  # a parameter, or an attribute that nothing sets
            return _as_named(expr, frame, deep)
        if index is not None:
            given = list(_unpacked(value, index, where, deep))
        else:
            given = objects(value, where, _kept_at(expr, frame, deep), deep)
        if not given:
            return _as_named(expr, frame, deep)
        made += given
    return made


def _kept_at(
    expr: ast.Name | ast.Attribute, frame: Frame, deep: int
) -> Place | None:
    """The place of what is made for an attribute of a module."""
    if isinstance(expr, ast.Name):
        return None
    holder = objects(expr.value, frame, None, deep)
    return holder[0].place.part(expr.attr) if len(holder) == 1 else None


def _as_named(
    expr: ast.Name | ast.Attribute, frame: Frame, deep: int
) -> list[Found]:
    """What is known by its name alone: a parameter, `model.encoder` of whatever class."""
    program = frame.program
    kind = program.values.kind(expr, frame.scope)
    is_module = kind is Kind.MODEL
    if isinstance(expr, ast.Attribute):
        holders = objects(expr.value, frame, None, deep)
        return [
            Found(one.place.part(expr.attr), frame, is_module=is_module)
            for one in holders
        ]
    reach = program.reaching.at(expr, expr.id).bindings
    if len(reach) != 1 or reach[0].how not in ("parameter", "assign"):
        return []
    place = Place(reach[0].statement)
    return [Found(place, frame, is_module=is_module)]


def sources(
    expr: ast.Name | ast.Attribute, frame: Frame, deep: int = _DEEP
) -> Iterator[Source]:
    """What gives a name or an attribute its value; itself where nothing in sight does."""
    if isinstance(expr, ast.Attribute):
        yield from _of_attribute(expr, frame, deep)
        return
    program = frame.program
    for binding in program.reaching.at(expr, expr.id).bindings:
        if binding.how == "parameter":
            yield _argument(binding, expr, frame)
        elif binding.value is None or binding.how not in ("assign", "walrus"):
            yield expr, None, frame
        else:
            where = program.module.scope_of(binding.value)
            near = frame if where is frame.scope else Frame(program, where)
            yield binding.value, binding.index, near


def _argument(binding: Binding, expr: ast.Name, frame: Frame) -> Source:
    """What the call that runs a body, or the only one in sight, gives for a parameter."""
    scope, itself = frame.scope, (expr, None, frame)
    name, node = expr.id, scope.node
    if not isinstance(node, FUNCTIONS) or binding.statement not in [
        *scope.parameters()
    ]:
        return itself
    bound = scope.takes_receiver
    if frame.call is not None and frame.caller is not None:
        given = argument(frame.call, scope, name, bound)
        return itself if given is None else (given, None, frame.caller)
    site = _only_call(frame.program, node, scope)
    given = argument(site[0], scope, name, site[2]) if site else None
    if site is None or given is None:
        return itself
    return given, None, _inside(frame, site[1])


def _only_call(
    program: Program, node: Function, scope: Scope
) -> tuple[ast.Call, Scope, bool] | None:
    owner = scope.owner.node if scope.owner is not None else None
    if node.name == "__init__" and isinstance(owner, ast.ClassDef):
        sites = program.graph.constructors.of(node, owner)
    else:
        sites = [(s.call, s.scope, s.bound) for s in program.graph.sites(node)]
    return sites[0] if len(sites) == 1 else None


def _inside(frame: Frame, scope: Scope) -> Frame:
    """The frame of an heir's `__init__`, which calls that of its base, for one object."""
    own = frame.own
    cls = own.cls if own is not None else None
    init = frame.program.graph.method(cls, "__init__") if cls else None
    if own is None or own.program is None or scope.node is not init:
        return Frame(frame.program, scope)
    return constructing(own, scope)


def constructing(own: Found, scope: Scope) -> Frame:
    assert own.program is not None
    assert own.cls is not None
    init = own.program.graph.method(own.cls, "__init__")
    called = own.call if scope.node is init else None
    caller = own.frame if called is not None else None
    return Frame(own.program, scope, own, called, caller, own.place)


def _of_attribute(
    expr: ast.Attribute, frame: Frame, deep: int
) -> Iterator[Source]:
    """What the class of an object sets, in the frame of its constructor."""
    holders = objects(expr.value, frame, None, deep)
    if expr.attr == "module" and isinstance(
        expr.value, (ast.Name, ast.Attribute)
    ):
        yield expr.value, None, frame
        return
    for holder in holders:
        yield from _set_by(holder, expr, frame)
    if not holders:
        yield expr, None, frame


def _itself(frame: Frame) -> Found:
    """The object of a method."""
    program, owner = frame.program, frame.scope.owner
    assert owner is not None
    cls = owner.node if isinstance(owner.node, ast.ClassDef) else None
    kind = program.values.class_kind(cls) if cls is not None else None
    is_module = kind is Kind.MODEL
    return Found(
        Place(owner.node), frame, None, program, cls, is_module=is_module
    )


def _set_by(
    holder: Found, expr: ast.Attribute, frame: Frame
) -> Iterator[Source]:
    program, cls = holder.program, holder.cls
    held = list(attributes(holder, expr.attr)) if program and cls else []
    if not held or program is None:
        yield expr, None, frame
    for binding in held:
        assert program is not None
        assert binding.value is not None
        where = constructing(holder, program.module.scope_of(binding.value))
        yield binding.value, binding.index, where


def attributes(holder: Found, name: str) -> Iterator[Binding]:
    """What the class of an object gives an attribute, None left out; nothing where a binding is no
    plain assignment.
    """
    assert holder.program is not None
    assert holder.cls is not None
    scopes = holder.program.module.scopes
    held = [
        binding
        for cls in holder.program.graph.lineage(holder.cls)
        for binding in scopes[cls].bindings.get(f"self.{name}", ())
        if not is_none(binding.value)
    ]
    if all(b.how == "assign" and b.value is not None for b in held):
        yield from held


def _made(
    call: ast.Call, frame: Frame, place: Place | None, deep: int
) -> list[Found]:
    program, func = frame.program, call.func
    canonical = program.canonical(func) or ""
    if canonical in layers.WRAPPERS and call.args:
        return objects(call.args[0], frame, place, deep)
    if isinstance(func, ast.Attribute) and func.attr in _SAME:
        return objects(func.value, frame, place, deep)
    here = place or _place_in(frame, call)
    function = program.values.callee(call, frame.scope)
    cls = _class_of(call, frame)
    if cls is None and function is not None:
        inner = program.scope(function)
        run = Frame(program, inner, None, call, frame, here)
        given = returned(function)
        if len(given) == 1:
            return objects(given[0], run, here, deep)
    kind = program.values.kind(call, frame.scope)
    is_module = kind is Kind.MODEL
    home, known = cls or (None, None)
    return [Found(here, frame, call, home, known, is_module)]


def _place_in(frame: Frame, call: ast.Call) -> Place:
    """Each run of a body makes modules of its own."""
    if frame.place is None:
        return Place(call)
    return frame.place.part(f"{call.lineno}:{call.col_offset}")


def _class_of(
    call: ast.Call, frame: Frame
) -> tuple[Program, ast.ClassDef] | None:
    program = frame.program
    cls = program.graph.class_named(call.func, frame.scope)
    if cls is not None:
        return program, cls
    abroad = program.values.abroad(call.func, frame.scope)
    if abroad is not None and isinstance(abroad[1], ast.ClassDef):
        return abroad[0], abroad[1]
    return None


def _unpacked(
    value: ast.expr, index: int, frame: Frame, deep: int
) -> Iterator[Found]:
    """`a, b = make()`: what stands at one place of a tuple."""
    if isinstance(value, (ast.Tuple, ast.List)) and index < len(value.elts):
        yield from objects(value.elts[index], frame, None, deep)
    elif deep and isinstance(value, ast.Call):
        function = frame.program.values.callee(value, frame.scope)
        given = returned(function) if function is not None else []
        if function is not None and len(given) == 1:
            inner, place = (
                frame.program.scope(function),
                _place_in(frame, value),
            )
            run = Frame(frame.program, inner, None, value, frame, place)
            yield from _unpacked(given[0], index, run, deep - 1)
