"""Functions that clip gradients, or read them to measure them."""

from __future__ import annotations

from functools import cache
from typing import Literal

from amp_migrate.records import NamedTuple


class Clipper(NamedTuple):
    """One function that wants the true gradients, not scaled ones."""

    names: tuple[str, ...]
    """Canonical names: where it is defined and where people import it from."""
    does: Literal["clip", "measure"] = "clip"
    takes: Literal["parameters", "gradients", "norms", "optimizer"] = (
        "parameters"
    )
    """What its first argument is."""


CLIPPERS: tuple[Clipper, ...] = (
    Clipper(("torch.nn.utils.clip_grad_norm_",)),
    Clipper(("torch.nn.utils.clip_grad_norm",)),
    Clipper(("torch.nn.utils.clip_grad_value_",)),
    Clipper(("torch.nn.utils.clip_grads_with_norm_",)),
    Clipper(("torch.nn.utils.get_total_norm",), "measure", "gradients"),
    Clipper(
        (
            "timm.utils.dispatch_clip_grad",
            "timm.utils.clip_grad.dispatch_clip_grad",
        )
    ),
    Clipper(
        ("timm.utils.adaptive_clip_grad", "timm.utils.agc.adaptive_clip_grad")
    ),
    Clipper(
        (
            "apex.contrib.clip_grad.clip_grad_norm_",
            "apex.contrib.clip_grad.clip_grad.clip_grad_norm_",
        )
    ),
    Clipper(("fairseq.utils.clip_grad_norm_",)),
    Clipper(("allennlp.training.util.rescale_gradients",)),
    Clipper(("allennlp.training.util.enable_gradient_clipping",)),
    Clipper(("nfnets.agc.AGC", "nfnets.AGC"), "clip", "optimizer"),
)


@cache
def _by_name() -> dict[str, Clipper]:
    return {name: row for row in CLIPPERS for name in row.names}


def clipper(canonical: str | None) -> Clipper | None:
    """Find the row of a canonical name."""
    return None if canonical is None else _by_name().get(canonical)


def one_of(prefix: str) -> Clipper | None:
    """A row whose name begins so: for a name of which a program puts only the end together."""
    return next(
        (row for name, row in _by_name().items() if name.startswith(prefix)),
        None,
    )
