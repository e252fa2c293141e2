"""The sigmoid behind a probability: it gets float32, wherever in sight it stands."""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.trail import (
    Origin,
    Place,
    Unseen,
    WeakPlace,
)
from amp_migrate.model.half_safety.weak_places import Search
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.values.stored_attributes import calls_stored_in
from amp_migrate.planner.half_safety.bce_refusal import (
    place_of_definition,
    unsafe,
)
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.sequential import is_sequential
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.torch_facts.layers import layer
from amp_migrate.torch_facts.ops import Trait
from amp_migrate.torch_facts.ops.row import UNIT

_FOREIGN = "code out of sight: take it out of there, and apply it to what that gives back"


class Sigmoids:
    """Mends the probabilities of one scope. Raises Refusal where one is out of sight."""

    def __init__(
        self, program: Program, scope: Scope, hazards: Hazards
    ) -> None:
        self.program = program
        self.scope = scope
        self.hazards = hazards
        self.met: set[ast.expr] = set()
        """The expressions that were followed."""

    def mend(self, expr: ast.expr, place: Place) -> Origin:
        """Find the sigmoid behind `expr` and give it float32; what it may be else is told."""
        search = Search(self.hazards.asked, Trait.LOG, whole=True)
        first = (0,) if isinstance(expr, ast.Starred) else ()
        found = search.behind(expr, place, first)
        self.met |= search.met
        for one in search.unseen:
            raise self._out_of_sight(one)
        for weak in found.weak:
            self._mend(weak)
        is_idle = found.origin == Origin.RAW and self._is_option(expr)
        if not (found.origin.is_probability or is_idle):
            why = "its input is no plain sigmoid"
            raise unsafe(self.program, self.scope, expr, why)
        return found.origin

    def _is_option(self, probability: ast.expr) -> bool:
        """Whether the loss is one of several: of layers' sums it raises in float32 as well, so that
        the program is run with another.
        """
        for parent in self.program.module.ancestors(probability):
            if isinstance(parent, (*FUNCTIONS, ast.Lambda)):
                return False
            if isinstance(parent, ast.If):
                return True
        return False

    def _mend(self, weak: WeakPlace) -> None:
        """A sigmoid, or the last layer of a sequence, gets float32."""
        if weak.cast is not None:
            self.hazards.cast(weak.cast)
        if weak.split is not None:
            home = self.program.module.scope_of(weak.split)
            name = is_sequential(self.program, weak.split, home)
            assert name is not None
            self.hazards.split(weak.split, name, is_float=weak.is_float)

    def _out_of_sight(self, unseen: Unseen) -> Refusal:
        """Where the sigmoid may be, as far as that is known."""
        why = unseen.why
        if unseen.behind:
            where = place_of_definition(unseen.behind[0])
            why = f"the sigmoid is in {where}, out of reach"
        kept = self._kept_part(unseen.node)
        if kept is not None:
            where = place_of(self.program, kept)
            why = f"`{ast.unparse(kept)}` ({where}) is run by {_FOREIGN}"
        return unsafe(
            self.program,
            self.scope,
            unseen.node,
            why,
            behind=unseen.behind,
            above=unseen.above,
            is_loss=False,
        )

    def _kept_part(self, node: ast.AST) -> ast.Call | None:
        """The sigmoid of `self.net.head = nn.Sequential(..., nn.Sigmoid())` behind `self.net(x)`,
        a model of a library.
        """
        if not isinstance(node, ast.Call):
            return None
        holder = dotted_name(node.func)
        for call in calls_stored_in(self.program, holder) if holder else ():
            row = layer(self.program.canonical(call.func))
            op = row.op if row is not None else None
            if op is not None and op.bounds == UNIT:
                return call
        return None
