"""What a name or an attribute may hold, one step back: what it is bound to, what is put into it,
what callers pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of, spread
from amp_migrate.model.conditions.decided_values import decided
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.trail import Frame, Origin, Place, Unseen
from amp_migrate.model.half_safety.value_parts import (
    Path,
    added_to,
    elements,
    is_empty,
    stored_in,
    value_of,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.tensors.parameters import (
    all_arguments,
    spread_arguments,
)
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops.roles import VALUES

Step: TypeAlias = "tuple[ast.expr, Place, Path] | Origin | Unseen"
"""An expression, its place and the part of it that is meant; where it ends, why."""


class Names:
    """Answers for one search."""

    def __init__(self, asked: Asked, *, is_whole: bool) -> None:
        """`is_whole`: whether everything is asked that a name may hold."""
        self.asked = asked
        self.program = asked.inference.program
        self.is_whole = is_whole
        self.parameters: list[tuple[Binding, bool, Path]] = []
        """Those that were met, whether they are taken from 1, and the part that is meant."""
        self._added: set[tuple[Binding, Path, Place]] = set()

    def behind(
        self, expr: ast.Name | ast.Attribute, place: Place, path: Path
    ) -> Iterator[Step]:
        """What may be behind a part of a name's value."""
        name = dotted_name(expr) or ""
        reach = self.program.reaching.at(expr, name) if name else None
        if reach is None or not reach.bindings:
            yield self._unbound(expr, place, path)
            return
        for one in decided(self.program, expr, reach.bindings):
            yield from self._bound(one, expr, place, path)
        yield from self._put(expr, name, place, path)

    def _unbound(
        self, expr: ast.Name | ast.Attribute, place: Place, path: Path
    ) -> Step:
        """`x.data`, or nothing that is known; `x.shape` tells nothing of the values."""
        step = place.at(place.scope)
        read = (
            ops.method(expr.attr) if isinstance(expr, ast.Attribute) else None
        )
        if read is not None and read.op.result == "number":
            return Origin.GIVEN
        if isinstance(expr, ast.Attribute) and read is not None:
            return expr.value, step, path
        # Nothing in sight sets it.
        left = self._left(expr, place)
        if isinstance(expr, ast.Attribute) and expr.attr == VALUES:
            picked = expr.value, step, (0, *path)  # `x.max(1).values`
            return left if left is Origin.GIVEN else picked
        return left

    def _left(self, expr: ast.expr, place: Place) -> Step:
        """What cannot be followed any further."""
        known = self.asked.fact(expr, place.scope)
        if not known._replace(container=False).may_be_half:
            return Origin.GIVEN
        name = ast.unparse(expr)
        why = f"nothing shows where `{name}` gets its sigmoid"
        return Unseen(expr, why)

    def _bound(
        self, binding: Binding, expr: ast.expr, place: Place, path: Path
    ) -> Iterator[Step]:
        """What one binding gives a name."""
        if binding.how == "parameter":
            yield from self._parameter(binding, expr, place, path)
            return
        found = value_of(binding)
        if found is None or found[0] not in self.program.module.parents:
            yield self._left(expr, place)
            return
        value, step = found
        if is_empty(value):
            return
        home = self.program.module.scope_of(value)
        yield value, place.at(home), (*step, *path)
        if binding.how == "augmented":
            yield from self._before(binding, expr, place, path)

    def _before(
        self, binding: Binding, expr: ast.expr, place: Place, path: Path
    ) -> Iterator[Step]:
        """What a name held before `p *= mask`."""
        dotted, statement = dotted_name(expr), binding.statement
        key = binding, path, place._replace(depth=0)
        if dotted is None or key in self._added:
            return
        self._added.add(key)
        if isinstance(statement, ast.stmt):
            reach = self.program.reaching.at(statement, dotted)
            for one in reach.bindings:
                if one is not binding:
                    yield from self._bound(one, expr, place, path)

    def _put(
        self, expr: ast.expr, name: str, place: Place, path: Path
    ) -> Iterator[Step]:
        """What is put into a container of this name."""
        for one, step in added_to(place.scope, name):
            if one is None:
                why = f"what is added to `{name}` is not followed"
                yield Unseen(expr, why)
            else:
                yield one, place.at(place.scope), (*step, *path[1:])

    def written(
        self, expr: ast.Name | ast.Attribute, place: Place, path: Path
    ) -> Iterator[Step]:
        """What is written into a part of it: `maps["out"] = p`, `p[..., 0] = q`."""
        name = dotted_name(expr) or ""
        for one, rest in stored_in(self.program, name, place.scope, path):
            if one in self.program.module.parents:
                home = self.program.module.scope_of(one)
                yield one, place.at(home), rest

    def _parameter(
        self, binding: Binding, expr: ast.expr, place: Place, path: Path
    ) -> Iterator[Step]:
        """What the call gives by which the body was reached, or all callers in sight."""
        self.parameters.append((binding, place.complemented, path))
        name, frame = dotted_name(expr) or "", place.frame()
        if frame is None:
            callers = self._given(binding, place.scope)
            yield from ((one, place.at(home), path) for one, home in callers)
            spreads = spread_arguments(self.program, binding)
            for whole, index, home in spreads:
                yield whole, place.at(home), (index, *path)
            if not callers and not spreads:
                yield self._left(expr, place)
            return
        packed = _packed(frame, name, path)
        if packed:
            outside = place.out_of(frame)
            yield from ((one, outside, rest) for one, rest in packed)
            return
        bound = frame.inner.takes_receiver
        given = argument(frame.call, frame.inner, name, bound)
        star = spread(frame.call, frame.inner, name, bound)
        if given is None and star is not None:
            yield star[0], place.out_of(frame), (star[1], *path)
            return
        default = _default(frame.inner, name)
        if given is not None:
            yield given, place.out_of(frame), path
        elif default is not None:
            yield default, place.at(place.scope), path
        else:
            yield self._left(expr, place)

    def _given(
        self, binding: Binding, scope: Scope
    ) -> list[tuple[ast.expr, Scope]]:
        """What the callers pass; where all must be known and are not, nothing."""
        if not self.is_whole:
            return self.asked.inference.passed(binding)
        entry, function = self.program.reaching.entry, scope.node
        if not isinstance(function, FUNCTIONS) or not entry.is_followed(
            function
        ):
            return []
        return all_arguments(self.program, binding)


def _packed(frame: Frame, name: str, path: Path) -> list[tuple[ast.expr, Path]]:
    """What a call gives for `*args`, or the element of it that is meant."""
    node = frame.inner.node
    if not isinstance(node, FUNCTIONS) or node.args.vararg is None:
        return []
    if node.args.vararg.arg != name:
        return []
    named = len(node.args.posonlyargs) + len(node.args.args)
    given = frame.call.args[named - frame.inner.takes_receiver :]
    return elements(ast.List(given, ast.Load()), path)


def _default(scope: Scope, name: str) -> ast.expr | None:
    """What a parameter holds that no argument is given for."""
    node = scope.node
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        return default_of(node, name)
    return None
