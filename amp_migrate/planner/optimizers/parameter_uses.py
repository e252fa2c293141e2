"""Which expressions of a loop may run what an optimizer trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.forwards.module_places import (
    Found,
    Frame,
    Place,
    objects,
    sources,
)
from amp_migrate.model.program import Program
from amp_migrate.model.steps.held_parameters import held
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.methods import HARMLESS

_HOPS = 3
_DEEP = 8
_MOST = 100
"""How many bodies are followed for one call: behind the last, anything may be."""


class ParameterUses:
    """Answers for the modules that one optimizer trains."""

    def __init__(
        self, program: Program, scope: Scope, trained: Sequence[Found]
    ) -> None:
        self.program = program
        self.frame = Frame(program, scope)
        self.places = [p.place for o in trained for p in held(o, runs=True)]
        self._known: dict[ast.AST, bool] = {}
        self._left = _MOST

    def may_be(self, expr: ast.expr) -> bool:
        """Whether a name or attribute is a module with some of the parameters, or may hold one."""
        if expr not in self._known:
            self._known[expr] = self._overlaps(objects(expr, self.frame))
        return self._known[expr]

    def is_made(self, call: ast.Call) -> bool:
        """Whether a call makes one of the modules, or a parameter."""
        return any(place.root is call for place in self.places)

    def _overlaps(self, given: list[Found]) -> bool:
        return any(
            _meet(mine, its)
            for one in given
            for its in _places(one, _HOPS)
            for mine in self.places
        )

    def may_run(self, call: ast.Call) -> bool:
        """Whether a call may compute with the parameters, beside what it is given in values."""
        self._left = _MOST
        return self._runs(call, self.frame, _DEEP)

    def _runs(self, call: ast.Call, frame: Frame, hops: int) -> bool:
        given = [*call.args, *(word.value for word in call.keywords)]
        if any(self._is_named(one, frame) for one in given):
            return True
        function = frame.program.values.callee(call, frame.scope)
        if function is not None:
            return self._body_runs(function, call, frame, hops)
        if self._is_named(call.func, frame):
            return True
        return not self._is_apart(call, frame)

    def _is_named(self, expr: ast.AST, frame: Frame) -> bool:
        """Whether a module that may have the parameters is named anywhere in an expression."""
        parents = frame.program.module.parents
        return any(
            self._overlaps(objects(node, frame))
            for node in nodes_in(expr)
            if isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Load)
            and not isinstance(parents.get(node), ast.Attribute)
        )

    def _body_runs(
        self, function: Function, call: ast.Call, frame: Frame, hops: int
    ) -> bool:
        """Whether a function in sight names such a module, or calls what may run one."""
        inner = frame.program.scope(function)
        own = _receiver(call, frame) if inner.self_name is not None else None
        run = Frame(frame.program, inner, own, call, frame)
        self._left -= 1
        if not hops or self._left < 0:
            return True
        if any(self._is_named(one, run) for one in function.body):
            return True
        return any(self._runs(one, run, hops - 1) for one in inner.calls)

    def _is_apart(self, call: ast.Call, frame: Frame) -> bool:
        """Whether what is called out of sight has nothing of them: functions of libraries and of
        Python, losses, methods of values, and other modules.
        """
        program, func = frame.program, call.func
        if program.canonical(func) is not None:
            return True
        if isinstance(func, ast.Name) and frame.scope.lookup(func.id) is None:
            return True
        kind = program.values.kind(func, frame.scope)
        if kind is Kind.CRITERION or isinstance(func, ast.Call):
            return True
        if isinstance(func, ast.Attribute) and _is_of_values(func.attr):
            return True
        holder = func.value if isinstance(func, ast.Attribute) else func
        if _is_of_torch(func, frame):
            return True
        made = objects(func, frame) or objects(holder, frame)
        if made:
            return all(_is_made(one) for one in made)
        return isinstance(func, ast.Attribute) and not _is_object(func, frame)


def _receiver(call: ast.Call, frame: Frame) -> Found | None:
    """The object that a method is called on."""
    func = call.func
    held_by = func.value if isinstance(func, ast.Attribute) else func
    made = objects(held_by, frame)
    return made[0] if len(made) == 1 and made[0].cls is not None else None


def _is_object(func: ast.Attribute, frame: Frame) -> bool:
    """Whether a method may be of something that holds modules: what nothing shows to be a value."""
    scope = frame.scope
    root: ast.expr = func.value
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    return isinstance(root, ast.Name) and root.id in (scope.self_name, "super")


def _is_of_torch(func: ast.expr, frame: Frame, deep: int = _DEEP) -> bool:
    """Whether a function is one of torch, also where callers pass it: `act(x)` of
    `act=torch.sigmoid`.
    """
    if (frame.program.canonical(func) or "").startswith("torch."):
        return True
    if not deep or not isinstance(func, (ast.Name, ast.Attribute)):
        return False
    given = list(sources(func, frame))
    return bool(given) and all(
        index is None
        and value is not func
        and _is_of_torch(value, where, deep - 1)
        for value, index, where in given
    )


def _is_of_values(method: str) -> bool:
    """Whether a method that no class in sight has is one of tensors and containers."""
    return method in HARMLESS or ops.method(method) is not None


def _is_made(one: Found) -> bool:
    """Whether it is known what makes an object; a parameter may bring anything."""
    return one.call is not None or isinstance(one.place.root, ast.Call)


def _places(one: Found, hops: int) -> Iterator[Place]:
    """The places of a module, of what it holds, and of what it was given when it was made."""
    for inner in held(one):
        yield inner.place
    call = one.call
    if call is None or not hops:
        return
    for given in (*call.args, *(word.value for word in call.keywords)):
        for node in nodes_in(given):
            if isinstance(node, (ast.Name, ast.Attribute)):
                parents = one.frame.program.module.parents
                if isinstance(parents.get(node), ast.Attribute):
                    continue
                for part in objects(node, one.frame):
                    yield from _places(part, hops - 1)


def _meet(one: Place, other: Place) -> bool:
    """Whether one holds the other; `self.net` is one in a class and in its heirs."""
    if isinstance(one.root, ast.ClassDef) and isinstance(
        other.root, ast.ClassDef
    ):
        other = Place(one.root, other.path)
    return one.holds(other) or other.holds(one)
