"""Which attributes the classes of a program keep, by assignment or by use."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from amp_migrate.model.classes.ancestry import ancestry
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Module

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


_NO_SCALERS = ("torch.nn.", "torch.optim.", "torch.Tensor")
"""What classes of torch are called that are none of scalers."""


class Attributes:
    """Answers for one program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def has(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether `self.name` is an attribute: set in the class, its bases or heirs in sight, or
        looked into (`self.model.parameters()`), as only an object that a base class keeps is.
        """
        graph = self.program.graph
        family = [*graph.lineage(cls), *graph.heirs(cls)]
        scopes = self.program.module.scopes
        return any(
            f"self.{name}" in scopes[one].bindings for one in family
        ) or any(name in self._looked_into.get(one, ()) for one in family)

    def takes(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether `self.name = ...` may be added: not where `__slots__` name every attribute, nor
        in a frozen dataclass or a named tuple, nor where a `__setattr__` may do else than set it.
        """
        lineage = self.program.graph.lineage(cls)
        if any(
            _sets_its_way(home.module, one)
            for home, one in ancestry(self.program.reaching, cls)
        ):
            return False
        if any(_is_frozen(one) for one in lineage):
            return False
        slots = [
            self.program.module.scopes[one].bindings.get("__slots__")
            for one in lineage
        ]
        named = [_constants(b.value) for held in slots for b in held or ()]
        return not all(slots) or any(
            name in one or "__dict__" in one for one in named
        )

    def is_read(self, name: str) -> bool:
        """Whether a variable or an attribute of this name is read anywhere in the program."""
        return name in self._read

    @cached_property
    def _read(self) -> set[str]:
        nodes = (
            node
            for node in self.program.module.parents
            if isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Load)
        )
        return {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in nodes
        }

    @cached_property
    def _looked_into(self) -> dict[ast.AST, set[str]]:
        found: dict[ast.AST, set[str]] = {}
        module = self.program.module
        for node in module.parents:
            if not isinstance(node, ast.Attribute) or not isinstance(
                node.value, ast.Attribute
            ):
                continue
            inner = node.value
            if isinstance(inner.value, ast.Name) and inner.value.id == "self":
                for above in module.ancestors(node):
                    if isinstance(above, ast.ClassDef):
                        found.setdefault(above, set()).add(inner.attr)
        return found


def _sets_its_way(module: Module, cls: ast.ClassDef) -> bool:
    """Whether a class has a `__setattr__` that does not set whatever it is asked to."""
    own = [
        n
        for n in cls.body
        if isinstance(n, FUNCTIONS) and n.name == "__setattr__"
    ]
    named = [
        n for n in cls.body if isinstance(n, ast.Assign) and _names_setattr(n)
    ]
    return bool(named) or not all(
        _always_sets(module, method) for method in own
    )


def _names_setattr(statement: ast.Assign) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == "__setattr__"
        for one in statement.targets
    )


def _always_sets(module: Module, method: Function) -> bool:
    """`super().__setattr__(name, value)` under no condition that a scaler does not meet, where
    nothing raises.
    """
    if any(
        isinstance(one, (ast.Raise, ast.Assert, ast.Return))
        for one in ast.walk(method)
    ):
        return False
    return any(_sets(module, method, one) for one in method.body)


def _sets(module: Module, method: Function, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If) and _asks_otherwise(
        module, method, statement.test
    ):
        return any(_sets(module, method, one) for one in statement.orelse)
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "__setattr__"


def _asks_otherwise(module: Module, method: Function, test: ast.expr) -> bool:
    """`isinstance(value, nn.Module)`, which no scaler is."""
    if not isinstance(test, ast.Call) or len(test.args) != 2:
        return False
    value, cls = test.args
    given = [one.arg for one in method.args.args]
    names = [test.func, value]
    asked = [one.id for one in names if isinstance(one, ast.Name)]
    kinds = cls.elts if isinstance(cls, ast.Tuple) else [cls]
    return asked == ["isinstance", *given[2:3]] and all(
        (module.canonical(one) or "").startswith(_NO_SCALERS) for one in kinds
    )


def _is_frozen(cls: ast.ClassDef) -> bool:
    """`@dataclass(frozen=True)`, `@dataclass(slots=True)`, a `NamedTuple`"""
    makers = [one for one in cls.decorator_list if isinstance(one, ast.Call)]
    set_ = {k.arg for one in makers for k in one.keywords if _is_true(k.value)}
    bases = {(dotted_name(base) or "").rpartition(".")[2] for base in cls.bases}
    return bool(set_ & {"frozen", "slots"}) or "NamedTuple" in bases


def _is_true(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is True


def _constants(expr: ast.expr | None) -> set[object]:
    nodes = ast.walk(expr) if expr is not None else ()
    return {node.value for node in nodes if isinstance(node, ast.Constant)}


def self_calls(function: ast.stmt, calls: list[ast.Call]) -> set[str]:
    """Methods that a function calls by `self.name(...)` or `super().name(...)`."""
    assert isinstance(function, FUNCTIONS)
    funcs = (call.func for call in calls)
    return {
        func.attr
        for func in funcs
        if isinstance(func, ast.Attribute) and _is_own(func.value)
    }


def _is_own(holder: ast.expr) -> bool:
    if isinstance(holder, ast.Call):
        return isinstance(holder.func, ast.Name) and holder.func.id == "super"
    return isinstance(holder, ast.Name) and holder.id == "self"
