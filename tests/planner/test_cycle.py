"""scale, unscale_, step and update: which, where and how often."""

from __future__ import annotations

import pytest

from tests.planner.programs import SECOND, body, script, text, verdict, verdicts

REGION = "loss = criterion(model(x), y)\n"
WRAPPED = "WITH:\n    loss = criterion(model(x), y)\n"
BACKWARD = "optimizer.zero_grad()\nloss.backward()\n"
SCALED = "optimizer.zero_grad()\nscaler.scale(loss).backward()\n"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"

READERS = {
    "norm": CLIP,
    "value": "nn.utils.clip_grad_value_(model.parameters(), 1.0)\n",
    "the old name": "torch.nn.utils.clip_grad_norm(model.parameters(), 1.0)\n",
    "the norm is kept": "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
    "a project's own": "clip_gradient(optimizer, 1.0)\n",
    "a loop over parameters": "for p in model.parameters():\n    p.grad.data.clamp_(-1, 1)\n",
    "a norm for the log": "norm = model.weight.grad.norm()\n",
    "a comprehension": "norms = [p.grad.norm() for p in model.parameters()]\n",
    "a histogram": 'writer.add_histogram("grad", model.weight.grad, index)\n',
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_unscale_comes_right_before_what_reads_gradients(reader: str) -> None:
    assert body(f"{REGION}{BACKWARD}{reader}optimizer.step()\n") == text(
        f"{WRAPPED}{SCALED}scaler.unscale_(optimizer)\n{reader}scaler.step(optimizer)\nscaler.update()\n"
    )


NO_READERS = {
    "nothing": "",
    "a print": "print(loss.item())\n",
    "a test for None": "assert model.weight.grad is not None\n",
    "the learning rate": 'for group in optimizer.param_groups:\n    group["lr"] = 0.1\n',
    "weights": "norm = model.weight.norm().item()\n",
    "a timer": "elapsed = clock()\n",
}


@pytest.mark.parametrize("statement", NO_READERS.values(), ids=NO_READERS)
def test_nothing_reads_gradients_nothing_is_unscaled(statement: str) -> None:
    assert body(f"{REGION}{BACKWARD}{statement}optimizer.step()\n") == text(
        f"{WRAPPED}{SCALED}{statement}scaler.step(optimizer)\nscaler.update()\n"
    )


def test_reads_after_the_step_need_nothing() -> None:
    assert "unscale_" not in body(
        f"{REGION}{BACKWARD}optimizer.step()\nnorm = model.weight.grad.norm()\n"
    )


def test_unscale_comes_once_for_two_readers() -> None:
    new = body(f"{REGION}{BACKWARD}norm = model.weight.grad.norm()\n{CLIP}optimizer.step()\n")
    assert new.count("unscale_") == 1
    assert new.index("unscale_") < new.index("norm = ")


def test_a_conditional_clip_has_its_unscale_inside() -> None:
    new = body(f"{REGION}{BACKWARD}if index:\n    {CLIP}optimizer.step()\n")
    assert f"if index:\n    scaler.unscale_(optimizer)\n    {CLIP}" in new


def test_unscale_is_outside_where_both_branches_and_what_follows_read() -> None:
    new = body(
        f"{REGION}{BACKWARD}if index:\n    {CLIP}norm = "
        "model.weight.grad.norm()\noptimizer.step()\n"
    )
    assert new.count("unscale_") == 1
    assert "scaler.unscale_(optimizer)\nif index:\n" in new


def test_clip_of_one_model_unscales_its_optimizer_alone() -> None:
    new = body(
        "loss = criterion(model(x), y) + other(x).mean()\nloss.backward()\n"
        "nn.utils.clip_grad_norm_(other.parameters(), 1.0)\noptimizer.step()\nsecond.step()\n",
        before=SECOND,
    )
    assert "scaler.unscale_(second)" in new
    assert "scaler.unscale_(optimizer)" not in new


def test_two_clips_unscale_both() -> None:
    new = body(
        f"loss = criterion(model(x), y) + other(x).mean()\nloss.backward()\n{CLIP}"
        "nn.utils.clip_grad_norm_(other.parameters(), 1.0)\noptimizer.step()\nsecond.step()\n",
        before=SECOND,
    )
    assert new.count("unscale_(optimizer)") == new.count("unscale_(second)") == 1
    assert new.index("unscale_(optimizer)") < new.index("clip_grad_norm_(model")


AVERAGED = {
    "all_reduce": "for p in model.parameters():\n    torch.distributed.all_reduce(p.grad)\n",
    "and divided": (
        "for p in model.parameters():\n    torch.distributed.all_reduce(p.grad.data)\n    "
        "p.grad.data /= 4\n"
    ),
    "by name": "average_gradients(model)\n",
}


@pytest.mark.parametrize("averaging", AVERAGED.values(), ids=AVERAGED)
def test_unscale_comes_after_the_averaging(averaging: str) -> None:
    assert f"{averaging}scaler.unscale_(optimizer)\n{CLIP}" in body(
        f"{REGION}{BACKWARD}{averaging}{CLIP}optimizer.step()\n"
    )


UPDATES = {
    "two steps after one backward": (
        "loss.backward()\noptimizer.step()\nsecond.step()\n",
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.step(second)\nscaler.update()\n",
    ),
    "a scheduler between": (
        "loss.backward()\noptimizer.step()\nscheduler.step()\nsecond.step()\n",
        (
            "scaler.scale(loss).backward()\nscaler.step(optimizer)\n"
            "scheduler.step()\nscaler.step(second)\nscaler.update()\n"
        ),
    ),
    "a scheduler after": (
        "loss.backward()\noptimizer.step()\nscheduler.step()\n",
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\nscheduler.step()\n",
    ),
    "under the boundary": (
        "loss.backward()\nif index % 4 == 3:\n    optimizer.step()\n    optimizer.zero_grad()\n",
        (
            "scaler.scale(loss).backward()\nif index % 4 == 3:\n"
            "    scaler.step(optimizer)\n    scaler.update()\n    optimizer.zero_grad()\n"
        ),
    ),
    "clip under the boundary": (
        f"loss.backward()\nif index % 4 == 3:\n    {CLIP}    optimizer.step()\n",
        (
            "scaler.scale(loss).backward()\nif index % 4 == 3:\n    "
            f"scaler.unscale_(optimizer)\n    {CLIP}"
            "    scaler.step(optimizer)\n    scaler.update()\n"
        ),
    ),
    "the division stays": (
        "loss = loss / 4\nloss.backward()\nif index % 4 == 3:\n    optimizer.step()\n",
        (
            "    loss = loss / 4\nscaler.scale(loss).backward()\n"
            "if index % 4 == 3:\n    scaler.step(optimizer)\n    scaler.update()\n"
        ),
    ),
    "one line": ("loss.backward(); optimizer.step()\n", None),
    "an early continue": (
        "loss.backward()\nif index % 4 != 3:\n    continue\noptimizer.step()\n",
        (
            "scaler.scale(loss).backward()\nif index % 4 != 3:\n    "
            "continue\nscaler.step(optimizer)\nscaler.update()\n"
        ),
    ),
    "other steps": (
        "loss.backward()\noptimizer.step()\nprofiler.step()\nstate = env.step(action)\n",
        (
            "scaler.scale(loss).backward()\nscaler.step(optimizer)\n"
            "scaler.update()\nprofiler.step()\nstate = env.step(action)\n"
        ),
    ),
    "backward in both branches": (
        "if index:\n    loss.backward()\nelse:\n    (2 * loss).backward()\noptimizer.step()\n",
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), UPDATES.values(), ids=UPDATES)
def test_update_comes_once_after_the_last_step(before: str, after: str | None) -> None:
    new = body(REGION + before, before=SECOND)
    assert new.count("scaler.update()") == 1
    assert new.index("scaler.update()") > new.rindex("scaler.step(")
    if after is not None:
        assert new == text(WRAPPED + after)


def test_each_branch_with_its_pair_has_its_update() -> None:
    new = body(
        """
        if index % 2:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        else:
            loss = criterion(other(x), y)
            loss.backward()
            second.step()
        """,
        before=SECOND,
    )
    assert new == text(
        """
        if index % 2:
            WITH:
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            WITH:
                loss = criterion(other(x), y)
            scaler.scale(loss).backward()
            scaler.step(second)
            scaler.update()
        """
    )


def test_a_conditional_second_pair_shares_the_update() -> None:
    new = body(
        """
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if index % 5 == 0:
            second.zero_grad()
            error = other(x).mean()
            error.backward()
            second.step()
        """,
        before=SECOND,
    )
    assert new.endswith(
        "        scaler.step(second)\nscaler.update()\n".replace("        ", "    ")
    )
    assert new.count("update()") == 1


def test_an_optimizer_that_steps_in_an_inner_loop_updates_there() -> None:
    new = body(
        """
        for _ in range(5):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        second.zero_grad()
        error = other(x).mean()
        error.backward()
        second.step()
        """,
        before=SECOND,
    )
    assert "    scaler.step(optimizer)\n    scaler.update()\n" in new
    assert new.endswith("scaler.step(second)\nscaler.update()\n")


def test_two_backwards_then_two_steps_update_once() -> None:
    new = body(
        (
            "a = model(x).mean()\nb = "
            "other(x).mean()\na.backward()\nb.backward()\noptimizer.step()\nsecond.step()\n"
        ),
        before=SECOND,
    )
    assert new.endswith("scaler.step(optimizer)\nscaler.step(second)\nscaler.update()\n")
    assert new.count("update()") == 1


REWRITTEN = {
    "copied": (
        "for p, q in zip(model.parameters(), other.parameters()):\n    p.grad.copy_(q.grad)\n"
    ),
    "replaced": "for p, g in zip(model.parameters(), kept):\n    p.grad = g\n",
}


@pytest.mark.parametrize("statement", REWRITTEN.values(), ids=REWRITTEN)
def test_gradients_rewritten_by_hand_are_refused(statement: str) -> None:
    assert verdict(f"{REGION}{BACKWARD}{statement}optimizer.step()\n") == (
        "refused",
        "gradient-mutated",
    )


def test_a_clip_of_each_micro_batch_is_refused() -> None:
    boundary = "if index % 4 == 3:\n    optimizer.step()\n    optimizer.zero_grad()\n"
    source = script(f"{REGION}loss.backward()\n{CLIP}{boundary}").replace(
        "    model.zero_grad()\n", ""
    )
    assert verdicts(source) == [("refused", "gradients-read-twice")]


def test_bfloat16_has_no_cycle() -> None:
    new = body(f"{REGION}{BACKWARD}{CLIP}optimizer.step()\n", dtype="bfloat16")
    assert "scaler" not in new
    assert new.endswith(f"{BACKWARD}{CLIP}optimizer.step()\n")


def _turned(statements: str) -> str:
    return "".join(f"    {one}\n" for one in statements.splitlines())


NORM = "norms.append(model.weight.grad.norm())\n"
ENDS_EARLIER = {
    "a turn that goes on": f"if plain:\n    optimizer.step()\n    continue\n{NORM}{REGION}loss.backward()\n",
    "a block of it": f"if plain:\n    with timer:\n        optimizer.step()\n    continue\n{NORM}{REGION}loss.backward()\n",
    "the other branch": f"if plain:\n    optimizer.step()\nelse:\n{_turned(NORM + REGION)}    loss.backward()\n",
}


@pytest.mark.parametrize("middle", ENDS_EARLIER.values(), ids=ENDS_EARLIER)
def test_a_step_that_a_turn_does_not_make_is_none_before_a_read(middle: str) -> None:
    assert verdict(f"{REGION}{BACKWARD}{middle}optimizer.step()\n") == (
        "refused",
        "grad-read-before-unscale",
    )


def test_a_read_of_a_turn_that_ends_is_none_between_two_backwards() -> None:
    early = f"if plain:\n    {CLIP}    optimizer.step()\n    continue\n"
    new = body(f"{REGION}{BACKWARD}{early}{REGION}loss.backward()\noptimizer.step()\n")
    assert new.count("scaler.unscale_(optimizer)\n") == 1
