"""The rules, one module each: `RULE`, its facts, and `check`, which asks the model for the mistake.

    RULE = Rule("bare-optimizer-step", severity="error")

    def check(program: Program, settings: Settings) -> Iterator[Finding]: ...

Modules are found, not listed. `syntax` and `unused-ignore` are reported by the engine and have only
a `RULE`.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.config import Settings
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:  # most files that lint looks at never need the model
    from amp_migrate.model.program import Program


class Check(NamedTuple):
    """A rule and the function that looks for it."""

    rule: Rule
    run: Callable[[Program, Settings], Iterator[Finding]]


def module_name(rule: str) -> str:
    """The module of a rule: `out=-or-inplace-matmul` is in `out_or_inplace_matmul`."""
    return re.sub(r"\W+", "_", rule).lower()


@functools.cache
def all_checks() -> tuple[Check, ...]:
    """Every rule, in order of its name."""
    names = [
        found.name
        for found in pkgutil.iter_modules(__path__)
        if not found.name.startswith("_")
    ]
    modules = [import_module(f"{__name__}.{name}") for name in names]
    checks = [
        Check(module.RULE, getattr(module, "check", _by_the_engine))
        for module in modules
    ]
    return tuple(sorted(checks, key=lambda check: check.rule.name))


def _by_the_engine(program: Program, settings: Settings) -> Iterator[Finding]:
    return iter(())
