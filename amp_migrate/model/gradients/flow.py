"""Values that no gradient flows back through: made under `no_grad`, detached, numbers and arrays,
labels; and what helpers return of them. A forward behind one of these trains nothing here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.dataflow.sources import Part, held
from amp_migrate.model.dataflow.taken_entries import entries
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
    shallow,
)
from amp_migrate.model.values.written_values import written_into
from amp_migrate.torch_facts.gradients import CUTS, ENABLES_GRAD, NO_GRAD
from amp_migrate.torch_facts.methods import ARRAY_LIBRARIES, MOVES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 14
_JOINS = (
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.BoolOp,
    ast.Tuple,
)  # a list may be filled later
_PLAIN = (ast.Constant, ast.JoinedStr, ast.Compare, ast.Lambda)
_NUMBERS = frozenset(
    {"int", "float", "bool", "str", "len", "range", "round", "print", "iter"}
)
_MAKERS = (
    "torch.from_numpy",
    "torch.tensor",
    "torch.LongTensor",
    "torch.FloatTensor",
)


def is_no_grad(expr: ast.expr, program: Program) -> bool:
    """`torch.no_grad()` and its kin as a context, or as a decorator, which need not
    be called.
    """
    func = expr.func if isinstance(expr, ast.Call) else expr
    return program.canonical(func) in NO_GRAD


def _is_grad(expr: ast.expr, program: Program) -> bool:
    """`torch.enable_grad()` as a context."""
    return (
        isinstance(expr, ast.Call)
        and program.canonical(expr.func) == ENABLES_GRAD
    )


def under_no_grad(program: Program, node: ast.AST) -> bool:
    """Whether a node stands in a `with torch.no_grad()` of its own function, or that in one."""
    for parent in (node, *program.module.ancestors(node)):
        if isinstance(parent, (ast.With, ast.AsyncWith)) and parent is not node:
            contexts = [item.context_expr for item in parent.items]
            if any(is_no_grad(one, program) for one in contexts):
                return True
            if any(_is_grad(one, program) for one in contexts):
                return False
        if isinstance(parent, FUNCTIONS) and parent is not node:
            return any(
                is_no_grad(mark, program) for mark in parent.decorator_list
            )
    return False


def detached(expr: ast.expr) -> bool:
    """Whether an expression is cut from the graph as a whole: `f(x).detach()`,
    `f(x).max(1)[1].item()`, `int(x)`, `dist.sample()`.
    """
    while True:
        if isinstance(expr, ast.Attribute) and expr.attr == "data":
            return True
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name):
            return expr.func.id in ("int", "float", "bool")
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in CUTS or (
                expr.func.attr == "sample" and not expr.args
            ):
                return True
            expr = expr.func.value
        elif isinstance(expr, (ast.Subscript, ast.Attribute)):
            expr = expr.value
        else:
            return False


def without_gradient(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether no gradient flows back through a value, through the helpers in sight that make it."""
    return _Search(program, set()).cut(expr, scope, _DEEP)


class _Search:
    """One question; what leads back to itself adds no gradient."""

    def __init__(self, program: Program, seen: set[ast.AST]) -> None:
        self.program = program
        self.seen = seen

    def cut(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """Whether no gradient flows through `expr`."""
        if deep == 0:
            return False
        if expr in self.seen or isinstance(expr, _PLAIN) or detached(expr):
            return True
        self.seen.add(expr)
        if isinstance(expr, ast.Call):
            return self._call(expr, scope, deep - 1)
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, deep - 1)
        if isinstance(expr, ast.Subscript):
            return self.cut(expr.value, scope, deep - 1)
        parts = [
            one
            for one in ast.iter_child_nodes(expr)
            if isinstance(one, ast.expr)
        ]
        return isinstance(expr, _JOINS) and all(
            self.cut(one, scope, deep - 1) for one in parts
        )

    def _call(self, call: ast.Call, scope: Scope, deep: int) -> bool:
        program, func = self.program, call.func
        canonical = program.canonical(func) or ""
        if any(one.arg == "requires_grad" for one in call.keywords):
            return False
        if canonical in _MAKERS or canonical.startswith(ARRAY_LIBRARIES):
            return True
        if isinstance(func, ast.Name) and scope.lookup(func.id) is None:
            return func.id in _NUMBERS
        functions = functions_run(program, call, scope)
        if not functions and isinstance(func, ast.Attribute):
            functions = _of_items(program, func, scope)
        if functions:
            return all(
                _Search(home, self.seen).given_back(one, deep)
                for home, one in functions
            )
        if (
            not canonical
            and isinstance(func, ast.Attribute)
            and not self._is_object(func, scope)
        ):
            moved = func.attr in MOVES  # to what is no part of the value
            given = moved or self._all(call, scope, deep)
            return given and self.cut(func.value, scope, deep)
        is_operator = canonical.startswith(
            "torch."
        ) and not canonical.startswith("torch.nn.")
        return is_operator and self._all(call, scope, deep)

    def _is_object(self, func: ast.Attribute, scope: Scope) -> bool:
        """Whether a method is asked of something that may hold models."""
        value = self.program.values.of(func.value, scope)
        return (
            value.cls is not None
            or value.foreign is not None
            or value.name is not None
        )

    def _all(self, call: ast.Call, scope: Scope, deep: int) -> bool:
        given = [*call.args, *(one.value for one in call.keywords)]
        return all(self.cut(one, scope, deep) for one in given)

    def given_back(self, function: Function, deep: int) -> bool:
        """Whether nothing that a function returns carries gradients."""
        if any(
            is_no_grad(mark, self.program) for mark in function.decorator_list
        ):
            return True
        results, scope = returned(function), self.program.scope(function)
        nodes = (
            node for statement in function.body for node in shallow(statement)
        )
        if not results or any(
            isinstance(n, (ast.Yield, ast.YieldFrom)) for n in nodes
        ):
            return False
        return all(
            under_no_grad(self.program, one) or self.cut(one, scope, deep)
            for one in results
        )

    def _named(self, expr: ast.Name | ast.Attribute, deep: int) -> bool:
        """Whether all that gives a name its value is cut; a name that nothing in sight
        gives one may hold anything.
        """
        dotted = dotted_name(expr)
        bindings = (
            self.program.reaching.at(expr, dotted).bindings
            if dotted is not None
            else ()
        )
        if dotted is not None and set_to_collect(self.program, dotted):
            return False
        if isinstance(expr, ast.Attribute) and all(map(_is_none, bindings)):
            return False  # what an heir, or somebody else, sets
        if not self._filled(expr, deep):
            return False
        return bool(bindings) and all(
            self._bound(one, deep) for one in bindings
        )

    def _filled(self, expr: ast.Name | ast.Attribute, deep: int) -> bool:
        """Whether all is cut that is written into what a name holds."""
        if expr not in self.program.module.parents:
            return True
        scope = self.program.module.scope_of(expr)
        return all(
            self.cut(value, where, deep)
            for value, where in written_into(self.program, expr, scope)
        )

    def _bound(self, binding: Binding, deep: int) -> bool:
        value, module = binding.value, self.program.module
        if value is None or binding.statement not in module.parents:
            return False
        if under_no_grad(self.program, binding.statement):
            return True
        # What is added to a value says nothing of what it held before.
        plain = binding.how in ("assign", "walrus")
        return plain and self.cut(value, module.scope_of(value), deep)


def _is_none(binding: Binding) -> bool:
    value = binding.value
    return isinstance(value, ast.Constant) and value.value is None


def set_to_collect(program: Program, dotted: str) -> bool:
    """Whether a name of the program is set to collect gradients."""
    return dotted.rpartition(".")[2] in program.remembered(
        set_to_collect, lambda: frozenset(_leaves(program))
    )


def _leaves(program: Program) -> Iterator[str]:
    """`log_alpha` of `log_alpha.requires_grad = True`, of `self.log_alpha.requires_grad_()`."""
    for node in program.module.parents:
        if not isinstance(node, ast.Attribute):
            continue
        is_set = node.attr == "requires_grad" and isinstance(
            node.ctx, ast.Store
        )
        if is_set or node.attr == "requires_grad_":
            yield (dotted_name(node.value) or "").rpartition(".")[2]


def functions_run(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Function]]:
    """The functions that a call runs, in this file or in others."""
    own = [(program, one) for one in program.values.callees(call, scope)]
    if own or program.graph.class_named(call.func, scope) is not None:
        return own
    abroad = program.values.abroad(call.func, scope)
    if abroad is not None:
        return (
            []
            if isinstance(abroad[1], ast.ClassDef)
            else [(abroad[0], abroad[1])]
        )
    if not isinstance(call.func, ast.Attribute):
        return []
    foreign = program.values.of(call.func.value, scope).foreign
    method = (
        method_of(*foreign, call.func.attr) if foreign is not None else None
    )
    return [method] if method is not None else []


def _of_items(
    program: Program, func: ast.Attribute, scope: Scope
) -> list[tuple[Program, Function]]:
    """The methods of `attack.perturb(x)` of `attack = attacks[i]`, where the table is written out
    and makes each of its entries.
    """
    holder = func.value
    parts: list[Part] = [(program, holder, scope)]
    if isinstance(holder, ast.Name):
        reach = program.reaching.at(holder, holder.id)
        parts = [*held(program, holder, scope)] if reach.complete else []
    found = [entries(part) for part in parts]
    made = [one for some in found for one in some]
    methods = [_method_of(one, func.attr) for one in made]
    known = [one for one in methods if one is not None]
    return known if all(found) and len(known) == len(methods) else []


def _method_of(made: Part, name: str) -> tuple[Program, Function] | None:
    """The method of the object that an expression makes."""
    program, call, scope = made
    if not isinstance(call, ast.Call):
        return None
    cls = program.graph.class_named(call.func, scope)
    if cls is not None:
        return method_of(program, cls, name)
    home, other = program.values.abroad(call.func, scope) or (None, None)
    if home is None or not isinstance(other, ast.ClassDef):
        return None
    return method_of(home, other, name)
