"""What attributes hold: of objects, of classes in sight, of modules, of settings."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope, fields_of, returned
from amp_migrate.model.values.call_values import is_property
from amp_migrate.model.values.kinds import OTHER, UNKNOWN, Kind, Value

if TYPE_CHECKING:
    from amp_migrate.model.values.value_kinds import Values


class AttributeValues:
    """Answers for the attributes of one program."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def of(self, expr: ast.Attribute, scope: Scope) -> Value:
        """What an attribute holds where it stands."""
        canonical = self.values.module.canonical(expr)
        library = canonical is not None and canonical.startswith("torch.")
        if library and self.values.reaching.imported.is_import(expr, scope):
            return OTHER
        if canonical is not None and (
            linked := self.values.linked(dotted_name(expr) or "", scope)
        ):
            return linked
        dotted = dotted_name(expr)
        reaching = (
            self.values.reaching_value(expr, dotted, scope)
            if dotted is not None
            else None
        )
        if reaching:
            return reaching
        holder = self.values.of(expr.value, scope)
        if holder.cls is not None:
            found = self.of_class(holder.cls, expr.attr)
            if found:
                return found
        if abroad := _of_foreign(holder, expr.attr):
            return abroad
        if holder.kind is Kind.MODEL and expr.attr == "module":
            return holder
        if holder.kind is Kind.DEVICE and expr.attr == "type":
            return Value(Kind.DEVICE_NAME, expr)
        if found := self._stored(expr, scope) or self.values.contents.attribute(
            expr, scope
        ):
            return found
        if expr.attr == "device" and not _is_settings(expr):
            return Value(Kind.DEVICE, expr)
        return UNKNOWN

    def _stored(self, expr: ast.Attribute, scope: Scope) -> Value:
        """`args.device = torch.device(...)`: an attribute set in plain sight on a name."""
        dotted = dotted_name(expr)
        here: Scope | None = scope
        while here is not None and dotted is not None:
            if dotted in here.bindings:
                return self.values.join(
                    self.values.bindings.of(b, dotted, here)
                    for b in here.bindings[dotted]
                )
            here = here.parent
        return UNKNOWN

    def of_class(self, cls: ast.ClassDef, name: str) -> Value:
        """What `self.<name>` holds in a class, its bases and its heirs."""
        family = [
            *self.values.graph.lineage(cls),
            *self.values.graph.heirs(cls),
        ]
        found = []
        for owner in dict.fromkeys(family):
            scope = self.values.module.scopes[owner]
            for binding in [
                *scope.bindings.get(f"self.{name}", ()),
                *scope.bindings.get(name, ()),
            ]:
                found.append(self._attribute_binding(binding, name, scope))
            found += [
                self.values.bindings.annotated(one, scope)
                for one in fields_of(owner, name)
            ]
        return self.values.join(found) or self._property(cls, name)

    def _property(self, cls: ast.ClassDef, name: str) -> Value:
        """What a property returns."""
        method = self.values.graph.method(cls, name)
        if method is None or not is_property(method):
            return UNKNOWN
        inner = self.values.module.scopes[method]
        return self.values.join(
            self.values.of(value, inner) for value in returned(method)
        )

    def _attribute_binding(
        self, binding: Binding, name: str, scope: Scope
    ) -> Value:
        if binding.value is None:
            return UNKNOWN
        return self.values.bindings.of(
            binding, name, self.values.scope_around(binding, scope)
        )


def _of_foreign(holder: Value, name: str) -> Value:
    """A model that an object of a class of another file holds."""
    if holder.foreign is None:
        return UNKNOWN
    home, cls = holder.foreign
    found = home.values.class_attribute(cls, name)
    return found.abroad(home) if found.kind is Kind.MODEL else UNKNOWN


def _is_settings(expr: ast.Attribute) -> bool:
    """`args.device` is whatever the command line says, not a tensor's device."""
    name = (dotted_name(expr.value) or "").rpartition(".")[2].lower()
    return name in ("self", "cls") or any(
        part in name
        for part in (
            "arg",
            "opt",
            "config",
            "cfg",
            "conf",
            "params",
            "hparams",
            "flags",
        )
    )
