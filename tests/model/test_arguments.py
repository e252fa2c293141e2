"""Which calls fit a signature."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.calls.arguments import fits, gives_self


def asked(signature: str, call: str, *, bound: bool = False) -> bool:
    function = ast.parse(f"def f({signature}): pass").body[0]
    made = ast.parse(call, mode="eval").body
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(made, ast.Call)
    return fits(made, function, bound)


@pytest.mark.parametrize(
    ("signature", "call"),
    [
        ("a, b=1", "f(1)"),
        ("a, b=1", "f(b=1, a=2)"),
        ("a, *rest, c", "f(1, 2, 3, c=4)"),
        ("a, **rest", "f(1, d=3)"),
        ("a, b", "f(*given)"),
        ("a, b", "f(**given)"),
        ("a, *, b", "f(*given, b=2)"),
        ("*, a=None", "f()"),
    ],
)
def test_a_call_fits(signature: str, call: str) -> None:
    assert asked(signature, call)


@pytest.mark.parametrize(
    ("signature", "call"),
    [
        ("a, b=1", "f()"),
        ("a", "f(1, 2)"),
        ("a", "f(1, c=2)"),
        ("a", "f(1, a=2)"),
        ("*, a", "f()"),
        ("a, *rest, c", "f(1, 2, 3)"),
        ("a", "f(1, 2, **given)"),
        ("a", "f(1, c=2, **given)"),
        ("a, b", "f(1, a=2, **given)"),
        ("a", "f(1, *given, 2)"),
    ],
)
def test_a_call_does_not_fit(signature: str, call: str) -> None:
    assert not asked(signature, call)


def test_the_receiver_is_given() -> None:
    assert asked("self, a", "x.f(1)", bound=True)
    assert not asked("self, a", "x.f()", bound=True)
    assert not asked("self, a", "f(1)")


def test_a_decorator_may_change_the_signature() -> None:
    (function,) = ast.parse("@hydra.main()\ndef f(cfg): pass").body
    call = ast.parse("f()", mode="eval").body
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(call, ast.Call)
    assert fits(call, function, bound=False)


@pytest.mark.parametrize(
    ("call", "gives"),
    [
        ("Trainer.f(trainer, 1)", True),
        ("trainer.f(1)", False),
        ("Trainer.f()", False),
        ("trainer.f(*given)", False),
    ],
)
def test_a_call_that_hands_over_the_object_as_well(call: str, gives: bool) -> None:
    function = ast.parse("def f(self, a): pass").body[0]
    made = ast.parse(call, mode="eval").body
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(made, ast.Call)
    assert gives_self(made, function) is gives
