"""Gradients that a loop takes with `autograd.grad` (gradient penalties, R1, inner steps): they are
computed in float32.

Half gradients need scaling of their own, and gradients of ones overflow when they are scaled by
65536. So what leads from the inputs of `autograd.grad` to its result stays outside of autocast, as
it was, and half values get `.float()` on the way in. The scaler sees the finished loss only, and
gradients of float32 gradients are float32.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.half_safety.called_bodies import run_by
from amp_migrate.planner.half_safety.gradients_inside import (
    GRAD,
    must_be_float,
    refuse_inside_models,
)
from amp_migrate.planner.half_safety.half_values import Halves, runs_forward
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.regions.loss_flow import Step, flow_of, header, tokens
from amp_migrate.planner.regions.statement_runs import Regions

_SEVERAL = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)
_HOPS = 3
"""How many calls deep a helper may take gradients."""


@dataclass(frozen=True, eq=False)
class Site:
    """Gradients taken by one call: `autograd.grad` itself, or a function that leads to it."""

    call: ast.Call
    outputs: tuple[ast.expr, ...]
    """What is differentiated, as expressions around the call; empty where the function runs the
    forward itself.
    """
    inputs: tuple[ast.expr, ...]
    leaf: ast.Call
    """The `autograd.grad` behind it."""


class Penalties:
    """The statements of one scope that take gradients, with the forwards that lead to them."""

    def __init__(
        self, program: Program, scope: Scope, hazards: Hazards
    ) -> None:
        self.program = program
        self.scope = scope
        self.hazards = hazards
        self.flow = flow_of(scope, program)
        self.sites = sites(program, scope)

    def late(self) -> frozenset[ast.stmt]:
        """Statements that must stay in float32, outside of autocast. Raises Refusal where no
        statement of this scope bounds them.
        """
        known = {id(site.leaf) for site in self.sites}
        refuse_inside_models(self.program, self.scope, known)
        return frozenset(s for site in self.sites for s in self._island(site))

    def casts(
        self,
        regions: Regions,
        late: frozenset[ast.stmt],
        elsewhere: Collection[tuple[Scope, ast.stmt]] = (),
    ) -> None:
        """Collect `.float()` for half values that enter. Raises Refusal where nothing is left to
        put under autocast.

        `elsewhere`: statements of callers that run under autocast first, such as `self.forward()`.
        """
        if not self.sites:
            return
        if not regions.regions and not regions.hoists and not elsewhere:
            raise must_be_float(self.sites[0].call, self._why_all())
        given = frozenset(
            n
            for scope, made in elsewhere
            for n in flow_of(scope, self.program).step(made).defines
        )
        halves = Halves(self.program, self.scope, regions, late, given)
        for site in self.sites:
            self._cast_inputs(site, halves)
        for statement in {
            s: None for site in self.sites for s in self._island(site)
        }:
            for root in header(statement):
                for expr in halves.tensors(
                    root, self.flow.step(statement).order
                ):
                    self._refuse_several(expr)
                    self.hazards.cast(expr)
        for site in self.sites:
            self._refuse_hidden(site, halves)

    def _refuse_several(self, expr: ast.expr) -> None:
        """A list of half values has no `.float()`."""
        name = dotted_name(expr)
        reach = self.program.reaching.at(expr, name) if name else None
        made = (
            [b.value for b in reach.bindings if b.index is None]
            if reach
            else []
        )
        if made and all(isinstance(one, _SEVERAL) for one in made):
            told = f"`{ast.unparse(expr)}` holds several values that are computed under autocast"
            raise must_be_float(expr, told)

    def _why_all(self) -> str:
        runs = self.program.effects.is_forward
        forwards = [s for s in self.sites if runs(s.call, self.scope)]
        site = (*forwards, *self.sites)[0]
        left = "so nothing is left to put under autocast"
        if site.call is site.leaf or site.outputs:
            return f"all of the loss depends on them, {left}"
        called = ast.unparse(site.call.func)
        return f"the loss comes out of the call that takes them, `{called}`, {left}"

    def _island(self, site: Site) -> list[ast.stmt]:
        """The statement that takes the gradients, and those on the way from its inputs to what it
        differentiates.
        """
        at = self.scope.module.statement_of(site.call)
        steps = self._behind(site, at)
        path = _depending(
            steps, {name for expr in site.inputs for name in tokens(expr)}
        )
        if (
            steps and not path and not _applied(self.program, self.scope, site)
        ):  # one forward gives both, as `images, latents = generator(z)` does
            makers = self._makers(site, at)
            own = [s for s in steps if s in makers]
            path = own + _depending(
                [s for s in steps if own and s.order > own[0].order],
                {n for s in own for n in s.defines},
            )
        prepared = [s for s in self._makers(site, at) if self._prepares(s)]
        return [
            s.statement for s in [*prepared, *path] if s.statement is not at
        ] + [at]

    def _prepares(self, step: Step) -> bool:
        """Whether a statement makes an input by arithmetic on what models gave, running none
        itself.
        """
        if not isinstance(step.statement, ast.Assign) or runs_forward(
            self.program, self.scope, step.statement
        ):
            return False
        behind = self.flow.slice(
            step.statement.value, step.statement, self.flow.without_gradient
        )
        return any(
            runs_forward(self.program, self.scope, s.statement) for s in behind
        )

    def _behind(self, site: Site, at: ast.stmt) -> list[Step]:
        found = {
            step.order: step
            for expr in site.outputs
            for step in self.flow.slice(expr, at, self.flow.without_gradient)
        }
        return [
            found[order]
            for order in sorted(found)
            if found[order].statement is not at
        ]

    def _makers(self, site: Site, at: ast.stmt) -> list[Step]:
        """The statements that give `autograd.grad` its inputs."""
        order = self.flow.step(at).order
        names = {name for expr in site.inputs for name in tokens(expr)}
        return [
            step for name in names for step in self.flow.reaching(name, order)
        ]

    def _cast_inputs(self, site: Site, halves: Halves) -> None:
        """An input that is made under autocast is float from the start: the gradient is taken of
        what the name holds.
        """
        at = self.scope.module.statement_of(site.call)
        island = {id(s) for s in self._island(site)}
        for step in self._makers(site, at):
            if not halves.makes(step) or id(step.statement) in island:
                continue
            made = step.statement
            if (
                not isinstance(made, ast.Assign)
                or len(made.targets) > 1
                or isinstance(made.targets[0], ast.Tuple)
            ):
                raise must_be_float(
                    made,
                    "their input is made here in half precision, together with other values",
                )
            self.hazards.cast(made.value)
            halves.floats.add(made)
        halves.forget()

    def _refuse_hidden(self, site: Site, halves: Halves) -> None:
        """A helper that finds half values by itself (attributes, globals) cannot be given float
        ones.
        """
        if site.call is site.leaf:
            return
        order = self.flow.step(self.scope.module.statement_of(site.call)).order
        for function in self._functions(site.call):
            for name in self._free_names(function):
                if halves.holds(name, order):
                    raise must_be_float(
                        site.call,
                        f"`{function.name}` reads `{name}`, which autocast makes half",
                    )

    def _free_names(self, function: Function) -> Iterator[str]:
        """What a function reads besides its own variables, under the names that this scope has for
        it.
        """
        inner = self.program.scope(function)
        for name in {
            n for statement in function.body for n in tokens(statement)
        }:
            head, _, rest = name.partition(".")
            if head == inner.self_name and self.scope.self_name is not None:
                yield f"{self.scope.self_name}.{rest}"
            elif head not in inner.bindings:
                yield name

    def _functions(self, call: ast.Call) -> Iterator[Function]:
        """The functions in sight that a call runs, transitively."""
        wanted = [(call, self.scope)]
        seen: set[int] = set()
        while wanted:
            here, where = wanted.pop()
            function = self.program.values.callee(here, where)
            if function is not None and id(function) not in seen:
                seen.add(id(function))
                yield function
                inner = self.program.scope(function)
                wanted += [(c, inner) for c in inner.calls]


def _depending(steps: list[Step], names: set[str]) -> list[Step]:
    """The steps, in order, that use one of the names or what depends on them."""
    found, live = [], set(names)
    for step in steps:
        if step.uses & live:
            found.append(step)
            live |= step.defines
    return found


def sites(program: Program, scope: Scope, hops: int = _HOPS) -> list[Site]:
    """The calls of a scope that take gradients with `autograd.grad`, directly or `hops` functions
    further.
    """
    return program.remembered(
        (sites, scope, hops), lambda: list(_sites(program, scope, hops))
    )


def _sites(program: Program, scope: Scope, hops: int) -> Iterator[Site]:
    for call in scope.calls:
        if scope.module.canonical(call.func) == GRAD:
            yield Site(
                call,
                _given(call, 0, "outputs"),
                _given(call, 1, "inputs"),
                call,
            )
            continue
        for other, inner in run_by(program, call, scope) if hops else ():
            yield from (
                _lifted(other, call, inner, site)
                for site in sites(other, inner, hops - 1)
            )


def _given(call: ast.Call, place: int, name: str) -> tuple[ast.expr, ...]:
    given = call.args[place : place + 1] or [
        k.value for k in call.keywords if k.arg == name
    ]
    return tuple(given)


def _lifted(program: Program, call: ast.Call, inner: Scope, site: Site) -> Site:
    """A helper's site as its caller sees it: closed, or in the caller's own expressions where the
    helper is given the graph.
    """
    flow = flow_of(inner, program)
    at = inner.module.statement_of(site.call)
    steps = [s for expr in site.outputs for s in flow.slice(expr, at)]
    inputs = {name for expr in site.inputs for name in tokens(expr)}
    parameters = {a.arg for a in inner.parameters()}
    roots = {n for expr in site.outputs for n in tokens(expr)} | {
        n for s in steps for n in s.uses
    }
    closed = _applied(program, inner, site) or _depending(
        sorted(steps, key=lambda s: s.order), inputs
    )
    if not site.outputs or closed or not roots & parameters:
        return Site(call, (), (), site.leaf)
    bound = inner.takes_receiver
    outputs = [
        argument(call, inner, name, bound)
        for name in sorted(roots & parameters)
    ]
    sources = {
        n for name in inputs for n in _roots(program, inner, name, at)
    } & parameters
    given = [argument(call, inner, name, bound) for name in sorted(sources)]
    return Site(
        call,
        tuple(e for e in outputs if e),
        tuple(e for e in given if e),
        site.leaf,
    )


def _applied(program: Program, scope: Scope, site: Site) -> bool:
    """`autograd.grad(model(x).sum(), x)`: the forward stands in the call itself."""
    inputs = {name for expr in site.inputs for name in tokens(expr)}
    calls = [
        n
        for expr in site.outputs
        for n in nodes_in(expr)
        if isinstance(n, ast.Call)
    ]
    return any(
        program.effects.is_forward(call, scope) and tokens(call) & inputs
        for call in calls
    )


def _roots(program: Program, scope: Scope, name: str, at: ast.stmt) -> set[str]:
    found = {name}
    for step in flow_of(scope, program).slice(
        ast.parse(name, mode="eval").body, at
    ):
        found |= step.uses
    return found


__all__ = ["Penalties", "Site", "sites"]
