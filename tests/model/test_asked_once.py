"""Facts of a whole program or tree are found once, and ways to a value are not counted."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amp_migrate.model.calls import object_calls, targets
from amp_migrate.model.calls.arguments import fits
from amp_migrate.model.classes import classes_by_text, construction_sites
from amp_migrate.model.classes.factories import _decorated
from amp_migrate.model.files import neighbours
from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.half_safety import products
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS
from amp_migrate.model.tensors import spelling
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.tensors.whole_files import all_in
from amp_migrate.project import nearby
from tests.cost import growth

OBJECTS = """\
class {0}:
    def __call__(self, x):
        return x


def use_{0}(given, other={0}):
    held = given
    return held(1)


made_{0} = {0}()
use_{0}(made_{0})
use_{0}(print)
"""


def classes(program: Program) -> list[ast.ClassDef]:
    return [one for one in program.module.tree.body if isinstance(one, ast.ClassDef)]


def test_calls_of_objects_are_those_that_hold_one() -> None:
    program = Program(OBJECTS.format("Loss") + OBJECTS.format("Net"), "train.py")
    for cls in classes(program):
        flow = object_calls.ObjectFlow(program.graph)
        found = [(ast.unparse(c), s.qualname) for c, s in flow.calls_of(cls)]
        assert found == [("held(1)", f"use_{cls.name}")]


def test_a_class_whose_objects_go_nowhere_has_no_calls() -> None:
    text = OBJECTS.format("Net").replace("use_Net(made_Net)", "")
    program = Program(text, "train.py")
    assert object_calls.ObjectFlow(program.graph).calls_of(*classes(program)) == []


def asks_for_all(many: int) -> Callable[[], object]:
    program = Program("".join(OBJECTS.format(f"C{one}") for one in range(many)), "train.py")
    flow = object_calls.ObjectFlow(program.graph)
    return lambda: [flow.calls_of(cls) for cls in classes(program)]


def test_what_holds_objects_is_read_once_for_all_classes() -> None:
    assert growth(asks_for_all, 24) < 2.6  # 4 where each class reads the program anew


SETTING = "model: net.Net\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n")
    (tmp_path / "plain.py").write_text("class Plain:\n    pass\n")
    for one in "abc":
        (tmp_path / f"{one}.py").write_text("import net\n")
    return tmp_path


@pytest.mark.parametrize("setting", [SETTING, "model: plain.Plain\n", "lr: 0.1\n"])
def test_the_tree_is_read_once_for_all_its_files(
    tree: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    (tree / "net.yaml").write_text(setting)
    read: list[Path] = []
    settings_below, below = nearby.settings_below, nearby.below
    monkeypatch.setattr(nearby, "settings_below", lambda r: read.append(r) or settings_below(r))
    monkeypatch.setattr(nearby, "below", lambda r: read.append(r) or below(r))
    near = [Neighbours(str(tree / f"{one}.py")) for one in "abc"]
    found = [cls.name for _, cls in classes_by_text.classes_by_text(near)]
    assert found == ["Net"] * 3
    assert len(read) == (1 if setting is SETTING else 2)


MARKS = {
    "MODELS": ["direct.py", "module.py", "method.py"],
    "register": ["method.py", "other.py"],
    "registry": ["module.py"],
    "MODEL": [],
    "torch": [],
}


@pytest.mark.parametrize("name", MARKS)
def test_decorated_files_are_found_by_each_part_of_a_mark(tmp_path: Path, name: str) -> None:
    marks = {
        "direct": "@MODELS",
        "module": "@registry.MODELS",
        "method": "@MODELS.register(name='torch')",
        "other": "@register",
        "plain": "# @MODELS",
    }
    for one, mark in marks.items():
        (tmp_path / f"{one}.py").write_text(f"{mark}\nclass C:\n    pass\n")
    start = tmp_path / "train.py"
    start.write_text("")
    program = Program("", str(start), Neighbours(str(start)))
    assert program.module.neighbours is not None
    found = _decorated(program, program.module.neighbours, name)
    assert sorted(Path(one.module.path).name for one in found) == sorted(MARKS[name])


def test_files_beside_one_are_searched_for_marks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tmp_path / "train.py"
    start.write_text("")
    program = Program("", str(start), Neighbours(str(start)))
    near = program.module.neighbours
    assert near is not None
    asked: list[Path] = []
    beside = nearby.beside
    monkeypatch.setattr(neighbours.nearby, "beside", lambda h: asked.append(h) or beside(h))
    for name in MARKS:
        _decorated(program, near, name)
    assert len(asked) == 1


def value_of(program: Program) -> tuple[ast.expr, Any]:
    (function,) = (n for n in program.module.tree.body if isinstance(n, FUNCTIONS))
    last = function.body[-1]
    assert isinstance(last, ast.Return)
    assert last.value is not None
    return last.value, program.scope(function)


def sums(many: int) -> Program:
    steps = "".join(f"    x{n + 1} = x{n} + x{n}\n" for n in range(many))
    text = f"import torch\n\n\ndef f(a, b):\n    x0 = a @ b\n{steps}    return x{many}\n"
    return Program(text, "f.py")


@pytest.mark.parametrize(("many", "found"), [(1, ["a @ b"]), (5, ["a @ b"]), (6, [])])
def test_products_behind_a_value_come_once(many: int, found: list[str]) -> None:
    program = sums(many)
    asked = Asked(all_in(program, "float16"))
    behind = products.behind(asked, *value_of(program))
    assert [ast.unparse(one) for one, _ in behind] == found


def test_ways_to_a_product_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    values_of = products.values_of

    def counted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return values_of(*given)

    monkeypatch.setattr(products, "values_of", counted)
    program = sums(5)
    list(products.behind(Asked(all_in(program, "float16")), *value_of(program)))
    assert asked <= 11  # each read of a name once, where 2 + 4 + 8 + 16 + 32 ways lead to them


def test_what_is_found_for_a_function_holds_for_the_others_of_its_file() -> None:
    program = sums(2)
    shared = all_in(program, "float16")
    assert all_in(program, "float16") is shared
    assert all_in(program, None) is not shared


def test_no_question_costs_another_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    program = sums(5)
    monkeypatch.setattr("amp_migrate.model.tensors.inference._BUDGET", 4)
    shared = all_in(program, "float16")
    shared.of(*value_of(program))
    assert all_in(program, "float16") is not shared


HEIRS = """\
class Base:
    def __init__(self, x):
        self.x = x


class Heir(Base):
    def __init__(self, *args):
        super().__init__(*args)


Base(1)
Heir(2)
"""


def test_what_makes_objects_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    sites = construction_sites.ConstructionSites._sites

    def counted(self: Any, *given: Any) -> Any:
        asked.append(given)
        return sites(self, *given)

    monkeypatch.setattr(construction_sites.ConstructionSites, "_sites", counted)
    program = Program(HEIRS, "train.py")
    base, _ = classes(program)
    init = program.graph.method(base, "__init__")
    assert init is not None
    for _ in range(3):
        found = program.graph.constructors.of(init, base)
        assert [ast.unparse(call) for call, _, _ in found] == ["Base(1)", "super().__init__(2)"]
        found.clear()  # it is the caller's own
    assert 0 < len(asked) == len(set(asked))


def test_layers_are_followed_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    own_forwards = targets.own_forwards
    monkeypatch.setattr(
        targets, "own_forwards", lambda p, c: asked.append(c.name) or own_forwards(p, c)
    )
    inner = "class Inner:\n    def forward(self, x): pass\n"
    outer = "class Outer:\n    part = Inner\n    def forward(self, x): pass\n"
    program = Program(inner + outer, "net.py")
    for _ in range(3):
        found = targets.forwards(program, classes(program)[1])
        assert [program.scope(one).qualname for one in found] == ["Outer.forward", "Inner.forward"]
    assert asked == ["Outer", "Inner"]


def call_of_many(many: int) -> Callable[[], object]:
    named = [f"a{n}" for n in range(many)]
    text = f"def f({', '.join(f'{one}=1' for one in named)}): pass\nf()\n"
    function, call = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    given = call.value
    assert fits(given, function, False)
    return lambda: fits(given, function, False)


def test_a_signature_is_read_once() -> None:
    assert growth(call_of_many, 64) < 2.4  # 4 where each parameter reads all of it


def test_the_operator_behind_a_name_is_found_once_for_all_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program(
        "from torch import nn\n\ndef run(x, f=nn.functional.relu):\n    f(x)\n", "a.py"
    )
    [call] = [one for one in program.module.parents if isinstance(one, ast.Call)]
    asked = list[ast.expr]()
    kept = spelling._kept
    monkeypatch.setattr(spelling, "_kept", lambda p, e, d: (asked.append(e), *kept(p, e, d))[1:])
    scope = program.module.scope_of(call)
    for _ in range(3):
        inference = Inference(program, lambda _: "float16", lambda _: None)
        found = spelling.spelled(inference, call, scope)
        assert found is not None
    assert asked.count(call.func) == 1
