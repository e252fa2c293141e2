"""Methods that perturb weights by their gradients' direction alone, as adversarial training does:
`param.data.add_(epsilon * param.grad / torch.norm(param.grad))`. A gradient that carries a factor
has the same direction; one that overflowed spoils weights that are put back before the step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.gradients import GRADIENTS, LINEAR

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_ASKS = frozenset({"isnan", "isinf", "isfinite", "sign"})
_DEEP = 8


def is_scale_free(program: Program, function: Function) -> bool:
    """Whether no factor of the gradients that a method reads shows in what it does, and what it
    changes is put back after each call of it.
    """
    return program.remembered(
        (is_scale_free, function), lambda: _is_free(program, function)
    )


def _is_free(program: Program, function: Function) -> bool:
    cls = program.graph.class_around(program.module.scopes[function])
    if cls is None or not any(map(_is_gradient, nodes_in(function))):
        return False
    kept = set(_kept(function))
    changed = set(_changed(function))
    if not changed or not changed <= {of for of, _ in kept}:
        return False
    degrees = _Degrees(program, function, cls)
    restoring = [
        one
        for one in cls.body
        if isinstance(one, FUNCTIONS)
        and {where for _, where in kept} <= set(_restored(one))
    ]
    return (
        bool(restoring)
        and all(map(degrees.is_plain, _statements(function)))
        and _is_undone(program, function, restoring)
    )


def _is_undone(
    program: Program, function: Function, restoring: list[Function]
) -> bool:
    """Whether each call of the method has a call that puts the weights back behind it, of the
    same object and in the same block.
    """
    names = {one.name for one in restoring}
    sites = program.graph.sites(function)
    return bool(sites) and all(
        any(
            _calls(later, names, site.call)
            for later in _behind(program, site.call)
        )
        for site in sites
    )


def _behind(program: Program, call: ast.Call) -> list[ast.stmt]:
    statement = program.module.statement_of(call)
    block = program.module.block_of(statement)
    at = next(i for i, one in enumerate(block) if one is statement)
    return block[at + 1 :]


def _calls(statement: ast.stmt, names: set[str], first: ast.Call) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(
        call.func, ast.Attribute
    ):
        return False
    assert isinstance(first.func, ast.Attribute)
    same = ast.dump(call.func.value) == ast.dump(first.func.value)
    return same and call.func.attr in names


def _kept(function: Function) -> Iterator[tuple[str, str]]:
    """`param` and `self.backup` of `self.backup[name] = param.data.clone()`."""
    for node in nodes_in(function):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or not isinstance(
            target, ast.Subscript
        ):
            continue
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            data = call.func.value
            where = dotted_name(target.value)
            if call.func.attr == "clone" and _is_data(data) and where:
                yield _owner(data), where


def _changed(function: Function) -> Iterator[str]:
    """`param` of `param.data.add_(x)`, `param.data = x`; "" for what is changed otherwise."""
    for node in nodes_in(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield _owner(node) if _is_data(node) else ""
        elif isinstance(node, ast.AugAssign):
            yield _owner(node.target) if _is_data(node.target) else ""
        elif isinstance(node, ast.Call) and isinstance(
            node.func, ast.Attribute
        ):
            if node.func.attr.endswith("_"):
                held = node.func.value
                yield _owner(held) if _is_data(held) else ""


def _restored(function: Function) -> Iterator[str]:
    """`self.backup` of `param.data = self.backup[name]`."""
    for node in nodes_in(function):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(
            node.value, ast.Subscript
        ):
            if target is not None and _is_data(target):
                yield dotted_name(node.value.value) or ""


def _statements(function: Function) -> Iterator[ast.stmt]:
    for node in nodes_in(function):
        if isinstance(node, ast.stmt) and node is not function:
            yield node


def _is_gradient(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in GRADIENTS


def _is_data(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Attribute) and expr.attr == "data"


def _owner(expr: ast.expr) -> str:
    held = expr.value if isinstance(expr, ast.Attribute) else expr
    return dotted_name(held) or ""


class _Degrees:
    """By which power of their factor the gradients show in a value; None where nobody can tell."""

    def __init__(
        self, program: Program, function: Function, cls: ast.ClassDef
    ) -> None:
        self.program = program
        self.scope: Scope = program.module.scopes[function]
        self.cls = cls

    def is_plain(self, statement: ast.stmt) -> bool:
        """Whether nothing of a factor shows in what a statement does; a local name may hold it."""
        if isinstance(statement, ast.Assign) and all(
            isinstance(one, ast.Name) for one in statement.targets
        ):
            return self.of(statement.value) is not None
        return all(
            self.of(one) == 0
            for one in ast.iter_child_nodes(statement)
            if isinstance(one, ast.expr)
        )

    def of(self, expr: ast.expr, deep: int = _DEEP) -> float | None:
        """The power."""
        if _is_gradient(expr):
            return 1
        if deep == 0:
            return None
        if isinstance(expr, ast.Name):
            return self._named(expr, deep - 1)
        if isinstance(expr, ast.BinOp):
            return self._computed(expr, deep - 1)
        if isinstance(expr, ast.UnaryOp):
            return self.of(expr.operand, deep)
        if isinstance(expr, ast.Call):
            return self._called(expr, deep - 1)
        if isinstance(expr, ast.Compare):
            return self._compared(expr, deep - 1)
        if isinstance(expr, ast.Attribute) and self._is_own(expr):
            return self._kept_in(expr)
        parts = [
            self.of(one, deep - 1)
            for one in ast.iter_child_nodes(expr)
            if isinstance(one, ast.expr)
        ]
        return 0 if all(one == 0 for one in parts) else None

    def _named(self, name: ast.Name, deep: int) -> float | None:
        if not isinstance(name.ctx, ast.Load):
            return 0
        bindings = self.scope.bindings.get(name.id, ())
        values = [one.value for one in bindings if one.how in ("assign", "for")]
        if any(one is None for one in values):
            return None
        found = {self.of(one, deep) for one in values if one is not None}
        if not found:
            return (
                0  # a parameter, a module: they hold no gradient by themselves
            )
        return found.pop() if len(found) == 1 else None

    def _computed(self, expr: ast.BinOp, deep: int) -> float | None:
        left, right = self.of(expr.left, deep), self.of(expr.right, deep)
        if left is None or right is None:
            return None
        if isinstance(expr.op, ast.Mult):
            return left + right
        if isinstance(expr.op, ast.Div):
            return left - right
        return left if left == right else None

    def _called(self, call: ast.Call, deep: int) -> float | None:
        func = call.func
        name = (dotted_name(func) or "").rpartition(".")[2]
        name = func.attr if isinstance(func, ast.Attribute) else name
        of_torch = (self.program.canonical(func) or "").startswith("torch.")
        holder = [func.value] if isinstance(func, ast.Attribute) else []
        given = [*call.args, *(one.value for one in call.keywords)]
        powers = [
            self.of(one, deep) for one in (*(holder * (not of_torch)), *given)
        ]
        if None in powers:
            return None
        if name in _ASKS:
            return 0
        if name in LINEAR and powers and not any(powers[1:]):
            return powers[0]
        return None if any(powers) else 0

    def _compared(self, expr: ast.Compare, deep: int) -> float | None:
        """`norm != 0`; the same power on both sides."""
        sides = [expr.left, *expr.comparators]
        if any(
            isinstance(one, ast.Constant) and one.value is None for one in sides
        ):
            return 0
        powers = {
            self.of(one, deep) for one in sides if number(one, self.scope) != 0
        }
        return 0 if len(powers) == 1 and None not in powers else None

    def _is_own(self, expr: ast.Attribute) -> bool:
        return dotted_name(expr.value) == self.scope.self_name

    def _kept_in(self, expr: ast.Attribute) -> float | None:
        """`self.epsilon`, of a class that keeps no gradient under that name."""
        for node in nodes_in(self.cls):
            if not isinstance(node, (ast.Assign, ast.AugAssign)):
                continue
            targets = (
                node.targets if isinstance(node, ast.Assign) else [node.target]
            )
            named = any(
                isinstance(one, ast.Attribute) and one.attr == expr.attr
                for target in targets
                for one in nodes_in(target)
            )
            if named and any(map(_is_gradient, nodes_in(node.value))):
                return None
        return 0
