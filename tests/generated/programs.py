"""A program from its choices: which go together, the files, the text."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from tests.generated import layouts
from tests.generated.axes import AXES, Spec, draw
from tests.generated.layouts import CLASSES, LAYOUTS, STEPWISE, WITH_BASE, WITH_ENGINE
from tests.generated.pieces import Lines, Pieces, indented
from tests.generated.steps import BINDING, OF_OUTPUT, OWN_LOSS, SHAPES, WITHOUT_LOSS
from tests.generated.texts import shaped


@dataclass(frozen=True)
class Program:
    """A program that trains: its files, and how it is run."""

    spec: Spec
    files: dict[str, str]
    main: str
    cpu_arguments: tuple[str, ...] = ()


def program(seed: str) -> Program:
    """The program of a seed; `axis=choice,axis=choice` is one with these features alone."""
    if "=" in seed:
        chosen = dict(pair.split("=") for pair in seed.split(","))
        plain = {axis: choices[0] for axis, choices in AXES.items()}
        return render(consistent({**plain, **chosen}), seed)
    return render(consistent(draw(random.Random(seed))), seed)


def consistent(drawn: Spec) -> Spec:
    """The choices, with those made plain that do not go together with the others."""
    spec = dict(drawn)
    for rule in _RULES:
        for axis in rule(spec):
            spec[axis] = AXES[axis][0]
    return {**spec, "device_home": _home(spec)}


def _loss_rules(spec: Spec) -> list[str]:
    if spec["shape"] in OWN_LOSS:
        plain = ["task", "loss"]
        return plain + (["after"] if spec["shape"] in ("acting", "replay") else [])
    if spec["shape"] in WITHOUT_LOSS and spec["loss"] == "helper_tuple":
        return ["loss"]
    return []


def _layout_rules(spec: Spec) -> list[str]:
    if spec["layout"] == "self_methods":
        spec_only = ["shape", "after", "hazard"] if spec["shape"] != "contiguous" else []
        return [*spec_only, "text"] if spec["text"] == "semicolons" else spec_only
    if spec["layout"] in STEPWISE and spec["shape"] == "out_of_memory":
        return ["shape"]
    if spec["layout"] == "optional_argument" and spec["optimizer"] == "conditional":
        return ["optimizer"]
    return []


def _optimizer_rules(spec: Spec) -> list[str]:
    made_plain = []
    if spec["optimizer"] == "noam":
        made_plain += ["scheduler", "checkpoint"]
        if spec["gradients"] in ("own_clipper", "scale_by_hand"):
            made_plain.append("gradients")
        if spec["zero"] == "set_to_none":
            made_plain.append("zero")
        if spec["shape"] == "closure":
            made_plain.append("shape")
    if spec["optimizer"] == "adam" and spec["scheduler"] == "one_cycle":
        made_plain.append("scheduler")
    if spec["optimizer"] == "project_subclass" and spec["scheduler"] == "one_cycle":
        made_plain.append("scheduler")
    if spec["optimizer"] in ("rmsprop", "adamw", "groups", "get_optimizer", "conditional"):
        made_plain += ["scheduler"] if spec["scheduler"] == "one_cycle" else []
    return made_plain


def _shape_rules(spec: Spec) -> list[str]:
    if spec["shape"] == "closure":
        return ["gradients", "scheduler"]
    if spec["shape"] in ("siamese", "mixup", "running_hidden") and spec["net"] == "embedding":
        return ["net"]
    if spec["shape"] in ("acting", "replay"):
        return ["net", "hazard"]
    return []


def _file_rules(spec: Spec) -> list[str]:
    made_plain = []
    if spec["files"] in ("engine", "all", "package") and spec["layout"] not in WITH_ENGINE:
        made_plain.append("files")
    if spec["layout"] in ("module", "global_read", "guard") and spec["text"] == "decorated":
        made_plain.append("text")
    return made_plain


def _device_rules(spec: Spec) -> list[str]:
    asks = spec["device_form"] in (
        "object",
        "string",
        "flag",
        "flag_conditional_expression",
        "index",
    )
    return [] if asks else ["device_source"]


def _after_rules(spec: Spec) -> list[str]:
    shape = SHAPES[spec["shape"]]
    bound = "out = $model(x)" in shape or ("@forward" in shape and spec["loss"] in BINDING)
    stepwise = spec["layout"] == "self_methods"
    return ["after"] if spec["after"] in OF_OUTPUT and (not bound or stepwise) else []


_RULES = (
    _loss_rules,
    _layout_rules,
    _optimizer_rules,
    _shape_rules,
    _file_rules,
    _device_rules,
    _after_rules,
)


def _home(spec: Spec) -> str:
    """The device's home that fits the layout and the files."""
    home, layout = spec["device_home"], spec["layout"]
    split = spec["files"] in ("engine", "all", "package")
    if home in ("base_first", "base_last", "self") and layout not in WITH_BASE:
        home = "self" if layout in CLASSES and home == "self" else "parameter"
    if home == "guard" and layout == "module":
        home = "global"
    if split and home in ("global", "upper", "guard", "args"):
        home = "parameter"
    if split and home in ("self", "base_first", "base_last") and _reads_main(spec):
        home = "parameter"
    if home == "base_last" and spec["device_form"] == "flag_conditional_expression":
        home = "base_first"
    return home


def _reads_main(spec: Spec) -> bool:
    """Whether the device's expression reads what the main file makes."""
    return spec["device_source"] in ("arg_device", "arg_cpu", "arg_no_cuda", "config")


def render(spec: Spec, seed: str) -> Program:
    """The files of a program."""
    files = {name: shaped(lines, spec, seed) for name, lines in _Files(spec).files().items()}
    return Program(spec, files, "main.py", Pieces(spec).device.cpu_arguments)


class _Files:
    """Distributes the parts of a program over its files."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._pieces = Pieces(spec)
        device = layouts.device_at_module(self._pieces)
        self._laid = LAYOUTS[spec["layout"]](self._pieces, device)

    def files(self) -> dict[str, Lines]:
        """The lines of each file."""
        parts = self._parts()
        homes = {
            "nets": {"losses", "nets"},
            "helpers": {"losses", "helpers"},
            "engine": {"engine"},
            "all": {"losses", "nets", "helpers", "engine"},
            "package": {"losses", "nets", "helpers", "engine"},
        }
        apart = homes.get(self._spec["files"], set())
        if "engine" in apart:
            apart = apart | {"losses", "nets", "helpers", "support"}
        if "nets" in apart or "helpers" in apart:
            apart = apart | {"losses"}
        prefix = "project/" if self._spec["files"] == "package" else ""
        files: dict[str, Lines] = {}
        for name in ("losses", "nets", "helpers", "support", "engine"):
            if name in apart and parts[name]:
                files[f"{prefix}{name}.py"] = self._module(name, parts, apart)
        if prefix:
            files[f"{prefix}__init__.py"] = []
        if self._spec["device_home"] == "module_attribute" and self._pieces.device.named:
            files["config.py"] = self._config()
        files["main.py"] = self._main(parts, apart)
        return {name: _used_imports(lines) for name, lines in files.items()}

    def _parts(self) -> dict[str, list[Lines]]:
        pieces = self._pieces
        return {
            "losses": [pieces.losses()] if pieces.losses() else [],
            "nets": [pieces.networks()],
            "helpers": pieces.helpers(),
            "support": [pieces.support()],
            "engine": self._laid.engine,
        }

    def _module(self, name: str, parts: dict[str, list[Lines]], apart: set[str]) -> Lines:
        blocks = parts[name]
        dot = "." if self._spec["files"] == "package" else ""
        lines = [*_imports(), *self._announced(blocks), *self._config_import(blocks)]
        for other in ("losses", "nets", "helpers", "support", "engine"):
            if other != name and other in apart:
                lines += _from(f"{dot}{other}", parts[other], blocks)
        return [*lines, *_joined(blocks)]

    def _config_import(self, blocks: list[Lines]) -> Lines:
        used = any("config." in line for block in blocks for line in block)
        return ["import config"] if used else []

    def _announced(self, blocks: list[Lines]) -> Lines:
        if not any("@announced" in line for block in blocks for line in block):
            return []
        return ["", "", *_ANNOUNCED, ""]

    def _parser(self) -> Lines:
        arguments = self._pieces.device.arguments()
        if not arguments and self._spec["device_home"] != "args":
            return []
        lines = [
            "parser = argparse.ArgumentParser()",
            'parser.add_argument("--lr", type=float, default=0.05)',
        ]
        return [*lines, *arguments, "args = parser.parse_args()"]

    def _config(self) -> Lines:
        device = self._pieces.device
        return [
            *_imports(),
            "",
            *self._parser(),
            *device.module_lines(),
            *device.bound(device.name),
        ]

    def _main(self, parts: dict[str, list[Lines]], apart: set[str]) -> Lines:
        device, home = self._pieces.device, self._spec["device_home"]
        here = [
            name for name in ("losses", "helpers", "nets", "support", "engine") if name not in apart
        ]
        own = [block for name in here for block in parts[name]]
        own += [self._laid.module, *self._laid.definitions]
        top = _imports()
        dot = "project." if self._spec["files"] == "package" else ""
        everything = [*own, self._laid.entry]
        for other in ("losses", "nets", "helpers", "support", "engine"):
            if other in apart:
                top += _from(f"{dot}{other}", parts[other], everything)
        top += self._config_import(everything)
        top += self._announced(own)
        top += ["", "torch.manual_seed(7)"]
        if home != "module_attribute":
            top += [*self._parser(), *device.module_lines()]
        if device.named and home in ("global", "upper", "args"):
            target = f"args.{device.name}" if home == "args" else device.name
            top += device.bound(target)
        return [*top, "", "", *_joined(own), "", "", *self._entry()]

    def _entry(self) -> Lines:
        home, entry = self._spec["device_home"], self._laid.entry
        if home == "guard" and self._pieces.device.named:
            entry = [*self._pieces.device.bound(self._pieces.device.name), *entry]
        elif self._spec["layout"] not in ("guard", "main", "params", "self_step"):
            return entry
        return ['if __name__ == "__main__":', *indented(entry)]


_ANNOUNCED = [
    "def announced(function):",
    "    @functools.wraps(function)",
    "    def wrapper(*args, **kwargs):",
    "        return function(*args, **kwargs)",
    "",
    "    return wrapper",
]


def _used_imports(lines: Lines) -> Lines:
    """The file without the modules of the standard library that it does not use."""
    text = "\n".join(lines)
    standard = ("argparse", "asyncio", "copy", "functools", "os", "time", "types")
    idle = {f"import {name}" for name in standard if f"{name}." not in text}
    return [line for line in lines if line not in idle]


def _imports() -> Lines:
    return [
        "import argparse",
        "import asyncio",
        "import copy",
        "import functools",
        "import os",
        "import time",
        "import types",
        "",
        "import torch",
        "import torch.nn.functional as F",
        "from torch import nn",
    ]


def _defined(blocks: list[Lines]) -> list[str]:
    names: list[str] = []
    for line in (line for block in blocks for line in block):
        if found := re.match(r"(?:async )?(?:def|class) (\w+)", line):
            names.append(found[1])
        elif found := re.match(r"([a-z_]\w*(?:, [a-z_]\w*)*) = ", line):
            names += found[1].split(", ")
    return names


def _from(module: str, defined: list[Lines], users: list[Lines]) -> Lines:
    text = "\n".join(line for block in users for line in block)
    used = [name for name in dict.fromkeys(_defined(defined)) if re.search(rf"\b{name}\b", text)]
    return [f"from {module} import {', '.join(used)}"] if used else []


def _joined(blocks: list[Lines]) -> Lines:
    lines: Lines = []
    for block in blocks:
        if block:
            lines += [*(["", ""] if lines else []), *block]
    return lines
