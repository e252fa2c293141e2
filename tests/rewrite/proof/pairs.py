"""Small programs with their correct rewrites, written by hand; the seeded faults start from these."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from amp_migrate.rewrite.proof import Introduced


@dataclass(frozen=True)
class Pair:
    """One rewrite, with what it declares."""

    name: str
    before: str
    after: str
    introduced: Introduced


REGION = 'torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled())'
SELF_REGION = REGION.replace("scaler", "self.scaler")
PLAIN_REGION = 'torch.autocast("cuda", dtype=torch.float16)'
MADE = 'torch.amp.GradScaler("cuda", enabled=device.type == "cuda")'


def introduced(*scalers: str, region: str = REGION, made: str = MADE, **more: object) -> Introduced:
    """What most rewrites declare: these scalers, one header, one constructor."""
    facts = {
        "scalers": frozenset(scalers),
        "regions": frozenset({region}),
        "constructors": frozenset({made}),
        **more,
    }
    return Introduced(**facts)  # type: ignore[arg-type]


def pair(name: str, before: str, after: str, facts: Introduced) -> Pair:
    """A pair from indented text."""
    return Pair(name, dedent(before).lstrip(), dedent(after).lstrip(), facts)


PAIRS = [
    pair(
        "module level, clipped",
        """
        import torch
        from torch import nn
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(4, 2).to(device)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            output = model(x)
            loss = criterion(output, y)
            loss.backward()
            if args.clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach() * len(x)
        """,
        """
        import torch
        from torch import nn
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(4, 2).to(device)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
                output = model(x)
                loss = criterion(output, y)
            scaler.scale(loss).backward()
            if args.clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            total += loss.detach() * len(x)
        """,
        introduced("scaler"),
    ),
    pair(
        "parameter, checkpoint",
        """
        import torch

        def train(model, loader, optimizer, device, epochs=2):
            for epoch in range(epochs):
                for x, y in loader:
                    loss = model.loss(x.to(device), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

        def main():
            device = torch.device("cuda:0")
            model = make(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if path.exists():
                checkpoint = torch.load(path)
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
            train(model, loader, optimizer, device)
            torch.save({"optimizer": optimizer.state_dict(), "epoch": 3}, path)
            torch.save(dict(optimizer=optimizer.state_dict()), other)

        main()
        """,
        """
        import torch

        def train(model, loader, optimizer, device, epochs=2, *, scaler):
            for epoch in range(epochs):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
                        loss = model.loss(x.to(device), y.to(device))
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()

        def main():
            device = torch.device("cuda:0")
            model = make(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
            if path.exists():
                checkpoint = torch.load(path)
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
                if checkpoint.get("scaler"):
                    scaler.load_state_dict(checkpoint["scaler"])
            train(model, loader, optimizer, device, scaler=scaler)
            torch.save({"optimizer": optimizer.state_dict(), "epoch": 3, "scaler": scaler.state_dict()}, path)
            torch.save(dict(optimizer=optimizer.state_dict(), scaler=scaler.state_dict()), other)

        main()
        """,
        introduced("scaler"),
    ),
    pair(
        "trainer class, accumulation",
        """
        import torch

        class Trainer:
            def __init__(self, model, device):
                self.model = model
                self.device = device
                self.optimizer = torch.optim.AdamW(model.parameters())

            def run(self, loader, steps):
                for i, (x, y) in enumerate(loader):
                    logits, loss = self.model(x, y)
                    loss = loss / steps
                    loss.backward()
                    if (i + 1) % steps == 0:
                        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                        self.optimizer.step()
                        self.optimizer.zero_grad(set_to_none=True)
                    self.log(loss.item())
        """,
        """
        import torch

        class Trainer:
            def __init__(self, model, device):
                self.model = model
                self.device = device
                self.optimizer = torch.optim.AdamW(model.parameters())
                self.scaler = torch.amp.GradScaler("cuda", enabled=torch.device(device).type == "cuda")

            def run(self, loader, steps):
                for i, (x, y) in enumerate(loader):
                    with torch.autocast("cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
                        logits, loss = self.model(x, y)
                        loss = loss / steps
                    self.scaler.scale(loss).backward()
                    if (i + 1) % steps == 0:
                        self.scaler.unscale_(self.optimizer)
                        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                        self.scaler.step(self.optimizer)
                        self.scaler.update()
                        self.optimizer.zero_grad(set_to_none=True)
                    self.log(loss.item())
        """,
        introduced(
            "self.scaler",
            region=SELF_REGION,
            made='torch.amp.GradScaler("cuda", enabled=torch.device(device).type == "cuda")',
        ),
    ),
    pair(
        "two networks",
        """
        import torch as th

        def fit(data, generator, critic, criterion, real, fake_label):
            opt_g = th.optim.Adam(generator.parameters())
            opt_d = th.optim.Adam(critic.parameters())
            for x in data:
                opt_d.zero_grad()
                fake = generator(th.randn(8, 2))
                loss_real = criterion(critic(x), real)
                loss_fake = criterion(critic(fake.detach()), fake_label)
                loss_d = loss_real + loss_fake
                loss_d.backward()
                opt_d.step()
                opt_g.zero_grad()
                loss_g = criterion(critic(fake), real)
                loss_g.backward()
                opt_g.step()
        """,
        """
        import torch as th

        def fit(data, generator, critic, criterion, real, fake_label):
            opt_g = th.optim.Adam(generator.parameters())
            opt_d = th.optim.Adam(critic.parameters())
            scaler = th.amp.GradScaler("cuda")
            for x in data:
                opt_d.zero_grad()
                with th.autocast("cuda", dtype=th.float16):
                    fake = generator(th.randn(8, 2))
                    loss_real = criterion(critic(x), real)
                    loss_fake = criterion(critic(fake.detach()), fake_label)
                    loss_d = loss_real + loss_fake
                scaler.scale(loss_d).backward()
                scaler.step(opt_d)
                opt_g.zero_grad()
                with th.autocast("cuda", dtype=th.float16):
                    loss_g = criterion(critic(fake), real)
                scaler.scale(loss_g).backward()
                scaler.step(opt_g)
                scaler.update()
        """,
        introduced(
            "scaler",
            region=PLAIN_REGION.replace("torch", "th"),
            made='th.amp.GradScaler("cuda")',
            torch="th",
        ),
    ),
    pair(
        "hoisted loss",
        """
        from torch import nn, optim

        model = nn.Linear(2, 1).cuda()
        opt = optim.SGD(model.parameters(), lr=0.1)
        for x, y in data:
            opt.zero_grad()
            nn.functional.mse_loss(model(x), y).backward(retain_graph=True)
            opt.step()
            steps += 1
        """,
        """
        from torch import nn, optim
        import torch

        model = nn.Linear(2, 1).cuda()
        opt = optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in data:
            opt.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward(retain_graph=True)
            scaler.step(opt)
            scaler.update()
            steps += 1
        """,
        introduced(
            "scaler",
            region=PLAIN_REGION,
            made='torch.amp.GradScaler("cuda")',
            imports_torch=True,
            hoisted=frozenset({"loss"}),
        ),
    ),
    pair(
        "unknown callers, guarded scheduler",
        """
        import torch

        def step(model, batch, optimizer, scheduler, target=None):
            model.train()
            loss, extra = model(batch), None
            if target is not None:
                loss = loss + penalty(target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss.item()
        """,
        """
        import torch

        def step(model, batch, optimizer, scheduler, target=None, scaler=None):
            if scaler is None:
                scaler = torch.amp.GradScaler("cuda", enabled=False)
            model.train()
            with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
                loss, extra = model(batch), None
                if target is not None:
                    loss = loss + penalty(target)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scale_before = scaler.get_scale()
            scaler.update()
            if scaler.get_scale() >= scale_before:
                scheduler.step()
            return loss.item()
        """,
        introduced(
            "scaler",
            constructors=frozenset({'torch.amp.GradScaler("cuda", enabled=False)'}),
            names=frozenset({"scale_before"}),
            values=frozenset({"scaler.get_scale()"}),
        ),
    ),
    pair(
        "sigmoid in float32",
        """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                hidden = torch.relu(self.first(x))
                return torch.sigmoid(self.last(hidden))

        def train(net, data, device):
            optimizer = torch.optim.RMSprop(net.parameters())
            criterion = torch.nn.BCELoss()
            for x, y in data:
                output = net(x.to(device))
                loss = criterion(output, y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(output.mean(), loss.item())
        """,
        """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                hidden = torch.relu(self.first(x))
                return torch.sigmoid(self.last(hidden).float())

        def train(net, data, device):
            optimizer = torch.optim.RMSprop(net.parameters())
            scaler = torch.amp.GradScaler("cuda", enabled=torch.device(device).type == "cuda")
            criterion = torch.nn.BCELoss()
            for x, y in data:
                with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
                    output = net(x.to(device))
                loss = criterion(output, y.to(device))
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                print(output.mean(), loss.item())
        """,
        introduced(
            "scaler",
            made='torch.amp.GradScaler("cuda", enabled=torch.device(device).type == "cuda")',
            float_casts=1,
        ),
    ),
    pair(
        "bfloat16",
        """
        import torch

        def main(args):
            model = make()
            optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
            for x, y in data:
                with torch.no_grad():
                    target = teacher(x)
                loss = (model(x) - target).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            evaluate(model)
        """,
        """
        import torch

        def main(args):
            model = make()
            optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
            use_amp = args.cuda
            for x, y in data:
                with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp):
                    target = teacher(x)
                with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp):
                    loss = (model(x) - target).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            evaluate(model)
        """,
        introduced(
            region='torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp)',
            names=frozenset({"use_amp"}),
            values=frozenset({"args.cuda"}),
        ),
    ),
    pair(
        "dtype auto",
        """
        import torch

        device = torch.device("cuda")
        model = make().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def epoch():
            for x, y in data:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        for number in range(3):
            epoch()
            validate(model)
        """,
        """
        import torch

        device = torch.device("cuda")
        model = make().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        use_amp = device.type == "cuda"
        amp_dtype = torch.bfloat16 if use_amp and torch.cuda.is_bf16_supported() else torch.float16
        scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)

        def epoch():
            for x, y in data:
                with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        for number in range(3):
            epoch()
            validate(model)
        """,
        introduced(
            "scaler",
            region='torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp)',
            made='torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)',
            names=frozenset({"use_amp", "amp_dtype"}),
            values=frozenset(
                {
                    'device.type == "cuda"',
                    (
                        "torch.bfloat16 if use_amp and torch.cuda.is_bf16_supported() else "
                        "torch.float16"
                    ),
                }
            ),
        ),
    ),
    pair(
        "older torch, rebuilt optimizer, several losses",
        """
        import torch
        from torch import autograd

        optimizer = None

        def rebuild(model):
            global optimizer
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(model, head, data):
            for x, y, z in data:
                optimizer.zero_grad()
                h = model(x)
                first = head(h, y)
                second = head(h, z)
                autograd.backward([first, second])
                optimizer.step()
                print(first.item(), second.item())

        rebuild(model)
        train(model, head, data)
        """,
        """
        import torch
        from torch import autograd

        optimizer = None

        def rebuild(model):
            global optimizer, scaler
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())

        def train(model, head, data):
            for x, y, z in data:
                optimizer.zero_grad()
                with torch.cuda.amp.autocast(enabled=scaler.is_enabled()):
                    h = model(x)
                    first = head(h, y)
                    second = head(h, z)
                autograd.backward(scaler.scale([first, second]))
                scaler.step(optimizer)
                scaler.update()
                print(first.item(), second.item())

        rebuild(model)
        train(model, head, data)
        """,
        introduced(
            "scaler",
            region="torch.cuda.amp.autocast(enabled=scaler.is_enabled())",
            made="torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())",
        ),
    ),
    pair(
        "class that is given the optimizer",
        """
        import torch

        class Runner:
            def __init__(self, model, optimizer):
                self.model = model
                self.optimizer = optimizer

            def step(self, x, y):
                self.optimizer.zero_grad()
                try:
                    loss = self.model(x, y)
                    loss.backward()
                except RuntimeError:
                    return None
                self.optimizer.step()
                return loss.item()

        def main():
            model = make().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            runner = Runner(model, optimizer)
            for x, y in data:
                runner.step(x, y)
        """,
        """
        import torch

        class Runner:
            def __init__(self, model, optimizer, scaler):
                self.model = model
                self.optimizer = optimizer
                self.scaler = scaler

            def step(self, x, y):
                self.optimizer.zero_grad()
                try:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = self.model(x, y)
                    self.scaler.scale(loss).backward()
                except RuntimeError:
                    return None
                self.scaler.step(self.optimizer)
                self.scaler.update()
                return loss.item()

        def main():
            model = make().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            runner = Runner(model, optimizer, scaler=scaler)
            for x, y in data:
                runner.step(x, y)
        """,
        introduced(
            "scaler", "self.scaler", region=PLAIN_REGION, made='torch.amp.GradScaler("cuda")'
        ),
    ),
    pair(
        "another loop has AMP already",
        """
        import torch

        def finetune(model, data, optimizer, scaler):
            for x, y in data:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        def pretrain(model, data):
            optimizer = torch.optim.Adam(model.parameters())
            for x in data:
                loss = model(x.cuda())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """,
        """
        import torch

        def finetune(model, data, optimizer, scaler):
            for x, y in data:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        def pretrain(model, data):
            optimizer = torch.optim.Adam(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x in data:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x.cuda())
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """,
        introduced("scaler", region=PLAIN_REGION, made='torch.amp.GradScaler("cuda")'),
    ),
]
