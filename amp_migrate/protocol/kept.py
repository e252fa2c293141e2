"""Which of the mistakes that were met on paths are sure, and what each is told as."""

from __future__ import annotations

import ast

from amp_migrate.protocol.broken import Mistake
from amp_migrate.protocol.diagnostics import Diagnostics, Key

_CREDITED = {
    "bare-optimizer-step",
    "bare-step-after-unscale",
    "double-optimizer-step",
    "partially-scaled-losses",
    "unscaled-backward-with-scaler-step",
    "clip-without-unscale",
    "grad-read-before-unscale",
}
"""Rules that a path may show to be kept where another seems to break them."""


class Shown:
    """What the scopes of a program have shown together."""

    def __init__(self) -> None:
        self.fed: set[str] = set()
        """Optimizers that get scaled gradients."""
        self.due: set[ast.AST] = set()
        """Updates that have a step before them on some path."""
        self.is_partial = False
        """Whether paths were left out."""


def kept(told: Diagnostics, shown: Shown) -> list[Mistake]:
    """The mistakes that are sure."""
    found = []
    for key, mistake in told.found.items():
        if _holds(key, mistake, told, shown):
            rule = _told_as(*key, told, shown)
            if rule is not None:
                found.append(mistake._replace(rule=rule))
    if not shown.is_partial:
        found += told.reads.early(told.good - told.repeated)
    return found


def _holds(key: Key, mistake: Mistake, told: Diagnostics, shown: Shown) -> bool:
    rule, node = key
    if key in told.good - told.repeated:
        return False
    if shown.is_partial and rule in _CREDITED:
        return False  # a path that shows it to be right may be among those left out
    if mistake.optimizer and mistake.optimizer not in shown.fed:
        return False  # nothing in sight ever gives it gradients: they come from out of sight
    if rule == "update-not-on-every-path" and any(
        ("unscale-each-micro-batch", other) in told.found
        for other, _ in mistake.related
    ):
        return False  # the same mistake, met again in the next epoch
    bare = {"bare-optimizer-step", "bare-step-after-unscale"}
    return node not in told.double or rule not in bare


def _told_as(
    rule: str, node: ast.AST, told: Diagnostics, shown: Shown
) -> str | None:
    """An early update that has its step on other paths belongs to accumulation, or to
    conditions out of sight.
    """
    has_step = node in shown.due & told.early
    if rule != "double-or-stray-update" or not has_step:
        return rule
    return "update-while-accumulating" if node in told.pending else None


def doubts(told: Diagnostics) -> list[Mistake]:
    """Mistakes on paths that may not happen, but for those that are sure or shown right."""
    known = told.found.keys() | told.good
    unsure = told.unsure.items()
    return [mistake for key, mistake in unsure if key not in known]


def leaks(told: Diagnostics) -> list[Mistake]:
    """Plain steps that scaled gradients may reach, though other paths show them right: a loop that
    the scaler runs may leave some to a later one.
    """
    met = {**told.unsure, **told.found}
    rule = "bare-optimizer-step"
    return [one for key, one in met.items() if key[0] == rule]
