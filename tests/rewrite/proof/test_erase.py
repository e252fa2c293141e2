"""Each construct goes, and what only looks like it stays."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from amp_migrate.rewrite.proof import Introduced, erase

FACTS = Introduced(
    scalers=frozenset({"scaler", "self.scaler", "trainer.scaler"}),
    names=frozenset({"use_amp", "amp_dtype", "scale_before", "self.use_amp"}),
    savers=frozenset({"files.save"}),
)


def erased(source: str, facts: Introduced = FACTS) -> str:
    return ast.unparse(erase(ast.parse(dedent(source)), facts))


def plain(source: str) -> str:
    return ast.unparse(ast.parse(dedent(source)))


CONSTRUCTS = [
    # regions
    ("with torch.autocast('cuda', dtype=torch.float16):\n    a()\n    b()", "a()\nb()"),
    (("with torch.autocast(device_type='cuda', dtype=torch.bfloat16, enabled=use_amp):\n    "
"a()"), "a()"),
    (("with torch.autocast(device.type, dtype=torch.float16, enabled=scaler.is_enabled()):\n    "
"a()"), "a()"),
    ("with torch.autocast('cuda', dtype=amp_dtype, enabled=use_amp):\n    a()", "a()"),
    ("with torch.autocast('cuda', enabled=False):\n    a()", "a()"),
    ("with torch.amp.autocast('cuda'):\n    a()", "a()"),
    ("with torch.cuda.amp.autocast():\n    a()", "a()"),
    ("with torch.cuda.amp.autocast(enabled=scaler.is_enabled()):\n    a()", "a()"),
    ("with torch.cuda.amp.autocast(dtype=torch.bfloat16, enabled=args.cuda):\n    a()", "a()"),
    ("with autocast('cuda'):\n    a()", "a()"),
    (("with torch.autocast('cuda', enabled=torch.device(args.device).type == 'cuda'):\n    "
"a()"), "a()"),
    ("with torch.autocast('cuda', enabled=next(model.parameters()).is_cuda):\n    a()", "a()"),
    ("with torch.no_grad(), torch.autocast('cuda'):\n    a()", "with torch.no_grad():\n    a()"),
    ("with open(x) as f, torch.autocast('cuda'), y:\n    a()", "with open(x) as f, y:\n    a()"),
    (("with torch.autocast('cuda'):\n    with torch.autocast('cuda', enabled=False):\n        "
"a()"), "a()"),
    ("with torch.autocast('cuda'):\n    if x:\n        break_()", "if x:\n    break_()"),
    ("if x:\n    with torch.autocast('cuda'):\n        a()", "if x:\n    a()"),
    (("async def f():\n    with torch.autocast('cuda'):\n        await "
"a()"), "async def f():\n    await a()"),
    # the cycle
    ("scaler.scale(loss).backward()", "loss.backward()"),
    ("self.scaler.scale(loss).backward(retain_graph=True)", "loss.backward(retain_graph=True)"),
    ("scaler.scale(loss.mean()).backward()", "loss.mean().backward()"),
    ("scaler.scale(a + b).backward()", "(a + b).backward()"),
    ("torch.autograd.backward(scaler.scale([a, b]))", "torch.autograd.backward([a, b])"),
    ("autograd.backward(scaler.scale(a), retain_graph=True)", ("autograd.backward(a, "
"retain_graph=True)")),
    ("scaler.step(optimizer)", "optimizer.step()"),
    ("self.scaler.step(self.opts[i])", "self.opts[i].step()"),
    ("result = scaler.step(optimizer, 1, foo=2)", "result = optimizer.step(1, foo=2)"),
    ("a()\nscaler.unscale_(optimizer)\nb()", "a()\nb()"),
    ("a()\nfor o in self.all:\n    scaler.unscale_(o)\nb()", "a()\nb()"),
    ("if x:\n    scaler.unscale_(opt)\n    clip()", "if x:\n    clip()"),
    ("a()\nif x > 0:\n    scaler.update()", "a()"),
    ("a(); scaler.step(o); scaler.update()", "a(); o.step()"),
    # the scaler's life
    ("a()\nscaler = torch.amp.GradScaler('cuda')", "a()"),
    (("a()\nself.scaler = torch.amp.GradScaler('cuda', enabled=use_amp and amp_dtype is "
"torch.float16)"), "a()"),
    ("a()\nscaler = torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())", "a()"),
    ("a()\nself.scaler = scaler", "a()"),
    ("a()\nuse_amp = args.cuda and not args.cpu", "a()"),
    ("a()\nself.use_amp = device.type != 'cpu'", "a()"),
    ("a()\namp_dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16", "a()"),
    ("def f(a, scaler): b()", "def f(a): b()"),
    ("def f(a, b=1, scaler=None): c()", "def f(a, b=1): c()"),
    ("def f(a, b=1, *, scaler): c()", "def f(a, b=1): c()"),
    ("def f(a, *args, scaler, other): c()", "def f(a, *args, other): c()"),
    ("def f(a, *, scaler=None, **more): c()", "def f(a, **more): c()"),
    ("async def f(a, scaler, use_amp): c()", "async def f(a): c()"),
    ("a()\nif scaler is None:\n    scaler = torch.amp.GradScaler('cuda', enabled=False)", "a()"),
    ("f(a, scaler=scaler)", "f(a)"),
    ("self.f(a, scaler=self.scaler, use_amp=use_amp, **more)", "self.f(a, **more)"),
    ("def f():\n    global optimizer, scaler\n    a()", "def f():\n    global optimizer\n    a()"),
    ("def f():\n    nonlocal scaler\n    a()", "def f():\n    a()"),
    # checkpoints
    ("save({'a': 1, 'scaler': scaler.state_dict()})", "save({'a': 1})"),
    ("save({**rest, 'scaler': self.scaler.state_dict(), 'b': 2})", "save({**rest, 'b': 2})"),
    ("save(dict(a=1, scaler=scaler.state_dict()))", "save(dict(a=1))"),
    ("a()\nstate['scaler'] = trainer.scaler.state_dict()", "a()"),
    ("a()\nif state.get('scaler'):\n    scaler.load_state_dict(state['scaler'])", "a()"),
    (("a()\nif self.ckpt.get('scaler'):\n    "
"self.scaler.load_state_dict(self.ckpt['scaler'])"), "a()"),
    (("a()\nif scaler is not None and state.get('scaler'):\n    "
"scaler.load_state_dict(state['scaler'])"), "a()"),
    ("save({'a': 1, 'scaler': scaler.state_dict() if scaler is not None else None})",
     "save({'a': 1})"),
    ("files.save(a, state=b(), scaler=scaler.state_dict())", "files.save(a, state=b())"),
    # guarded scheduler
    (("a()\nscale_before = scaler.get_scale()\nif scaler.get_scale() >= scale_before:\n    "
"scheduler.step()"),
     "a()\nscheduler.step()"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "wanted"), CONSTRUCTS)
def test_construct_goes(source: str, wanted: str) -> None:
    assert erased(source) == plain(wanted)


NEAR_MISSES = [
    "with torch.autocast('cuda') as region:\n    a()",
    "with torch.autocast('cuda', True):\n    a()",
    "with torch.autocast('cuda:0'):\n    a()",
    "with torch.autocast(torch.device('cuda')):\n    a()",
    "with torch.autocast('cuda', dtype=torch.float32):\n    a()",
    "with torch.autocast('cuda', enabled=decide()):\n    a()",
    "with torch.autocast('cuda', enabled=(flag := True)):\n    a()",
    "with torch.cuda.amp.autocast(True):\n    a()",
    "with torch.cuda.amp.autocast('cuda'):\n    a()",
    "with accelerator.autocast():\n    a()",
    "with torch.autocast:\n    a()",
    "with self.autocast:\n    a()",
    "async def f():\n    async with torch.autocast('cuda'):\n        a()",
    "other.scale(loss).backward()",
    "print(scaler.scale(loss))",
    "loss = scaler.scale(loss)",
    "scaler.scale(loss, 2).backward()",
    "scaler.scale(loss).forward()",
    "backward(scaler.scale(loss))",
    "grad_scaler.step(optimizer)",
    "scaler.step()",
    "scaler.update(2.0)",
    "x = scaler.update()",
    "scaler.unscale_(make())",
    "scaler.unscale_(a, b)",
    "other.unscale_(optimizer)",
    "scaler = StandardScaler()",
    "scaler = torch.amp.GradScaler(2.0 ** 12)",
    "scaler = torch.amp.GradScaler('cuda', 2.0 ** 12)",
    "scaler = torch.amp.GradScaler('cuda', growth_interval=1)",
    "scaler = torch.amp.GradScaler('cuda', enabled=False)",
    "scaler, x = (torch.amp.GradScaler('cuda'), 1)",
    "grad_scaler = torch.amp.GradScaler('cuda')",
    "use_amp = decide()",
    "if scaler is not None:\n    scaler = torch.amp.GradScaler('cuda', enabled=False)",
    "if other is None:\n    scaler = torch.amp.GradScaler('cuda', enabled=False)",
    "def f(scaler, a):\n    b()",
    "def f(a, scaler=1):\n    b()",
    "def f(a, scaler, *args):\n    b()",
    "def f(a, *scaler):\n    b()",
    "def f(a, scaler: object):\n    b()",
    "f = lambda scaler: a",
    "f(scaler=StandardScaler())",
    "f(scaler)",
    "f(other=scaler)",
    "save({'b': scaler.state_dict()})",
    "save({'scaler': other.state_dict()})",
    "save({'scaler': scaler.state_dict})",
    "save(f(scaler=scaler.state_dict()))",
    "if state.get('scaler'):\n    other.load_state_dict(state['scaler'])",
    "if state.get('scaler'):\n    scaler.load_state_dict(other['scaler'])",
    "if state.get('scaler', 1):\n    scaler.load_state_dict(state['scaler'])",
    "if other is not None and state.get('scaler'):\n    scaler.load_state_dict(state['scaler'])",
    "if scaler is None and state.get('scaler'):\n    scaler.load_state_dict(state['scaler'])",
    "if scaler is not None or state.get('scaler'):\n    scaler.load_state_dict(state['scaler'])",
    "save({'scaler': scaler.state_dict() if scaler is not None else {}})",
    "save({'scaler': scaler.state_dict() if other is not None else None})",
    "if 'scaler' in state:\n    scaler.load_state_dict(state['scaler'])",
    "if state.get('scaler'):\n    scaler.load_state_dict(state['scaler'])\nelse:\n    a()",
    "if read().get('scaler'):\n    scaler.load_state_dict(read()['scaler'])",
    "if scaler.get_scale() > scale_before:\n    scheduler.step()",
    "if scaler.get_scale() >= other:\n    scheduler.step()",
    "if scaler.get_scale() >= scale_before:\n    scheduler.step()\nelse:\n    a()",
]


@pytest.mark.parametrize("source", NEAR_MISSES)
def test_near_miss_stays(source: str) -> None:
    assert erased(source) == plain(source)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("if decide():\n    scaler.update()", "if decide():\n    pass"),
        ("if x:\n    scaler.update()\nelse:\n    a()", "if x:\n    pass\nelse:\n    a()"),
        ("if x:\n    scaler = torch.amp.GradScaler('cuda')", "if x:\n    pass"),
        ("for x in y:\n    scaler.update()", "for x in y:\n    pass"),
        ("for x in y:\n    scaler.unscale_(o)", "for x in y:\n    pass"),
        ("for x in y():\n    scaler.unscale_(x)", "for x in y():\n    pass"),
        ("while x:\n    scaler.unscale_(o)", "while x:\n    pass"),
        ("def f():\n    scaler.update()", "def f():\n    pass"),
        ("try:\n    scaler.update()\nfinally:\n    a()", "try:\n    pass\nfinally:\n    a()"),
    ],
)
def test_block_that_held_only_amp_stays_as_a_difference(source: str, wanted: str) -> None:
    assert erased(source) == plain(wanted)


@pytest.mark.parametrize(
    ("source", "wanted", "name"),
    [
        ("from torch import nn\nimport torch\na()", "from torch import nn\na()", "torch"),
        ("import torch as th\nimport torch\na()", "import torch\na()", "th"),
        (
            "try:\n    import torch\n    a()\nexcept E:\n    b()",
            "try:\n    a()\nexcept E:\n    b()",
            "torch",
        ),
        ("import torch\nimport torch\na()", "import torch\na()", "torch"),
        ("import torch.nn\na()", "import torch.nn\na()", "torch"),
        ("import torch\n'text'\na()", "import torch\n'text'\na()", "torch"),
        ("def f():\n    import torch", "def f():\n    import torch", "torch"),
    ],
)
def test_added_import_goes_once(source: str, wanted: str, name: str) -> None:
    assert erased(source, Introduced(imports_torch=True, torch=name)) == plain(wanted)


def test_import_stays_unless_declared() -> None:
    assert erased("import torch") == "import torch"


@pytest.mark.parametrize(
    "source", ["with torch.autocast('cuda'):\n    a()", "scaler = torch.amp.GradScaler('cuda')"]
)
def test_only_declared_sources_go(source: str) -> None:
    facts = Introduced(
        scalers=frozenset({"scaler"}),
        regions=frozenset({"torch.autocast('cuda', dtype=torch.float16)"}),
        constructors=frozenset({"torch.amp.GradScaler('cuda', enabled=on)"}),
    )
    assert erased(source, facts) == plain(source)


def test_only_declared_values_go() -> None:
    facts = Introduced(names=frozenset({"use_amp"}), values=frozenset({"args.cuda"}))
    assert erased("use_amp = args.cuda\nuse_amp = args.cpu", facts) == "use_amp = args.cpu"
