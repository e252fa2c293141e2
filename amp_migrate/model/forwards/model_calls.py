"""Which calls run a model: by the definition behind them, wherever it stands; where none is in
sight, by what is called and handed over; last, by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.partials import bound_calls
from amp_migrate.model.classes.bases_abroad import called_of_base
from amp_migrate.model.forwards.given_models import is_passed
from amp_migrate.model.naming.import_reads import is_import
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Function, Scope, is_abstract
from amp_migrate.model.values.kinds import Kind, Value, criterion_name
from amp_migrate.patterns import pattern
from amp_migrate.torch_facts import ops

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition
    from amp_migrate.model.steps.effects import Effects

_PLAIN_METHODS = {
    "parameters", "named_parameters", "train", "eval", "zero_grad", "state_dict", "load_state_dict",
    "to", "cuda", "cpu",
    "half", "float", "double", "requires_grad_", "apply", "modules", "children", "named_modules",
    "named_children", "buffers",
    "share_memory", "register_buffer", "add_module", "type", "extra_repr", "init_hidden",
    "initHidden", "init_weights", "size",
    "reset_parameters", "save", "load", "save_pretrained", "print_networks", "save_networks",
    "summary", "reset",
}  # fmt: skip
_ACTIVATIONS = {
    f"torch.nn.{name}"
    for name in (
        "Sigmoid",
        "ReLU",
        "LeakyReLU",
        "Tanh",
        "Softmax",
        "LogSoftmax",
        "GELU",
        "ELU",
        "Softplus",
    )
}
# Functions of torch that run the module they are given.
_RUNNERS = {
    "data_parallel",
    "checkpoint",
    "functional_call",
    "checkpoint_sequential",
}
# Libraries that take a model and do not run it.
_KEEPERS = (
    "torch.nn.init",
    "torch.save",
    "copy.",
    "functools.",
    "numpy.",
    "os.",
    "logging.",
    "wandb.",
)
# Methods of a model out of sight that do not run it.
_UPKEEP = (
    "init_",
    "set_",
    "reset",
    "save",
    "load",
    "update_",
    "get_optim",
    "configure",
)
_MODEL_NAME = pattern(
    r"(?i)net|model|encod|decod|actor|critic|policy|generator"
    r"|discriminator|backbone|classifier|embed|^[GDEFQ]$|^q|head|fc"
)


class Forwards:
    """Answers for the calls of one program."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.module, self.graph, self.values = (
            effects.module,
            effects.graph,
            effects.values,
        )

    def of_call(self, call: ast.Call, scope: Scope) -> EventKind:
        """FORWARD for a model, CALLABLE for a variable that may hold one."""
        if self.values.of(call.func, scope).name in _ACTIVATIONS:
            return EventKind.NONE
        if _constructs(self.definition(call, scope)):
            return EventKind.NONE
        defined = self._defined(call, scope)
        if defined:
            found = EventKind.NONE
            for effects, function in defined:
                found |= self._of_definition(call, scope, effects, function)
            return EventKind.FORWARD if found & EventKind.FORWARD else found
        if self._is_imported(call.func, scope):
            return self._sure(self._is_library_forward(call, scope))
        if isinstance(call.func, ast.Attribute):
            return self._of_method(call, call.func, scope)
        return self._of_variable(call, scope)

    def _sure(self, forward: bool) -> EventKind:
        """A model for certain, or none."""
        return EventKind.FORWARD if forward else EventKind.NONE

    # -- what a definition says

    def definition(self, call: ast.Call, scope: Scope) -> Definition | None:
        """The function or class of another file that `call` names."""
        return self.values.abroad(call.func, scope)

    def _defined(
        self, call: ast.Call, scope: Scope
    ) -> list[tuple[Effects, Function]]:
        """The functions that `call` runs, in this program or in a file beside it."""
        own = self.values.callees(call, scope)
        if own:
            return [(self.effects, one) for one in own]
        abroad = self.definition(call, scope)
        if abroad is not None and not isinstance(abroad[1], ast.ClassDef):
            return [(abroad[0].effects, abroad[1])]
        return list(self._foreign_methods(call.func, scope))

    def _foreign_methods(
        self, func: ast.expr, scope: Scope
    ) -> Iterator[tuple[Effects, Function]]:
        """`self.diffusion.loss(x)` of an object whose class is in another file, and what heirs of
        that class put in its place there; `super().loss(x)` of a base in another file.
        """
        if not isinstance(func, ast.Attribute):
            return
        foreign = self.values.of(func.value, scope).foreign
        if foreign is None:
            above = called_of_base(self.effects.program, func, scope)
            yield from [(above[0].effects, above[1])] if above else []
            return
        home, cls = foreign
        methods = (
            home.graph.method(one, func.attr)
            for one in [cls, *home.graph.heirs(cls)]
        )
        for method in dict.fromkeys(one for one in methods if one is not None):
            yield home.effects, method

    def _of_definition(
        self, call: ast.Call, scope: Scope, effects: Effects, function: Function
    ) -> EventKind:
        """What one definition says: of a module, by its name where it is abstract; else what it
        runs.
        """
        if function.name == "forward" and effects.is_module_method(function):
            return EventKind.FORWARD
        if effects.is_module_method(function) and is_abstract(function):
            named = function.name in _PLAIN_METHODS or function.name.startswith(
                _UPKEEP
            )
            return self._sure(not named)
        found = effects.of_function(function) & (
            EventKind.FORWARD | EventKind.CALLABLE
        )
        if found & EventKind.CALLABLE and self._brings_model(call, scope):
            return EventKind.FORWARD
        return EventKind.FORWARD if found & EventKind.FORWARD else found

    def _brings_model(self, call: ast.Call, scope: Scope) -> bool:
        """Whether the call hands a model over, or its receiver was made of one."""
        origin = None
        if isinstance(call.func, ast.Attribute):
            origin = self.values.of(call.func.value, scope).origin
        made = isinstance(origin, ast.Call) and self._is_given_model(
            origin, scope
        )
        return made or self._is_given_model(call, scope)

    # -- what is known without one

    def _is_imported(self, func: ast.expr, scope: Scope) -> bool:
        head = (dotted_name(func) or "").partition(".")[0]
        named = self.module.canonical(func) is not None
        return named and is_import(head, scope, func)

    def _is_library_forward(self, call: ast.Call, scope: Scope) -> bool:
        """A function out of sight that is handed a model; of torch's own, those that run it."""
        canonical = self.module.canonical(call.func) or ""
        last = canonical.rpartition(".")[2]
        if canonical.startswith("torch.") and last not in _RUNNERS:
            return False
        if canonical.startswith(_KEEPERS) or last[:1].isupper():
            return False
        return self._is_given_model(call, scope)

    def _is_given_model(self, call: ast.Call, scope: Scope) -> bool:
        given = [*call.args, *(k.value for k in call.keywords)]
        return any(self.values.is_model(a, scope) for a in given)

    def _of_method(
        self, call: ast.Call, func: ast.Attribute, scope: Scope
    ) -> EventKind:
        """What a call of a method is: of a model, a criterion, or some other object; by its
        name where nothing is known of that.
        """
        value = self.values.of(func, scope)
        if self.values.is_model(func, scope):
            return EventKind.FORWARD
        if func.attr in _PLAIN_METHODS:
            return EventKind.NONE
        if value.kind is Kind.CRITERION:
            return self._of_criterion(value)
        if value.kind is Kind.OBJECT:
            return self._of_object(func, scope)
        if self.values.is_model(func.value, scope):
            return self._sure(not func.attr.startswith(_UPKEEP))
        if func.attr == "forward" and not self.values.of(func.value, scope):
            last = (dotted_name(func.value) or "").rpartition(".")[2]
            return self._sure(bool(last) and not criterion_name(last))
        named = (dotted_name(func) or "").startswith("self.") and not value
        if named and _MODEL_NAME.search(func.attr):
            return EventKind.FORWARD
        if criterion_name(func.attr):
            return self._of_loss_method(call, func, scope)
        if self._holds_models(func.value, scope) and self._only_models(func):
            return EventKind.FORWARD
        may_be = named and self._is_stored(func, scope)
        if may_be or self._may_be_of_model(func, scope):
            return EventKind.CALLABLE
        return EventKind.NONE

    def _may_be_of_model(self, func: ast.Attribute, scope: Scope) -> bool:
        """`model.encode(x)` of a parameter that is called so, which callers out of sight give,
        unless what has a method of that name in sight is no model.
        """
        holder = func.value
        if not isinstance(holder, ast.Name) or self.values.of(holder, scope):
            return False
        bound = scope.bindings.get(holder.id, ())
        is_given = bool(bound) and all(one.how == "parameter" for one in bound)
        is_upkeep = func.attr.startswith(_UPKEEP) or ops.method(func.attr)
        is_named = bool(_MODEL_NAME.search(holder.id))
        if not (is_given and is_named) or is_upkeep:
            return False
        in_sight = self.graph.methods_named(func.attr)
        return not in_sight or self._only_models(func)

    def _holds_models(self, holder: ast.expr, scope: Scope) -> bool:
        """Whether the parameters of a variable are asked for, and nothing else is known of it:
        `model` of `Adam(model.encoder.parameters())`.
        """
        if not isinstance(holder, ast.Name) or self.values.of(holder, scope):
            return False
        asked = [dotted_name(one.func) or "" for one in scope.calls]
        return any(
            name.startswith(f"{holder.id}.") and name.endswith(".parameters")
            for name in asked
        )

    def _only_models(self, func: ast.Attribute) -> bool:
        """`model.training_step(batch)`, where modules alone have a method of that name, and theirs
        runs them.
        """
        methods = self.graph.methods_named(func.attr)
        return bool(methods) and all(
            self.effects.is_module_method(one)
            and self.effects.of_function(one) & EventKind.FORWARD
            for one in methods
        )

    def _of_loss_method(
        self, call: ast.Call, func: ast.Attribute, scope: Scope
    ) -> EventKind:
        """`agent.loss(model, batch)`: a method out of sight computes from the model it is given;
        `self.diffusion.loss(x)` from what its object holds, as far as anybody can see.
        """
        holder = func.value
        if self._is_given_model(call, scope):
            return EventKind.FORWARD
        kept = isinstance(holder, (ast.Attribute, ast.Subscript))
        held = kept and not self.values.of(holder, scope)
        return EventKind.CALLABLE if held else EventKind.NONE

    def _is_stored(self, func: ast.Attribute, scope: Scope) -> bool:
        """An attribute that holds something callable, and is no method of a class in sight."""
        around = self.graph.class_around(scope)
        lineage = self.graph.lineage(around) if around is not None else []
        is_set = any(
            f"self.{func.attr}" in self.module.scopes[one].bindings
            for one in lineage
        )
        return is_set and not criterion_name(func.attr)

    def _of_variable(self, call: ast.Call, scope: Scope) -> EventKind:
        """What a call of a variable or an element runs, by what it holds; by its name where
        nothing tells.
        """
        func = call.func
        value = self.values.of(func, scope)
        if value.kind is Kind.OBJECT:
            return self._of_object(func, scope)
        if value.kind is Kind.CRITERION:
            return self._of_criterion(value)
        if value or self.values.is_model(func, scope):
            return self._sure(value.kind is Kind.MODEL or not value)
        if isinstance(func, ast.Subscript):
            return self._of_element(call, func, scope)
        if not isinstance(func, ast.Name):
            return EventKind.NONE
        if self._runs_bound(func, scope):
            return EventKind.FORWARD
        home = scope.lookup(func.id)
        held = home is not None and any(
            b.how in ("parameter", "assign", "for")
            for b in home.bindings[func.id]
        )
        if held and not criterion_name(func.id):
            is_model = _MODEL_NAME.search(func.id) or is_passed(
                self.effects.program, func.id, scope
            )
            return EventKind.FORWARD if is_model else EventKind.CALLABLE
        return self._sure(held and self._is_given_model(call, scope))

    def _runs_bound(self, func: ast.Name, scope: Scope) -> bool:
        """`losses()` of `losses = partial(diffusion.training_losses, model, x)`"""
        return any(
            home.effects.is_forward(call, where)
            for home, call, where in bound_calls(
                self.effects.program, func, scope
            )
        )

    def _of_element(
        self, call: ast.Call, func: ast.Subscript, scope: Scope
    ) -> EventKind:
        """`nets[i](x)`; `state["model"](x)`; `LOSSES[kind](model, batch)`."""
        key = func.slice.value if isinstance(func.slice, ast.Constant) else None
        holder = key if isinstance(key, str) else dotted_name(func.value) or ""
        if self.values.is_model(func.value, scope) or self._is_given_model(
            call, scope
        ):
            return EventKind.FORWARD
        told = self.values.of(
            func if isinstance(key, str) else func.value, scope
        )
        if told or criterion_name(holder):
            return EventKind.NONE
        return (
            EventKind.FORWARD
            if _MODEL_NAME.search(holder)
            else EventKind.CALLABLE
        )

    def _of_criterion(self, value: Value) -> EventKind:
        """A module that is called a loss may be the model that is trained, where it has layers:
        `ModelWithLoss(x, y)`.
        """
        home, cls = value.foreign or (None, value.cls)
        graph = home.graph if home is not None else self.graph
        effects = home.effects if home is not None else self.effects
        forward = graph.method(cls, "forward") if cls is not None else None
        if forward is None:
            return EventKind.NONE
        runs = effects.of_function(forward) & EventKind.FORWARD
        return EventKind.CALLABLE if runs else EventKind.NONE

    def _of_object(
        self,
        func: ast.expr,
        scope: Scope,
    ) -> EventKind:
        """`obj(x)` runs `__call__` of its class."""
        value = self.values.of(func, scope)
        program = value.foreign[0] if value.foreign is not None else None
        graph = program.graph if program is not None else self.graph
        effects = program.effects if program is not None else self.effects
        cls = value.foreign[1] if value.foreign is not None else value.cls
        call = graph.method(cls, "__call__") if cls is not None else None
        if call is None:
            return EventKind.NONE
        return effects.of_function(call) & (
            EventKind.FORWARD | EventKind.CALLABLE
        )


def _constructs(definition: Definition | None) -> bool:
    return definition is not None and isinstance(definition[1], ast.ClassDef)
