"""What a device may be written as, and which devices an expression may name."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.flags import Flag, auto
from amp_migrate.records import NamedTuple


class Form(Flag):
    """The types that a device may be written as."""

    DEVICE = auto()
    STRING = auto()
    INDEX = auto()
    NONE = auto()
    UNKNOWN = auto()
    UNSEEN = auto()
    """The parameter of a function that nothing in sight calls."""


class DeviceValue(NamedTuple):
    """The forms that an expression may have, and the devices that it may name."""

    form: Form
    names: frozenset[str] = frozenset()
    """`cuda`, `cpu`, `cuda:` with an index; those that are in sight."""
    closed: bool = True
    """Whether `names` are all."""

    @property
    def is_device(self) -> bool:
        return self.form is Form.DEVICE

    @property
    def is_string(self) -> bool:
        return self.form is Form.STRING

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU by every definition."""
        named = bool(self.names) and self.names <= {"cpu", "cpu:"}
        return self.closed and named and not self.form & ~NAMED


NAMED = Form.DEVICE | Form.STRING


UNKNOWN = DeviceValue(Form.UNKNOWN, closed=False)
UNSEEN = DeviceValue(Form.UNSEEN, closed=False)


def of_constant(value: object) -> DeviceValue:
    """`"cuda:0"`, `0`, `None`."""
    if isinstance(value, str):
        head, colon, _ = value.partition(":")
        return DeviceValue(Form.STRING, frozenset({head + colon}))
    if value is None:
        return DeviceValue(Form.NONE)
    return DeviceValue(Form.INDEX) if isinstance(value, int) else UNKNOWN


def of_formatted(expr: ast.JoinedStr) -> DeviceValue:
    """`f"cuda:{rank}"`"""
    first = expr.values[0] if expr.values else None
    if isinstance(first, ast.Constant) and ":" in str(first.value):
        return DeviceValue(
            Form.STRING, frozenset({str(first.value).partition(":")[0] + ":"})
        )
    return DeviceValue(Form.STRING, closed=False)


def bare_names(names: frozenset[str]) -> frozenset[str]:
    """The names without the colon of an index."""
    return frozenset(name.rstrip(":") for name in names)


def present(value: DeviceValue) -> DeviceValue:
    """What is left where `x or y` takes `x`."""
    return DeviceValue(value.form & ~Form.NONE, value.names, value.closed)


def either(values: Iterable[DeviceValue]) -> DeviceValue:
    """What a name may be that holds any of `values`."""
    form, names, closed = Form(0), frozenset[str](), True
    for value in values:
        form |= value.form
        names |= value.names
        closed &= value.closed
    return DeviceValue(form, names, closed) if form else UNKNOWN


def may_be_cpu(value: DeviceValue) -> bool:
    """Whether it is not proved to be something else than the CPU."""
    return not value.closed or any(
        name.rstrip(":") == "cpu" for name in value.names
    )
