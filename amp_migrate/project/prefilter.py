"""Which files can hold a training loop at all, told from their bytes: most files are never
decoded.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import cache

from amp_migrate.patterns import pattern
from amp_migrate.torch_facts.ops import breaking_names

# A literal first, so that the search runs at the speed of a byte search. A line may be broken
# inside the call.
_BACKWARD = pattern(rb"backward\b(?:\s|\\\r?\n)*(\(?)")
# Packages of `model.frameworks`, and what makes a trainer of each.
_TRAINERS = (
    (b"accelerate", (b"Accelerator",)),
    (
        b"lightning",
        (b"Trainer", b"Fabric", b"LightningCLI", b".from_argparse_args("),
    ),
    (b"transformers", (b"TrainingArguments",)),
    (b"trl", (b"Config(",)),
    (b"deepspeed", (b"deepspeed.initialize(",)),
    (b"ignite", (b"create_supervised_trainer(",)),
    (b"monai", (b"SupervisedTrainer(", b"GanTrainer(", b"AdversarialTrainer(")),
    (b"fastai", (b"earner(",)),
)
_OLD_AMP = (
    pattern(rb"torch\.(?:cuda|cpu)\.amp"),
    pattern(rb"from[ \t]+torch\.(?:cuda|cpu)[ \t]+import\b[^\n]*\bamp\b"),
)
_BEFORE_A_NAME = b" \t\f\r\n\\"
AMP_WORDS = (
    "autocast",
    "GradScaler",
    "grad_scaler",
    ".amp",
    "apex",
    "custom_fwd",
    "custom_bwd",
    # of a module that is handed the scaler
    "caler.scale(",
    "caler.step(",
    "caler.update(",
    ".get_scale(",
    ".unscale_(",
)
"""What stands in every file that uses mixed precision, and in few others."""
# What a file holds that takes part in a step, or that breaks in half where others run it.
_STEP = pattern(
    rb"caler|unscale_|backward\(|zero_grad|autocast|clip_grad|grad_clip|get_scale|"
    rb"opt\w*\.(?:load_)?state_dict\(|\.grad\b|"
    # the state of each of what is kept
    rb"\.state_dict\(\)[^\n]*\bfor\b|\bfor\b[^\n]*:\s*\n[^\n]*\.state_dict\(\)"
)
_HAZARD = pattern(
    rb"BCELoss|binary_cross_entropy|[1-9](?:\.\d+)?e\+?(?:[5-9]|[1-3]\d)\b|\b[1-9]\d{5,}\b|"
    # a power, and a number that a caller gives
    rb"\d *\*\* *(?:1[6-9]|[2-9]\d)\b|\.masked_fill_?\(|\bwhere\("
)
_SMALL = pattern(rb"\b1(?:\.0)?e-0?(?:[5-9]|1\d)\b")
# A buffer that is written by a name, a mask or a list of indices; a dtype that others ask for.
_BUFFER = pattern(rb"\b(?:new_)?(?:zeros|ones|empty|full)\(")
_WRITE = pattern(
    rb"^[ \t]+[\w.]+\[(?:[^\]\n]*,)?[ \t]*[~a-z_][^\],:\n]*(?:,[^\]\n]*)?\][ \t]*=[^=]",
    re.MULTILINE,
)
_HALF = pattern(rb"\btorch\.(?:bfloat16|float16|half)\b|\.half\(\)")
_LOSS = pattern(
    rb"\b(?:class|def)[ \t]+\w*(?:[Ll]oss|[Cc]riteri(?:on|a))\w*[ \t]*[(:]"
)
_AMP_BYTES = tuple(word.encode() for word in AMP_WORDS)


def is_notebook(path: str) -> bool:
    """Whether a file is a Jupyter notebook, by its name."""
    return path.endswith(".ipynb")


def may_train(data: bytes, notebook: bool = False) -> bool:
    """Tell whether these bytes can hold a call of `backward`; false alarms cost time, missed alarms
    cost a loop.

    The lines of a notebook are strings in JSON, so there the word is enough.
    """
    if b"backward" in data and (notebook or _find(data) >= 0):
        return True
    return _makes_trainer(data)


def _makes_trainer(data: bytes) -> bool:
    """Whether a framework's trainer may be made here, which runs a loop without a `backward` in
    sight.
    """
    return any(
        maker in data and package in data
        for package, makers in _TRAINERS
        for maker in makers
    )


def names_amp(data: bytes) -> bool:
    """Tell whether these bytes can hold a word of AMP."""
    return any(word in data for word in _AMP_BYTES)


def hides_words(data: bytes, notebook: bool = False) -> bool:
    """Tell whether no word can be searched for in these bytes: two bytes a character, or no cells
    where a notebook should be. What is wrong with them is told, not passed over.
    """
    if not notebook:
        return b"\0" in data[:4] or data.startswith(
            (BOM_UTF16_LE, BOM_UTF16_BE)
        )
    import json  # few trees hold notebooks

    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return True
    cells = found.get("cells", []) if isinstance(found, dict) else None
    return not isinstance(cells, list) or not all(
        isinstance(one, dict) for one in cells
    )


def trains_with_amp(data: bytes) -> bool:
    """Tell whether these bytes can hold a step, or a part of one, in mixed precision, or a region
    in which code of other files runs.
    """
    if b"precision" in data and _makes_trainer(data):
        return True
    if not names_amp(data):
        return False
    return b"autocast" in data or b"caler" in data


def matters_to_others(data: bytes) -> bool:
    """Tell whether what these bytes define may matter to a step elsewhere that runs it."""
    if _STEP.search(data) is not None or breaks_in_half(data):
        return True
    return b"torch" in data and (
        _HALF.search(data) is not None or _LOSS.search(data) is not None
    )


def breaks_in_half(data: bytes) -> bool:
    """Tell whether what these bytes define may raise or overflow on half precision."""
    if _HAZARD.search(data) is not None:
        return True
    return b"torch" in data and (
        _breaking().search(data) is not None or _writes_by_index(data)
    )


def rounds_in_half(data: bytes) -> bool:
    """Tell whether these bytes hold a small number, which half precision may round to nothing, or
    what breaks there.
    """
    return breaks_in_half(data) or (
        b"torch" in data and _SMALL.search(data) is not None
    )


def hands_values_on(data: bytes) -> bool:
    """Tell whether these bytes can define a module that runs others."""
    return b"def forward(" in data and b"torch" in data


def trains_in_bfloat16(data: bytes) -> bool:
    """Tell whether these bytes can hold a region in a type that NumPy has not."""
    return b"autocast" in data and b"bfloat16" in data


def turns_to_arrays(data: bytes) -> bool:
    """Tell whether these bytes may make arrays of tensors."""
    return b".numpy()" in data


def _writes_by_index(data: bytes) -> bool:
    """Whether a buffer may be written by indices, which converts nothing."""
    return _BUFFER.search(data) is not None and _WRITE.search(data) is not None


@cache
def _breaking() -> re.Pattern[bytes]:
    """A call of what raises on half precision."""
    names = b"|".join(name.encode() for name in sorted(breaking_names()))
    return re.compile(rb"\.(?:" + names + rb")\(")


def names_old_amp(data: bytes) -> bool:
    """Tell whether these bytes name `torch.cuda.amp` or `torch.cpu.amp`, which have new names."""
    return b"amp" in data and any(one.search(data) for one in _OLD_AMP)


def _find(data: bytes) -> int:
    """Where `loss.backward(` or `from torch.autograd import backward` stands; -1: nowhere."""
    for found in _BACKWARD.finditer(data):
        start = found.start()
        if found[1] and data[max(start - 200, 0) : start].rstrip(
            _BEFORE_A_NAME
        ).endswith(b"."):
            return start
        line = data[data.rfind(b"\n", 0, start) + 1 : start]
        if b"import" in line and b"#" not in line:
            return start
    return -1
