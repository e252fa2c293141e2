"""Questions that lead to one another are answered once, and an answer on the way is no last word."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from amp_migrate.model.dataflow.answers import Answers
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import UNKNOWN, Kind, Value

MODEL = Value(Kind.MODEL)
SCOPE = Program("", "a.py").module.root
Ask = Callable[["Asked", "str"], Value]


class Asked:
    """Questions by name; each leads to others and is answered by `found`."""

    def __init__(self, leads: dict[str, list[str]], models: set[str], files: int = 1) -> None:
        self.leads = leads
        self.models = models
        self.files = [Answers() for _ in range(files)]
        self.nodes = {name: ast.Name(name, ast.Load()) for name in leads}
        self.counts: dict[str, int] = dict.fromkeys(leads, 0)

    def of(self, name: str) -> Value:
        """What `name` is: a model, or what it leads to is one. `b2` is in the second file."""
        file = self.files[int(name[1:] or 1) - 1]
        return file.of(self.nodes[name], SCOPE, self._infer)

    def _infer(self, expr: ast.expr, scope: Scope) -> Value:
        assert isinstance(expr, ast.Name)
        assert scope is SCOPE
        self.counts[expr.id] += 1
        found = [self.of(one) for one in self.leads[expr.id]]
        return MODEL if expr.id in self.models or MODEL in found else UNKNOWN


def test_an_unknown_that_rests_on_nothing_open_is_kept() -> None:
    names = [f"{letter}" for letter in "abcdefgh"]
    asked = Asked({one: names[i + 1 :] for i, one in enumerate(names)}, set())
    assert [asked.of(one) for one in names] == [UNKNOWN] * len(names)
    assert set(asked.counts.values()) == {1}


def test_an_unknown_on_the_way_is_asked_again() -> None:
    asked = Asked({"a": ["b", "c"], "b": ["a"], "c": []}, {"c"})
    assert asked.of("a") == MODEL
    assert asked.of("b") == MODEL
    assert asked.counts == {"a": 1, "b": 2, "c": 1}


def test_what_uses_an_unknown_on_the_way_is_no_last_word_either() -> None:
    asked = Asked({"a": ["b", "d", "c"], "b": ["e"], "e": ["a"], "d": ["b"], "c": []}, {"c"})
    assert [asked.of(one) for one in "abde"] == [MODEL] * 4


def test_a_circle_that_nothing_leaves_is_unknown_for_good() -> None:
    asked = Asked({"a": ["b"], "b": ["a"]}, set())
    assert [asked.of(one) for one in "aba"] == [UNKNOWN] * 3
    assert asked.counts["a"] == 1


@pytest.mark.parametrize("last", ["c1", "c2"])
def test_a_circle_through_two_files(last: str) -> None:
    leads = {"a1": ["b2", last], "b2": ["d1"], "d1": ["b2", "a1"], last: []}
    asked = Asked(leads, {last}, files=2)
    assert [asked.of(one) for one in ("a1", "b2", "d1")] == [MODEL] * 3


def test_a_failure_leaves_no_question_open() -> None:
    answers, node = Answers(), ast.Name("a", ast.Load())

    def fails(expr: ast.expr, scope: Scope) -> Value:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answers.of(node, SCOPE, fails)
    assert answers.of(node, SCOPE, lambda *_: MODEL) == MODEL


def test_heirs_cost_what_they_are() -> None:
    """Each method may be called by every class: the arguments of all are read once."""
    one = (
        "class Algo{n}(Base):\n    def loss(self, x):\n        return x\n\n"
        "    def fit(self, loader):\n        for x in loader:\n            self.loss(x.to(self.d))\n\n\n"
    )

    def asked(count: int) -> int:
        text = "class Base:\n    pass\n\n\n" + "".join(one.format(n=n) for n in range(count))
        program = Program(text, "a.py")
        inferred = 0
        infer = program.values._infer

        def counted(expr: ast.expr, scope: Scope) -> Value:
            nonlocal inferred
            inferred += 1
            return infer(expr, scope)

        program.values._infer = counted
        for node in program.module.parents:
            if isinstance(node, ast.Name):
                program.values.of(node, program.module.scope_of(node))
        return inferred

    assert asked(40) < 3 * asked(20)
