"""What turns AMP on or off, read from the program's own device code (amp-semantics section 4).

It asks about the device that the model is moved to, in the simplest form that cannot fail at the
place: its names are bound there on every path, and `.type` is asked of a `torch.device` only.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from amp_migrate.config import Settings
from amp_migrate.model.device_choices import asks_cuda, follows_cuda
from amp_migrate.model.devices import DeviceValue, Form
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.queries import nodes_in
from amp_migrate.model.reach import Reach
from amp_migrate.model.syntax import Binding, Scope
from amp_migrate.planner.device_moves import DeviceUse, Move
from amp_migrate.planner.own_switch import OwnSwitch
from amp_migrate.planner.parameters_device import TrainedModels
from amp_migrate.planner.project_flag import flags, is_condition, with_option
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.spelling import Spellings, Switch
from amp_migrate.torch_facts.devices import device

_ASKS = ("torch.cuda.is_available", "torch.accelerator.is_available")


class SwitchFinder:
    """Chooses the switch for one place in the program."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        spellings: Spellings,
        known: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        """`known`: what turns AMP on, by path and scope, where the program had AMP of another kind
        (`apex.Unapexed`).
        """
        self.known = known or {}
        self.program = program
        self.settings = settings
        self.spellings = spellings
        self.use = DeviceUse(program)
        self.trained = TrainedModels(program)
        self._known_at: dict[
            tuple[Scope, ast.stmt, bool], tuple[Switch, Move | None]
        ] = {}
        self.own = (
            OwnSwitch(program, settings.switch)
            if settings.switch is not None
            else None
        )
        self.unresolved: dict[Scope, None] = {}
        """Functions whose device only their callers can tell."""

    @property
    def evaluated(self) -> frozenset[str]:
        """What turned AMP of another kind on, as the program asked it."""
        return frozenset(
            text
            for scopes in self.known.values()
            for texts in scopes.values()
            for text in texts
        )

    @property
    def cpu_only(self) -> bool:
        """Whether the program uses no accelerator and the user did not ask for one, nor for
        bfloat16 on the CPU.
        """
        asked = self.settings.device
        slow = asked == "cpu" and self.settings.dtype != "bfloat16"
        return self.use.cpu_only and (asked is None or slow)

    def check_device(self, node: ast.AST) -> None:
        """Raise Refusal where the oldest torch that the program may run on lacks what AMP needs on
        the device that `--device` names.
        """
        asked = self.settings.device if self.use.cpu_only else None
        row, oldest, dtype = (
            device(asked or "cuda"),
            self.settings.target_torch,
            self.settings.dtype,
        )
        if row is None or asked in (None, "cuda"):
            return
        if dtype == "auto" and row.asks_bfloat16 is None:
            why = f"nothing tells whether {asked} computes bfloat16: name the dtype"
            raise Refusal("unsupported-shape", node, why)
        needs = {
            "autocast": row.autocast,
            "GradScaler": row.scaler if dtype != "bfloat16" else row.autocast,
            "autocast to bfloat16": row.bfloat16
            if dtype == "bfloat16"
            else row.autocast,
            "is_bf16_supported": row.asks_bfloat16
            if dtype == "auto"
            else row.autocast,
        }
        for what, since in needs.items():
            if since is not None and oldest is not None and oldest < since:
                why = (
                    f"{what} knows {asked} since torch "
                    f"{since[0]}.{since[1]}, and the program may "
                )
                why += f"run on {oldest[0]}.{oldest[1]}: raise the bound, or pass --target-torch"
                raise Refusal("torch-too-old", node, why)

    def at(
        self, scope: Scope, place: ast.stmt, *, after: bool = False
    ) -> Switch:
        """The switch in `scope`: before the statement `place`, or `after` it."""
        return self._decided(scope, place, after)[0]

    def check_read(
        self,
        node: ast.AST,
        scope: Scope,
        place: ast.stmt,
        *,
        after: bool = False,
    ) -> None:
        """Raise Refusal, at `node`, where what the loop uses is put on a device that nothing can
        ask for at the place.
        """
        move = self._decided(scope, place, after)[1]
        if move is not None:
            raise Refusal(
                "device-out-of-reach",
                node,
                f"`{ast.unparse(move.call)}` ({place_of(self.program, move.call)}) uses a device "
                "that has no name where the scaler would be made: make the optimizer after it, or "
                "keep the device in a variable",
                above=bool(scope.parameters()),
            )

    def is_unread(self, scope: Scope, place: ast.stmt) -> bool:
        """Whether nothing can ask, after a statement, for the device that the loop uses."""
        return self._decided(scope, place, True)[1] is not None

    def _decided(
        self, scope: Scope, place: ast.stmt, after: bool
    ) -> tuple[Switch, Move | None]:
        """The switch, and the move whose device could not be read."""
        key = (scope, place, after)
        if key not in self._known_at:
            here = _Place(self.program, scope, place, after)
            found, unread = self._decide(here)
            asked = with_option(
                self.program, scope, place, here.can_read, found.enabled
            )
            self._known_at[key] = replace(found, enabled=asked), unread
        return self._known_at[key]

    def _decide(self, here: _Place) -> tuple[Switch, Move | None]:
        scope = here.scope
        known = self._known(here)
        if known is not None:
            return Switch('"cuda"', known), None
        own = next(flags(self.program, scope, here.node, here.can_read), None)
        if own is not None:
            return Switch('"cuda"', own), None
        models = self.trained.at(scope, here.node)
        moves = self._moves_of(models, here)
        told = next(self._told_by(models, here), None)
        if not moves and told is not None and not self.use.cpu_only:
            return told, None
        moves = [
            self._beyond(move, here)
            for move in moves or self._moves_near(scope)
        ]
        found = next(self._found(moves, here), None)
        if found is not None:
            return found, None
        if scope.parameters():
            self.unresolved[scope] = None
        asked = self._asked_for(self.spellings.of(scope).torch)
        if told is not None and not all(
            self._follows_cuda(move) for move in moves
        ):
            return told, None
        unread = (
            m
            for m in moves
            if not self._follows_cuda(m) and (m.device or m.of_model)
        )
        return asked, next(unread, None)

    def _beyond(self, move: Move, here: _Place) -> Move:
        """A move without the conditions that the place stands under as well."""
        around = list(self.use.tests_of(here.node))
        return replace(
            move, tests=tuple(t for t in move.tests if t not in around)
        )

    def _found(self, moves: list[Move], here: _Place) -> Iterator[Switch]:
        """What the program's own names for the device, and its flags, say."""
        for move in moves:
            found = self._from_move(move, here)
            if found is not None:
                yield found
        yield from (Switch('"cuda"', flag) for flag in self._flags(moves, here))
        if self._unconditional(moves):
            yield Switch('"cuda"', None)
        yield from self._held(here)

    def _told_by(
        self, models: list[ast.expr], here: _Place
    ) -> Iterator[Switch]:
        """What the parameters of a model say, where all that moves it has run: a part of a module
        is moved when that is made.
        """
        for model in (
            m for m in models if self.trained.owner(m, here.scope) is None
        ):
            name = dotted_name(model) or ""
            bound = (
                here.is_bound(name)
                or model in nodes_in(here.node)
                and here.after
            )
            says = bound and self.trained.says_its_device(model, here.scope)
            place = (here.scope, here.node)
            if says and self.trained.has_moved(
                model, self.use.moves, *place, after=here.after
            ):
                kind = f"next({name}.parameters()).device.type"
                if self.use.other:
                    yield Switch(kind, f'{kind} != "cpu"')
                yield Switch('"cuda"', f'{kind} == "cuda"')

    def _follows_cuda(self, move: Move) -> bool:
        """Whether something is moved to CUDA exactly where CUDA is available."""
        if move.tests:
            return asks_cuda(self.program, move.tests[0])
        return move.device is None or follows_cuda(
            self.program, self.use.devices, move.device, move.scope
        )

    def _asked_for(self, torch: str) -> Switch:
        """Whether the device of a program that names none is there."""
        asked = (self.settings.device if self.use.cpu_only else None) or "cuda"
        if asked == "cpu":
            return Switch('"cpu"', None)
        home = "backends.mps" if asked == "mps" else asked
        return Switch(f'"{asked}"', f"{torch}.{home}.is_available()")

    def _moves_of(self, models: list[ast.expr], here: _Place) -> list[Move]:
        """The moves of a loop's own models, else of the data that it may get; those of its own
        scope first.
        """
        sure = [m for m in self.use.moves if not m.optional]
        its = [
            m
            for m in sure
            if any(self.trained.is_moved(m, one, here.scope) for one in models)
        ]
        data = (
            m
            for m in sure
            if not m.of_model and self.trained.leads(m.scope, here.scope)
        )
        return sorted(its or data, key=lambda m: m.scope is not here.scope)

    def _moves_near(self, scope: Scope) -> list[Move]:
        """Other moves: of models rather than of data, in its file rather than in others."""
        sure = [m for m in self.use.moves if not m.optional]
        near = [m for m in sure if m.scope.module is scope.module]
        found = near or sure
        models = [m for m in found if m.of_model]
        return sorted(models or found, key=lambda m: m.scope is not scope)

    def _known(self, here: _Place) -> str | None:
        """The first of the known texts, those of this scope before others, that can be read at
        the place.
        """
        own = self.known.get(here.scope.module.path, {}).get(
            here.scope.qualname, ()
        )
        others = (
            text
            for scopes in self.known.values()
            for texts in scopes.values()
            for text in texts
        )
        # The program has evaluated them itself, so what they name has the attributes.
        return next(
            (
                text
                for text in (*own, *others)
                if here.can_read(text, whole=False)
            ),
            None,
        )

    # -- the device

    def _from_move(self, move: Move, here: _Place) -> Switch | None:
        """The question to ask of the device that something is moved to."""
        text = dotted_name(move.device) if move.device is not None else None
        names = [text, *self._sources(text, here)] if text is not None else []
        found = (self._from_name(name, move, here) for name in names)
        return next((switch for switch in found if switch is not None), None)

    def _from_name(self, text: str, move: Move, here: _Place) -> Switch | None:
        value = self.use.devices.at(
            here.node, text, here.scope, after=here.after
        )
        if _is_index(value) or _is_index(move.value):
            return None if move.tests else Switch('"cuda"', None)
        if not here.is_bound(text):
            return self._elsewhere(move)
        torch = self.spellings.of(here.scope).torch
        if value.form is Form.DEVICE | Form.NONE and not value.names:
            return Switch(
                f'{text}.type if {text} is not None else "cuda"',
                f"{text} is not None",
            )
        was_asked = not value.form & ~(Form.DEVICE | Form.UNKNOWN)
        if value.is_device or was_asked and here.is_bound(f"{text}.type"):
            return self._asked(f"{text}.type", value, indexed=False)
        if value.is_string:
            indexed = not value.closed or any(
                name.endswith(":") for name in value.names
            )
            if indexed and (self.use.other or "cpu:" in value.names):
                return self._asked(
                    f"{torch}.device({text}).type", value, indexed=False
                )
            return self._asked(text, value, indexed=indexed)
        named = value.form and not value.form & ~(Form.DEVICE | Form.STRING)
        if named or self._has_run(move, here):
            return self._asked(
                f"{torch}.device({text}).type", value, indexed=False
            )
        return None

    def _asked(self, text: str, value: DeviceValue, *, indexed: bool) -> Switch:
        """`text` compared with what it may be."""
        if self.use.other:
            return Switch(text, f'{text} != "cpu"')
        if value.is_string and value.closed and not _may_be_cpu(value):
            return Switch('"cuda"', None)
        return Switch(
            '"cuda"', f'{text} != "cpu"' if indexed else f'{text} == "cuda"'
        )

    def _elsewhere(self, move: Move) -> Switch | None:
        """A device that has no name here, but never is the CPU."""
        sure = (
            move.value.closed
            and move.value.names
            and not _may_be_cpu(move.value)
        )
        if (
            sure
            and not move.tests
            and move.value.is_string
            and not self.use.other
        ):
            return Switch('"cuda"', None)
        return None

    def _held(self, here: _Place) -> Iterator[Switch]:
        """A `torch.device` that has a name here, where the one of the model has none."""
        scope: Scope | None = here.scope
        while scope is not None:
            for name, bindings in scope.bindings.items():
                made = any(
                    isinstance(b.value, (ast.Call, ast.IfExp)) for b in bindings
                )
                if made and here.is_bound(name):
                    value = self.use.devices.at(
                        here.node, name, here.scope, after=here.after
                    )
                    if value.is_device and not value.is_cpu:
                        yield self._asked(f"{name}.type", value, indexed=False)
            scope = scope.parent

    def _has_run(self, move: Move, here: _Place) -> bool:
        """Whether the move itself has run before the place, with the same device."""
        text = dotted_name(move.device) if move.device is not None else None
        if text is None or move.scope is not here.scope or move.device is None:
            return False
        bindings = self.program.reaching.at(move.device, text).bindings
        return here.follows(move.call) and here.bindings(text) == bindings

    # -- flags

    def _flags(self, moves: list[Move], here: _Place) -> Iterator[str]:
        """The conditions under which everything is moved: `use_cuda`, `not args.use_cpu`."""
        tests = [move.tests[0] for move in moves if move.tests]
        if len(tests) < len(moves):
            return
        texts = dict.fromkeys(map(self.program.module.source, tests))
        for text in texts if len(texts) == 1 else ():
            plain = ast.parse(text, mode="eval").body
            dotted = dotted_name(plain)
            for name in (
                (text, *self._sources(dotted, here)) if dotted else (text,)
            ):
                if is_condition(
                    ast.parse(name, mode="eval").body
                ) and here.can_read(name):
                    yield name

    def _sources(self, text: str, here: _Place) -> Iterator[str]:
        """`args.x` for a later `self.x = args.x`."""
        owner = here.scope.owner
        if owner is None or text.partition(".")[0] != here.scope.self_name:
            return
        for binding in owner.bindings.get(f"self.{text.partition('.')[2]}", ()):
            origin = (
                dotted_name(binding.value)
                if binding.value is not None
                else None
            )
            if (
                origin
                and self.program.module.scope_of(binding.statement)
                is here.scope
            ):
                yield origin

    def _unconditional(self, moves: list[Move]) -> bool:
        """Whether CUDA is used without asking: `.cuda()` or `.to("cuda")` under no condition."""
        for move in moves:
            literal = move.device is None or not dotted_name(move.device)
            cuda = (
                move.value.closed
                and not _may_be_cpu(move.value)
                and move.value.names
            )
            if (
                literal
                and cuda
                and not move.tests
                and not self._asks(move.scope)
            ):
                return True
        return False

    def _asks(self, scope: Scope) -> bool:
        """Whether the file asks anywhere whether there is a GPU."""
        scopes = (
            s
            for s in self.program.module.scopes.values()
            if s.module is scope.module
        )
        return any(
            self.program.canonical(c.func) in _ASKS
            for s in scopes
            for c in s.calls
        )


@dataclass(frozen=True)
class _Place:
    """Where the switch is to be read."""

    program: Program
    scope: Scope
    node: ast.stmt
    after: bool

    def bindings(self, text: str) -> tuple[Binding, ...]:
        """What may have given the dotted name its value here."""
        return self._reach(text).bindings

    def is_bound(self, text: str) -> bool:
        """Whether the dotted name has a value here on every path."""
        return self.program.reaching.is_bound(self.node, text, after=self.after)

    def _reach(self, text: str) -> Reach:
        reaching = self.program.reaching
        return (
            reaching.after(self.node, text)
            if self.after
            else reaching.at(self.node, text)
        )

    def can_read(self, text: str, *, whole: bool = True) -> bool:
        """Whether all names of an expression have values here, and, where it is read `whole`,
        their attributes.
        """
        names = [
            name
            for node in nodes_in(ast.parse(text, mode="eval"))
            if isinstance(node, (ast.Name, ast.Attribute))
            and (name := dotted_name(node))
        ]
        if whole:
            names = [
                n
                for n in names
                if not any(o.startswith(f"{n}.") for o in names)
            ]
        else:
            names = [
                n
                for n in names
                if "." not in n or n.startswith(f"{self.scope.self_name}.")
            ]
        return all(
            self.is_bound(name) or hasattr(builtins, name) for name in names
        )

    def follows(self, node: ast.AST) -> bool:
        """Whether the statement of `node` has run, unconditionally, when this place is reached."""
        module = self.program.module
        statement = module.statement_of(node)
        around = [self.node, *module.ancestors(self.node)]
        block = module.block_of(statement)
        own = next((s for s in block if s in around), None)
        if own is None or not isinstance(
            statement, (ast.Assign, ast.Expr, ast.AnnAssign)
        ):
            return False
        return (
            block.index(statement) < block.index(own)
            or statement is own is self.node
        )


def _is_index(value: DeviceValue) -> bool:
    """A rank, as far as anything is known: `torch.device` of it raises without an accelerator."""
    return bool(value.form & Form.INDEX) and not value.form & (
        Form.DEVICE | Form.STRING
    )


def _may_be_cpu(value: DeviceValue) -> bool:
    return not value.closed or any(
        name.rstrip(":") == "cpu" for name in value.names
    )
