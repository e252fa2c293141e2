"""What a rewrite changed, told construct by construct, with the reason.

The changed lines come from comparing the two texts, so none is left out: what no construct explains
is told by the line itself. The constructs are those that `rewrite.writer` writes, by their form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from amp_migrate.outcome import Change
from amp_migrate.project.line_diff import opcodes
from amp_migrate.records import NamedTuple

_QUOTED = 60
_ALIKE = 0.5
"""From how much likeness on an added line is an old one changed."""


class Construct(NamedTuple):
    """One thing that a rewrite writes; `form` finds it in an added line."""

    kind: str
    form: re.Pattern[str]
    what: str
    why: str
    beside: bool = False
    """Whether the line may hold another one too."""

    @property
    def told(self) -> tuple[str, str, str]:
        """What a `Change` says of it."""
        return self.kind, self.what, self.why


def _construct(kind: str, form: str, what: str, why: str) -> Construct:
    return Construct(kind, re.compile(form), what, why)


# In this order; the first that fits explains a line.
CONSTRUCTS = (
    _construct(
        "float32",
        r"\bautocast\(.*\benabled=False\b",
        "part of it kept in float32",
        "half precision would overflow or lose digits here",
    ),
    _construct(
        "autocast",
        r"^(async )?with\b.*\bautocast\(|^@.*\bautocast\(",
        "forward and loss put under autocast",
        "operations run in half precision where that is safe, else in float32",
    ),
    _construct(
        "scaler",
        r"=.*\bGradScaler\(",
        "gradient scaler made",
        "multiplies the loss, at first by 65,536: else small gradients vanish",
    ),
    _construct(
        "optional scaler",
        r"^if \S+ is None:",
        "scaler made optional: callers that pass none stay in float32",
        "callers that pass no scaler stay in float32",
    ),
    _construct(
        "unscale",
        r"\.unscale_\(",
        "gradients unscaled",
        "what reads or clips gradients needs their true size, unscaled",
    ),
    _construct(
        "scale",
        r"\.scale\(.*\.backward\(|\.backward\(.*\.scale\(",
        "loss scaled before backward",
        "makes the gradients large enough for float16, by the scaler's factor",
    ),
    _construct(
        "checkpoint",
        r"\.state_dict\(\)|\.load_state_dict\(|\.get\(",
        "scaler's state saved or restored with the checkpoint",
        "a resumed run goes on with the scale that it had found",
    ),
    _construct(
        "step",
        r"\.step\([^)]",
        "optimizer stepped by the scaler",
        "divides the gradients again, and skips the step where they overflowed",
    ),
    _construct(
        "update",
        r"\.update\(\)",
        "scale updated",
        "halves the factor after an overflow, doubles it after 2,000 good steps",
    ),
    _construct(
        "scheduler",
        r"\.get_scale\(\)",
        "scheduler stepped only where the optimizer has stepped",
        "a factor that has dropped tells of a skipped step",
    ),
    _construct(
        "switch",
        r"^\w*(amp|dtype)\w* = ",
        "switch of mixed precision computed",
        "one name turns all of mixed precision on or off",
    ),
    _construct(
        "custom function",
        r"\bcustom_(fwd|bwd)\b",
        "custom autograd function told how to run under autocast",
        "autocast does not see into a custom function",
    ),
    _construct(
        "import", r"^(import|from) ", "import added", "the new lines need it"
    ),
    Construct(
        "float32",
        re.compile(r"\.float\(\)"),
        "value cast to float32",
        "half precision would overflow, lose digits or be refused here",
        beside=True,
    ),
    _construct(
        "argument",
        r"\b(\w+)=(\w+\.)*\1\b",
        "scaler passed on",
        "the scaler goes wherever its optimizer goes",
    ),
)
_PARAMETER = Construct(
    "parameter",
    re.compile(r"^(async )?def |^\w+( ?= ?None)?(,|\).*:)?$|^\*,$"),
    "parameter added",
    "the scaler goes wherever its optimizer goes",
)
_STATEMENTS = re.compile(r";\s+")
_OLD_NAMES = re.compile(
    r"\b(torch\.(cuda|cpu)\.amp|apex)\b|\bamp\.(initialize|scale_loss)\b"
)
_RENAMED = Construct(
    "renamed",
    _OLD_NAMES,
    "old name replaced by today's",
    "PyTorch has deprecated the old name",
)


class Found(NamedTuple):
    """A construct, and the lines where it is: of the original, and of the rewritten text."""

    construct: Construct
    line: int
    new_line: int


def changes(before: str, after: str) -> tuple[Change, ...]:
    """Everything that differs between two texts of a module, in the order of `before`'s lines."""
    found: dict[Change, None] = {}
    for run in _runs(before, after):
        known = [
            Change(one.line, *one.construct.told) for one in run.constructs()
        ]
        found.update(dict.fromkeys(known or run.quoted()))
    return tuple(found)


def constructs(before: str, after: str) -> Iterator[Found]:
    """What of AMP a rewrite brought in."""
    for run in _runs(before, after):
        yield from run.constructs()


def _runs(before: str, after: str) -> Iterator[_Run]:
    # Not `splitlines`: form feeds and the like end no line of Python's. A line that only moved to
    # the right, below a `with`, is the same line.
    old = [line.strip() for line in before.split("\n")]
    new = [line.strip() for line in after.split("\n")]
    for tag, low, high, start, end in opcodes(old, new):
        if tag != "equal":
            yield _Run(
                tuple(old[low:high]), tuple(new[start:end]), low + 1, start + 1
            )


class _Run(NamedTuple):
    """Lines that differ, without their indentation, and where they start."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    first: int
    new_first: int

    def constructs(self) -> Iterator[Found]:
        """What explains the added lines."""
        at = 0
        for number, line in enumerate(self.new):
            origin = _origin(line, self.old, at)
            at = at if origin is None else origin + 1
            was = "" if origin is None else self.old[origin]
            where = min(at if origin is None else origin, len(self.old))
            for one in () if line == was else _known(line, was):
                yield Found(one, self.first + where, self.new_first + number)

    def quoted(self) -> Iterator[Change]:
        """The same for lines that are none of AMP's constructs, by the first of them; new
        indentation needs no word of its own.
        """
        gone = [line for line in self.old if line and line not in self.new]
        come = [line for line in self.new if line and line not in self.old]
        if gone and come:
            what = f"`{_short(gone[0])}` became `{_short(come[0])}`"
        elif gone or come:
            what = f"`{_short((gone or come)[0])}` was {'taken out' if gone else 'added'}"
        else:
            return
        yield Change(self.first, "other", what, "the lines around it need it")


def _short(line: str) -> str:
    return line if len(line) <= _QUOTED else line[: _QUOTED - 4] + " ..."


def _origin(line: str, old: Sequence[str], start: int) -> int | None:
    """Which removed line an added one was; None where it is new."""
    likeness = {
        number: SequenceMatcher(None, old[number], line).ratio()
        for number in range(start, len(old))
    }
    best = max(likeness, key=lambda number: likeness[number], default=None)
    return best if best is not None and likeness[best] > _ALIKE else None


_NAME_MORE = re.compile(r",? ?(\*, )?\b\w+( ?= ?None)?")


def _has_one_name_more(line: str, was: str) -> bool:
    """`epochs: int, scaler) -> None:` was `epochs: int) -> None:`; an argument says `name=`."""
    return was != "" and any(
        line[: one.start()] + line[one.end() :] == was
        for one in _NAME_MORE.finditer(line)
        if one.group().strip(" ,") and line[one.end() :].startswith((")", ","))
    )


def _has_same_head(line: str, was: str) -> bool:
    """`def f(x): return g(x)`, where only what stands behind the colon has changed."""
    head, colon, _ = line.partition("):")
    return bool(colon) and head == was.partition("):")[0]


def _known(line: str, was: str) -> Iterator[Construct]:
    """What explains that `was`, empty where there was nothing, became `line`."""
    if not line or line.startswith("#"):
        return
    if _OLD_NAMES.search(was) and not _OLD_NAMES.search(line):
        yield _RENAMED
    if not _has_same_head(line, was) and (
        _PARAMETER.form.search(line) or _has_one_name_more(line, was)
    ):
        yield _PARAMETER
        return
    for statement in _STATEMENTS.split(line):
        yield from _explaining(statement, line, was)


def _explaining(statement: str, line: str, was: str) -> Iterator[Construct]:
    for one in CONSTRUCTS:
        more = len(one.form.findall(line)) > len(one.form.findall(was))
        if more and one.form.search(statement):
            yield one
            if not one.beside:
                return
