"""What turns AMP on or off, read from the file's own device code (amp-semantics section 4)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass

from amp_migrate.config import Settings
from amp_migrate.migrate.spelling import Spellings
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Binding, Module, Scope
from amp_migrate.names import dotted_name

_SETTINGS_NAMES = (
    "args",
    "opt",
    "opts",
    "cfg",
    "config",
    "params",
    "hparams",
    "FLAGS",
    "flags",
    "options",
    "conf",
    "hps",
)
_FLAG_ATTRIBUTES = ("cuda", "use_cuda", "use_gpu", "gpu", "is_cuda", "use_accel", "usecuda")
_INDEX_NAMES = ("rank", "gpu", "local_rank", "gpu_id", "gpu_ids", "device_id", "device_ids", "gpus")


@dataclass(frozen=True)
class Switch:
    """Source text for the device type and for `enabled=`; `enabled` None means always on."""

    device_type: str
    enabled: str | None


@dataclass(frozen=True)
class DeviceUse:
    """What the file says about devices, in its own words."""

    moves: tuple[ast.Call, ...]
    """`.to(device)` and `.cuda()` calls."""
    cuda: bool
    other: bool
    """Whether mps, xpu or `torch.accelerator` appear."""


def device_use(program: Program) -> DeviceUse:
    """Scan one module for device code."""
    moves: list[ast.Call] = []
    cuda = other = False
    for scope in program.module.scopes.values():
        for call in scope.calls:
            moved = _is_move(call, scope, program)
            if moved:
                moves.append(call)
            name = program.canonical(call.func) or ""
            cuda |= name.startswith("torch.cuda.") or (moved and _last(call) == "cuda")
            other |= name.startswith(("torch.accelerator", "torch.backends.mps", "torch.xpu", "torch.mps"))
            cuda |= name == "torch.device" and _may_be_cuda(call)
            cuda |= any(_cuda_text(a) for a in [*call.args, *(k.value for k in call.keywords)])
            other |= name == "torch.device" and any(_text(a) in ("mps", "xpu") for a in call.args)
    cuda |= any(
        _cuda_binding(b.value) for s in program.module.scopes.values() for bs in s.bindings.values() for b in bs
    )
    names_device = "device" in program.module.identifiers and bool(moves)
    return DeviceUse(tuple(moves), cuda or names_device, other)


def _cuda_binding(value: ast.expr | None) -> bool:
    parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return any(p is not None and _cuda_text(p) for p in parts)


def _cuda_text(expr: ast.expr) -> bool:
    if isinstance(expr, ast.IfExp):
        return _cuda_text(expr.body) or _cuda_text(expr.orelse)
    if isinstance(expr, ast.JoinedStr):
        return bool(expr.values) and _cuda_text(expr.values[0])
    return (_text(expr) or "").split(":")[0] == "cuda"


def _text(expr: ast.expr) -> str | None:
    return expr.value if isinstance(expr, ast.Constant) and isinstance(expr.value, str) else None


def _may_be_cuda(call: ast.Call) -> bool:
    return not (len(call.args) == 1 and _text(call.args[0]) == "cpu")


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_move(call: ast.Call, scope: Scope, program: Program) -> bool:
    """`x.cuda(...)`, `x.to(device)`, `x.to("cuda")`; not `x.to(torch.float32)` or `x.to("cpu")`."""
    if not isinstance(call.func, ast.Attribute) or program.canonical(call.func) is not None:
        return False
    if call.func.attr == "cuda":
        return True
    if call.func.attr != "to":
        return False
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    return any(_device_like(a, scope, program) for a in given)


def _device_like(expr: ast.expr, scope: Scope, program: Program) -> bool:
    if _text(expr) == "cpu":
        return False
    kind = program.values.kind(expr, scope)
    if kind in (Kind.DEVICE, Kind.DEVICE_NAME, Kind.INDEX):
        return True
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    last = (dotted_name(expr) or "").rpartition(".")[2].lower()
    return "device" in last or last in _INDEX_NAMES


class SwitchFinder:
    """Chooses the switch for one place in the program."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        spellings: Spellings,
        known: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        """`known`: what turns AMP on, by path and scope, where the program had AMP of another kind (`apex.Unapexed`)."""
        self.known = known or {}
        self.program = program
        self.settings = settings
        self.spellings = spellings
        self.use = device_use(program)
        self._trusted = False

    @property
    def cpu_only(self) -> bool:
        """Whether the file has no accelerator code and the user did not ask for one."""
        return not self.use.cuda and not self.use.other and not self.use.moves and self.settings.device is None

    def at(self, scope: Scope, place: ast.stmt, *, trusted: bool = False) -> Switch:
        """The switch at `place` (the statement before the new one, or the first of a region) in `scope`.

        `trusted`: parameters are what the callers in sight pass, for there are no others.
        """
        self._trusted = trusted
        known = self._known(scope, place)
        if known is not None:
            return Switch('"cuda"', known)
        named = self._device_name(scope, place, self._moved_to(scope))
        if named is not None:
            return self._from_device(*named, scope)
        flag = self._flag(scope, place)
        if flag is not None:
            return Switch('"cuda"', flag)
        named = self._device_name(scope, place, self._other_devices(scope))
        if named is not None:
            return self._from_device(*named, scope)
        if self._unconditional(scope):
            return Switch('"cuda"', None)
        return Switch('"cuda"', f"{self.spellings.of(scope).torch}.cuda.is_available()")

    def _moves(self, scope: Scope) -> list[ast.Call]:
        """The moves in the file of `scope`; those of the other files where it has none."""
        near = [c for c in self.use.moves if self.program.module.scope_of(c).module is scope.module]
        return near or list(self.use.moves)

    def _known(self, scope: Scope, place: ast.stmt) -> str | None:
        """The first of the known texts, those of this scope before others, that can be read at `place`."""
        own = self.known.get(scope.module.path, {}).get(scope.qualname, ())
        others = (text for scopes in self.known.values() for texts in scopes.values() for text in texts)
        return next((text for text in (*own, *others) if self._readable(text, scope, place)), None)

    def _readable(self, text: str, scope: Scope, place: ast.stmt) -> bool:
        names = [n for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, (ast.Name, ast.Attribute))]
        whole = {dotted_name(n) for n in names}
        outer = {d for d in whole if d is not None and not any(o is not None and o.startswith(f"{d}.") for o in whole)}
        return all(self._bound(d, scope, place) for d in outer if not hasattr(builtins, d))

    def _from_device(self, text: str, kind: Kind, scope: Scope) -> Switch:
        if kind is Kind.INDEX:
            return Switch('"cuda"', None)
        if kind is not Kind.DEVICE:  # `torch.device` takes a string and a device alike
            text = f"{self.spellings.of(scope).torch}.device({text})"
        elif self._is_absent_without_accelerator(text, scope):
            return Switch(f'{text}.type if {text} is not None else "cuda"', f"{text} is not None")
        if self.use.other:
            return Switch(f"{text}.type", f'{text}.type != "cpu"')
        return Switch('"cuda"', f'{text}.type == "cuda"')

    def _is_absent_without_accelerator(self, text: str, scope: Scope) -> bool:
        """`device = torch.accelerator.current_accelerator()`, which is None on a machine that has none."""
        home = scope.lookup(text)
        values = [b.value for b in home.bindings[text]] if home is not None else []
        made = values[0].func if len(values) == 1 and isinstance(values[0], ast.Call) else None
        return made is not None and self.program.canonical(made) == "torch.accelerator.current_accelerator"

    def _device_name(
        self, scope: Scope, place: ast.stmt, candidates: list[tuple[str, ast.expr, Scope]]
    ) -> tuple[str, Kind] | None:
        """The device that the program moves things to, by a name that is bound at `place`."""
        for text, expr, where in candidates:
            here = scope if text.partition(".")[0] != where.self_name else where  # the name as it is seen at `place`
            kind = self._device_kind(expr, here)
            if kind is not None and self._bound(text, scope, place) and not self._may_be_none(text, scope):
                return text, kind
        return None

    def _moved_to(self, scope: Scope) -> list[tuple[str, ast.expr, Scope]]:
        """Device expressions of `.to(...)` calls as dotted names: those used in this scope first, `device` before others."""
        found: dict[str, tuple[str, ast.expr, Scope]] = {}
        for call in sorted(self._moves(scope), key=lambda c: self.program.module.scope_of(c) is not scope):
            where = self.program.module.scope_of(call)
            for expr in [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]:
                text = dotted_name(expr)
                index = (
                    text is not None
                    and self.program.values.kind(expr, where) in (Kind.INDEX, Kind.UNKNOWN)
                    and _is_index_name(text)
                )
                if text is not None and not (
                    index and self._tests_of(call)
                ):  # an index under a condition: the condition decides
                    found.setdefault(text, (text, expr, where))
        return list(found.values())

    def _other_devices(self, scope: Scope) -> list[tuple[str, ast.expr, Scope]]:
        """Names called `device` that hold one, moved or not."""
        found: list[tuple[str, ast.expr, Scope]] = []
        here: Scope | None = scope
        while here is not None:
            for name in ("device", "self.device", "DEVICE", "dev"):
                if name in here.bindings and not any(b.how == "import" for b in here.bindings[name]):
                    found.append((name, ast.parse(name, mode="eval").body, scope))
            here = here.parent
        return found

    def _device_kind(self, expr: ast.expr, where: Scope) -> Kind | None:
        value = self.program.values.of(expr, where)
        if value.kind in (Kind.DEVICE, Kind.INDEX):
            bare = value.kind is Kind.DEVICE and not self._trusted and self._bare_parameter(expr, where)
            return Kind.DEVICE_NAME if bare else value.kind
        if value.kind is Kind.DEVICE_NAME:
            return None if _text(value.origin or expr) == "cpu" and _text(expr) == "cpu" else Kind.DEVICE_NAME
        last = (dotted_name(expr) or "").rpartition(".")[2].lower()
        if not value and "device" in last and not last.endswith("devices"):
            return Kind.UNKNOWN
        return Kind.INDEX if not value and last in _INDEX_NAMES else None

    def _may_be_none(self, text: str, scope: Scope) -> bool:
        """A parameter `device=None`, or a variable that starts as None, names no device."""
        home = scope.lookup(text) if "." not in text else None
        if home is not None and any(
            isinstance(b.value, ast.Constant) and b.value.value is None for b in home.bindings[text]
        ):
            return True
        if home is None or not isinstance(home.node, FUNCTIONS) or home.bindings[text][0].how != "parameter":
            return False
        arguments = home.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        return any(a.arg == text and isinstance(d, ast.Constant) and d.value is None for a, d in pairs)

    def _bare_parameter(self, expr: ast.expr, where: Scope) -> bool:
        """A parameter without annotation: other callers may pass a string."""
        home = where.lookup(expr.id) if isinstance(expr, ast.Name) else None
        if home is None or not isinstance(expr, ast.Name) or home.bindings[expr.id][0].how != "parameter":
            return False
        return any(a.arg == expr.id and a.annotation is None for a in home.parameters())

    def _bound(self, text: str, scope: Scope, place: ast.stmt) -> bool:
        """Whether the dotted name has its value before `place` runs in `scope`."""
        head = text.partition(".")[0]
        if head == scope.self_name:
            return self._attribute_bound(text, scope, place)
        home = scope.lookup(head)
        if home is None:
            return False
        bindings = home.bindings[head]
        if home is not scope:
            return True
        return any(b.how in ("parameter", "import") or self._before(b.statement, place) for b in bindings) and (
            text == head or self._settled(text, scope, place)
        )

    def _settled(self, text: str, scope: Scope, place: ast.stmt) -> bool:
        """`args.device = ...` set in this scope must come before `place`."""
        own = scope.bindings.get(text, [])
        return not own or any(self._before(b.statement, place) for b in own) or self._read_before(text, scope, own)

    def _read_before(self, text: str, scope: Scope, own: list[Binding]) -> bool:
        """`if args.device == "cuda": args.device = ...`: what a caller has set is read before it is set again."""
        first = min(getattr(b.statement, "lineno", 0) for b in own)
        return any(
            isinstance(n, ast.Attribute) and n.lineno < first and isinstance(n.ctx, ast.Load) and dotted_name(n) == text
            for n in ast.walk(scope.node)
        )

    def _as_bound(self, text: str, scope: Scope, place: ast.stmt) -> str | None:
        """A name for what `text` holds that has its value before `place`: itself, or `args.x` for a later `self.x = args.x`."""
        if self._bound(text, scope, place):
            return text
        holder = scope.owner if text.partition(".")[0] == scope.self_name else scope
        bindings = holder.bindings.get(text, []) if holder is not None else []
        origin = dotted_name(bindings[0].value) if len(bindings) == 1 and bindings[0].value is not None else None
        here = origin is not None and self.program.module.scope_of(bindings[0].statement) is scope
        return origin if here and origin is not None and self._bound(origin, scope, place) else None

    def _attribute_bound(self, text: str, scope: Scope, place: ast.stmt) -> bool:
        owner = scope.owner
        if owner is None:
            return False
        bindings = owner.bindings.get(f"self.{text.partition('.')[2].partition('.')[0]}", [])
        here = [b for b in bindings if self.program.module.scope_of(b.statement) is scope]
        if here:
            return any(self._before(b.statement, place) for b in here)
        return bool(bindings) or self._inherited(text.partition(".")[2].partition(".")[0], owner)

    def _inherited(self, name: str, owner: Scope) -> bool:
        """Whether a base class sets the attribute, or is out of sight, so that it may."""
        assert isinstance(owner.node, ast.ClassDef)
        lineage = self.program.graph.lineage(owner.node)
        scopes = [self.program.module.scopes[cls] for cls in lineage]
        if any(f"self.{name}" in s.bindings or name in s.bindings for s in scopes):
            return True
        bases = [(b, s) for cls, s in zip(lineage, scopes, strict=True) for b in cls.bases]
        return any(
            self.program.graph.class_named(b, s.parent or s) is None
            and not (self.program.canonical(b) or dotted_name(b) or "").startswith(("torch.", "object"))
            for b, s in bases
        )

    def _before(self, statement: ast.AST, place: ast.stmt) -> bool:
        """Whether `statement` ended before or is around `place`, in a block that `place` shares."""
        module = self.program.module
        if not isinstance(statement, ast.stmt):
            return True
        if statement.lineno > place.lineno and statement is not place:
            return False
        parent = module.parents.get(statement)
        chain = {id(place), *(id(a) for a in module.ancestors(place))}
        if id(parent) in chain:
            return True
        return isinstance(parent, ast.If) and self._bound_in_all(statement, parent, chain)

    def _bound_in_all(self, statement: ast.stmt, branch: ast.If, chain: set[int]) -> bool:
        """Set in one branch of an `if/else` before `place`: taken as set where every branch of it sets the same target."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        text = ast.dump(target) if target is not None else None
        outer: ast.AST = branch
        blocks = _branches(branch)
        while (
            isinstance(outer, ast.If)
            and isinstance(up := self.program.module.parents.get(outer), ast.If)
            and up.orelse == [outer]
        ):
            outer = up
            blocks = _branches(outer) if isinstance(outer, ast.If) else blocks
        every = all(
            any(isinstance(s, ast.Assign) and ast.dump(s.targets[0]) == text for s in block) for block in blocks
        )
        return every and id(self.program.module.parents.get(outer)) in chain

    def _flag(self, scope: Scope, place: ast.stmt) -> str | None:
        """`use_cuda`, `args.cuda`: a truth value under which tensors are moved."""
        found: dict[str, None] = {}
        for call in self._moves(scope):
            for test in self._tests_of(call):
                text = dotted_name(test)
                where = self.program.module.scope_of(call)
                if text is not None and self._is_flag(test, text, where):
                    found |= dict.fromkeys(filter(None, [self._as_bound(text, scope, place)]))
        for name in ("use_cuda", "cuda", "use_gpu", "USE_CUDA", "CUDA"):
            home = scope.lookup(name)
            if home is not None and self.program.values.kind(ast.Name(name, ast.Load()), scope) is Kind.CUDA_FLAG:
                if self._bound(name, scope, place):
                    found.setdefault(name)
        return next(iter(found), None) or self._only_guard(scope, place)

    def _only_guard(self, scope: Scope, place: ast.stmt) -> str | None:
        """The one condition under which everything is moved, whatever its name: `self.gpu_mode`, `not args.use_cpu`."""
        guards: set[str] = set()
        for call in self._moves(scope):
            tests = self._tests_of(call)
            if not tests:
                return None
            guards.add(ast.unparse(tests[0]))
        text = guards.pop() if len(guards) == 1 else None
        if text is None:
            return None
        test = ast.parse(text, mode="eval").body
        test = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
        plain = isinstance(test, ast.Compare) and all(
            isinstance(c, (ast.Constant, ast.UnaryOp)) for c in test.comparators
        )
        inner = dotted_name(test.left if isinstance(test, ast.Compare) and plain else test)
        return text if inner is not None and self._bound(inner, scope, place) else None

    def _is_flag(self, test: ast.expr, text: str, where: Scope) -> bool:
        kind = self.program.values.kind(test, where)
        if kind is Kind.CUDA_FLAG:
            return True
        _head, _, last = text.rpartition(".")
        return last.lower() in _FLAG_ATTRIBUTES and kind in (Kind.UNKNOWN, Kind.OTHER, Kind.OBJECT)

    def _tests_of(self, call: ast.Call) -> list[ast.expr]:
        """The conditions that a move stands under."""
        module = self.program.module
        tests: list[ast.expr] = []
        here: ast.AST = call
        for parent in module.ancestors(call):
            if (
                isinstance(parent, ast.If)
                and any(here is s for s in parent.body)
                or isinstance(parent, ast.IfExp)
                and parent.body is here
            ):
                tests.append(parent.test)
            here = parent
        return tests

    def _unconditional(self, scope: Scope) -> bool:
        """Whether CUDA is used without asking: `.cuda()` or `.to("cuda")` under no condition."""
        for call in self._moves(scope):
            if _last(call) == "cuda" or any(_cuda_text(a) for a in call.args):
                if not self._tests_of(call) and not self._guarded_elsewhere(self.program.module.scope_of(call).module):
                    return True
        return False

    def _guarded_elsewhere(self, file: Module) -> bool:
        scopes = (s for s in self.program.module.scopes.values() if s.module is file)
        names = (self.program.canonical(c.func) for s in scopes for c in s.calls)
        return any(n in ("torch.cuda.is_available", "torch.accelerator.is_available") for n in names)


def _is_index_name(text: str) -> bool:
    return text.rpartition(".")[2].lower() in _INDEX_NAMES


def _branches(branch: ast.If) -> list[list[ast.stmt]]:
    blocks = [branch.body]
    rest = branch.orelse
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        blocks.append(rest[0].body)
        rest = rest[0].orelse
    return [*blocks, rest]
