"""Gradients that a loop takes itself: what leads to them stays in float32, or the loop is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from tests.planner.programs import body, script, text, verdict

STEP = "loss.backward()\noptimizer.step()\n"
TAIL = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
HELPER = """\
def penalty(D, sample):
    sample.requires_grad_(True)
    gradient = torch.autograd.grad(D(sample).sum(), sample, create_graph=True)[0]
    return (gradient.norm(2, dim=1) - 1).pow(2).mean()
"""


def test_a_helper_that_runs_the_forward_stays_outside_and_gets_float() -> None:
    new = body(
        (
            "fake = other(x)\nscore = model(fake).mean()\ngp = penalty(model, fake.detach())\nloss "
            f"= score + gp\n{STEP}"
        ),
        before=HELPER,
    )
    assert new == text(
        f"""
        WITH:
            fake = other(x)
            score = model(fake).mean()
        gp = penalty(model, fake.detach().float())
        loss = score + gp
        {TAIL.replace(chr(10), chr(10) + " " * 8)}"""
    ).rstrip(" ")


def test_bfloat16_keeps_it_in_float32_too() -> None:
    new = body(
        (
            "fake = other(x)\ngp = penalty(model, fake.detach())\nloss = model(fake).mean() + "
            f"gp\n{STEP}"
        ),
        before=HELPER,
        dtype="bfloat16",
    )
    assert "gp = penalty(model, fake.detach().float())\nwith torch.autocast" in new


def test_a_helper_that_is_given_the_scores_keeps_their_forward_out() -> None:
    helper = """\
def penalty(scores, sample):
    gradient = torch.autograd.grad(outputs=scores.sum(), inputs=sample, create_graph=True)[0]
    return gradient.pow(2).mean()
"""
    source = (
        "x.requires_grad_()\nfirst = other(y)\nscores = model(x)\nloss = (first - "
        f"scores).exp().mean() + penalty(scores, x)\n{STEP}"
    )
    assert body(source, before=helper) == text(
        f"""
        x.requires_grad_()
        WITH:
            first = other(y)
        scores = model(x)
        loss = (first.float() - scores).exp().mean() + penalty(scores, x)
        {TAIL.replace(chr(10), chr(10) + " " * 8)}"""
    ).rstrip(" ")


def test_an_input_made_under_autocast_is_float_from_the_start() -> None:
    source = f"""
        fake = other(x)
        scores = model(fake)
        gradient = torch.autograd.grad(scores.sum(), fake, create_graph=True)[0]
        loss = gradient.norm() + scores.mean()
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    assert body(source).startswith(
        text("WITH:\n    fake = other(x).float()\nscores = model(fake)\ngradient = ")
    )


def test_one_forward_that_gives_images_and_latents_is_float32() -> None:
    source = f"""
        images, latents = other(x)
        gradient = torch.autograd.grad((images * noise).sum(), latents, create_graph=True)[0]
        loss = gradient.norm() + F.softplus(model(images)).mean()
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    assert body(source).startswith("images, latents = other(x)\ngradient")


def test_an_input_from_arithmetic_gets_float_halves() -> None:
    source = f"""
        fake = other(x)
        mixed = torch.lerp(x, fake.data, 0.5)
        mixed.requires_grad = True
        gradient = torch.autograd.grad(model(mixed).sum(), mixed, create_graph=True)[0]
        loss = gradient.norm() + model(fake).mean()
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    assert "mixed = torch.lerp(x, fake.data.float(), 0.5)\nmixed.requires_grad" in body(source)


def test_sizes_and_fresh_tensors_are_not_cast() -> None:
    source = f"""
        fake = other(x)
        alpha = torch.rand(fake.size(0), 1, device=device)
        mixed = (alpha * x + (1 - alpha) * fake.data).requires_grad_(True)
        gradient = torch.autograd.grad(model(mixed), mixed, torch.ones(fake.shape[0]), create_graph=True)[0]
        loss = gradient.norm() + model(fake).mean()
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    assert body(source).count(".float()") == 1


def test_first_order_gradients_stay_in_float32_as_well() -> None:
    source = f"""
        probe = x.clone().requires_grad_(True)
        gradient = torch.autograd.grad(criterion(model(probe), y), probe)[0]
        loss = criterion(model(x + gradient.sign()), y)
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    new = body(source)
    assert (
        "\ngradient = torch.autograd.grad(criterion(model(probe), y), probe)[0]\nwith "
        "torch.autocast" in new
    )


def test_a_penalty_in_a_branch() -> None:
    source = f"""
        loss = criterion(model(x), y)
        if index % 4 == 0:
            gp = penalty(model, x)
            loss = loss + gp
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    assert body(source, before=HELPER).startswith(
        text(
            "WITH:\n    loss = criterion(model(x), y)\nif index % 4 == 0:\n    gp = "
            "penalty(model, x)\n"
        )
    )


def test_a_helper_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text("import torch\n\n\n" + HELPER)
    source = "from losses import penalty\n" + script(
        "fake = other(x)\ngp = penalty(model, fake.detach())\nloss = model(fake).mean() + "
        f"gp\n{STEP}"
    )
    new = migrate_text(source, str(tmp_path / "program.py"), Settings()).output
    assert new is not None
    assert "    gp = penalty(model, fake.detach().float())\n    with torch.autocast" in new


def test_nothing_left_is_refused() -> None:
    source = (
        "x.requires_grad_()\ngradient = torch.autograd.grad(model(x).sum(), x, "
        "create_graph=True)[0]\n"
    )
    assert verdict(f"{source}loss = gradient.norm()\n{STEP}") == ("refused", "double-backward")


def test_a_derivative_inside_a_model_is_refused() -> None:
    cls = """\
class Energy(nn.Module):
    def forward(self, x):
        energy = model(x)
        return energy, torch.autograd.grad(energy.sum(), x, create_graph=True)[0]


potential = Energy()
"""
    source = f"energy, forces = potential(x)\nloss = criterion(energy, y) + forces.norm()\n{STEP}"
    assert verdict(source, before=cls) == ("refused", "double-backward")


def test_half_values_that_a_helper_finds_by_itself_are_refused() -> None:
    helper = HELPER.replace(
        "def penalty(D, sample):\n", "def penalty(D):\n    sample = fake.detach()\n"
    )
    source = f"fake = other(x)\nloss = model(fake).mean() + penalty(model)\n{STEP}"
    split = (
        "fake = other(x)\nscore = model(fake).mean()\ngp = penalty(model)\nloss = score + "
        f"gp\n{STEP}"
    )
    assert verdict(source, before=helper) == ("refused", "double-backward")
    assert verdict(split, before=helper) == ("refused", "double-backward")


def test_a_module_that_takes_them_of_its_own_parameter() -> None:
    """Invariant risk minimisation: the model's forward is not on the way, so it stays under
    autocast.
    """
    cls = """\
class Invariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, scores, y):
        loss = F.cross_entropy(scores * self.scale, y)
        return torch.autograd.grad(loss, [self.scale], create_graph=True)[0].pow(2).sum()


invariance = Invariance().to(device)
"""
    source = (
        "scores = model(x)\nloss = criterion(scores, y)\npenalty = invariance(scores, "
        f"y)\nloss = loss + penalty\n{STEP}"
    )
    assert body(source, before=cls).startswith(
        text(
            "WITH:\n    scores = model(x)\n    loss = criterion(scores, y)\npenalty = "
            "invariance(scores.float(), y)\n"
        )
    )


def test_labels_beside_half_values_stay_integers() -> None:
    """A penalty in an inner loop: the loop stays outside, and only the scores are cast."""
    helper = HELPER.replace("(D, sample)", "(D, sample, y)")
    source = f"""
        scores = model(x)
        loss = criterion(scores, y)
        for part, labels in zip(scores.chunk(2), y.chunk(2)):
            loss = loss + penalty(other, part, labels)
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    new = body(source, before=helper)
    assert (
        "\nfor part, labels in zip(scores.chunk(2), y.chunk(2)):\n    loss = loss + "
        "penalty(other, part.float(), labels)\n" in new
    )
    assert new.startswith(
        text("WITH:\n    scores = model(x)\n    loss = criterion(scores, y)\nfor part")
    )


def test_indices_and_masks_stay_what_they_are() -> None:
    helper = HELPER.replace("(D, sample)", "(D, sample, index, mask, best)")
    source = f"""
        fake = other(x)
        _, index = torch.max(fake, 1)
        mask = fake > 0
        best = torch.argmax(fake, 1)
        gp = penalty(model, fake.detach(), index, mask, best)
        loss = model(fake).mean() + gp
        {STEP.replace(chr(10), chr(10) + " " * 8)}"""
    assert "gp = penalty(model, fake.detach().float(), index, mask, best)\n" in body(
        source, before=helper
    )


WHO = {
    "a function that computes the loss, too": (
        "penalty",
        "loss = penalty(model, x)\n",
        "`penalty`",
    ),
    "a function that takes them of what it is given": (
        "def apart(x, y):\n    return torch.autograd.grad(y.sum(), x, create_graph=True)[0].sum()\n",
        "loss = apart(x, model(x))\n",
        "all of the loss depends on them",
    ),
}


@pytest.mark.parametrize(("helper", "loss", "said"), WHO.values(), ids=WHO)
def test_the_reason_names_what_takes_them(helper: str, loss: str, said: str) -> None:
    source = script(
        f"x.requires_grad_(True)\n{loss}{STEP}", before=helper if ":" in helper else HELPER
    )
    message = migrate_text(source, "<test>", Settings()).loops[0].message
    assert message is not None
    assert said in message
