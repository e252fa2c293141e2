"""Canonical dotted names, whatever the import form: `th.optim.Adam`, `optim.Adam` and `Adam` are
all `torch.optim.Adam`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.namespaces import PUBLIC, STARS, USUAL


class Imports(NamedTuple):
    """What the import statements of one module bind, wherever they stand."""

    names: dict[str, str]
    stars: tuple[str, ...]
    others: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never written
    """What other statements bind a name to: `except ImportError: from slow import loss`."""

    def origins(self, name: str) -> tuple[str, ...]:
        """All that import statements bind a name to."""
        first = self.names.get(name)
        return () if first is None else (first, *self.others.get(name, ()))

    def otherwise(self, dotted: str) -> Iterator[str]:
        """The other dotted names that a name may refer to."""
        head, _, rest = dotted.partition(".")
        for origin in self.others.get(head, ()):
            yield _normal(f"{origin}.{rest}" if rest else origin)

    def canonical(self, expr: ast.expr) -> str | None:
        """The dotted name that `expr` refers to, or None where it is no imported name."""
        dotted = dotted_name(expr) or _by_getattr(expr)
        if dotted is None:
            return None
        head, _, rest = dotted.partition(".")
        origin = self.names.get(head) or self._from_star(head)
        if origin is None:
            return None
        return _normal(f"{origin}.{rest}" if rest else origin)

    def _from_star(self, name: str) -> str | None:
        if name in USUAL and any(
            not module.startswith("torch") for module in self.stars
        ):
            return USUAL[name]
        for module in self.stars:
            losses = module == "torch.nn" and name.endswith("Loss")
            if losses or name in STARS.get(module, ()):
                return f"{module}.{name}"
        return None

    def local(self, canonical: str) -> str | None:
        """The shortest name by which this module already knows `canonical`, or None."""
        return min(
            (
                name
                for name, origin in self.names.items()
                if origin == canonical
            ),
            key=len,
            default=None,
        )


def _normal(name: str) -> str:
    for long, short in PUBLIC:
        if name.startswith(long):
            return short + name[len(long) :]
    return name


def dotted_name(expr: ast.expr) -> str | None:
    """`a.b.c` as text, or None for anything but names and attributes."""
    name = ""  # asked more often than anything else: no list, and types instead of `isinstance`
    while type(expr) is ast.Attribute:
        name = f".{expr.attr}{name}"
        expr = expr.value
    return expr.id + name if type(expr) is ast.Name else None


def imports_of(statements: Iterable[ast.Import | ast.ImportFrom]) -> Imports:
    """Join the import statements of one module."""
    names: dict[str, str] = {}
    others: dict[str, tuple[str, ...]] = {}
    stars: list[str] = []
    for statement in statements:
        for local, origin in _bound(statement):
            if local == "*":
                stars.append(origin)
            elif names.setdefault(local, origin) != origin:
                others[local] = (*others.get(local, ()), origin)
    return Imports(names, tuple(stars), others)


def _bound(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            head = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (head, head)
        return
    module = "." * statement.level + (statement.module or "")
    joint = "" if module.endswith(".") or not module else "."
    for alias in statement.names:
        yield (
            alias.asname or alias.name,
            module if alias.name == "*" else f"{module}{joint}{alias.name}",
        )


def _by_getattr(expr: ast.expr) -> str | None:
    """`getattr(nn, "BCELoss")` is `nn.BCELoss`."""
    if not isinstance(expr, ast.Call) or not isinstance(expr.func, ast.Name):
        return None
    if expr.func.id != "getattr" or len(expr.args) != 2:
        return None
    holder, name = dotted_name(expr.args[0]), expr.args[1]
    if (
        holder is None
        or not isinstance(name, ast.Constant)
        or not isinstance(name.value, str)
    ):
        return None
    return f"{holder}.{name.value}"
