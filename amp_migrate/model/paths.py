"""One path through a training program: what is known on it about names, conditions and the scalers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from amp_migrate.model.syntax import Scope
from amp_migrate.protocol import State

_AMP_WORD = re.compile(
    r"^(use|with|is|enable|do|should|has)?_?(native|torch|pytorch|cuda)?_?"
    r"(amp|fp16|float16|half|half_precision|mixed_?precision|mp|autocast|grad_?scal(er|ing)|loss_?scaler|scaler)"
    r"(_enabled|_training|_flag|_on|_precision|_mode)?$"
)
_ON = re.compile(r"(?i)^(torch\.)?(float16|fp16|half|amp|native|mixed|16(-mixed)?|fp16-mixed)$")
_OFF = re.compile(r"(?i)^(torch\.)?(float32|fp32|float|full|bfloat16|bf16|none|no|32|apex)$")


class Val(NamedTuple):
    """What is known about the value of a name on one path."""

    text: str | None = None
    """Another name of the same value, or the condition that it holds."""
    flipped: bool = False
    """It holds the contrary of `text`."""
    amp: bool | None = None
    """It is true where AMP is on (True), or where it is off (False)."""
    models: frozenset[str] = frozenset()
    """Models whose outputs it was computed from, with gradients."""
    vague: bool = False
    """It was computed out of sight, by models that are not known."""
    scaled: str | None = None
    """The scaler that scaled it; `?` where it may have been."""
    constant: tuple[object, ...] = ()
    """Its value, where that is a constant."""


NOTHING = Val()


def joined(values: Iterable[Val]) -> Val:
    """A value computed from several."""
    models: frozenset[str] = frozenset()
    scaled, vague = None, False
    for value in values:
        models |= value.models
        scaled = value.scaled or scaled
        vague = vague or value.vague
    return Val(models=models, scaled=scaled, vague=vague) if models or scaled or vague else NOTHING


Mark = tuple[str, ...]


@dataclass(eq=False)
class Path:
    """A state of the analysis; paths are forked at conditions, and joined where nothing but conditions differs."""

    facts: dict[str, tuple[bool, frozenset[str]]] = field(default_factory=dict)
    """Conditions decided on the way, with the names that they mention."""
    env: dict[str, Val] = field(default_factory=dict)
    scalers: dict[str, State] = field(default_factory=dict)
    amp: bool | None = None
    """Whether AMP is on, as far as a test or a scaled backward has shown."""
    lost: frozenset[str] = frozenset()
    """Scalers and optimizers that code out of sight may have used."""
    marks: dict[Mark, ast.AST] = field(default_factory=dict)
    """Where things happened last: `("step", scaler, optimizer)`."""
    _key: tuple[object, ...] | None = None

    def fork(self) -> Path:
        """An independent copy."""
        return Path(dict(self.facts), dict(self.env), dict(self.scalers), self.amp, self.lost, dict(self.marks))

    def key(self) -> tuple[object, ...]:
        """All but the facts; kept, since a path is changed only right after it was forked."""
        if self._key is None:
            self._key = (
                frozenset(self.env.items()),
                frozenset(self.scalers.items()),
                self.amp,
                self.lost,
                frozenset(self.marks.items()),
            )
        return self._key

    def assign(self, name: str, value: Val) -> None:
        """`name` gets a new value; what was known about conditions that mention it is void."""
        if self.facts:
            for text in [t for t, (_, mentions) in self.facts.items() if name in mentions]:
                del self.facts[text]
        if self.env:
            inner = name + "."
            for key in [k for k in self.env if k.startswith(inner)]:
                del self.env[key]
        if value is NOTHING:
            self.env.pop(name, None)
        else:
            self.env[name] = value


def merged(paths: list[Path], limit: int) -> list[Path]:
    """Join paths with the same state, and keep at most `limit`: every path that is kept can happen.

    Two paths that disagree on one condition alone become one that leaves it open; of two, one of which knows less, the
    other one goes. Anything more would make up combinations.
    """
    if len(paths) < 2:
        return paths
    groups: dict[tuple[object, ...], list[Path]] = {}
    for path in paths:
        _add(groups.setdefault(path.key(), []), path)
    return [path for group in groups.values() for path in group][:limit]


def _add(group: list[Path], path: Path) -> None:
    index = 0
    while index < len(group):
        joint = _joint(group[index], path)
        if joint is None:
            index += 1
            continue
        if joint is group[index]:
            return
        del group[index]
        path, index = joint, 0
    group.append(path)


def _joint(one: Path, other: Path) -> Path | None:
    a, b = one.facts, other.facts
    if len(a) > len(b):
        return other if all(a.get(t) == f for t, f in b.items()) else None
    differing = [t for t, f in a.items() if b.get(t) != f]
    if not differing:
        return one
    if len(differing) > 1 or len(a) != len(b) or differing[0] not in b:
        return None
    joint = one.fork()
    del joint.facts[differing[0]]
    return joint


class Frame(NamedTuple):
    """A function (or the module) that is being executed, and the call that led there."""

    scope: Scope
    call: ast.Call | None = None
    caller: Frame | None = None
    loops: tuple[ast.AST, ...] = ()
    """Loops around, those of the callers first."""

    def within(self, loop: ast.AST) -> Frame:
        """The same frame, one loop deeper."""
        return Frame(self.scope, self.call, self.caller, (*self.loops, loop))

    def runs(self, node: ast.AST) -> bool:
        """Whether the definition `node` is being executed already."""
        return self.scope.node is node or (self.caller is not None and self.caller.runs(node))

    @property
    def depth(self) -> int:
        return 0 if self.caller is None else self.caller.depth + 1


def identity(expr: ast.AST, frame: Frame, path: Path) -> str | None:
    """A name for what `expr` refers to, the same in caller and callee."""
    if isinstance(expr, ast.Name):
        return _resolved(_home(expr.id, frame.scope), path)
    if isinstance(expr, ast.Attribute):
        base = identity(expr.value, frame, path)
        return _resolved(f"{base}.{expr.attr}", path) if base is not None else None
    if isinstance(expr, ast.Subscript):
        base = identity(expr.value, frame, path)
        return _resolved(f"{base}[{canonical(expr.slice, frame, path, set())}]", path) if base is not None else None
    return None


def place(expr: ast.AST, frame: Frame, path: Path) -> str | None:
    """The name of the variable itself, whatever it holds: what an assignment binds."""
    if isinstance(expr, ast.Name):
        return _home(expr.id, frame.scope)
    if isinstance(expr, ast.Attribute):
        base = identity(expr.value, frame, path)
        return f"{base}.{expr.attr}" if base is not None else None
    if isinstance(expr, ast.Subscript):
        base = identity(expr.value, frame, path)
        return f"{base}[{canonical(expr.slice, frame, path, set())}]" if base is not None else None
    return None


def _home(name: str, scope: Scope) -> str:
    home = scope.lookup(name)
    if home is None or home.parent is None:
        return name
    return f"{home.qualname}:{name}"


def _resolved(name: str, path: Path) -> str:
    value = path.env.get(name)
    holds = value is not None and value.text is not None and value.amp is None and not value.flipped
    return value.text if holds else name  # type: ignore[union-attr,return-value]


def canonical(expr: ast.AST, frame: Frame, path: Path, mentions: set[str]) -> str:
    """The text of a condition, in names that hold across functions; adds the names that it reads to `mentions`."""
    found = identity(expr, frame, path)
    if found is not None:
        inner: ast.AST = expr
        while isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)):  # `args.x` changes with `args`
            mentions |= {n for n in (identity(inner, frame, path), place(inner, frame, path)) if n is not None}
            inner = getattr(inner, "value", None)  # type: ignore[assignment]
        if isinstance(expr, ast.Subscript):
            canonical(expr.slice, frame, path, mentions)
        return found
    if isinstance(expr, ast.Constant):
        return repr(expr.value)
    parts = []
    for name, value in ast.iter_fields(expr):
        if name == "ctx":
            continue
        items = value if isinstance(value, list) else [value]
        parts.append(
            ",".join(canonical(i, frame, path, mentions) if isinstance(i, ast.AST) else repr(i) for i in items)
        )
    return f"{type(expr).__name__}({';'.join(parts)})"


def amp_name(text: str) -> bool:
    """Whether a name says that AMP is on: `use_amp`, `args.fp16`, `self.scaler`."""
    words = re.split(r"[.:]", text)
    return any(_AMP_WORD.match(word.lower()) for word in words[-2:])


def amp_value(text: str) -> bool | None:
    """Whether the other side of `precision == ...` is a half precision with a scaler (True), or none (False)."""
    text = text.strip("'\"")
    if _ON.match(text):
        return True
    return False if _OFF.match(text) else None
