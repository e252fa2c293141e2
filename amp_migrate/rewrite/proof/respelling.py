"""Proof that two programs use AMP alike, whatever generation of torch's names they use."""

from __future__ import annotations

import ast
from typing import Any

from amp_migrate.model.naming.names import Imports, imports_of
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.proof.compare import is_same

_OLD = {"torch.cuda.amp": "cuda", "torch.cpu.amp": "cpu"}
_TYPES = {"cuda": "float16", "cpu": "bfloat16"}
_ORDERS = {
    ("autocast", False): ("enabled", "dtype", "cache_enabled"),
    ("autocast", True): ("device_type", "dtype", "enabled", "cache_enabled"),
    ("GradScaler", False): (
        "init_scale",
        "growth_factor",
        "backoff_factor",
        "growth_interval",
        "enabled",
    ),
    ("GradScaler", True): (
        "device",
        "init_scale",
        "growth_factor",
        "backoff_factor",
        "growth_interval",
        "enabled",
    ),
    ("custom_fwd", False): ("fwd",),
    ("custom_fwd", True): ("fwd",),
    ("custom_bwd", False): ("bwd",),
    ("custom_bwd", True): ("bwd",),
}
_DEVICE = {
    "autocast": "device_type",
    "GradScaler": "device",
    "custom_fwd": "device_type",
    "custom_bwd": "device_type",
}
_GETTERS = {
    "torch.get_autocast_gpu_dtype": ("get_autocast_dtype", "cuda"),
    "torch.get_autocast_cpu_dtype": ("get_autocast_dtype", "cpu"),
    "torch.set_autocast_gpu_dtype": ("set_autocast_dtype", "cuda"),
    "torch.set_autocast_cpu_dtype": ("set_autocast_dtype", "cpu"),
    "torch.is_autocast_cpu_enabled": ("is_autocast_enabled", "cpu"),
    "torch.set_autocast_cpu_enabled": ("set_autocast_enabled", "cpu"),
}


def same_amp(original: str, output: str) -> bool:
    """Whether both are the same program, every AMP name and argument in one form."""
    try:
        before, after = ast.parse(original), ast.parse(output)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return is_same(
        _Canonical(before).visit(before), _Canonical(after).visit(after)
    )


class _Canonical(ast.NodeTransformer):
    """Brings the AMP of one tree to one form; whatever it does not know stays, and shows as a
    difference.
    """

    def __init__(self, tree: ast.Module) -> None:
        found = [
            n
            for n in nodes_in(tree)
            if isinstance(n, (ast.Import, ast.ImportFrom))
        ]
        self.imports: Imports = imports_of(found)

    def _name(self, node: ast.AST) -> tuple[str, str | None] | None:
        """What of AMP an expression is, with the device where an old name tells it."""
        name = (
            self.imports.canonical(node)
            if isinstance(node, (ast.Name, ast.Attribute))
            else None
        )
        module, _, last = (name or "").rpartition(".")
        if name == "torch.autocast" or name == "torch.GradScaler":
            return last, None
        if module in ("torch.amp", *_OLD) and last in _DEVICE:
            return last, _OLD.get(module)
        return None

    def visit_Import(self, node: ast.Import) -> Any:
        """`import torch` may come in."""
        node.names = [
            a
            for a in node.names
            if not (
                a.name == "torch" or a.name.startswith((*_OLD, "torch.amp"))
            )
        ]
        return node if node.names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """What is imported shows where it is used."""
        if node.level or node.module not in (
            "torch",
            "torch.cuda",
            "torch.cpu",
            "torch.amp",
            *_OLD,
        ):
            return node
        plain = node.module in ("torch", "torch.cuda", "torch.cpu")
        node.names = [
            a
            for a in node.names
            if plain and a.name not in ("amp", "autocast", "GradScaler")
        ]
        return node if node.names else None

    def visit_Call(self, node: ast.Call) -> Any:
        """A region, a scaler, or a decorator with arguments."""
        known = self._name(node.func)
        if known is None:
            return self._getter(node)
        last, old = known
        order = _ORDERS[last, old is None]
        if len(node.args) > len(order) or any(
            isinstance(a, ast.Starred) for a in node.args
        ):
            return self.generic_visit(node)
        given = dict(zip(order, node.args, strict=False)) | {
            k.arg or "**": k.value for k in node.keywords
        }
        self.generic_visit(node)
        return _made(
            last,
            {name: self.visit(value) for name, value in given.items()},
            old,
        )

    def _getter(self, node: ast.Call) -> Any:
        name = self.imports.canonical(node.func)
        self.generic_visit(node)
        if name in _GETTERS:
            new, device = _GETTERS[name]
            node.args.insert(0, ast.Constant(device))
            node.func = ast.Name(f"<{new}>", ast.Load())
        elif (
            name is not None
            and name.startswith("torch.")
            and name[6:] in {new for new, _ in _GETTERS.values()}
        ):
            node.func = ast.Name(f"<{name[6:]}>", ast.Load())
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        """A name that an import binds."""
        return self._named(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """A name through its module."""
        return self._named(node) or self.generic_visit(node)

    def _named(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        """The class as a type, and decorators without parentheses."""
        known = self._name(node)
        if known is None or not isinstance(node.ctx, ast.Load):
            return None
        last, old = known
        if last.startswith("custom") and old is not None:
            return _made(last, {}, old)
        return (
            ast.Name("<GradScaler>", ast.Load())
            if last == "GradScaler"
            else None
        )


def _made(last: str, given: dict[str, ast.expr], old: str | None) -> ast.Call:
    """The call with all that it means: the device, and the type that autocast takes by itself."""
    device = _DEVICE[last]
    if old is not None:
        given[device] = ast.Constant(old)
    elif last == "GradScaler":
        given.setdefault(device, ast.Constant("cuda"))
    kind = given.get(device)
    if last == "autocast":
        enabled = given.get("enabled")
        off = isinstance(enabled, ast.Constant) and not enabled.value
        name = (
            _TYPES.get(kind.value)
            if isinstance(kind, ast.Constant) and isinstance(kind.value, str)
            else None
        )
        if name is not None:
            given.setdefault(
                "dtype",
                ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load()),
            )
        if off:
            given.pop("dtype", None)
        dtype = given.get("dtype")
        if isinstance(dtype, ast.Attribute) and isinstance(
            dtype.value, ast.Name
        ):
            given["dtype"] = ast.Attribute(
                ast.Name("torch", ast.Load()), dtype.attr, ast.Load()
            )
    keywords = [
        ast.keyword(name, value) for name, value in sorted(given.items())
    ]
    return ast.Call(ast.Name(f"<{last}>", ast.Load()), [], keywords)
