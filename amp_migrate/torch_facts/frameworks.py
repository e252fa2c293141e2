"""Frameworks that run the training loop themselves: where their precision is set, and to what."""

from __future__ import annotations

from amp_migrate.records import NamedTuple


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
    trains: frozenset[str] = frozenset()
    """Methods of what is made that train."""
    infers: frozenset[str] = frozenset()
    """Methods that a program needs that does not train."""


def _of(packages: tuple[str, ...], *names: str) -> frozenset[str]:
    return frozenset(
        f"{package}.{name}" for package in packages for name in names
    )


_LIGHTNING = (
    "lightning",
    "lightning.pytorch",
    "pytorch_lightning",
    "lightning.pytorch.trainer",
    "pytorch_lightning.trainer",
)
_FABRIC = (
    "lightning",
    "lightning.fabric",
    "lightning_fabric",
    "lightning.pytorch",
    "lightning.fabric.fabric",
)
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_TRL = (
    "SFTConfig",
    "DPOConfig",
    "RewardConfig",
    "PPOConfig",
    "ORPOConfig",
    "KTOConfig",
    "GRPOConfig",
)
_FLOAT = (32, "32", "32-true", None)

SHARDS: tuple[str, ...] = (
    "torch.distributed.fsdp",
    "torch.distributed._composable",
    "torch.distributed.tensor",
    "fairscale.nn",
    "torch.distributed._tensor",
)
"""How the names of what shards a model begin."""

FRAMEWORKS = (
    Framework(
        "accelerate",
        _of(("accelerate", "accelerate.accelerator"), "Accelerator"),
        "mixed_precision",
        off=("no", None),
        half=(("mixed_precision", '"fp16" if {on} else "no"'),),
        brain=(("mixed_precision", '"bf16" if {on} else "no"'),),
        setting='Accelerator(mixed_precision="fp16")',
        rivals=frozenset(
            {
                "fp16",
                "deepspeed_plugin",
                "fsdp_plugin",
                "megatron_lm_plugin",
                "dynamo_plugin",
            }
        ),
        cpu=(("cpu", True),),
        clipper="accelerator.clip_grad_norm_",
        trains=frozenset({"backward"}),
        infers=frozenset({"prepare", "prepare_model", "gather_for_metrics"}),
    ),
    Framework(
        "Lightning",
        _of(_LIGHTNING, "Trainer", "Trainer.from_argparse_args"),
        "precision",
        off=_FLOAT,
        half=(("precision", '"16-mixed" if {on} else "32-true"'),),
        brain=(("precision", '"bf16-mixed" if {on} else "32-true"'),),
        setting='Trainer(precision="16-mixed")',
        rivals=frozenset({"plugins", "amp_backend", "amp_level"}),
        cpu=(("accelerator", "cpu"),),
        clipper="Trainer(gradient_clip_val=...) or self.clip_gradients",
        trains=frozenset({"fit", "tune", "lr_find"}),
        infers=frozenset({"test", "validate", "predict"}),
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
        trains=frozenset({"backward"}),
        infers=frozenset({"setup", "setup_module"}),
    ),
    Framework(
        "transformers",
        _of(("transformers", "transformers.training_args"), *_ARGUMENTS)
        | _of(("trl",), *_TRL),
        "fp16",
        half=(("fp16", "{on}"),),
        brain=(("bf16", "{on}"),),
        setting="TrainingArguments(fp16=True)",
        rivals=frozenset(
            {
                "bf16",
                "deepspeed",
                "fsdp",
                "half_precision_backend",
                "fp16_full_eval",
                "bf16_full_eval",
            }
        ),
        cpu=(("use_cpu", True), ("no_cuda", True)),
        trains=frozenset({"train"}),
        infers=frozenset({"evaluate", "predict"}),
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
        _of(
            ("monai.engines", "monai.engines.trainer"),
            "SupervisedTrainer",
            "GanTrainer",
            "AdversarialTrainer",
        ),
        "amp",
        half=(("amp", "True"),),
        brain=(
            ("amp", "True"),
            ("amp_kwargs", '{{"dtype": {torch}.bfloat16}}'),
        ),
        setting="SupervisedTrainer(amp=True)",
        rivals=frozenset({"amp_kwargs"}),
        cpu=(("device", "cpu"),),
    ),
    Framework(
        "fastai",
        frozenset(),
        "",
        half=(("to_fp16", ""),),
        brain=(("to_bf16", ""),),
        setting="learner.to_fp16()",
        trains=frozenset(
            ("fit", "fine_tune", "fit_one_cycle", "fit_flat_cos", "fit_sgdr")
        ),
        infers=frozenset({"predict", "get_preds", "validate"}),
    ),
    Framework(
        "LightningCLI",
        _of(
            (*_LIGHTNING, "lightning.pytorch.cli", "pytorch_lightning.cli"),
            "LightningCLI",
        ),
        "trainer",
        setting="--trainer.precision 16-mixed",
    ),
    Framework(
        "DeepSpeed",
        _of(("deepspeed",), "initialize"),
        "config",
        setting='"fp16": {"enabled": true} in its configuration',
    ),
)
# What Lightning 2.0 took away: arguments, hooks, classes. Before it, "16-mixed" has another name.
LIGHTNING_1 = frozenset(
    (
        "gpus tpu_cores ipus num_processes auto_lr_find auto_scale_batch_size "
        "resume_from_checkpoint amp_backend amp_level progress_bar_refresh_rate "
        "weights_summary checkpoint_callback replace_sampler_ddp track_grad_norm "
        "distributed_backend move_metrics_to_cpu multiple_trainloader_mode "
        "flush_logs_every_n_steps"
    ).split()
)
LIGHTNING_1_HOOKS = (
    "def training_epoch_end(",
    "def validation_epoch_end(",
    "def test_epoch_end(",
    # names that it no longer has
    ".from_argparse_args(",
    " DDPPlugin",
    " DDP2Plugin",
    " DDPSpawnPlugin",
    " DDPShardedPlugin",
    " DeepSpeedPlugin",
    " ApexMixedPrecisionPlugin",
    " NativeMixedPrecisionPlugin",
)
FROM_SETTINGS = ("from_argparse_args",)
"""Makers whose first argument holds what the others are told."""
WORDS = (
    "accelerate",
    "lightning",
    "TrainingArguments",
    "from trl",
    "import trl",
    "ignite.",
    "monai.",
    "fastai",
    "deepspeed.init",
    "HfArgumentParser",
)

LIGHTNING_TRAINERS = _of(_LIGHTNING, "Trainer")
LIGHTNING_PRECISIONS = {
    "16": "float16",
    "16-mixed": "float16",
    "bf16": "bfloat16",
    "bf16-mixed": "bfloat16",
}
"""What `precision` may be, as text, and the dtype of autocast."""
LIGHTNING_STEPS = (
    "training_step",
    "validation_step",
    "test_step",
    "predict_step",
)
"""Methods of a module that a Trainer runs under autocast."""
