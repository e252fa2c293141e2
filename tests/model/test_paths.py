"""Paths: conditions that belong together, and joins that make nothing up."""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate.model.program import Program
from amp_migrate.protocol.frames import amp_name, amp_value
from amp_migrate.protocol.mistakes import mistakes
from amp_migrate.protocol.paths import Path, Val, merged


def found(body: str) -> list[tuple[str, int]]:
    """Rules broken in a loop with this body, and the lines of the body."""
    head = (
        "import torch\ndef train(model, optimizer, scaler, loader, use_amp, flag, other, "
        "n):\n    for i, x in enumerate(loader):\n"
    )
    text = head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"
    return [(m.rule, m.node.lineno - 3) for m in mistakes(Program(text, "train.py"))]


RIGHT = [
    # the same flag decides twice
    """
    if flag:
        scaler.scale(model(x)).backward()
    else:
        model(x).backward()
    if flag:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    """,
    # a flag under another name, and its contrary
    """
    plain = not use_amp
    if plain:
        model(x).backward()
        optimizer.step()
        continue
    scaler.scale(model(x)).backward()
    scaler.step(optimizer)
    scaler.update()
    """,
    # a boundary with a name
    """
    ready = (i + 1) % n == 0
    scaler.scale(model(x)).backward()
    if ready:
        scaler.unscale_(optimizer)
    if (i + 1) % n == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """,
    # a contrary comparison
    """
    scaler.scale(model(x)).backward()
    if (i + 1) % n != 0:
        continue
    scaler.step(optimizer)
    scaler.update()
    """,
    # code out of sight may do anything with the scaler
    """
    scaler.scale(model(x)).backward()
    finish(optimizer, scaler)
    optimizer.step()
    """,
]


@pytest.mark.parametrize("body", RIGHT)
def test_right(body: str) -> None:
    assert found(body) == []


WRONG = [
    (
        """
        scaler.scale(model(x)).backward()
        if flag and other:
            optimizer.step()
        else:
            scaler.step(optimizer)
        scaler.update()
        """,
        [],  # what looks like the AMP switch is taken for it
    ),
    (
        """
        try:
            scaler.scale(model(x)).backward()
        finally:
            optimizer.step()
        """,
        [("bare-optimizer-step", 4)],
    ),
    (
        """
        match flag:
            case 1:
                scaler.scale(model(x)).backward()
                optimizer.step()
        """,
        [("bare-optimizer-step", 4)],
    ),
    (
        """
        while flag:
            scaler.scale(model(x)).backward()
            scaler.step(optimizer)
        """,
        [("missing-scaler-update", 3)],
    ),
    (
        """
        loss = model(x)
        loss = scaler.scale(loss)
        loss.backward()
        optimizer.step()
        """,
        [("bare-optimizer-step", 4)],
    ),
    (
        """
        torch.autograd.backward(scaler.scale(model(x)))
        optimizer.step()
        """,
        [("bare-optimizer-step", 2)],
    ),
]


@pytest.mark.parametrize(("body", "expected"), WRONG)
def test_wrong(body: str, expected: list[tuple[str, int]]) -> None:
    assert found(body) == expected


def path(**facts: bool) -> Path:
    found = Path()
    for name, value in facts.items():
        found.learn(name, value, {name})
    return found


def facts(paths: list[Path]) -> list[dict[str, bool]]:
    return [dict(found.facts) for found in paths]


def test_one_open_condition_is_forgotten() -> None:
    assert facts(merged([path(a=True, b=True), path(a=True, b=False)], 9)) == [{"a": True}]


def test_two_open_conditions_are_kept_apart() -> None:
    assert len(merged([path(a=True, b=True), path(a=False, b=False)], 9)) == 2


def test_who_knows_less_stays() -> None:
    assert facts(merged([path(a=True, b=True), path(a=True)], 9)) == [{"a": True}]


def test_states_that_differ_are_kept_apart() -> None:
    other = path(a=True)
    other.lost = frozenset({"scaler"})
    assert len(merged([path(a=True), other], 9)) == 2


def test_an_assignment_voids_what_mentions_the_name() -> None:
    held = path(a=True, b=False)
    held.env["a.x"] = Val(text="y")
    held.assign("a", Val(constant=(1,)))
    assert (facts([held]), set(held.env)) == ([{"b": False}], {"a"})


@pytest.mark.parametrize(
    "name", ["use_amp", "args.fp16", "train:cfg.use_mixed_precision", "self.scaler", "native_amp"]
)
def test_names_of_the_switch(name: str) -> None:
    assert amp_name(name)


@pytest.mark.parametrize(
    "name", ["sample", "args.clip", "example", "training", "halfway", "amplitude"]
)
def test_other_names(name: str) -> None:
    assert not amp_name(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("'fp16'", True), ("torch.float32", False), ("'bf16'", False), ("'sgd'", None)],
)
def test_values_of_the_switch(text: str, expected: bool | None) -> None:
    assert amp_value(text) is expected
