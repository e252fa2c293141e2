"""Programs with AMP by hand: what is taken out of them, and what is compared."""

import ast
import textwrap

import pytest

from tests.bench.checkouts import Checkout
from tests.bench.expert_events import events
from tests.bench.expert_plain import names_of, plain
from tests.bench.experts import compared


def erased(text: str) -> str:
    text = textwrap.dedent(text)
    return plain(text, names_of([ast.parse(text)]))


@pytest.mark.parametrize(
    ("theirs", "without"),
    [
        (
            """
            scaler = torch.cuda.amp.GradScaler(enabled=args.amp, growth_interval=100)
            with torch.cuda.amp.autocast(args.amp):
                loss = crit(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            clip_grad_norm_(model.parameters(), 1)
            scaler.step(opt)
            scaler.update()
            """,
            """
            loss = crit(model(x), y)
            loss.backward()
            clip_grad_norm_(model.parameters(), 1)
            opt.step()
            """,
        ),
        (
            """
            ctx = nullcontext() if device == 'cpu' else torch.autocast(device, dtype=half)
            with ctx:
                loss = model(x)
            """,
            "loss = model(x)",
        ),
        (
            """
            def fit(opt, scaler=None, log=True):
                if scaler is None:
                    loss.backward()
                    opt.step()
                else:
                    scaler.scale(loss).backward()
                    scaler.step(opt)
                    scaler.update()
            scaler = GradScaler() if args.amp else None
            fit(opt, scaler)
            """,
            """
            def fit(opt, log=True):
                loss.backward()
                opt.step()
            fit(opt)
            """,
        ),
        (
            """
            from torch.cuda.amp import GradScaler, autocast
            def make():
                scaler = GradScaler()
                return opt, scaler
            opt, scaler = make()
            save({'opt': opt.state_dict(), 'amp': scaler.state_dict()})
            if 'amp' in saved:
                scaler.load_state_dict(saved['amp'])
            """,
            """
            def make():
                return (opt,)
            (opt,) = make()
            save({'opt': opt.state_dict()})
            """,
        ),
        (
            "with torch.autocast('cuda') and (a() if train else b()):\n    loss = model(x)",
            "with (a() if train else b()):\n    loss = model(x)",
        ),
        (
            """
            scaler = GradScaler()
            scaler.unscale_(opt)
            if is_distributed():
                for one in scaler._found_inf_per_device(opt).values():
                    all_reduce(one)
            scaler.step(opt)
            """,
            "opt.step()",
        ),
        (
            """
            self.rate: float
            self.scaler: GradScaler
            if self.amp:
                self.scaler = GradScaler()
                self.scaler.scale(loss).backward()
            else:
                loss.backward()
            """,
            "self.rate: float\nloss.backward()",
        ),
        (
            """
            if is_apex_available():
                from apex import amp
            scaler = GradScaler()
            if train:
                opt = make(model)
                if not native and apex:
                    model, opt = amp.initialize(model, opt)
            if native:
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                clip_grad_norm_(model.parameters(), 1)
            elif apex:
                with amp.scale_loss(loss, opt) as scaled_loss:
                    scaled_loss.backward()
                clip_grad_norm_(amp.master_params(opt), 1)
            else:
                loss.backward()
                clip_grad_norm_(model.parameters(), 1)
            scaler.step(opt)
            """,
            """
            if train:
                opt = make(model)
            loss.backward()
            clip_grad_norm_(model.parameters(), 1)
            opt.step()
            """,
        ),
        (
            "from apex import amp\nmodel, opt = amp.initialize(model, opt)",
            "from apex import amp\nmodel, opt = amp.initialize(model, opt)",
        ),
        (
            "scaler = StandardScaler()\nx = scaler.fit(x)",
            "scaler = StandardScaler()\nx = scaler.fit(x)",
        ),
        (
            "if test:\n    with no_grad():\n        y = f(x)",
            "if test:\n    with no_grad():\n        y = f(x)",
        ),
        (
            """
            scaler = GradScaler()
            if cfg.amp == 'none':
                loss.backward()
            elif cfg.amp == 'torch':
                scaler.scale(loss).backward()
            if first:
                other.backward()
            elif cfg.amp == 'torch':
                scaler.scale(loss).backward()
            """,
            """
            loss.backward()
            if cfg.amp == 'torch':
                loss.backward()
            """,
        ),
    ],
)
def test_what_is_left_is_the_plain_program(theirs: str, without: str) -> None:
    assert ast.dump(ast.parse(erased(theirs))) == ast.dump(ast.parse(textwrap.dedent(without)))


def test_wrappers_keep_their_steps() -> None:
    text = """
    class Scaler:
        def __init__(self):
            self._scaler = GradScaler()
        def __call__(self, loss, opt):
            self._scaler.scale(loss).backward()
            self._scaler.step(opt)
            self._scaler.update()
    """
    assert "loss.backward()\n        opt.step()" in erased(text)
    assert "_scaler" not in erased(text)


def test_what_a_step_gives_back_is_kept() -> None:
    text = "scaler = GradScaler()\nscaler.scale(loss).backward()\nnorm = scaler.step(opt)"
    assert "loss.backward()\nnorm = opt.step()" in erased(text)


def test_a_step_by_keyword_is_one() -> None:
    text = "scaler = GradScaler()\nscaler.scale(loss).backward()\nscaler.step(optimizer=opt)"
    assert "loss.backward()\nopt.step()" in erased(text)
    seen = events(text, names_of([ast.parse(text)]))
    assert [amp for event, amp in seen.amp.items() if event.text == "opt"] == [True]


def test_a_loss_that_is_scaled_under_a_name_is_scaled() -> None:
    text = "scaler = GradScaler()\nif scaler:\n    loss = scaler.scale(loss)\nloss.backward()"
    seen = events(text, names_of([ast.parse(text)]))
    assert [amp for event, amp in seen.amp.items() if event.kind == "backward"] == [True]


def test_unscaled_clips_are_told_from_scaled_ones() -> None:
    text = "scaler = GradScaler()\n" + textwrap.dedent(
        """
        scaler.scale(loss).backward()
        clip_grad_norm_(p, 1)
        scaler.unscale_(opt)
        clip_grad_norm_(p, 1)
        """
    )
    seen = events(text, names_of([ast.parse(text)]))
    assert [amp for event, amp in seen.amp.items() if event.kind == "clip"] == [False, True]


PROGRAM = """\
import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in data:
    x, y = x.cuda(), y.cuda()
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    UNSCALE
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
"""


def test_a_loop_as_we_write_it_agrees_in_all(tmp_path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("UNSCALE", "scaler.unscale_(opt)"))
    found = compared(Checkout("a/b", "", tmp_path))
    assert found.differences == []
    assert found.agreed == found.total == {"backward": 1, "step": 1, "clip": 1, "autocast": 1}


def test_a_clip_of_scaled_gradients_is_a_difference(tmp_path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("UNSCALE", "pass"))
    found = compared(Checkout("a/b", "", tmp_path))
    assert found.differences == ["- a/b train.py:12 <module>: clip `clip_grad_norm_` ours only"]


def test_a_clip_beside_an_unscaled_one_is_none_of_amp() -> None:
    text = """
    scaler.scale(loss).backward()
    if fp16:
        scaler.unscale_(opt)
        clip_grad_norm_(model.parameters(), 1)
    else:
        clip_grad_norm_(model.parameters(), 1)
    """
    text = "scaler = GradScaler()\n" + textwrap.dedent(text)
    seen = events(text, names_of([ast.parse(text)])).amp
    assert [amp for event, amp in seen.items() if event.kind == "clip"] == [True, False]
