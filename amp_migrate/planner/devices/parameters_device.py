"""The device that a model's parameters are on where its scaler is made: what the model itself says
while the program runs, where the device has no name there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.classes.constructors import is_run_by_constructor
from amp_migrate.model.classes.given_classes import may_be_class
from amp_migrate.model.classes.given_dicts import may_be_dict
from amp_migrate.model.forwards.empty_modules import is_only_base, may_be_empty
from amp_migrate.model.forwards.functions_of_models import takes_models
from amp_migrate.model.forwards.loss_modules import holds_nothing
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.devices.handed_movers import handed_to
from amp_migrate.planner.devices.kept_moves import kept_as
from amp_migrate.planner.devices.move_order import MoveOrder
from amp_migrate.planner.devices.moves import Move
from amp_migrate.planner.devices.moves_of_bases import moves_later
from amp_migrate.planner.optimizers import asked_models as asking
from amp_migrate.planner.optimizers.optimizer_makers import asked_by_makers
from amp_migrate.planner.regions.missing_models import may_be_missing

_DEEP = 3
_HOPS = 3


def _receivers(call: ast.Call) -> list[ast.expr]:
    """`model` of `model.build_optimizer()`."""
    func = call.func
    return [func.value] if isinstance(func, ast.Attribute) else []


class TrainedModels:
    """The models whose parameters an optimizer gets, by the statement that makes it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.order = MoveOrder(program)

    def at(self, scope: Scope, place: ast.stmt) -> list[ast.expr]:
        """How they are called there: what `.parameters()` is asked of, also by a method in sight;
        else what else is handed over; else the models that run in `scope`, or that it is given
        with the optimizer; else those that other methods of its object run.
        """
        found = (
            list(asking.asked_models(self.program, place))
            or list(asked_by_makers(self.program, place, scope, self.asked))
            or list(self._handed(place, scope))
            or list(self._run_in(scope, _HOPS))
            or list(self._given(scope))
            or list(self._run_by_object(scope))
        )
        return list(
            {dotted_name(one): one for one in reversed(found)}.values()
        )[::-1]

    def asked(self, made: ast.expr) -> list[ast.expr]:
        """`model` of what makes an optimizer, `SGD(model.parameters())`."""
        return list(asking.asked_models(self.program, made))

    def _handed(self, place: ast.stmt, scope: Scope) -> Iterator[ast.expr]:
        """`model` of `build_optimizer(cfg, model)` and `model.build_optimizer(cfg)`."""
        for call in (n for n in nodes_in(place) if isinstance(n, ast.Call)):
            keywords = [one.value for one in call.keywords]
            for given in [*call.args, *keywords, *_receivers(call)]:
                is_read = asking.can_be_read(self.program, given)
                if is_read and self._is_module(given, scope):
                    yield given

    def _given(self, scope: Scope) -> Iterator[ast.expr]:
        """`model` of `def __init__(self, model, optimizer)`, where it is read."""
        names = {one.arg for one in scope.parameters()}
        for statement in scope.body if scope.is_function else ():
            for node in shallow(statement):
                if isinstance(node, ast.Name) and node.id in names:
                    if self.program.values.kind(node, scope) is Kind.MODEL:
                        yield node

    def _run_in(self, scope: Scope, hops: int) -> Iterator[ast.expr]:
        """The models that a body runs, or hands to functions in sight that run them."""
        for call in scope.calls:
            if self.program.effects.is_forward(call, scope):
                yield from self._run(call, scope, hops)

    def _run_by_object(self, scope: Scope) -> Iterator[ast.expr]:
        """`self.model`, where a constructor keeps what it is given and other methods run it."""
        cls = self.program.graph.class_around(scope)
        own = cls if scope.self_name is not None else None
        heirs = self.program.graph.heirs(own) if own is not None else []
        for method in (one for heir in heirs for one in heir.body):
            inner = (
                self.program.scope(method)
                if isinstance(method, FUNCTIONS)
                else None
            )
            if inner is None or inner.self_name != scope.self_name:
                continue
            for one in self._run_in(inner, _HOPS):
                head, _, rest = (dotted_name(one) or "").partition(".")
                if (
                    head == scope.self_name
                    and rest
                    and self._is_module(one, inner)
                ):
                    yield one

    def _run(
        self, call: ast.Call, scope: Scope, hops: int
    ) -> Iterator[ast.expr]:
        """`model` of `model(x)`, of `model.loss(x)`, and of `train_step(model, x)`."""
        function = self.program.values.callee(call, scope)
        if function is not None:
            inner = self.program.scope(function)
            for one in self._run_in(inner, hops - 1) if hops else ():
                given = (
                    argument(call, inner, one.id, False)
                    if isinstance(one, ast.Name)
                    else None
                )
                yield from (
                    [given] if given is not None and dotted_name(given) else []
                )
            return
        method = (*_receivers(call), call.func)[0]
        if handed := takes_models(self.program, call.func, scope):
            yield from handed
            return
        for one in (call.func, method):
            named = (
                dotted_name(one) is not None
                and self.program.canonical(one) is None
            )
            if named and (
                one is call.func is method or self._is_module(one, scope)
            ):
                yield one
                return

    def _is_module(self, expr: ast.expr, scope: Scope) -> bool:
        return self.program.values.is_model(expr, scope)

    def says_its_device(self, model: ast.expr, scope: Scope) -> bool:
        """Whether `next(model.parameters())` is a tensor: no class in sight has another method of
        that name, and it is no loss without parameters.
        """
        value = self.program.values.of(model, scope)
        if (
            value.kind not in (Kind.MODEL, Kind.UNKNOWN)
            or value.held is not None
            or may_be_missing(self.program, model, scope)
            or may_be_class(self.program, model, scope)
            or may_be_dict(self.program, model, scope)
        ):
            return False
        if isinstance(
            value.origin,
            (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp),
        ):
            return False
        home, cls = value.foreign or (self.program, value.cls)
        if cls is not None:
            own = home.graph.method(cls, "parameters") is not None
            return not own and not (
                holds_nothing(home, cls)
                or may_be_empty(home, cls)
                and not (self._is_optimized(model) or is_only_base(home, cls))
            )
        return not self.program.graph.methods_named("parameters")

    def _is_optimized(self, model: ast.expr) -> bool:
        """`model` of `Adam(model.parameters())`: optimizers raise where there are none."""
        asked = self.program.module.parents.get(model)
        return (
            isinstance(asked, ast.Attribute) and asked.attr in asking.PARAMETERS
        )

    # -- moves

    def is_moved(self, move: Move, model: ast.expr, scope: Scope) -> bool:
        """Whether it is `model` that a move puts on a device: four parts of a plan ask."""
        key = (TrainedModels.is_moved, move.call, move.moved, model, scope)
        return self.program.remembered(
            key, lambda: self._moves(move, model, scope)
        )

    def _moves(self, move: Move, model: ast.expr, scope: Scope) -> bool:
        if self.order.is_of_other_script(move, scope):
            return False
        moved = move.moved
        value = self.program.values.of(moved, move.scope)
        if (
            value.origin is not None
            and value.origin is self.program.values.of(model, scope).origin
        ):
            return True
        owner = self.owner(model, scope)
        if owner is not None and value.cls is not None:
            if owner in self.program.graph.lineage(value.cls):
                return True
        theirs = [
            n
            for one in (moved, *kept_as(self.program, move))
            for n in self._called(one, move.scope)
        ]
        ours = [
            n
            for one in self._around(model, scope)
            for n in self._called(one, scope)
        ]
        return any(
            self._is_same(one, other) for one in ours for other in theirs
        )

    def _around(self, model: ast.expr, scope: Scope) -> Iterator[ast.expr]:
        """`model.first_part`, and `model`, with which it moves."""
        yield model
        while isinstance(model, ast.Attribute):
            model = model.value
            if self._is_module(model, scope):
                yield model

    def _is_same(
        self, one: tuple[object, str], other: tuple[object, str]
    ) -> bool:
        """Whether two names are one variable; an attribute is one in a class and its heirs."""
        if one == other:
            return True
        first, second = one[0], other[0]
        if not isinstance(first, ast.ClassDef) or not isinstance(
            second, ast.ClassDef
        ):
            return False
        lineage = self.program.graph.lineage
        return one[1] == other[1] and (
            first in lineage(second) or second in lineage(first)
        )

    def owner(self, model: ast.expr, scope: Scope) -> ast.ClassDef | None:
        """The module that a model is a part of, or whose constructor it is read in: who moves that
        moves it, too.
        """
        cls = self.program.graph.class_around(scope)
        head, _, rest = (dotted_name(model) or "").partition(".")
        if cls is None or head != scope.self_name:
            return None
        if not rest and not self._is_made_in(cls, scope):
            return None
        return (
            cls if self.program.values.class_kind(cls) is Kind.MODEL else None
        )

    def is_moved_by_owner(
        self, model: ast.expr, scope: Scope, moves: Sequence[Move]
    ) -> bool:
        """Whether the module that a model is a part of moves it itself."""
        owner = self.owner(model, scope)
        around = self.program.graph.class_around
        return owner is not None and any(
            around(one.scope) is owner and self.is_moved(one, model, scope)
            for one in moves
        )

    def _called(
        self, expr: ast.expr, scope: Scope
    ) -> tuple[tuple[object, str], ...]:
        """`_names` of an expression of the program: each loop asks about each move."""
        key = (TrainedModels, expr, scope)
        return self.program.remembered(
            key,
            lambda: tuple(self._names(dotted_name(expr), scope, _DEEP)),
        )

    def _names(
        self, dotted: str | None, scope: Scope, deep: int
    ) -> Iterator[tuple[object, str]]:
        """The variables of a scope and attributes of a class that an object goes by, back to where
        it came from.
        """
        if dotted is None or not deep:
            return
        head, _, rest = dotted.partition(".")
        cls = self.program.graph.class_around(scope)
        is_own = cls is not None and bool(rest) and head == scope.self_name
        home = (
            self.program.module.scopes[cls]
            if is_own and cls is not None
            else scope.lookup(head)
        )
        yield (cls, rest) if is_own else (home, dotted)
        known = home.bindings if home is not None else {}
        given = [
            (one, "")
            for one in known.get(f"self.{rest}" if is_own else dotted, ())
        ]
        heads = known.get(head, ()) if rest and not is_own else ()
        if len(heads) == 1:  # `config.device` of `config = self.config`
            given.append((heads[0], f".{rest}"))
        for binding, behind in given:
            held = dotted_name(binding.value) if binding.value else None
            if held and binding.index is None and binding.how == "assign":
                assert binding.value is not None
                where = self.program.module.scope_of(binding.value)
                yield from self._names(f"{held}{behind}", where, deep - 1)

    def has_moved(
        self,
        model: ast.expr,
        moves: Sequence[Move],
        scope: Scope,
        place: ast.stmt,
        *,
        after: bool,
    ) -> bool:
        """Whether all that moves a model to another device has run; where nothing in sight does,
        whether no model is moved later: it may be the same, in a list or under another name.
        """
        if moves_later(self.program, model, scope, place):
            return False
        handed = [one for m in moves for one in handed_to(self.program, m)]
        its = [m for m in [*moves, *handed] if self.is_moved(m, model, scope)]
        if its:
            before = self.order.runs_before
            run = [m for m in its if before(m, scope, place, after=after)]
            return all(m in run or self._repeats(m, run) for m in its)
        owner = self.owner(model, scope)
        if owner is not None and self._is_made_in(owner, scope):
            return False
        others = [
            m
            for m in moves
            if self._may_be_of_model(m) and not self._is_new(m, model, scope)
        ]
        return not any(
            self.order.runs_later(m, scope, place, after=after)
            for m in (*others, *handed)
        )

    def _is_made_in(self, cls: ast.ClassDef, scope: Scope) -> bool:
        """Whether an object runs this while it is made, when no caller can have moved it."""
        return is_run_by_constructor(self.program, scope.node, cls)

    def _repeats(self, move: Move, others: Sequence[Move]) -> bool:
        """Whether one of some moves went to the same variable's device."""
        return any(
            self._is_same(one, other)
            for earlier in others
            for one in self._to(earlier)
            for other in self._to(move)
        )

    def _to(self, move: Move) -> tuple[tuple[object, str], ...]:
        return (
            self._called(move.device, move.scope)
            if move.device is not None
            else ()
        )

    def _is_new(self, move: Move, model: ast.expr, scope: Scope) -> bool:
        """`nn.Linear(8, 2).to(device)`: what is made there, and not around a model, is none that
        was there before.
        """
        made, kind = move.moved, self.program.values.kind
        origin = self.program.values.of(made, move.scope).origin
        if not isinstance(made, ast.Call) or origin is not made:
            return False
        given = [*made.args, *(one.value for one in made.keywords)]
        ours = self._called(model, scope)
        return not any(
            isinstance(one, ast.Starred)
            or kind(one, move.scope) in (Kind.MODEL, Kind.OBJECT)
            or any(
                self._is_same(own, its)
                for its in self._called(one, move.scope)
                for own in ours
            )
            for one in given
        )

    def _may_be_of_model(self, move: Move) -> bool:
        """Not `nn.MSELoss().to(device)`; but the statement `one.to(device)`, which does nothing to
        a tensor.
        """
        kind = self.program.values.kind(move.moved, move.scope)
        alone = self.program.module.parents[move.call]
        if kind is Kind.UNKNOWN:
            return isinstance(alone, ast.Expr)
        return move.of_model and kind is not Kind.CRITERION
