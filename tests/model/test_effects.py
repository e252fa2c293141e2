"""What statements do to gradients, parameters and models."""

from __future__ import annotations

import pytest

from amp_migrate.model.steps.events import EventKind
from tests.model.questions import asked

MADE = "model = nn.Linear(1, 1)\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"

DOES = {
    "a forward": ("model(x)", EventKind.FORWARD),
    "a backward": ("loss.backward()", EventKind.BACKWARD),
    "several at once": ("torch.autograd.backward([a, b])", EventKind.BACKWARD),
    "a step": ("optimizer.step()", EventKind.STEP),
    "a step under a key": ("state['optimizer'].step()", EventKind.STEP),
    "a reset": ("optimizer.zero_grad()", EventKind.ZERO_GRAD),
    "the model's reset": ("model.zero_grad()", EventKind.ZERO_GRAD),
    "a clip": ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)", EventKind.READS_GRADIENTS),
    "a read": ("model.weight.grad.norm()", EventKind.READS_GRADIENTS),
    "probabilities": ("F.binary_cross_entropy(p, y)", EventKind.BCE),
}


@pytest.mark.parametrize(("expression", "effect"), DOES.values(), ids=DOES)
def test_effects_of_calls(expression: str, effect: EventKind) -> None:
    program, expr, scope = asked(f"{MADE}ask({expression})")
    assert program.effects.of_statement(expr, scope) & effect


@pytest.mark.parametrize(("expression", "effect"), DOES.values(), ids=DOES)
def test_a_function_does_what_its_body_does(expression: str, effect: EventKind) -> None:
    program, expr, scope = asked(
        f"{MADE}def helper():\n    if x:\n        {expression}\nask(helper())"
    )
    assert program.effects.of_statement(expr, scope) & effect


@pytest.mark.parametrize(("expression", "effect"), DOES.values(), ids=DOES)
def test_defining_a_function_does_nothing(expression: str, effect: EventKind) -> None:
    program, expr, scope = asked(f"{MADE}ask((3, lambda: {expression}))")
    assert not program.effects.of_statement(expr, scope) & effect


DOES_NOT = {
    "an environment": ("env.step(action)", EventKind.STEP),
    "a scheduler": ("scheduler.step()", EventKind.STEP),
    "a scheduler under a key": ("optimizers['lr_scheduler'].step()", EventKind.STEP),
    "a profiler": ("profiler.step()", EventKind.STEP),
    "a loss": ("nn.CrossEntropyLoss()(a, b)", EventKind.FORWARD),
    "parameters": ("model.parameters()", EventKind.FORWARD),
    "train mode": ("model.train()", EventKind.FORWARD),
    "a state": ("model.state_dict()", EventKind.FORWARD),
    "a builtin": ("len(x)", EventKind.FORWARD),
    "a tensor": ("torch.zeros(3)", EventKind.FORWARD),
    "a test for None": ("p.grad is None", EventKind.READS_GRADIENTS),
    "the gradient mode": ("torch.set_grad_enabled(True)", EventKind.READS_GRADIENTS),
    "the function grad": ("torch.autograd.grad(a, b)", EventKind.READS_GRADIENTS),
    "logits": ("F.binary_cross_entropy_with_logits(p, y)", EventKind.BCE),
    "an accelerator": ("accelerator.backward(loss)", EventKind.BACKWARD),
    "clamped weights": ("p.data.clamp_(-1, 1)", EventKind.WRITES_GRADIENTS),
    "a reset of one": ("p.grad.zero_()", EventKind.READS_GRADIENTS),
}


@pytest.mark.parametrize(("expression", "effect"), DOES_NOT.values(), ids=DOES_NOT)
def test_what_only_looks_like_it(expression: str, effect: EventKind) -> None:
    program, expr, scope = asked(f"{MADE}ask({expression})")
    assert not program.effects.of_statement(expr, scope) & effect


def test_recursion_ends() -> None:
    program, expr, scope = asked(
        f"{MADE}def a():\n    b()\n    loss.backward()\ndef b():\n    a()\nask(b())"
    )
    assert program.effects.of_statement(expr, scope) & EventKind.BACKWARD


def test_a_model_does_what_its_forward_does() -> None:
    net = (
        "class Net(nn.Module):\n    def forward(self, x):\n        return "
        "F.binary_cross_entropy(x, x)\nnet = Net()\n"
    )
    program, expr, scope = asked(f"{net}ask(net(x))")
    assert program.effects.of_statement(expr, scope) & EventKind.BCE
    assert program.effects.of_statement(expr, scope) & EventKind.FORWARD


def test_training_scopes_in_source_order() -> None:
    source = (
        "def late():\n    b.backward()\nask(1)\na.backward()\nclass T:\n    def m(self):\n  "
        "      c.backward()\n"
    )
    program, _, _ = asked(source)
    assert [scope.qualname for scope in program.training_scopes] == ["late", "<module>", "T.m"]
