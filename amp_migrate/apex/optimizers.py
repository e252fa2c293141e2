"""The fused optimizers of apex as torch's own."""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.apex.call_text import CallText
from amp_migrate.apex.refused import Refused
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.rewrite.edits import Template

_ADAM_DROPPED = {
    "bias_correction",
    "adam_w_mode",
    "set_grad_none",
    "master_weights",
}
_ADAM_KEPT = {
    "params",
    "lr",
    "betas",
    "eps",
    "weight_decay",
    "amsgrad",
    "capturable",
}
_SGD_DROPPED = {
    "wd_after_momentum",
    "materialize_master_grads",
    "set_grad_none",
}
_SGD_KEPT = {
    "params",
    "lr",
    "momentum",
    "dampening",
    "weight_decay",
    "nesterov",
}


class FusedOptimizers:
    """Writes their calls; `text` names something of torch."""

    def __init__(
        self, written: CallText, text: Callable[[str], Template]
    ) -> None:
        self.written = written
        self._text = text

    def adam(self, call: ast.Call) -> Template:
        """`FusedAdam` is AdamW, unless told otherwise."""
        given = self._keywords(call, _ADAM_KEPT | _ADAM_DROPPED, 2)
        if not is_or_absent(given.get("bias_correction"), True):
            raise Refused(
                "apex-optimizer",
                call,
                "FusedAdam without bias correction has no counterpart in torch",
            )
        if not is_or_absent(given.get("master_weights"), False):
            raise Refused(
                "apex-optimizer",
                call,
                "FusedAdam with master weights has no counterpart in torch",
            )
        decay = given.get("weight_decay")
        name = "optim.AdamW" if _decouples(call, given) else "optim.Adam"
        states = decay is not None or name == "optim.Adam"
        added = "" if states else "weight_decay=0.0"
        called = self._text(name).text
        return self.written.called(call, called, _ADAM_DROPPED, added)

    def sgd(self, call: ast.Call) -> Template:
        """`FusedSGD`."""
        given = self._keywords(call, _SGD_KEPT | _SGD_DROPPED, 6)
        if not is_or_absent(given.get("wd_after_momentum"), False):
            raise Refused(
                "apex-optimizer",
                call,
                "FusedSGD with weight decay after momentum has no counterpart in torch",
            )
        return self.written.called(
            call, self._text("optim.SGD").text, _SGD_DROPPED
        )

    def _keywords(
        self, call: ast.Call, known: set[str], positional: int
    ) -> dict[str | None, ast.expr]:
        given = {k.arg: k.value for k in call.keywords}
        strange = [str(name) for name in given if name not in known]
        if (
            strange
            or len(call.args) > positional
            or any(isinstance(a, ast.Starred) for a in call.args)
        ):
            raise Refused(
                "apex-optimizer",
                call,
                "the arguments of this optimizer of apex cannot be told apart",
            )
        return given


def parameters_of(value: ast.expr) -> str | None:
    """`model` of `Optimizer(model.parameters(), ...)`."""
    if not isinstance(value, ast.Call):
        return None
    given = (
        value.args[0]
        if value.args
        else next((k.value for k in value.keywords if k.arg == "params"), None)
    )
    plain = (
        isinstance(given, ast.Call) and not given.args and not given.keywords
    )
    if (
        not plain
        or not isinstance(given, ast.Call)
        or not isinstance(given.func, ast.Attribute)
    ):
        return None
    return (
        dotted_name(given.func.value)
        if given.func.attr == "parameters"
        else None
    )


def is_or_absent(value: ast.expr | None, wanted: object) -> bool:
    """Not given, or the literal `wanted`."""
    return value is None or (
        isinstance(value, ast.Constant) and value.value == wanted
    )


def _decouples(call: ast.Call, given: dict[str | None, ast.expr]) -> bool:
    """Whether it decays weights apart from the gradients, as AdamW does."""
    mode = given.get("adam_w_mode")
    if mode is not None and not isinstance(mode, ast.Constant):
        raise Refused(
            "apex-optimizer",
            call,
            "adam_w_mode decides when the program runs: choose Adam or AdamW",
        )
    if mode is not None and not mode.value:
        return False
    parameters = call.args[0] if call.args else given.get("params")
    made = ast.Call(ast.Name("_"), [parameters or ast.Constant(None)], [])
    no_groups = parameters_of(made) is not None
    return not (no_groups and is_or_absent(given.get("weight_decay"), 0))
