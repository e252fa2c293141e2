"""What calls do to a training step by the code that they run: functions, methods of heirs, objects,
what a variable may hold.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.handed_calls import PARTIALS
from amp_migrate.model.calls.late_bound_calls import of_dispatch
from amp_migrate.model.forwards.losses import (
    body_effects,
    callables,
    is_bce_given,
    is_library_bce,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import GRADIENTS, TRAINING, EventKind
from amp_migrate.model.syntax.module import Function, Scope, is_abstract
from amp_migrate.torch_facts.iteration import CALLING, CALLING_BUILTINS

if TYPE_CHECKING:
    from amp_migrate.model.steps.effects import Effects

# What a function of another module does is seen in its caller, but for backward and step: those
# loops are that module's, and all that the caller knows is that it trains.
_CARRIED = EventKind.BCE | GRADIENTS | EventKind.FORWARD | EventKind.CALLABLE


class CalledEffects:
    """Answers for one program."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def of(self, call: ast.Call, scope: Scope) -> EventKind:
        """What the code behind a call does."""
        function = self.effects.values.callee(call, scope)
        if function is not None:
            own = self.effects.of_function(function)
            return own | self._of_overrides(call, function, scope)
        return (
            self._of_object_call(call, scope)
            | self._of_callables(call, scope)
            | self._of_any_method(call, scope)
            | of_dispatch(self.effects.program, call, scope)
        )

    def of_given(self, call: ast.Call, scope: Scope) -> EventKind:
        """What `map(norm_of, parameters)` does to gradients: Python's own functions call what they
        are given.
        """
        func = call.func
        if isinstance(func, ast.Name) and func.id in CALLING_BUILTINS:
            calls = scope.lookup(func.id) is None
        else:
            calls = self.effects.module.canonical(func) in CALLING
        effect = EventKind.NONE
        for one in (*call.args, *(k.value for k in call.keywords)):
            if calls:
                effect |= self._of_value(one, scope) & GRADIENTS
        return effect

    def _of_value(self, expr: ast.expr, scope: Scope) -> EventKind:
        """What the function does that an expression is: its name, a lambda, a `partial` of it."""
        effects = self.effects
        if isinstance(expr, ast.Lambda):
            return effects.of_function(expr)
        if isinstance(expr, ast.Call):
            partial = effects.module.canonical(expr.func) in PARTIALS
            given = expr.args[0] if partial and expr.args else None
            return self._of_value(given, scope) if given else EventKind.NONE
        if not isinstance(expr, (ast.Name, ast.Attribute)):
            return EventKind.NONE
        function = effects.graph.function_at(expr, scope)
        cls = effects.graph.class_around(scope)
        head, _, name = (dotted_name(expr) or "").rpartition(".")
        if function is None and cls is not None and head == scope.self_name:
            function = effects.graph.method(cls, name)
        if function is not None:
            return effects.of_function(function)
        abroad = effects.values.abroad(expr, scope)
        if abroad is None or isinstance(abroad[1], ast.ClassDef):
            return EventKind.NONE
        return abroad[0].effects.of_function(abroad[1])

    def _of_overrides(
        self, call: ast.Call, function: Function, scope: Scope
    ) -> EventKind:
        """`self.loss(x)` runs the method of whichever heir the object is of: all that one does
        where the method is left to them.
        """
        left = is_abstract(function)
        others = [
            one
            for one in self.effects.values.callees(call, scope)
            if one is not function
        ]
        effect = EventKind.NONE
        for one in others:
            found = self.effects.of_function(one)
            effect |= found if left else found & _CARRIED
        return effect

    def _of_callables(self, call: ast.Call, scope: Scope) -> EventKind:
        """What a variable may hold, lambdas and classes included, does to gradients, and whether
        it is a binary cross-entropy.
        """
        behind = callables(self.effects.program, call, scope)
        effect = (
            EventKind.BCE
            if any(map(is_library_bce, behind))
            else EventKind.NONE
        )
        for one in behind:
            effect |= body_effects(one) & (EventKind.BCE | GRADIENTS)
        return effect

    def _of_any_method(self, call: ast.Call, scope: Scope) -> EventKind:
        """`callback.after_backward()` of an object that nothing tells about may read gradients if
        any method of that name does.
        """
        func = call.func
        if (
            not isinstance(func, ast.Attribute)
            or self.effects.module.canonical(func) is not None
        ):
            return EventKind.NONE
        if self.effects.values.of(func.value, scope):
            return EventKind.NONE
        effect = EventKind.NONE
        for method in self.effects.graph.methods_named(func.attr):
            effect |= self.effects.of_function(method) & GRADIENTS
        return effect | self._of_imported(func.attr, scope)

    def _of_imported(self, name: str, scope: Scope) -> EventKind:
        """The same of methods in files that this one imports."""
        near = scope.module.neighbours
        readers = near.imported_with(name, "grad") if near is not None else ()
        effect = EventKind.NONE
        for program in readers:
            if program is not self.effects.program:
                for method in program.graph.methods_named(name):
                    effect |= program.effects.of_function(method)
        return effect & GRADIENTS

    def _handed_function(
        self, func: ast.expr, scope: Scope, hops: int = 3
    ) -> EventKind:
        """Effects of the functions that callers (or a plain assignment) put behind a name:
        `criterion=dice_loss`.
        """
        if (
            not isinstance(func, ast.Name)
            or hops == 0
            or (home := scope.lookup(func.id)) is None
        ):
            return EventKind.NONE
        effect = EventKind.NONE
        for expr, where in self.effects.values.given(func.id, home):
            definition = self.effects.values.abroad(expr, where)
            own = (
                self.effects.graph.function_named(expr.id, where)
                if isinstance(expr, ast.Name)
                else None
            )
            if own is not None:
                effect |= self.effects.of_function(own)
            elif definition is not None and not isinstance(
                definition[1], ast.ClassDef
            ):
                effect |= definition[0].effects.of_function(definition[1])
            else:
                effect |= self._handed_function(expr, where, hops - 1)
        return effect

    def _of_object_call(self, call: ast.Call, scope: Scope) -> EventKind:
        """`model(x)` runs `forward` of its class, `obj(x)` its `__call__`, an imported function
        its body.
        """
        abroad = self.effects.values.abroad(call.func, scope)
        if abroad is not None:
            program, node = abroad
            if isinstance(node, ast.ClassDef):
                return EventKind.NONE
            own = _carried(program.effects.of_function(node))
            is_bce = is_bce_given(self.effects.program, call, scope)
            return own | EventKind.BCE if is_bce else own
        handed = self._handed_function(call.func, scope)
        if handed:
            return _carried(handed)
        value = self.effects.values.of(call.func, scope)
        if value.foreign is not None:
            program, cls = value.foreign
            found = program.graph.method(
                cls, "forward"
            ) or program.graph.method(cls, "__call__")
            return (
                _carried(program.effects.of_function(found))
                if found is not None
                else EventKind.NONE
            )
        if (
            value.cls is None
            or isinstance(call.func, ast.Name)
            and self.effects.graph.class_named(call.func, scope) is value.cls
        ):
            return EventKind.NONE
        method = self.effects.graph.method(
            value.cls, "forward"
        ) or self.effects.graph.method(value.cls, "__call__")
        return (
            self.effects.of_function(method)
            if method is not None
            else EventKind.NONE
        )


def _carried(effect: EventKind) -> EventKind:
    trains = EventKind.TRAINS if effect & TRAINING else EventKind.NONE
    return effect & _CARRIED | trains
