"""Which values of a loop have gradients for the parameters of one optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.gradients.flow import detached, under_no_grad
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.optimizers.parameter_uses import ParameterUses
from amp_migrate.torch_facts.methods import HARMLESS, MOVES, VIEWS

FED, OTHER, NONE = "fed", "other", "none"
"""With gradients for the parameters; without; with no gradients at all, as a number."""
Values = frozenset[str]
"""What a value may be."""
State = dict[str, Values]

_FED, _OTHER, _NONE = (frozenset({one}) for one in (FED, OTHER, NONE))


class FedValues:
    """Answers for the expressions of one scope."""

    def __init__(self, scope: Scope, uses: ParameterUses) -> None:
        self.scope = scope
        self.uses = uses

    def of(self, expr: ast.expr, state: State) -> Values:
        """What an expression may be where names hold what `state` says."""
        program = self.uses.program
        if isinstance(expr, ast.Constant) or detached(expr):
            return _NONE
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, state)
        if isinstance(expr, ast.Subscript):
            return self.of(expr.value, state)
        if isinstance(expr, ast.IfExp):
            return self.of(expr.body, state) | self.of(expr.orelse, state)
        if isinstance(expr, ast.Call):
            if under_no_grad(program, expr):
                return _NONE
            return self._called(expr, state)
        if isinstance(expr, ast.Lambda):
            return _FED
        return together(self.of(one, state) for one in _parts(expr))

    def _named(self, expr: ast.Name | ast.Attribute, state: State) -> Values:
        dotted = dotted_name(expr)
        while dotted:
            if dotted in state:
                return state[dotted]
            dotted = dotted.rpartition(".")[0]
        if isinstance(expr, ast.Attribute) and dotted_name(expr) is None:
            return self.of(expr.value, state)
        if self.uses.may_be(expr) or self._is_set_elsewhere(expr):
            return _FED
        return _OTHER

    def _is_set_elsewhere(self, expr: ast.expr) -> bool:
        """`self.loss` that other methods than the constructor set, or nothing in sight."""
        program = self.uses.program
        cls = program.graph.class_around(self.scope)
        head, _, rest = (dotted_name(expr) or "").partition(".")
        if cls is None or head != self.scope.self_name or not rest:
            return False
        name = f"self.{rest.partition('.')[0]}"
        module = program.module
        held = [
            one
            for owner in program.graph.lineage(cls)
            for one in module.scopes[owner].bindings.get(name, ())
        ]
        return not held or any(
            not module.scope_of(one.statement).qualname.endswith("__init__")
            for one in held
        )

    def _called(self, call: ast.Call, state: State) -> Values:
        func = call.func
        if self.uses.is_made(call):
            return _FED
        given = [*call.args, *(word.value for word in call.keywords)]
        values = [self.of(one, state) for one in given]
        if isinstance(func, ast.Attribute) and (
            func.attr in HARMLESS or self._is_value(func.value, state)
        ):
            receiver = self.of(func.value, state)
            if func.attr in VIEWS or func.attr in (*MOVES, "float"):
                return receiver
            return together([receiver, *values])
        if self.uses.may_run(call):
            return _FED
        canonical = self.uses.program.canonical(func) or ""
        is_plain = canonical.startswith("torch.") and ".nn." not in canonical
        return together([*values, _NONE if is_plain else _OTHER])

    def _is_value(self, expr: ast.expr, state: State) -> bool:
        """Whether a method is one of a value: of what the loop computes, and of what calls give."""
        name = dotted_name(expr)
        if isinstance(expr, ast.Call) and dotted_name(expr.func) == "super":
            return False
        if name is None:
            return not isinstance(expr, ast.Subscript) or self._is_value(
                expr.value, state
            )
        while name:
            if name in state:
                return True
            name = name.rpartition(".")[0]
        return False


def _parts(expr: ast.expr) -> list[ast.expr]:
    """The values that an expression is made of."""
    if isinstance(expr, (ast.List, ast.Tuple, ast.Set)):
        return expr.elts
    if isinstance(expr, ast.Dict):
        return expr.values
    if isinstance(expr, ast.BinOp):
        return [expr.left, expr.right]
    if isinstance(expr, ast.BoolOp):
        return expr.values
    if isinstance(expr, ast.UnaryOp):
        return [expr.operand]
    if isinstance(expr, (ast.Starred, ast.NamedExpr, ast.Await)):
        return [expr.value]
    if isinstance(expr, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return [expr.elt, *(one.iter for one in expr.generators)]
    if isinstance(expr, ast.DictComp):
        return [expr.value, *(one.iter for one in expr.generators)]
    return []


def together(values: Iterable[Values]) -> Values:
    """What is computed of several values: with gradients where any of them has some."""
    known = list(values)
    if any(one == _FED for one in known):
        return _FED
    ways = {FED for one in known if FED in one}
    if not known or all(one == _NONE for one in known):
        return _NONE
    plain = {NONE} if all(NONE in one for one in known) else set()
    rest = {OTHER} if any(OTHER in one for one in known) else set()
    return frozenset(ways | plain | rest)
