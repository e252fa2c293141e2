"""The project's own switch for AMP where no loop asks it yet: an option of its command line, a
field or an entry of its settings, or a variable (`--amp`, `mixed_precision: bool = False`,
`self.fp16`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.conditions.truth_values import (
    as_truth_value,
    keyword_of,
    truth_values,
)
from amp_migrate.model.program import Program
from amp_migrate.model.settings.command_line import options
from amp_migrate.model.settings.configurations import (
    Configuration,
    configurations,
    has_option,
    names_in_reach,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.patterns import pattern
from amp_migrate.planner.switch.reading_place import ReadingPlace
from amp_migrate.torch_facts.amp_api import (
    FULL,
    MIXED,
    OWN_CHOICES,
    OWN_OPTIONS,
)

_NAMES = (one.replace("_", "[_-]") for one in (*OWN_OPTIONS, *OWN_CHOICES))
_NAMED = pattern(rf"(?i)\b({'|'.join(_NAMES)})\b")


def with_option(here: ReadingPlace, device: str | None) -> str | None:
    """What asks for the device, together with the program's own switch for AMP, where that can be
    read.
    """
    for text, flag in _flags(here):
        if device is None:
            return flag
        known = _asks(device, text)
        return device if known else f"{flag} and {_operand(device)}"
    return device


def _asks(condition: str, text: str) -> bool:
    """Whether a condition asks `text` already, however that is spelled."""
    sought = ast.dump(ast.parse(text, mode="eval").body)
    parts = nodes_in(ast.parse(condition, mode="eval"))
    return any(ast.dump(one) == sought for one in parts)


def truth_value(text: str, here: ReadingPlace) -> str:
    """Autocast takes no number for `enabled=`, as `--cuda 1` gives one."""
    return as_truth_value(here.program, text, here.node, after=here.after)


def _operand(text: str) -> str:
    """An expression as an operand, in parentheses where it would come apart."""
    loose = isinstance(
        ast.parse(text, mode="eval").body, (ast.IfExp, ast.BoolOp, ast.Lambda)
    )
    return f"({text})" if loose else text


def _flags(here: ReadingPlace) -> Iterator[tuple[str, str]]:
    """What is read, and what is asked of it."""
    program = here.program
    if not program.remembered(
        _NAMED, lambda: _NAMED.search(program.module.text)
    ):
        return  # most programs have none, and all that they can read is a long list
    known = list(configurations(here.program, here.scope, here.node))
    for one in known:
        if one.kind == "argparse" and here.is_bound(one.holder):
            for text, flag in _of_command_line(here.program, one.holder):
                if here.can_read(text):
                    yield text, truth_value(flag, here)
    yield from _variables(here)
    for one in known:
        if one.kind in ("dataclass", "dict") and here.can_read(one.holder):
            for text, flag in _of_settings(here.program, one):
                yield text, truth_value(flag, here)


def _of_command_line(
    program: Program, holder: str
) -> Iterator[tuple[str, str]]:
    for name, option in options(program.module).items():
        text = f"{holder}.{name}"
        if name in OWN_OPTIONS and _is_flag(option):
            yield text, _asked(text, name)
        if name in OWN_CHOICES:
            yield from ((text, one) for one in _chosen(option, text))


def _asked(text: str, name: str) -> str:
    return text if OWN_OPTIONS[name.lower()] else f"not {text}"


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _is_flag(option: ast.Call) -> bool:
    """`action="store_true"`, or a default that says that it is one."""
    action, default = (
        keyword_of(option, "action"),
        keyword_of(option, "default"),
    )
    if isinstance(action, ast.Constant):
        return action.value in ("store_true", "store_false")
    return (
        action is not None
        and ast.unparse(action).endswith("BooleanOptionalAction")
    ) or (isinstance(default, ast.Constant) and isinstance(default.value, bool))


def _chosen(option: ast.Call, text: str) -> Iterator[str]:
    """Whether one of the choices of mixed precision was made, where there is one of full precision
    as well.
    """
    choices = keyword_of(option, "choices")
    if not isinstance(choices, (ast.List, ast.Tuple, ast.Set)):
        return
    constants = (one for one in choices.elts if isinstance(one, ast.Constant))
    values = [one.value for one in constants]
    full = [one for one in values if str(one).lower() in FULL]
    mixed = [one for one in values if str(one).lower() in MIXED]
    if not full or not mixed:
        return
    if len(mixed) == 1:
        yield f"{text} == {_quoted(mixed[0])}"
    elif len(full) == 1 and len(full) + len(mixed) == len(choices.elts):
        yield f"{text} != {_quoted(full[0])}"
    else:
        yield f"{text} in ({', '.join(map(_quoted, mixed))})"


def _variables(here: ReadingPlace) -> Iterator[tuple[str, str]]:
    """`use_amp`, `self.fp16`: those that are True or False."""
    known = truth_values(here.program)
    for name in _names(here):
        last = name.rpartition(".")[2]
        if last.lower() in OWN_OPTIONS and here.can_read(name):
            expr = ast.parse(name, mode="eval").body
            if known.is_truth_value(expr, here.node, after=here.after):
                yield name, _asked(name, last)


def _names(here: ReadingPlace) -> Iterator[str]:
    """The names that can be read, and the attributes of what they hold that are called like a
    switch.
    """
    names = names_in_reach(here.program, here.scope)
    yield from names
    spelled = here.program.module.identifiers
    switches = [one for one in OWN_OPTIONS if one in spelled]
    for name in _holders(here, names) if switches else ():
        yield from (f"{name}.{one}" for one in switches)


def _holders(here: ReadingPlace, names: list[str]) -> list[str]:
    """What may be settings; classes last, for what their objects were given since is not asked of
    them.
    """
    values = here.program.values
    kinds: dict[str, Kind] = {}
    classes: set[str] = set()
    for name in names:
        expr = ast.parse(name, mode="eval").body
        cls = here.program.graph.class_named(expr, here.scope)
        if cls is not None:
            classes.add(name)
            kinds[name] = values.class_kind(cls)
        else:
            kinds[name] = values.of(expr, here.scope).kind
    found = [name for name in names if kinds[name] in _OF_SETTINGS]
    return sorted(found, key=lambda name: name in classes)


_OF_SETTINGS = (Kind.OBJECT, Kind.UNKNOWN, Kind.OTHER)


def _of_settings(
    program: Program, one: Configuration
) -> Iterator[tuple[str, str]]:
    """Fields and entries that are True or False."""
    for name in OWN_OPTIONS:
        if has_option(program, one, name) and _is_switch(one, name):
            text = (
                f"{one.holder}.{name}"
                if one.kind == "dataclass"
                else f'{one.holder}["{name}"]'
            )
            yield text, _asked(text, name)


def _is_switch(one: Configuration, name: str) -> bool:
    """Whether a configuration holds a truth value under the name."""
    if isinstance(one.home, ast.ClassDef):
        return any(
            isinstance(field, ast.AnnAssign)
            and ast.unparse(field.target) == name
            and ast.unparse(field.annotation) == "bool"
            for field in one.home.body
        )
    assert isinstance(one.home, ast.Dict)
    pairs = zip(one.home.keys, one.home.values, strict=True)
    return any(
        isinstance(key, ast.Constant)
        and key.value == name
        and isinstance(value, ast.Constant)
        and isinstance(value.value, bool)
        for key, value in pairs
    )


def unset_switch(program: Program, scope: Scope) -> ast.Attribute | None:
    """`self.amp` that a class reads and sets nowhere in sight: it comes out of
    `self.__dict__.update(settings)`, or from a base class that nobody sees.
    """
    cls = program.graph.class_around(scope)
    if cls is None:
        return None
    family = [program.module.scopes[c] for c in program.graph.lineage(cls)]
    for node in nodes_in(cls):
        if not isinstance(node, ast.Attribute) or node.attr not in OWN_OPTIONS:
            continue
        inner = program.module.scope_of(node)
        is_own = getattr(node.value, "id", None) == (inner.self_name or "")
        names = (f"self.{node.attr}", node.attr)
        if is_own and isinstance(node.ctx, ast.Load):
            if not any(
                name in one.bindings for one in family for name in names
            ):
                return node
    return None
