"""The smaller tables, held against the torch that is installed."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest
import torch

from amp_migrate.torch_facts import (
    amp_api,
    clippers,
    devices,
    distributions,
    layers,
    methods,
    ops,
    optimizers,
)


def resolve(dotted: str) -> Any:
    return functools.reduce(getattr, dotted.split(".")[1:], torch)


@pytest.mark.parametrize("row", amp_api.API, ids=lambda row: row.name)
def test_signatures_are_torchs(row: amp_api.Callable) -> None:
    parameters = inspect.signature(resolve(row.name)).parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert tuple(positional) == row.parameters


def test_the_two_generations_differ_in_order() -> None:
    assert amp_api.parameter_place("torch.cuda.amp.autocast", "enabled") == 0
    assert amp_api.parameter_place("torch.autocast", "enabled") == 2
    assert amp_api.parameter_place("torch.autocast", "device") is None


def test_numbers_of_float16_are_torchs() -> None:
    half = torch.float16
    assert torch.finfo(half).max == amp_api.HALF_MAX
    assert torch.finfo(half).smallest_normal == amp_api.HALF_NORMAL
    assert torch.tensor(1 - amp_api.HALF_EPSILON, dtype=half) == 1
    assert torch.tensor(1 - amp_api.HALF_EPSILON * 1.01, dtype=half) < 1
    assert torch.tensor(1 - amp_api.BFLOAT16_EPSILON, dtype=torch.bfloat16) == 1


def test_every_module_of_torch_has_a_row() -> None:
    modules = {
        name
        for name, value in vars(torch.nn).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    base_classes = {"Module", "RNNBase", "RNNCellBase"}
    assert modules - base_classes == {row.name for row in layers.LAYERS if "." not in row.name}


def test_layers_name_operators_that_have_a_row() -> None:
    for row in layers.LAYERS:
        assert (row.op is not None) is (row.role in ("layer", "criterion")), row.name
    linear = layers.layer("torch.nn.Linear")
    assert linear is not None
    assert linear.op is ops.named("nn.functional.linear")
    assert layers.layer("torch.nn.functional.linear") is None


def test_arguments_of_layers_are_torchs() -> None:
    rows = [row for row in layers.LAYERS if row.constants or row.float_parameters]
    assert rows
    for row in rows:
        module = getattr(torch.nn, row.name)
        made = list(inspect.signature(module).parameters)
        called = list(inspect.signature(module.forward).parameters)[1:]
        assert all(made[place] == name for place, name in row.constants)
        assert all(called[place] == name for place, name in row.float_parameters)


def test_layers_turn_their_constants_into_the_dtype_of_their_input() -> None:
    for row in layers.LAYERS:
        bounds = {name: 0 if name.startswith("min") else 1e6 for _, name in row.constants}
        more = {"Const": {"padding": 1}, "Thres": {"threshold": 0}}
        if bounds:
            given = more.get(row.name[:5], {})
            layer = getattr(torch.nn, row.name)(**given, **bounds)
            with pytest.raises(RuntimeError, match="without overflow"):
                layer(torch.zeros(1, 2, 2, 2, 2, dtype=torch.float16))


def test_distributions_that_solve_have_no_half() -> None:
    half = torch.eye(2, dtype=torch.float16)
    normal = torch.distributions.MultivariateNormal(torch.zeros(2), scale_tril=half)
    with pytest.raises((RuntimeError, NotImplementedError)):
        normal.log_prob(half)


def test_criteria_are_the_losses() -> None:
    losses = {row.name for row in layers.LAYERS if row.name.endswith("Loss")}
    assert {row.name for row in layers.LAYERS if row.role == "criterion"} >= losses


def test_devices_that_torch_casts_on_by_itself() -> None:
    for row in devices.DEVICES:
        if row.name in ("cuda", "cpu", "mps", "xpu"):
            assert str(torch.get_autocast_dtype(row.name)) == f"torch.{row.dtype}"
            asks = getattr(resolve(row.module), "is_bf16_supported", None)
            assert (asks is not None) is (row.asks_bfloat16 is not None)
            assert asks is None or "including_emulation" in inspect.signature(asks).parameters
    assert devices.device("cuda:1") is devices.device("cuda")
    assert devices.device("vulkan") is None


def test_torchs_clippers_exist() -> None:
    names = [name for row in clippers.CLIPPERS for name in row.names if name.startswith("torch.")]
    assert names
    for name in names:
        assert callable(resolve(name)), name


@pytest.mark.parametrize(
    ("name", "driven"),
    [
        ("torch.optim.Adam", True),
        ("torch.optim.LBFGS", False),
        ("apex.optimizers.FusedAdam", True),
        ("timm.optim.optim_factory.create_optimizer", True),
        ("timm.optim.create_optimizer_v2", True),
        ("bitsandbytes.optim.Adam8bit", True),
        ("torch_optimizer.Adahessian", False),
        ("torch_optimizer.RAdam", True),
        ("horovod.torch.DistributedOptimizer", False),
        ("deepspeed.ops.adam.FusedAdam", True),
        ("deepspeed.ops.adam.DeepSpeedCPUAdam", False),
        ("tensorflow.keras.optimizers.Adam", False),
    ],
)
def test_optimizers_of_libraries(name: str, driven: bool) -> None:
    row = optimizers.optimizer(name)
    assert row is not None
    assert row.driven is driven
    assert bool(row.reason) is not driven


@pytest.mark.parametrize(
    "name",
    ["torch.optim.lr_scheduler.StepLR", "torch.optim.Optimizer", "timm.optim.add_weight_decay",
     "numpy.array", "mylib.Adam", None],
)  # fmt: skip
def test_what_is_no_optimizer(name: str | None) -> None:
    assert optimizers.optimizer(name) is None


def test_what_every_optimizer_has_is_what_torchs_base_class_has() -> None:
    own = {name for name, value in vars(torch.optim.Optimizer).items() if inspect.isfunction(value)}
    named = {name for name in own if not name.startswith("_")}
    assert named <= optimizers.METHODS


def test_every_optimizer_of_torch_steps_as_its_row_says() -> None:
    for name, value in vars(torch.optim).items():
        if (
            isinstance(value, type)
            and issubclass(value, torch.optim.Optimizer)
            and name != "Optimizer"
        ):
            row = optimizers.optimizer(f"torch.optim.{name}")
            assert row is not None
            needs = (
                inspect.signature(value.step).parameters["closure"].default
                is inspect.Parameter.empty
            )
            assert row.closure is needs, name


def test_positive_parameters_of_distributions_are_torchs() -> None:
    found = {}
    for name in torch.distributions.__all__:
        constraints = getattr(getattr(torch.distributions, name), "arg_constraints", None)
        if not isinstance(constraints, dict):
            continue
        inner = {one: getattr(c, "base_constraint", c) for one, c in constraints.items()}
        positive = [one for one, c in inner.items() if repr(c).startswith("GreaterThan(lower")]
        if positive:
            found[name] = sorted(positive)
    positive_of = {one.name: sorted(one.positive.split()) for one in distributions.DISTRIBUTIONS}
    rows = {name: names for name, names in positive_of.items() if names}
    found.pop("GeneralizedPareto", None)  # younger than the torch that most programs have
    assert rows == found


def test_probabilities_of_distributions_are_torchs() -> None:
    with_logits = {"probs", "logits"}
    found = {
        name
        for name in torch.distributions.__all__
        if with_logits <= set(inspect.signature(getattr(torch.distributions, name)).parameters)
    }
    assert found == {row.name for row in distributions.DISTRIBUTIONS if row.probabilities}


@pytest.mark.parametrize("row", distributions.FUNCTIONS, ids=lambda row: row.name)
def test_probabilities_are_bounded_by_eps_of_their_dtype(row: distributions.Distribution) -> None:
    bound = getattr(torch.distributions.utils, row.name)
    small = torch.tensor([1e-6, 0.5])
    assert list(inspect.signature(bound).parameters) == row.parameters.split()
    assert (bound(small.half()).float() - bound(small)).abs()[0] > 9e-4
    assert distributions.distribution(f"torch.distributions.utils.{row.name}") is row


@pytest.mark.parametrize("row", distributions.DISTRIBUTIONS, ids=lambda row: row.name)
def test_parameters_of_distributions_are_torchs(row: distributions.Distribution) -> None:
    given = list(inspect.signature(getattr(torch.distributions, row.name)).parameters)
    assert row.parameters.split() == given[: len(row.parameters.split())]
    assert distributions.distribution(f"torch.distributions.x.{row.name}") is row
    assert distributions.distribution(f"elsewhere.{row.name}") is None


def test_what_leaves_a_module_where_it_is_is_asked_of_modules() -> None:
    module = torch.nn.Module()
    assert {name for name in methods.LEAVES_MODULE if not hasattr(module, name)} == set()
    assert methods.LEAVES_MODULE.isdisjoint({"cuda", "half", "apply", "register_forward_hook"})


def test_layers_hold_what_they_are_said_to() -> None:
    held = [torch.nn.Linear(1, 1), torch.nn.Embedding(1, 1)]
    for name in layers.LAYER_DATA:
        assert any(hasattr(one, name) for one in held), name
        assert not hasattr(torch.nn.Module(), name)
