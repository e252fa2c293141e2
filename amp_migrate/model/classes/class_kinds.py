"""What instances of a class are, by its bases and methods."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from amp_migrate.model.classes.scaler_heirs import is_scaler_heir
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function
from amp_migrate.model.values.kinds import (
    Kind,
    criterion_name,
    library_kind,
    optimizer_name,
)

if TYPE_CHECKING:
    from amp_migrate.model.values.value_kinds import Values


class ClassKinds:
    """Answers `of` for the classes of one program."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module = values.module
        self.graph = values.graph
        self._known: dict[ast.ClassDef, Kind] = {}

    def of(self, cls: ast.ClassDef) -> Kind:
        """What instances of a class of this module are, remembered."""
        if cls not in self._known:
            self._known[cls] = self._of(cls)
        return self._known[cls]

    def _of(self, cls: ast.ClassDef) -> Kind:
        lineage = self.graph.lineage(cls)
        unseen = [
            b for c in lineage for b in c.bases if not self._is_in_sight(b)
        ]
        bases = [
            self.module.canonical(b) or dotted_name(b) or "" for b in unseen
        ]
        named = self._named_kind(cls, bases) or self._inherited_kind(lineage)
        if named is not None:
            return named
        runs_forward = (
            self.graph.method(cls, "forward") is not None
            and self.graph.method(cls, "__call__") is None
        )
        if runs_forward and any(bases):
            # Its base is out of sight, and calling it runs forward.
            return Kind.MODEL
        steps = self.graph.method(cls, "step") is not None
        if steps and self._wraps_optimizer(cls):
            return Kind.WRAPPER
        return Kind.OBJECT

    def _named_kind(self, cls: ast.ClassDef, bases: list[str]) -> Kind | None:
        """What the bases that are out of sight tell by their names."""
        if any(_is_scheduler(base) for base in bases):
            return Kind.SCHEDULER
        if any(_is_optimizer(base) for base in bases):
            return Kind.OPTIMIZER
        if is_scaler_heir(self.graph, cls, bases):
            return Kind.SCALER
        if any(_is_module(base) for base in bases):
            return Kind.CRITERION if self._is_loss(cls, bases) else Kind.MODEL
        return None

    def _is_loss(self, cls: ast.ClassDef, bases: list[str]) -> bool:
        """A module that computes a loss of what models gave, rather than one that runs a model."""
        if any(base.endswith("Loss") for base in bases):
            return True
        named = criterion_name(cls.name) and not re.search(
            r"Model|Net(?![a-z])|Network", cls.name
        )
        return named and not (self._runs_given(cls) or self._is_of_model(cls))

    def _is_of_model(self, cls: ast.ClassDef) -> bool:
        """`class ClassifierWithLoss(Classifier)`"""
        above = [one for one in self.graph.lineage(cls) if one is not cls]
        return any(self.of(one) is Kind.MODEL for one in above)

    def _runs_given(self, cls: ast.ClassDef) -> bool:
        """`def __init__(self, model, loss): self.model = model`, and `forward` runs it."""
        made, forward = (
            self.graph.method(cls, name) for name in ("__init__", "forward")
        )
        if made is None or forward is None:
            return False
        parameters = {one.arg for one in self.module.scopes[made].parameters()}
        for owner in self.graph.lineage(cls):
            for name, bindings in self.module.scopes[owner].bindings.items():
                values = [
                    b.value for b in bindings if isinstance(b.value, ast.Name)
                ]
                if any(one.id in parameters for one in values) and self._is_run(
                    forward, name
                ):
                    return True
        return False

    def _is_run(self, forward: Function, name: str) -> bool:
        """Whether a body calls an attribute that nobody would call a loss."""
        calls = self.module.scopes[forward].calls
        return not criterion_name(name) and any(
            dotted_name(call.func) == name for call in calls
        )

    def _is_in_sight(self, base: ast.expr) -> bool:
        """Whether a base class is defined in this program or beside it, so that no name tells."""
        scope = self.module.scope_of(base)
        if self.graph.class_named(base, scope) is not None:
            return True
        abroad = self.values.abroad(base, scope.root)
        return abroad is not None and isinstance(abroad[1], ast.ClassDef)

    def _inherited_kind(self, lineage: list[ast.ClassDef]) -> Kind | None:
        """The kind of a base class in another module of the project, where it is a telling one."""
        for base in (b for c in lineage for b in c.bases):
            abroad = self.values.abroad(base, self.module.scope_of(base).root)
            if abroad is not None and isinstance(abroad[1], ast.ClassDef):
                kind = abroad[0].values.class_kind(abroad[1])
                if kind not in (Kind.OBJECT, Kind.WRAPPER):
                    return kind
        return None

    def _wraps_optimizer(self, cls: ast.ClassDef) -> bool:
        """A `step` that steps something called an optimizer, in a class without `param_groups`."""
        step = self.graph.method(cls, "step")
        if step is None or any(
            self.graph.method(c, "param_groups") for c in [cls]
        ):
            return False
        for node in ast.walk(step):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "step"
            ):
                inner = dotted_name(node.func.value) or ""
                if optimizer_name(inner.rpartition(".")[2]):
                    return not self._is_trainer(cls, step)
        return False

    def _is_trainer(self, cls: ast.ClassDef, step: Function) -> bool:
        """A training class may have a `step` that runs backward itself; that is no optimizer."""
        seen = [step]
        for function in (
            seen
        ):  # grows while it is read: `self._backward_step()` is followed
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr == "backward":
                    return True
                if isinstance(node, ast.Call) and isinstance(
                    node.func, ast.Attribute
                ):
                    method = self.graph.method(cls, node.func.attr)
                    own = isinstance(node.func.value, ast.Name)
                    seen += (
                        [method]
                        if own and method is not None and method not in seen
                        else []
                    )
        return False


def _is_scheduler(base: str) -> bool:
    of_torch = base.startswith("torch.optim.lr_scheduler")
    return of_torch or base.endswith("LRScheduler")


def _is_optimizer(base: str) -> bool:
    of_library = library_kind(base) is Kind.OPTIMIZER
    return of_library or base in ("torch.optim.Optimizer", "Optimizer")


def _is_module(base: str) -> bool:
    last = base.rpartition(".")[2]
    return base.startswith("torch.nn.") or last.endswith(
        ("Module", "Model", "Net")
    )
