"""Flags as `enum` has them, as numbers: joined, compared and put into sets at the speed of these.

What is known of a tensor's dtype, and what a statement does, are such flags, and are joined for
every node of a program. `enum` searches for the member of a sum each time it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import Flag, auto
else:
    _or, _and = int.__or__, int.__and__

    class auto:  # noqa: N801 - as in `enum`
        """The next power of two."""

    class _Body(dict):
        """The body of a class that defines flags."""

        def __init__(self):
            self.next = 1

        def __setitem__(self, name, value):
            if isinstance(value, auto):
                value, self.next = self.next, 2 * self.next
            super().__setitem__(name, value)

    class _Definition(type):
        @classmethod
        def __prepare__(cls, name, bases):
            return _Body()

        def __new__(meta, name, bases, body):
            flags = {
                name: value
                for name, value in body.items()
                if type(value) is int and not name.startswith("_")
            }
            cls = type.__new__(meta, name, bases, {**body, "__slots__": ()})
            cls._known, cls._all = {}, 0
            for member, value in flags.items():
                setattr(cls, member, cls(value))
                cls._all |= value
            return cls

    class Flag(int, metaclass=_Definition):
        """One flag or several; there is one object for each sum."""

        def __new__(cls, value):
            found = cls._known.get(value)
            if found is None:
                found = cls._known[value] = int.__new__(cls, value)
            return found

        # Joined more often than anything else: known sums are looked up without a call.
        def __or__(self, other):
            value = _or(self, other)
            found = self._known.get(value)
            return type(self)(value) if found is None else found

        def __and__(self, other):
            value = _and(self, other)
            found = self._known.get(value)
            return type(self)(value) if found is None else found

        def __invert__(self):
            return type(self)(self._all ^ int(self))

        def __contains__(self, other):
            return int.__and__(self, other) == other

        def __repr__(self):
            held = vars(type(self)).items()
            names = [
                name
                for name, one in held
                if isinstance(one, Flag) and one and one in self
            ]
            return f"{type(self).__name__}.{'|'.join(names) or 'NONE'}"


__all__ = ["Flag", "auto"]
