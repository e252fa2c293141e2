"""What a name is that may hold any of several values."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.values.kinds import UNKNOWN, Kind, Value
from amp_migrate.torch_facts.optimizers import optimizer

_SPECIAL = (Kind.WRAPPER, Kind.FOREIGN_OPTIMIZER)
_MODULES = (Kind.MODEL, Kind.CRITERION)
_OBJECTS = (Kind.OBJECT, Kind.WRAPPER)


def joined(graph: CallGraph, values: Iterable[Value]) -> Value:
    """What a name is that may hold any of `values`."""
    known = [v for v in values if v]
    telling = [v for v in known if v.kind is not Kind.OTHER]
    scaler = _scaler(graph, telling)
    if scaler is not None:
        return scaler
    special = [v for v in telling if v.kind in _SPECIAL]
    if special:
        # `optimizer = Noam(optimizer)` is a wrapper from then on; AMP can
        # be off for an optimizer that says that it is of second order.
        first = min(special, key=_is_marked)
        return first._replace(mixed=_are_several(telling))
    kinds = {v.kind for v in telling}
    if {Kind.DEVICE, Kind.DEVICE_NAME} <= kinds:
        return next(
            v for v in telling if v.kind is Kind.DEVICE_NAME
        )  # what reads a name reads a device as well
    if Kind.OPTIMIZER in kinds and kinds & {Kind.OBJECT, Kind.SCHEDULER}:
        return _stepped(graph, telling)
    if differ(telling) or _are_several(telling):
        return telling[0]._replace(mixed=True)
    if telling:
        return _of_classes(telling)
    return known[0] if known else UNKNOWN


def _of_classes(values: list[Value]) -> Value:
    """The first, with those of other classes where it is a model."""
    first = values[0]
    if first.kind not in _MODULES or len(values) < 2:
        return first
    models = [
        each._replace(others=())
        for one in values
        if one.kind in _MODULES
        for each in (one, *one.others)
    ]
    named = {_make(one): one for one in reversed(models) if any(_make(one))}
    named.pop(_make(first), None)
    return first._replace(others=tuple(named.values()))


def _stepped(graph: CallGraph, values: list[Value]) -> Value:
    """An optimizer or something else: a step is the optimizer's, where the
    other has none; what has a step of its own is no optimizer to a scaler.
    """
    for one in values:
        if one.kind is not Kind.OPTIMIZER and _has_step(graph, one):
            return one._replace(kind=Kind.WRAPPER, mixed=True)
    made = next(v for v in values if v.kind is Kind.OPTIMIZER)
    return made._replace(mixed=True)


def _scaler(graph: CallGraph, values: list[Value]) -> Value | None:
    """A GradScaler or a class of the project that stands in for it where AMP is off."""
    found = next((v for v in values if v.kind is Kind.SCALER), None)
    others = [v for v in values if v.kind is not Kind.SCALER]
    if found is None or not others:
        return None
    stand_in = all(_has_method(graph, v, "scale") for v in others)
    return found._replace(mixed=True) if stand_in else None


def _has_step(graph: CallGraph, value: Value) -> bool:
    """Whether an object has a `step` of its own; a scheduler has."""
    if value.kind is not Kind.OBJECT:
        return value.kind is Kind.SCHEDULER
    return _has_method(graph, value, "step")


def _has_method(graph: CallGraph, value: Value, name: str) -> bool:
    home = graph
    cls = value.cls
    if value.foreign is not None:
        program, cls = value.foreign
        home = program.graph
    if cls is None:
        return False
    return home.method(cls, name) is not None


def differ(values: list[Value]) -> bool:
    """Whether optimizers are of several classes, not all of them a library's."""
    found = [v for v in values if v.kind is Kind.OPTIMIZER]
    mixed = any(v.mixed for v in found)
    foreign = not all(map(_is_library_class, found))
    makes = set(map(_make, found))
    if not (mixed or foreign):
        return False
    return mixed or len(makes) > 1


def _make(value: Value) -> tuple[object, ...]:
    """What tells the class of an object from another."""
    name = value.name
    cls = _class(value)
    return name, cls


def _class(value: Value) -> ast.ClassDef | None:
    """The class of an object, in whichever file it stands."""
    cls = value.cls
    if value.foreign is not None:
        cls = cls or value.foreign[1]
    return cls


def _are_several(values: list[Value]) -> bool:
    """Whether objects are of several classes of the project."""
    found = [v for v in values if v.kind in _OBJECTS]
    if any(v.mixed for v in found):
        return True
    classes = set(map(_class, found))
    return len(classes) > 1


def _is_library_class(value: Value) -> bool:
    """Whether an optimizer is of a class that a library has."""
    name = value.name or ""
    last = name.rpartition(".")[2]
    if _class(value) is not None:
        return False
    if not last[:1].isupper():
        return False
    row = optimizer(value.name)
    return row is not None


def _is_marked(value: Value) -> bool:
    """Whether an optimizer's library says that it scales in a way of its own."""
    row = optimizer(value.name)
    return row is not None and row.marked
