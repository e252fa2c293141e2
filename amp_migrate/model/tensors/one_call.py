"""What functions give for the arguments of one call, whatever else calls them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.syntax.module import Function, Scope, returned
from amp_migrate.model.tensors.fact import Fact, join

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def given_back(
    inference: Inference,
    home: tuple[Program, Function],
    call: ast.Call,
    scope: Scope,
) -> Fact | None:
    """What a function gives back where autocast may be on; None where nobody knows what all of
    its parameters are.
    """
    program, function = home
    is_own = program is inference.program
    if (
        function.decorator_list
        or not is_own
        and ("autocast" in program.module.identifiers)
    ):
        return None  # what is on there, this file does not tell
    region = inference.where(call)
    inner = program.scope(function)
    facts = dict(_parameters(inference, function, inner, call, scope))
    bound = {n: b for n, b in inner.bindings.items() if b[0].how == "parameter"}
    if region is None or set(bound) - set(facts):
        return None
    there = inference.given(
        program, region, {bound[n][0]: fact for n, fact in facts.items()}
    )
    if there is None:
        return None
    return join(there.of(one, inner) for one in returned(function))


def handed_on(
    inference: Inference, forward: Function, given: Fact, region: str | None
) -> Fact | None:
    """What the `forward` of a layer in a sequence makes of what the layer before it gives; None
    where it takes more, or nobody knows how it is called.
    """
    inner = inference.program.scope(forward)
    names = (one.arg for one in inner.parameters())
    taken = [one for one in names if one != inner.self_name]
    if region is None or len(taken) != 1 or forward.decorator_list:
        return None
    facts = {inner.bindings[taken[0]][0]: given}
    there = inference.given(inference.program, region, facts)
    if there is None:
        return None
    return join(there.of(one, inner) for one in returned(forward))


def _parameters(
    inference: Inference,
    function: Function,
    inner: Scope,
    call: ast.Call,
    scope: Scope,
) -> Iterator[tuple[str, Fact]]:
    """The facts of the parameters that the call gives, or leaves at a constant."""
    named = [one.arg for one in inner.parameters()]
    packed = function.args.vararg
    open_call = any(isinstance(one, ast.Starred) for one in call.args) or any(
        one.arg is None for one in call.keywords
    )
    if open_call or function.args.kwarg is not None:
        return
    for name in named:
        given = argument(call, inner, name, bound=False)
        default = default_of(function, name)
        if given is not None:
            yield name, inference.of(given, scope)
        elif isinstance(default, ast.Constant):
            yield name, inference.of(default, scope)
    if packed is not None:
        rest = [inference.of(one, scope) for one in call.args[len(named) :]]
        held = join(rest)._replace(bounds=None)
        yield (
            packed.arg,
            held._replace(elements=tuple(rest), container=True),
        )
