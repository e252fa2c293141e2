"""Definitions behind calls, and call sites of definitions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.forwards import losses
from amp_migrate.model.program import Program
from tests.model.questions import asked

CALLEES = {
    "a function": ("def f():\n    pass\nask(f())", "f"),
    "the last definition": ("def f():\n    pass\ndef f(x):\n    pass\nask(f())", "f"),
    "a method": (
        "class A:\n    def m(self):\n        pass\n    def n(self):\n        ask(self.m())",
        "m",
    ),
    "of a base": (
        (
            "class A:\n    def m(self):\n        pass\nclass B(A):\n    def n(self):\n        "
            "ask(self.m())"
        ),
        "m",
    ),
    "of super": (
        (
            "class A:\n    def m(self):\n        pass\nclass B(A):\n    def m(self):\n        "
            "ask(super().m())"
        ),
        "m",
    ),
    "of an object": ("class A:\n    def m(self):\n        pass\na = A()\nask(a.m())", "m"),
    "of an heir": (
        (
            "class A:\n    def n(self):\n        ask(self.m())\nclass B(A):\n    def m(self):\n      "
            "  pass"
        ),
        "m",
    ),
    "an inner function": ("def f():\n    def g():\n        pass\n    ask(g())", "g"),
}


@pytest.mark.parametrize(("source", "name"), CALLEES.values(), ids=CALLEES)
def test_what_a_call_runs(source: str, name: str) -> None:
    program, call, scope = asked(source)
    assert isinstance(call, ast.Call)
    function = program.values.callee(call, scope)
    assert function is not None
    assert function.name == name


NOWHERE = {
    "an import": "from lib import f\nask(f())",
    "unknown": "ask(f())",
    "a variable": "f = g\nask(f())",
    "a method of an unknown object": "class A:\n    def m(self):\n        pass\nask(thing.m())",
    "a method by its bare name": (
        "class A:\n    def m(self):\n        pass\n    def n(self):\n        ask(m())"
    ),
    "a lambda": "ask((lambda: 1)())",
}


@pytest.mark.parametrize("source", NOWHERE.values(), ids=NOWHERE)
def test_calls_out_of_sight(source: str) -> None:
    program, call, scope = asked(source)
    assert isinstance(call, ast.Call)
    assert program.values.callee(call, scope) is None


ARGUMENTS = {
    "by position": ("def f(a, b):\n    pass\nask(f(1, 2))", "b", "2"),
    "by keyword": ("def f(a, b):\n    pass\nask(f(1, b=2))", "b", "2"),
    "keyword only": ("def f(a, *, b):\n    pass\nask(f(1, b=2))", "b", "2"),
    "not given": ("def f(a, b=3):\n    pass\nask(f(1))", "b", None),
    "behind a star": ("def f(a, b):\n    pass\nask(f(*args))", "b", None),
    "no such parameter": ("def f(a):\n    pass\nask(f(1))", "z", None),
}


@pytest.mark.parametrize(("source", "parameter", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(source: str, parameter: str, expected: str | None) -> None:
    program, call, scope = asked(source)
    assert isinstance(call, ast.Call)
    function = program.values.callee(call, scope)
    assert function is not None
    given = argument(call, program.scope(function), parameter, bound=False)
    assert (ast.unparse(given) if given is not None else None) == expected


ESCAPES = {
    "a callback": ("def f():\n    pass\nrun(f)\nask(f())", True),
    "a table": ("def f():\n    pass\ntable = {'f': f}\nask(f())", True),
    "calls alone": ("def f():\n    pass\nf()\nask(f())", False),
    "another's attribute": ("def f():\n    pass\nprint(thing.f)\nask(f())", False),
}


@pytest.mark.parametrize(("source", "expected"), ESCAPES.values(), ids=ESCAPES)
def test_functions_that_are_handed_on(source: str, expected: bool) -> None:
    program, call, scope = asked(source)
    assert isinstance(call, ast.Call)
    function = program.values.callee(call, scope)
    assert function is not None
    assert program.graph.escapes(function) is expected


def test_callables_behind_parameters_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many methods is given what the others were given: the ways are beyond counting, the
    parts are few.
    """
    calls = "\n".join(f"        other.run{n}(loss)" for n in range(6))
    methods = "\n".join(f"    def run{n}(self, loss, other):\n{calls}" for n in range(6))
    last = "    def end(self, loss):\n        return loss(1)\n"
    text = f"class A:\n{methods}\n        self.end(loss)\n{last}"
    program = Program(text, "program.py")
    asked = 0
    found = losses._found

    def counted(part: losses.Part, deep: int) -> Iterator[losses.Behind]:
        nonlocal asked
        asked += 1
        return found(part, deep)

    monkeypatch.setattr(losses, "_found", counted)
    for scope in program.module.scopes.values():
        for call in scope.calls:
            losses.callables(program, call, scope)
    assert 0 < asked < 3_000


SUPER = """
class Base:
    def step(self, x):
        pass
class Kept(Base):
    def step(self, x):
        pass
class Asking(Base):
    def step(self, x):
        super().step(x)
class Mixed(Asking, Kept):
    pass
"""


def _calls_of(source: str, cls: str) -> int:
    program = Program(source, "program.py")
    found = next(one for one in program.graph.classes() if one.name == cls)
    method = program.graph.method(found, "step")
    assert method is not None
    return len(program.graph.sites(method))


def test_super_runs_a_base_alone() -> None:
    apart = SUPER.replace("class Mixed(Asking, Kept)", "class Mixed")
    assert [_calls_of(apart, one) for one in ("Base", "Kept", "Asking")] == [1, 0, 0]


def test_super_runs_a_sibling_that_an_heir_brings() -> None:
    assert [_calls_of(SUPER, one) for one in ("Base", "Kept", "Asking")] == [1, 1, 0]


def test_super_runs_what_an_unknown_base_may_be() -> None:
    source = SUPER.replace("class Asking(Base)", "class Asking(made())")
    assert _calls_of(source, "Kept") == 1


HEIRS = """
class Base:
    def epoch(self):
        ask(self.loss())
    def loss(self):
        pass
class Plain(Base):
    def loss(self):
        pass
class Other(Base):
    def epoch(self):
        pass
    def loss(self):
        pass
class Back(Base):
    def epoch(self):
        super().epoch()
    def loss(self):
        pass
class Handing(Base):
    def epoch(self):
        run(Base.epoch)
    def loss(self):
        pass
"""


def test_self_is_of_no_heir_that_runs_another_method() -> None:
    program, call, scope = asked(HEIRS)
    assert isinstance(call, ast.Call)
    scopes = program.module.scopes
    found = [scopes[one].owner for one in program.values.callees(call, scope)]
    names = [one.node.name for one in found if one and isinstance(one.node, ast.ClassDef)]
    assert names == ["Base", "Plain", "Back", "Handing"]
