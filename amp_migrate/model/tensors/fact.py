"""What is known of a value: the dtypes that it may have, and between which numbers it lies."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import IntEnum

from amp_migrate.flags import Flag, auto
from amp_migrate.model.tensors.bounds import hull
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.ops.row import Bounds


class DType(Flag):
    """Families of dtypes, as far as half precision cares."""

    NONE = 0
    FLOAT16 = auto()
    BFLOAT16 = auto()
    FLOAT = auto()
    """float32; where nothing in sight makes it float64."""
    DOUBLE = auto()
    """float64, made so in sight: `.float()` would round it."""
    INTEGER = auto()
    """Integers and truth values."""
    COMPLEX = auto()
    NUMBER = auto()
    """A Python number."""
    ARRAY = auto()
    """NumPy's: an array, a number, and whatever is made of them."""
    OTHER = auto()
    """No tensor: a string, an object of the project."""
    UNKNOWN = auto()
    """Nothing in sight tells: it may be any of these."""
    HALF = FLOAT16 | BFLOAT16


FLOATING = DType.HALF | DType.FLOAT | DType.DOUBLE
NOT_HALF = DType.FLOAT | DType.INTEGER | DType.OTHER
NO_TENSOR = DType.NUMBER | DType.ARRAY | DType.OTHER
_NUMBERS = DType.NUMBER | DType.ARRAY


class Origin(IntEnum):
    """What a value comes from."""

    NETWORK = 0
    """Out of a layer, or nobody knows."""
    GIVEN = 1
    """With the batch, or it is counted: no network has had a hand in it."""
    SOLVED = 2
    """Out of a decomposition or a solver, whatever that was given; the rotation of a transform."""


class Fact(NamedTuple):
    """What one expression may be."""

    dtypes: DType = DType.UNKNOWN
    elements: tuple[Fact, ...] = ()
    """Of a tuple or list of known length."""
    container: bool = False
    """A list or tuple of tensors, whose dtypes are those of its elements."""
    sparse: bool = False
    bounds: Bounds | None = None
    """Of a container: of each tensor in it."""
    origin: Origin = Origin.NETWORK

    @property
    def is_half(self) -> bool:
        """Whether it is half precision for certain."""
        return (
            bool(self.dtypes)
            and not self.dtypes & ~DType.HALF
            and not self.container
        )

    @property
    def seen_half(self) -> bool:
        """Whether it is half precision on a path in sight."""
        return bool(self.dtypes & DType.HALF) and not self.container

    @property
    def floats_alone(self) -> bool:
        """Whether it is half precision on a path in sight, and no whole number on another, which
        a cast would turn into a fraction.
        """
        others = DType.INTEGER | DType.COMPLEX | DType.DOUBLE | NO_TENSOR
        return self.seen_half and not self.dtypes & others

    @property
    def may_be_half(self) -> bool:
        """Whether nothing in sight excludes half precision."""
        return (
            bool(self.dtypes & (DType.HALF | DType.UNKNOWN))
            and not self.container
        )

    @property
    def may_be_double(self) -> bool:
        """Whether it is float64 on a path in sight."""
        return bool(self.dtypes & DType.DOUBLE)

    @property
    def may_be_tensor(self) -> bool:
        """Whether it may be a floating-point tensor."""
        return bool(self.dtypes & (FLOATING | DType.UNKNOWN))

    @property
    def is_no_tensor(self) -> bool:
        """Whether it is something else than a tensor for certain."""
        return bool(self.dtypes) and not self.dtypes & ~NO_TENSOR

    @property
    def is_array(self) -> bool:
        """Whether it is a number or an array, whose methods and parts are that, too."""
        return (
            bool(self.dtypes)
            and not self.dtypes & ~_NUMBERS
            and not self.container
        )

    def element(self, index: int | None) -> Fact:
        """What unpacking or indexing gives."""
        if self.elements and index is not None and index < len(self.elements):
            return self.elements[index]
        return self._replace(elements=(), container=False)

    def part(self, taken: ast.Slice) -> Fact:
        """What a slice of a list or tuple holds."""
        ends = [taken.lower, taken.upper, taken.step]
        numbers = [
            one.value
            for one in ends
            if isinstance(one, ast.Constant) and isinstance(one.value, int)
        ]
        if len(numbers) < sum(one is not None for one in ends):
            return self._replace(elements=())
        given = iter(numbers)
        places = (None if one is None else next(given) for one in ends)
        return self._replace(elements=self.elements[slice(*places)])


UNKNOWN = Fact()
NUMBER = Fact(DType.NUMBER)
ARRAY = Fact(DType.ARRAY)
OTHER = Fact(DType.OTHER)
INTEGER = Fact(DType.INTEGER)
FLOAT = Fact(DType.FLOAT)
DOUBLE = Fact(DType.DOUBLE)
FLOAT16 = Fact(DType.FLOAT16)
BFLOAT16 = Fact(DType.BFLOAT16)
COMPLEX = Fact(DType.COMPLEX)
ANY_BUT_HALF = Fact(NOT_HALF, origin=Origin.GIVEN)


def join(facts: Iterable[Fact]) -> Fact:
    """What holds of a value that is one of several."""
    found = list(facts)
    if not found:
        return UNKNOWN
    dtypes = DType.NONE
    for fact in found:
        dtypes |= fact.dtypes
    bounds = hull(fact.bounds for fact in found)
    lengths = {len(fact.elements) for fact in found}
    elements = (
        tuple(
            join(parts)
            for parts in zip(*(fact.elements for fact in found), strict=True)
        )
        if len(lengths) == 1
        else ()
    )
    container = any(fact.container for fact in found)
    sparse = any(fact.sparse for fact in found)
    return Fact(dtypes, elements, container, sparse, bounds, origin_of(found))


def beside(found: Fact, added: Fact) -> Fact:
    """What holds of a parameter that callers of other files give something, beside those in sight:
    where there are none of these, it comes from where the others have it.
    """
    both = join([found, added])
    if found != UNKNOWN:
        return both
    is_number = added.is_no_tensor and not added.container
    return both._replace(origin=Origin.GIVEN if is_number else added.origin)


def origin_of(facts: Iterable[Fact]) -> Origin:
    """What the tensors among several values come from together: a rotated point is as exact as the
    rotation, if no network moved it.
    """
    tensors = (one for one in facts if one.dtypes & ~NO_TENSOR or one.origin)
    found = [one.origin for one in tensors]
    return max(found) if found and all(found) else Origin.NETWORK


def of_constant(value: object) -> Fact:
    """What is written in the program: `1j` makes complex what it is multiplied with."""
    if isinstance(value, complex):
        return COMPLEX
    return NUMBER if isinstance(value, (bool, int, float)) else OTHER


def widest(facts: Iterable[Fact]) -> Fact:
    """What is no longer half where one of several is float32, whatever their shapes."""
    found = list(facts)
    made = promoted(found)
    wide = DType.FLOAT | DType.DOUBLE
    if not any(one.dtypes and not one.dtypes & ~wide for one in found):
        return made
    kept = made.dtypes & ~(DType.HALF | DType.UNKNOWN)
    return Fact(kept)


def promoted(facts: Iterable[Fact]) -> Fact:
    """What arithmetic gives: half only of half operands, or beside numbers and single values."""
    dtypes, is_floating = DType.NONE, False
    for fact in facts:
        dtypes |= fact.dtypes
        is_floating |= bool(fact.dtypes & FLOATING) and not (
            fact.dtypes & DType.INTEGER
        )
    tensors = dtypes & ~NO_TENSOR
    if not tensors:
        if dtypes & DType.OTHER or not dtypes:
            return OTHER
        return ARRAY if DType.ARRAY in dtypes else NUMBER
    if DType.COMPLEX in tensors:
        return Fact(DType.COMPLEX | (tensors & DType.UNKNOWN))
    if is_floating:
        tensors &= ~DType.INTEGER
    return Fact(tensors)
