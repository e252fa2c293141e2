"""Positions in a notebook, by cell and line."""

from __future__ import annotations

from amp_migrate.display import place
from amp_migrate.outcome import FileOutcome, LoopOutcome, Note
from amp_migrate.project.notebook_cells import Places, is_separator, separator, split

DIGEST = "0123456789ab"
TEXT = f"{separator(2, DIGEST)}\na = 1\nb = 2\n{separator(5, DIGEST)}\nc = 3\n"


def test_places() -> None:
    places = Places.of(TEXT)
    assert [places.at(line) for line in (1, 2, 3, 4, 5)] == [(2, 1), (2, 1), (2, 2), (5, 1), (5, 1)]
    assert [places.line(2, 2), places.line(5, 1)] == [3, 5]
    assert (
        places.told("line 3 meets line 5: online 4")
        == "cell 2, line 2 meets cell 5, line 1: online 4"
    )
    assert Places.of("x = 1\n").at(1) == (1, 1)


def test_split() -> None:
    assert split(TEXT) == [(2, "a = 1\nb = 2\n"), (5, "c = 3\n")]
    assert split("") == []
    assert split("    " + TEXT) == [(5, "c = 3\n")]
    assert is_separator(separator(3, DIGEST))
    assert not is_separator('"%% cell 3"')


def test_outcomes() -> None:
    loop = LoopOutcome(5, "<module>", "refused", "notebook", "line 3: no")
    outcome = Places.of(TEXT).outcome(
        FileOutcome("a.ipynb", "refused", (loop,), (Note(3, 4, "see line 5"),))
    )
    assert outcome.loops == (
        LoopOutcome(1, "<module>", "refused", "notebook", "cell 2, line 2: no", cell=5),
    )
    assert outcome.notes == (Note(2, 4, "see cell 5, line 1", cell=2),)


def test_errors() -> None:
    places = Places.of(TEXT)

    def told(error: str | None) -> str | None:
        return places.outcome(FileOutcome("a.ipynb", "failed", error=error)).error

    assert told("a.ipynb:3:1: wrong") == "a.ipynb:cell 2:2:1: wrong"
    assert told("a.ipynb:5: `x` of line 2") == "a.ipynb:cell 5:1: `x` of cell 2, line 1"
    assert told("a.ipynb: cannot be read") == "a.ipynb: cannot be read"
    assert told(None) is None


def test_a_place_as_it_is_shown() -> None:
    assert place("a.py", 3) == "a.py:3"
    assert place("a.py", 3, 4) == "a.py:3:4"
    assert place("a.ipynb", 3, 4, 2) == "a.ipynb:cell 2:3:4"
