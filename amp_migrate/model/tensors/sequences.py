"""What comes out of layers, and out of an `nn.Sequential` of them: of those that it is given, and
of those in lists that were filled before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    Function,
    Module,
    Scope,
    returned,
    yielded,
)
from amp_migrate.model.tensors.fact import FLOAT, DType, Fact, Origin, join
from amp_migrate.model.tensors.one_call import handed_on
from amp_migrate.model.tensors.results import result
from amp_migrate.model.values.kinds import Value
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import layers

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference


class Part(NamedTuple):
    """One layer of a sequence."""

    layer: ast.expr
    scope: Scope
    is_certain: bool
    """Whether it is there on every path on which the loops have turns."""


def returns(inference: Inference, function: Function) -> Fact:
    """What a function in sight gives back; a generator gives a series of what it yields."""
    inner = inference.program.scope(function)
    series = [inference.of(one, inner) for one in yielded(function)]
    if series:
        return join(series)._replace(elements=(), container=True)
    return join(inference.of(one, inner) for one in returned(function))


def unseen_layer(inference: Inference, call: ast.Call) -> Fact:
    """What a layer gives that nobody follows."""
    return inference.unseen(call)._replace(origin=Origin.NETWORK)


def through_layer(
    inference: Inference, name: str, given: Fact, call: ast.Call
) -> Fact:
    """What a layer makes of its input."""
    row = layers.layer(name)
    if row is None or row.op is None:
        return unseen_layer(inference, call)
    if row.op.policy == "lower":
        # Its weights are float32, and no layer multiplies them with float64.
        given = given._replace(dtypes=given.dtypes & ~DType.DOUBLE)
    if row.operator.endswith(("embedding", "embedding_bag")):
        return FLOAT
    made = result(row.op, row.op.policy, [given], inference.where(call))
    return made._replace(origin=Origin.NETWORK)


def sequential(
    inference: Inference, origin: ast.Call, given: Fact, call: ast.Call
) -> Fact:
    """What the `nn.Sequential` that `origin` makes gives where `call` runs it."""
    if origin not in inference.program.module.parents:
        return unseen_layer(
            inference, call
        )  # a base class of another file made it
    parts = list(_parts(inference, origin))
    fact = given
    for part in parts:
        made = _through(inference, part, fact, call)
        fact = made if part.is_certain else join([fact, made])
    return fact if parts else unseen_layer(inference, call)


def _through(
    inference: Inference, part: Part, given: Fact, call: ast.Call
) -> Fact:
    made = inference.program.values.of(part.layer, part.scope)
    return join(
        _through_one(inference, one, given, call)
        for one in (made, *made.others)
    )


def _through_one(
    inference: Inference, made: Value, given: Fact, call: ast.Call
) -> Fact:
    program = inference.program
    if made.cls is not None:
        forward = program.graph.method(made.cls, "forward")
        if forward is None:
            return unseen_layer(inference, call)
        region = inference.where(call)
        known = handed_on(inference, forward, given, region)
        return known or returns(inference.called_at(call), forward)
    if made.name is not None:
        return through_layer(inference, made.name, given, call)
    return unseen_layer(inference, call)


def _parts(inference: Inference, origin: ast.Call) -> Iterator[Part]:
    scope = inference.program.module.scope_of(origin)
    for layer in origin.args:
        if isinstance(layer, ast.Starred):
            yield from _listed(inference, layer.value, scope)
        else:
            yield Part(layer, scope, is_certain=True)


def _listed(
    inference: Inference, filled: ast.expr, scope: Scope
) -> Iterator[Part]:
    """The layers of `layers = [Conv()]`, `layers += [Block()]`, `layers.append(Head())`."""
    yield from (Part(one, scope, is_certain=True) for one in _written(filled))
    name = dotted_name(filled)
    if name is None:
        return
    module = inference.program.module
    filled_by: dict[ast.stmt, list[ast.expr]] = {}
    for binding in (
        *inference.program.reaching.at(filled, name).bindings,
        *(
            one
            for one in scope.bindings.get(name, ())
            if one.how == "augmented"
        ),
    ):
        written = _written(binding.value)
        if written:
            filled_by[module.statement_of(binding.statement)] = written
    home = scope.lookup(name.partition(".")[0]) or scope
    for stored in home.stored.get(name, ()):
        filled_by[module.statement_of(stored.statement)] = [stored.value]
    for where in sorted(filled_by, key=lambda one: one.lineno):
        inside = module.scope_of(where)
        certain = _is_always_run(module, where, inside)
        yield from (Part(one, inside, certain) for one in filled_by[where])


def _written(filled: ast.expr | None) -> list[ast.expr]:
    """The layers of `[Conv(), ReLU()]`; of `[Block() for _ in sizes]` one stands for all."""
    if isinstance(filled, (ast.List, ast.Tuple)):
        return filled.elts
    if isinstance(filled, (ast.ListComp, ast.GeneratorExp)):
        return [] if any(g.ifs for g in filled.generators) else [filled.elt]
    return []


def _is_always_run(module: Module, where: ast.stmt, inside: Scope) -> bool:
    """Whether nothing but loops over something stands around a statement: layers that are put on a
    list for each size are there for one at least.
    """
    here: ast.AST = where
    while (above := module.parents.get(here)) is not inside.node:
        if not isinstance(above, ast.For) or here not in above.body:
            return False
        here = above
    return True
