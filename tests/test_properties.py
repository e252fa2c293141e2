"""Programs of every shape, and programs that nobody would write: what holds for all of them."""

from __future__ import annotations

import ast
import copy
import math
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.migrate import migrate_text
from tests.harness.worker import Trace, Worker
from tests.loops import Shape, program, shapes

options = st.builds(
    Settings,
    dtype=st.sampled_from(["float16", "float16", "bfloat16", "auto"]),
    target_torch=st.sampled_from([None, None, (2, 0)]),
    eval=st.booleans(),
    guard_scheduler=st.booleans(),
    switch=st.none(),  # a program of these shapes has no configuration to add an option to
)
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


DEFAULTS = Settings()


def migrate(text: str, chosen: Settings = DEFAULTS) -> FileOutcome:
    return migrate_text(text, "program.py", chosen)


def backward_scopes(text: str) -> set[int]:
    """The lines of the functions (0 for the module) that call `backward`."""
    found: set[int] = set()

    def visit(node: ast.AST, scope: int) -> None:
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            found.add(scope)
        inner = node.lineno if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else scope
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(ast.parse(text), 0)
    return found


@few
@given(shapes, options)
def test_every_shape_is_migrated(shape: Shape, chosen: Settings) -> None:
    text = program(shape)
    outcome = migrate(text, chosen)
    assert outcome.error is None, outcome.error
    assert [loop.status for loop in outcome.loops] == ["migrated"] * len(backward_scopes(text)), (
        outcome.loops
    )
    assert outcome.output is not None
    ast.parse(outcome.output)


@few
@given(shapes, options)
def test_a_second_run_changes_nothing(shape: Shape, chosen: Settings) -> None:
    output = migrate(program(shape), chosen).output
    assert output is not None
    again = migrate(output, chosen)
    assert again.output is None
    assert again.status == "unchanged"
    assert {loop.reason for loop in again.loops} == {"already-amp"}


@few
@given(shapes)
def test_lines_that_are_not_the_loops_stay_as_they_are(shape: Shape) -> None:
    text = program(shape)
    output = migrate(text).output
    assert output is not None
    ends = {"\r\n"} if shape.newline == "\r\n" else {"\n"}
    assert {
        line[len(line.rstrip("\r\n")) :] for line in output.splitlines(keepends=True)[:-1]
    } == ends
    assert output.endswith(shape.newline) == bool(shape.end)
    kept = iter([line.strip() for line in output.splitlines()])
    quiet = [
        line.strip() for line in text.splitlines() if not any(word in line for word in TOUCHED)
    ]
    assert all(line in kept for line in quiet)


TOUCHED = ("backward", "step", "train(", "fit(", "save(", "criterion(")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker()) as process:
        yield process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


runnable = shapes.filter(lambda shape: shape.device != "cuda")


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runnable, st.sampled_from(["float16", "float16", "bfloat16"]))
def test_it_computes_the_same_with_amp_off_and_keeps_the_protocol_with_amp_on(
    worker: Worker, folder: Path, shape: Shape, dtype: str
) -> None:
    text = program(shape)
    output = migrate(text, Settings(dtype=dtype)).output
    assert output is not None
    before, after = (
        run(worker, folder, name, source, "off")
        for name, source in (("before", text), ("after", output))
    )
    assert before.losses
    assert (after.loss_digests, after.parameters) == (before.loss_digests, before.parameters)
    on = run(worker, folder, "on", output, "on")
    assert on.violations == []
    assert all(math.isfinite(loss) for loss in on.losses)
    assert on.autocast_dtypes == [dtype]
    if dtype == "float16":
        assert on.calls["scale"] == on.calls["backward"] == len(before.losses)


def run(worker: Worker, folder: Path, name: str, source: str, mode: str) -> Trace:
    path = folder / f"{name}.py"
    path.write_bytes(source.encode())
    trace = worker.run(path, "on" if mode == "on" else "off")
    assert trace.error is None, trace.error
    return trace


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A program with statements deleted, doubled or moved, and names swapped."""
    tree = ast.parse(program(draw(shapes)))
    chance = random.Random(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(1, 4))):
        chance.choice((_delete, _double, _move, _swap_names, _unwrap))(tree, chance)
    return ast.unparse(ast.fix_missing_locations(tree))


def _blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse")]
    return [block for block in found if isinstance(block, list) and block]


def _delete(tree: ast.AST, chance: random.Random) -> None:
    block = chance.choice(_blocks(tree))
    block[chance.randrange(len(block))] = ast.Pass()


def _double(tree: ast.AST, chance: random.Random) -> None:
    source, target = chance.choice(_blocks(tree)), chance.choice(_blocks(tree))
    target.insert(chance.randrange(len(target) + 1), copy.deepcopy(chance.choice(source)))


def _move(tree: ast.AST, chance: random.Random) -> None:
    block = chance.choice(_blocks(tree))
    chance.shuffle(block)


def _swap_names(tree: ast.AST, chance: random.Random) -> None:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    one, other = chance.choice(names), chance.choice(names)
    one.id, other.id = other.id, one.id


def _unwrap(tree: ast.AST, chance: random.Random) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if calls:
        call = chance.choice(calls)
        call.func, call.args = (
            (call.args[0], []) if call.args else (ast.Name("model", ast.Load()), call.args)
        )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken(), options)
def test_any_program_ends_with_a_decision_about_every_loop(text: str, chosen: Settings) -> None:
    outcome = migrate(text, chosen)
    assert "does not parse" not in (outcome.error or "")
    assert (outcome.output is None) == (outcome.status != "migrated")
    assert all(loop.reason and loop.message for loop in outcome.loops if loop.status != "migrated")
    if outcome.output is not None:
        ast.parse(outcome.output)


@settings(max_examples=50, deadline=None)
@given(st.text(st.sampled_from("backwrd.step()=:\n\t \"'\\#[]{}xf0éif\x00\r\f"), max_size=60))
def test_any_text_ends_with_a_decision(text: str) -> None:
    outcome = migrate_text(f"{text}\nloss.backward()\n", "text.py", Settings())
    assert outcome.status in ("unchanged", "refused", "failed")
    assert outcome.status != "failed" or outcome.error
