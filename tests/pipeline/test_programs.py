"""Files in company: which join, what becomes of the others, and which are written together."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.model import budget
from amp_migrate.outcome import FileOutcome, FileStatus, LoopOutcome
from amp_migrate.pipeline import programs
from amp_migrate.pipeline.grouping import conflicts, joined
from amp_migrate.pipeline.one_file import Rewritten
from amp_migrate.pipeline.programs import MOST_FILES, Together, rewrite_together
from amp_migrate.project.errors import SourceError
from amp_migrate.project.module_graph import Project

Write = Callable[..., Path]


@dataclass(frozen=True)
class Joint:
    outcomes: Mapping[str, FileOutcome]
    company: tuple[str, ...] = ()


@dataclass
class Migrator:
    """Tells files apart by the words in them, and remembers what it was given."""

    rounds: list[list[str]] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    """What it was asked the company of."""

    def __call__(
        self, texts: Mapping[str, str], settings: Settings, project: Project, **_: object
    ) -> Joint:
        self.rounds.append([Path(path).name for path in texts])
        everything = " ".join(texts.values())
        for word, error in (
            ("DEEP", RecursionError()),
            ("CRASH", RuntimeError("seen CRASH")),
            ("STOP", KeyboardInterrupt()),
        ):
            if word in everything:
                raise error
        company, done = self.wanted(texts, project)
        outcomes = {path: self.outcome(path, text, done) for path, text in texts.items()}
        if "FAILS" in everything and len(texts) > 1:
            outcomes = {
                path: FileOutcome(path, "failed", error=f"{path}: left as it is") for path in texts
            }
        return Joint(outcomes, company)

    def company_of(
        self, texts: Mapping[str, str], settings: Settings, project: Project
    ) -> tuple[str, ...]:
        self.asked.append([Path(path).name for path in texts])
        return self.wanted(texts, project)[0]

    def wanted(self, texts: Mapping[str, str], project: Project) -> tuple[tuple[str, ...], bool]:
        wants = [
            line.removeprefix("# wants ")
            for text in texts.values()
            for line in text.splitlines()
            if "wants" in line
        ]
        here = {Path(path).name for path in texts}
        company = tuple(
            real
            for real in project.writable
            if Path(real).name in wants and Path(real).name not in here
        )
        return company, set(wants) <= here

    def outcome(self, path: str, text: str, done: bool) -> FileOutcome:
        if "nothing" in text:
            return FileOutcome(path, "unchanged")
        if not done and "own" not in text:
            return FileOutcome(
                path, "refused", (LoopOutcome(1, "fit", "refused", "step-elsewhere", "who steps?"),)
            )
        return FileOutcome(
            path, "migrated", (LoopOutcome(1, "fit", "migrated"),), output=text + "# done\n"
        )


@pytest.fixture
def migrator(monkeypatch: pytest.MonkeyPatch) -> Migrator:
    module = types.ModuleType("amp_migrate.pipeline.migrate")
    found = Migrator()
    module.migrate_texts = found  # type: ignore[attr-defined]
    module.company_of = found.company_of  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "amp_migrate.pipeline.migrate", module)
    return found


def project(*paths: Path) -> Project:
    return Project({}, {str(path.resolve()): str(path) for path in paths})


def together(asked: Path | list[Path], *others: Path) -> Together:
    paths = asked if isinstance(asked, list) else [asked]
    return rewrite_together([str(path) for path in paths], Settings(), project(*paths, *others))


def statuses(program: Together) -> dict[str, str]:
    return {Path(real).name: one.outcome.status for real, one in program.members.items()}


# -- rounds


def test_a_file_that_needs_no_other_is_alone(migrator: Migrator, write: Write) -> None:
    path = write("a.py", "loop\n")
    program = together(path, write("b.py", "loop\n"))
    assert migrator.rounds == [["a.py"]]
    [[real, one]] = program.members.items()
    assert (real, one.before, one.after) == (str(path.resolve()), b"loop\n", b"loop\n# done\n")
    assert not program.needed


def test_company_joins_round_by_round(migrator: Migrator, write: Write) -> None:
    files = [
        write("a.py", "# wants b.py\n"),
        write("b.py", "# wants c.py\n"),
        write("c.py", "loop\n"),
    ]
    program = together(files[0], *files[1:])
    assert migrator.asked == [["a.py", "b.py"], ["a.py", "b.py", "c.py"]]
    assert migrator.rounds == [["a.py"], ["a.py", "b.py", "c.py"]]
    assert statuses(program) == {"a.py": "migrated", "b.py": "migrated", "c.py": "migrated"}
    assert program.needed


def test_rounds_end(migrator: Migrator, write: Write) -> None:
    files = [write(f"{number}.py", f"# wants {number + 1}.py\n") for number in range(20)]
    program = together(files[0], *files[1:])
    assert len(migrator.asked) == programs._ROUNDS
    assert len(migrator.rounds) == 2
    assert set(statuses(program).values()) == {"refused"}


@pytest.mark.parametrize(("steps", "rounds", "done"), [(40, 7, "refused"), (80, 9, "migrated")])
def test_rounds_cost_together_what_the_last_may(
    migrator: Migrator,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
    rounds: int,
    done: str,
) -> None:
    """Ten steps a file and a round; where they are too many, each file is planned alone."""

    def company_of(
        texts: Mapping[str, str], settings: Settings, around: Project
    ) -> tuple[str, ...]:
        for _ in range(10 * len(texts)):
            budget.spend()
        return migrator.company_of(texts, settings, around)

    monkeypatch.setattr(sys.modules["amp_migrate.pipeline.migrate"], "company_of", company_of)
    monkeypatch.setattr(programs, "for_program", lambda texts: steps * len(texts))
    files = [write(f"{number}.py", f"# wants {number + 1}.py\n") for number in range(9)]
    files.append(write("9.py", "loop\n"))
    program = together(files[0], *files[1:])
    assert statuses(program)["0.py"] == done
    assert len(migrator.asked) + (done == "refused") == rounds


def test_a_library_joins_nobody(migrator: Migrator, write: Write) -> None:
    first = write("a.py", "".join(f"# wants {number}.py\n" for number in range(MOST_FILES)))
    others = [write(f"{number}.py", "loop\n") for number in range(MOST_FILES)]
    assert statuses(together(first, *others)) == {"a.py": "refused"}
    assert migrator.rounds == [["a.py"], ["a.py"]]  # once more: what asks is refused
    first.write_text("".join(f"# wants {number}.py\n" for number in range(MOST_FILES - 1)))
    assert set(statuses(together(first, *others)).values()) == {"migrated"}


def test_company_in_vain(migrator: Migrator, write: Write) -> None:
    """What was asked for stays as it was alone; that is told, for those who want nothing else
    rewritten.
    """
    program = together(
        write("a.py", "# wants b.py\n# wants gone.py\n"), write("b.py", "own_loop\n")
    )
    assert statuses(program) == {"a.py": "refused", "b.py": "migrated"}
    assert not program.needed


def test_what_stays_as_it_is_holds_no_bytes(migrator: Migrator, write: Write) -> None:
    program = together([write("a.py", "nothing\n"), write("b.py", "# wants gone.py\n")])
    assert statuses(program) == {"a.py": "unchanged", "b.py": "refused"}
    assert [(one.before, one.after) for one in program.members.values()] == [(b"", b""), (b"", b"")]


def test_company_that_was_not_named_is_not_rewritten(migrator: Migrator, write: Write) -> None:
    first, second = write("a.py", "# wants b.py\n"), write("b.py", "loop\n")

    real = str(second.resolve())
    seen = []

    def migrate(
        texts: Mapping[str, str], settings: Settings, project: Project, **_: object
    ) -> Joint:
        found = migrator(texts, settings, project)
        seen.append(len(texts))
        return Joint(found.outcomes, (real,))

    sys.modules["amp_migrate.pipeline.migrate"].migrate_texts = migrate  # type: ignore[attr-defined]
    program = rewrite_together([str(first)], Settings(), project(first))
    assert seen == [1, 2, 1]
    assert statuses(program) == {"a.py": "refused"}


# -- what goes wrong


@pytest.mark.parametrize(
    "content", [b"def f(:\n", b"\xff\n", b"x\0", b"# coding: klingon\nx\n", None]
)
def test_files_that_cannot_be_read_or_parsed_join_nothing(
    migrator: Migrator, write: Write, content: bytes | None
) -> None:
    other = write("b.py", content or b"")
    if content is None:
        other.unlink()
    program = together(write("a.py", "# wants b.py\n"), other)
    assert statuses(program) == {"a.py": "refused"}
    assert migrator.rounds == [["a.py"]]


@pytest.mark.parametrize("word", ["FAILS", "CRASH", "DEEP"])
def test_company_that_fails_leaves_what_was_migrated_before(
    migrator: Migrator, write: Write, word: str
) -> None:
    files = [write("a.py", "own_loop\n# wants b.py\n"), write("b.py", f"{word}\n")]
    program = together(files[0], files[1])
    assert migrator.rounds == [["a.py"], ["a.py", "b.py"]]
    assert statuses(program) == {"a.py": "migrated"}


def test_company_that_fails_is_told_where_it_was_asked_for(
    migrator: Migrator, write: Write
) -> None:
    program = together(write("a.py", "# wants b.py\n"), write("b.py", "FAILS\n"))
    [one] = program.members.values()
    assert (one.outcome.status, one.after) == ("failed", b"")


def test_what_was_planned_with_a_file_that_cannot_be_written_is_not_written(
    migrator: Migrator, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that passes what the other would have taken, for one."""
    caller, called = write("caller.py", "# wants called.py\n"), write("called.py", "own\n")
    assert statuses(together(caller, called)) == {"caller.py": "migrated", "called.py": "migrated"}
    settle = programs.settled

    def settled(outcome: FileOutcome) -> FileOutcome:
        if outcome.path.endswith("called.py"):
            raise SourceError("nothing encodes it")
        return settle(outcome)

    monkeypatch.setattr(programs, "settled", settled)
    assert statuses(together(caller, called)) == {"caller.py": "refused"}


@pytest.mark.parametrize(
    ("word", "told"),
    [("CRASH", "internal error (RuntimeError: seen CRASH)"), ("DEEP", "nested too deeply")],
)
def test_a_mishap_is_told_of_the_first_and_leaves_the_others(
    migrator: Migrator, write: Write, word: str, told: str
) -> None:
    nested = f"{word}{' + 1' * 2_000}\n"
    program = together([write("a.py", nested), write("b.py", "loop\n")])
    first, second = program.members.values()
    assert told in str(first.outcome.error)
    assert (first.internal is not None) == (word == "CRASH")
    assert (second.outcome.status, second.after) == ("unchanged", b"")


def test_an_interrupt_is_none_of_the_files(migrator: Migrator, write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        together(write("a.py", "STOP\n"))


def test_a_file_that_is_gone_costs_the_program(migrator: Migrator, write: Write) -> None:
    gone = write("a.py", "loop\n")
    gone.unlink()
    program = together([write("b.py", "loop\n"), gone])
    assert statuses(program) == {"b.py": "unchanged", "a.py": "failed"}
    assert migrator.rounds == []


# -- several programs that share files


def one(path: str, status: FileStatus, after: str = "", loops: int = 0) -> Rewritten:
    outcome = FileOutcome(
        path, status, tuple(LoopOutcome(n, "f", "refused", "r", "m") for n in range(loops))
    )
    return Rewritten(outcome, b"old", after.encode())


def program(**files: str) -> Together:
    """Members by name: the new content, or a lone `-` for a file that stays as it is."""
    return Together(
        {
            name: one(name, "unchanged") if new == "-" else one(name, "migrated", new)
            for name, new in files.items()
        }
    )


def test_no_conflict() -> None:
    assert conflicts([]) == []
    assert conflicts([program(a="1"), program(b="2"), program(a="-", c="3")]) == []
    assert conflicts([program(a="1", b="2"), program(a="1", c="3")]) == []


def test_a_larger_program_that_holds_the_smaller_one_wins() -> None:
    large, small = program(a="2", b="1"), program(a="1")
    assert conflicts([large, small]) == conflicts([small, large]) == []
    for order in ([large, small], [small, large]):
        results, chains = joined(order)
        assert {real: r.after for real, r in results.items()} == {"a": b"2", "b": b"1"}
        assert chains == [["a", "b"]]


def test_a_program_that_calls_what_another_gives_a_parameter_is_planned_with_it() -> None:
    plain, given = "def f(a): pass", "def f(a, scaler): pass"
    first = signed(plain, a="1", engine=given)
    second = program(b="1", engine="-")
    [group] = conflicts([first, second])
    assert len(group) == 2
    assert conflicts([first, program(b="-", engine="-")])
    assert conflicts([first, program(engine="-")]) == []  # nothing was planned with it
    large = signed(plain, a="1", b="1", engine=given)
    assert conflicts([large, program(b="-", engine="-")]) == []  # it has seen all of them
    assert conflicts([signed(plain, a="1", engine="def f(a): a.float()"), second]) == []


def signed(before: str, **files: str) -> Together:
    """The same, of files that were `before`."""
    members = program(**files).members
    old = before.encode()
    return Together({name: replace(one, before=old) for name, one in members.items()})


def test_conflicting_programs_are_grouped() -> None:
    first, second, third = program(a="1", b="1"), program(b="2", c="2"), program(c="3", d="3")
    apart = program(x="1"), program(y="1", z="1")
    [group] = conflicts([first, apart[0], second, apart[1], third])
    assert {id(p) for p in group} == {id(first), id(second), id(third)}
    groups = conflicts([first, second, program(x="1", y="1"), program(y="2", z="2")])
    assert sorted(len(group) for group in groups) == [2, 2]


def test_a_conflict_behind_a_program_that_agrees_with_both() -> None:
    """The middle one agrees with the first and is covered by the last; the first and the last
    still disagree.
    """
    first, middle, last = program(a="1", b="1"), program(a="1"), program(a="2", c="2")
    [group] = conflicts([first, middle, last])
    assert {id(first), id(last)} <= {id(p) for p in group}


def test_the_same_files_in_another_order_that_came_out_differently() -> None:
    assert len(conflicts([program(a="1", b="1"), program(b="2", a="2")])) == 1


def test_programs_that_agree_are_written_as_one() -> None:
    results, chains = joined([program(a="1", b="1"), program(b="1", c="1"), program(x="1")])
    assert sorted(sorted(chain) for chain in chains) == [["a", "b", "c"], ["x"]]
    assert set(results) == {"a", "b", "c", "x"}


def test_a_program_that_ties_two_chains_makes_them_one() -> None:
    tied = [
        program(a="1", b="1", c="-", d="-"),
        program(e="1", f="1", g="-"),
        program(b="1", e="1"),
    ]
    results, chains = joined(tied)
    assert [sorted(chain) for chain in chains] == [["a", "b", "e", "f"]]
    assert results["c"].outcome.status == "unchanged"


def test_every_chain_is_written_once() -> None:
    _, chains = joined([program(a="1", b="1"), program(a="1", b="1"), program(b="1")])
    assert [sorted(chain) for chain in chains] == [["a", "b"]]


def test_what_tells_most_is_told() -> None:
    quiet, loud = (
        Together({"a": one("a", "unchanged")}),
        Together({"a": one("a", "refused", loops=2), "b": one("b", "unchanged")}),
    )
    for order in ([quiet, loud], [loud, quiet]):
        assert len(joined(order)[0]["a"].outcome.loops) == 2
    failed = Together({"a": one("a", "failed")})
    assert joined([loud, failed])[0]["a"].outcome.status == "failed"
    migrated = program(a="1", c="1", d="1")
    assert joined([loud, migrated, failed])[0]["a"].outcome.status == "migrated"
