"""Who is meant: functions in execution, and names that are the same in caller and callee."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import fields_of
from amp_migrate.patterns import pattern
from amp_migrate.protocol.paths import Path
from amp_migrate.records import NamedTuple

_AMP_WORD = pattern(
    r"^(?!mp$)"  # that is multiprocessing as often
    r"(use|with|is|enable|do|should|has)?_?(native|torch|pytorch|cuda)?_?"
    r"(amp|fp16|float16|half|half_precision|mixed_?precision|mp"
    r"|autocast|grad_?scal(er|ing)|loss_?scaler|scaler)"
    r"(_enabled|_training|_flag|_on|_precision|_mode)?$"
)
_ON = pattern(
    r"(?i)^(torch\.)?(float16|fp16|half|amp|native|mixed|16(-mixed)?|fp16-mixed)$"
)
_OFF = pattern(
    r"(?i)^(torch\.)?(float32|fp32|float|full|bfloat16|bf16|none|no|32|apex)$"
)


class Frame(NamedTuple):
    """A function (or the module) that is being executed, and the call that led there."""

    scope: Scope
    call: ast.Call | None = None
    caller: Frame | None = None
    loops: tuple[ast.AST, ...] = ()
    """Loops around, those of the callers first."""
    handed: frozenset[str] = frozenset()
    """What the calls on the way here mention: their arguments may be the function's own."""

    def within(self, loop: ast.AST) -> Frame:
        """The same frame, one loop deeper."""
        return self._replace(loops=(*self.loops, loop))

    def runs(self, node: ast.AST) -> bool:
        """Whether the definition `node` is being executed already."""
        return self.scope.node is node or (
            self.caller is not None and self.caller.runs(node)
        )

    @property
    def depth(self) -> int:
        return 0 if self.caller is None else self.caller.depth + 1


def calls_to(frame: Frame) -> Iterator[ast.Call]:
    """The calls that led to a frame, the last one first."""
    here: Frame | None = frame
    while here is not None:
        if here.call is not None:
            yield here.call
        here = here.caller


def identity(expr: ast.AST, frame: Frame, path: Path) -> str | None:
    """A name for what `expr` refers to, the same in caller and callee."""
    if isinstance(expr, ast.Name):
        return _resolved(_home(expr.id, frame.scope), path)
    if isinstance(expr, ast.Attribute):
        base = identity(expr.value, frame, path)
        return (
            _resolved(f"{base}.{expr.attr}", path) if base is not None else None
        )
    if isinstance(expr, ast.Subscript):
        base = identity(expr.value, frame, path)
        return (
            _resolved(
                f"{base}[{canonical(expr.slice, frame, path, set())}]", path
            )
            if base is not None
            else None
        )
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
        return (
            f"{base}[{canonical(expr.slice, frame, path, set())}]"
            if base is not None
            else None
        )
    return None


def _home(name: str, scope: Scope) -> str:
    home = scope.lookup(name)
    if home is None or home.parent is None:
        return name
    return f"{home.qualname}:{name}"


def _resolved(name: str, path: Path) -> str:
    value = path.env.get(name)
    holds = (
        value is not None
        and value.text is not None
        and value.amp is None
        and not value.flipped
    )
    return value.text if holds else name  # type: ignore[union-attr,return-value]


def canonical(
    expr: ast.AST, frame: Frame, path: Path, mentions: set[str]
) -> str:
    """The text of a condition, in names that hold across functions; adds the names that it reads
    to `mentions`.
    """
    found = identity(expr, frame, path)
    if found is not None:
        inner: ast.AST = expr
        while isinstance(
            inner, (ast.Name, ast.Attribute, ast.Subscript)
        ):  # `args.x` changes with `args`
            # What stands for something else may stand for another thing later.
            own = identity(inner, frame, path) or place(inner, frame, path)
            mentions |= {own} if own is not None else set()
            inner = getattr(inner, "value", None)  # type: ignore[assignment]
        if isinstance(expr, ast.Subscript):
            canonical(expr.slice, frame, path, mentions)
        return found
    if isinstance(expr, ast.Constant):
        return repr(expr.value)
    parts = []
    for name, value in fields_of(expr):
        if name == "ctx":
            continue
        items = value if isinstance(value, list) else [value]
        parts.append(
            ",".join(
                canonical(i, frame, path, mentions)
                if isinstance(i, ast.AST)
                else repr(i)
                for i in items
            )
        )
    return f"{type(expr).__name__}({';'.join(parts)})"


_CONTRARY = {
    ast.NotEq: ast.Eq,
    ast.IsNot: ast.Is,
    ast.NotIn: ast.In,
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
}


def positive(test: ast.expr) -> ast.expr:
    """The comparison whose contrary `test` is; itself where it is none."""
    if (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and type(test.ops[0]) in _CONTRARY
    ):
        return ast.Compare(
            test.left, [_CONTRARY[type(test.ops[0])]()], test.comparators
        )
    return test


def amp_name(text: str) -> bool:
    """Whether a name says that AMP is on: `use_amp`, `args.fp16`, `self.scaler`."""
    words = re.split(r"[.:]", text)
    return any(_AMP_WORD.match(word.lower()) for word in words[-2:])


def amp_value(text: str) -> bool | None:
    """Whether the other side of `precision == ...` is a half precision with a scaler (True), or
    none (False).
    """
    text = text.strip("'\"")
    if _ON.match(text):
        return True
    return False if _OFF.match(text) else None
