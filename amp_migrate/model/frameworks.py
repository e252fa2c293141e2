"""Frameworks that run the training loop themselves: where their precision is set, and to what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Module, Scope
from amp_migrate.names import dotted_name

State: TypeAlias = Literal["on", "off", "open", "cpu"]
"""`open`: decided where the program runs, or out of sight."""


class Framework(NamedTuple):
    """What takes the precision of a framework, and which values mean what."""

    name: str
    makers: frozenset[str]
    keyword: str
    off: tuple[object, ...] = (None, False)
    half: tuple[tuple[str, str], ...] = ()
    """Keywords and values (source) that switch AMP on, `{on}` asking whether there is a GPU."""
    brain: tuple[tuple[str, str], ...] = ()
    """The same for bfloat16."""
    setting: str = ""
    """How the setting is told."""
    rivals: frozenset[str] = frozenset()
    """Other keywords that set the precision."""
    cpu: tuple[tuple[str, object], ...] = ()
    """Keywords and values that keep the program on the CPU."""
    clipper: str = ""
    """What must clip instead of torch's functions, which would see scaled gradients."""


def _of(packages: tuple[str, ...], *names: str) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for package in packages for name in names)


_LIGHTNING = (
    "lightning",
    "lightning.pytorch",
    "pytorch_lightning",
    "lightning.pytorch.trainer",
    "pytorch_lightning.trainer",
)
_FABRIC = ("lightning", "lightning.fabric", "lightning_fabric", "lightning.pytorch", "lightning.fabric.fabric")
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_TRL = ("SFTConfig", "DPOConfig", "RewardConfig", "PPOConfig", "ORPOConfig", "KTOConfig", "GRPOConfig")
_FLOAT = (32, "32", "32-true", None)

FRAMEWORKS = (
    Framework(
        "accelerate",
        _of(("accelerate", "accelerate.accelerator"), "Accelerator"),
        "mixed_precision",
        off=("no", None),
        half=(("mixed_precision", '"fp16" if {on} else "no"'),),
        brain=(("mixed_precision", '"bf16" if {on} else "no"'),),
        setting='Accelerator(mixed_precision="fp16")',
        rivals=frozenset({"fp16", "deepspeed_plugin", "fsdp_plugin", "megatron_lm_plugin", "dynamo_plugin"}),
        cpu=(("cpu", True),),
        clipper="accelerator.clip_grad_norm_",
    ),
    Framework(
        "Lightning",
        _of(_LIGHTNING, "Trainer"),
        "precision",
        off=_FLOAT,
        half=(("precision", '"16-mixed" if {on} else "32-true"'),),
        brain=(("precision", '"bf16-mixed" if {on} else "32-true"'),),
        setting='Trainer(precision="16-mixed")',
        rivals=frozenset({"plugins", "amp_backend", "amp_level"}),
        cpu=(("accelerator", "cpu"),),
        clipper="Trainer(gradient_clip_val=...) or self.clip_gradients",
    ),
    Framework(
        "Fabric",
        _of(_FABRIC, "Fabric"),
        "precision",
        off=_FLOAT,
        half=(("precision", '"16-mixed" if {on} else "32-true"'),),
        brain=(("precision", '"bf16-mixed" if {on} else "32-true"'),),
        setting='Fabric(precision="16-mixed")',
        rivals=frozenset({"plugins"}),
        cpu=(("accelerator", "cpu"),),
        clipper="fabric.clip_gradients",
    ),
    Framework(
        "transformers",
        _of(("transformers", "transformers.training_args"), *_ARGUMENTS) | _of(("trl",), *_TRL),
        "fp16",
        half=(("fp16", "{on}"),),
        brain=(("bf16", "{on}"),),
        setting="TrainingArguments(fp16=True)",
        rivals=frozenset({"bf16", "deepspeed", "fsdp", "half_precision_backend", "fp16_full_eval", "bf16_full_eval"}),
        cpu=(("use_cpu", True), ("no_cuda", True)),
    ),
    Framework(
        "ignite",
        _of(("ignite.engine",), "create_supervised_trainer"),
        "amp_mode",
        half=(("amp_mode", '"amp"'), ("scaler", "True")),
        setting='create_supervised_trainer(amp_mode="amp", scaler=True)',
        rivals=frozenset({"scaler"}),
        cpu=(("device", "cpu"),),
    ),
    Framework(
        "MONAI",
        _of(("monai.engines", "monai.engines.trainer"), "SupervisedTrainer", "GanTrainer", "AdversarialTrainer"),
        "amp",
        half=(("amp", "True"),),
        brain=(("amp", "True"), ("amp_kwargs", '{{"dtype": {torch}.bfloat16}}')),
        setting="SupervisedTrainer(amp=True)",
        rivals=frozenset({"amp_kwargs"}),
        cpu=(("device", "cpu"),),
    ),
    Framework(
        "fastai", frozenset(), "", half=(("to_fp16", ""),), brain=(("to_bf16", ""),), setting="learner.to_fp16()"
    ),
    Framework(
        "DeepSpeed",
        _of(("deepspeed",), "initialize"),
        "config",
        setting='"fp16": {"enabled": true} in its configuration',
    ),
)
# Trainer arguments and hooks that Lightning 2.0 took away: there, "16-mixed" has another name.
_LIGHTNING_1 = {
    "gpus", "tpu_cores", "ipus", "num_processes", "auto_lr_find", "auto_scale_batch_size", "resume_from_checkpoint", "amp_backend",
    "amp_level", "progress_bar_refresh_rate", "weights_summary", "checkpoint_callback", "replace_sampler_ddp", "track_grad_norm",
    "distributed_backend", "move_metrics_to_cpu", "multiple_trainloader_mode", "flush_logs_every_n_steps",
}  # fmt: skip
_LIGHTNING_1_HOOKS = ("def training_epoch_end(", "def validation_epoch_end(", "def test_epoch_end(")
_CLIPPERS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
_WORDS = (
    "accelerate",
    "lightning",
    "TrainingArguments",
    "from trl",
    "import trl",
    "ignite.",
    "monai.",
    "fastai",
    "deepspeed.init",
)


@dataclass(frozen=True, eq=False)
class Setting:
    """One place that makes a framework's trainer."""

    framework: Framework
    call: ast.Call
    scope: Scope
    state: State
    shown: str
    """The precision as it is written, or `` where nothing is."""
    old_lightning: bool = False
    obstacle: str = ""
    """Why no change is offered although the precision is a literal."""
    given: dict[str, ast.keyword] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """The setting to use, in the framework's own words."""
        return "Trainer(precision=16)" if self.old_lightning else self.framework.setting

    def values(self, dtype: str, torch: str) -> dict[str, str]:
        """Keywords and their new values; empty where nothing can be offered."""
        if self.state != "off" or self.obstacle:
            return {}
        pairs = self.framework.brain if dtype == "bfloat16" else self.framework.half
        found = {key: value.format(on=f"{torch}.cuda.is_available()", torch=torch) for key, value in pairs}
        if self.old_lightning:
            half = '"bf16"' if dtype == "bfloat16" else "16"
            found = {"precision": f"{half} if {torch}.cuda.is_available() else 32"}
        return found


def names_framework(text: str) -> bool:
    """Whether a text can make a framework's trainer at all."""
    return any(word in text for word in _WORDS)


def framework_settings(program: Program) -> list[Setting]:
    """The trainers that a program makes, in source order."""
    if not names_framework(program.module.text):
        return []
    found = program.remembered(framework_settings, lambda: list(_found(program)))
    return sorted(found, key=lambda s: (s.call.lineno, s.call.col_offset))


def _found(program: Program) -> Iterator[Setting]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = scope.module.canonical(call.func)
            framework = next((f for f in FRAMEWORKS if name in f.makers), None)
            if framework is not None:
                yield _setting(framework, call, scope)
            elif _makes_learner(scope.module, call, name):
                yield _learner(call, scope)


def _setting(framework: Framework, call: ast.Call, scope: Scope) -> Setting:
    given = {k.arg: k for k in call.keywords if k.arg is not None}
    state, shown = _state(framework, call, given, scope)
    old = framework.name == "Lightning" and _is_old(call, scope.module)
    return Setting(framework, call, scope, state, shown, old, _obstacle(framework, call, given, scope.module), given)


def _state(framework: Framework, call: ast.Call, given: dict[str, ast.keyword], scope: Scope) -> tuple[State, str]:
    if framework.name == "DeepSpeed":
        return "open", "its configuration"
    if any(isinstance(k.value, ast.Constant) and (name, k.value.value) in framework.cpu for name, k in given.items()):
        return "cpu", ""
    for name in (framework.keyword, *sorted(framework.rivals)):
        if name not in given:
            continue
        value = given[name].value
        shown = f"{name}={ast.unparse(value)}"
        if not isinstance(value, ast.Constant):
            return "open", shown
        if value.value not in (framework.off if name == framework.keyword else (None, False, "")):
            return "on", shown
    if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return "open", ast.unparse(next((k.value for k in call.keywords if k.arg is None), call.func))
    return "off", ""


def _obstacle(framework: Framework, call: ast.Call, given: dict[str, ast.keyword], module: Module) -> str:
    if framework.clipper:
        for scope in module.scopes.values():
            for other in scope.calls:
                if module.canonical(other.func) in _CLIPPERS:
                    return f"line {other.lineno} clips scaled gradients then: use {framework.clipper} there"
    return ""


def _is_old(call: ast.Call, module: Module) -> bool:
    return any(k.arg in _LIGHTNING_1 for k in call.keywords) or any(hook in module.text for hook in _LIGHTNING_1_HOOKS)


def _makes_learner(module: Module, call: ast.Call, name: str | None) -> bool:
    """`vision_learner(...)` and `Learner(...)` of fastai, which is imported by stars as a rule."""
    last = (dotted_name(call.func) or "").rpartition(".")[2]
    if not (last == "Learner" or last.endswith("_learner")):
        return False
    if name is not None and name.startswith("fastai."):
        return True
    return isinstance(call.func, ast.Name) and any(star.startswith("fastai") for star in module.imports.stars)


def _learner(call: ast.Call, scope: Scope) -> Setting:
    text = scope.module.text
    framework = next(f for f in FRAMEWORKS if f.name == "fastai")
    shown = next((word for word in ("to_fp16()", "to_bf16()", "MixedPrecision") if word in text), "")
    return Setting(framework, call, scope, "on" if shown else "off", shown)
