"""What to ask of the device that something is moved to, and the flags under which it is moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.conditions.presence import asks_for_it
from amp_migrate.model.dataflow.earlier_statements import is_lasting
from amp_migrate.model.devices.casts import may_be_cast
from amp_migrate.model.devices.forms import (
    NAMED,
    DeviceValue,
    Form,
    bare_names,
    may_be_cpu,
)
from amp_migrate.model.devices.handed_in import device_handed_in, makes
from amp_migrate.model.devices.sources import names_device
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.opposites import conjuncts
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.devices.guards import may_tell_device
from amp_migrate.planner.devices.mover_methods import is_left_to_callers
from amp_migrate.planner.devices.moves import DeviceUse, Move
from amp_migrate.planner.devices.sure_moves import is_demanded
from amp_migrate.planner.spelling import Spellings, Switch
from amp_migrate.planner.switch.reading_place import ReadingPlace
from amp_migrate.planner.switch.same_names import means_the_same
from amp_migrate.planner.switch.same_questions import (
    Question,
    asked_here,
    question,
)
from amp_migrate.torch_facts.devices import HAS_ACCELERATOR

NAMES = (ast.Name, ast.Attribute, ast.Subscript)


class DeviceQuestions:
    """Switches that read a name of the program for its device, in a form that cannot fail."""

    def __init__(
        self, program: Program, spellings: Spellings, use: DeviceUse
    ) -> None:
        self.program = program
        self.spellings = spellings
        self.use = use

    def from_move(self, move: Move, here: ReadingPlace) -> Switch | None:
        """The question to ask of the device that something is moved to."""
        text = dotted_name(move.device) if move.device is not None else None
        names = [text, *self._sources(text, here)] if text is not None else []
        is_name = isinstance(move.device, NAMES)
        if move.device is not None and is_name and move.scope is not here.scope:
            named = asked_here(self.program, move.device, here)
            names += [named] if named is not None else []
        found = (self._from_name(name, move, here) for name in names)
        return next(
            (switch for switch in found if switch is not None),
            self._handed_in(move, here),
        )

    def _handed_in(self, move: Move, here: ReadingPlace) -> Switch | None:
        """The device of settings that nobody in sight makes, to which the object is moved next."""
        if not makes(self.program, here.scope, move.moved):
            return None
        text = device_handed_in(self.program, here.scope)
        if text is None or not names_device(move.device):
            return None
        value, torch = move.value, self.spellings.of(here.scope).torch
        if value.form & Form.NONE:
            return None
        return self._asked(f"{torch}.device({text}).type", value, indexed=False)

    def _from_name(
        self, text: str, move: Move, here: ReadingPlace
    ) -> Switch | None:
        value = self.use.devices.at(
            here.node, text, here.scope, after=here.after
        )
        if _is_index(value) or _is_index(move.value):
            return None if move.tests else Switch('"cuda"', None)
        if not here.is_bound(text):
            return self._elsewhere(move)
        torch = self.spellings.of(here.scope).torch
        if value.form is Form.DEVICE | Form.NONE:
            return self._where_given(text, value)
        unknown = Form.UNKNOWN | Form.UNSEEN
        was_asked = not value.form & ~(Form.DEVICE | unknown)
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
        if value.form & Form.NONE:
            # `.to(None)` moves nothing; `torch.device(None)` raises
            return None
        named = value.form & NAMED and not value.form & ~(NAMED | Form.UNSEEN)
        if named or self._has_run(move, here):
            return self._asked(
                f"{torch}.device({text}).type", value, indexed=False
            )
        return None

    def _where_given(self, text: str, value: DeviceValue) -> Switch:
        """What may be None, else an accelerator; or else any device, the CPU too."""
        given = f"{text} is not None"
        kind = f'{text}.type if {given} else "cuda"' if self.use.other else ""
        if not may_be_cpu(value):
            return Switch(kind or '"cuda"', given)
        asked = f'{text}.type != "cpu"' if kind else f'{text}.type == "cuda"'
        return Switch(kind or '"cuda"', f"{given} and {asked}")

    def _asked(self, text: str, value: DeviceValue, *, indexed: bool) -> Switch:
        """`text` compared with what it may be."""
        if self.use.other:
            return Switch(text, f'{text} != "cpu"')
        if value.is_string and value.closed and not may_be_cpu(value):
            return Switch('"cuda"', None)
        return Switch(
            '"cuda"', f'{text} != "cpu"' if indexed else f'{text} == "cuda"'
        )

    def _elsewhere(self, move: Move) -> Switch | None:
        """A device that has no name here, but never is the CPU."""
        sure = (
            move.value.closed
            and move.value.names
            and not may_be_cpu(move.value)
        )
        if (
            sure
            and not move.tests
            and move.value.is_string
            and not self.use.other
        ):
            return Switch('"cuda"', None)
        return None

    def held(self, here: ReadingPlace) -> Iterator[Switch]:
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

    def _has_run(self, move: Move, here: ReadingPlace) -> bool:
        """Whether the move itself has run before the place, with the same device."""
        text = dotted_name(move.device) if move.device is not None else None
        if text is None or may_be_cast(self.program, move.call):
            return False
        if move.scope is here.scope:
            return here.follows_one(self._moves_to(text, here))
        # Each caller may move it for itself.
        same = [
            one.call
            for one in self.use.moves
            if one.scope.self_name == here.scope.self_name
            and one.device is not None
            and dotted_name(one.device) == text
        ]
        lasting = is_lasting(self.program, text, here.scope, here.node)
        return lasting and here.follows_at_calls(same)

    def _moves_to(self, text: str, here: ReadingPlace) -> Iterator[ast.Call]:
        """The moves of a body to what a name means here, too."""
        reaching = self.program.reaching
        for one in self.use.moves:
            if one.scope is not here.scope or one.device is None:
                continue
            if dotted_name(one.device) == text:
                bindings = reaching.at(one.device, text).bindings
                if bindings == here.bindings(text):
                    yield one.call

    def flags(self, moves: list[Move], here: ReadingPlace) -> Iterator[str]:
        """The conditions under which everything is moved: `use_cuda`, `not args.use_cpu`."""
        if not all(self._is_told_by_tests(move) for move in moves):
            return
        asked = [
            tuple(question(self.program, one) for one in move.tests)
            for move in moves
        ]
        common = self._common(asked)
        said = self._asked_here(moves, here) if common else {}
        text = tuple(said[one] for one in common if one in said)
        text = text if len(text) == len(common) else ()
        asking = dict(self._askings(moves, here))
        for names in self._ways_to_ask(text, here) if text else ():
            plain = [one for one in names if one not in asking]
            beside = len(plain) < len(names)
            parts = (ast.parse(one, mode="eval").body for one in plain)
            if plain and all(may_tell_device(one, beside) for one in parts):
                if here.can_read(" and ".join(plain)):
                    all_of = (asking.get(one, one) for one in reversed(names))
                    yield " and ".join(all_of)

    def _askings(
        self, moves: list[Move], here: ReadingPlace
    ) -> Iterator[tuple[str, str]]:
        """`torch.cuda.is_available()`, which can be asked anywhere, as it is written and here."""
        torch = self.spellings.of(here.scope).torch
        for test in (one for move in moves for one in move.tests):
            if isinstance(test, ast.Call) and not test.args:
                name = self.program.canonical(test.func)
                if name in HAS_ACCELERATOR:
                    rest = name.removeprefix("torch.")
                    yield self._text(test), f"{torch}.{rest}()"

    def _is_told_by_tests(self, move: Move) -> bool:
        """Whether the conditions of a move tell where it leads: not those that ask whether there is
        a device, nor, where it may be the CPU, others than those that it was chosen by.
        """
        text = dotted_name(move.device) if move.device is not None else None
        if text is None or move.device is None:
            return True
        if any(asks_for_it(one, text) for one in move.tests):
            return False
        if not move.value.closed or not may_be_cpu(move.value):
            return True
        asked = {question(self.program, one) for one in move.tests}
        return any(text in _named(one) for one in move.tests) or any(
            question(self.program, one) in asked
            for one in self._chosen_by(move.device, text)
        )

    def _chosen_by(self, device: ast.expr, text: str) -> Iterator[ast.expr]:
        """The conditions by which a device came about."""
        for one in self.program.reaching.at(device, text).bindings:
            yield from self.use.tests_of(one.statement)
            for node in nodes_in(one.value) if one.value is not None else ():
                if isinstance(node, ast.IfExp):
                    yield from conjuncts(node.test)

    def leading(self, moves: list[Move]) -> list[Move]:
        """The moves without those that only follow another one: they stand under all of its
        conditions, and more. What files that ask nothing move for themselves leads nobody.
        """
        asked = {
            move: {question(self.program, one) for one in move.tests}
            for move in moves
        }
        asking = {move.scope.module for move in moves if asked[move]}
        moves = [
            move
            for move in moves
            if asked[move]
            or move.of_model
            or not asking
            or move.scope.module in asking
        ]
        return [
            move
            for move in moves
            if not any(asked[one] < asked[move] for one in moves)
        ]

    def _asked_here(
        self, moves: list[Move], here: ReadingPlace
    ) -> dict[Question, str]:
        """What is asked before moves, in names that mean the same here, where it has any."""
        tests = {t: question(self.program, t) for m in moves for t in m.tests}
        said = {
            about: self._text(test)
            for test, about in tests.items()
            if means_the_same(self.program, test, here)
        }
        for test, about in tests.items():
            found = said.get(about) or asked_here(self.program, test, here)
            said |= {about: found} if found is not None else {}
        return said

    def _ways_to_ask(
        self, tests: tuple[str, ...], here: ReadingPlace
    ) -> Iterator[tuple[str, ...]]:
        """The conditions, by the names that they have where they stand and where they come from."""
        yield tests
        dotted = dotted_name(ast.parse(tests[0], mode="eval").body)
        for name in self._sources(dotted, here) if dotted else ():
            yield (name, *tests[1:])

    def _common(
        self, tests: list[tuple[Question, ...]]
    ) -> tuple[Question, ...]:
        """Under which conditions anything is moved at all: those of one move, where every other
        one stands under them, too.
        """
        for some in tests:
            if all(set(some) <= set(others) for others in tests):
                return tuple(dict.fromkeys(some))
        return ()

    def _text(self, test: ast.expr) -> str:
        """The source of a condition, or of one that was turned round."""
        module = self.program.module
        written = test in module.parents
        return module.source(test) if written else ast.unparse(test)

    def _sources(self, text: str, here: ReadingPlace) -> Iterator[str]:
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

    def unconditional(self, moves: list[Move], scope: Scope) -> str | None:
        """The device that is used without asking: `.cuda()` or `.to("cuda")` under no
        condition.
        """
        named = (
            min(bare_names(move.value.names), default="cuda")
            for move in moves
            if self._is_unconditional(move) and decides(move, moves, scope)
        )
        return next(named, None)

    def _is_unconditional(self, move: Move) -> bool:
        literal = move.device is None or not dotted_name(move.device)
        is_number = literal and _is_index(move.value)
        cuda = (
            move.value.closed
            and not may_be_cpu(move.value)
            and (bool(move.value.names) or is_number)
        )
        asks = move.tests or self._asks(move.scope)
        left = is_left_to_callers(self.program, move.scope)
        return literal and cuda and not asks and not left

    def _asks(self, scope: Scope) -> bool:
        """Whether the file asks anywhere whether there is a GPU, and goes on without one."""
        scopes = (
            s
            for s in self.program.module.scopes.values()
            if s.module is scope.module
        )
        return any(
            self.program.canonical(c.func) in HAS_ACCELERATOR
            and not is_demanded(self.program.module, c)
            for s in scopes
            for c in s.calls
        )


def _is_index(value: DeviceValue) -> bool:
    """A rank, as far as anything is known: `torch.device` of it raises without an accelerator."""
    return bool(value.form & Form.INDEX) and not value.form & (
        Form.DEVICE | Form.STRING
    )


def _named(test: ast.expr) -> set[str | None]:
    """The names that a condition asks about."""
    return {dotted_name(n) for n in nodes_in(test) if isinstance(n, NAMES)}


def decides(move: Move, moves: list[Move], scope: Scope) -> bool:
    """Whether a move to CUDA under no condition tells where the loop in `scope` runs: another
    caller may move its model to the CPU, and the batches that are moved beside it may stay there.
    """
    if not move.of_model and any(_is_open(one, move) for one in moves):
        return False
    return move.scope is scope or not any(
        one.of_model and "cpu" in bare_names(one.value.names) for one in moves
    )


def _is_open(other: Move, move: Move) -> bool:
    """Whether the same body moves something to a device that has a name, and may be the CPU."""
    is_named = other.device is not None and dotted_name(other.device)
    is_beside = other.scope is move.scope and bool(is_named)
    return is_beside and may_be_cpu(other.value)
