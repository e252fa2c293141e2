"""Right programs in many shapes, each with the mistakes that one edit makes of it.

A heading begins a program; each block below it, ```` ```python train.py ````, is one of its files.
As it stands it is right, and lint says nothing. Comments at the ends of its lines make variants,
each named for the rule that must report it (`rule/2` is a second one for the same rule):

- `# without: A, B`: the line is left out
- `# instead: A: code`: the line becomes this code
- `# then: A: code`, `# before: A: code`: code behind or before the line
- `# deeper: A`, `# flatter: A`: the line is indented by one level more, or less
- `# blamed: A`: the finding's line; without it, each line of new code is one. `# blamed: A>B` is
  a finding of rule B in the variant A
- `# missed: A`: this variant is not found yet
- `# same: A`: the variant is right as well, and lint must stay silent

`\\n` in code begins another line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .projects import LittleProject

if TYPE_CHECKING:
    from pathlib import Path

_HEADING = re.compile(r"(?m)^## (.+)$")
_FILE = re.compile(r"(?ms)^```python ([\w/.]+)\n(.*?)^```[ \t]*$")
_WORDS = "without|instead|then|before|deeper|flatter|blamed|missed|same"
_DIRECTIVE = re.compile(rf"[ \t]*# ({_WORDS}): ")
_LEVEL = "    "


@dataclass(frozen=True)
class Edit:
    """What one comment says of a line."""

    word: str
    variant: str
    code: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the right program, and its edits."""

    text: str
    edits: tuple[Edit, ...]


def variants(path: Path) -> list[LittleProject]:
    """Each program of a file as it stands, and each of its variants."""
    text = path.read_text(encoding="utf-8")
    heads = [*_HEADING.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    found: list[LittleProject] = []
    for head, end in zip(heads, ends, strict=True):
        files = {
            name: [_line(line) for line in body.splitlines()]
            for name, body in _FILE.findall(text[head.end() : end])
        }
        names = {
            edit.variant: None for lines in files.values() for line in lines for edit in line.edits
        }
        found += [_variant(head[1], files, name) for name in ("", *names)]
    return found


def _line(line: str) -> Line:
    text, *rest = _DIRECTIVE.split(line)
    edits: list[Edit] = []
    for word, what in zip(rest[::2], rest[1::2], strict=True):
        if word in {"instead", "then", "before"}:
            name, _, code = what.partition(": ")
            edits.append(Edit(word, name, code))
        else:
            for name in what.split(","):
                variant, _, rule = name.strip().partition(">")
                edits.append(Edit(word, variant, rule=rule))
    return Line(text, tuple(edits))


def _variant(title: str, files: dict[str, list[Line]], name: str) -> LittleProject:
    main = name.partition("/")[0]
    texts: list[tuple[str, str]] = []
    blamed: set[tuple[str, int, str]] = set()
    added: set[tuple[str, int, str]] = set()
    words: set[str] = set()
    for file, lines in files.items():
        out: list[str] = []
        for line in lines:
            own = [edit for edit in line.edits if edit.variant == name]
            words |= {edit.word for edit in own}
            for text, is_new in _edited(line.text, own):
                out.append(text)
                added |= {(file, len(out), main)} if is_new else set()
                blamed |= {(file, len(out), e.rule or main) for e in own if e.word == "blamed"}
        texts.append((file, "".join(text + "\n" for text in out)))
    expected = frozenset() if "same" in words else frozenset(blamed or added)
    is_missed = "missed" in words
    return LittleProject(
        f"{title}: {name}" if name else title,
        "",
        tuple(texts),
        frozenset() if is_missed else expected,
        expected if is_missed else frozenset(),
    )


def _edited(text: str, edits: list[Edit]) -> list[tuple[str, bool]]:
    indent = text[: len(text) - len(text.lstrip())]
    before: list[tuple[str, bool]] = []
    here, behind = [(text, False)], list[tuple[str, bool]]()
    for edit in edits:
        code = [(indent + one, True) for one in edit.code.split("\\n")]
        match edit.word:
            case "without":
                here = []
            case "instead":
                here = code
            case "then":
                behind += code
            case "before":
                before += code
            case "deeper":
                here = [(_LEVEL + one, new) for one, new in here]
            case "flatter":
                here = [(one.removeprefix(_LEVEL), new) for one, new in here]
    return before + here + behind
