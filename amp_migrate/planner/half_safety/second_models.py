"""Another model, in float32 and outside of autocast, that a helper is given together with what a
model gave under autocast: in a helper in sight, what the model gets is cast there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.reach import abroad
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project.import_paths import resolved

_NO_CAST = DType.INTEGER | DType.OTHER | DType.COMPLEX | DType.NUMBER


def mend_second_model(
    program: Program, call: ast.Call, scope: Scope, hazards: Hazards
) -> None:
    """`synthesize(output, vocoder)`: collect the casts in the helper; raises Refusal where it is
    not seen what becomes of the model there.
    """
    given = [*call.args, *(one.value for one in call.keywords)]
    names = [one for one in given if isinstance(one, ast.Name)]
    outputs = [one for one in names if _is_output(one, scope, hazards)]
    if not outputs or program.values.kind(call.func, scope) in (
        Kind.MODEL,
        Kind.CRITERION,
    ):
        return
    ran = {
        dotted_name(c.func)
        for c in scope.calls
        if hazards.asked.inference.inside(c)
    }
    for one in given:
        if (
            program.values.kind(one, scope) is Kind.MODEL
            and dotted_name(one) not in ran
            and one not in outputs
        ):
            casts = _Followed(program, hazards).casts(call, scope, one)
            if casts is None:
                raise _refusal(program, call, scope, outputs[0].id, one)
            for expr in casts:
                hazards.cast(expr)


def _refusal(
    program: Program, call: ast.Call, scope: Scope, output: str, model: ast.expr
) -> Refusal:
    """Why nothing is cast; the files that may show more are named."""
    statement = program.module.statement_of(call)
    near = [one for one, _, _ in abroad(program, [statement], scope)]
    return Refusal(
        "half-outside-autocast",
        call,
        f"`{output}` leaves autocast in half precision, and `{ast.unparse(call.func)}` gets it "
        f"together with `{ast.unparse(model)}`, whose weights are float32: hand it over in "
        "float32",
        tuple(dict.fromkeys(resolved(one.module.path) for one in near)),
    )


def _is_output(name: ast.Name, scope: Scope, hazards: Hazards) -> bool:
    """Whether a model gives a name its value under autocast, and nothing tells that it is no half
    tensor.
    """
    inference = hazards.asked.inference
    home = scope.lookup(name.id)
    bindings = home.bindings[name.id] if home is scope else []
    made = [
        b.value
        for b in bindings
        if b.how == "assign" and inference.inside(b.statement)
    ]
    effects = inference.program.effects
    runs = [
        v
        for v in made
        if isinstance(v, ast.Call) and effects.is_forward(v, scope)
    ]
    dtypes = hazards.asked.fact(name, scope).dtypes
    return bool(runs) and bool(dtypes & (DType.HALF | DType.UNKNOWN))


class _Followed:
    """What a model is given, wherever a helper hands it on."""

    def __init__(self, program: Program, hazards: Hazards) -> None:
        self.program = program
        self.hazards = hazards
        self.seen: set[tuple[Function, str]] = set()

    def casts(
        self, call: ast.Call, scope: Scope, model: ast.expr
    ) -> list[ast.expr] | None:
        """What must be float32; None where something else happens to the model."""
        functions = self.program.values.callees(call, scope)
        found: list[ast.expr] = []
        for function in functions:
            for name in self._names(call, function, model):
                inner = self._within(function, name)
                if inner is None:
                    return None
                found += inner
        return found if functions else None

    def _names(
        self, call: ast.Call, function: Function, model: ast.expr
    ) -> Iterator[str]:
        """The parameters that get the model; those of a method are passed behind `self`."""
        inner = self.program.scope(function)
        bound = inner.takes_receiver
        for parameter in inner.parameters():
            if argument(call, inner, parameter.arg, bound) is model:
                yield parameter.arg

    def _within(
        self, function: Function, name: str, how: str = "parameter"
    ) -> list[ast.expr] | None:
        """What a function must cast for a name that it has of nothing else."""
        if (function, name) in self.seen:
            return []
        self.seen.add((function, name))
        inner = self.program.scope(function)
        if [b.how for b in inner.bindings.get(name, ())] != [how]:
            return None
        found: list[ast.expr] = []
        for read in self._reads(function, name):
            casts = self._of_read(read, inner)
            if casts is None:
                return None
            found += casts
        return found

    def _each(self, target: ast.expr, scope: Scope) -> list[ast.expr] | None:
        """`for model in models`, which got a list of them: what each of them is given, where the
        name is set by nothing else.
        """
        if not isinstance(target, ast.Name) or not isinstance(
            scope.node, FUNCTIONS
        ):
            return None
        return self._within(scope.node, target.id, "for")

    def _reads(self, function: Function, name: str) -> Iterator[ast.Name]:
        for statement in function.body:
            for node in shallow(statement):
                if isinstance(node, ast.Name) and node.id == name:
                    if isinstance(node.ctx, ast.Load):
                        yield node

    def _of_read(self, read: ast.expr, scope: Scope) -> list[ast.expr] | None:
        """What one use of the model asks for: nothing, casts, or it cannot be told."""
        parents = self.program.module.parents
        parent = parents[read]
        if isinstance(parent, ast.Compare):
            return []
        if isinstance(parent, ast.For) and parent.iter is read:
            return self._each(parent.target, scope)
        if isinstance(parent, ast.keyword):
            parent = parents[parent]
        while isinstance(parent, ast.Attribute):
            read, parent = parent, parents[parent]
        if not isinstance(parent, ast.Call):
            return None
        if parent.func is not read:
            return (
                self.casts(parent, scope, read)
                if isinstance(read, ast.Name)
                else None
            )
        given = [*parent.args, *(one.value for one in parent.keywords)]
        facts = [(one, self.hazards.asked.fact(one, scope)) for one in given]
        halves = [(one, fact) for one, fact in facts if _may_hold_half(fact)]
        return (
            [one for one, _ in halves]
            if all(_is_cast(fact) for _, fact in halves)
            else None
        )


def _may_hold_half(fact: Fact) -> bool:
    return bool(fact.dtypes & (DType.HALF | DType.UNKNOWN))


def _is_cast(fact: Fact) -> bool:
    """Whether `.float()` can be asked of it, and changes nothing of what is float32."""
    return fact.seen_half and not fact.dtypes & _NO_CAST
