"""Where a program puts its models and batches on a device, and under which conditions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.conditions.presence import asks_for_it
from amp_migrate.model.devices.dtypes import may_be_dtype
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.devices.forms import DeviceValue, Form, bare_names
from amp_migrate.model.devices.sources import may_be_of_tensor, names_device
from amp_migrate.model.files.import_groups import beside
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.model.syntax.opposites import conjuncts, negated
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.devices.default_devices import entered, may_be_cuda
from amp_migrate.planner.devices.guards import guards_before
from amp_migrate.planner.devices.loaded_values import is_loaded_in
from amp_migrate.planner.devices.mover_methods import calls_of_mover
from amp_migrate.planner.devices.moving_lambdas import handed_beside
from amp_migrate.planner.devices.sure_moves import arms, is_sure, leaves_cpu
from amp_migrate.planner.devices.typed_moves import named_on_cuda
from amp_migrate.torch_facts.devices import DEVICES
from amp_migrate.torch_facts.methods import MOVES

_DEVICES = (Kind.UNKNOWN, Kind.DEVICE, Kind.DEVICE_NAME, Kind.INDEX)
_MODELS = (Kind.MODEL, Kind.CRITERION)
_MOVES = (*MOVES, "type")
# Asking about CUDA, or seeding it, uses no device.
_ASKS = (
    "is_available",
    "device_count",
    "get_device_name",
    "get_device_properties",
    "is_bf16_",
)
_SEEDS = ("manual_seed", "empty_cache", "synchronize", "max_memory", "memory_")
_OTHERS = frozenset(row.name for row in DEVICES) - {"cuda", "cpu"}


@dataclass(frozen=True)
class Move:
    """One `.cuda()`, `.to(device)` or the like."""

    call: ast.Call
    scope: Scope
    moved: ast.expr
    device: ast.expr | None
    """The expression that names the device; None for `.cuda()`."""
    value: DeviceValue
    of_model: bool
    tests: tuple[ast.expr, ...]
    """The conditions that it stands under, innermost first; none where it may follow a tensor."""
    optional: ast.If | None = None
    """The condition under which what is moved is made, too: it asks for the thing, not for a
    device.
    """


class DeviceUse:
    """What a program says about devices."""

    def __init__(
        self,
        program: Program,
        files: Collection[Module] | None = None,
        unsupported: frozenset[str] = frozenset(),
    ) -> None:
        """`files`: those of the program that are asked about, where it is not all of them;
        `unsupported`: devices on which the program's torch has no mixed precision.
        """
        self.program = program
        self.unsupported = unsupported
        self.devices = Devices(program)
        self._calls = [
            (c, s)
            for s in program.module.scopes.values()
            if files is None or s.module in files
            for c in s.calls
        ]

    def around(self, scope: Scope) -> DeviceUse:
        """What the files say that belong together with that of a scope."""
        files = beside(self.program, scope.module)
        if len(files) == len(self.program.module.files):
            return self
        return self.program.remembered(
            (DeviceUse, files), lambda: DeviceUse(self.program, files)
        )

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """What is moved to something else than the CPU."""
        return tuple(move for move in self._moves if not move.value.is_cpu)

    @cached_property
    def _moves(self) -> tuple[Move, ...]:
        found = (self._move(c, s) for c, s in self._calls if _is_move(c))
        return tuple(move for move in found if move is not None)

    @property
    def on_cpu(self) -> bool:
        """Whether a model is moved to the CPU by a name that stands for nothing else."""
        return any(
            m.of_model and m.value.is_cpu and dotted_name(m.device)
            for m in self._moves
            if m.device is not None
        )

    @property
    def other(self) -> bool:
        """Whether the program knows accelerators other than CUDA that can have AMP."""
        return bool(self._others - self.unsupported)

    @cached_property
    def _others(self) -> frozenset[str]:
        """The accelerators other than CUDA that the program names."""
        named = (self._others_of(c, s) for c, s in self._calls)
        moved = (bare_names(move.value.names) & _OTHERS for move in self.moves)
        return frozenset[str]().union(*named, *moved)

    @cached_property
    def only(self) -> str | None:
        """The accelerator that all is moved to."""
        named = {n for m in self.moves for n in bare_names(m.value.names)}
        sure = all(move.value.closed for move in self.moves)
        return named.pop() if sure and len(named) == 1 else None

    @cached_property
    def cuda(self) -> bool:
        """Whether the program uses CUDA otherwise."""
        text = self.program.module.text
        if "cuda" not in text and "device" not in text:
            return False
        if any(may_be_cuda(value) for value in entered(self.program)):
            return True
        names = {self.program.canonical(c.func) or "" for c, _ in self._calls}
        return self._uses_cuda(names) or any(
            self._given_cuda(c, s) for c, s in self._calls
        )

    @property
    def cpu_only(self) -> bool:
        """Whether everything runs on the CPU, as far as the program can be seen."""
        return not (self.moves or self._others or self.cuda or self.helped)

    @cached_property
    def helped(self) -> bool:
        """Whether a function of a file beside the program moves what it is given, as
        `to_cuda(batch)` does, or a lambda that is handed to another.
        """
        return any(
            self._moved_abroad(c, s) or self._moved_by_lambda(c, s)
            for c, s in self._calls
        )

    def _moved_by_lambda(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a device other than the CPU is handed over beside a lambda that moves."""
        for one in handed_beside(call):
            value = self.devices.of(one, scope)
            if self._is_device(one, value, Kind.UNKNOWN, scope):
                return not value.is_cpu
        return False

    def _moved_abroad(self, call: ast.Call, scope: Scope) -> bool:
        other, function = self.program.values.abroad(call.func, scope) or (
            None,
            None,
        )
        if other is None or isinstance(function, ast.ClassDef):
            return False
        use = other.remembered(DeviceUse, lambda: DeviceUse(other))
        moves = [move for move in use.moves if move.scope.node is function]
        return any(not self._given_cpu(call, scope, move) for move in moves)

    def _given_cpu(self, call: ast.Call, scope: Scope, move: Move) -> bool:
        """Whether a helper moves to a parameter, for which this call passes the CPU."""
        if not isinstance(move.device, ast.Name):
            return False
        given = argument(call, move.scope, move.device.id, bound=False)
        return given is not None and self.devices.of(given, scope).is_cpu

    def _move(self, call: ast.Call, scope: Scope) -> Move | None:
        func = call.func
        if (
            not isinstance(func, ast.Attribute)
            or func.attr not in _MOVES
            or self.program.canonical(func) is not None
        ):
            return None
        kind = self.program.values.kind(func.value, scope)
        found = self._target(call, func.attr, kind, scope)
        if found is None:
            return None
        device, value = found
        of_model = kind in _MODELS
        is_told = (
            of_model or device is None or not may_be_of_tensor(device, value)
        )
        tests = self._tests(call, dotted_name(func.value), scope)
        return Move(
            call,
            scope,
            func.value,
            device,
            value,
            of_model,
            tuple(tests) if is_told else (),
            self._optional(func.value),
        )

    def _target(
        self, call: ast.Call, method: str, kind: Kind, scope: Scope
    ) -> tuple[ast.expr | None, DeviceValue] | None:
        """Where something is moved to, as it is written, and what that may be."""
        if method == "cuda" or (
            method == "type" and named_on_cuda(self.program, call) is not None
        ):
            return None, DeviceValue(Form.STRING, frozenset({"cuda"}))
        if method == "type":
            return None
        given = [
            *call.args[:1],
            *(k.value for k in call.keywords if k.arg == "device"),
        ]
        for expr in given:
            value = self.devices.of(expr, scope)
            if self._is_device(expr, value, kind, scope):
                return expr, value
        return None

    def _is_device(
        self, expr: ast.expr, value: DeviceValue, kind: Kind, scope: Scope
    ) -> bool:
        """Whether the argument of `.to` is a device: not a dtype, not another tensor."""
        known = value.form & (Form.DEVICE | Form.STRING | Form.INDEX)
        if known and (
            not value.closed or value.names or value.form & Form.INDEX
        ):
            return True
        named = expr.func if isinstance(expr, ast.Call) else expr
        if (self.program.canonical(named) or "").startswith("torch."):
            return False
        if may_be_dtype(self.program, expr, scope):
            return False
        if isinstance(expr, ast.Call):
            return kind in _MODELS and not known
        if self._may_be_tensor(expr, scope):
            return False
        return kind in _MODELS or names_device(expr)

    def _may_be_tensor(self, expr: ast.expr, scope: Scope) -> bool:
        """What is known to be no device. `os.environ.get("DEVICE")` is no tensor, and of what is
        not torch's `.to` takes names of devices alone.
        """
        value = self.program.values.of(expr, scope)
        if value.kind in _DEVICES:
            return False
        name = value.name or "torch"
        return value.kind is not Kind.OTHER or name.startswith("torch")

    def _optional(self, moved: ast.expr) -> ast.If | None:
        """`if opt.vgg > 0: self.vgg = VGG(); self.vgg.cuda()`."""
        dotted, module = dotted_name(moved), self.program.module
        branch = next(
            (a for a in module.ancestors(moved) if isinstance(a, ast.If)), None
        )
        if dotted is None or branch is None or _is_main(branch.test):
            return None
        made = self.program.reaching.at(moved, dotted).bindings
        body = {id(node) for one in branch.body for node in nodes_in(one)}
        everywhere = self.program.module.scope_of(moved).bindings.get(
            dotted, ()
        )
        inside = all(
            id(b.statement) in body and b.how != "parameter"
            for b in (*made, *everywhere)
        )
        return branch if made and inside else None

    def _tests(
        self, call: ast.Call, moved: str | None, scope: Scope
    ) -> Iterator[ast.expr]:
        """The conditions of a move; those of the one call of a method that only moves, and those
        under which its function gives back what it was given, too.
        """
        yield from self.tests_of(call, moved)
        yield from map(self._negated, guards_before(call, scope))
        typed = named_on_cuda(self.program, call) if _is_typed(call) else None
        if typed is not None:
            yield from self.tests_of(typed)
        callers = calls_of_mover(self.program, scope)
        if len(callers) == 1:
            yield from self.tests_of(callers[0])

    def tests_of(
        self, node: ast.AST, moved: str | None = None
    ) -> Iterator[ast.expr]:
        """The conditions that a node stands under, innermost first; not that of the main block,
        not what chooses between two ways to a GPU, and not between a model made and moved there
        and one out of a file.
        """
        here: ast.AST = node
        for parent in self.program.module.ancestors(node):
            if isinstance(parent, (ast.If, ast.IfExp)):
                first, second = arms(parent)
                other = second if here in first else first
                loaded = moved and is_loaded_in(self.program, other, moved)
                if not (
                    loaded
                    or asks_for_it(parent.test, moved)
                    or _is_main(parent.test)
                    or self._is_sure(parent, node)
                ):
                    if here in first:
                        yield from conjuncts(parent.test)
                    elif here in second and not any(map(leaves_cpu, first)):
                        yield self._negated(parent.test)
            here = parent

    def _is_sure(self, branch: ast.If | ast.IfExp, node: ast.AST) -> bool:
        if not isinstance(branch, ast.If):
            return False
        return is_sure(self.program, branch, node)

    def _negated(self, test: ast.expr) -> ast.expr:
        """The opposite of a condition, one for each, so that it is the same for all who ask."""
        known: dict[ast.expr, ast.expr] = self.program.remembered(
            "opposites", dict
        )
        if test not in known:
            known[test] = negated(test)
        return known[test]

    def _others_of(self, call: ast.Call, scope: Scope) -> frozenset[str]:
        """Those that a call names; any, where it asks for the one that is there."""
        name = self.program.canonical(call.func) or ""
        if name == "torch.device":
            return bare_names(self.devices.of(call, scope).names) & _OTHERS
        if name.startswith("torch.accelerator."):
            return frozenset({"any"})
        package = name.removeprefix("torch.").removeprefix("backends.")
        known = package != name and _OTHERS
        return frozenset({package.partition(".")[0]}) & (known or frozenset())

    def _uses_cuda(self, names: set[str]) -> bool:
        used = (
            name.removeprefix("torch.cuda.")
            for name in names
            if name.startswith("torch.cuda.")
        )
        return any(not name.startswith((*_ASKS, *_SEEDS)) for name in used)

    def _given_cuda(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call that is not there to print gets a device that may be CUDA's."""
        if self._prints(call):
            return False
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        spread = self.program.values.contents.spread(call, "device", scope)
        return any(self._may_be_cuda(expr, scope) for expr in given) or any(
            self._may_be_cuda(*one) for one in spread
        )

    def _prints(self, call: ast.Call) -> bool:
        if self.program.canonical(call.func) == "torch.device":
            return True
        if isinstance(call.func, ast.Name):
            return call.func.id in ("print", "str", "repr", "format")
        last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return last in ("info", "debug", "warning", "format", "write")

    def _may_be_cuda(self, expr: ast.expr, scope: Scope) -> bool:
        if isinstance(expr, ast.Constant):
            return (
                isinstance(expr.value, str)
                and expr.value.partition(":")[0] == "cuda"
            )
        return may_be_cuda(self.devices.of(expr, scope))


def _is_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`"""
    return "__name__" in names_in(test)


def _is_move(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES


def _is_typed(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "type"
