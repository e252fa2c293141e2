"""The casts that a region and the functions in sight that it calls need, or why there are none.

A `.float()` on a float32 tensor is the tensor itself, so a mended program is the same with AMP off.
What breaks is asked of `model.half_safety`; here the answers become edits, refusals and notes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial

from amp_migrate.model.autocast.precision import says_float
from amp_migrate.model.budget import BudgetEndedError
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.half_safety import demands, overflow
from amp_migrate.model.half_safety.all_hazards import apart, hazards
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.weak_places import Search
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.values.index_uses import counts
from amp_migrate.planner.gradients.second_order import grad_keeps_graph
from amp_migrate.planner.half_safety import cast_edits
from amp_migrate.planner.half_safety.arrays_of_half import array_of_half
from amp_migrate.planner.half_safety.autograd_functions import (
    Custom,
    unprotected,
)
from amp_migrate.planner.half_safety.cpu_operands import (
    moved_in_half,
    operands_on_cpu,
)
from amp_migrate.planner.half_safety.custom_functions import (
    perhaps_applied,
    refuse_bounded,
    refuse_unprotected,
)
from amp_migrate.planner.half_safety.foreign_calls import handed_abroad
from amp_migrate.planner.half_safety.gradients_inside import (
    refuse_backward,
)
from amp_migrate.planner.half_safety.handed_facts import Facts, HandedFacts
from amp_migrate.planner.half_safety.handed_places import sees_products
from amp_migrate.planner.half_safety.inside import Inside
from amp_migrate.planner.half_safety.other_files import (
    apart_elsewhere,
    asked_together,
    cast_elsewhere,
    in_other_file,
    second_order,
)
from amp_migrate.planner.half_safety.reach import (
    abroad,
    perhaps_reachable,
    reachable,
)
from amp_migrate.planner.half_safety.saturated_arguments import hazards_of
from amp_migrate.planner.half_safety.sequential import (
    is_sequential,
    split_call,
)
from amp_migrate.planner.half_safety.set_apart import set_apart
from amp_migrate.planner.half_safety.written_places import where_written
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.project.import_paths import resolved
from amp_migrate.rewrite.edits import ReplaceExpression
from amp_migrate.torch_facts.ops import Trait


class Hazards:
    """Collects the casts that make the regions of a loop, and what they call, safe in half
    precision.
    """

    def __init__(
        self,
        program: Program,
        *,
        float16: bool = True,
        everywhere: bool = False,
        given: Facts | None = None,
        asks_for_all: bool = False,
    ) -> None:
        """`float16` False leaves out what only float16's range forbids: bfloat16 has float32's.
        `given`: what calls in other files give parameters; `asks_for_all`: what is refused for the
        sake of other files names all of these, not the first alone.
        """
        self.program = program
        self.given = given or {}
        self.float16 = float16
        self.asks_for_all = asks_for_all
        self.elsewhere = everywhere
        """Whether the program is another one than that of the loop."""
        dtype = "float16" if float16 else "bfloat16"
        self.inside = Inside(program, dtype, everywhere=everywhere)
        self.asked = self._ask()
        self.casts: dict[ReplaceExpression, str] = {}
        """The casts, with the rule that asks for each."""
        self.islands: dict[ast.stmt, str] = {}
        """Statements in helpers that run with autocast off, with the rule that asks for it."""
        self.functions: set[Custom] = set()
        """The custom functions that run under autocast and get decorators."""
        self.wanted: list[str] = []
        """Files that make values of a large known range, and those that these may travel to: what
        becomes of them, only all of them together tell.
        """

    def _ask(self) -> Asked:
        inference = Inference(self.program, self.inside.at, self.inside.own)
        for binding, fact in self.given.items():
            inference.add(binding, fact)
        return Asked(inference, self.float16)

    def enter(self, regions: Iterable[tuple[list[ast.stmt], Scope]]) -> None:
        """The regions in which autocast will be on; before the first question."""
        for statements, scope in regions:
            self.inside.add(statements, scope)
        casts = self.asked.inference.casts
        self.asked = self._ask()
        self.asked.inference.casts = casts

    def check(self, statements: list[ast.stmt], scope: Scope) -> None:
        """Collect casts. Raises Refusal, under the rule's name, for what no cast mends."""
        self.check_here(statements, scope)
        reached: dict[str, None] = {}
        is_wide, handed = False, HandedFacts(self.program)
        handed.add(self.asked, statements, scope)
        refused: list[Refusal] = []
        try:
            for program, function, calls in abroad(
                self.program, statements, scope
            ):
                reached[resolved(program.module.path)] = None
                several = handed.of(program.scope(function))
                for given in several:
                    other = self._other(program, given)
                    handed.add(
                        other.asked, function.body, program.scope(function)
                    )
                    try:
                        self._check_abroad(
                            statements[0], other, function, calls, len(several)
                        )
                    except Refusal as refusal:
                        ways = reached if refusal.files else ()
                        told = in_other_file(
                            self.program, refusal, statements[0], program, ways
                        )
                        if not (self.asks_for_all and told.files):
                            raise asked_together(refused or [told]) from None
                        refused.append(told)
                    is_wide = is_wide or other.makes_wide(function)
        except BudgetEndedError:
            if not refused:
                raise
        if refused:
            raise asked_together(refused)
        is_wide = is_wide or sees_products(handed)
        self.wanted += reached if is_wide else []

    def _other(self, program: Program, given: Facts) -> Hazards:
        return Hazards(
            program, float16=self.float16, everywhere=True, given=given
        )

    def _check_abroad(
        self,
        node: ast.stmt,
        other: Hazards,
        function: Function,
        calls: tuple[ast.Call, ...],
        kinds: int,
    ) -> None:
        """`kinds`: how many kinds of calls there are, by the dtypes that they hand; a cast in all
        of them would not fit what some of them write into.
        """
        other.check_here(function.body, other.program.scope(function))
        if other.program is self.program:
            cast_edits.put_all(self.casts, other.casts)
            self.islands = {**other.islands, **self.islands}
            self.functions |= other.functions
            return
        mended = () if kinds > 1 and other.is_strict else calls
        self._check_mended(node, other, other.program, function, mended)

    @property
    def is_strict(self) -> bool:
        """Whether a cast mends a write that wants the dtype of what it writes into."""
        return "dtype-strict-inplace" in self.casts.values()

    def _check_mended(
        self,
        node: ast.stmt,
        elsewhere: Hazards,
        program: Program,
        function: Function,
        calls: tuple[ast.Call, ...],
    ) -> None:
        """Raise Refusal where a function of another file is to be changed, or mend it from here."""
        if elsewhere.functions:
            first = next(iter(elsewhere.functions))
            raise unprotected(first.node, first, elsewhere=True)
        if elsewhere.islands:
            first_apart = next(iter(elsewhere.islands.items()))
            raise apart_elsewhere(self.program, node, program, *first_apart)
        if elsewhere.casts and not self._cast_arguments(
            calls, program, function, elsewhere
        ):
            edit, rule = next(iter(elsewhere.casts.items()))
            raise cast_elsewhere(self.program, node, program, edit, rule)

    def makes_wide(self, function: Function) -> bool:
        """Whether a function makes values of a large known range."""
        scope = self.program.scope(function)
        nodes = (
            reachable(self.program, function.body, scope)
            if self.float16
            else ()
        )
        return any(
            overflow.is_wide(self.asked, node, where) for node, where in nodes
        )

    def check_here(self, statements: list[ast.stmt], scope: Scope) -> None:
        """The same in this file alone."""
        nodes = list(perhaps_reachable(self.program, statements, scope))
        for hazard in (
            demands.complex_parameters(self.asked) if self.float16 else ()
        ):
            self.mend(hazard)
        found: dict[ast.stmt, list[Hazard]] = {}
        for hazard in apart(self.asked, nodes):
            found.setdefault(
                self.program.module.statement_of(hazard.node), []
            ).append(hazard)
        set_apart(self, found)
        for hazard in hazards(self.asked, nodes):
            self.mend(hazard)
        for node, where in nodes:
            if isinstance(node, ast.Call):
                self._check_call(node, where)

    def _check_call(self, call: ast.Call, scope: Scope) -> None:
        """What a call hands to others, and the functions of autograd that it runs."""
        if self.elsewhere:
            if grad_keeps_graph(self.program, call):
                raise second_order(self.program, call)
            refuse_backward(self.program, call, scope)
        for find in (operands_on_cpu, moved_in_half, handed_abroad):
            for expr in find(self.asked, call, scope):
                self.cast(expr, "ops-without-half-kernel")
        for hazard in hazards_of(self.asked, call, scope):
            self.mend(hazard)
        for expr in array_of_half(self.asked, call, scope):
            self.cast(expr, "half-outside-autocast")
        refuse_bounded(self.program, call, scope, scaled=self.float16)
        asks = partial(self._has_gradient, scope)
        customs = refuse_unprotected(self.program, call, scope, asks)
        more = perhaps_applied(self.program, call, scope)
        self.functions.update([*more, *customs])
        self._refuse_bce(call, scope)

    def _has_gradient(self, scope: Scope, expr: ast.expr) -> bool:
        """Whether a value may be a floating-point tensor."""
        fact = self.asked.fact(expr, scope)
        return fact.may_be_tensor or DType.COMPLEX in fact.dtypes

    def _refuse_bce(self, call: ast.Call, scope: Scope) -> None:
        """No cast lets a binary cross-entropy on probabilities run under autocast."""
        if not self.bans(call, scope):
            return
        if self.program.module.statement_of(call) not in self.islands:
            where = place_of(self.program, call)
            raise Refusal(
                "bce-on-probabilities",
                call,
                f"a binary cross-entropy on probabilities ({where}) would run under autocast, "
                "which raises an error",
                (resolved(self.program.module.path),) if self.elsewhere else (),
            )

    def bans(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call is a binary cross-entropy on probabilities, and nothing turns AMP off."""
        if not self.program.effects.is_bce(call, scope):
            return False
        own = self.program.regions.at(call)
        return own is None or own.enabled is not False

    def mend(self, hazard: Hazard) -> None:
        """Cast what mends it. Raises Refusal where nothing does."""
        call = hazard.split
        where = self.program.module.scope_of(call) if call is not None else None
        if call is not None and where is not None:
            sequence = is_sequential(self.program, call, where)
            if sequence is not None:
                self.split(call, sequence, is_float=True)
                return
        if not hazard.casts:
            raise Refusal(
                hazard.rule, hazard.node, hazard.message, hazard.files
            )
        for expr in hazard.casts:
            self.cast(expr, hazard.rule, hazard.like)

    def leave(self, statement: ast.stmt) -> None:
        """A statement gets an `autocast(enabled=False)` of its own."""
        self.inside.leave(statement)
        self.asked.inference.left(statement)

    def cast(
        self,
        expr: ast.expr,
        rule: str = "dtype-strict-inplace",
        like: ast.expr | None = None,
    ) -> None:
        """`expr` becomes `expr.float()`, unless it is float already or no float at all; what a call
        writes in place, where it is made. What is written into `like` gets its dtype.
        """
        home = self.program.module.scope_of(expr)
        if like is not None and cast_edits.has_dtype(self.asked, like):
            edit = cast_edits.cast_edit(self.program.module, expr, like)
            cast_edits.put(self.casts, edit, rule)
            return
        if says_float(expr) or counts(self.program, expr, home):
            return
        made = where_written(self.asked, expr, rule)
        if made != [expr]:
            for one in made:
                self.cast(one, rule)
            return
        edit = cast_edits.cast_edit(self.program.module, expr)
        cast_edits.put(self.casts, edit, rule)
        self.asked.inference.cast(expr)

    def split(self, call: ast.Call, sequence: str, is_float: bool) -> None:
        """The last layer of a Sequential gets float32; `is_float`: and gives that."""
        template = split_call(self.program, call, sequence)
        edit = ReplaceExpression(self.program.module.span(call), template)
        self.casts.setdefault(edit, "bce-under-autocast")
        if is_float:
            self.asked.inference.cast(call)

    def is_seen_half(self, expr: ast.expr) -> bool:
        """Whether an expression is half on a path in sight."""
        home = self.program.module.scope_of(expr)
        return self.asked.fact(expr, home).seen_half

    # -- functions of other files

    def _cast_arguments(
        self,
        calls: tuple[ast.Call, ...],
        program: Program,
        function: Function,
        elsewhere: Hazards,
    ) -> bool:
        """Mend a function of another file from here, where all that it needs as float are
        parameters that it gets from these calls.
        """
        inner = program.scope(function)
        source = program.module.text.encode()
        spans = [(e.target, rule) for e, rule in elsewhere.casts.items()]
        names = {source[s.start : s.end].decode(): r for s, r in spans}
        plain = all(
            [b.how for b in inner.bindings.get(n, ())] == ["parameter"]
            for n in names
        )
        own = program.module.span(function)
        plain = plain and all(
            cast_edits.is_to_float(one)
            and own.start <= one.target.start < own.end
            for one in elsewhere.casts
        )
        given = [
            (argument(c, inner, n, False), rule)
            for c in calls
            for n, rule in names.items()
        ]
        if not plain or not calls or any(expr is None for expr, _ in given):
            return False
        for expr, rule in given:
            if expr is not None:
                self._cast_argument(expr, rule)
        return True

    def _cast_argument(self, expr: ast.expr, rule: str) -> None:
        """What is float32 here needs nothing, though the function alone does not show it; a sigmoid
        that is to come into a logarithm is computed in float32 itself.
        """
        scope = self.program.module.scope_of(expr)
        if rule == "eps-underflow":
            for weak in Search(self.asked, Trait.LOG).of(expr, scope):
                if weak.saturates and weak.cast is not None:
                    self.cast(weak.cast, rule)
        if self.asked.needs_cast(expr, scope):
            self.cast(expr, rule)
