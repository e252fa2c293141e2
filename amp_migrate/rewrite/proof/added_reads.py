"""Each name, attribute and entry in an added expression has a value at its place, `.type` is asked
of a `torch.device` only, and `torch.device(x)` made of what is one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.classes.given_classes import may_be_class
from amp_migrate.model.classes.given_dicts import may_be_dict
from amp_migrate.model.conditions.truth_values import truth_values
from amp_migrate.model.dataflow.earlier_statements import (
    has_run_at_calls,
    is_lasting,
    one_has_run,
)
from amp_migrate.model.devices.casts import may_be_cast
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.devices.forms import NAMED, DeviceValue, Form
from amp_migrate.model.devices.handed_in import device_handed_in
from amp_migrate.model.forwards.functions_of_models import takes_models
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.displays import entries_behind
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.model.syntax.queries import nodes_in, surely_evaluated
from amp_migrate.model.values.kinds import Kind
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.rewrite.proof.facts import Introduced
from amp_migrate.rewrite.proof.forms import device, keyword
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved
from amp_migrate.torch_facts.amp_api import callable_named
from amp_migrate.torch_facts.methods import MOVES


class AddedReads(RewrittenFile):
    """What added expressions read."""

    def __init__(
        self,
        program: Program,
        file: Module,
        introduced: Introduced,
        original: ast.Module,
    ) -> None:
        super().__init__(program, file, introduced)
        self.devices = Devices(program)
        self._read_before = {
            n.id for n in nodes_in(original) if isinstance(n, ast.Name)
        }
        self._asked_before = {
            ast.unparse(one)
            for n in ast.walk(original)
            if isinstance(n, ast.Call)
            and (one := keyword(n, "enabled")) is not None
            and (dotted_name(n.func) or "").endswith("autocast")
        }
        trees = (ast.parse(text, mode="eval") for text in introduced.evaluated)
        self._evaluated = {
            ast.unparse(node)
            for tree in trees
            for node in (*_reads(tree.body), *_entries(tree.body))
        }

    def total(self, expr: ast.expr) -> Iterator[Unproved]:
        """Why an added expression may raise."""
        scope = self.program.module.scope_of(expr)
        yield from self._device_type(expr, scope)
        yield from self._truth_value(expr)
        for node in _reads(expr):
            if ast.unparse(node) in self._evaluated:
                continue
            if isinstance(node, ast.Call):
                yield from self._made_device(node, scope)
            else:
                yield from self._read(node, scope)
        for entry in _entries(expr):
            if (
                not self._has_entry(entry)
                and ast.unparse(entry) not in self._evaluated
            ):
                yield self.failure(entry, "the dict may have no such entry")

    def _has_entry(self, entry: ast.Subscript) -> bool:
        """Whether a dict has the entry by which the program's own switch is read."""
        name = dotted_name(entry.value)
        known = (
            entries_behind(self.program, entry.value, name)
            if name is not None
            else None
        )
        key = (
            entry.slice.value if isinstance(entry.slice, ast.Constant) else None
        )
        return bool(known) and all(key in keys for keys in known or ())

    def _device_type(self, expr: ast.expr, scope: Scope) -> Iterator[Unproved]:
        """A name given as the device type holds a bare one: `cuda`, never `cuda:0` or a device."""
        given = device(expr) if isinstance(expr, ast.Call) else None
        dotted = dotted_name(given) if given is not None else None
        if given is None or dotted is None or dotted.endswith(".type"):
            return
        value = self.devices.of(given, scope)
        if not (value.is_string and value.closed) or any(
            ":" in name for name in value.names
        ):
            yield self.failure(
                given, "it may be something else than the type of a device"
            )

    def _truth_value(self, expr: ast.expr) -> Iterator[Unproved]:
        """Autocast takes True or False for `enabled=`, and no number that counts as one."""
        enabled = (
            keyword(expr, "enabled") if isinstance(expr, ast.Call) else None
        )
        nodes = list(ast.walk(enabled)) if enabled is not None else []
        if enabled is None or any(map(self.forms.is_new_name, nodes)):
            return  # what new names are set to is asked where they are
        if ast.unparse(enabled) in self._asked_before:
            return  # what was added is no evidence
        known = truth_values(self.program, trusted=False)
        if not known.is_truth_value(enabled, enabled):
            yield self.failure(
                enabled, "it may be something else than True or False"
            )

    def _read(
        self, node: ast.Name | ast.Attribute, scope: Scope
    ) -> Iterator[Unproved]:
        dotted = dotted_name(node)
        if dotted is None:
            return
        is_hidden = self._is_hidden(node, scope)
        if is_hidden and self._is_spelling(node, dotted):
            yield self.failure(node, "`torch` is something else there")
        of_library = not is_hidden and self._of_library(node, dotted)
        if of_library or self._is_of_tensor(node, dotted):
            return
        if isinstance(node, ast.Attribute) and node.attr == "type":
            holder = dotted.rpartition(".")[0]
            value = self.devices.at(node, holder, scope)
            if not self.is_bound(node, holder):
                yield self.failure(node, f"`{holder}` may have no value there")
            elif not self._has_type(value, node, dotted):
                yield self.failure(
                    node,
                    f"`{holder}` may be something else than a torch.device",
                )
        elif isinstance(node, ast.Attribute) and node.attr == "is_enabled":
            yield from self._asked_of_scaler(node.value, scope)
        elif isinstance(node, ast.Attribute) and node.attr == "parameters":
            yield from self._asked_of_model(node.value, scope)
        elif not self.is_bound(node, dotted):
            if dotted != device_handed_in(self.program, scope):
                yield self.failure(node, f"`{dotted}` may have no value there")

    def _is_of_tensor(self, node: ast.expr, dotted: str) -> bool:
        """`x.device.type` of a region whose first statement does with `x` what nothing but a tensor
        allows: `x.float()`, or a product of matrices.
        """
        above = self.program.module.ancestors(node)
        region = next((one for one in above if isinstance(one, ast.With)), None)
        if region is None or not dotted.endswith(".device.type"):
            return False
        name = dotted.removesuffix(".device.type")
        demands = demands_of(self.program)
        scope = self.program.module.scope_of(region)
        return any(
            dotted_name(one.func) == f"{name}.float"
            if isinstance(one, ast.Call)
            else isinstance(one, ast.expr)
            and dotted_name(one) == name
            and demands.demanded(one, scope)
            for one in surely_evaluated(region.body[0])
        )

    def _asked_of_scaler(
        self, holder: ast.expr, scope: Scope
    ) -> Iterator[Unproved]:
        """`.is_enabled()` of a declared scaler, or of one that the program had before."""
        if self.forms.is_scaler(holder):
            return  # whether it is bound is asked of each scaler that is read
        if self.program.values.kind(holder, scope) is not Kind.SCALER:
            yield self.failure(holder, "it may be something else than a scaler")
        elif not self.is_bound(holder, dotted_name(holder) or ""):
            yield self.failure(holder, "it may have no value there")

    def _asked_of_model(
        self, holder: ast.expr, scope: Scope
    ) -> Iterator[Unproved]:
        """`next(model.parameters())` of a module whose class leaves that method as it is."""
        value = self.program.values.of(holder, scope)
        home, cls = value.foreign or (self.program, value.cls)
        if cls is None:
            owns = not value and bool(
                self.program.graph.methods_named("parameters")
            )
        else:
            owns = home.graph.method(cls, "parameters") is not None
        is_other = (
            may_be_class(self.program, holder, scope)
            or may_be_dict(self.program, holder, scope)
            or bool(takes_models(self.program, holder, scope))
        )
        if owns or is_other or value.kind not in (Kind.MODEL, Kind.UNKNOWN):
            yield self.failure(
                holder, "its `parameters` may be something else than a module's"
            )
        elif not self.is_bound(holder, dotted_name(holder) or ""):
            yield self.failure(holder, "it may have no value there")

    def _has_type(
        self, value: DeviceValue, node: ast.expr, dotted: str
    ) -> bool:
        """Whether `.type` is asked of a device, or of what the program itself has asked for it."""
        asked = not value.form & ~(
            Form.DEVICE | Form.UNKNOWN | Form.UNSEEN
        ) and self.is_bound(node, dotted)
        return (
            value.is_device
            or asked
            or self._is_present_device(value.form, node)
        )

    def _is_present_device(self, form: Form, node: ast.expr) -> bool:
        """`device.type if device is not None else ...`, `device is not None and device.type ==
        ...`.
        """
        parents = self.program.module.parents
        parent = parents.get(node)
        above = parents.get(parent) if parent is not None else None
        chosen = isinstance(parent, ast.IfExp) and parent.body is node
        if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            given = f"{ast.unparse(node).rpartition('.')[0]} is not None"
            chosen = ast.unparse(above.values[0]) == given
        return chosen and form == Form.DEVICE | Form.NONE

    def _is_hidden(self, node: ast.expr, scope: Scope) -> bool:
        """Whether what an import of torch has brought is hidden by a variable there."""
        head = (dotted_name(node) or "").partition(".")[0]
        return (
            scope.lookup(head) is not None
            and (self.program.canonical(node) or "").startswith("torch")
            and not self.program.reaching.imported.is_import(node, scope)
        )

    def _is_spelling(self, node: ast.expr, dotted: str) -> bool:
        """Whether a name is how the file calls torch, or a part of AMP."""
        return (
            dotted.partition(".")[0] == self.introduced.torch
            or callable_named(self.program.canonical(node)) is not None
        )

    def _of_library(self, node: ast.expr, dotted: str) -> bool:
        """`torch.float16`, where torch is imported on every path."""
        canonical = self.program.canonical(node) or ""
        head = dotted.partition(".")[0]
        if not canonical.startswith("torch"):
            return False
        # `from utils import *` has brought `torch`, which the original reads as well.
        starred = head not in self.file.root.bindings and bool(
            self.file.imports.stars
        )
        return (
            self.is_bound(node, head) or starred and head in self._read_before
        )

    def _made_device(self, call: ast.Call, scope: Scope) -> Iterator[Unproved]:
        """`torch.device(x)`, where `x` is a device or a string, or was used as one before."""
        if self.program.canonical(call.func) != "torch.device" or not call.args:
            return
        value = self.devices.of(call.args[0], scope)
        given_device = value.form & NAMED and not value.form & ~(
            NAMED | Form.UNSEEN
        )
        if not given_device and not self._was_moved_to(call, scope):
            given = ast.unparse(call.args[0])
            yield self.failure(
                call, f"`{given}` may be something else than a device"
            )

    def _was_moved_to(self, call: ast.Call, scope: Scope) -> bool:
        """Whether something was moved to the same device before, unconditionally, or is next."""
        place = self.program.module.statement_of(call)
        moves = [
            self.program.module.statement_of(move)
            for where in self._methods_beside(call.args[0], scope, place)
            for move in where.calls
            if _moves_to(move, call.args[0])
            and not may_be_cast(self.program, move)
        ]
        if one_has_run(self.program, moves, place):
            return True
        if dotted_name(call.args[0]) == device_handed_in(self.program, scope):
            return True
        return has_run_at_calls(self.program, moves, scope)

    def _methods_beside(
        self, given: ast.expr, scope: Scope, place: ast.stmt
    ) -> list[Scope]:
        """The scope, and the methods of its object that see the same device."""
        cls, text = self.program.graph.class_around(scope), dotted_name(given)
        if cls is None or text is None:
            return [scope]
        if not is_lasting(self.program, text, scope, place):
            return [scope]
        graph, scopes = self.program.graph, self.program.module.scopes
        family = dict.fromkeys((*graph.lineage(cls), *graph.heirs(cls)))
        beside = (
            scopes[node]
            for owner in family
            for node in owner.body
            if isinstance(node, FUNCTIONS)
        )
        theirs = (one for one in beside if one.self_name == scope.self_name)
        return list(dict.fromkeys((scope, *theirs)))


def _moves_to(call: ast.Call, device: ast.expr) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in MOVES:
        return False
    given = list(call.args)
    named = keyword(call, "device")
    if named is not None:
        given.append(named)
    same = ast.dump(device)
    return any(ast.dump(one) == same for one in given)


def _entries(expr: ast.expr) -> Iterator[ast.Subscript]:
    yield from (n for n in nodes_in(expr) if isinstance(n, ast.Subscript))


def _reads(expr: ast.expr) -> Iterator[ast.Name | ast.Attribute | ast.Call]:
    """Calls, and names and attributes as long as they are written."""
    waiting: list[ast.AST] = [expr]
    while waiting:
        node = waiting.pop()
        if (
            isinstance(node, (ast.Name, ast.Attribute))
            and dotted_name(node) is not None
        ):
            yield node
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))
