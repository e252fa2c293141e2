"""Where the objects of a program live, and who calls whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.generated.pieces import Lines, Names, Pieces, indented

OBJECTS = ("model", "model2", "teacher", "optimizer", "optimizer2", "criterion", "scheduler")


@dataclass
class Laid:
    """What a layout made of the pieces."""

    engine: list[Lines] = field(default_factory=list)
    """Functions and classes that may stand in another file."""
    definitions: list[Lines] = field(default_factory=list)
    """Functions and classes that stand in the main file."""
    module: Lines = field(default_factory=list)
    """Statements of the main file, before the definitions."""
    entry: Lines = field(default_factory=list)
    """Statements of the main file, in the end."""


def plain_names(pieces: Pieces, device: str) -> dict[str, str]:
    """Every object under its own name."""
    return {**{name: name for name in OBJECTS}, "device": device}


def prefixed(pieces: Pieces, prefix: str, device: str) -> dict[str, str]:
    """Every object as an attribute."""
    return {**{name: f"{prefix}{name}" for name in OBJECTS}, "device": device}


def parameters(pieces: Pieces, names: Names) -> list[str]:
    """What a function that loops is given."""
    given = list(pieces.objects)
    passed = pieces.device.named and pieces.spec["device_home"] == "parameter"
    return [*given, names["device"]] if passed else given


def signature(pieces: Pieces, name: str, given: Sequence[str], keyword: str = "def") -> Lines:
    """The head of a function, in the way that the text axis writes it."""
    text = pieces.spec["text"]
    typed = [_typed(one) for one in given] if text == "typed" else list(given)
    if text == "one_per_line" and len(given) > 1:
        return [f"{keyword} {name}(", *(f"        {one}," for one in typed), "):"]
    head = f"{keyword} {name}({', '.join(typed)}):"
    return ["@announced", head] if text == "decorated" and keyword == "def" else [head]


def _typed(name: str) -> str:
    kinds = {"model": "nn.Module", "optimizer": "torch.optim.Optimizer", "epoch": "int"}
    return f"{name}: {kinds[name]}" if name in kinds else name


def call(pieces: Pieces, name: str, given: Sequence[str]) -> Lines:
    """A call, in the way that the text axis writes it."""
    if pieces.spec["text"] == "one_per_line" and len(given) > 1:
        return [f"{name}(", *(f"    {one}," for one in given), ")"]
    return [f"{name}({', '.join(given)})"]


def local_device(pieces: Pieces) -> Lines:
    """In `main`: the device, where it travels as a parameter."""
    home = pieces.spec["device_home"]
    return pieces.device.bound(pieces.device.name) if home == "parameter" else []


# -- functions and modules


def module(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    return Laid(entry=[*local_device(pieces), *pieces.setup(names), *pieces.loop(names)])


def main(pieces: Pieces, device: str, keyword: str = "def") -> Laid:
    names = plain_names(pieces, device)
    body = [*local_device(pieces), *pieces.setup(names), *pieces.loop(names)]
    laid = Laid(definitions=[[f"{keyword} main():", *indented(body)]])
    laid.entry = ["asyncio.run(main())" if keyword == "async def" else "main()"]
    return laid


def async_main(pieces: Pieces, device: str) -> Laid:
    return main(pieces, device, "async def")


def global_read(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    train = [*signature(pieces, "train", []), *indented(pieces.loop(names))]
    setup = [*local_device(pieces), *pieces.setup(names)]
    return Laid(definitions=[setup, train], entry=["train()"])


def guard(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    train = [*signature(pieces, "train", []), *indented(pieces.loop(names))]
    return Laid(definitions=[train], entry=[*local_device(pieces), *pieces.setup(names), "train()"])


def _with_main(pieces: Pieces, names: Names, engine: list[Lines], calls: Lines) -> Laid:
    body = [*local_device(pieces), *pieces.setup(names), *calls]
    return Laid(engine, [["def main():", *indented(body)]], entry=["main()"])


def params(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = parameters(pieces, names)
    train = [*signature(pieces, "train", given), *indented(pieces.loop(names))]
    return _with_main(pieces, names, [train], call(pieces, "train", given))


def keyword_callers(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = parameters(pieces, names)
    head = signature(pieces, "train", [*given, "verbose=False", "tag=None"])
    train = [*head, *indented(pieces.loop(names))]
    calls = call(pieces, "train", [given[0], *(f"{one}={one}" for one in given[1:]), "tag='a'"])
    return _with_main(pieces, names, [train], calls)


def params_epoch(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = [*parameters(pieces, names), "epoch"]
    train = [*signature(pieces, "train_epoch", given), *indented(pieces.batch_loop(names))]
    calls = ["for epoch in range(2):", *indented(call(pieces, "train_epoch", given))]
    return _with_main(pieces, names, [train], [*calls, *indented(pieces.epoch_end(names))])


def params_chain(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = parameters(pieces, names)
    epoch = [*signature(pieces, "train_epoch", given), *indented(pieces.batch_loop(names))]
    calls = ["for epoch in range(2):", *indented(call(pieces, "train_epoch", given))]
    calls += indented(pieces.epoch_end(names))
    fit = [*signature(pieces, "fit", given), *indented(calls)]
    return _with_main(pieces, names, [epoch, fit], call(pieces, "fit", given))


def params_step(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = [*parameters(pieces, names), "x", "y", "i"]
    step = [*signature(pieces, "train_step", given), *indented(pieces.body(names))]
    calls = pieces.loop(names, call(pieces, "train_step", given))
    return _with_main(pieces, names, [step], calls)


def callback_argument(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = parameters(pieces, names)
    train = [*signature(pieces, "train", given), *indented(pieces.loop(names))]
    run = ["def run(function, *arguments):", "    return function(*arguments)"]
    return _with_main(pieces, names, [train, run], call(pieces, "run", ["train", *given]))


def optional_argument(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = [one for one in parameters(pieces, names) if one != "optimizer"]
    made = ["if optimizer is None:", *indented(pieces.optimizer("optimizer", "model"))]
    body = [*made, *pieces.loop(names)]
    train = [*signature(pieces, "train", [*given, "optimizer=None"]), *indented(body)]
    setup = pieces.setup(names)
    return Laid(
        [train],
        [
            [
                "def main():",
                *indented(
                    [
                        *local_device(pieces),
                        *setup,
                        *call(pieces, "train", [*given, "optimizer=optimizer"]),
                    ]
                ),
            ]
        ],
        entry=["main()"],
    )


def nested(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    step = ["def step(x, y, i):", *indented(pieces.body(names)), ""]
    calls = [*step, *pieces.loop(names, ["step(x, y, i)"])]
    return _with_main(pieces, names, [], calls)


def take_step(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    inner = ["def take_step():", "    optimizer.step()", ""]
    return _with_main(pieces, names, [], [*inner, *pieces.loop(names)])


def factory(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = [one for one in parameters(pieces, names) if one not in pieces.objects]
    made = ", ".join(pieces.objects)
    build = [
        *signature(pieces, "build", given),
        *indented(pieces.setup(names)),
        f"    return {made}",
    ]
    body = [*local_device(pieces), f"{made} = build({', '.join(given)})", *pieces.loop(names)]
    return Laid([build], [["def main():", *indented(body)]], entry=["main()"])


def returned_step(pieces: Pieces, device: str) -> Laid:
    names = plain_names(pieces, device)
    given = parameters(pieces, names)
    step = ["def step(x, y, i):", *indented(pieces.body(names)), "", "return step"]
    make = [*signature(pieces, "make_step", given), *indented(step)]
    calls = [
        "step = " + line if k == 0 else line
        for k, line in enumerate(call(pieces, "make_step", given))
    ]
    return _with_main(pieces, names, [make], [*calls, *pieces.loop(names, ["step(x, y, i)"])])


def dictionary(pieces: Pieces, device: str) -> Laid:
    names = {**{one: f'state["{one}"]' for one in OBJECTS}, "device": device}
    body = [*local_device(pieces), "state = {}", *pieces.setup(names), *pieces.loop(names)]
    return Laid(definitions=[["def main():", *indented(body)]], entry=["main()"])


def list_(pieces: Pieces, device: str) -> Laid:
    names = {**plain_names(pieces, device), "optimizer": "optimizers[0]"}
    setup = pieces.setup({**names, "optimizer": "first"})
    setup += ["optimizers = [first]"]
    body = [*local_device(pieces), *setup, *pieces.loop(names)]
    return Laid(definitions=[["def main():", *indented(body)]], entry=["main()"])


def namespace(pieces: Pieces, device: str) -> Laid:
    names = prefixed(pieces, "run.", device)
    body = [*local_device(pieces), "run = types.SimpleNamespace()"]
    body += [*pieces.setup(names), *pieces.loop(names)]
    return Laid(definitions=[["def main():", *indented(body)]], entry=["main()"])


# -- classes


def _device_lines(pieces: Pieces) -> Lines:
    """In `__init__`: the device as an attribute."""
    home, name = pieces.spec["device_home"], pieces.device.name
    if home == "parameter" and pieces.device.named:
        return [f"self.{name} = {name}"]
    return pieces.device.bound(f"self.{name}") if home == "self" else []


def _init(pieces: Pieces, body: Lines, given: Sequence[str] = ()) -> Lines:
    device = [pieces.device.name] if _is_parameter(pieces) else []
    head = signature(pieces, "__init__", ["self", *given, *device])
    head = [line for line in head if line != "@announced"]
    return [*head, *indented(body or ["pass"])]


def _is_parameter(pieces: Pieces) -> bool:
    return pieces.device.named and pieces.spec["device_home"] == "parameter"


def _base(pieces: Pieces) -> tuple[list[Lines], str, Lines, Lines]:
    """A base class that makes the device: the class, the heir's bases, and what stands first and
    last in the heir's `__init__`.
    """
    home = pieces.spec["device_home"]
    if home not in ("base_first", "base_last") or not pieces.device.named:
        return [], "", [], []
    name = f"self.{pieces.device.name}"
    body = pieces.device.bound(name)
    if home == "base_last":
        moved = Pieces({**pieces.spec, "move": "call"}).device.model_lines("self.model", name)
        body += moved if "conditional" not in pieces.device.form else []
    base = ["class Base:", "    def __init__(self):", *indented(body, 2)]
    call_ = ["super().__init__()"]
    return (
        [base],
        "(Base)",
        call_ if home == "base_first" else [],
        call_ if home == "base_last" else [],
    )


def _unmoved(pieces: Pieces) -> Pieces:
    """Where the base class moves the model, the heir does not."""
    if pieces.spec["device_home"] != "base_last":
        return pieces
    return _Unmoved(pieces.spec)


class _Unmoved(Pieces):
    def setup(self, names: Names) -> Lines:
        still = {**self.spec, "device_form": "none", "device_home": "global"}
        return Pieces(still).setup(names)


def _trainer(pieces: Pieces, methods: Sequence[Lines], setup: Lines | None = None) -> Laid:
    base, bases, first, last = _base(pieces)
    names = _self_names(pieces)
    made = _unmoved(pieces).setup(names) if setup is None else setup
    body = [*first, *_device_lines(pieces), *made, *last]
    lines = [f"class Trainer{bases}:", *indented(_init(pieces, body))]
    for method in methods:
        lines += ["", *indented(method)]
    made_with = [pieces.device.name] if _is_parameter(pieces) else []
    entry = [*local_device(pieces), f"trainer = Trainer({', '.join(made_with)})", "trainer.fit()"]
    return Laid(base, [lines], entry=entry)


def _self_names(pieces: Pieces) -> dict[str, str]:
    own = pieces.spec["device_home"] in ("self", "base_first", "base_last", "parameter")
    device = f"self.{pieces.device.name}" if own else device_at_module(pieces)
    return prefixed(pieces, "self.", device)


def device_at_module(pieces: Pieces) -> str:
    """The expression of the device in any function of the main file."""
    name = pieces.device.name
    return {"args": f"args.{name}", "module_attribute": f"config.{name}"}.get(
        pieces.spec["device_home"], name
    )


def self_(pieces: Pieces, device: str) -> Laid:
    fit = [*signature(pieces, "fit", ["self"]), *indented(pieces.loop(_self_names(pieces)))]
    return _trainer(pieces, [fit])


def self_setup(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    build = ["def build(self):", *indented(_unmoved(pieces).setup(names))]
    fit = [*signature(pieces, "fit", ["self"]), *indented(pieces.loop(names))]
    return _trainer(pieces, [build, fit], ["self.build()"])


def self_step(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    step = [
        *signature(pieces, "train_step", ["self", "x", "y", "i"]),
        *indented(pieces.body(names)),
    ]
    fit = ["def fit(self):", *indented(pieces.loop(names, ["self.train_step(x, y, i)"]))]
    return _trainer(pieces, [step, fit])


def self_methods(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    body = pieces.body(names)
    at = next(k for k, line in enumerate(body) if line == "loss.backward()")
    zero = [line for line in body[:at] if "zero_grad" in line]
    forward = [line for line in body[:at] if "zero_grad" not in line]
    rest = [line for line in body[at + 1 :] if "history" not in line and "print(f" not in line]
    compute = ["def compute(self, x, y):", *indented([*forward, "return loss"])]
    backward = ["def backward(self, loss):", *indented([*zero, "loss.backward()"])]
    update = ["def update(self, i, x):", *indented(rest)]
    steps = ["loss = self.compute(x, y)", "self.backward(loss)", "self.update(i, x)"]
    fit = ["def fit(self):", *indented(pieces.loop(names, [*steps, "history.append(loss.item())"]))]
    return _trainer(pieces, [compute, backward, update, fit])


def property_(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    laid_names = {**names, "optimizer": "self._optimizer", "model": "self._model"}
    optimizer = ["@property", "def optimizer(self):", "    return self._optimizer"]
    model = ["@property", "def model(self):", "    return self._model"]
    fit = ["def fit(self):", *indented(pieces.loop(names))]
    return _trainer(pieces, [optimizer, model, fit], _unmoved(pieces).setup(laid_names))


def base_setup(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    body = [*_device_lines(pieces), *pieces.setup(names)]
    base = ["class Foundation:", *indented(_init(pieces, body))]
    fit = ["def fit(self):", *indented(pieces.loop(names), 1)]
    trainer = ["class Trainer(Foundation):", *indented(fit)]
    made_with = [pieces.device.name] if _is_parameter(pieces) else []
    entry = [*local_device(pieces), f"Trainer({', '.join(made_with)}).fit()"]
    return Laid([base], [trainer], entry=entry)


def base_loop(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    fit = ["def fit(self):", *indented(pieces.loop(names))]
    base = ["class Foundation:", *indented(fit)]
    body = [*_device_lines(pieces), *pieces.setup(names)]
    trainer = ["class Trainer(Foundation):", *indented(_init(pieces, body))]
    made_with = [pieces.device.name] if _is_parameter(pieces) else []
    entry = [*local_device(pieces), f"Trainer({', '.join(made_with)}).fit()"]
    return Laid([base], [trainer], entry=entry)


def agent(pieces: Pieces, device: str) -> Laid:
    names = _self_names(pieces)
    inner = [
        "class Agent:",
        *indented(_init(pieces, [*_device_lines(pieces), *pieces.setup(names)])),
    ]
    loop_names = {
        **prefixed(pieces, "self.agent.", names["device"]),
    }
    if names["device"].startswith("self."):
        loop_names["device"] = names["device"].replace("self.", "self.agent.", 1)
    fit = ["def fit(self):", *indented(pieces.loop(loop_names))]
    trainer = [
        "class Trainer:",
        "    def __init__(self, agent):",
        "        self.agent = agent",
        "",
        *indented(fit),
    ]
    made_with = [pieces.device.name] if _is_parameter(pieces) else []
    entry = [*local_device(pieces), f"Trainer(Agent({', '.join(made_with)})).fit()"]
    return Laid([inner], [trainer], entry=entry)


def agent_base(pieces: Pieces, device: str) -> Laid:
    """The loop of a base class steps the optimizer of what its heirs set."""
    laid = agent(pieces, device)
    loop = laid.definitions[0]
    at = loop.index("    def __init__(self, agent):")
    fit = loop[at + 3 :]
    runner = ["class Runner:", *fit]
    heir = [
        "class Trainer(Runner):",
        "    def __init__(self, agent):",
        "        self.agent = agent",
    ]
    other = [
        "class Other(Runner):",
        "    def __init__(self, agent):",
        "        self.agent = agent",
        "        self.extra = 1",
    ]
    return Laid([*laid.engine, runner], [heir, other], entry=laid.entry)


Layout = Callable[[Pieces, str], Laid]
LAYOUTS: dict[str, Layout] = {
    "module": module,
    "main": main,
    "global_read": global_read,
    "guard": guard,
    "params": params,
    "params_epoch": params_epoch,
    "params_chain": params_chain,
    "params_step": params_step,
    "keyword_callers": keyword_callers,
    "callback_argument": callback_argument,
    "self": self_,
    "self_setup": self_setup,
    "self_step": self_step,
    "self_methods": self_methods,
    "base_setup": base_setup,
    "base_loop": base_loop,
    "nested": nested,
    "take_step": take_step,
    "agent": agent,
    "agent_base": agent_base,
    "factory": factory,
    "dictionary": dictionary,
    "list": list_,
    "namespace": namespace,
    "property": property_,
    "returned_step": returned_step,
    "optional_argument": optional_argument,
    "async_main": async_main,
}
CLASSES = {
    "self",
    "self_setup",
    "self_step",
    "self_methods",
    "base_setup",
    "base_loop",
    "agent",
    "agent_base",
    "property",
}
WITH_BASE = {"self", "self_setup", "self_step", "self_methods", "property"}
"""Layouts whose class may get its device from a base class."""
WITH_ENGINE = {
    "params",
    "params_epoch",
    "params_chain",
    "params_step",
    "keyword_callers",
    "callback_argument",
    "factory",
    "returned_step",
    "optional_argument",
    "base_setup",
    "base_loop",
    "agent",
    "agent_base",
} | WITH_BASE
"""Layouts of which a part may stand in a file of its own."""
STEPWISE = {"params_step", "nested", "self_step", "self_methods", "returned_step"}
"""Layouts whose iteration is a function, where `continue` has no place."""
