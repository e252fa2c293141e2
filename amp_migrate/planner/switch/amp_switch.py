"""What turns AMP on or off, read from the program's own device code (amp-semantics section 4).

It asks about the device that the model is moved to, in the simplest form that cannot fail at the
place: its names are bound there on every path, and `.type` is asked of a `torch.device` only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from amp_migrate.config import Settings
from amp_migrate.model.conditions.constant_conditions import never_holds
from amp_migrate.model.devices.choices import (
    asked_of_tensor,
    asks_cuda,
    follows_cuda,
)
from amp_migrate.model.files.import_groups import beside
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.devices.late_moves import without_late
from amp_migrate.planner.devices.models_on_cpu import ModelsOnCpu
from amp_migrate.planner.devices.moved_models import (
    handed_away_later,
    moved_here,
)
from amp_migrate.planner.devices.mover_methods import is_left_to_callers
from amp_migrate.planner.devices.moves import DeviceUse, Move
from amp_migrate.planner.devices.never_moved import skip_never_moved
from amp_migrate.planner.devices.own_batches import own_batches
from amp_migrate.planner.devices.parameters_device import TrainedModels
from amp_migrate.planner.devices.questions import DeviceQuestions, decides
from amp_migrate.planner.devices.support import (
    refuse_unasked,
    refuse_unsupported,
    unsupported,
)
from amp_migrate.planner.loop import Loop
from amp_migrate.planner.refusal import Refusal, Skip, place_of
from amp_migrate.planner.spelling import Spellings, Switch
from amp_migrate.planner.switch.own_options import (
    truth_value,
    unset_switch,
    with_option,
)
from amp_migrate.planner.switch.own_switch import OwnSwitch
from amp_migrate.planner.switch.project_flag import alike, flags, refuse_unread
from amp_migrate.planner.switch.put_on_cpu import OwnMoves
from amp_migrate.planner.switch.reading_place import ReadingPlace


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
        self.use = DeviceUse(program, unsupported=unsupported(settings))
        self.questions = DeviceQuestions(program, spellings, self.use)
        self.own_moves = OwnMoves(program, self.use)
        self.trained = TrainedModels(program)
        self._on_cpu = ModelsOnCpu(program, self.use, self.trained)
        self._known_at: dict[
            tuple[Scope, ast.stmt, bool], tuple[Switch, Move | None]
        ] = {}
        self.own = (
            OwnSwitch(program, settings.switch)
            if settings.switch is not None
            else None
        )
        self.asked: dict[str, None] = {}
        """What other loops of the program read to turn AMP on."""
        self.unresolved: dict[Scope, None] = {}
        """Functions whose device only their callers can tell."""

    @property
    def evaluated(self) -> frozenset[str]:
        """What turned AMP of another kind on, as the program asked it."""
        return frozenset(self.asked).union(self._all_known())

    def _all_known(self) -> Iterator[str]:
        for scopes in self.known.values():
            for texts in scopes.values():
                yield from texts

    @property
    def _may_be_cpu(self) -> bool:
        asked = self.settings.device
        slow = asked == "cpu" and self.settings.dtype != "bfloat16"
        return asked is None or slow

    def skip_cpu(self, loop: Loop) -> None:
        """Raise Skip for a loop on the CPU, where the user did not ask for an accelerator, nor for
        bfloat16 there.
        """
        around, may_be = self.use.around(loop.scope), self._may_be_cpu
        named = around.on_cpu and self.settings.device != "cpu"
        if around.cpu_only and (may_be or named):
            raise Skip(
                "cpu-only", loop.backwards[0], self._says_cpu(loop.scope)
            )
        if not may_be:
            return
        unmoved = self._on_cpu.of(loop)
        if unmoved is not None:
            name, where = ast.unparse(unmoved), place_of(self.program, unmoved)
            raise Skip(
                "cpu-only",
                loop.backwards[0],
                f"`{name}` ({where}) is moved to no device: this loop runs on the CPU, where AMP "
                "gains nothing",
            )

    def _says_cpu(self, scope: Scope) -> str:
        count = len(beside(self.program, scope.module))
        one = "this file moves nothing to another device: it runs"
        all_of_them = (
            f"these {count} files move nothing to another device: they run"
        )
        gain = "on the CPU, where AMP gains nothing"
        if self.settings.device == "cpu":
            gain = "on the CPU, where only --dtype bfloat16 gains something, on some processors"
            if self.settings.switch is not None:
                gain += "; --switch would choose among others there"
        return f"{one if count == 1 else all_of_them} {gain}"

    def refuse_two_devices(self, loop: Loop) -> None:
        """Raise Refusal where a part of what is stepped stays on the CPU, beside others."""
        left = self._on_cpu.beside_others(loop)
        if left is not None:
            name, where = ast.unparse(left), place_of(self.program, left)
            raise Refusal(
                "parameters-on-two-devices",
                loop.backwards[0],
                f"`{name}` ({where}) stays on the CPU, while other parameters that are stepped "
                "are on a GPU: GradScaler hands its factor over to the CPU without waiting for it",
            )

    @property
    def named_device(self) -> str:
        """The device that `--device` names, where the program itself says nothing."""
        return (self.settings.device if self.use.cpu_only else None) or "cuda"

    def check_device(self, node: ast.AST) -> None:
        """Raise Refusal where the oldest torch that the program may run on lacks what AMP needs
        on its device.
        """
        name = self.use.only or self.named_device
        if self.use.cpu_only:
            refuse_unasked(name, self.settings, node)
        refuse_unsupported(name, self.settings, node)

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
        unset = unset_switch(self.program, scope)
        if unset is not None and not self.known:
            raise Refusal(
                "switch-out-of-reach",
                node,
                f"`{ast.unparse(unset)}` ({place_of(self.program, unset)}) may turn AMP on and "
                "off, and nothing in sight sets it",
            )
        if self.settings.switch is None and not self.known:
            here = ReadingPlace(self.program, scope, place, after)
            refuse_unread(here, node)
        move = self._decided(scope, place, after)[1]
        if move is not None:
            if self._may_be_cpu:
                skip_never_moved(self.program, self.use.moves, node)
            raise Refusal(
                "device-out-of-reach",
                node,
                self.own_moves.why(move, scope, place),
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
            here = ReadingPlace(self.program, scope, place, after)
            found, unread = self._decide(here)
            enabled = found.enabled and truth_value(found.enabled, here)
            asked = with_option(here, enabled)
            self._known_at[key] = replace(found, enabled=asked), unread
        return self._known_at[key]

    def _decide(self, here: ReadingPlace) -> tuple[Switch, Move | None]:
        scope = here.scope
        known = self._known(here)
        if known is not None:
            return Switch('"cuda"', known), None
        own = next(flags(self.program, scope, here.node, here.can_read), None)
        if own is None:
            own = next(alike(here), None)
            self.asked |= {own: None} if own is not None else {}
        if own is not None:
            return Switch('"cuda"', own), None
        models = self.trained.at(scope, here.node)
        moves = self._moves_of(models, here)
        told = next(self._told_by(models, here), None)
        if not moves and told is not None and not self.use.cpu_only:
            return told, None
        moves = moves or self._moves_near(scope)
        moves = [self._beyond(move, here) for move in moves]
        moves = self.questions.leading(moves)
        asked = self._asked_for(self.spellings.of(scope).torch)
        if moves and self.own_moves.to_cpu(scope, here.node):
            return asked, moves[0]
        found = self._first(moves, here)
        if found is not None:
            return found, None
        if scope.parameters():
            self.unresolved[scope] = None
        if told is not None and not all(map(self._follows_cuda, moves)):
            return told, None
        unread = (
            m
            for m in moves
            if not self._follows_cuda(m)
            if m.device is None or not asked_of_tensor(self.program, m.device)
        )
        move = next(unread, None)
        batches = own_batches(self.program, self.use.moves, scope)
        if move is not None and batches:
            found = next(self._found(batches, here), None)
        return (asked, move) if found is None else (found, None)

    def _beyond(self, move: Move, here: ReadingPlace) -> Move:
        """A move without the conditions that the place stands under as well."""
        around = list(self.use.tests_of(here.node))
        return replace(
            move, tests=tuple(t for t in move.tests if t not in around)
        )

    def _first(self, moves: list[Move], here: ReadingPlace) -> Switch | None:
        """What these moves say, else those of the models that are made beside."""
        beside = self._of_models_beside(moves, here.scope)
        sets = [moves, beside] if beside else [moves]
        found = (next(self._found(one, here), None) for one in sets)
        return next(filter(None, found), None)

    def _found(self, moves: list[Move], here: ReadingPlace) -> Iterator[Switch]:
        """What the program's own names for the device, and its flags, say."""
        for move in moves:
            found = self.questions.from_move(move, here)
            if found is not None and (
                found.enabled or decides(move, moves, here.scope)
            ):
                yield found
        yield from (
            Switch('"cuda"', flag) for flag in self.questions.flags(moves, here)
        )
        kind = self.questions.unconditional(moves, here.scope)
        if kind is not None:
            yield Switch(f'"{kind}"', None)
        if not moves or not all(map(self._follows_cuda, moves)):
            yield from self.questions.held(here)

    def _told_by(
        self, models: list[ast.expr], here: ReadingPlace
    ) -> Iterator[Switch]:
        """What the parameters of a model say, where all that moves it has run: a part of a module
        is moved when that is made.
        """
        for model in (
            m
            for m in models
            if self.trained.owner(m, here.scope) is None
            or moved_here(self.program, m, here.scope)
            or self.trained.is_moved_by_owner(m, here.scope, self.use.moves)
        ):
            name = dotted_name(model) or ""
            bound = here.is_bound(name) or here.has_read(model)
            says = bound and self.trained.says_its_device(model, here.scope)
            says = says and not handed_away_later(
                self.program, model, here.scope, here.node
            )
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
            return all(asks_cuda(self.program, one) for one in move.tests)
        if is_left_to_callers(self.program, move.scope):
            return False
        return move.device is None or follows_cuda(
            self.program, self.use.devices, move.device, move.scope
        )

    def _asked_for(self, torch: str) -> Switch:
        """Whether the device of a program that names none is there."""
        asked = self.named_device
        if asked == "cpu":
            return Switch('"cpu"', None)
        home = "backends.mps" if asked == "mps" else asked
        return Switch(f'"{asked}"', f"{torch}.{home}.is_available()")

    def _moves_of(
        self, models: list[ast.expr], here: ReadingPlace
    ) -> list[Move]:
        """The moves of a loop's own models, else of its data; its own scope first."""
        around = list(self.program.module.ancestors(here.node))
        sure = [
            m
            for m in self.use.moves
            if m.optional is None or m.optional in around
        ]
        its = [
            m
            for m in sure
            if any(self.trained.is_moved(m, one, here.scope) for one in models)
        ]
        data = (
            m
            for m in sure
            if not m.of_model
            and self.trained.order.leads(m.scope, here.scope)
            and never_holds(self.program, m.call) is None
        )
        found = without_late(self.program, its) or data
        return sorted(found, key=lambda m: m.scope is not here.scope)

    def _of_models_beside(self, moves: list[Move], scope: Scope) -> list[Move]:
        """Where only data is seen to be moved: the moves of the models that are made with the
        optimizer, all to one device.
        """
        found = [m for m in self.use.moves if m.of_model and m.scope is scope]
        named = {
            dotted_name(m.device) if m.device is not None else None
            for m in found
        }
        only_data = not any(m.of_model for m in moves)
        sure = not any(m.optional or m.tests for m in found)
        return found if only_data and sure and len(named) == 1 else []

    def _moves_near(self, scope: Scope) -> list[Move]:
        """Other moves: of models rather than of data, in its file rather than in others."""
        sure = [m for m in self.use.moves if not m.optional]
        near = [m for m in sure if m.scope.module is scope.module]
        found = near or sure
        models = [m for m in found if m.of_model]
        return sorted(models or found, key=lambda m: m.scope is not scope)

    def _known(self, here: ReadingPlace) -> str | None:
        """The first of the known texts, those of this scope before others, that can be read at
        the place.
        """
        own = self.known.get(here.scope.module.path, {}).get(
            here.scope.qualname, ()
        )
        others = self._all_known()
        # The program has evaluated them itself, so what they name has the attributes.
        for text in (*own, *others):
            if here.can_read(text, whole=False):
                return text
        return None
