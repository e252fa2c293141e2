"""What the names of a module mean while apex is taken to be installed: apex's own, and the flags
that ask for it.
"""

from __future__ import annotations

import ast
from functools import cached_property

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Module, Scope
from amp_migrate.model.syntax.queries import nodes_in

REMOVED = (
    "apex.amp",
    "apex.fp16_utils",
    "apex.parallel",
    "apex.RNN",
    "apex.reparameterization",
)
"""Subpackages that apex no longer has (its commit cb65b8e, May 2025)."""
_PRECISION = ("apex.amp", "apex.fp16_utils")
"""Those that decide in which precision a program computes."""
_ALIASES = (
    ("apex.amp.frontend.", "apex.amp."),
    ("apex.amp.handle.", "apex.amp."),
    ("apex.parallel.distributed.", "apex.parallel."),
    ("apex.fp16_utils.fp16util.", "apex.fp16_utils."),
    ("apex.fp16_utils.fp16_optimizer.", "apex.fp16_utils."),
    ("apex.optimizers.fused_adam.", "apex.optimizers."),
    ("apex.optimizers.fused_sgd.", "apex.optimizers."),
    ("apex.normalization.fused_layer_norm.", "apex.normalization."),
)
_FP16_UTILS = frozenset(
    {
        "BN_convert_float",
        "network_to_half",
        "prep_param_lists",
        "model_grads_to_master_grads",
        "master_params_to_model_params",
        "tofp16",
        "to_python_float",
        "clip_grad_norm",
        "convert_module",
        "convert_network",
        "FP16Model",
        "FP16_Optimizer",
        "LossScaler",
        "DynamicLossScaler",
    }
)
_MISSING = frozenset(
    {
        "ImportError",
        "ModuleNotFoundError",
        "Exception",
        "BaseException",
        "AttributeError",
    }
)


def origin(statement: ast.AST, local: str) -> str | None:
    """What `local` stands for after an absolute import."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname == local:
                return alias.name
            if alias.asname is None and alias.name.partition(".")[0] == local:
                return local
    if isinstance(statement, ast.ImportFrom) and not statement.level:
        for alias in statement.names:
            if (alias.asname or alias.name) == local:
                return f"{statement.module}.{alias.name}"
    return None


def is_apex(name: str | None) -> bool:
    """Whether a dotted name is apex or something in it."""
    return name is not None and (name == "apex" or name.startswith("apex."))


def is_removed(name: str) -> bool:
    """Whether apex no longer has what `name` stands for."""
    return _is_in(name, REMOVED)


def is_precision(name: str) -> bool:
    """Whether `name` is of the parts of apex that decide in which precision a program computes."""
    return _is_in(name, _PRECISION)


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in packages)


def imports_apex(statement: ast.stmt) -> bool:
    """Whether a statement imports something of apex."""
    if isinstance(statement, ast.Import):
        return any(is_apex(alias.name) for alias in statement.names)
    return (
        isinstance(statement, ast.ImportFrom)
        and not statement.level
        and is_apex(statement.module)
    )


def is_guard(statement: ast.AST) -> bool:
    """`try:` that imports apex, with handlers for where it is missing."""
    if (
        not isinstance(statement, ast.Try)
        or not statement.handlers
        or statement.finalbody
    ):
        return False
    return any(imports_apex(s) for s in statement.body) and all(
        map(_is_for_missing, statement.handlers)
    )


def _is_for_missing(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(
        isinstance(n, ast.Name) and n.id in _MISSING
        for n in nodes_in(handler.type)
    )


class ApexNames:
    """The names of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def canonical(self, expr: ast.expr) -> str | None:
        """The dotted apex name behind an expression, None where it is none."""
        dotted = dotted_name(expr)
        if dotted is None:
            return None
        head, _, rest = dotted.partition(".")
        found = self._head(head, expr)
        if found is None or not is_apex(found):
            return None
        name = f"{found}.{rest}" if rest else found
        for long, short in _ALIASES:
            name = short + name[len(long) :] if name.startswith(long) else name
        return name

    def _head(self, name: str, expr: ast.expr) -> str | None:
        home = (
            self.module.scope_of(expr).lookup(name)
            if expr in self.module.parents
            else None
        )
        if home is None:
            return (
                f"apex.fp16_utils.{name}"
                if self._star and name in _FP16_UTILS
                else None
            )
        origins = {
            origin(b.statement, name)
            for b in home.bindings[name]
            if b.how == "import"
        }
        apex = {o for o in origins if is_apex(o)}
        others = [b for b in home.bindings[name] if b.how != "import"]
        if len(apex) != 1 or not all(self._is_placeholder(b) for b in others):
            return None
        if origins != apex and not all(
            is_apex(origin(b.statement, name)) or self._in_handler(b.statement)
            for b in home.bindings[name]
            if b.how == "import"
        ):
            return None
        return apex.pop()

    @cached_property
    def _star(self) -> bool:
        """Whether all names of `apex.fp16_utils` are imported."""
        return "apex.fp16_utils" in self.module.imports.stars

    def _is_placeholder(self, binding: Binding) -> bool:
        """`amp = None` where apex is missing or not wanted; what an `except ImportError` puts in
        its place.
        """
        value = binding.value
        empty = isinstance(value, ast.Constant) and (
            value.value is None or value.value is False
        )
        return (binding.how == "assign" and empty) or self._in_handler(
            binding.statement
        )

    def _in_handler(self, statement: ast.AST) -> bool:
        """Whether a statement handles a missing import of apex."""
        above = self.module.parents.get(statement)
        return isinstance(above, ast.ExceptHandler) and is_guard(
            self.module.parents[above]
        )

    def is_flag(self, expr: ast.expr) -> bool:
        """`has_apex`: true exactly where the import of apex has worked."""
        if not isinstance(expr, ast.Name) or expr not in self.module.parents:
            return False
        home = self.module.scope_of(expr).lookup(expr.id)
        return home is not None and self.is_flag_of(expr.id, home)

    def is_flag_of(self, name: str, home: Scope) -> bool:
        """The same for a name of the scope that binds it."""
        bindings = home.bindings[name]
        if not all(b.how == "assign" and _is_bool(b.value) for b in bindings):
            return False
        guarded = [b for b in bindings if self._guarding(b)]
        others = [b for b in bindings if not self._guarding(b)]
        outside = all(home.body and b.statement in home.body for b in others)
        inner = any(
            _truth(b) for b in guarded if not self._in_handler(b.statement)
        )
        lost = all(
            not _truth(b) for b in guarded if self._in_handler(b.statement)
        )
        return (
            bool(guarded)
            and outside
            and lost
            and (inner or (bool(others) and all(map(_truth, others))))
        )

    def _guarding(self, binding: Binding) -> bool:
        above = self.module.parents.get(binding.statement)
        if isinstance(above, ast.ExceptHandler):
            above = self.module.parents[above]
        return above is not None and is_guard(above)


def _is_bool(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _truth(binding: Binding) -> bool:
    return (
        isinstance(binding.value, ast.Constant) and binding.value.value is True
    )
