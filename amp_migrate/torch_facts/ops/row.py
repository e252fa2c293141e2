"""What a row says of one operator, in all its spellings."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, TypeAlias

from amp_migrate.flags import Flag, auto
from amp_migrate.records import NamedTuple

Policy: TypeAlias = Literal["lower", "fp32", "promote", "banned", "keeps"]
"""What CUDA's autocast does to the operands: cast them to the region's dtype (`lower`) or to
float32, to the widest among them (`promote`), raise (`banned`), or leave them alone (`keeps`).

Of a composite operator, it is what comes of the operators that it is made of: `cross_entropy` is
`fp32` because `log_softmax` is.
"""

Result: TypeAlias = Literal[
    "same", "real", "complex", "tuple", "values", "either", "like", "default", "data", "cast",
    "float32", "double", "half", "int", "bool", "number", "array",
]  # fmt: skip
"""The dtype of what comes out.

- `same`: of the operands, after the policy; `tuple`: of each element; `values`: of the first
  element, beside indices; `either`: that with a `dim`, else `same`; `real`: the real counterpart of
  the operands'; `complex`: the complex one
- `like`: of the tensor that the method or first argument is, which autocast does not touch
- `default`: float32 unless `dtype=` says otherwise; `data`: of the Python or NumPy data
- `cast`: what the arguments say; `float32`, `double`, `half`, `int`, `bool`: always that
- `number`: a Python object, no tensor; `array`: one of NumPy
"""


class Trait(Flag):
    """How the range of the values is dealt with."""

    NONE = 0
    LOG = auto()
    """Infinite at zero (or at another edge of its domain)."""
    DIVIDES = auto()
    """Infinite where the divisor is zero."""
    SQRT = auto()
    """Its gradient is infinite at zero."""
    SATURATES = auto()
    """Rounds to the edge of its bounds in half: `sigmoid(9.)` is 1 in float16."""
    REDUCES = auto()
    """Adds up many values, beyond 65504 where they are not small."""
    SQUARES = auto()
    """Squares values: beyond 65504 from 256 on, and zero below 2 ** -13."""
    COMPLEX = auto()
    """Takes complex numbers, of which `.float()` would drop a part."""
    FOURIER = auto()
    """In half precision only for sizes that are powers of two."""
    STEEP = auto()
    """Its gradient is infinite where it ends, at 1, so that all depends on what is left to it."""
    TURNS = auto()
    """An angle of two values: its gradient divides by the sum of their squares."""
    INVERTS = auto()
    """Gives an inverse, whose products are small differences of large terms."""
    DRAWS = auto()
    """Draws noise in the dtype of its operand, and takes its logarithm: half draws zeros."""
    WIDEST = auto()
    """Gives the widest dtype of its operands, also of those without dimensions."""
    WINDOWED = auto()
    """Multiplies by its `window` first, so that a float32 one makes all of it float32."""
    PICKS = auto()
    """Gives values of its operands, and no others."""
    GROWS = auto()
    """Grows as a power of e does: beyond 65504 from 12 on at the latest."""


class Kernels(Flag):
    """Which kernels CUDA has for half precision."""

    NONE = 0
    HALF = auto()
    HALF_BACKWARD = auto()
    BFLOAT16 = auto()


ALL: Final = Kernels.HALF | Kernels.HALF_BACKWARD | Kernels.BFLOAT16
NONE: Final = Kernels.NONE
NO_BACKWARD: Final = Kernels.HALF | Kernels.BFLOAT16
NO_BFLOAT16: Final = Kernels.HALF | Kernels.HALF_BACKWARD

Bounds: TypeAlias = tuple[float, float]
INFINITY: Final = float("inf")
UNIT: Final[Bounds] = (0.0, 1.0)
SIGNED_UNIT: Final[Bounds] = (-1.0, 1.0)
NON_NEGATIVE: Final[Bounds] = (0.0, INFINITY)

EVERY: Final = "every"


class Op(NamedTuple):
    """One operator.

    `spellings` are separated by spaces: `t.x` is `torch.x`, `F.x` is `torch.nn.functional.x`, `L.x`
    is `torch.linalg.x`, `S.x` is `torch.special.x`, another dotted name stands below `torch`, and
    `.x` is a method or attribute of a tensor, in place if it ends in an underscore. `*` stands for
    the function and the method called like the operator, `*_` for its in-place form as well. An
    in-place method has a function of the same name (`torch.relu_`), which needs no entry.
    """

    name: str
    spellings: str
    policy: Policy = "keeps"
    result: Result = "same"
    kernels: Kernels = ALL
    tensors: tuple[int, ...] | Literal["every"] = (0,)
    """Places of the operands whose dtype counts, in the function form; a method's tensor is 0."""
    sequence: bool = False
    """The first argument is a list or tuple of tensors."""
    own_dtype: bool = False
    """A `dtype=` that the caller gives wins over the policy."""
    strict: int | Literal["every"] | None = None
    """Operand that must have the dtype of the first one (in place, with `out=`, or at all)."""
    sparse: bool = False
    """Gives a sparse tensor."""
    dense: bool = False
    """Gives a dense tensor, of a sparse one, too."""
    always_breaks: bool = False
    """Multiplies matrices inside, in half, and raises there whatever it is given."""
    constants: tuple[tuple[int, str], ...] = ()
    """Arguments that are turned into the tensor's dtype: place in the function form, and name."""
    float_parameters: tuple[tuple[int, str], ...] = ()
    """Arguments that must be float32 though the first operand may be half: place and name."""
    bounds: Bounds | None = None
    """Between which numbers the result lies."""
    nested: tuple[int, ...] = ()
    """Which of the values that it gives are tuples of tensors again."""
    traits: Trait = Trait.NONE
    aten: str | None = None
    """Names in the dispatcher, where they are not the row's own."""
    removed: str = ""
    """The torch version without it."""

    @property
    def functions(self) -> tuple[str, ...]:
        """The dotted names of its functions."""
        return _spelled(self.name, self.spellings)[0]

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its methods."""
        return _spelled(self.name, self.spellings)[1]

    @property
    def dispatcher_names(self) -> tuple[str, ...]:
        """The names of its overload packets in the dispatcher."""
        if self.aten is not None:
            return tuple(self.aten.split())
        return (self.name.removeprefix("nn.functional.").replace(".", "_"),)


_HEADS = {
    "t": "torch",
    "F": "torch.nn.functional",
    "L": "torch.linalg",
    "S": "torch.special",
}


def _canonical(word: str) -> str:
    head, _, last = word.rpartition(".")
    return f"{_HEADS.get(head, 'torch.' + head)}.{last}"


@cache
def _spelled(
    name: str, spellings: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The functions and the methods that spellings stand for."""
    words = spellings.split()
    last = name.rpartition(".")[2]
    star = words[0] if words[0].startswith("*") else ""
    if star:
        words[:1] = [
            f"t.{last}",
            f".{last}",
            *([f".{last}_"] if star == "*_" else []),
        ]
    methods = tuple(word[1:] for word in words if word.startswith("."))
    return (
        tuple(_canonical(word) for word in words if not word.startswith(".")),
        methods,
    )
