"""Named tuples as `typing` has them, whose definition costs a tenth.

The hook on one file defines a hundred of them at its start. `typing` compiles a constructor and a
type for each field of each; here a constructor is compiled once for each number of fields, and its
parameters are called after the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    import functools
    from collections import _tuplegetter
    from types import FunctionType

    class _Record(tuple):
        """What all of them can do."""

        __slots__ = ()

        def __repr__(self):
            pairs = zip(self._fields, self, strict=True)
            inner = ", ".join(f"{name}={value!r}" for name, value in pairs)
            return f"{type(self).__name__}({inner})"

        def __getnewargs__(self):
            return tuple(self)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes):
            made = type(self)(*map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"unexpected field names: {list(changes)!r}")
            return made

    @functools.cache
    def _constructor(count):
        names = [f"_{number}" for number in range(count)]
        parameters = ", ".join(["_cls", *names])
        values = "".join(f"{name}, " for name in names)
        source = f"lambda {parameters}: _new(_cls, ({values}))"
        return eval(source).__code__  # noqa: S307 - no text of others

    _NEEDED = {"_new": tuple.__new__}

    class _Definition(type):
        """What `class Name(NamedTuple)` calls."""

        def __new__(meta, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {f: body[f] for f in fields if f in body}
            code = _constructor(len(fields)).replace(
                co_varnames=("_cls", *fields)
            )
            for number, field in enumerate(fields):
                body[field] = _tuplegetter(number, None)
            body["__slots__"] = ()
            body["__match_args__"] = body["_fields"] = fields
            body["_field_defaults"] = defaults
            body["__new__"] = FunctionType(
                code, _NEEDED, "__new__", tuple(defaults.values())
            )
            return type(name, (_Record,), body)

    class NamedTuple:
        """A base that is replaced when the class is made."""

        def __mro_entries__(self, bases):
            return (_BASE,)

    _BASE = type.__new__(_Definition, "NamedTuple", (), {})
    NamedTuple = NamedTuple()

__all__ = ["NamedTuple"]
