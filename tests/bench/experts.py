"""How far amp-migrate agrees with people who gave a whole project AMP by hand.

`python -m tests.bench.experts NAME@COMMIT=FOLDER...` takes the AMP out of a copy of each checkout
(`expert_plain`), migrates what is left, and compares with the original, event by event: which
backward is scaled, which step goes through the scaler, which clip sees unscaled gradients, and
which of the statements that people put under autocast in training stand under it again. It prints a
Markdown table and every difference with its place in the original. Nothing is run.
"""

from __future__ import annotations

import argparse
import ast
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.checkouts import Checkout, checkout, report, table
from tests.bench.expert_events import Event, Seen, events, reached
from tests.bench.expert_plain import Names, names_of, plain

KINDS = ("backward", "step", "clip")
HEADER = ("Repository", "Commit", "Backward", "Step", "Clip", "Autocast")


@dataclass
class Compared:
    """One repository: how often we agree, out of how many, and each difference."""

    place: Checkout
    agreed: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def row(self) -> tuple[object, ...]:
        """Its line in the table."""
        shares = (f"{self.agreed[k]} of {self.total[k]}" for k in (*KINDS, "autocast"))
        return (self.place.name, f"`{self.place.commit}`", *shares)


def main(args: Sequence[str] | None = None) -> None:
    """Print the table, what it comes to, and the differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="+", type=checkout, metavar="[NAME@COMMIT=]FOLDER")
    parser.add_argument("--keep", type=Path, help="a folder for the migrated programs")
    ours = parser.parse_args(args)
    results = [compared(place, ours.keep) for place in ours.places]
    print(*table(HEADER, (result.row() for result in results)), "", *shares(results), sep="\n")
    print("", *(line for result in results for line in result.differences), sep="\n")


def shares(results: Sequence[Compared]) -> Iterator[str]:
    """Agreement over all repositories."""
    for what, kinds in (("backward, step and clip", KINDS), ("autocast", ("autocast",))):
        agreed = sum(result.agreed[kind] for result in results for kind in kinds)
        total = sum(result.total[kind] for result in results for kind in kinds)
        yield f"- {what}: {agreed} of {total}: {agreed / max(total, 1):.2f}"


def compared(place: Checkout, keep: Path | None = None) -> Compared:
    """Erase, migrate and compare one project."""
    theirs = _texts(place.folder)
    names = names_of([ast.parse(text) for text in theirs.values()])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) if keep is None else keep / place.name.replace("/", "+")
        _write(home, {path: plain(text, names) for path, text in theirs.items()})
        told = report("migrate", "--output-format", "json", str(home))
        ours = _texts(home)
    return _differ(place, _seen(theirs, names), _seen(ours, _own(ours)), _reasons(told, home))


def _texts(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.rglob("*.py")):
        try:
            text = file.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
        except (SyntaxError, UnicodeDecodeError):
            continue
        found[str(file.relative_to(folder))] = text
    return found


def _write(home: Path, texts: Mapping[str, str]) -> None:
    """The files of a clone, which shows where its root is: `lib/` may be on the search path."""
    (home / ".git").mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")


def _own(texts: Mapping[str, str]) -> Names:
    return names_of([ast.parse(text) for text in texts.values()])


def _seen(texts: Mapping[str, str], names: Names) -> dict[str, Seen]:
    return {path: events(text, names) for path, text in texts.items()}


def _reasons(told: dict[str, Any], home: Path) -> dict[tuple[str, str], str]:
    """Why a loop was left alone, by file and scope."""
    return {
        (str(Path(file["path"]).relative_to(home)), loop["scope"]): f"{loop['reason']}: "
        f"{loop['message']}"
        for file in told["files"]
        for loop in file["loops"]
        if loop["status"] != "migrated"
    }


def _differ(
    place: Checkout,
    theirs: dict[str, Seen],
    ours: dict[str, Seen],
    reasons: dict[tuple[str, str], str],
) -> Compared:
    found = Compared(place)
    reached(ours)
    steps = _steps(theirs)
    trained = _trained(theirs, steps)
    for path, seen in theirs.items():
        mine = ours.get(path, Seen())
        for event, amp in seen.amp.items():
            kind = "autocast" if event.kind == "statement" else event.kind
            also = mine.amp.get(event, False)
            at = (path, event.scope)
            counts = amp and at in trained if kind == "autocast" else amp or also and at in steps
            if not counts:
                continue
            found.total[kind] += 1
            found.agreed[kind] += amp == also
            if amp != also:
                why = reasons.get((path, event.scope), "")
                found.differences.append(_told(place, path, seen.lines[event], event, amp, why))
    return found


def _steps(files: dict[str, Seen]) -> set[tuple[str, str]]:
    """Scopes in which people scale a loss."""
    return {
        (path, event.scope)
        for path, seen in files.items()
        for event, amp in seen.amp.items()
        if amp and event.kind == "backward"
    }


def _trained(files: dict[str, Seen], steps: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Scopes that scale a loss, what they call, and those that call them."""
    names = {_name(scope) for _, scope in steps}
    called = {name for at, calls in _calls(files) if at in steps for name in calls}
    inner = {at for at, _ in _calls(files) if at[1].rpartition(".")[2] in called}
    outer = {at for at, calls in _calls(files) if calls & names}
    return {at for at in steps | inner | outer if at[1] not in files[at[0]].evaluation}


def _calls(files: dict[str, Seen]) -> Iterator[tuple[tuple[str, str], set[str]]]:
    for path, seen in files.items():
        for event, calls in seen.calls.items():
            yield (path, event.scope), calls


def _name(scope: str) -> str:
    """What a call of the scope ends in: the function's name, or an object with `__call__`."""
    owner, _, name = scope.rpartition(".")
    return "loss_scaler" if name == "__call__" and owner else name


def _told(place: Checkout, path: str, line: int, event: Event, amp: bool, why: str) -> str:
    who = "theirs only" if amp else "ours only"
    reason = f" ({why})" if why else ""
    return f"- {place.name} {path}:{line} {event.scope}: {event.kind} `{event.text}` {who}{reason}"


if __name__ == "__main__":
    main()
