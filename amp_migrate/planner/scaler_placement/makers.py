"""The statements that make an optimizer: bindings of its name, or of an attribute in its class, in
the bases and in the heirs.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    is_abstract,
    returned,
)
from amp_migrate.model.syntax.queries import calls_in, is_none
from amp_migrate.model.values.call_values import is_property
from amp_migrate.model.values.stored_attributes import stored_values
from amp_migrate.planner.refusal import Refusal, what_was_read
from amp_migrate.planner.scaler_placement.callers import refuse_unlinked
from amp_migrate.planner.scaler_placement.handed_back import (
    made_before,
    makes_it,
)
from amp_migrate.planner.scaler_placement.lifetimes import refuse_fitting
from amp_migrate.planner.scaler_placement.set_later import without_later
from amp_migrate.planner.scaler_placement.unconstructed import (
    refuse_unconstructed,
)
from amp_migrate.project.module_graph import Project


def makers(
    program: Program, name: str, home: Scope, optimizers: list[ast.expr]
) -> list[Binding]:
    """The statements that make an optimizer (or the object that owns it)."""
    bindings = [
        b
        for b in home.bindings[name.partition(".")[0]]
        if not is_none(b.value) and b.how != "augmented"
    ]
    bindings = _reaching(program, name, home, optimizers, bindings)
    made = [b for b in bindings if b.how != "parameter"]
    bindings = made or bindings  # callers give none where the body makes it
    bindings = [b for b in bindings if makes_it(program, b, name)] or bindings
    here = [b for b in bindings if program.module.scope_of(b.statement) is home]
    bindings = (
        here or bindings
    )  # rebound elsewhere under `global`: the scaler made here serves that optimizer too
    refuse_fitting(program, home, here)
    if not bindings or any(b.how not in ("assign", "with") for b in bindings):
        raise _unmade(program, name, bindings, optimizers[0])
    return bindings


def _unmade(
    program: Program, name: str, bindings: list[Binding], node: ast.expr
) -> Refusal:
    """The reason where no statement makes an optimizer."""
    why = (
        f"nothing in {what_was_read(program)} makes `{name}`: name the files that "
        "it comes from too"
    )
    loops = [b.statement for b in bindings if isinstance(b.statement, ast.For)]
    if loops and len(loops) == len(bindings):
        why = (
            f"`{name}` is taken from `{ast.unparse(loops[0].iter)}`, which was not followed to "
            "what makes it: step each optimizer by a name of its own"
        )
    return Refusal("optimizer-not-in-sight", node, why)


def _reaching(
    program: Program,
    name: str,
    home: Scope,
    optimizers: list[ast.expr],
    bindings: list[Binding],
) -> list[Binding]:
    """Those that reach the steps, where these stand in the body that makes the optimizer: a script
    may give one name to the optimizers of several loops.
    """
    stepped = [o for o in optimizers if dotted_name(o) == name]
    written = all(one in program.module.parents for one in stepped)
    if "." in name or not written:
        return bindings
    if any(program.module.scope_of(one) is not home for one in stepped):
        return bindings
    found = {b for o in stepped for b in program.reaching.at(o, name).bindings}
    made_before(program, found, name)
    return [b for b in bindings if b in found] or bindings


def attribute_makers(
    program: Program,
    project: Project,
    name: str,
    cls: ast.ClassDef,
    scope: Scope,
) -> list[Binding]:
    """The statements that set `self.<attribute>` in the class, its bases and its heirs."""
    if not program.attributes.takes(cls, "scaler"):
        raise Refusal(
            "unsupported-shape",
            cls,
            f"the scaler belongs beside `{name}`, and `{cls.name}` takes no new attributes: add "
            "one for it to its fields",
        )
    stored = _behind_property(program, cls, name.split(".")[1], scope)
    refuse_unlinked(program, project, cls, stored)
    refuse_unconstructed(program, cls, stored)
    attribute = f"self.{stored}"
    made = _by_lineage(program, cls, attribute) or _by_heirs(
        program, cls, attribute
    )
    if not made and _is_in_body(program, cls, stored):
        raise kept_by_class(name, scope.node)
    if not made:
        raise Refusal(
            "optimizer-not-in-sight",
            scope.node,
            f"`{name}` is set in no class in sight (a base class elsewhere, or the caller, sets "
            "it)",
        )
    real = [b for b in made if makes_it(program, b, attribute)]
    nones = [b for b in made if real and is_none(b.value)]
    return without_later(program, [*real, *nones] or made)


def _is_in_body(program: Program, cls: ast.ClassDef, name: str) -> bool:
    """`class Trainer: optimizer = ...`"""
    scopes = program.module.scopes
    return any(
        one.how == "assign" and not is_none(one.value)
        for owner in program.graph.lineage(cls)
        for one in scopes[owner].bindings.get(name, ())
    )


def kept_by_class(name: str, node: ast.AST) -> Refusal:
    """All objects of a class share its optimizer, and would not share a scaler."""
    return Refusal(
        "optimizer-not-in-sight",
        node,
        f"`{name}` is kept by the class itself, for all of its objects: make it where "
        "one is made",
    )


def _by_lineage(
    program: Program, cls: ast.ClassDef, attribute: str
) -> list[Binding]:
    """What a class or a base of it sets, and their heirs: what a class rebuilds, a base of it may
    have made. Other heirs of the base run other loops, and have its scaler where they run its
    constructor.
    """
    lineage = program.graph.lineage(cls)
    owners = [owner for owner in lineage if _sets(program, owner, attribute)]
    if not owners:
        return []
    own = program.graph.heirs(cls)
    others = [
        one
        for one in program.graph.heirs(owners[0])
        if one not in own
        and not _runs_maker(
            program, one, owners[0], _sets(program, owners[0], attribute)
        )
    ]
    family = dict.fromkeys([*own, *others, *owners])
    return [b for one in family for b in _sets(program, one, attribute)]


def _runs_maker(
    program: Program,
    heir: ast.ClassDef,
    base: ast.ClassDef,
    made: list[Binding],
) -> bool:
    """Whether an heir's constructor runs that of a base, where an attribute is `made`."""
    makers = (program.module.scope_of(one.statement).node for one in made)
    if not any(getattr(one, "name", "") == "__init__" for one in makers):
        return False
    lineage = program.graph.lineage(heir)
    between = lineage[: lineage.index(base)] if base in lineage else []
    return all(map(_hands_on, between))


def _hands_on(cls: ast.ClassDef) -> bool:
    """Whether a class has no constructor, or one that calls that of its base."""
    own = [
        one
        for one in cls.body
        if isinstance(one, FUNCTIONS) and one.name == "__init__"
    ]
    return all(
        any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "__init__"
            for call in calls_in(one)
        )
        for one in own
    )


def _by_heirs(
    program: Program, cls: ast.ClassDef, attribute: str
) -> list[Binding]:
    """What each of the classes sets of which objects of this one are made; where the attribute is
    None, nothing can step it.
    """
    graph = program.graph
    heirs = [h for h in graph.heirs(cls) if h is not cls]
    leaves = [h for h in heirs if graph.heirs(h) == [h]]
    made = {
        id(o): _sets(program, o, attribute)
        for h in leaves
        for o in graph.lineage(h)
    }
    found = [b for bindings in made.values() for b in bindings]
    lacking = [
        leaf
        for leaf in leaves
        if not any(made[id(o)] for o in graph.lineage(leaf))
    ]
    if not found or not lacking:
        return found
    return _beside_none(program, leaves, lacking, attribute, found)


def _beside_none(
    program: Program,
    leaves: list[ast.ClassDef],
    lacking: list[ast.ClassDef],
    attribute: str,
    found: list[Binding],
) -> list[Binding]:
    """What sets an attribute to None for classes that lack it, since these run what asks for the
    scaler, too; and what sets it for those that do not run that. Empty where callers may set it.
    """
    scopes, lineage = program.module.scopes, program.graph.lineage
    bases = dict.fromkeys(o for leaf in lacking for o in lineage(leaf))
    idle = {o: scopes[o].bindings.get(attribute, []) for o in bases}
    idle = {o: made for o, made in idle.items() if made}
    known = {id(b.value) for b in found}
    stored = stored_values(program, attribute.partition(".")[2])
    settled = all(is_none(v) or id(v) in known for v, _ in stored)
    if not settled or any(idle.keys().isdisjoint(lineage(o)) for o in lacking):
        return []
    shared = all(
        any(
            o in lineage(leaf) and _runs_maker(program, leaf, o, made)
            for o, made in idle.items()
        )
        for leaf in leaves
    )
    nones = [b for made in idle.values() for b in made]
    return nones if shared else [*found, *nones]


def _behind_property(
    program: Program, cls: ast.ClassDef, name: str, scope: Scope
) -> str:
    """The attribute that a property hands out; the name itself where it is no property."""
    method = program.graph.method(cls, name)
    if method is None or not is_property(method):
        return name
    methods = _filled_in(program, cls, method)
    stored = {_stored(program, one) for one in methods}
    if len(stored) == 1 and (only := stored.pop()):
        return only
    lazy = any(_makes_it(program, one) for one in methods)
    what = "hands out what is no attribute of the object itself"
    remedy = "keep the optimizer in one"
    if lazy:
        what = "makes the optimizer when it is first read"
        remedy = "make it where the object is made"
    raise Refusal(
        "optimizer-not-in-sight",
        scope.node,
        f"`self.{name}` is a property that {what} (line {methods[0].lineno}): {remedy}",
    )


def _filled_in(
    program: Program, cls: ast.ClassDef, method: Function
) -> list[Function]:
    """A property; of an abstract one, what the heirs make of it."""
    if not is_abstract(method):
        return [method]
    found = [
        program.graph.method(one, method.name)
        for one in program.graph.heirs(cls)
    ]
    own = [one for one in found if one is not None and not is_abstract(one)]
    return list(dict.fromkeys(own)) or [method]


def _stored(program: Program, method: Function) -> str | None:
    """The attribute of the object that a property hands out."""
    names = {dotted_name(value) or "" for value in returned(method)}
    head, _, rest = names.pop().partition(".") if len(names) == 1 else ("",) * 3
    plain = head == program.scope(method).self_name and "." not in rest
    return rest if plain and rest and not _makes_it(program, method) else None


def _makes_it(program: Program, method: Function) -> bool:
    """Whether a property sets what it hands out."""
    inner = program.scope(method)
    names = {dotted_name(value) or "" for value in returned(method)}
    rest = names.pop().partition(".")[2] if len(names) == 1 else ""
    made = (
        inner.owner.bindings.get(f"self.{rest}", [])
        if inner.owner is not None
        else []
    )
    return any(program.module.scope_of(b.statement) is inner for b in made)


def _sets(program: Program, cls: ast.ClassDef, attribute: str) -> list[Binding]:
    bindings = program.module.scopes[cls].bindings.get(attribute, [])
    return [b for b in bindings if b.how == "assign" and not is_none(b.value)]
