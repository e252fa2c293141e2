"""The run of statements that autocast wraps, and what a backward call differentiates."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS, Scope, shallow
from amp_migrate.planner.refusal import Refusal


@dataclass(frozen=True)
class Region:
    """Sibling statements to put under autocast."""

    first: ast.stmt
    last: ast.stmt
    block: list[ast.stmt]

    def statements(self) -> list[ast.stmt]:
        """The wrapped statements."""
        start, stop = (
            index_in(self.block, self.first),
            index_in(self.block, self.last),
        )
        return self.block[start : stop + 1]

    def reaches(self, statement: ast.stmt) -> bool:
        """Whether a statement of its block is one of those, or stands before them."""
        return index_in(self.block, statement) <= index_in(
            self.block, self.last
        )


@dataclass(frozen=True)
class Hoist:
    """A loss computed inside `.backward()`'s receiver: it gets a name and moves into a region."""

    backward: ast.Call
    receiver: ast.expr
    statement: ast.stmt
    region: Region | None
    """The region at whose end it is computed; None where it needs a region of its own."""


@dataclass(frozen=True)
class Regions:
    """Everything about autocast in one scope."""

    regions: tuple[Region, ...]
    hoists: tuple[Hoist, ...]
    tainted: frozenset[str]
    """Names that hold values computed under autocast."""


def joined(found: list[tuple[Scope, Region]]) -> list[tuple[Scope, Region]]:
    """Runs of one block that overlap, as those of two losses that are computed side by side, made
    one.
    """
    blocks: dict[int, list[tuple[Scope, Region]]] = {}
    for one in found:
        blocks.setdefault(id(one[1].block), []).append(one)
    return [one for near in blocks.values() for one in _merged(near)]


def _merged(near: list[tuple[Scope, Region]]) -> list[tuple[Scope, Region]]:
    kept: list[tuple[Scope, Region]] = []
    for scope, region in sorted(near, key=lambda one: one[1].first.lineno):
        above = kept[-1][1] if kept else None
        if above is not None and above.reaches(region.first):
            last = above.last if above.reaches(region.last) else region.last
            kept[-1] = scope, Region(above.first, last, region.block)
        else:
            kept.append((scope, region))
    return kept


def stretched(region: Region, hoists: tuple[Hoist, ...]) -> Region:
    """A region that a hoisted loss joins reaches down to the statement before backward."""
    for hoist in hoists:
        if hoist.region == region:
            return Region(
                region.first,
                region.block[index_in(region.block, hoist.statement) - 1],
                region.block,
            )
    return region


def rebased(hoists: tuple[Hoist, ...]) -> tuple[Hoist, ...]:
    """The hoists with the regions that reach down to them."""
    return tuple(
        Hoist(h.backward, h.receiver, h.statement, stretched(h.region, hoists))
        if h.region
        else h
        for h in hoists
    )


def forwards_before(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> list[Region]:
    """`self.forward()` before `self.backward_G()`: the forward that the helper's loss
    continues.
    """
    found = []
    for block, end in _blocks_of_turn(program, scope, backwards):
        for statement in block[:end]:
            if isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Call
            ):
                call = statement.value
                if call not in backwards and program.effects.is_forward(
                    call, scope
                ):
                    found.append(Region(statement, statement, block))
    return found


def _blocks_of_turn(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> list[tuple[list[ast.stmt], int]]:
    """The body of a scope, and the blocks around a backward in its loop, with the place up to
    which they count.
    """
    found = {id(scope.body): (scope.body, len(scope.body))}
    for call in backwards:
        here: ast.stmt | None = program.module.statement_of(call)
        while here is not None and not isinstance(here, LOOPS):
            block = program.module.block_of(here)
            stop = next(i for i, one in enumerate(block) if one is here)
            found.setdefault(id(block), (block, stop))
            here = program.module.statement_around(here)
    return list(found.values())


def checked(region: Region) -> Region:
    """The region itself. Raises Refusal where it gives up control."""
    for statement in region.statements():
        for node in shallow(statement):
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
                raise Refusal(
                    "unsupported-shape",
                    node,
                    "a generator or coroutine gives up control inside forward and loss",
                )
    return region


def receivers(call: ast.Call, program: Program) -> list[ast.expr]:
    """What a backward call differentiates: the receiver, or the tensors given to
    `autograd.backward`.
    """
    if program.canonical(call.func) == "torch.autograd.backward":
        given = (
            call.args[0]
            if call.args
            else next(
                (k.value for k in call.keywords if k.arg == "tensors"), None
            )
        )
        if isinstance(given, (ast.List, ast.Tuple)):
            return list(given.elts)
        return [given] if given is not None else []
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


def is_power(node: ast.AST) -> bool:
    """`a ** b` and `a @ b`, which autocast does not leave as they are."""
    return isinstance(node, ast.BinOp) and isinstance(
        node.op, (ast.Pow, ast.MatMult)
    )


def index_in(block: list[ast.stmt], statement: ast.stmt) -> int:
    """The place of a statement in its block."""
    return next(i for i, s in enumerate(block) if s is statement)


def acts(statement: ast.stmt) -> bool:
    """A loop that steps an environment: a rollout, of which only the forwards belong under
    autocast.
    """
    return isinstance(statement, LOOPS) and any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "step"
        and n.args
        for n in shallow(statement)
    )


def inside_larger(call: ast.Call, loss: ast.expr) -> Refusal:
    """For a backward whose loss is computed in its own call, which is part of a larger one."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "backward":
        why = "backward is called inside a larger expression"
    else:
        why = f"`{ast.unparse(func)}` goes backward inside a larger statement, and `"
        why += f"{ast.unparse(loss)}`, of which the loss is made, is computed among its arguments: "
        why += "give that a statement of its own, before it"
    return Refusal("unsupported-shape", call, why)
