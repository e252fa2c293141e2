"""Crossings: little programs made of a part and of a place for it, all parts in all places.

Parts and places stand in `crossings/*.md`, a heading each. A line of a place that says `STEP` is
where the part's block of that name goes; a word that a part or a place defines (`MODEL: self.net`)
is replaced everywhere. `python -m tests.generated.crossing CROSSING [WORD...]` runs a sample, or
all programs whose names hold a word.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.generated import running
from tests.generated.attacking import PRELUDE, outcome
from tests.generated.axes import AXES
from tests.generated.campaign import Judged, guarded, write
from tests.generated.programs import Program

FOLDER = Path(__file__).parent / "crossings"
CROSSINGS = {
    "steps": ("steps", "homes"),
    "devices": ("device_forms", "device_homes"),
    "regions": ("losses", "uses"),
    "flows": ("flows", "demands"),
}
"""The parts and the places of each crossing."""
_BLOCK = re.compile(r"```python *([^\n]*)\n(.*?)```", re.DOTALL)
_NAMED = re.compile(r"# file: (\S+)\n")
_WORD = re.compile(r"^([A-Z_]+): (.*)$", re.MULTILINE)
_LINE = re.compile(r"(?m)^( *)([A-Z_]+)(?: \((.*)\))?\n")
_MADE = re.compile(r"\bMAKE_OPTIMIZER\(([^()]*)\)")


@dataclass(frozen=True)
class Piece:
    """A part or a place: its words, and its blocks by their names."""

    name: str
    words: Mapping[str, str]
    blocks: Mapping[str, str]


def pieces(page: str) -> list[Piece]:
    """Those of a page; the words above its first heading hold for all."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    head, *rest = re.split(r"(?m)^## ", text)
    shared = dict(_WORD.findall(head))
    return [_piece(one, shared) for one in rest]


def _piece(text: str, shared: Mapping[str, str]) -> Piece:
    name, _, rest = text.partition("\n")
    blocks: dict[str, str] = {}
    for label, code in _BLOCK.findall(rest):
        named = _NAMED.match(code)
        blocks[f"FILE {named[1]}" if named else label] = code[named.end() :] if named else code
    words = dict(_WORD.findall(_BLOCK.sub("", rest)))
    return Piece(name.strip(), {**shared, **words}, blocks)


def programs(crossing: str) -> Iterator[tuple[str, Program]]:
    """All programs whose part and place go together."""
    part_page, place_page = CROSSINGS[crossing]
    places = pieces(place_page)
    for part in pieces(part_page):
        for place in places:
            files = _filled(part, place)
            if all(map(_compiles, files.values())):
                yield f"{part.name}-{place.name}", _program(part, files)


def _filled(part: Piece, place: Piece) -> dict[str, str]:
    """The files; a text that is no Python where the part has nowhere to go."""
    blocks = {name: code for name, code in part.blocks.items() if not name.startswith("FILE ")}
    texts = {name.removeprefix("FILE "): code for name, code in place.blocks.items()}
    texts["main.py"] = texts.pop("")
    wanted = {found[1] for code in texts.values() for found in _LINE.findall(code)}
    if "FOR_MODEL" in blocks and "FOR_MODEL" not in wanted:
        blocks["HELPERS"] = blocks.pop("FOR_MODEL") + "\n\n" + blocks.get("HELPERS", "")
    if missing := blocks.keys() - wanted:
        return {"main.py": f"no place for {missing}"}
    words = {**part.words, **place.words}
    files = {name: _worded(_put(code, blocks), words) for name, code in texts.items()}
    files["main.py"] = _prelude(words) + files["main.py"]
    others = {n[5:]: code for n, code in part.blocks.items() if n.startswith("FILE ")}
    return {**others, **files}


def _put(code: str, blocks: Mapping[str, str]) -> str:
    def put(found: re.Match[str]) -> str:
        indent, name, arguments = found.groups()
        block = blocks.get(name, "")
        for at, argument in enumerate((arguments or "").split(", "), 1):
            block = block.replace(f"${at}", argument)
        room = "\n\n" if block and not indent and name in ("HELPERS", "FOR_MODEL") else ""
        return re.sub(r"(?m)^(?=.)", indent, block) + room

    return _LINE.sub(put, code)


def _worded(code: str, words: Mapping[str, str]) -> str:
    def made(found: re.Match[str]) -> str:
        return words["MAKE_OPTIMIZER"].replace("NET", found[1])

    code = _MADE.sub(made, code) if "MAKE_OPTIMIZER" in words else code
    for word, text in words.items():
        code = re.sub(rf"\b{word}\b", lambda _, text=text: text, code)  # type: ignore[misc]
    return code


def _prelude(words: Mapping[str, str]) -> str:
    if words.get("OWN_DEVICE") != "yes":
        return PRELUDE
    return re.sub(r"(?m)^device = .*\n", "", PRELUDE)


def _compiles(text: str) -> bool:
    try:
        compile(text, "main.py", "exec")
    except SyntaxError:
        return False
    return True


def _program(part: Piece, files: dict[str, str]) -> Program:
    spec = {axis: choices[0] for axis, choices in AXES.items()}
    if "ON_CPU" in part.words:
        spec["device_form"] = "cpu_object"
    return Program(spec, files, "main.py", tuple(part.words.get("CPU_ARGUMENTS", "").split()))


def sample(crossing: str, count: int, seed: str) -> list[tuple[str, Program]]:
    """Some programs of a crossing: the same for the same seed."""
    found = [*programs(crossing)]
    return random.Random(seed).sample(found, min(count, len(found)))


def right(one: Judged) -> bool:
    """Whether nothing is wrong: it is migrated without a fault, or left alone."""
    return not one.verdict.faults and one.verdict.status != "failed"


def told(one: Judged) -> str:
    """A line about a program."""
    verdict = one.verdict
    parts = [one.seed, outcome(verdict), *(reason[:140] for reason in verdict.reasons)]
    parts += [f"{fault.check}: {fault.detail[-220:]}" for fault in verdict.faults]
    return " | ".join(parts)


def main() -> int:
    """Tell about each program, and count what they end as."""
    options = _options()
    running.prepare()
    chosen = sample(options.crossing, options.count, options.seed)
    if options.words:
        chosen = [p for p in programs(options.crossing) if any(w in p[0] for w in options.words)]
    counts: Counter[str] = Counter()
    for name, program in chosen:
        one = Judged(name, program, guarded(program))
        counts["ok " if right(one) else "BAD", outcome(one.verdict)] += 1
        print("ok " if right(one) else "BAD", told(one), flush=True)
        if options.output and not (right(one) and one.verdict.status == "migrated"):
            write(one, Path(options.output), name)
    print(*(f"{number:5} {' '.join(kind)}" for kind, number in counts.most_common()), sep="\n")
    return int(any(kind[0] == "BAD" for kind in counts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.generated.crossing")
    parser.add_argument("crossing", choices=CROSSINGS)
    parser.add_argument("words", nargs="*", help="all programs whose names hold one of these")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--output", help="a folder for what is wrong or refused")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
