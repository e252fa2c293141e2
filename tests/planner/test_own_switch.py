"""`--switch NAME`: an option of the program turns AMP on and off."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from amp_migrate.config import ConfigError, Option, Settings, switch, switched
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.pipeline.whole_program import rewrite_program
from amp_migrate.torch_facts.amp_api import SWITCH_VALUES

AMP = switched(Settings(switch=Option("amp")))
HEAD = """\
import argparse
from dataclasses import asdict, dataclass
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
LOOP = """
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    optimizer.zero_grad()
    loss = model(x.to(device)).mean()
    loss.backward()
    optimizer.step()
"""
PARSER = """
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
args = parser.parse_args()
"""

MADE = """
parser = argparse.ArgumentParser()
add_options(parser)
args = parser.parse_args()
"""
OPTIONS_IN_A_LOOP = """
parser = argparse.ArgumentParser()
for name in ("lr", "momentum"):
    parser.add_argument("--w-" + name, dest="w")
args = parser.parse_args()
"""
SUBPARSERS = """
parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command")
train = commands.add_parser("train")
train.add_argument("--lr", type=float)
args = parser.parse_args()
"""
OF_A_CLASS = """
class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
    def parse(self):
        self.parsed = self.parser.parse_args()
        return self.parsed
args = Options().parse()
"""
TOLD = (
    PARSER
    + """
for name, value in sorted(vars(args).items()):
    print(name, value)
text = ", ".join(f"{k}={v}" for k, v in vars(args).items())
torch.save({"args": vars(args)}, "args.pt")
vars(args)["lr"] = 0.2
log(vars(args))
"""
)
WHOLE = {
    "through a name": "options = vars(args)\nnet = build(**options)\n",
    "through a function": "def make(options):\n    return build(**options)\nmake(vars(args))\n",
    "through what it returns": "def all_of(a):\n    return vars(a)\nnet = build(**all_of(args))\n",
    "chosen": "kept = {k: v for k, v in vars(args).items() if v}\nnet = build(**kept)\n",
    "values alone": "net = build(*vars(args).values())\n",
    "copied": "options = dict(vars(args))\nnet = build(**options)\n",
    "counted": "print(len(vars(args)))\n",
}


@pytest.mark.parametrize("use", WHOLE.values(), ids=WHOLE)
def test_a_command_line_that_is_handed_on_as_a_whole(use: str) -> None:
    outcome = migrated(PARSER + use)
    assert outcome.output is None
    assert "handed on as a whole" in (outcome.loops[0].message or "")


def migrated(text: str) -> FileOutcome:
    return migrate_text(HEAD + textwrap.dedent(text) + LOOP, "train.py", AMP)


@pytest.mark.parametrize(
    ("configuration", "option", "added"),
    [
        (PARSER, "args.amp", 'parser.add_argument("--amp", default="float16", choices='),
        (
            PARSER.replace("args =", "args, rest =").replace("parse_args", "parse_known_args"),
            "args.amp",
            'parser.add_argument("--amp"',
        ),
        (
            "@dataclass\nclass C:\n    lr: float = 0.1\ncfg = C()\n",
            "cfg.amp",
            '    lr: float = 0.1\n    amp: str = "float16"\n',
        ),
        ("cfg = {'lr': 0.1, 'n': [1, -2]}\n", 'cfg["amp"]', "'n': [1, -2], 'amp': 'float16'}"),
        ("cfg = {'net': {'n': 1}, 'lr': 1}\n", 'cfg["amp"]', "'lr': 1, 'amp': 'float16'}"),
        (
            "cfg = {'lr': 0.1}\nprint(cfg, 'lr' in cfg, cfg.get('lr'))\nlog({'cfg': cfg})\n",
            'cfg["amp"]',
            "'amp': 'float16'}",
        ),
        (MADE, "args.amp", "parser = argparse.ArgumentParser()\nparser.add_argument("),
        (
            OPTIONS_IN_A_LOOP,
            "args.amp",
            'dest="w")\nparser.add_argument("--amp"',
        ),
        (
            PARSER.replace("parser.add", "if device:\n    parser.add"),
            "args.amp",
            'ArgumentParser()\nparser.add_argument("--amp"',
        ),
        (SUBPARSERS, "args.amp", "parser = argparse.ArgumentParser()\nparser.add_argument("),
        (OF_A_CLASS, "args.amp", '        self.parser.add_argument("--amp", default='),
        (TOLD, "args.amp", 'parser.add_argument("--amp", default="float16", choices='),
        (
            (
                "@dataclass\nclass C:\n    lr: float = 0.1\n    def tell(self):\n"
                "        return asdict(self)\ncfg = C()\nsave({'cfg': cfg.tell()})\n"
            ),
            "cfg.amp",
            '    amp: str = "float16"\n',
        ),
    ],
)
def test_the_option_is_added_and_asked(configuration: str, option: str, added: str) -> None:
    output = migrated(configuration).output
    assert output is not None
    assert added in output
    assert f'use_amp = {option} != "off" and device.type == "cuda"' in output


@pytest.mark.parametrize(
    ("configuration", "why"),
    [
        ("", "no configuration"),
        ("args = load()\n", "no configuration"),
        ("losses = {}\n", "no configuration"),
        ("state = {'model': device}\n", "no configuration"),
        (PARSER.replace("--lr", "--amp"), "has an option `amp` already"),
        ("cfg = {'lr': 0.1, 'amp': False}\n", "has an option `amp` already"),
        (PARSER + "net = build(**vars(args))\n", "handed on as a whole"),
        ("cfg = {'lr': 0.1}\nnet = build(**cfg)\n", "handed on as a whole"),
        ("cfg = {'lr': 0.1}\nfor name in cfg:\n    print(name)\n", "handed on as a whole"),
        ("cfg = {'lr': 0.1}\nprint(sum(cfg.values()))\n", "handed on as a whole"),
        (
            "@dataclass\nclass C:\n    lr: float = 0.1\ncfg = C()\nrun(**asdict(cfg))\n",
            "handed on as a whole",
        ),
        (
            "@dataclass\nclass C:\n    lr: float = 0.1\n@dataclass\nclass D(C):\n    n: int\ncfg = C()\n",
            "no configuration",
        ),
        (PARSER.replace("Parser()", "Parser(prefix_chars='+')"), "no configuration"),
        (PARSER + "args.amp = args.lr * 2\n", "has an option `amp` already"),
        (PARSER + "scale = getattr(args, 'amp', 1)\n", "has an option `amp` already"),
        (PARSER + "parser.set_defaults(amp=1)\n", "has an option `amp` already"),
        ("cfg = {'lr': 0.1}\ncfg['amp'] = 1\n", "has an option `amp` already"),
        ("cfg = {'lr': 0.1}\nother = {**dict(cfg), 'n': 1}\n", "handed on as a whole"),
        ("cfg = {'lr': 0.1}\nmine = cfg.copy()\nbuild(**mine)\n", "handed on as a whole"),
        ("cfg = {'lr': 0.1}\nbuild(**(cfg | {'n': 1}))\n", "handed on as a whole"),
        ("cfg = {'lr': 0.1}\nruns = [cfg]\n", "handed on as a whole"),
        ("kinds = {'cat': 0}\nn = len(kinds)\n", "handed on as a whole"),
        ("kinds = {'cat': 0}\ny = kinds[name]\n", "handed on as a whole"),
        ("stats = {'n': 0}\nprint({k: v / 3 for k, v in stats.items()})\n", "handed on as a whole"),
        (
            ("from dataclasses import astuple\n@dataclass\nclass C:\n    lr: float = 0.1\n"
            "    n: int = 1\ncfg = C()\nlr, n = astuple(cfg)\n"),
            "handed on as a whole",
        ),
    ],
)  # fmt: skip
def test_programs_that_cannot_be_given_one_stay_as_they_are(configuration: str, why: str) -> None:
    outcome = migrated(configuration)
    assert outcome.output is None
    assert [loop.status for loop in outcome.loops] == ["refused"]
    assert why in (outcome.loops[0].message or "")


def test_another_dict_that_is_spread_is_no_hindrance() -> None:
    output = migrated("other = {'lr': 1}\nf(**other)\ncfg = {'lr': 0.1}\n").output
    assert output is not None
    assert "other = {'lr': 1}" in output
    assert 'use_amp = cfg["amp"]' in output


@pytest.mark.parametrize("value", SWITCH_VALUES)
@pytest.mark.parametrize("has_bfloat16", [True, False])
@pytest.mark.parametrize("gpu", [True, False])
def test_what_each_value_chooses(value: str, has_bfloat16: bool, gpu: bool) -> None:
    output = migrated(PARSER).output
    assert output is not None
    names = ("use_amp", "has_bf16", "amp_dtype")
    chosen = [
        node
        for node in ast.parse(output).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names
    ]
    cuda = SimpleNamespace(is_bf16_supported=lambda including_emulation: has_bfloat16)
    found = {
        "args": SimpleNamespace(amp=value),
        "device": SimpleNamespace(type="cuda" if gpu else "cpu"),
        "torch": SimpleNamespace(cuda=cuda, float16="float16", bfloat16="bfloat16"),
    }
    exec(compile(ast.Module(chosen, []), "chosen", "exec"), found)
    assert found["use_amp"] == (gpu and value != "off")
    if found["use_amp"]:
        auto = "bfloat16" if has_bfloat16 else "float16"
        assert found["amp_dtype"] == (auto if value == "auto" else value)


def test_the_options_may_stand_in_another_file(tmp_path: Path) -> None:
    files = {
        "main.py": "import torch\nfrom options import get_args\nfrom engine import train\n"
        "args = get_args()\n"
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "model = torch.nn.Linear(4, 1).to(device)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)\n"
        "for epoch in range(3):\n    train(model, optimizer, device, data)\n",
        "engine.py": "def train(model, optimizer, device, data):\n    for x in data:\n"
        "        optimizer.zero_grad()\n        loss = model(x.to(device)).mean()\n"
        "        loss.backward()\n        optimizer.step()\n",
        "options.py": "import argparse\ndef get_args():\n"
        "    parser = argparse.ArgumentParser()\n"
        '    parser.add_argument("--lr", type=float, default=0.1)\n'
        "    return parser.parse_args()\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    results = rewrite_program([tmp_path / name for name in files], AMP)
    after = {path.name: (one.after or b"").decode() for path, one in results.items()}
    assert 'parser.add_argument("--amp", default="float16"' in after["options.py"]
    assert 'use_amp = args.amp != "off" and device.type == "cuda"' in after["main.py"]
    assert "enabled=use_amp" in after["engine.py"]


@pytest.mark.parametrize("name", ["amp", "--amp", "use-amp", "--use-amp"])
def test_names_of_options(name: str) -> None:
    assert switch(name) == Option(name.lstrip("-").replace("-", "_"))


@pytest.mark.parametrize("name", ["", "1", "a b", "class", "ämp", 3])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(ConfigError, match="name of an option"):
        switch(name)


def test_the_default_is_the_dtype_that_was_asked_for() -> None:
    asked = switched(Settings(switch=Option("amp"), dtype="bfloat16"))
    assert (asked.dtype, asked.switch) == ("auto", Option("amp", "bfloat16"))
    assert switched(Settings(dtype="bfloat16")) == Settings(dtype="bfloat16")


COMMAND = """
import torch
{imports}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
@{mark}command()
@{mark}option("--lr", default=0.1)
def main(lr):
    {first}
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x in data:
        optimizer.zero_grad()
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("imports", "mark", "added"),
    [
        ("import click", "click.", "@click.option({flag}, type=click.Choice({values}))"),
        ("import click as c", "c.", "@c.option({flag}, type=c.Choice({values}))"),
        (
            "from click import Choice, command, option",
            "",
            "@option({flag}, type=Choice({values}))",
        ),
    ],
)
def test_click_by_the_names_of_the_file(imports: str, mark: str, added: str) -> None:
    source = COMMAND.format(imports=imports, mark=mark, first="print(lr)")
    output = migrate_text(source, "train.py", AMP).output
    assert output is not None
    values = '["off", "float16", "bfloat16", "auto"]'
    assert added.format(flag='"--amp", default="float16"', values=values) in output
    assert 'def main(lr, amp="float16"):' in output


@pytest.mark.parametrize(
    ("imports", "mark", "first", "why"),
    [
        ("from click import command, option", "", "print(lr)", "no configuration"),
        ("import click", "click.", "print(build(**locals()))", "handed on as a whole"),
        ("import click", "click.", "lr.forward(other)", "handed on as a whole"),
    ],
)
def test_commands_that_cannot_be_given_one(imports: str, mark: str, first: str, why: str) -> None:
    source = COMMAND.format(imports=imports, mark=mark, first=first)
    (loop,) = migrate_text(source, "train.py", AMP).loops
    assert (loop.status, why in (loop.message or "")) == ("refused", True)


def test_a_dict_of_another_file(tmp_path: Path) -> None:
    files = {
        "settings.py": "CONFIG = {'lr': 0.1}\n",
        "main.py": f"from settings import CONFIG\n{HEAD}{LOOP}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    results = rewrite_program([tmp_path / name for name in files], AMP)
    after = {path.name: (one.after or b"").decode() for path, one in results.items()}
    assert after["settings.py"] == "CONFIG = {'lr': 0.1, 'amp': 'float16'}\n"
    assert 'use_amp = CONFIG["amp"] != "off"' in after["main.py"]
