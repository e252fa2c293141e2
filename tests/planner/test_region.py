"""Which statements stand under autocast."""

from __future__ import annotations

import pytest

from tests.planner.programs import SECOND, body, text, verdict

STEP = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
SCALED = "optimizer.zero_grad()\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"

STRAIGHT = {
    "forward and loss": (
        "output = model(x)\nloss = criterion(output, y)\n",
        "WITH:\n    output = model(x)\n    loss = criterion(output, y)\n",
    ),
    "one statement": (
        "loss = criterion(model(x), y)\n",
        "WITH:\n    loss = criterion(model(x), y)\n",
    ),
    "a functional loss": (
        "loss = F.mse_loss(model(x), y)\n",
        "WITH:\n    loss = F.mse_loss(model(x), y)\n",
    ),
    "a loss by arithmetic": (
        "loss = ((model(x) - y) ** 2).mean()\n",
        "WITH:\n    loss = ((model(x) - y) ** 2).mean()\n",
    ),
    "a later term": (
        "loss = criterion(model(x), y)\nloss = loss + 0.1 * model.weight.norm()\n",
        "WITH:\n    loss = criterion(model(x), y)\n    loss = loss + 0.1 * model.weight.norm()\n",
    ),
    "augmented": (
        "loss = criterion(model(x), y)\nloss += 0.1\n",
        "WITH:\n    loss = criterion(model(x), y)\n    loss += 0.1\n",
    ),
    "annotated": (
        "loss: torch.Tensor = criterion(model(x), y)\n",
        "WITH:\n    loss: torch.Tensor = criterion(model(x), y)\n",
    ),
    "keyword arguments": (
        "loss = criterion(input=model(x), target=y)\n",
        "WITH:\n    loss = criterion(input=model(x), target=y)\n",
    ),
    "two models": (
        "hidden = other(x)\noutput = model(hidden)\nloss = criterion(output, y)\n",
        (
            "WITH:\n    hidden = other(x)\n    output = model(hidden)\n    loss = criterion(output, "
            "y)\n"
        ),
    ),
    "several losses": (
        (
            "output = model(x)\nfirst = criterion(output, y)\nlast = output.mean()\nloss = first + "
            "last\n"
        ),
        (
            "WITH:\n    output = model(x)\n    first = criterion(output, y)\n"
            "    last = output.mean()\n    loss = first + last\n"
        ),
    ),
    "a branch": (
        (
            "if index:\n    output = model(x)\nelse:\n    output = other(x)\nloss = "
            "criterion(output, y)\n"
        ),
        (
            "WITH:\n    if index:\n        output = model(x)\n    else:\n"
            "        output = other(x)\n    loss = criterion(output, y)\n"
        ),
    ),
    "an inner loop": (
        "loss = 0\nfor part in x:\n    loss += model(part).mean()\n",
        "loss = 0\nWITH:\n    for part in x:\n        loss += model(part).mean()\n",
    ),
    "a with": (
        "with profile():\n    loss = criterion(model(x), y)\n",
        "with profile():\n    WITH:\n        loss = criterion(model(x), y)\n",
    ),
    "interleaved": (
        "output = model(x)\ncount += 1\nloss = criterion(output, y)\n",
        "WITH:\n    output = model(x)\n    count += 1\n    loss = criterion(output, y)\n",
    ),
    "a comment": (
        "# forward\noutput = model(x)  # logits\n# loss\nloss = criterion(output, y)\n",
        (
            "WITH:\n    # forward\n    output = model(x)  # logits\n    # loss\n    loss = "
            "criterion(output, y)\n"
        ),
    ),
}


@pytest.mark.parametrize(("before", "after"), STRAIGHT.values(), ids=STRAIGHT)
def test_forward_and_loss(before: str, after: str) -> None:
    new = body(before + STEP)
    if before.startswith("with profile"):  # either nesting is right
        assert new in (
            text(after + SCALED),
            text("WITH:\n    with profile():\n        loss = criterion(model(x), y)\n" + SCALED),
        )
    else:
        assert new == text(after + SCALED)


OUTSIDE = {
    "data movement": "x = x.flatten(1).to(device)\n",
    "labels": "y = y.long()\n",
    "train mode": "model.train()\n",
    "a clock": "start = time.time()\n",
    "noise": "noise = torch.randn(8, 8, device=device)\n",
    "a print": "print(index)\n",
    "a branch without a forward": "if index > 100:\n    break\n",
    "an assertion": "assert len(x) == len(y)\n",
}


@pytest.mark.parametrize("before", OUTSIDE.values(), ids=OUTSIDE)
def test_what_comes_before_the_first_forward_stays_outside(before: str) -> None:
    assert body(f"{before}loss = criterion(model(x), y)\n{STEP}") == text(
        f"{before}WITH:\n    loss = criterion(model(x), y)\n{SCALED}"
    )


AFTER = {
    "logging": "total += loss.item()\n",
    "a metric": "correct += output.argmax(1).eq(y).sum().item()\n",
    "a NaN guard": 'if torch.isnan(loss):\n    raise ValueError("nan")\n',
    "a print": "print(index, loss.item())\n",
    "a list": "losses.append(loss.item())\n",
    "a break": "if index == 3:\n    break\n",
}


@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
def test_what_comes_after_the_loss_stays_outside(after: str) -> None:
    region = "output = model(x)\nloss = criterion(output, y)\n"
    wrapped = "WITH:\n    output = model(x)\n    loss = criterion(output, y)\n"
    assert body(region + after + STEP) == text(wrapped + after + SCALED)
    assert body(region + STEP + after) == text(wrapped + SCALED + after)


def test_the_loss_in_the_receiver_gets_a_name() -> None:
    assert body("criterion(model(x), y).backward()\noptimizer.step()\n") == text(
        "WITH:\n    loss = criterion(model(x), y)\n"
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
    )


def test_the_new_name_is_free() -> None:
    new = body("criterion(model(x), y).backward()\noptimizer.step()\nloss = 3\n")
    assert "total_loss = criterion(model(x), y)\nscaler.scale(total_loss).backward()" in new


def test_arguments_of_backward_are_kept() -> None:
    new = body("criterion(model(x), y).backward(retain_graph=True)\noptimizer.step()\n")
    assert "scaler.scale(loss).backward(retain_graph=True)" in new


def test_a_receiver_that_joins_losses_is_scaled_where_it_is() -> None:
    new = body(
        "output = model(x)\na = criterion(output, y)\nb = output.mean()\n(a + "
        "b).backward()\noptimizer.step()\n"
    )
    assert (
        "\nscaler.scale(a + b).backward()\n" in new or "\nscaler.scale((a + b)).backward()\n" in new
    )


def test_reduced_receivers_are_scaled_reduced() -> None:
    assert "scaler.scale(loss.mean()).backward()" in body(
        "loss = model(x)\nloss.mean().backward()\noptimizer.step()\n"
    )


def test_a_target_without_gradients_before_the_forward_stays_outside() -> None:
    target = "with torch.no_grad():\n    target = other(x)\n"
    new = body(f"{target}loss = F.mse_loss(model(x), target)\n{STEP}")
    assert new == text(f"{target}WITH:\n    loss = F.mse_loss(model(x), target)\n{SCALED}")


def test_a_target_without_gradients_inside_the_run_is_left_out() -> None:
    target = "with torch.no_grad():\n    target = other(x)\n"
    new = body(f"output = model(x)\n{target}loss = F.mse_loss(output, target)\n{STEP}")
    assert new == text(
        f"WITH:\n    output = model(x)\n{target}WITH:\n    loss = F.mse_loss(output, "
        f"target)\n{SCALED}"
    )


def test_each_backward_has_its_region() -> None:
    first = "a = model(x).mean()\na.backward()\noptimizer.step()\n"
    last = "b = other(x).mean()\nb.backward()\nsecond.step()\n"
    assert body(first + last, before=SECOND) == text(
        """
        WITH:
            a = model(x).mean()
        scaler.scale(a).backward()
        scaler.step(optimizer)
        WITH:
            b = other(x).mean()
        scaler.scale(b).backward()
        scaler.step(second)
        scaler.update()
        """
    )


def test_a_forward_shared_by_two_backwards_belongs_to_the_first() -> None:
    new = body(
        """
        fake = model(x)
        d_loss = other(fake.detach()).mean()
        second.zero_grad()
        d_loss.backward()
        second.step()
        g_loss = other(fake).mean()
        g_loss.backward()
        optimizer.step()
        """,
        before=SECOND,
    )
    assert new == text(
        """
        WITH:
            fake = model(x)
            d_loss = other(fake.detach()).mean()
        second.zero_grad()
        scaler.scale(d_loss).backward()
        scaler.step(second)
        WITH:
            g_loss = other(fake).mean()
        scaler.scale(g_loss).backward()
        scaler.step(optimizer)
        scaler.update()
        """
    )


def test_gradients_that_are_never_cleared_are_refused() -> None:
    never = """
        fake = model(x)
        d_loss = other(fake.detach()).mean()
        d_loss.backward()
        second.step()
        g_loss = other(fake).mean()
        g_loss.backward()
        optimizer.step()
        """
    assert verdict(never, before=SECOND) == ("refused", "update-while-accumulating")


def test_autograd_backward_scales_the_list() -> None:
    new = body(
        "a = model(x).mean()\nb = model(y).mean()\ntorch.autograd.backward([a, "
        "b])\noptimizer.step()\n"
    )
    assert "torch.autograd.backward(scaler.scale([a, b]))" in new


def test_bfloat16_has_regions_alone() -> None:
    assert body("loss = criterion(model(x), y)\n" + STEP, dtype="bfloat16") == (
        'with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device.type == "cuda"):\n'
        "    loss = criterion(model(x), y)\n" + STEP
    )


NO_FORWARD = {
    "stored log-probabilities": "loss = torch.stack([-p for p in saved]).sum()\n",
    "a queue": "loss = queue.get()\n",
    "a stored loss": "loss = buffer['loss']\n",
}


@pytest.mark.parametrize("before", NO_FORWARD.values(), ids=NO_FORWARD)
def test_no_forward_no_region(before: str) -> None:
    assert verdict(before + STEP) == ("refused", "loss-computed-elsewhere")


def test_a_vector_loss_is_refused() -> None:
    status, _ = verdict("loss = model(x)\nloss.backward(torch.ones_like(loss))\noptimizer.step()\n")
    assert status == "refused"


def test_a_yield_inside_the_run_is_refused() -> None:
    status, reason = verdict("output = model(x)\nloss = criterion((yield output), y)\n" + STEP)
    assert (status, reason) == ("refused", "unsupported-shape")
