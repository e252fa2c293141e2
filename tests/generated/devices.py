"""How a program comes to its device, and what it moves there."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.axes import Spec

_CONDITIONS = {
    "available": "torch.cuda.is_available()",
    "arg_device": 'args.device != "cpu"',
    "arg_cpu": "torch.cuda.is_available() and not args.cpu",
    "arg_no_cuda": "not args.no_cuda and torch.cuda.is_available()",
    "environment": 'os.environ.get("ONLY_CPU") is None and torch.cuda.is_available()',
    "config": "torch.cuda.is_available()",
    "if_statement": "torch.cuda.is_available()",
    "loop": "torch.cuda.is_available()",
}
_ARGUMENTS = {
    "arg_device": 'parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")',
    "arg_cpu": 'parser.add_argument("--cpu", action="store_true")',
    "arg_no_cuda": 'parser.add_argument("--no-cuda", action="store_true", default=False)',
}
_CPU_FLAGS = {
    "arg_device": ("--device", "cpu"),
    "arg_cpu": ("--cpu",),
    "arg_no_cuda": ("--no-cuda",),
}
FLAGS = ("flag", "flag_conditional_expression")
FIXED = ("unconditional", "unconditional_to", "none")
"""Forms without a name for the device."""
_ALWAYS_CPU = ("none", "cpu_object", "cpu_string")
_AWARE = {
    "mps": '"cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"',
    "xpu": '"xpu" if torch.xpu.is_available() else "cuda" if torch.cuda.is_available() else "cpu"',
    "accelerator": 'torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"',
}


@dataclass(frozen=True)
class Device:
    """The device's code in one program."""

    spec: Spec

    @property
    def form(self) -> str:
        return self.spec["device_form"]

    @property
    def source(self) -> str:
        return self.spec["device_source"]

    @property
    def named(self) -> bool:
        """Whether a name holds the device or the flag."""
        return self.form not in FIXED

    @property
    def name(self) -> str:
        """The name that holds it."""
        plain = "use_cuda" if self.form in FLAGS else "device"
        return plain.upper() if self.spec["device_home"] == "upper" else plain

    @property
    def cpu_arguments(self) -> tuple[str, ...]:
        """Arguments that keep the program on the CPU."""
        return _CPU_FLAGS.get(self.source, ()) if self._asks else ()

    @property
    def _asks(self) -> bool:
        return self.named and self.form not in (*_ALWAYS_CPU, *_AWARE)

    def arguments(self) -> list[str]:
        """Lines that add to the parser."""
        return [_ARGUMENTS[self.source]] if self._asks and self.source in _ARGUMENTS else []

    def expression(self) -> str:
        """The value of the name."""
        if self.form in FLAGS:
            return _CONDITIONS[self.source]
        if self.form.startswith("cpu_"):
            return 'torch.device("cpu")' if self.form == "cpu_object" else '"cpu"'
        if self.form in _AWARE:
            return f"torch.device({_AWARE[self.form]})"
        text = self._text()
        return text if self.form == "string" else f"torch.device({text})"

    def _text(self) -> str:
        if self.source == "arg_device":
            return "args.device"
        if self.source == "config":
            return 'CONFIG["device"]'
        cuda = "cuda:0" if self.form == "index" else "cuda"
        return f'"{cuda}" if {_CONDITIONS[self.source]} else "cpu"'

    def module_lines(self) -> list[str]:
        """What has to stand at the top of the module that makes the device."""
        lines = []
        if self._asks and self.source == "config" and self.form not in FLAGS:
            lines += [
                'CONFIG = {"device": "cuda" if torch.cuda.is_available() else "cpu", "lr": 0.05}'
            ]
        return lines

    def bound(self, target: str) -> list[str]:
        """Statements that bind the device to `target`."""
        if not self.named:
            return []
        if self._asks and self.source == "if_statement":
            return self._by_statement(target)
        if self._asks and self.source == "loop" and self.form in ("object", "string"):
            return self._by_loop(target)
        return [f"{target} = {self.expression()}"]

    def _by_statement(self, target: str) -> list[str]:
        values = ("True", "False") if self.form in FLAGS else ('"cuda"', '"cpu"')
        if self.form not in (*FLAGS, "string"):
            values = ('torch.device("cuda")', 'torch.device("cpu")')
        return [
            "if torch.cuda.is_available():",
            f"    {target} = {values[0]}",
            "else:",
            f"    {target} = {values[1]}",
        ]

    def _by_loop(self, target: str) -> list[str]:
        made = "candidate" if self.form == "string" else "torch.device(candidate)"
        return [
            'for candidate in ["cpu", "cuda"]:',
            '    if candidate == "cpu" or torch.cuda.is_available():',
            f"        {target} = {made}",
        ]

    def model_lines(self, model: str, device: str) -> list[str]:
        """Statements that move a model that exists."""
        if self.form == "none":
            return []
        if self.form == "flag":
            return [f"if {device}:", f"    {model}.cuda()"]
        if self.form == "flag_conditional_expression":
            return [f"{model} = {model}.cuda() if {device} else {model}"]
        if self.form == "unconditional":
            return [f"{model}.cuda()"]
        target = '"cuda"' if self.form == "unconditional_to" else device
        assign = self.spec["move"] != "call"
        return [f"{model} = {model}.to({target})" if assign else f"{model}.to({target})"]

    def made(self, model: str, expression: str, device: str) -> list[str]:
        """A model made and moved."""
        inline = self.spec["move"] == "inline" and self.form not in (*FLAGS, "none")
        if not inline:
            return [f"{model} = {expression}", *self.model_lines(model, device)]
        if self.form == "unconditional":
            return [f"{model} = {expression}.cuda()"]
        target = '"cuda"' if self.form == "unconditional_to" else device
        return [f"{model} = {expression}.to({target})"]

    def batch_lines(self, device: str, names: tuple[str, ...] = ("x", "y")) -> list[str]:
        """Statements that move a batch."""
        if self.form == "none":
            return []
        joined = ", ".join(names)
        if self.form in FLAGS:
            moved = ", ".join(f"{name}.cuda()" for name in names)
            return [f"if {device}:", f"    {joined} = {moved}"]
        call = ".cuda()" if self.form == "unconditional" else f".to({device})"
        if self.form == "unconditional_to":
            call = '.to("cuda")'
        return [f"{joined} = {', '.join(name + call for name in names)}"]
