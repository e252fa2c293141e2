"""What is looked for in the whole program is looked for once, not for each of its loops."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amp_migrate.config import Settings
from amp_migrate.model.dataflow import origins
from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.program import Program
from amp_migrate.model.tensors import held
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.planner.gradients import hooks as gradient_hooks
from amp_migrate.planner.half_safety import gradients_inside, saturated_arguments
from amp_migrate.planner.half_safety.reach import abroad
from amp_migrate.planner.plan import Planner
from amp_migrate.project import nearby
from tests.cost import growth

LOOP = """\
def train_{0}(loader):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for data, target in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.cuda()), target.cuda())
        loss.backward()
        optimizer.step()


"""


@pytest.mark.parametrize("hook", ["", "weight.register_hook(print)\n"])
def test_hooks_are_looked_for_once(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    asked: Counter[int] = Counter()
    sees_scaled = gradient_hooks._sees_scaled

    def counted(call: ast.Call) -> str | None:
        asked[id(call)] += 1
        return sees_scaled(call)

    monkeypatch.setattr(gradient_hooks, "_sees_scaled", counted)
    text = "import torch\n\n\n" + LOOP.format(1) + LOOP.format(2) + LOOP.format(3) + hook
    program = Program(text, "train.py")
    plan = Planner(program, Settings()).plan()["train.py"]
    expected = [("refused", "gradient-mutated")] * 3 if hook else [("migrated", None)] * 3
    assert [(loop.status, loop.reason) for loop in plan.loops] == expected
    assert set(asked.values()) == {1}


def runs_asked(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[int, list[str | None]]:
    """How often what a whole loop may run is asked for gradients, and what becomes of the loops."""
    asked = 0
    perhaps_reachable = gradients_inside.perhaps_reachable

    def counted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return perhaps_reachable(*given)

    monkeypatch.setattr(gradients_inside, "perhaps_reachable", counted)
    plan = Planner(Program(text, "train.py"), Settings()).plan()["train.py"]
    return asked, [loop.reason for loop in plan.loops]


FORCES = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.autograd.grad(x.sum(), x, create_graph={})[0]


"""


def test_without_gradients_of_gradients_nobody_asks_what_a_loop_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = FORCES.format("False") + LOOP.format(1) + LOOP.format(2)
    assert runs_asked(monkeypatch, text) == (0, [None, None])


def test_with_them_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    second = LOOP.format(2).replace("torch.nn.Linear(2, 2)", "Net()")
    text = FORCES.format("True") + LOOP.format(1) + second
    assert runs_asked(monkeypatch, text) == (1, [None, "double-backward"])


def test_what_is_put_into_holders_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    place = held._place

    def counted(node: ast.AST) -> held.Place:
        asked[id(node)] += 1
        return place(node)

    monkeypatch.setattr(held, "_place", counted)
    puts = "".join(f"seen['{one}'] = one\n" for one in "abc")
    reads = "".join(f"show(seen['{one}'])\n" for one in "abcdef")
    program = Program(f"seen = {{}}\n{puts}{reads}", "train.py")
    inference = Inference(program, lambda _: None, lambda _: None)
    for statement in program.module.tree.body[4:]:
        assert isinstance(statement, ast.Expr)
        held.held_half(inference, statement.value)
        assert isinstance(statement.value, ast.Call)
        held.held_half(inference, statement.value.args[0], whole=True)
    holders = [n.value for n in ast.walk(program.module.tree) if isinstance(n, ast.Subscript)]
    assert [asked[id(one)] for one in holders] == [1] * 3 + [0] * 6


def test_many_reads_of_what_much_is_put_into_cost_no_more_than_both() -> None:
    def asked(size: int) -> Callable[[], object]:
        puts = "".join(f"seen[k] = f({one})\n" for one in range(size))
        program = Program(f"seen = {{}}\n{puts}" + "show(seen[k])\n" * size, "train.py")
        inference = Inference(program, lambda _: None, lambda _: None)
        reads = [one.value for one in program.module.tree.body if isinstance(one, ast.Expr)]
        return lambda: [held.held_half(inference, read.args[0]) for read in reads]  # type: ignore[attr-defined]

    assert growth(asked, 40) < 2.5


def test_ways_of_a_value_through_calls_are_followed_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    given = origins._given

    def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return given(*args)

    monkeypatch.setattr(origins, "_given", counted)
    steps = [f"def f{n}(a):\n    f{n - 1}(a)\n    f{n - 1}(a)\n" for n in range(1, 8)]
    text = "def f0(a):\n    a.cuda\n" + "".join(steps) + "f7(args)\n"
    program = Program(text, "train.py")
    (read,) = (n for n in ast.walk(program.module.tree) if isinstance(n, ast.Attribute))
    origins.origin_at(program, "a.cuda", read)
    assert asked <= 16


def caller(folder: Path, helpers: str, *calls: str) -> Program:
    """A file that calls what another one holds."""
    (folder / "helpers.py").write_text(helpers)
    train = folder / "train.py"
    train.write_text("import torch\nimport helpers\n" + "".join(f"{one}\n" for one in calls))
    return Program(train.read_text(), str(train), Neighbours(str(train)))


def led_to(program: Program) -> dict[str, int]:
    """The functions of the other file that a file runs, with how many calls are known to be all."""
    module = program.module
    found = abroad(program, module.tree.body, module.root)
    return {function.name: len(calls) for _, function, calls in found}


@pytest.mark.parametrize(
    ("helpers", "calls", "found"),
    [
        ("def f(x): pass\n", ["helpers.f(1)", "helpers.f(2)"], {"f": 2}),
        ("def f(x): pass\n", ["print(helpers)"], {}),
        ("import more\ndef f(x): more.g(x)\n", ["helpers.f(1)"], {"f": 1, "g": 0}),
        ("import more\ndef f(x): more.f(x)\ndef g(x): f(x)\n", ["helpers.g(1)"], {"g": 1, "f": 0}),
        ("from more import g\ndef f(x): g(x)\n", ["helpers.f(1)", "more.g(2)"], {"f": 1, "g": 0}),
        ("def f(x): g(x)\ndef g(x): pass\n", ["helpers.f(1)", "helpers.g(2)"], {"f": 1, "g": 1}),
    ],
)
def test_functions_of_other_files(
    tmp_path: Path, helpers: str, calls: list[str], found: dict[str, int]
) -> None:
    (tmp_path / "more.py").write_text("def f(x): pass\ndef g(x): pass\n")
    assert led_to(caller(tmp_path, helpers, "import more", *calls)) == found


def test_what_functions_of_a_file_share_is_followed_once(tmp_path: Path) -> None:
    def of(many: int) -> Callable[[], object]:
        chain = "".join(f"def f{n}(x):\n    f{n + 1}(x)\n" for n in range(many))
        program = caller(tmp_path, chain, *(f"helpers.f{n}(1)" for n in range(many)))
        found = led_to(program)
        assert len(found) == many
        return lambda: led_to(program)

    assert growth(of, 16) < 2.4  # 4 where each is followed to the end of the chain


def test_statements_are_asked_once_for_what_they_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[int] = Counter()
    demanded = saturated_arguments.demanded

    def counted(about: Any, node: ast.AST, scope: Any) -> Any:
        asked[id(node)] += 1
        return demanded(about, node, scope)

    monkeypatch.setattr(saturated_arguments, "demanded", counted)
    helpers = "import torch\ndef f(p): return g(p)\ndef g(p): return torch.log(p)\n"
    program = caller(tmp_path, helpers)
    assert program.module.neighbours is not None
    for name in "fg":
        found = program.module.neighbours.find(f"helpers.{name}")
        assert found is not None
        home, function = found
        ((parameter, _),) = saturated_arguments._demands(home, home.scope(function), True, 1)
        assert parameter == "p"
    assert set(asked.values()) == {1}


def test_names_of_other_files_are_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = caller(tmp_path, "size = 1\n", *["helpers.size"] * 5, *["helpers.f(1)"] * 5)
    asked: Counter[str] = Counter()
    changed = nearby.changed
    monkeypatch.setattr(nearby, "changed", lambda f: asked.update((f,)) or changed(f))
    imported, root = program.reaching.imported, program.module.root
    nodes = [n for n in ast.walk(program.module.tree) if isinstance(n, ast.Attribute)]
    assert [imported.variable(n, root) is not None for n in nodes] == [True] * 5 + [False] * 5
    assert all(imported.definition(n, root) is None for n in nodes)
    assert max(asked.values()) <= 4  # two names, as a variable and as a definition
