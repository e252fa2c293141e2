"""What a device expression may be: a `torch.device`, a string, an index, and of which names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

from amp_migrate.model.budget import spend
from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.dataflow.followed_once import FollowedOnce
from amp_migrate.model.devices.accelerators import is_there
from amp_migrate.model.devices.defaults import is_replaced
from amp_migrate.model.devices.forms import (
    NAMED,
    UNKNOWN,
    UNSEEN,
    DeviceValue,
    Form,
    bare_names,
    either,
    of_constant,
    of_formatted,
    present,
)
from amp_migrate.model.devices.sources import (
    given_back,
    is_tensor,
    of_class_abroad,
    returned_parts,
    spawned,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.values.call_values import is_property
from amp_migrate.model.values.stored_attributes import stored_values
from amp_migrate.torch_facts.devices import INDICES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_INDICES = frozenset((*INDICES, "int"))
_FORMS = {
    "torch.device": Form.DEVICE,
    "str": Form.STRING,
    "int": Form.INDEX,
}


def _nothing() -> DeviceValue:
    """What a question that leads to itself adds."""
    return DeviceValue(Form(0))


class Devices:
    """Answers `of` for expressions and `at` for names at a place."""

    def __init__(
        self,
        program: Program,
        followed: FollowedOnce[DeviceValue] | None = None,
    ) -> None:
        """`followed`: the bindings, stored values and properties that are being followed, in
        whatever file.
        """
        self.program = program
        self._followed = followed or FollowedOnce(_nothing)
        self._known: dict[Binding, DeviceValue] = {}

    def of(self, expr: ast.expr, scope: Scope) -> DeviceValue:
        """What `expr` may be where it stands."""
        spend()
        if isinstance(expr, ast.Constant):
            return of_constant(expr.value)
        if isinstance(expr, ast.JoinedStr):
            return of_formatted(expr)
        if isinstance(expr, ast.IfExp):
            return either(
                [self.of(expr.body, scope), self.of(expr.orelse, scope)]
            )
        if isinstance(expr, ast.BoolOp):
            values = [self.of(value, scope) for value in expr.values]
            first = (
                map(present, values[:-1])
                if isinstance(expr.op, ast.Or)
                else values[:-1]
            )
            return either([*first, values[-1]])
        if isinstance(expr, ast.Call):
            return self._call(expr, scope)
        if isinstance(expr, ast.Attribute) and expr.attr == "type":
            holder = self.of(expr.value, scope)
            if holder.is_device:
                return DeviceValue(
                    Form.STRING, bare_names(holder.names), holder.closed
                )
        if (
            isinstance(expr, ast.Attribute)
            and expr.attr == "device"
            and is_tensor(expr.value)
        ):
            return DeviceValue(Form.DEVICE, closed=False)
        dotted = dotted_name(expr)
        if dotted is not None and expr in self.program.module.parents:
            return self.at(expr, dotted, scope)
        return UNKNOWN

    def at(
        self,
        node: ast.expr | ast.stmt,
        dotted: str,
        scope: Scope,
        *,
        after: bool = False,
    ) -> DeviceValue:
        """What the name or attribute `dotted` may hold at `node`, or `after` that statement."""
        reaching = self.program.reaching
        if after and isinstance(node, ast.stmt):
            reach = reaching.after(node, dotted)
        else:
            reach = reaching.at(node, dotted)
        found = [self._bound(b, scope, dotted) for b in reach.bindings]
        if is_replaced(self.program, dotted, node, reach.bindings):
            found = [
                present(one) if binding.how == "parameter" else one
                for one, binding in zip(found, reach.bindings, strict=True)
            ]
        if all(one.how == "import" for one in reach.bindings):
            foreign = self._of_other_file(dotted, scope)
            if foreign is not None:
                return foreign
        if reach.bindings and reach.complete:
            return either(found)
        given = self._property(dotted, scope) if not reach.bindings else None
        if given is not None:
            return given
        option = option_of(self.program, node, dotted)
        if option is not None:
            return either([*found, self._option(option, scope)])
        return either([*found, UNKNOWN])

    def _property(self, dotted: str, scope: Scope) -> DeviceValue | None:
        """What `cfg.device` gives where `device` is a property of the class of `cfg`."""
        holder, _, name = dotted.rpartition(".")
        program = self.program
        home, cls = program, program.graph.class_around(scope)
        if not all(part.isidentifier() for part in holder.split(".")):
            return None  # an entry: `cfg[args.name]`
        if holder != scope.self_name:
            value = program.values.of(
                ast.parse(holder, mode="eval").body, scope
            )
            home, cls = value.foreign or (program, value.cls)
        found = method_of(home, cls, name) if cls is not None else None
        return self._read(*found) if found is not None else None

    def _read(self, home: Program, method: Function) -> DeviceValue | None:
        """What a property gives."""
        values, inner = list(returned(method)), home.scope(method)
        if not values or not is_property(method):
            return None
        return self._once(
            method,
            lambda: either([self._in(home).of(one, inner) for one in values]),
        )

    def _of_other_file(self, dotted: str, scope: Scope) -> DeviceValue | None:
        """What a variable or a class of another file of the project holds there; what this program
        writes into it is in sight.
        """
        found = imported_variable(self.program, dotted, scope)
        if found is None:
            found = of_class_abroad(self.program, dotted, scope)
        home, bindings = found if found is not None else (self.program, ())
        known = [
            self._there(home, one, one.value)
            for one in bindings
            if one.value is not None
        ]
        if not known:
            return None
        return either(
            [*known, *(self._written(dotted) if "." in dotted else [])]
        )

    def _written(self, dotted: str) -> Iterator[DeviceValue]:
        """What the program assigns to an attribute of that name of anything."""
        name = dotted.rpartition(".")[2]
        for value, scope in stored_values(self.program, name):
            if value is None:
                yield UNKNOWN
            else:
                yield self._once(value, partial(self.of, value, scope))

    def _there(
        self, home: Program, binding: Binding, value: ast.expr
    ) -> DeviceValue:
        """What a binding of another file holds."""
        scope = home.module.scope_of(binding.statement)
        return self._once(binding, partial(self._in(home).of, value, scope))

    def _in(self, home: Program) -> Devices:
        """The answers of another file."""
        return self if home is self.program else Devices(home, self._followed)

    def _once(
        self, key: Binding | ast.AST, ask: Callable[[], DeviceValue]
    ) -> DeviceValue:
        """The answer; nothing where it is the question itself, or too far away."""
        return self._followed.of(key, 0, ask)

    def _bound(
        self, binding: Binding, scope: Scope, dotted: str
    ) -> DeviceValue:
        if binding in self._known:
            return self._known[binding]
        found = self._once(
            binding, partial(self._value_of, binding, scope, dotted)
        )
        if (
            not self._followed.is_open
        ):  # it rests on no question that is still open
            self._known[binding] = found
        return found

    def _value_of(
        self, binding: Binding, scope: Scope, dotted: str
    ) -> DeviceValue:
        around = self.program.module.parents
        where = (
            self.program.module.scope_of(binding.statement)
            if binding.statement in around
            else scope
        )
        if binding.how == "parameter" and isinstance(
            binding.statement, ast.arg
        ):
            return self._parameter(binding.statement, where)
        method = binding.statement
        if (
            binding.how == "def"
            and isinstance(method, FUNCTIONS)
            and is_property(method)
        ):
            return either(
                [
                    self.of(one, self.program.scope(method))
                    for one in returned(method)
                ]
            )
        if binding.value is None:
            return UNKNOWN
        if binding.index is not None:
            parts = returned_parts(self.program, binding, where)
            return either([self.of(one, inner) for one, inner in parts])
        if binding.how == "for":
            return self._element(binding.value, where)
        if binding.how in ("assign", "walrus"):
            return self.of(binding.value, where)
        return UNKNOWN

    def _element(self, iterable: ast.expr, scope: Scope) -> DeviceValue:
        if isinstance(iterable, (ast.List, ast.Tuple, ast.Set)):
            return either(self.of(element, scope) for element in iterable.elts)
        ranges = (
            isinstance(iterable, ast.Call)
            and dotted_name(iterable.func) == "range"
        )
        return DeviceValue(Form.INDEX) if ranges else UNKNOWN

    def _parameter(self, parameter: ast.arg, scope: Scope) -> DeviceValue:
        """By its annotation and default; else by what the callers pass."""
        function = scope.node
        if not isinstance(function, FUNCTIONS):
            return UNKNOWN
        default = default_of(function, parameter.arg)
        found = [self.of(default, scope)] if default is not None else []
        annotated = self._annotation(parameter.annotation)
        sites = self.program.reaching.entry.sites(function)
        if annotated is not None:
            return either(
                [*found, annotated, *self._passed(parameter, scope, sites)]
            )
        for call, caller, bound in sites:
            expr = argument(call, scope, parameter.arg, bound)
            if expr is not None:
                found.append(self.of(expr, caller))
            elif default is None:
                found.append(UNKNOWN)
        first = next(iter(function.args.args), None)
        if function in self._spawned and parameter is first:
            found.append(DeviceValue(Form.INDEX))
        if not self.program.reaching.entry.is_followed(function):
            found.append(UNKNOWN)
        elif not sites:
            found.append(UNSEEN)
        return either(found)

    def _passed(
        self,
        parameter: ast.arg,
        scope: Scope,
        sites: list[tuple[ast.Call, Scope, bool]],
    ) -> Iterator[DeviceValue]:
        """What callers are seen to pass for a parameter with an annotation, which nothing keeps
        them from passing something else for.
        """
        for call, caller, bound in sites:
            expr = argument(call, scope, parameter.arg, bound)
            value = self.of(expr, caller) if expr is not None else UNKNOWN
            if not value.form & (Form.UNKNOWN | Form.UNSEEN):
                yield value

    @cached_property
    def _spawned(self) -> frozenset[ast.AST]:
        return spawned(self.program)

    def _annotation(self, annotation: ast.expr | None) -> DeviceValue | None:
        if annotation is None:
            return None
        name = self.program.canonical(annotation) or dotted_name(annotation)
        return (
            DeviceValue(_FORMS[name], closed=False) if name in _FORMS else None
        )

    def _option(self, option: ast.Call, scope: Scope) -> DeviceValue:
        """What `--device` of a command line may be: by its type, default and choices."""
        given = {keyword.arg: keyword.value for keyword in option.keywords}
        kind = given.get("type")
        named = (
            (self.program.canonical(kind) or dotted_name(kind))
            if kind is not None
            else "str"
        )
        default = given.get("default")
        value = (
            self.of(default, scope)
            if default is not None
            else DeviceValue(Form.NONE)
        )
        choices = given.get("choices")
        if isinstance(choices, (ast.List, ast.Tuple)):
            return either(
                [value, *(self.of(choice, scope) for choice in choices.elts)]
            )
        if named not in _FORMS or "action" in given:
            return UNKNOWN
        form = _FORMS[named]
        if default is not None and value.form & Form.STRING:
            value = DeviceValue(form, value.names, closed=False)
        return either([value, DeviceValue(form, value.names, closed=False)])

    def _call(self, expr: ast.Call, scope: Scope) -> DeviceValue:
        name = self.program.canonical(expr.func) or dotted_name(expr.func) or ""
        if name == "torch.device":
            return self._device(expr, scope)
        if name == "torch.accelerator.current_accelerator":
            sure = is_there(self.program, expr)
            form = Form.DEVICE if sure else Form.DEVICE | Form.NONE
            return DeviceValue(form, frozenset({"accelerator"}))
        if name in _INDICES:
            return DeviceValue(Form.INDEX)
        if name == "str":
            held = self.of(expr.args[0], scope) if expr.args else UNKNOWN
            return DeviceValue(Form.STRING, held.names, closed=False)
        found = [
            self._once(one, partial(self._in(home).of, one, inner))
            for home, one, inner in given_back(self.program, expr, scope)
        ]
        return either(found or [*self._default(expr, scope), UNKNOWN])

    def _default(self, expr: ast.Call, scope: Scope) -> list[DeviceValue]:
        """What `cfg.get("device", "cuda")` gives where nothing else is set."""
        got = isinstance(expr.func, ast.Attribute) and expr.func.attr == "get"
        return [self.of(one, scope) for one in expr.args[1:2] if got]

    def _device(self, expr: ast.Call, scope: Scope) -> DeviceValue:
        """`torch.device(x)` is a device, whatever `x` is."""
        if not expr.args:
            return DeviceValue(Form.DEVICE, closed=False)
        inner = self.of(expr.args[0], scope)
        if inner.form is Form.INDEX:
            return DeviceValue(Form.DEVICE, frozenset({"cuda:"}))
        return DeviceValue(
            Form.DEVICE, inner.names, inner.closed and not inner.form & ~NAMED
        )
