"""What names and attributes hold: kinds inferred from constructors, callers, returns and, last,
from use and name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amp_migrate.model.budget import spend
from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.calls.method_uses import MethodUses
from amp_migrate.model.classes.class_kinds import ClassKinds
from amp_migrate.model.dataflow.answers import Answers
from amp_migrate.model.dataflow.reaching import Reaching
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    Binding,
    Function,
    Module,
    Scope,
)
from amp_migrate.model.values.alternatives import differ, joined
from amp_migrate.model.values.attribute_values import AttributeValues
from amp_migrate.model.values.binding_values import BindingValues
from amp_migrate.model.values.call_values import CallValues
from amp_migrate.model.values.contents import Contents
from amp_migrate.model.values.kinds import (
    OTHER,
    UNKNOWN,
    Kind,
    Value,
    criterion_name,
    optimizer_name,
    scheduler_name,
)
from amp_migrate.torch_facts.methods import KEEPS_DTYPE, OF_MODULES

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition

# Methods that only models have: evidence where no constructor is in sight; and one that tensors
# have as well.
_MODEL_METHODS = {
    "parameters",
    "named_parameters",
    "state_dict",
    "train",
    "eval",
    "modules",
    "named_modules",
}
_OF_BOTH = "requires_grad_"
_OF_TENSORS = KEEPS_DTYPE - OF_MODULES

_LISTS = (ast.List, ast.Tuple, ast.ListComp, ast.BinOp)


class Values:
    """Answers `kind` for the expressions of one module."""

    def __init__(
        self, module: Module, graph: CallGraph, reaching: Reaching
    ) -> None:
        self.module = module
        self.graph = graph
        self.reaching = reaching
        self._answers = Answers()
        self.bindings = BindingValues(self)
        self.calls = CallValues(self)
        self.classes = ClassKinds(self)
        self._class_kinds: dict[ast.ClassDef, Kind] = {}
        self.contents = Contents(self)
        self.attributes = AttributeValues(self)
        self.uses = MethodUses(module)

    def of(self, expr: ast.expr, scope: Scope) -> Value:
        """The value of `expr` evaluated in `scope`."""
        spend()
        held = self._answers.known.get((id(expr), id(scope)))
        return held[1] if held else self._answers.of(expr, scope, self._infer)

    def kind(self, expr: ast.expr, scope: Scope) -> Kind:
        """Short for `of(...).kind`."""
        return self.of(expr, scope).kind

    def _infer(self, expr: ast.expr, scope: Scope) -> Value:
        if isinstance(expr, ast.Constant):
            return self._constant(expr)
        if isinstance(expr, ast.Name):
            return self._name_at(expr, scope)
        if isinstance(expr, ast.Attribute):
            return self.attributes.of(expr, scope)
        if isinstance(expr, ast.Call):
            return self.calls.of(expr, scope)
        if isinstance(expr, ast.Subscript):
            return self.one_of(expr.value, expr.slice, scope)
        if isinstance(expr, ast.IfExp):
            return self.join(
                [self.of(expr.body, scope), self.of(expr.orelse, scope)]
            )
        if isinstance(expr, (ast.BoolOp, ast.Compare, ast.UnaryOp)):
            return self._truth(expr, scope)
        if isinstance(expr, (ast.List, ast.Tuple)):
            return self.container(expr.elts, expr, scope)
        if isinstance(expr, ast.Dict):
            return self.container(expr.values, expr, scope)
        if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
            return self.container([expr.elt], expr, scope)
        if isinstance(expr, ast.DictComp):
            return self.container([expr.value], expr, scope)
        if isinstance(expr, (ast.Await, ast.NamedExpr)):
            return self.of(expr.value, scope)
        if isinstance(expr, ast.JoinedStr):
            return Value(Kind.DEVICE_NAME, expr) if _says_cuda(expr) else OTHER
        return (
            self._joined_lists(expr, scope)
            if isinstance(expr, ast.BinOp)
            else UNKNOWN
        )

    def _joined_lists(self, expr: ast.BinOp, scope: Scope) -> Value:
        """`[Style()] * 4 + [nn.MSELoss()]`: of lists of models, one that holds any of them."""
        if not isinstance(expr.op, (ast.Add, ast.Mult)):
            return OTHER
        sides = [self.of(one, scope) for one in (expr.left, expr.right)]
        models = [
            one
            for one in sides
            if one.kind is Kind.MODEL and isinstance(one.origin, _LISTS)
        ]
        return Value(Kind.MODEL, expr) if models else OTHER

    def _constant(self, expr: ast.Constant) -> Value:
        if isinstance(expr.value, str) and (
            expr.value.startswith("cuda") or expr.value in ("cpu", "mps", "xpu")
        ):
            return Value(Kind.DEVICE_NAME, expr)
        if expr.value is None:
            return UNKNOWN
        return OTHER

    def _truth(
        self, expr: ast.BoolOp | ast.Compare | ast.UnaryOp, scope: Scope
    ) -> Value:
        parts = (
            expr.values
            if isinstance(expr, ast.BoolOp)
            else [expr.operand]
            if isinstance(expr, ast.UnaryOp)
            else []
        )
        kinds = {self.kind(part, scope) for part in parts}
        if isinstance(expr, ast.BoolOp) and isinstance(expr.op, ast.Or):
            return self.join([self.of(part, scope) for part in parts])
        return (
            Value(Kind.CUDA_FLAG, expr)
            if Kind.CUDA_FLAG in kinds and isinstance(expr, ast.BoolOp)
            else OTHER
        )

    def join(self, values: Iterable[Value]) -> Value:
        """What a name is that may hold any of `values`."""
        return joined(self.graph, values)

    def container(
        self, elements: list[ast.expr], expr: ast.expr, scope: Scope
    ) -> Value:
        """A list, tuple or dict of `elements`, made by `expr`."""
        inner = [
            self.of(e.value if isinstance(e, ast.Starred) else e, scope)
            for e in elements
        ]
        if inner and all(
            v.kind in (Kind.OPTIMIZER, Kind.OPTIMIZERS) for v in inner
        ):
            mixed = differ(inner)
            return Value(Kind.OPTIMIZERS, expr, inner[0].name, mixed=mixed)
        if inner and all(v.kind is Kind.MODEL for v in inner):
            return Value(Kind.MODEL, expr, held=_alike(inner))
        return OTHER

    def one_of(
        self, container: ast.expr, key: ast.expr | None, scope: Scope
    ) -> Value:
        """What an expression holds under a key: by what it is, or by what is put into it."""
        whole = self.of(container, scope)
        found = self.element(whole, scope)
        if not found:
            return self.contents.under(container, key, scope)
        if found is not whole or not _is_made_empty(whole):
            return found
        put = self.contents.held(container, scope)
        return (_alike(put) if put else None) or found

    def element(self, container: Value, scope: Scope) -> Value:
        """One of what a container holds."""
        if container.kind is Kind.OPTIMIZERS:
            return container._replace(kind=Kind.OPTIMIZER)
        if container.kind is Kind.MODEL:
            return container.held or _part_of(container)
        return UNKNOWN

    def _name_at(self, expr: ast.Name, scope: Scope) -> Value:
        """A name where it stands: what reaches it from its own body, else any of its bindings."""
        itself = expr.id == scope.self_name
        found = (
            self.reaching_value(expr, expr.id, scope) if not itself else None
        )
        return self._name(expr.id, scope) if found is None else found

    def reaching_value(
        self, expr: ast.expr, dotted: str, scope: Scope
    ) -> Value | None:
        """What the bindings of the same body leave in a name or attribute; None where it may
        come from elsewhere, too.
        """
        reach = self.reaching.own(expr, dotted)
        if reach is None or not reach.bindings:
            return None
        here = self.reaching.scope_at(expr)
        last = dotted.rpartition(".")[2] if "." in dotted else dotted
        return self.join(
            self.bindings.of(b, last, self.scope_around(b, here))
            for b in reach.bindings
        )

    def scope_around(self, binding: Binding, here: Scope) -> Scope:
        """The scope that evaluates what a binding assigns."""
        node = binding.statement
        return (
            self.module.scope_of(node) if node in self.module.parents else here
        )

    def _name(self, name: str, scope: Scope) -> Value:
        home = scope.lookup(name)
        if home is None:
            return UNKNOWN
        own = home.owner
        if (
            own is not None
            and name == home.self_name
            and isinstance(own.node, ast.ClassDef)
        ):
            return self.instance(own.node, None)
        return self.join(
            self.bindings.of(binding, name, home)
            for binding in home.bindings[name]
        ) or self.linked(name, scope)

    def linked(self, dotted: str, scope: Scope) -> Value:
        """A variable of another file of this program."""
        origin = self.module.elsewhere(dotted, scope)
        return (
            self._name(origin[1], origin[0]) if origin is not None else UNKNOWN
        )

    def class_attribute(self, cls: ast.ClassDef, name: str) -> Value:
        """What `self.<name>` holds in a class, its bases and its heirs."""
        return self.attributes.of_class(cls, name)

    def instance(self, cls: ast.ClassDef, origin: ast.expr | None) -> Value:
        """An object of a class of this program, made by `origin`."""
        return Value(self.classes.of(cls), origin, cls.name, cls)

    def class_kind(self, cls: ast.ClassDef) -> Kind:
        """What instances of a class of this program are."""
        if cls not in self._class_kinds:
            self._class_kinds[cls] = (
                Kind.OBJECT
            )  # for files whose classes derive from each other
            self._class_kinds[cls] = self.classes.of(cls)
        return self._class_kinds[cls]

    def callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function or method in this program that `call` runs."""
        return self.calls.callee(call, scope)

    def callees(self, call: ast.Call, scope: Scope) -> tuple[Function, ...]:
        """The same, and what heirs put in its place."""
        return self.calls.callees(call, scope)

    def abroad(self, func: ast.expr, scope: Scope) -> Definition | None:
        """The definition in another file of the project that an imported name refers to."""
        return self.reaching.imported.definition(func, scope)

    def given(self, name: str, home: Scope) -> list[tuple[ast.expr, Scope]]:
        """The names that callers pass for a parameter, or that are assigned to a variable."""
        return self.bindings.given(name, home)

    def methods_used(self, name: str, scope: Scope) -> set[str]:
        """Names of the methods called on a variable or attribute, anywhere it is that variable."""
        return self.uses.methods_used(name, scope)

    def is_model(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is a model, by constructor or by how it is used."""
        value = self.of(expr, scope)
        if value:
            return value.kind is Kind.MODEL
        name = dotted_name(expr)
        if (
            name is None
            or self.module.canonical(expr) is not None
            and scope.lookup(name.partition(".")[0]) is None
        ):
            return False
        last = name.rpartition(".")[2]
        if optimizer_name(last) or scheduler_name(last):
            return False
        used = self.methods_used(name, scope)
        is_frozen = _OF_BOTH in used and not used & _OF_TENSORS
        return (
            (is_frozen or bool(used & _MODEL_METHODS))
            and not criterion_name(last)
            and "step" not in used
        )


def _part_of(container: Value) -> Value:
    """One of what a model holds, which is of another class: `for layer in self`."""
    if container.cls is None and container.foreign is None:
        return container
    return Value(Kind.MODEL)


def _is_made_empty(value: Value) -> bool:
    """`nn.ModuleList()`, which is filled by and by."""
    made = value.origin
    return isinstance(made, ast.Call) and not made.args + made.keywords


def _says_cuda(expr: ast.JoinedStr) -> bool:
    first = expr.values[0] if expr.values else None
    return isinstance(first, ast.Constant) and str(first.value).startswith(
        "cuda"
    )


def _alike(models: list[Value]) -> Value | None:
    """What each of some models is; None where they differ, or nothing tells."""
    first = models[0].held or models[0]
    told = (first.name, first.cls, first.foreign)
    same = all(
        (v.name, v.cls, v.foreign) == told
        for v in (m.held or m for m in models)
    )
    return first if same and any(told) else None
