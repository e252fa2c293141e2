"""What a rewrite has added cannot fail: every inserted expression has a value at its place.

Erasing shows that the rest is the program that was there; it is blind to the additions, and they
run with AMP off as well. Here the output is read as a program of its own. Each name and attribute
in an added expression must be bound on every path to it, `.type` may be asked of a `torch.device`
only, `torch.device(x)` only made of what is one, a scaler be read only where its optimizer may be
read, and `.float()` be called on floating-point tensors only. Nothing here is taken from the plan
but what it declares (`Introduced`).
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from amp_migrate.model.configurations import entries_behind
from amp_migrate.model.devices import Devices, DeviceValue, Form
from amp_migrate.model.kinds import Kind
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.step_values import is_value_used
from amp_migrate.model.syntax import Module, Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.whole_reads import literal, reader_of, reader_of_files
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.rewrite.proof.facts import Introduced
from amp_migrate.rewrite.proof.forms import Forms, device
from amp_migrate.rewrite.proof.function_values import value_faults
from amp_migrate.rewrite.proof.names import name_faults
from amp_migrate.rewrite.proof.receivers import receivers_of
from amp_migrate.rewrite.proof.taken_apart import is_taken_apart
from amp_migrate.torch_facts.amp_api import DOUBLES

_MOVES = ("to", "cuda")


class Unproved(NamedTuple):
    """An added expression that may fail; `line` is 1-based and counts in the output."""

    path: str
    scope: str
    line: int
    expression: str
    why: str


def unproved(
    program: Program,
    originals: Mapping[str, str],
    introduced: Mapping[str, Introduced],
) -> Iterator[Unproved]:
    """The additions that are not proved, in the files of the output `program`, by path."""
    for file in program.module.files:
        if file.text != originals[file.path]:
            yield from _Additions(
                program, file, introduced[file.path]
            ).failures(originals[file.path])


class _Additions:
    """The added expressions of one file."""

    def __init__(
        self, program: Program, file: Module, introduced: Introduced
    ) -> None:
        self.program = program
        self.file = file
        self.introduced = introduced
        self.forms = Forms(introduced)
        self.devices = Devices(program)
        self._read_before: set[str] = set()
        trees = (ast.parse(text, mode="eval") for text in introduced.evaluated)
        self._evaluated = {
            ast.unparse(node) for tree in trees for node in _reads(tree.body)
        }

    def failures(self, original: str) -> Iterator[Unproved]:
        """What is not proved of the additions to `original`."""
        before, after = ast.parse(original), self.file.tree
        self._read_before = {
            n.id for n in ast.walk(before) if isinstance(n, ast.Name)
        }
        for line, message in name_faults(before, after, self.introduced):
            yield Unproved(
                self.file.path, self._scope_at(line), line, "", message
            )
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.withitem) and self.forms.is_region(node):
                yield from self._total(node.context_expr)
            elif isinstance(node, ast.Assign) and self._is_new(node.targets[0]):
                if not self.forms.is_scaler(node.value):
                    yield from self._total(node.value)
                yield from self._set(node.targets[0])
            elif isinstance(
                node, (ast.Name, ast.Attribute)
            ) and self.forms.is_scaler(node):
                yield from self._scaler(node)
        yield from self._step_values()
        yield from self._casts(before)
        yield from self._entries(before)
        for node, why in value_faults(self.program, self.file, self.introduced):
            yield self._failure(node, why)

    def _scope_at(self, line: int) -> str:
        """The innermost scope that holds a line."""
        around = [
            scope
            for node, scope in self.program.module.scopes.items()
            if scope.module is self.file and isinstance(node, ast.stmt)
            if node.lineno <= line <= (node.end_lineno or 0)
        ]
        return (
            max(
                around, key=lambda scope: getattr(scope.node, "lineno", 0)
            ).qualname
            if around
            else "<module>"
        )

    def _is_new(self, target: ast.expr) -> bool:
        return self.forms.is_scaler(target) or self.forms.is_new_name(target)

    def _set(self, target: ast.expr) -> Iterator[Unproved]:
        """An object whose class says which attributes it has takes no other."""
        cls = self.program.graph.class_around(
            self.program.module.scope_of(target)
        )
        if cls is not None and isinstance(target, ast.Attribute):
            if not self.program.attributes.takes(cls, target.attr):
                yield self._failure(
                    target, f"`{cls.name}` takes no new attributes"
                )

    # -- names and devices

    def _total(self, expr: ast.expr) -> Iterator[Unproved]:
        """Why an added expression may raise."""
        scope = self.program.module.scope_of(expr)
        yield from self._device_type(expr, scope)
        for node in _reads(expr):
            if ast.unparse(node) in self._evaluated:
                continue
            if isinstance(node, ast.Call):
                yield from self._made_device(node, scope)
            else:
                yield from self._read(node, scope)
        for entry in (
            n for n in ast.walk(expr) if isinstance(n, ast.Subscript)
        ):
            if (
                not self._has_entry(entry)
                and ast.unparse(entry) not in self._evaluated
            ):
                yield self._failure(entry, "the dict may have no such entry")

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
            yield self._failure(
                given, "it may be something else than the type of a device"
            )

    def _read(
        self, node: ast.Name | ast.Attribute, scope: Scope
    ) -> Iterator[Unproved]:
        dotted = dotted_name(node)
        if dotted is None or self._of_library(node, dotted):
            return
        if isinstance(node, ast.Attribute) and node.attr == "type":
            holder = dotted.rpartition(".")[0]
            value = self.devices.at(node, holder, scope)
            if not self._is_bound(node, holder):
                yield self._failure(node, f"`{holder}` may have no value there")
            elif not self._has_type(value, node, dotted):
                yield self._failure(
                    node,
                    f"`{holder}` may be something else than a torch.device",
                )
        elif isinstance(node, ast.Attribute) and node.attr == "is_enabled":
            yield from self._asked_of_scaler(node.value, scope)
        elif isinstance(node, ast.Attribute) and node.attr == "parameters":
            yield from self._asked_of_model(node.value, scope)
        elif not self._is_bound(node, dotted):
            yield self._failure(node, f"`{dotted}` may have no value there")

    def _asked_of_scaler(
        self, holder: ast.expr, scope: Scope
    ) -> Iterator[Unproved]:
        """`.is_enabled()` of a declared scaler, or of one that the program had before."""
        if self.forms.is_scaler(holder):
            return  # whether it is bound is asked of each scaler that is read
        if self.program.values.kind(holder, scope) is not Kind.SCALER:
            yield self._failure(
                holder, "it may be something else than a scaler"
            )
        elif not self._is_bound(holder, dotted_name(holder) or ""):
            yield self._failure(holder, "it may have no value there")

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
        if owns or value.kind not in (Kind.MODEL, Kind.UNKNOWN):
            yield self._failure(
                holder, "its `parameters` may be something else than a module's"
            )
        elif not self._is_bound(holder, dotted_name(holder) or ""):
            yield self._failure(holder, "it may have no value there")

    def _has_type(
        self, value: DeviceValue, node: ast.expr, dotted: str
    ) -> bool:
        """Whether `.type` is asked of a device, or of what the program itself has asked for it."""
        asked = not value.form & ~(
            Form.DEVICE | Form.UNKNOWN
        ) and self._is_bound(node, dotted)
        return (
            value.is_device
            or asked
            or self._is_present_device(value.form, node)
        )

    def _is_present_device(self, form: Form, node: ast.expr) -> bool:
        """`device.type if device is not None else ...`."""
        parent = self.program.module.parents.get(node)
        chosen = isinstance(parent, ast.IfExp) and parent.body is node
        return chosen and form == Form.DEVICE | Form.NONE

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
            self._is_bound(node, head) or starred and head in self._read_before
        )

    def _is_bound(self, node: ast.expr, dotted: str) -> bool:
        return hasattr(builtins, dotted) or self.program.reaching.is_bound(
            node, dotted
        )

    def _made_device(self, call: ast.Call, scope: Scope) -> Iterator[Unproved]:
        """`torch.device(x)`, where `x` is a device or a string, or was used as one before."""
        if self.program.canonical(call.func) != "torch.device" or not call.args:
            return
        value = self.devices.of(call.args[0], scope)
        if value.form & ~(Form.DEVICE | Form.STRING) and not self._was_moved_to(
            call, scope
        ):
            given = ast.unparse(call.args[0])
            yield self._failure(
                call, f"`{given}` may be something else than a device"
            )

    def _was_moved_to(self, call: ast.Call, scope: Scope) -> bool:
        """Whether something was moved to the same device before, unconditionally."""
        same = ast.dump(call.args[0])
        place = self.program.module.statement_of(call)
        around = [place, *self.program.module.ancestors(place)]
        for move in scope.calls:
            is_move = (
                isinstance(move.func, ast.Attribute)
                and move.func.attr in _MOVES
            )
            if is_move and any(ast.dump(given) == same for given in move.args):
                statement = self.program.module.statement_of(move)
                block = self.program.module.block_of(statement)
                later = [s for s in block if s in around]
                if later and block.index(statement) < block.index(later[0]):
                    return True
        return False

    # -- scalers

    def _scaler(self, node: ast.Name | ast.Attribute) -> Iterator[Unproved]:
        """A scaler is read only where its optimizer may be read."""
        dotted = dotted_name(node)
        if (
            dotted is None
            or not isinstance(node.ctx, ast.Load)
            or self._is_bound(node, dotted)
        ):
            return
        scope = self.program.module.scope_of(node)
        stepped = [c.args[0] for c in scope.calls if self._is_step(c)]
        names = [
            name for expr in stepped if (name := dotted_name(expr)) is not None
        ]
        if len(names) < len(stepped) or any(
            not self._is_bound(node, name) for name in names
        ):
            return
        if not stepped or dotted.partition(".")[0] in self.introduced.given:
            return
        if any(self._is_made_beside(dotted, name, scope) for name in names):
            return
        yield self._failure(node, f"`{dotted}` may have no value there")

    def _is_made_beside(
        self, dotted: str, optimizer: str, scope: Scope
    ) -> bool:
        """Whether the scaler is set in the statement after each that sets an optimizer, so that
        where the one has a value, the other has.
        """
        home, module = scope.lookup(optimizer), self.program.module
        made = home.bindings.get(optimizer, []) if home is not None else []
        set_here = (
            [b.statement for b in home.bindings.get(dotted, [])]
            if home is not None
            else []
        )
        if not made or any(
            not isinstance(one.statement, ast.Assign) for one in made
        ):
            return False
        for binding in made:
            assert isinstance(binding.statement, ast.Assign)
            block = module.block_of(binding.statement)
            after = block[block.index(binding.statement) + 1 :][:1]
            if not any(one is after[0] for one in set_here if after):
                return False
        return True

    def _is_step(self, call: ast.Call) -> bool:
        func = call.func
        steps = (
            isinstance(func, ast.Attribute)
            and func.attr == "step"
            and bool(call.args)
        )
        return (
            steps
            and isinstance(func, ast.Attribute)
            and self.forms.is_scaler(func.value)
        )

    def _entries(self, original: ast.Module) -> Iterator[Unproved]:
        """A checkpoint with the scaler's state has a key more: nobody may read it as a whole."""
        before = [ast.unparse(one) for one in self._states(original)]
        for made in self._states(self.file.tree):
            reader = reader_of(self.program, made) or reader_of_files(
                self.program
            )
            if ast.unparse(made) not in before and reader is not None:
                place = f"line {reader.node.lineno}"
                yield self._failure(
                    made, f"{place} may read it as a whole, a new key included"
                )

    def _states(self, tree: ast.Module) -> Iterator[ast.Dict | ast.Call]:
        """The dicts that hold the state of a declared scaler under the key of checkpoints."""
        for node in ast.walk(tree):
            pairs: list[tuple[object, ast.expr]] = []
            if isinstance(node, ast.Dict):
                pairs = list(
                    zip(map(literal, node.keys), node.values, strict=True)
                )
            elif isinstance(node, ast.Call):
                pairs = [(one.arg, one.value) for one in node.keywords]
            for key, value in (
                pairs if isinstance(node, (ast.Dict, ast.Call)) else ()
            ):
                if key == self.introduced.checkpoint_key and self._is_state(
                    value
                ):
                    assert isinstance(node, (ast.Dict, ast.Call))
                    yield node

    def _is_state(self, value: ast.expr) -> bool:
        func = value.func if isinstance(value, ast.Call) else None
        is_state = isinstance(func, ast.Attribute) and func.attr == "state_dict"
        return (
            is_state
            and isinstance(func, ast.Attribute)
            and self.forms.is_scaler(func.value)
        )

    def _step_values(self) -> Iterator[Unproved]:
        """`GradScaler.step` gives None where it skips a step, whatever the optimizer's would."""
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.Call) and self._is_step(node):
                scope = self.program.module.scope_of(node)
                if is_value_used(self.program, node, node.args[0], scope):
                    yield self._failure(
                        node, "its value is used, and a skipped step has none"
                    )

    # -- casts

    def _casts(self, original: ast.Module) -> Iterator[Unproved]:
        """Added `.float()` calls on what is known to be no floating-point tensor."""
        if not self.introduced.float_casts:
            return
        before = Counter(
            ast.unparse(node) for node in ast.walk(original) if _is_cast(node)
        )
        for node in ast.walk(self.file.tree):
            if not isinstance(node, ast.Call) or not _is_cast(node):
                continue
            if before[ast.unparse(node)]:
                before[ast.unparse(node)] -= 1
                continue
            assert isinstance(node.func, ast.Attribute)
            scope = self.program.module.scope_of(node)
            fact = self.program.precision.of(node.func.value, scope)
            if is_taken_apart(self.program, node, scope):
                yield self._failure(node, "it is taken apart, as a tuple is")
            elif fact.dtypes & DType.COMPLEX or fact.dtypes == DType.INTEGER:
                yield self._failure(node, "it may be no floating-point tensor")
            elif not fact.dtypes & DType.HALF and self._knows_double:
                yield self._failure(
                    node, "it may be float64, which this would round"
                )
            elif demands_of(self.program).demanded(node, scope):
                continue
            elif fact.container or not fact.may_be_tensor:
                yield self._failure(node, "it may be no floating-point tensor")
            elif not receivers_of(self.program).is_tensor(node, scope):
                yield self._failure(node, "nothing shows that it is a tensor")

    @cached_property
    def _knows_double(self) -> bool:
        """Whether the file computes in float64 anywhere: a cast of what is half on no path in sight
        would take digits away, with AMP off, too.
        """
        for node in self.program.module.parents:
            if isinstance(node, (ast.Name, ast.Attribute)):
                if self.program.module.scope_of(node).module is not self.file:
                    continue
                is_method = (
                    isinstance(node, ast.Attribute) and node.attr == "double"
                )
                if is_method or self.program.canonical(node) in DOUBLES:
                    return True
        return False

    def _failure(self, node: ast.expr, why: str) -> Unproved:
        scope = self.program.module.scope_of(node)
        return Unproved(
            self.file.path, scope.qualname, node.lineno, ast.unparse(node), why
        )


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


def _is_cast(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and not node.args
        and not node.keywords
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "float"
    )
