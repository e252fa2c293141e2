"""Which expressions are gradient scalers: by what they are; failing that, by name and use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.effects import last_name
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.patterns import pattern

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

SCALER_METHODS: dict[str, EventKind] = {
    "scale": EventKind.SCALE,
    "unscale_": EventKind.UNSCALE,
    "step": EventKind.SCALER_STEP,
    "update": EventKind.UPDATE,
}
_SCALER_NAME = pattern(r"(?i)scaler")
_PROTOCOL = {"scale", "step", "update"}
"""What is called on nothing but a scaler, whatever its name is."""
_OTHER_SCALERS = {
    "fit",
    "transform",
    "fit_transform",
    "inverse_transform",
    "minimize",
    "partial_fit",
}


class Scalers:
    """Answers for one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[tuple[int, int], bool] = {}

    def has_method(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call is of a method of a scaler."""
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and func.attr in SCALER_METHODS
            and self.is_one(func.value, scope)
        )

    def is_one(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is a GradScaler that may be enabled: by what it is; failing that, by name
        and use.
        """
        key = (id(expr), id(scope))
        if key not in self._known:
            self._known[key] = self._is_scaler(expr, scope)
        return self._known[key]

    def _is_scaler(self, expr: ast.expr, scope: Scope) -> bool:
        value = self.program.values.of(expr, scope)
        if value.kind is Kind.SCALER:
            return not (
                isinstance(value.origin, ast.Call) and is_disabled(value.origin)
            ) or self._handed(expr, scope)
        if value or self._is_other_scaler(expr, scope):
            return False
        named = expr
        while isinstance(named, ast.Subscript):
            named = named.value
        name = dotted_name(named)
        if name is None or "torch" not in self.program.module.text:
            return False
        used = self.program.values.methods_used(name, scope)
        if not _SCALER_NAME.search(name.rpartition(".")[2]):
            return used >= _PROTOCOL
        return not used & _OTHER_SCALERS

    def _handed(self, expr: ast.expr, scope: Scope) -> bool:
        """A parameter `scaler=None` that is disabled only where it is absent."""
        home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
        return (
            home is not None
            and isinstance(expr, ast.Name)
            and home.bindings[expr.id][0].how == "parameter"
        )

    def _is_other_scaler(self, expr: ast.expr, scope: Scope) -> bool:
        """Made by a class in sight of the imports that is no GradScaler: `DynamicLossScaler()`."""
        name = dotted_name(expr)
        around = self.program.graph.class_around(scope)
        home = scope.lookup(name) if name else None
        if (
            name
            and around is not None
            and name.partition(".")[0] == scope.self_name
        ):
            home, name = (
                self.program.module.scopes[around],
                "self." + name.partition(".")[2],
            )
        made = (
            [
                b.value
                for b in home.bindings.get(name, ())
                if isinstance(b.value, ast.Call)
            ]
            if home and name
            else []
        )
        makers = [last_name(call.func) for call in made]
        return any(
            maker[:1].isupper() and "GradScaler" not in maker
            for maker in makers
        )


def is_disabled(call: ast.Call) -> bool:
    """`GradScaler(..., enabled=False)`, `autocast(..., enabled=False)`."""
    return any(
        k.arg == "enabled"
        and isinstance(k.value, ast.Constant)
        and not k.value.value
        for k in call.keywords
    )
