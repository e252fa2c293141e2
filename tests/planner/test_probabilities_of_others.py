"""Sigmoids in other files of the project than that of the loss: the files are planned together."""

from __future__ import annotations

from pathlib import Path

from tests.planner.test_projects import migrated

MODEL = """
    import torch
    from torch import nn


    class NAME(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 1)

        def forward(self, x):
            return torch.sigmoid(self.fc(x))
"""
MENDED = "return torch.sigmoid(self.fc(x).float())"
NET = MODEL.replace("NAME", "Net")
LOOP = """
    import torch
    from torch import nn
    {imports}


    def build(name):
        {choices}


    model = build(name).cuda()
    criterion = nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        p = model(x.cuda())
        loss = criterion(p, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
TRAINER = """
    import torch
    from torch import nn


    def build_trainer(model, optimizer):
        trainer = MADE
        print(trainer)
        return trainer


    class Trainer:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer
            self.loss = nn.BCELoss()

        def step(self, x, y):
            self.optimizer.zero_grad()
            p = self.model(x.cuda())
            loss = self.loss(p, y.cuda())
            loss.backward()
            self.optimizer.step()
"""
MAIN = """
    import torch
    from model import Net
    from trainer import build_trainer

    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = build_trainer(model, optimizer)
    for x, y in loader:
        trainer.step(x, y)
"""


def test_all_models_that_it_may_be_are_asked_for_at_once(tmp_path: Path) -> None:
    """More than there are rounds in which files are asked for."""
    names = range(16)
    imports = "\n    ".join(f"from model{i} import Net{i}" for i in names)
    choices = "\n        ".join(f'if name == "{i}": return Net{i}()' for i in names)
    files = {f"model{i}": MODEL.replace("NAME", f"Net{i}") for i in names}
    loop = LOOP.format(imports=imports, choices=choices)
    found = migrated(tmp_path, main=loop, **files)
    assert found.loops["main.py"] == [("migrated", None)]
    assert all(found.line(f"{name}.py", MENDED) for name in files)


def test_a_factory_may_name_what_it_gives_back_first(tmp_path: Path) -> None:
    trainer = TRAINER.replace("MADE", "Trainer(model, optimizer)")
    found = migrated(tmp_path, trainer=trainer, model=NET, main=MAIN)
    assert found.loops["trainer.py"] == [("migrated", None)]
    assert found.line("model.py", MENDED)


def test_a_factory_of_something_else_leads_nowhere(tmp_path: Path) -> None:
    trainer = TRAINER.replace("MADE", "str(model)")
    found = migrated(tmp_path, trainer=trainer, model=NET, main=MAIN)
    assert found.loops["trainer.py"] == [("refused", "bce-on-probabilities")]
    assert not found.line("model.py", MENDED)
