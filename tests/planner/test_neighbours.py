"""What a loop runs in other files of its project: hazards there refuse the loop, and its callers
there are named.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.pipeline.whole_program import rewrite_program

TRAIN = """
    import torch
    from torch import nn
    {imports}

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = {model}.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    criterion = {criterion}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
"""


def project(folder: Path, files: dict[str, str], **settings: str) -> FileOutcome:
    """Write a project and migrate its train.py."""
    for name, text in {"pyproject.toml": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    train = folder / "train.py"
    return migrate_text(train.read_text(), str(train), Settings(**settings))


def train(imports: str, model: str = "Net()", criterion: str = "nn.MSELoss()") -> str:
    """The training script, with its model and loss."""
    return (
        dedent(TRAIN)
        .replace("{imports}", imports)
        .replace("{model}", model)
        .replace("{criterion}", criterion)
    )


def net(line: str) -> str:
    """A model whose forward runs `line`."""
    return f"""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            x = self.fc(x)
            {line}
            return x
    """


HAZARDS = {
    "a large constant": ("x = x.masked_fill(x > 0, -1e9)", "big-constant-in-half"),
    "no half kernel": ("x = torch.linalg.inv(x)", "ops-without-half-kernel"),
    "a sparse product": ("x = torch.sparse.mm(self.adj, x)", "ops-without-half-kernel"),
    "a tiny addend": ("x = 1 / (x + 1e-8)", "eps-underflow"),
    "a Gram matrix": ("f = x.view(4, -1); x = torch.mm(f, f.t())", "loses-precision"),
}


@pytest.mark.parametrize("case", HAZARDS.values(), ids=HAZARDS)
def test_a_hazard_in_the_model_refuses_the_loop(case: tuple[str, str], tmp_path: Path) -> None:
    line, reason = case
    outcome = project(
        tmp_path, {"models.py": net(line), "train.py": train("from models import Net")}
    )
    assert [(loop.status, loop.reason) for loop in outcome.loops] == [("refused", reason)]
    assert outcome.output is None


def test_the_message_names_the_other_file(tmp_path: Path) -> None:
    files = {
        "models.py": net("x = x.masked_fill(x > 0, -1e9)"),
        "train.py": train("from models import Net"),
    }
    message = project(tmp_path, files).loops[0].message
    assert message is not None
    assert "models.py:12" in message
    assert "x.float()" in message


@pytest.mark.parametrize(
    "line",
    ["x = x.relu()", "x = x.float().masked_fill(x > 0, -1e9)", "x = x.masked_fill(x > 0, -1e4)"],
)
def test_a_sound_model_does_not(line: str, tmp_path: Path) -> None:
    outcome = project(
        tmp_path, {"models.py": net(line), "train.py": train("from models import Net")}
    )
    assert [loop.status for loop in outcome.loops] == ["migrated"]


def test_bfloat16_has_the_range_of_float32(tmp_path: Path) -> None:
    files = {
        "models.py": net("x = x.masked_fill(x > 0, -1e9)"),
        "train.py": train("from models import Net"),
    }
    assert [loop.status for loop in project(tmp_path, files, dtype="bfloat16").loops] == [
        "migrated"
    ]


REACHED = {
    "a package": ("from nets.models import Net", "nets/models.py", ""),
    "a re-export": ("from nets import Net", "nets/models.py", "from .models import Net\n"),
    "a star": ("from nets import *", "nets/models.py", "from .models import *\n"),
    "a module": ("import nets.models as m\nNet = m.Net", "nets/models.py", ""),
    "src": ("from models import Net", "src/models.py", ""),
}


@pytest.mark.parametrize("case", REACHED.values(), ids=REACHED)
def test_imports_are_followed(case: tuple[str, str, str], tmp_path: Path) -> None:
    imports, place, package = case
    model = "m.Net()" if "as m" in imports else "Net()"
    files = {
        place: net("x = torch.linalg.inv(x)"),
        "nets/__init__.py": package,
        "train.py": train(imports, model),
    }
    assert [loop.reason for loop in project(tmp_path, files).loops] == ["ops-without-half-kernel"]


def test_bce_behind_a_function_of_another_file(tmp_path: Path) -> None:
    losses = """
    import torch
    import torch.nn.functional as F

    def edge_loss(p, y):
        return F.binary_cross_entropy(torch.sigmoid(p), y)
    """
    files = {
        "losses.py": losses,
        "train.py": train("from losses import *", "nn.Linear(4, 4)", "edge_loss"),
    }
    assert [loop.reason for loop in project(tmp_path, files).loops] == ["bce-on-probabilities"]


def test_an_optimizer_made_in_another_file(tmp_path: Path) -> None:
    build = (
        "import torch\n\ndef get_optimizer(model):\n    return "
        "torch.optim.SGD(model.parameters(), lr=0.1)\n"
    )
    script = train("from build import get_optimizer", "nn.Linear(4, 4)").replace(
        "torch.optim.Adam(model.parameters())", "get_optimizer(model)"
    )
    assert [
        loop.status for loop in project(tmp_path, {"build.py": build, "train.py": script}).loops
    ] == ["migrated"]


def test_a_wrapper_made_in_another_file(tmp_path: Path) -> None:
    build = """
    class Noam:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self):
            self.optimizer.step()

        def zero_grad(self):
            self.optimizer.zero_grad()
    """
    script = train("from build import Noam", "nn.Linear(4, 4)").replace(
        "torch.optim.Adam(model.parameters())", "Noam(torch.optim.Adam(model.parameters()))"
    )
    outcome = project(tmp_path, {"build.py": build, "train.py": script})
    assert [loop.reason for loop in outcome.loops] == ["optimizer-wrapper"]


ENGINE = """
def train_one_epoch(model, loader, optimizer, criterion, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


def test_callers_in_another_file_are_named(tmp_path: Path) -> None:
    main = "from train import train_one_epoch\n\ntrain_one_epoch(None, [], None, None, None)\n"
    loop = project(tmp_path, {"main.py": main, "train.py": "import torch\n" + ENGINE}).loops[0]
    assert (loop.status, loop.reason) == ("refused", "callers-in-other-modules")
    assert loop.message is not None
    assert "main.py" in loop.message


def test_without_callers_the_scaler_is_optional(tmp_path: Path) -> None:
    loop = project(tmp_path, {"main.py": "print()\n", "train.py": "import torch\n" + ENGINE}).loops[
        0
    ]
    assert loop.status == "migrated"


@pytest.mark.parametrize("broken", ["def f(:\n", "\x00"])
def test_a_neighbour_that_does_not_parse_is_told(broken: str, tmp_path: Path) -> None:
    outcome = project(tmp_path, {"models.py": broken, "train.py": train("from models import Net")})
    assert [(loop.status, loop.reason) for loop in outcome.loops] == [("refused", "syntax")]


METHOD = """
    import torch
    from nets import Net

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    {made}

    def train(model, optimizer, loader):
        for x, y in loader:
            optimizer.zero_grad()
            loss = model.loss(x.to(device), y.to(device))
            loss.backward()
            optimizer.step()

    train(model, optimizer, [])
"""
NETS = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x){fill}

        def loss(self, x, y):
            return F.mse_loss(self(x), y)
"""
MADE = "model = Net().to(device)\n    optimizer = torch.optim.Adam(model.parameters())"


@pytest.mark.parametrize(
    ("fill", "status"), [(".masked_fill(x > 0, -1e9)", "refused"), ("", "migrated")]
)
def test_a_method_of_a_model_elsewhere_runs_its_forward(
    tmp_path: Path, fill: str, status: str
) -> None:
    program = METHOD.replace("{made}", MADE)
    found = project(tmp_path, {"train.py": program, "nets.py": NETS.replace("{fill}", fill)})
    assert [loop.status for loop in found.loops] == [status]
    if status == "refused":
        assert found.loops[0].reason == "big-constant-in-half"
        assert "nets.py:12 breaks in half precision" in (found.loops[0].message or "")


CALLBACK = """
    import torch
    import torch.nn.functional as F
    {imports}

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def train(model, optimizer, loader):
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x.to(device))
                loss = F.mse_loss(out, y.to(device))
                loss.backward()
                optimizer.step()

    def run(function, *arguments):
        return function(*arguments)

    def main():
        model = Net().to(device)
        optimizer = torch.optim.Adam(model.parameters())
        run(train, model, optimizer, [])
"""


@pytest.mark.parametrize(
    ("fill", "status"), [(".masked_fill(x > 0, -1e9)", "refused"), ("", "migrated")]
)
def test_a_model_that_no_call_binds_may_be_any_imported_one(
    tmp_path: Path, fill: str, status: str
) -> None:
    program = CALLBACK.replace("{imports}", "from nets import Net")
    found = project(tmp_path, {"train.py": program, "nets.py": NETS.replace("{fill}", fill)})
    assert [loop.status for loop in found.loops] == [status]
    if status == "refused":
        assert found.loops[0].reason == "big-constant-in-half"
        assert "nets.py:12 breaks in half precision" in (found.loops[0].message or "")


def test_a_model_that_no_call_binds_may_be_any_of_its_file(tmp_path: Path) -> None:
    nets = dedent(NETS.replace("{fill}", ".masked_fill(x > 0, -1e9)"))
    program = dedent(CALLBACK).replace("{imports}", nets)
    found = project(tmp_path, {"train.py": program})
    assert [loop.status for loop in found.loops] == ["migrated"]
    assert "self.fc(x).float().masked_fill(x > 0, -1e9)" in (found.output or "")


def twice(first: str, second: str) -> str:
    """A script whose loss is made of two values that a helper of another file bounds."""
    return train("from tools import bounded", "nn.Linear(4, 1)").replace(
        "loss = criterion(output, y)", f"loss = ({first} + {second}).mean()"
    )


BOUNDED = """
    import torch

    def bounded(x):
        return torch.clamp(x.sigmoid(), min=1e-4, max=1 - 1e-4)
"""


@pytest.mark.parametrize("second", ["output[0]", "model(y)"])
def test_every_call_of_a_helper_gets_float(tmp_path: Path, second: str) -> None:
    script = twice("bounded(output)", f"bounded({second})")
    outcome = project(tmp_path, {"train.py": script, "tools.py": BOUNDED})
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert (outcome.output or "").count(".float())") == 2


def test_helper_that_another_helper_calls_too_is_named(tmp_path: Path) -> None:
    script = twice("bounded(output)", "doubled(output)").replace("bounded", "doubled, bounded", 1)
    more = f"{BOUNDED}\n    def doubled(x):\n        return bounded(x * 2)\n"
    outcome = project(tmp_path, {"train.py": script, "tools.py": more})
    assert [loop.status for loop in outcome.loops] == ["refused"]
    assert "tools.py:5" in (outcome.loops[0].message or "")


SHARDS = """
    import torch

    class Shards:
        def spread(self, batch, size):
            for part in batch.cuda().split(size):
                self.loss(part).div(size).backward()
"""
STEPS = """
    class Trainer:
        def __init__(self, loss, optimizers):
            self.loss, self.optimizers = loss, optimizers

        def train(self, batches):
            for batch in batches:
                {call}
                for one in self.optimizers:
                    one.step()
"""


def spread(folder: Path, call: str) -> FileOutcome:
    """A backward in one file, and a step beside a call in another."""
    return project(folder, {"train.py": SHARDS, "trainer.py": STEPS.replace("{call}", call)})


def test_a_step_beside_a_call_by_that_name_is_told(tmp_path: Path) -> None:
    (loop,) = spread(tmp_path, "self.loss.spread(batch, 4)").loops
    assert (loop.status, loop.reason) == ("refused", "step-elsewhere")
    assert "trainer.py:8 calls `self.loss.spread` and steps in line 10" in (loop.message or "")


@pytest.mark.parametrize(
    "call", ["self.loss.spread()", "self.loss.sum(batch, 4)", "torch.Tensor.spread(batch)"]
)
def test_a_step_beside_another_call_is_none_of_it(tmp_path: Path, call: str) -> None:
    (loop,) = spread(tmp_path, call).loops
    assert (loop.status, loop.reason) == ("skipped", "no-optimizer")


STEPPERS = {
    "a step that the object is given": ("self.step = inner.step", "refused"),
    "a step that counts": (
        "self.count = 0\n\n    def step(self):\n        self.count += 1",
        "skipped",
    ),
}


@pytest.mark.parametrize("case", STEPPERS.values(), ids=STEPPERS)
def test_a_step_is_told_by_its_class(case: tuple[str, str], tmp_path: Path) -> None:
    line, status = case
    made = f"class Stepper:\n    def __init__(self, inner):\n        {line}\n"
    loop = (
        "from torch import nn\nfrom stepping import Stepper\nmodel = nn.Linear(2, 2).cuda()\n"
        "stepper = Stepper(inner)\nfor x, y in loader:\n    loss = (model(x) - y).mean()\n"
        "    loss.backward()\n    stepper.step()\n"
    )
    outcome = project(tmp_path, {"stepping.py": made, "train.py": loop})
    assert [loop.status for loop in outcome.loops] == [status]


MAIN = """
import torch
from train import train_one_epoch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
train_one_epoch(model, [], optimizer, torch.nn.MSELoss(), device)
"""
OLD = "from train import train_one_epoch\n{line}\nx = x.cuda(async=True)\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [("", "migrated"), ("train_one_epoch(None, [], None, None, None)", "refused")],
)
def test_an_unparsed_file_that_only_imports_is_no_caller(
    line: str, status: str, tmp_path: Path
) -> None:
    texts = {
        "main.py": MAIN,
        "old.py": OLD.format(line=line),
        "train.py": "import torch\n" + ENGINE,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    results = rewrite_program([tmp_path / name for name in texts], Settings())
    loops = results[tmp_path / "train.py"].outcome.loops
    assert [loop.status for loop in loops] == [status]


BASE = """
    import torch


    class Engine:
        def __init__(self, config):
            self.device = torch.device(config["device"])
            {moves}
"""
HEIR = """
    import torch
    import torch.nn.functional as F
    from engine import Engine
    from torch import nn


    class Regression(Engine):
        def __init__(self, config):
            self.model = nn.Linear(4, 1)
            self.optimizer = torch.optim.Adam(self.model.parameters())
            super().__init__(config)

        def fit(self, x, y):
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("moves", "switch"),
    [
        ("self.model.to(self.device)", "self.device.type"),
        ("self.config = config", "next(self.model.parameters()).device.type"),
    ],
)
def test_a_model_that_a_base_class_moves_later(tmp_path: Path, moves: str, switch: str) -> None:
    files = {"engine.py": BASE.replace("{moves}", moves), "train.py": HEIR}
    outcome = project(tmp_path, files)
    assert f'enabled={switch} == "cuda"' in (outcome.output or "")


def test_a_function_of_another_file_goes_backward_from_the_loss(tmp_path: Path) -> None:
    helper = "def penalise(loss, weight):\n    {line}\n    return loss * weight\n"
    text = train("from tools import penalise\nfrom nets import Net")
    text = text.replace("    loss.backward()", "    loss = penalise(loss, 2)\n    loss.backward()")
    found = []
    for number, line in enumerate(("loss.backward(retain_graph=True)", "print(loss)")):
        files = {"train.py": text, "nets.py": net("self.a(x)"), "tools.py": ""}
        files["tools.py"] = helper.format(line=line)
        (folder := tmp_path / str(number)).mkdir()
        loop = project(folder, files).loops[0]
        found.append((loop.status, loop.reason))
    assert found == [("refused", "mixed-gradients"), ("migrated", None)]
