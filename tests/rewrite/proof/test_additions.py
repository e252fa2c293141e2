"""What a rewrite adds must not be able to fail: names without a value, `.type` of a string, casts
of what is no tensor.
"""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate.model.files.linking import LinkedProgram
from amp_migrate.model.program import Program
from amp_migrate.rewrite.proof.additions import unproved
from amp_migrate.rewrite.proof.facts import Introduced

HEAD = "import torch\n"
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
STRING = 'device = "cuda" if torch.cuda.is_available() else "cpu"\n'


def failures(output: str, casts: int = 0, **others: str) -> list[str]:
    """The expressions that are not proved in an output, whose original was another text."""
    introduced = Introduced(
        scalers=frozenset({"scaler", "self.scaler"}), float_casts=casts, checkpoint_key="scaler"
    )
    text = HEAD + textwrap.dedent(output)
    texts = {"/nowhere/main.py": text} | {f"/nowhere/{n}.py": t for n, t in others.items()}
    program = (
        LinkedProgram(texts, neighbours=False) if others else Program(text, "/nowhere/main.py")
    )
    originals = texts | {"/nowhere/main.py": HEAD}
    declared = dict.fromkeys(texts, introduced)
    return [one.expression for one in unproved(program, originals, declared)]


def made(enabled: str) -> str:
    return f'scaler = torch.amp.GradScaler("cuda", enabled={enabled})\n'


def region(enabled: str) -> str:
    return f'with torch.autocast("cuda", dtype=torch.float16, enabled={enabled}):\n    y = f(x)\n'


TYPE = 'device.type == "cuda"'
MADE, ARGS = 'torch.device(device).type == "cuda"', 'args.device.type == "cuda"'
GOOD = {
    "a device": DEVICE + made(TYPE),
    "torch imported in the function": (f"{DEVICE}def main():\n    import torch\n    {made(TYPE)}"),
    "a device in a function": f"{DEVICE}def main():\n    {made(TYPE)}",
    "a device in both arms": (
        'if c:\n    device = torch.device("cuda")\nelse:\n    device = torch.device("cpu")\n'
        + made(TYPE)
    ),
    "a bare type": (
        'device = "xpu" if c else "cpu"\n'
        "scaler = torch.amp.GradScaler(device, enabled=device != 'cpu')\n"
    ),
    "a string compared": STRING + made('device == "cuda"'),
    "a device made of a string": STRING + made('torch.device(device).type == "cuda"'),
    "a device of an unknown that was used": (
        f"def main(device):\n    model = net().to(device)\n    {made(MADE)}"
    ),
    "torch itself": made("torch.cuda.is_available()"),
    "no condition": 'scaler = torch.amp.GradScaler("cuda")\n',
    "a scaler's switch": made(TYPE).replace("device.type == ", '"cuda" == ')
    + region("scaler.is_enabled()"),
    "a scaler of the base class": (
        "class T:\n    def __init__(self):\n        self.optimizer = make()\n"
        "        self.scaler = torch.amp.GradScaler('cuda')\n"
        "class Heir(T):\n    def run(self, loss):\n        self.scaler.scale(loss).backward()\n"
    ),
    "a scaler of the program": (
        "grad_scaler = torch.cuda.amp.GradScaler()\n" + region("grad_scaler.is_enabled()")
    ),
    "an optional scaler": (
        "def step(loss, scaler=None):\n    if scaler is None:\n"
        '        scaler = torch.amp.GradScaler("cuda", enabled=False)\n'
        "    scaler.scale(loss).backward()\n"
    ),
    "a device that the program asked itself": (
        f"def main(args):\n    print(args.device.type)\n    {made(ARGS)}"
    ),
    "an accelerator that may be absent": (
        "device = torch.accelerator.current_accelerator()\n"
        "scaler = torch.amp.GradScaler("
        'device.type if device is not None else "cuda", enabled=device is not None)\n'
    ),
    "an option": (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--amp", action="store_true")\nargs = parser.parse_args()\n'
        + made("args.amp")
    ),
}
BAD = {
    "a string": (STRING + made(TYPE), "device.type"),
    "a string by a loop": (
        f'for device in ["cpu", "cuda"]:\n    {made(TYPE)}',
        "device.type",
    ),
    "perhaps a string": (
        f'if c:\n    device = "cpu"\nelse:\n    device = torch.device("cuda")\n{made(TYPE)}',
        "device.type",
    ),
    "a module's device": (
        "class Net(torch.nn.Module):\n    pass\nnet = Net()\n" + made('net.device.type == "cuda"'),
        "net.device.type",
    ),
    "a module's device in a method": (
        (
            "class Net(torch.nn.Module):\n    pass\nclass T:\n    def __init__(self):\n"
            f"        self.net = Net()\n    def f(self):\n        {made('self.net.device.type')}"
        ),
        "self.net.device.type",
    ),
    "a number that counts as a flag": (
        "use = len(sys.argv)\n" + made("use") + region("use"),
        "use",
    ),
    "not bound yet": (made(TYPE) + DEVICE, "device.type"),
    "bound on one path": (f"if c:\n    {DEVICE}{made(TYPE)}", "device.type"),
    "bound by a loop that may not run": (
        f"for i in r:\n    {DEVICE}{made(TYPE)}",
        "device.type",
    ),
    "deleted": (f"{DEVICE}del device\n{made(TYPE)}", "device.type"),
    "bound by main": (
        f"def main():\n    {made(TYPE)}if __name__ == '__main__':\n    {DEVICE}    main()\n",
        "device.type",
    ),
    "an import that may fail": (
        "try:\n    from settings import on\nexcept ImportError:\n    pass\n" + made("on"),
        "on",
    ),
    "an option that is not declared": (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--amp")\nargs = parser.parse_args()\n' + made("args.use_amp"),
        "args.use_amp",
    ),
    "a parameter's attribute": (f"def main(args):\n    {made('args.amp')}", "args.amp"),
    "a device made of a rank": (
        "rank = torch.distributed.get_rank()\n" + made("torch.device(rank).type"),
        "torch.device(rank)",
    ),
    "a device made of an unknown": (
        f"def main(device):\n    {made(MADE)}",
        "torch.device(device)",
    ),
    "before the constructor of the base": (
        (
            "class Base:\n    def __init__(self):\n        self.device = torch.device('cpu')\n"
            "class Heir(Base):\n    def __init__(self):\n"
            "        self.scaler = torch.amp.GradScaler('cuda', enabled=self.device.type == 'cuda')\n"
            "        super().__init__()\n"
        ),
        "self.device.type",
    ),
    "a scaler on one path, its optimizer on all": (
        "optimizer = make()\nif c:\n    " + made("c") + "scaler.step(optimizer)\n",
        "scaler",
    ),
    "a scaler of an object that is not there": (
        "def run(loss):\n    self.scaler.scale(loss).backward()\n",
        "self.scaler",
    ),
    "a scaler that objects of another class have": (
        (
            "class Other:\n    def run(self, loss):\n        self.scaler.scale(loss).backward()\n"
            "class T:\n    def __init__(self):\n        self.optimizer = make()\n"
            "        self.scaler = torch.amp.GradScaler('cuda')\n"
        ),
        "self.scaler",
    ),
    "parameters of a function that is handed the model": (
        "def train(model, run, batch):\n    model.train()\n    "
        + made("next(run.parameters()).device.type == 'cuda'")
        + "    run(model, batch)\n",
        "run",
    ),
    "the switch of no scaler": (
        "trainer = make()\n" + region("trainer.is_enabled()"),
        "trainer",
    ),
    "a device type with an index": (
        'device = f"cuda:{i}"\nscaler = torch.amp.GradScaler(device)\n',
        "device",
    ),
    "a device as the type": (DEVICE + "scaler = torch.amp.GradScaler(device)\n", "device"),
    "in a region": (STRING + region(TYPE), "device.type"),
    "torch is a parameter": (
        f"{DEVICE}def main(torch=None):\n    {made(TYPE)}",
        "torch.amp.GradScaler",
    ),
    "torch is a variable of the function": (
        f"{DEVICE}def main():\n    torch = load()\n    {made(TYPE)}",
        "torch.amp.GradScaler",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_cannot_fail(name: str) -> None:
    assert failures(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_what_may_fail(name: str) -> None:
    output, expression = BAD[name]
    assert expression in failures(output)


ENGINE = "import torch\nclass Engine:\n    def __init__(self):\n        self.device = torch.device('cpu')\n"
HEIR = """
from engine import Engine
class MF(Engine):
    def __init__(self):
{first}        self.scaler = torch.amp.GradScaler("cuda", enabled=self.device.type == "cuda")
{last}
"""
SUPER = "        super().__init__()\n"


def test_a_base_class_in_another_file() -> None:
    early = HEIR.format(first="", last=SUPER)
    late = HEIR.format(first=SUPER, last="")
    assert failures(early, engine=ENGINE) == ["self.device.type"]
    assert failures(late, engine=ENGINE) == []


CASTS = {
    "a list": ("values = list(map(g, x))\n", "values.float()", False),
    "a list display": ("values = [g(x), g(y)]\n", "values.float()", False),
    "a spectrum": ("values = torch.fft.rfft(x)\n", "values.float()", False),
    "a complex product": (
        "values = torch.conj(torch.fft.rfft(x)) * torch.fft.rfft(y)\n",
        "values.float()",
        False,
    ),
    "a string": ("values = 'text'\n", "values.float()", False),
    "indices": ("values = x.argmax(1)\n", "values.float()", False),
    "an output": ("values = torch.nn.functional.linear(x, w)\n", "values.float()", True),
    "the output of a recurrent layer": (
        "layer = torch.nn.LSTM(4, 4)\nvalues, _ = layer(x)\n",
        "values.float()",
        True,
    ),
    "the states of a recurrent layer": (
        "layer = torch.nn.LSTM(4, 4)\n_, values = layer(x)\n",
        "values.float()",
        False,
    ),
    "one state of a recurrent layer": (
        "layer = torch.nn.LSTM(4, 4)\n_, (values, _) = layer(x)\n",
        "values.float()",
        True,
    ),
    "a part of the output of a recurrent layer": (
        "layer = torch.nn.LSTM(4, 4)\n(values, _), _ = layer(x)\n",
        "values.float()",
        False,
    ),
    "the state of a gated unit": (
        "layer = torch.nn.GRU(4, 4)\n_, values = layer(x)\n",
        "values.float()",
        True,
    ),
    "two axes swapped": ("values = x.transpose(1, 2)\n", "values.float()", True),
    "the last and one before two": ("values = x.transpose(-1, -3)\n", "values.float()", True),
    "axes of an array of two": ("values = x.transpose(1, 0)\n", "values.float()", False),
    "the same, counted from behind": ("values = x.transpose(-2, -1)\n", "values.float()", False),
    "all axes of an array of three": ("values = x.transpose(2, 0, 1)\n", "values.float()", False),
    "axes that nobody knows": ("values = x.transpose(a, b)\n", "values.float()", False),
    "an array": ("values = h.cpu().numpy()\n", "values.float()", False),
    "a sum of arrays": (
        "values = h.cpu().numpy().sum(axis=0)[:, None]\n",
        "values.float()",
        False,
    ),
    "a product of unknowns": ("values = x @ y\n", "values.float()", False),
    "a product of what was detached": ("values = x.detach() @ y\n", "values.float()", True),
    "what is detached afterwards": ("values = f(x)\n", "values.float().detach()", True),
    "what only one arm unsqueezes": (
        "values = f(x)\nif c:\n    a = values.unsqueeze(0)\n",
        "values.float()",
        False,
    ),
    "what is unsqueezed": (
        "values = f(x)\na = values.unsqueeze(0)\n",
        "values.float()",
        True,
    ),
    "what is asked for its class": (
        "values = f(x)\na = isinstance(values, list)\nb = values.unsqueeze(0)\n",
        "values.float()",
        False,
    ),
    "an output that is summed": (
        "net = torch.hub.load('a', 'b')\nvalues, other = net(x)\n",
        "values.float().sum()",
        True,
    ),
    "what may be float64": (
        "torch.set_default_dtype(torch.float64)\nvalues = f(x)\n",
        "torch.svd(values.float())",
        False,
    ),
    "what is half beside float64": (
        "other = x.double()\nvalues = torch.nn.functional.linear(x, w)\n",
        "values.float()",
        True,
    ),
    "the data of an output": (
        "net = torch.hub.load('a', 'b')\nvalues = net(x)\n",
        "values.data.float()",
        True,
    ),
    "an output that may be two": (
        "net = torch.hub.load('a', 'b')\nvalues = net(x)\n",
        "values.float()",
        False,
    ),
    "a part of two": ("values = torch.max(x, 1)[0]\n", "values.float()", True),
    "a state beside an output": (
        "cell = torch.nn.LSTM(2, 2)\nvalues = cell(x)\n",
        "values.float()",
        False,
    ),
    "what an operator takes": ("values = f(x)\n", "torch.log(values.float())", True),
    "what an operator joins": ("values = f(x)\n", "torch.cat([values.float(), x])", True),
    "what the layer of a class takes": (
        (
            "class Net(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        self.fc = torch.nn.Linear(2, 2)\n"
            "    def forward(self, a):\n"
            "        return self.fc(a)\n"
            "net = Net()\n"
        ),
        "net(x.float())",
        True,
    ),
}


@pytest.mark.parametrize("name", CASTS)
def test_casts(name: str) -> None:
    setup, cast, proved = CASTS[name]
    inner = "".join(f"    {line}\n" for line in setup.splitlines())
    body = f"with torch.autocast('cuda', dtype=torch.float16):\n{inner}    z = {cast}\n"
    found = cast[cast.index("values") :].rstrip(")") + ")" if not proved else cast
    assert failures(body, casts=1) == ([] if proved else [found])


ACCESSOR = """
class Loss(torch.nn.Module):
    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing
    def forward(self, x, y):
        found = torch.zeros_like(x)
        found.scatter_(1, y, (1.0 - self.smoothing).float())
        return found
class Net(torch.nn.Module):
    @property
    def loss(self):
        return self._loss
    @loss.setter
    def loss(self, settings):
        kind, smoothing = settings
        self._loss = Loss(smoothing=smoothing)
    def forward(self, x, y):
        return self.loss(torch.log(x), y)
"""


def test_a_setter_is_no_function_that_is_called() -> None:
    assert failures(ACCESSOR, casts=1) == ["(1.0 - self.smoothing).float()"]


STEP = "def step(model, scaler):\n    pass\n"
HANDED = {
    "a loop over functions": f"{STEP}for one in (step, len):\n    one(model)\n",
    "a table": f'{STEP}TABLE = {{"a": step}}\nTABLE[name](model)\n',
    "a table asked": f'{STEP}TABLE = {{"a": step}}\nTABLE.get(name)(model)\n',
    "another name": f"{STEP}other = step\nother(model)\n",
    "a parameter": f"{STEP}def fit(one):\n    one(model)\nfit(step)\n",
    "two loops at once": f"{STEP}for one, n in zip([step], names):\n    one(model)\n",
    "an attribute": f"{STEP}class Fit:\n    def __init__(self):\n        self.one = step\n",
    "code out of sight": f"{STEP}run(step)\n",
    "a method": (
        "class Fit:\n    def step(self, scaler):\n        pass\n"
        "    def fit(self):\n        for one in (self.step,):\n            one()\n"
    ),
}
TAKEN = {
    "a loop over functions": f"{STEP}for one in (step, step):\n    one(model, scaler=scaler)\n",
    "a table": f'{STEP}TABLE = {{"a": step}}\nTABLE[name](model, scaler=scaler)\n',
    "a parameter": f"{STEP}def fit(one):\n    one(model, scaler=scaler)\nfit(step)\n",
    "a call that hands it on": f"{STEP}run(step, model, scaler=scaler)\n",
    "its name": f"{STEP}print(step.__name__)\n",
    "an optional one": "def step(model, scaler=None):\n    pass\nrun(step)\n",
}


def handed(output: str) -> list[str]:
    """The faults of functions that are used as values, where a scaler is there."""
    found = failures(f"scaler = torch.amp.GradScaler()\n{output}")
    return [one for one in found if one not in ("", "scaler")]


@pytest.mark.parametrize("output", HANDED.values(), ids=HANDED)
def test_a_function_used_as_a_value_may_be_called_without_its_parameter(output: str) -> None:
    assert handed(output)


@pytest.mark.parametrize("output", TAKEN.values(), ids=TAKEN)
def test_a_function_used_as_a_value_that_is_given_its_parameter(output: str) -> None:
    assert not handed(output)


SAVED = 'state = {"o": opt.state_dict(), "scaler": scaler.state_dict()}\ntorch.save(state, path)\n'
READ_AS_A_WHOLE = {
    "items": "for k, v in torch.load(path).items():\n    parts[k].load_state_dict(v)\n",
    "keywords": "State(**torch.load(path))\n",
    "its length": "assert len(state) == 1\n",
}
READ_BY_KEY = {
    "a key": 'state = torch.load(path)\nopt.load_state_dict(state["o"])\n',
    "renamed weights": "w = {k[7:]: v for k, v in torch.load(path).items()}\n",
}


@pytest.mark.parametrize("reader", READ_AS_A_WHOLE.values(), ids=READ_AS_A_WHOLE)
def test_a_key_more_shows_to_who_reads_a_checkpoint_as_a_whole(reader: str) -> None:
    assert any("scaler.state_dict" in one for one in failures(f"{SAVED}{reader}"))


@pytest.mark.parametrize("reader", READ_BY_KEY.values(), ids=READ_BY_KEY)
def test_a_key_more_does_not_show_to_who_asks_by_name(reader: str) -> None:
    assert not any("scaler.state_dict" in one for one in failures(f"{SAVED}{reader}"))


NORMED = "class Normed(torch.optim.SGD):\n    def step(self, closure=None):\n        return 1.0\n"
STEPPED = f"{NORMED}opt = Normed(params)\nscaler = torch.amp.GradScaler()\n"


def test_the_value_of_a_step_that_may_be_skipped() -> None:
    assert "scaler.step(opt)" in failures(f"{STEPPED}norm = scaler.step(opt)\n")
    assert "scaler.step(opt)" not in failures(f"{STEPPED}scaler.step(opt)\n")
    plain = STEPPED.replace("Normed(params)", "torch.optim.SGD(params)")
    assert "scaler.step(opt)" not in failures(f"{plain}norm = scaler.step(opt)\n")


SETTER = "    def __setattr__(self, name, value):\n        {}super().__setattr__(name, value)\n"
KEPT = "class Fit:\n{}    def __init__(self):\n        self.scaler = torch.amp.GradScaler()\n"


def test_a_class_that_may_not_set_what_it_is_asked_to() -> None:
    assert "self.scaler" in failures(KEPT.format(SETTER.format("if name in NAMES: ")))
    assert "self.scaler" not in failures(KEPT.format(SETTER.format("")))


SCALES = (
    "def loss_of(x, scaler=None):\n    if scaler is None:\n"
    '        scaler = torch.amp.GradScaler("cuda", enabled=False)\n    scaler.scale(x).backward()\n'
)
STEPS = "scaler = torch.amp.GradScaler()\nloss_of(x{})\n{}"


def test_one_scaler_steps_with_what_another_has_scaled() -> None:
    found = failures(SCALES + STEPS.format("", "scaler.step(opt)\n"))
    assert "loss_of(x)" in found
    found = failures(SCALES + STEPS.format(", scaler=scaler", "scaler.step(opt)\n"))
    assert not any("loss_of" in one for one in found)
    assert "loss_of(x)" not in failures(SCALES + STEPS.format("", ""))


WRITE = "out = torch.zeros(4, 8)\nvalue, other = torch.ones(2, 8), torch.zeros(2)\n"


@pytest.mark.parametrize(
    ("written", "is_proved"),
    [
        ("out[torch.tensor([0, 2])] = value.to(out.dtype)", True),
        ("out.index_add_(0, torch.tensor([0, 2]), value.to(out.dtype))", True),
        ("out[torch.tensor([0, 2])] = value.to(other.dtype)", False),
        ("out = value.to(out.dtype)", False),
        ("out.index_add_(0, torch.tensor([0, 2]).to(out.dtype), value)", False),
    ],
)
def test_a_cast_to_the_dtype_of_what_is_written(written: str, is_proved: bool) -> None:
    assert (not failures(f"{WRITE}{written}\n", casts=1)) is is_proved
