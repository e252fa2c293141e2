"""What the proof has to know about the original: plain walks over its tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.model.syntax.queries import children_of, names_in, nodes_in

_SHORTER = {
    "apex.parallel.distributed.DistributedDataParallel": "apex.parallel.DistributedDataParallel",
    "apex.optimizers.fused_adam.FusedAdam": "apex.optimizers.FusedAdam",
    "apex.normalization.fused_layer_norm.FusedLayerNorm": "apex.normalization.FusedLayerNorm",
}
_ABSENT = (
    "ImportError",
    "ModuleNotFoundError",
    "Exception",
    "BaseException",
    "AttributeError",
)


@dataclass(frozen=True, eq=False)
class Facts:
    """Names of one module."""

    imported: dict[str, str]
    """Local names, and what of apex they stand for."""
    flags: frozenset[str]
    """Names that are true where apex could be imported."""
    torch: str
    adds_torch: bool
    models: dict[str, set[str | None]]
    """By optimizer, the models that it is made for; None is anything else."""
    star: bool
    removed: tuple[str, ...] = ("apex.amp", "apex.fp16_utils", "apex.parallel")

    def name(self, node: ast.AST) -> str | None:
        """What of apex an expression is."""
        text = dotted(node)
        if not text:
            return None
        head, _, rest = text.partition(".")
        origin = self.imported.get(head)
        if origin is None:
            origin = (
                f"apex.fp16_utils.{head}"
                if self.star and head == "to_python_float"
                else None
            )
        if origin is None:
            return None
        full = f"{origin}.{rest}" if rest else origin
        return _SHORTER.get(full, full)

    def bound_in(self, function: ast.AST) -> set[str]:
        """The names that a function binds."""
        names: set[str] = set()
        for node in _own(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names |= {
                    (a.asname or a.name).partition(".")[0] for a in node.names
                }
            elif (
                isinstance(
                    node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
                )
                and node is not function
            ):
                names.add(node.name)
        shared = {
            n
            for s in _own(function)
            if isinstance(s, (ast.Global, ast.Nonlocal))
            for n in s.names
        }
        return names - shared


def _own(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function without those of the functions in it."""
    found, stack = [], [function]
    while stack:
        node = stack.pop()
        found.append(node)
        inner = node is not function and isinstance(
            node,
            (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
        )
        if not inner:
            stack.extend(children_of(node))
    return found


def dotted(node: ast.AST) -> str:
    """`a.b.c`, else nothing."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (
        ".".join([node.id, *reversed(parts)])
        if isinstance(node, ast.Name)
        else ""
    )


def facts_of(tree: ast.Module) -> Facts:
    """Walk the original once for each question."""
    imported: dict[str, str] = {}
    star = False
    for node in nodes_in(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                if a.name.partition(".")[0] == "apex":
                    imported[a.asname or "apex"] = (
                        a.name if a.asname else "apex"
                    )
        elif (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").partition(".")[0] == "apex"
        ):
            star |= any(a.name == "*" for a in node.names)
            imported |= {
                (a.asname or a.name): f"{node.module}.{a.name}"
                for a in node.names
                if a.name != "*"
            }
    torch = [
        a.asname or "torch"
        for s in _always_run(tree)
        if isinstance(s, ast.Import)
        for a in s.names
        if a.name == "torch"
        or (a.name.startswith("torch.") and a.asname is None)
    ]
    shortest = min(torch, key=len, default="torch")
    return Facts(
        imported,
        frozenset(_flags(tree)),
        shortest,
        not torch,
        _models(tree),
        star,
    )


def _always_run(tree: ast.Module) -> list[ast.stmt]:
    """Statements at the module's own level, in whatever block."""
    found, stack = [], list[ast.AST](tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            found.append(node)
        if not isinstance(
            node,
            (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
        ):
            stack.extend(children_of(node))
    return found


def guards(node: ast.AST) -> bool:
    """A `try` around imports of apex, with handlers for when they fail."""
    if (
        not isinstance(node, ast.Try)
        or not node.handlers
        or node.finalbody
        or not any(map(of_apex, node.body))
    ):
        return False
    return all(
        h.type is None or any(name in _ABSENT for name in _names(h.type))
        for h in node.handlers
    )


def of_apex(node: ast.stmt) -> bool:
    """An import of apex."""
    if isinstance(node, ast.ImportFrom):
        return (
            not node.level and (node.module or "").partition(".")[0] == "apex"
        )
    return isinstance(node, ast.Import) and any(
        a.name.partition(".")[0] == "apex" for a in node.names
    )


def _names(node: ast.AST) -> set[str]:
    return names_in(node)


def _flags(tree: ast.Module) -> set[str]:
    """Names set to True beside an import of apex, or to False only where that failed."""
    inside: dict[str, list[tuple[bool, bool]]] = {}
    counted: dict[str, int] = {}
    for node in nodes_in(tree):
        if guards(node) and isinstance(node, ast.Try):
            blocks = [
                (False, node.body),
                (False, node.orelse),
                *((True, h.body) for h in node.handlers),
            ]
            for failed, block in blocks:
                for name, value in _set(block):
                    inside.setdefault(name, []).append((failed, value))
    outside: dict[str, list[bool]] = {}
    for name, value in _set(tree.body):
        outside.setdefault(name, []).append(value)
    for node in nodes_in(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            counted[node.id] = counted.get(node.id, 0) + 1
    found = set()
    for name, values in inside.items():
        others = outside.get(name, [])
        if counted.get(name) != len(values) + len(others) or any(
            failed and value for failed, value in values
        ):
            continue
        if any(value and not failed for failed, value in values) or (
            others and all(others)
        ):
            found.add(name)
    return found


def _set(block: list[ast.stmt]) -> list[tuple[str, bool]]:
    return [
        (s.targets[0].id, s.value.value)
        for s in block
        if isinstance(s, ast.Assign)
        and len(s.targets) == 1
        and isinstance(s.targets[0], ast.Name)
        and isinstance(s.value, ast.Constant)
        and isinstance(s.value.value, bool)
    ]


def _models(tree: ast.Module) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for node in nodes_in(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if dotted(target):
                    found.setdefault(dotted(target), set()).add(
                        _made_for(node.value)
                    )
    return found


def _made_for(value: ast.expr) -> str | None:
    if not isinstance(value, ast.Call):
        return None
    first = (
        value.args[0]
        if value.args
        else next((k.value for k in value.keywords if k.arg == "params"), None)
    )
    if (
        not isinstance(first, ast.Call)
        or first.args
        or first.keywords
        or not dotted(first.func).endswith(".parameters")
    ):
        return None
    return dotted(first.func).removesuffix(".parameters")


_PURE_CALLS = {
    "hasattr",
    "getattr",
    "isinstance",
    "len",
    "bool",
    "int",
    "any",
    "all",
}
_PURE_METHODS = {"get", "keys", "startswith", "lower", "is_available"}


def is_pure(expr: ast.expr) -> bool:
    """Whether evaluating a condition changes nothing."""
    for node in nodes_in(expr):
        if isinstance(
            node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
        ):
            return False
        if isinstance(node, ast.Call) and not _is_pure_call(node):
            return False
    return True


def _is_pure_call(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in _PURE_METHODS
    return dotted(call.func) in _PURE_CALLS
