"""Frameworks that run the training loop themselves: where their precision is set, and to what."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from amp_migrate.model.conditions.truth_values import keyword_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.displays import Displays
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.clippers import clipper
from amp_migrate.torch_facts.frameworks import (
    FRAMEWORKS,
    FROM_SETTINGS,
    LIGHTNING_1,
    LIGHTNING_1_HOOKS,
    WORDS,
    Framework,
)

_NOTHING = (None, False, "")
State: TypeAlias = Literal["on", "off", "open", "cpu"]
"""`open`: decided where the program runs, or out of sight."""


class Setting(NamedTuple):
    """One place that makes a framework's trainer."""

    framework: Framework
    call: ast.Call
    scope: Scope
    state: State
    shown: str
    """The precision as it is written, or `` where nothing is."""
    old_lightning: bool = False
    obstacle: str = ""
    """Why no change is offered although the precision is a literal."""
    given: Mapping[str, ast.keyword] = MappingProxyType({})

    @property
    def advice(self) -> str:
        """The setting to use, in the framework's own words."""
        return (
            "Trainer(precision=16)"
            if self.old_lightning
            else self.framework.setting
        )

    def values(self, dtype: str, torch: str) -> dict[str, str]:
        """Keywords and their new values; empty where nothing can be offered."""
        if self.state != "off" or self.obstacle:
            return {}
        pairs = (
            self.framework.brain if dtype == "bfloat16" else self.framework.half
        )
        found = {
            key: value.format(on=f"{torch}.cuda.is_available()", torch=torch)
            for key, value in pairs
        }
        if self.old_lightning:
            half = '"bf16"' if dtype == "bfloat16" else "16"
            found = {
                "precision": f"{half} if {torch}.cuda.is_available() else 32"
            }
        return found


def names_framework(text: str) -> bool:
    """Whether a text can make a framework's trainer at all."""
    return any(word in text for word in WORDS)


def framework_settings(program: Program) -> list[Setting]:
    """The trainers that a program makes, in source order."""
    if not names_framework(program.module.text):
        return []
    found = program.remembered(
        framework_settings, lambda: list(_training(program))
    )
    return sorted(found, key=lambda s: (s.call.lineno, s.call.col_offset))


def _training(program: Program) -> Iterator[Setting]:
    """Those that train, as far as can be seen: not where a program only tests or predicts."""
    called = {
        call.func.attr
        for scope in program.module.scopes.values()
        for call in scope.calls
        if isinstance(call.func, ast.Attribute)
    }
    for setting in _found(program):
        framework = setting.framework
        if called & framework.trains or not called & framework.infers:
            yield setting


def _found(program: Program) -> Iterator[Setting]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = scope.module.canonical(call.func)
            framework = next((f for f in FRAMEWORKS if name in f.makers), None)
            if framework is not None:
                yield _setting(program, framework, call, scope)
            elif _makes_learner(scope.module, call, name):
                yield _learner(call, scope)
            elif (name or "").endswith(".HfArgumentParser"):
                yield from _parsed(call, scope)


def _setting(
    program: Program, framework: Framework, call: ast.Call, scope: Scope
) -> Setting:
    given = {k.arg: k for k in call.keywords if k.arg is not None}
    state, shown = _state(program, framework, call, given)
    old = framework.name == "Lightning" and _is_old(call, scope.module)
    return Setting(
        framework,
        call,
        scope,
        state,
        shown,
        old,
        _obstacle(framework, call, given, scope.module),
        given,
    )


def _state(
    program: Program,
    framework: Framework,
    call: ast.Call,
    given: dict[str, ast.keyword],
) -> tuple[State, str]:
    if framework.name == "DeepSpeed":
        return _of_tables(program, given)
    if not framework.half:
        return "open", "its configuration"
    if any(
        isinstance(k.value, ast.Constant)
        and (name, k.value.value) in framework.cpu
        for name, k in given.items()
    ):
        return "cpu", ""
    for name in (framework.keyword, *sorted(framework.rivals)):
        if name not in given:
            continue
        value = given[name].value
        shown = f"{name}={ast.unparse(value)}"
        off = framework.off if name == framework.keyword else _NOTHING
        if not isinstance(value, ast.Constant):
            default = default_of_option(program, value)
            if default is None or default.value in off:
                return "open", shown
            return "on", f"{shown}, {default.value!r} by default"
        if value.value not in off:
            return "on", shown
    if (dotted_name(call.func) or "").endswith(FROM_SETTINGS) and call.args:
        return "open", ast.unparse(call.args[0])
    if any(k.arg is None for k in call.keywords) or any(
        isinstance(a, ast.Starred) for a in call.args
    ):
        return "open", ast.unparse(
            next((k.value for k in call.keywords if k.arg is None), call.func)
        )
    return "off", ""


def _of_tables(
    program: Program, given: dict[str, ast.keyword]
) -> tuple[State, str]:
    """By the dicts that are a configuration: `{"bf16": {"enabled": True}}`."""
    values = [given[n].value for n in ("config", "config_params") if n in given]
    for value in values:
        name = dotted_name(value)
        known = Displays(program)
        if name is not None:
            known.of(value, name)
        found = [value] if isinstance(value, ast.Dict) else [*known.found]
        tables = [one for one in found if isinstance(one, ast.Dict)]
        on = [n for one in tables for n in _HALVES if _is_on(one, n)]
        if on and len(tables) == 1:
            return "on", f'"{on[0]}" in its configuration'
    return "open", "its configuration"


_HALVES = ("fp16", "bf16")


def _is_on(table: ast.Dict, name: str) -> bool:
    """Whether an entry says `"enabled": True`."""
    inner = [
        value
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == name
    ]
    return any(
        isinstance(key, ast.Constant)
        and key.value == "enabled"
        and isinstance(value, ast.Constant)
        and value.value is True
        for one in inner
        if isinstance(one, ast.Dict)
        for key, value in zip(one.keys, one.values, strict=True)
    )


def default_of_option(program: Program, value: ast.expr) -> ast.Constant | None:
    """What an option of the command line is where nobody passes it."""
    dotted = dotted_name(value)
    option = option_of(program, value, dotted) if dotted is not None else None
    found = keyword_of(option, "default") if option is not None else None
    return found if isinstance(found, ast.Constant) else None


def _obstacle(
    framework: Framework,
    call: ast.Call,
    given: dict[str, ast.keyword],
    module: Module,
) -> str:
    if framework.clipper:
        for scope in module.scopes.values():
            for other in scope.calls:
                if clipper(module.canonical(other.func)) is not None:
                    return (
                        f"line {other.lineno} clips scaled gradients then: use "
                        f"{framework.clipper} there"
                    )
    return ""


def _is_old(call: ast.Call, module: Module) -> bool:
    return any(k.arg in LIGHTNING_1 for k in call.keywords) or any(
        hook in module.text for hook in LIGHTNING_1_HOOKS
    )


def _makes_learner(module: Module, call: ast.Call, name: str | None) -> bool:
    """`vision_learner(...)` and `Learner(...)` of fastai, which is imported by stars as a rule."""
    last = (dotted_name(call.func) or "").rpartition(".")[2]
    if last == "load_learner":
        return False  # it has been trained
    if not (last == "Learner" or last.endswith("_learner")):
        return False
    if name is not None and name.startswith("fastai."):
        return True
    return isinstance(call.func, ast.Name) and any(
        star.startswith("fastai") for star in module.imports.stars
    )


def _learner(call: ast.Call, scope: Scope) -> Setting:
    text = scope.module.text
    framework = next(f for f in FRAMEWORKS if f.name == "fastai")
    shown = next(
        (
            word
            for word in ("to_fp16()", "to_bf16()", "MixedPrecision")
            if word in text
        ),
        "",
    )
    return Setting(framework, call, scope, "on" if shown else "off", shown)


def _parsed(call: ast.Call, scope: Scope) -> Iterator[Setting]:
    """`HfArgumentParser((ModelArguments, TrainingArguments))`"""
    named = {
        scope.module.canonical(node)
        for node in nodes_in(call)
        if isinstance(node, ast.expr)
    }
    for framework in FRAMEWORKS:
        if named & framework.makers:
            yield Setting(framework, call, scope, "open", "the command line")
