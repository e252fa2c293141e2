"""Whose parameters an optimizer is given as a whole, and whether two are given the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.forwards.module_places import (
    Found,
    Frame,
    attributes,
    constructing,
    found,
    objects,
    sources,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.iteration import CHAIN
from amp_migrate.torch_facts.layers import CONTAINERS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Maybe: TypeAlias = "Found | None"
_DEEP = 6
_ASKED = ("parameters", "named_parameters")
_LISTS = frozenset({"list", "tuple", "set", "iter"})


def optimized(
    program: Program, optimizer: ast.expr, scope: Scope
) -> list[list[Found]]:
    """For each call that may make an optimizer, the modules and parameters that it is certain to
    get as a whole.
    """
    made = found(program, optimizer, scope)
    return [
        [one for one in _given(call, exact=True) if one is not None]
        for call in made
    ]


def trained(
    program: Program, optimizer: ast.expr, scope: Scope
) -> list[Found] | None:
    """All modules whose parameters an optimizer may have; None where that cannot be told."""
    made = found(program, optimizer, scope)
    given = [one for call in made for one in _given(call, exact=False)]
    known = [one for one in given if one is not None]
    return known if known and len(known) == len(given) else None


def in_both(one: list[list[Found]], other: list[list[Found]]) -> bool:
    """Whether two optimizers hold the same parameters, whichever of the calls made them that tell
    what they give.
    """
    pairs = [(mine, its) for mine in one for its in other if mine and its]
    return bool(pairs) and all(
        any(shares(a, b) for a in mine for b in its) for mine, its in pairs
    )


def _given(made: Found, *, exact: bool) -> list[Maybe]:
    call = made.call
    if call is None or not _makes_optimizer(made, call):
        return [None]
    named = (one.value for one in call.keywords if one.arg == "params")
    given = call.args[0] if call.args else next(named, None)
    if given is None:
        return [None]
    return list(_Given(exact).of(given, made.frame, _DEEP))


def _makes_optimizer(made: Found, call: ast.Call) -> bool:
    """Whether the class of an optimizer is called: what a function does with its arguments is its
    own matter.
    """
    values, scope = made.frame.program.values, made.frame.scope
    if made.cls is not None:
        return True
    if values.kind(call, scope) is not Kind.OPTIMIZER:
        return False
    is_abroad = values.abroad(call.func, scope) is not None
    return not is_abroad and values.callee(call, scope) is None


class _Given(NamedTuple):
    """What stands in the place of parameters. `exact`: only modules of which all are given; else
    any module of which some may be, and None for what is not known.
    """

    exact: bool

    def of(self, expr: ast.expr, frame: Frame, deep: int) -> Iterator[Maybe]:
        """The modules whose parameters an expression gives."""
        if not deep:
            yield None
        elif isinstance(expr, ast.Call):
            yield from self._call(expr, frame, deep - 1)
        elif isinstance(expr, (ast.List, ast.Tuple)):
            for one in expr.elts:
                inner = one.value if isinstance(one, ast.Starred) else one
                yield from self.of(inner, frame, deep - 1)
        elif isinstance(expr, ast.Dict):
            for key, value in zip(expr.keys, expr.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "params":
                    yield from self.of(value, frame, deep - 1)
        elif isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Add):
            yield from self.of(expr.left, frame, deep - 1)
            yield from self.of(expr.right, frame, deep - 1)
        elif isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
            is_taken = _takes_all(expr) or not self.exact
            first = expr.generators[0].iter
            yield from self.of(first, frame, deep - 1) if is_taken else ()
        elif isinstance(expr, (ast.Name, ast.Attribute)):
            yield from self._named(expr, frame, deep - 1)
        else:
            yield None

    def _call(self, call: ast.Call, frame: Frame, deep: int) -> Iterator[Maybe]:
        func, program = call.func, frame.program
        if isinstance(func, ast.Attribute) and func.attr in _ASKED:
            asked = objects(func.value, frame)
            is_own = self.exact and any(_has_own(o, func.attr) for o in asked)
            yield from [None] if is_own or not asked else asked
            return
        taken = _lists_in(call, program)
        if taken is None and isinstance(func, ast.Name) and func.id == "filter":
            plain = len(call.args) == 2 and _asks_gradients(call.args[0])
            taken = call.args[1:] if plain or not self.exact else []
        is_wrapper = program.values.kind(call, frame.scope) is Kind.OPTIMIZER
        if taken is None and is_wrapper:
            taken = call.args[:1]
        for given in taken or ():
            yield from self.of(given, frame, deep)
        if not taken:
            yield None

    def _named(
        self, expr: ast.Name | ast.Attribute, frame: Frame, deep: int
    ) -> Iterator[Maybe]:
        """What a variable holds: a list of parameters, or one parameter."""
        known = False
        for value, index, where in sources(expr, frame):
            known = True
            if value is not expr and index is None and _is_list(value):
                yield from self.of(value, where, deep)
            else:
                found_here: list[Maybe] = [*objects(expr, frame)]
                yield from found_here or [None]
        if not known:
            yield None


def _is_list(value: ast.expr) -> bool:
    """Whether an expression may give several parameters; `Net()` and `net.weight` give one."""
    if isinstance(value, ast.Call):
        called = value.func
        name = getattr(called, "attr", getattr(called, "id", ""))
        return name in {*_ASKED, *_LISTS, "filter", "chain", "from_iterable"}
    return isinstance(
        value,
        (
            ast.List,
            ast.Tuple,
            ast.BinOp,
            ast.ListComp,
            ast.GeneratorExp,
            ast.Name,
            ast.Attribute,
        ),
    )


def _lists_in(call: ast.Call, program: Program) -> list[ast.expr] | None:
    """`list(a.parameters())`, `itertools.chain(a.parameters(), b.parameters())`."""
    func = call.func
    is_list = isinstance(func, ast.Name) and func.id in _LISTS
    is_chain = (program.canonical(func) or "") in CHAIN
    return call.args if is_list or is_chain else None


def _has_own(one: Found, method: str) -> bool:
    """Whether a class in sight says itself which parameters it has."""
    if one.program is None or one.cls is None:
        return False
    return one.program.graph.method(one.cls, method) is not None


def _asks_gradients(test: ast.expr) -> bool:
    """`p.requires_grad`, of which an optimizer may leave nothing out."""
    body = test.body if isinstance(test, ast.Lambda) else test
    return isinstance(body, ast.Attribute) and body.attr == "requires_grad"


def _takes_all(expr: ast.ListComp | ast.GeneratorExp) -> bool:
    """`[p for p in model.parameters()]`, `[p for _, p in model.named_parameters()]`."""
    one, kept = expr.generators[0], expr.elt
    if isinstance(kept, ast.Dict):
        kept = next(iter(kept.values), kept)
    names = (
        one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
    )
    is_kept = isinstance(kept, ast.Name) and kept.id in {
        n.id for n in names if isinstance(n, ast.Name)
    }
    return (
        len(expr.generators) == 1
        and is_kept
        and all(_asks_gradients(test) for test in one.ifs)
    )


def held(
    one: Found, deep: int = _DEEP, *, runs: bool = False
) -> Iterator[Found]:
    """A module, and what it holds under names of its own that is made elsewhere, or was given;
    `runs`: what is a module, or is called.
    """
    yield one
    if not deep:
        return
    if one.maker in CONTAINERS and one.call is not None:
        for given in one.call.args:
            for part in _elements(given):
                for inner in objects(part, one.frame):
                    yield from held(inner, deep - 1, runs=runs)
    for name, inner in kept_modules(one):
        if one.place.holds(inner.place) and inner.cls is None:
            continue
        if one.is_module and _is_plain(inner):
            continue
        if not runs or inner.is_module or _calls(one, name):
            yield from held(inner, deep - 1, runs=runs)


def _is_plain(one: Found) -> bool:
    """Whether an object is of a class in sight that is none of torch: a module that keeps it has
    nothing of what it keeps itself.
    """
    if one.program is None or one.cls is None:
        return False
    return one.program.values.class_kind(one.cls) is Kind.OBJECT


def _calls(one: Found, name: str) -> bool:
    """Whether the class of an object calls what it keeps under a name, or a method of it."""
    assert one.program is not None
    assert one.cls is not None
    scopes = one.program.module.scopes
    methods = [
        scopes[node]
        for owner in one.program.graph.lineage(one.cls)
        for node in owner.body
        if isinstance(node, FUNCTIONS)
    ]
    return any(
        f"{dotted_name(call.func)}.".startswith(f"{method.self_name}.{name}.")
        for method in methods
        for call in method.calls
    )


def _elements(given: ast.expr) -> list[ast.expr]:
    if isinstance(given, (ast.List, ast.Tuple)):
        return given.elts
    return given.values if isinstance(given, ast.Dict) else [given]


def kept_modules(one: Found) -> Iterator[tuple[str, Found]]:
    """What the class of an object keeps under names of its own."""
    program, cls = one.program, one.cls
    if program is None or cls is None:
        return
    scopes, lineage = program.module.scopes, program.graph.lineage(cls)
    names = dict.fromkeys(n for c in lineage for n in scopes[c].bindings)
    for name in names:
        if name.startswith("self.") and name.count(".") == 1:
            kept = name.removeprefix("self.")
            yield from ((kept, inner) for inner in _attribute(one, kept))


def _attribute(one: Found, name: str) -> Iterator[Found]:
    assert one.program is not None
    bindings = list(attributes(one, name))
    for binding in bindings:
        if binding.index is None and binding.value is not None:
            where = constructing(
                one, one.program.module.scope_of(binding.value)
            )
            yield from objects(binding.value, where, one.place.part(name))


def shares(one: Found, other: Found) -> bool:
    """Whether two modules have parameters in common."""
    mine, its = list(held(one)), list(held(other))
    return any(_meets(a, b, one, other) for a in mine for b in its)


def _meets(a: Found, b: Found, one: Found, other: Found) -> bool:
    """Whether one holds the other. What is only kept may be no module: it is one where an
    optimizer got its parameters, or where its class says so.
    """
    if not (a.place.holds(b.place) or b.place.holds(a.place)):
        return False
    if a.place == b.place:
        return a is one or b is other or a.is_module or b.is_module
    return (a is one or a.is_module) and (b is other or b.is_module)
