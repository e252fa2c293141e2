"""Models that stay on the CPU beside others that are moved: a head that is trained on features, a
student that is trained on what its teacher says.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.devices.cpu_batches import is_on_cpu, runs_on_cpu_alone
from amp_migrate.planner.devices.default_devices import sets_default
from amp_migrate.planner.devices.moves import DeviceUse, Move
from amp_migrate.planner.devices.parameters_device import TrainedModels
from amp_migrate.planner.loop import Loop, Stepper
from amp_migrate.planner.steps.step_calls import StepCall
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.layers import LAYER_DATA
from amp_migrate.torch_facts.methods import LEAVES_MODULE

_DEEP = 3


class ModelsOnCpu:
    """Which of a program's models nothing moves."""

    def __init__(
        self, program: Program, use: DeviceUse, trained: TrainedModels
    ) -> None:
        self.program = program
        self.use = use
        self.trained = trained

    def beside_others(self, loop: Loop) -> ast.expr | None:
        """A part of what a loop's optimizers hold that stays on the CPU, where another is moved."""
        steps = [(step, one) for one in loop.steppers for step in one.steps]
        models = [model for step in steps for model in self._models(*step)]
        moved = [self._is_moved(*one) for one in models]
        if not any(moved):
            return None
        for (model, scope), is_moved in zip(models, moved, strict=True):
            if not is_moved and self._is_left(model, scope):
                return model
        leaves = (self._leaf(*step) for step in steps)
        return next((one for one in leaves if one is not None), None)

    def _is_moved(self, model: ast.expr, scope: Scope) -> bool:
        return any(
            self.trained.is_moved(move, model, scope) for move in self.use.moves
        )

    def _is_left(self, model: ast.expr, scope: Scope) -> bool:
        """Whether nothing that is done with a model moves it, by whatever name."""
        made = self._made(model, scope)
        return (
            made is not None
            and self.trained.owner(model, scope) is None
            and not sets_default(self.program)
            and all(self._leaves(one, made) for one in self._uses(model))
        )

    def _leaf(self, step: StepCall, stepper: Stepper) -> ast.expr | None:
        """`codes` of `Adam([*net.parameters(), codes])`, a tensor that is made on the CPU."""
        made = self.program.values.of(step.optimizer, stepper.scope).origin
        if made is None or made not in self.program.module.parents:
            return None
        scope = self.program.module.scope_of(made)
        for node in nodes_in(made):
            if not isinstance(node, (ast.List, ast.Tuple)):
                continue
            for one in node.elts:
                if isinstance(one, ast.Name) and self._is_plain(one, scope):
                    return one
        return None

    def _is_plain(self, leaf: ast.Name, scope: Scope) -> bool:
        return not sets_default(self.program) and is_on_cpu(
            self.program, leaf, scope
        )

    def of(self, loop: Loop) -> ast.expr | None:
        """A model that a loop trains, where all that it trains stay on the CPU."""
        found: list[ast.expr] = []
        for stepper in loop.steppers:
            for step in stepper.steps:
                models = self._models(step, stepper)
                if not models or not all(
                    self._stays(*one) or self._is_fed_there(*one, loop.scope)
                    for one in models
                ):
                    return None
                found += [model for model, _ in models]
        return next(iter(found), None)

    def _models(
        self, step: StepCall, stepper: Stepper
    ) -> list[tuple[ast.expr, Scope]]:
        """`model` of the statement that makes an optimizer of `model.parameters()`."""
        made = self.program.values.of(step.optimizer, stepper.scope).origin
        if made is None or made not in self.program.module.parents:
            return []
        where = self.program.module.scope_of(made)
        return [(model, where) for model in self.trained.asked(made)]

    def _stays(self, model: ast.expr, scope: Scope) -> bool:
        """Whether a model is made in sight, and nothing that can be seen moves it."""
        made = self._made(model, scope)
        return (
            made is not None
            and self.trained.owner(model, scope) is None
            and not (sets_default(self.program) or self.use.helped)
            and all(
                self._is_of_another(move, made) or self._is_apart(move, scope)
                for move in self.use.moves
            )
            and all(self._leaves(one, made) for one in self._uses(model))
        )

    def _is_fed_there(self, model: ast.expr, scope: Scope, loop: Scope) -> bool:
        """Whether a model that nothing is seen to move runs on batches of the CPU alone."""
        made = self._made(model, scope)
        return (
            made is not None
            and not sets_default(self.program)
            and not any(
                self.trained.is_moved(move, model, scope)
                for move in self.use.moves
            )
            and runs_on_cpu_alone(self.program, made, loop)
        )

    def _made(self, model: ast.expr, scope: Scope) -> ast.Call | None:
        """The call that makes a model on the CPU."""
        value = self.program.values.of(model, scope)
        made = value.origin
        if value.kind is not Kind.MODEL or not isinstance(made, ast.Call):
            return None
        if made not in self.program.module.parents or _names_device(made):
            return None
        where = self.program.module.scope_of(made)
        if self._is_given_a_model(made, where) or self._is_part(where):
            return None
        cls = self.program.graph.class_named(made.func, where)
        if cls is not None:
            own = self.program.graph.lineage(cls)
            inside = {
                self.program.graph.class_around(m.scope) for m in self.use.moves
            }
            is_free = inside.isdisjoint(own) and not any(map(self._places, own))
            return made if is_free else None
        other, found = self.program.values.abroad(made.func, where) or (
            None,
            None,
        )
        if other is not None and isinstance(found, ast.ClassDef):
            return None if DeviceUse(other).moves else made
        name = self.program.canonical(made.func) or ""
        return made if name.startswith("torch.nn.") else None

    def _places(self, cls: ast.ClassDef) -> bool:
        """Whether a module makes its layers on a device: `nn.Linear(6, 8, device=device)`."""
        return any(
            (self.program.canonical(call.func) or "").startswith("torch.nn.")
            and _names_device(call)
            for call in nodes_in(cls)
            if isinstance(call, ast.Call)
        )

    def _is_part(self, where: Scope) -> bool:
        """Whether what is made there belongs to a module, with which it moves."""
        cls = self.program.graph.class_around(where)
        values = self.program.values
        return cls is not None and values.class_kind(cls) is Kind.MODEL

    def _is_given_a_model(self, made: ast.Call, where: Scope) -> bool:
        """`DataParallel(net)`, `Classifier(backbone.to(device))`: what is within may be moved by
        another name. Layers of torch take numbers.
        """
        row = layers.layer(self.program.canonical(made.func))
        if row is not None and row.role == "layer":
            return False
        given = (*made.args, *(word.value for word in made.keywords))
        return any(
            self.program.values.kind(node, where) in (Kind.MODEL, Kind.UNKNOWN)
            for one in given
            for node in nodes_in(one)
            if isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Load)
            and self.program.canonical(node) is None
        )

    def _is_of_another(self, move: Move, made: ast.Call) -> bool:
        """Whether another model is moved, or what another model gets."""
        if self._is_other(move.moved, move.scope, made):
            return True
        return any(
            self._is_other(call.func, move.scope, made)
            for call in self._calls_around(move.call)
        )

    def _is_apart(self, move: Move, scope: Scope) -> bool:
        """Whether a move stands in a function that has nothing to do with `scope`."""
        apart = move.scope is not scope and move.scope.is_function
        return apart and not self.trained.order.leads(move.scope, scope)

    def _is_other(self, model: ast.expr, scope: Scope, made: ast.Call) -> bool:
        """Whether a model is made by another call."""
        value = self.program.values.of(model, scope)
        return (
            value.kind is Kind.MODEL
            and isinstance(value.origin, ast.Call)
            and value.origin is not made
        )

    def _calls_around(self, node: ast.AST) -> Iterator[ast.Call]:
        """The call that an expression is an argument of."""
        above = self.program.module.parents[node]
        if isinstance(above, ast.Call) and node in above.args:
            yield above

    def _uses(self, model: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
        """Where something is read under the name that a model has."""
        last = (dotted_name(model) or "").rpartition(".")[2]
        for node in self.program.module.parents:
            if (
                isinstance(node, ast.Name)
                and node.id == last
                or (isinstance(node, ast.Attribute) and node.attr == last)
            ):
                if isinstance(node.ctx, ast.Load):
                    yield node

    def _leaves(
        self, read: ast.Name | ast.Attribute, made: ast.Call, deep: int = _DEEP
    ) -> bool:
        """Whether a use of the model's name leaves the model where it is: it is called, or asked
        for something, also by a function in sight; else nobody knows.
        """
        scope = self.program.module.scope_of(read)
        if self._is_other(read, scope, made):
            return True
        above = self.program.module.parents[read]
        if isinstance(above, ast.Attribute):
            name = self.program.canonical(made.func) or ""
            is_data = name.startswith("torch.nn.") and above.attr in LAYER_DATA
            return above.attr in LEAVES_MODULE or is_data
        if not isinstance(above, ast.Call):
            return False
        return above.func is read or self._is_handed_on(
            above, read, scope, made, deep
        )

    def _is_handed_on(
        self,
        call: ast.Call,
        read: ast.expr,
        scope: Scope,
        made: ast.Call,
        deep: int,
    ) -> bool:
        """Whether a function in sight that is handed the model leaves it where it is."""
        function = self.program.values.callee(call, scope)
        if function is None or not deep:
            return False
        inner = self.program.scope(function)
        names = [
            one.arg
            for one in inner.parameters()
            if argument(call, inner, one.arg, inner.self_name is not None)
            is read
        ]
        reads = [
            node
            for statement in function.body
            for node in nodes_in(statement)
            if isinstance(node, ast.Name) and node.id in names
        ]
        return bool(names) and all(
            isinstance(one.ctx, ast.Load) and self._leaves(one, made, deep - 1)
            for one in reads
        )


def _names_device(made: ast.Call) -> bool:
    """Whether a model, or a layer in it, is made on a device: `nn.Linear(6, 8, **factory)`."""
    calls = (one for one in nodes_in(made) if isinstance(one, ast.Call))
    return any(
        word.arg in (None, "device") for one in calls for word in one.keywords
    )
