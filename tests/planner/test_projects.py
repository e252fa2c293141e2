"""Programs of several files: the scaler is threaded through all of them, or none changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.batch import rewrite_all
from amp_migrate.project.discovery import discover

ENGINE = """
    import torch


    def train_one_epoch(model, loader, criterion, optimizer, device):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
MAIN = """
    import torch
    from torch import nn
    from engine import train_one_epoch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train_one_epoch(model, [], nn.MSELoss(), optimizer, device)
"""
SOLVER = """
    import torch


    class Solver:
        def __init__(self, model, optimizer, loader):
            self.model = model
            self.optimizer = optimizer
            self.loader = loader

        def epoch(self):
            for x, y in self.loader:
                loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""
NOAM = """
    class Noam:
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.count = 0

        def zero_grad(self):
            self.optimizer.zero_grad()

        def step(self):
            self.count += 1
            self.optimizer.step()
"""
RUN = """
    import torch
    from torch import nn
    from solver import Solver

    model = nn.Linear(4, 2).cuda()
    Solver(model, torch.optim.Adam(model.parameters()), []).epoch()
"""


@dataclass(frozen=True)
class Tree:
    """What became of a little project, by the names of its files."""

    texts: dict[str, str]
    loops: dict[str, list[tuple[str, str | None]]]
    messages: str

    def line(self, file: str, text: str) -> bool:
        """Whether `text` is a line of a file, whatever its indent."""
        return text in [line.strip() for line in self.texts[file].splitlines()]


def migrated(folder: Path, *, only: str = "", device: str | None = "cuda", **files: str) -> Tree:
    """Migrate the files, given by names with `__` for folders' ends; `only` names the one that may
    be written.
    """
    texts = {f"{_path(name)}.py": dedent(text).lstrip("\n") for name, text in files.items()}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").touch()
    found = list(discover([folder / only if only else folder], []))
    results = {
        str(r.outcome.path): r
        for r in rewrite_all(found, Settings(device=device), write=False).results
    }
    by_name = {
        name: next((r for p, r in results.items() if Path(p) == folder / name), None)
        for name in texts
    }
    assert not [r.outcome.error for r in results.values() if r.outcome.status == "failed"]
    return Tree(
        {
            n: r.after.decode() if r and r.outcome.status == "migrated" else texts[n]
            for n, r in by_name.items()
        },
        {
            n: [(x.status, x.reason) for x in r.outcome.loops] if r else []
            for n, r in by_name.items()
        },
        "\n".join(x.message or "" for r in results.values() for x in r.outcome.loops),
    )


def _path(name: str) -> str:
    """`losses____init__` is `losses/__init__`."""
    return name.replace("__init__", "*").replace("__", "/").replace("*", "__init__")


def untouched(tree: Tree) -> bool:
    """Whether no file has AMP."""
    return not any("autocast" in text or "GradScaler" in text for text in tree.texts.values())


# -- the scaler goes where the optimizer goes


def test_the_scaler_is_made_beside_the_optimizer_and_passed(tmp_path: Path) -> None:
    tree = migrated(tmp_path, engine=ENGINE, main=MAIN)
    assert tree.line(
        "main.py", 'scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")'
    )
    assert tree.line(
        "main.py", "train_one_epoch(model, [], nn.MSELoss(), optimizer, device, scaler=scaler)"
    )
    assert tree.line(
        "engine.py", "def train_one_epoch(model, loader, criterion, optimizer, device, scaler):"
    )


STEPPER = """
    class Stepper:
        def __call__(self, loss, optimizer):
            loss.backward()
            optimizer.step()
"""
EPOCH = """
    def train(model, loader, criterion, optimizer, stepper):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            stepper(loss, optimizer)
            optimizer.zero_grad()
"""
STEPPED = """
    import torch
    from torch import nn
    from misc import Stepper as Steps
    {train}

    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.{optimizer}
    train(model, [], nn.MSELoss(), optimizer, Steps())
"""


def test_what_is_called_gets_the_scaler_in_each_program_that_makes_one(tmp_path: Path) -> None:
    adam = "Adam(model.parameters())"
    tree = migrated(
        tmp_path,
        misc=STEPPER,
        engine=EPOCH,
        pretrain=STEPPED.format(train=EPOCH.strip(), optimizer=adam),
        tune=STEPPED.format(train="from engine import train", optimizer=adam),
    )
    assert "scaler):" in tree.texts["misc.py"]
    assert "optimizer, scaler=scaler)" in tree.texts["pretrain.py"]
    assert "optimizer, scaler=scaler)" in tree.texts["engine.py"]
    assert tree.line("tune.py", "train(model, [], nn.MSELoss(), optimizer, Steps(), scaler=scaler)")


def test_a_folder_that_the_search_path_names_is_found(tmp_path: Path) -> None:
    main = MAIN.replace("from engine", "import _init_paths\n    from core.engine")
    tree = migrated(
        tmp_path,
        lib__core__engine=ENGINE,
        tools__main=main,
        lib__core____init__="",
        tools___init_paths="",
    )
    assert "optimizer, device, scaler=scaler)" in tree.texts["tools/main.py"]
    assert "scaler=None" not in tree.texts["lib/core/engine.py"]


NETS = """
    import torch
    from torch import nn
    from {base} import Base

    class Net(Base):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
"""
INHERITED = """
    import torch
    from torch import nn

    class Base(nn.Module):
        def forward(self, x):
            return torch.log(torch.sigmoid(self.layer(x)))
"""
LOGARITHM = """
    import torch
    from {nets} import Net

    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in []:
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_forward_that_a_model_inherits_from_another_file_is_mended(tmp_path: Path) -> None:
    main = LOGARITHM.format(nets="nets")
    tree = migrated(tmp_path, nets=NETS.format(base="base"), base=INHERITED, main=main)
    assert tree.line("base.py", "return torch.log(torch.sigmoid(self.layer(x).float()))")


def test_a_model_in_a_folder_of_the_search_path_is_mended(tmp_path: Path) -> None:
    main = "    import _init_paths" + LOGARITHM.format(nets="core.nets")
    nets = NETS.format(base="core.base")
    files = {"lib__core__nets": nets, "lib__core__base": INHERITED, "_init_paths": "", "main": main}
    tree = migrated(tmp_path, **files)
    assert tree.line("lib/core/base.py", "return torch.log(torch.sigmoid(self.layer(x).float()))")


def test_a_model_of_a_module_with_a_computed_name_is_mended(tmp_path: Path) -> None:
    main = """
        import importlib
        import torch

        def main(name):
            model = importlib.import_module(name).get_model(3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in []:
                loss = model(x.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """
    nets = INHERITED.replace("class Base", "class get_model")
    tree = migrated(tmp_path, main=main, models__pointnet=nets)
    assert tree.line("models/pointnet.py", "return torch.log(torch.sigmoid(self.layer(x).float()))")


def test_two_files_of_one_name_off_the_search_path_are_nobodys(tmp_path: Path) -> None:
    tree = migrated(tmp_path, one__engine=ENGINE, two__engine=ENGINE, tools__main=MAIN)
    assert "scaler" not in tree.texts["tools/main.py"]
    assert "scaler=None" in tree.texts["one/engine.py"]


# -- what only the callers know


def test_an_object_made_elsewhere_holds_a_torch_optimizer(tmp_path: Path) -> None:
    tree = migrated(tmp_path, solver=SOLVER, run=RUN)
    assert tree.loops["solver.py"] == [("migrated", None)]


@pytest.mark.parametrize("folder", ["", "solver__"])
def test_an_object_made_elsewhere_holds_a_wrapper(tmp_path: Path, folder: str) -> None:
    run = RUN.replace(
        "torch.optim.Adam(model.parameters())", "Noam(torch.optim.Adam(model.parameters()))"
    )
    run = run.replace("from solver", "from optimizer import Noam\n    from solver")
    files = {
        f"{folder}solver": SOLVER,
        f"{folder}optimizer": NOAM,
        "bin__run" if folder else "run": run,
    }
    tree = migrated(tmp_path, **files, **({f"{folder}__init__": ""} if folder else {}))
    assert [loops for loops in tree.loops.values() if loops] == [[("migrated", None)]]
    assert tree.line(
        f"{folder.replace('__', '/')}solver.py", "self.optimizer.step(scaler=self.scaler)"
    )
    assert tree.line(f"{folder.replace('__', '/')}optimizer.py", "scaler.step(self.optimizer)")


def test_a_wrapper_that_steps_by_another_name(tmp_path: Path) -> None:
    engine = ENGINE.replace("optimizer.step()", "optimizer.step_and_update_lr()")
    tree = migrated(tmp_path, engine=engine, main=MAIN)
    assert tree.loops["engine.py"] == [("refused", "optimizer-wrapper")]


def test_an_object_of_a_loop_in_sight_asks_no_caller(tmp_path: Path) -> None:
    solver = SOLVER.replace("model, optimizer, loader", "loader").replace(
        "= model", "= torch.nn.Linear(4, 2).cuda()"
    )
    solver = solver.replace("= optimizer", "= torch.optim.SGD(self.model.parameters(), lr=0.1)")
    tree = migrated(
        tmp_path, solver=solver, run="from solver import Solver\n\nSolver([]).epoch()\n"
    )
    assert tree.line("solver.py", 'self.scaler = torch.amp.GradScaler("cuda")')


# -- the switch, where the scaler is made


def test_a_flag_that_the_object_keeps_later_is_read_from_its_argument(tmp_path: Path) -> None:
    solver = SOLVER.replace("optimizer, loader):", "optimizer, loader, args):")
    solver = solver.replace(
        "self.loader = loader", "self.loader = loader\n            self.use_cuda = args.use_cuda"
    )
    solver = solver.replace(
        "loss = ",
        "if self.use_cuda:\n                    x, y = x.cuda(), y.cuda()\n                loss = ",
    )
    tree = migrated(tmp_path, solver=solver.replace("x.cuda()), y.cuda()", "x), y"))
    assert tree.line(
        "solver.py", 'self.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.use_cuda))'
    )


def test_a_device_that_main_refines_after_it_was_read(tmp_path: Path) -> None:
    main = """
        import torch
        from torch import nn
        from engine import train_one_epoch


        def run(rank, args):
            if args.device.type == "cuda":
                args.device = torch.device(f"cuda:{rank}")
            model = nn.Linear(4, 2).to(args.device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                train_one_epoch(model, [], nn.MSELoss(), optimizer, args.device)
    """
    tree = migrated(tmp_path, engine=ENGINE, main=main)
    assert tree.line(
        "main.py", 'scaler = torch.amp.GradScaler("cuda", enabled=args.device.type == "cuda")'
    )


# -- what the loop runs in other files


def test_a_loss_from_a_table_in_another_file(tmp_path: Path) -> None:
    losses = """
        def simple(model, x, y):
            return (model(x) - y).square().mean()

        LOSSES = {"simple": simple}
    """
    engine = ENGINE.replace("criterion(model(x), y)", 'LOSSES["simple"](model, x, y)')
    engine = engine.replace("import torch\n", "import torch\n    from losses import LOSSES\n")
    tree = migrated(tmp_path, engine=engine, main=MAIN, losses=losses)
    assert tree.line("engine.py", 'loss = LOSSES["simple"](model, x, y)')
    assert tree.loops["engine.py"] == [("migrated", None)]


TRIPLET = """
    import torch
    from torch import nn


    class Triplet(nn.Module):
        def forward(self, x, y):
            n = x.size(0)
            dist = torch.pow(x, 2).sum(dim=1, keepdim=True).expand(n, n)
            dist = dist + dist.t()
            dist.addmm_(x, x.t(), beta=1, alpha=-2)
            return dist.clamp(min=1e-12).sqrt().mean()
"""
BASE = """
    class Engine:
        def compute_loss(self, criterion, output, y):
            return criterion(output, y)
"""
SUBCLASS = """
    import torch
    from base import Engine
    from losses import Triplet


    class TripletEngine(Engine):
        def __init__(self, model, optimizer):
            self.model = model
            self.optimizer = optimizer
            self.criterion = Triplet()

        def train(self, loader):
            for x, y in loader:
                output = self.model(x.cuda())
                loss = self.compute_loss(self.criterion, output, y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""


def test_a_criterion_that_is_handed_to_a_base_class_is_mended_in_its_file(tmp_path: Path) -> None:
    init = "from .triplet import Triplet\n"
    tree = migrated(
        tmp_path, engine=SUBCLASS, base=BASE, losses____init__=init, losses__triplet=TRIPLET
    )
    assert tree.line("losses/triplet.py", "dist.addmm_(x.float(), x.t().float(), beta=1, alpha=-2)")
    assert tree.loops["engine.py"] == [("migrated", None)]


def test_a_criterion_in_a_file_that_may_not_change_refuses_the_loop(tmp_path: Path) -> None:
    tree = migrated(tmp_path, only="engine.py", engine=SUBCLASS, base=BASE, losses=TRIPLET)
    assert tree.loops["engine.py"] == [("refused", "dtype-strict-inplace")]
    assert "losses.py:10" in tree.messages


def test_a_product_written_into_a_tensor_of_unknown_dtype(tmp_path: Path) -> None:
    losses = TRIPLET.replace("torch.pow(x, 2).sum(dim=1, keepdim=True).expand(n, n)", "x @ x.t()")
    tree = migrated(tmp_path, engine=SUBCLASS, base=BASE, losses=losses)
    assert tree.loops["engine.py"] == [("refused", "out=-or-inplace-matmul")]
    assert untouched(tree)


# -- checkpoints


def test_a_checkpoint_in_another_file_is_given_the_scaler(tmp_path: Path) -> None:
    saving = """
        import torch


        def save(path, model, optimizer):
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    """
    main = (
        MAIN.replace("from engine", "from saving import save\n    from engine")
        + '\n    save("x", model, optimizer)\n'
    )
    tree = migrated(tmp_path, engine=ENGINE, main=main, saving=saving)
    assert ('"scaler": scaler.state_dict()' in tree.texts["saving.py"]) == (
        "optimizer, scaler" in tree.texts["main.py"]
    )


def test_a_loader_behind_a_package_that_hands_names_on_is_given_the_scaler(tmp_path: Path) -> None:
    states = """
        import torch

        def load(optimizer, path):
            checkpoint = torch.load(path)
            optimizer.load_state_dict(checkpoint["optimizer"])
    """
    main = MAIN.replace("from engine", "import tools\n    from engine") + (
        '    tools.load(optimizer, "x")\n'
        '    torch.save({"optimizer": optimizer.state_dict()}, "x")\n'
    )
    files = {"tools____init__": "from .states import *\n", "tools__states": states}
    tree = migrated(tmp_path, engine=ENGINE, main=main, **files)
    assert tree.line("main.py", 'tools.load(optimizer, "x", scaler=scaler)')
    assert tree.line("tools/states.py", 'scaler.load_state_dict(checkpoint["scaler"])')


def test_a_loader_that_others_call_without_an_optimizer_is_given_an_optional_scaler(
    tmp_path: Path,
) -> None:
    states = """
        import torch

        def load(path, model, optimizer=None, key="optimizer"):
            state = torch.load(path)
            model.load_state_dict(state["model"])
            if optimizer is not None:
                optimizer.load_state_dict(state[key])
    """
    predict = "from states import load\n\ndef predict(model):\n    load('x', model)\n"
    main = MAIN.replace("from engine", "from states import load\n    from engine") + (
        '    load("x", model, optimizer)\n'
        '    torch.save({"optimizer": optimizer.state_dict()}, "x")\n'
    )
    tree = migrated(tmp_path, engine=ENGINE, main=main, states=states, predict=predict)
    assert tree.line("main.py", 'load("x", model, optimizer, scaler=scaler)')
    assert tree.line(
        "states.py", 'def load(path, model, optimizer=None, key="optimizer", scaler=None):'
    )
    assert tree.line("states.py", 'scaler.load_state_dict(state["scaler"])')
    assert "scaler" not in tree.texts["predict.py"]


def test_states_in_a_list_have_no_get(tmp_path: Path) -> None:
    main = MAIN.replace(
        "for epoch",
        'states = torch.load("x")\n    optimizer.load_state_dict(states[1])\n    for epoch',
    )
    tree = migrated(tmp_path, engine=ENGINE, main=main)
    assert "states.get" not in tree.texts["main.py"]
    assert "scaler=scaler)" in tree.texts["main.py"]


def test_a_saver_that_only_gets_a_note_gets_no_scaler(tmp_path: Path) -> None:
    saving = """
        import torch


        def save(path, optimizer):
            torch.save(optimizer.state_dict(), path)
    """
    main = (
        MAIN.replace("from engine", "from saving import save\n    from engine")
        + '\n    save("x", optimizer)\n'
    )
    tree = migrated(tmp_path, engine=ENGINE, main=main, saving=saving)
    assert "def save(path, optimizer):" in tree.texts["saving.py"]
    assert tree.line("main.py", 'save("x", optimizer)')


def test_an_optimizer_that_a_config_makes_of_parameters(tmp_path: Path) -> None:
    solver = SOLVER.replace("model, optimizer, loader", "model, config, loader")
    solver = solver.replace("= optimizer", "= config.optimizer_fn(self.model.parameters())")
    tree = migrated(tmp_path, solver=solver, other="import solver\n")
    assert tree.line("solver.py", 'self.scaler = torch.amp.GradScaler("cuda")')


def test_an_optimizer_that_comes_under_a_key(tmp_path: Path) -> None:
    solver = SOLVER.replace("model, optimizer, loader", "model, loader, **kwargs").replace(
        "= optimizer", '= kwargs["optimizer"]'
    )
    tree = migrated(
        tmp_path,
        solver=solver,
        run=RUN.replace("torch.optim.Adam", "[], optimizer=torch.optim.Adam").replace(
            ", []).epoch", ").epoch"
        ),
    )
    assert tree.line("solver.py", 'self.scaler = torch.amp.GradScaler("cuda")')


def test_a_diffusion_in_another_file_computes_the_loss(tmp_path: Path) -> None:
    diffusion = """
        class Diffusion:
            def train_losses(self, denoise, x):
                return (denoise(x) - x).square()
    """
    solver = SOLVER.replace(
        "torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())", "self.loss(x.cuda()).mean()"
    )
    solver = solver.replace(
        "optimizer, loader):",
        "optimizer, loader, diffusion):\n            self.diffusion = diffusion",
    )
    solver += (
        "\n        def loss(self, x):\n            return "
        "self.diffusion.train_losses(self.model, x)\n"
    )
    run = RUN.replace("[])", "[], Diffusion())").replace(
        "from solver", "from diffusion import Diffusion\n    from solver"
    )
    tree = migrated(tmp_path, solver=solver, diffusion=diffusion, run=run)
    assert tree.loops["solver.py"] == [("migrated", None)]


# -- who calls whom


def test_nobody_in_sight_calls_it(tmp_path: Path) -> None:
    tree = migrated(tmp_path, engine=ENGINE, main="import engine\n")
    assert tree.line(
        "engine.py",
        "def train_one_epoch(model, loader, criterion, optimizer, device, scaler=None):",
    )
    assert tree.line("engine.py", 'scaler = torch.amp.GradScaler("cuda", enabled=False)')


def test_a_caller_that_may_not_change_refuses_the_loop(tmp_path: Path) -> None:
    tree = migrated(tmp_path, only="engine.py", engine=ENGINE, main=MAIN)
    assert tree.loops["engine.py"] == [("refused", "callers-in-other-modules")]
    assert untouched(tree)


def test_names_of_imports_do_not_matter(tmp_path: Path) -> None:
    main = MAIN.replace("import train_one_epoch", "import train_one_epoch as run_epoch")
    tree = migrated(
        tmp_path, engine=ENGINE, main=main.replace("        train_one_epoch(", "        run_epoch(")
    )
    assert tree.line(
        "main.py", "run_epoch(model, [], nn.MSELoss(), optimizer, device, scaler=scaler)"
    )


def test_a_package_hands_the_function_on(tmp_path: Path) -> None:
    main = MAIN.replace("from engine", "from training")
    init = "from .engine import train_one_epoch\n"
    tree = migrated(tmp_path, training__engine=ENGINE, training____init__=init, main=main)
    assert "scaler=scaler)" in tree.texts["main.py"]
    assert tree.texts["training/__init__.py"] == init


def test_a_subclass_in_another_file_that_makes_the_optimizer(tmp_path: Path) -> None:
    child = """
        import torch
        from solver import Solver


        class Child(Solver):
            def __init__(self, model, loader):
                self.model = model
                self.loader = loader
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    """
    tree = migrated(tmp_path, solver=SOLVER, child=child)
    assert tree.line("child.py", 'self.scaler = torch.amp.GradScaler("cuda")')
    assert tree.line("solver.py", 'self.scaler = torch.amp.GradScaler("cuda")')


def test_a_caller_with_amp_is_left_alone_with_its_function(tmp_path: Path) -> None:
    main = MAIN.replace(
        "        train_one_epoch(",
        '        with torch.autocast("cuda"):\n            train_one_epoch(',
    )
    tree = migrated(tmp_path, engine=ENGINE, main=main)
    assert tree.loops["engine.py"] == [("skipped", "already-amp")]
    assert tree.texts["engine.py"] == dedent(ENGINE).lstrip("\n")


def test_a_loop_with_amp_hides_no_plain_loop_in_another_file(tmp_path: Path) -> None:
    other = """
        import torch

        model = torch.nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x in []:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """
    tree = migrated(tmp_path, engine=ENGINE, main=MAIN + "\n    import other\n", other=other)
    assert tree.loops["engine.py"] == [("migrated", None)]
    assert tree.texts["other.py"] == dedent(other).lstrip("\n")


def test_files_that_do_not_train_stay_as_they_are(tmp_path: Path) -> None:
    tree = migrated(tmp_path, engine=ENGINE.replace("loss.backward()", "loss.item()"), main=MAIN)
    assert untouched(tree)


def test_a_project_of_cpu_code_is_left_alone(tmp_path: Path) -> None:
    engine = ENGINE.replace("            x, y = x.to(device), y.to(device)\n", "").replace(
        ", device)", ")"
    )
    main = MAIN.replace(", device)", ")").replace(".to(device)", "")
    main = main.replace('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', "")
    tree = migrated(tmp_path, device=None, engine=engine, main=main)
    assert tree.loops["engine.py"] == [("skipped", "cpu-only")]
    assert untouched(tree)


def test_a_device_that_only_the_program_around_names(tmp_path: Path) -> None:
    solver = SOLVER.replace(".cuda()", "")
    factory = "from solver import Solver\n\nSOLVERS = {'plain': Solver}\n"
    run = RUN.replace("from solver import Solver", "from factory import SOLVERS").replace(
        "Solver(", "SOLVERS['plain']("
    )
    tree = migrated(tmp_path, device=None, solver=solver, factory=factory, run=run)
    assert tree.loops["solver.py"] == [("migrated", None)]


# -- checkpoints that another file writes

SAVING = MAIN.replace("    from engine", "    import storage\n    from engine", 1) + (
    '        storage.save(model, optimizer, epoch, "a.pt")\n    storage.load(model, optimizer, '
    '"a.pt")\n'
)
STORAGE = """
    import torch


    def save(model, optimizer, epoch, path):
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, path)


    def load(model, optimizer, path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
"""


def test_a_checkpoint_that_another_file_writes_holds_the_scaler(tmp_path: Path) -> None:
    tree = migrated(tmp_path, main=SAVING, engine=ENGINE, storage=STORAGE)
    assert tree.line("main.py", 'storage.save(model, optimizer, epoch, "a.pt", scaler=scaler)')
    assert tree.line("main.py", 'storage.load(model, optimizer, "a.pt", scaler=scaler)')
    assert tree.line("storage.py", "def save(model, optimizer, epoch, path, scaler):")
    assert '"scaler": scaler.state_dict()' in tree.texts["storage.py"]
    assert tree.line("storage.py", 'scaler.load_state_dict(state["scaler"])')


def test_a_saver_without_the_optimizers_state_is_left_alone(tmp_path: Path) -> None:
    plain = """
        import torch


        def save(model, optimizer, epoch, path):
            torch.save(model.state_dict(), path)


        def load(model, optimizer, path):
            model.load_state_dict(torch.load(path))
    """
    tree = migrated(tmp_path, main=SAVING, engine=ENGINE, storage=plain)
    assert tree.texts["storage.py"] == dedent(plain).lstrip("\n")
    assert tree.line("main.py", 'storage.save(model, optimizer, epoch, "a.pt")')


def test_a_saver_that_may_not_change_keeps_the_loop_migrated(tmp_path: Path) -> None:
    loop = """\
        loss = model(torch.randn(3, 4, device=device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    main = SAVING.replace("    from engine import train_one_epoch\n", "").replace(
        "        train_one_epoch(model, [], nn.MSELoss(), optimizer, device)\n",
        loop.removesuffix("    "),
    )
    tree = migrated(tmp_path, only="main.py", main=main, storage=STORAGE)
    assert tree.loops["main.py"] == [("migrated", None)]
    assert tree.texts["storage.py"] == dedent(STORAGE).lstrip("\n")
    assert tree.line("main.py", 'storage.save(model, optimizer, epoch, "a.pt")')


def test_every_program_that_shares_a_saver_passes_its_scaler(tmp_path: Path) -> None:
    tree = migrated(tmp_path, main=SAVING, other=SAVING, engine=ENGINE, storage=STORAGE)
    for name in ("main.py", "other.py"):
        assert tree.line(name, 'storage.save(model, optimizer, epoch, "a.pt", scaler=scaler)')
    assert tree.texts["storage.py"].count("scaler.state_dict()") == 1


def test_a_file_that_imports_something_else_is_no_caller(tmp_path: Path) -> None:
    main = MAIN.replace(
        "from engine import train_one_epoch", "from engine import train_one_epoch as run"
    ).replace("        train_one_epoch(", "        run(")
    other = """
        from main import model


        def train_one_epoch():
            model.train_one_epoch()
    """
    tree = migrated(tmp_path, main=main, engine=ENGINE, other=other)
    assert tree.line(
        "engine.py", "def train_one_epoch(model, loader, criterion, optimizer, device, scaler):"
    )
    lone = """
        import torch


        def helper():
            return 1


        def train(model, optimizer, x):
            loss = model(x.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


        def main():
            model = torch.nn.Linear(4, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in range(3):
                train(model, optimizer, torch.randn(3, 4))
    """
    user = """
        from lone import helper


        def train(model):
            model.train()
            return helper()
    """
    assert migrated(tmp_path / "b", only="lone.py", lone=lone, user=user).loops["lone.py"] == [
        ("migrated", None)
    ]
    taken = user.replace("from lone import helper", "import lone").replace(
        "return helper()", "return lone.train(model, 1, 2)"
    )
    assert migrated(tmp_path / "c", only="lone.py", lone=lone, user=taken).loops["lone.py"] == [
        ("refused", "callers-in-other-modules")
    ]


def test_a_helper_that_moves_the_batches_tells_the_device(tmp_path: Path) -> None:
    tools = """
        import torch

        def variable(x):
            return x.cuda() if torch.cuda.is_available() else x
    """
    loop = """
        import torch
        from tools import variable

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                loss = model(variable(x)).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        train(torch.nn.Linear(4, 4), [])
    """
    tree = migrated(tmp_path, device=None, tools=tools, train=loop)
    assert tree.loops["train.py"] == [("migrated", None)]
    still = migrated(tmp_path, device=None, tools="def variable(x):\n    return x", train=loop)
    assert still.loops["train.py"] == [("skipped", "cpu-only")]


def _part(number: int, last: int) -> str:
    """A layer with a constant that is too big for half precision, and the layer in the next file."""
    after = "self.next(h)\n" if number < last else "h\n"
    lines = [
        "from torch import nn",
        f"from part{number + 1} import Part as Next" if number < last else "",
        "class Part(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.layer = nn.Linear(4, 4)",
        "        self.next = Next()" if number < last else "",
        "    def forward(self, x):",
        "        h = self.layer(x)",
        "        h = h.masked_fill(h < 0, -1e9).softmax(-1)",
        f"        return {after}",
    ]
    return "\n".join(lines)


def test_each_of_many_files_may_need_the_next(tmp_path: Path) -> None:
    parts = {f"part{n}": _part(n, 8) for n in range(1, 9)}
    main = """
        import torch
        from part1 import Part

        model = Part().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in []:
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    tree = migrated(tmp_path, main=main, **parts)
    assert [loops for loops in tree.loops.values() if loops] == [[("migrated", None)]]
    assert all(".float()" in tree.texts[f"part{n}.py"] for n in range(1, 9))
