"""Which expression a call gives to a parameter, and what stands there where it gives none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope


def argument(
    call: ast.Call, scope: Scope, parameter: str, bound: bool
) -> ast.expr | None:
    """What `call` passes for `parameter` of the function at `scope`; None where it
    cannot be told. Where it is `bound`, the object is given by what the call is asked of.
    """
    if bound and isinstance(scope.node, FUNCTIONS):
        bound = not gives_self(call, scope.node)
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    names = [a.arg for a in scope.parameters()][1 if bound else 0 :]
    index = names.index(parameter) if parameter in names else len(call.args)
    if any(isinstance(one, ast.Starred) for one in call.args[: index + 1]):
        return None
    return call.args[index] if index < len(call.args) else None


def spread(
    call: ast.Call, scope: Scope, parameter: str, bound: bool
) -> tuple[ast.expr, int] | None:
    """`*values`, and the place in them, that `call` gives `parameter`; what stands behind a first
    star has no place that can be told.
    """
    names = [a.arg for a in scope.parameters()][1 if bound else 0 :]
    index = names.index(parameter) if parameter in names else -1
    stars = [
        (place, one)
        for place, one in enumerate(call.args[: index + 1])
        if isinstance(one, ast.Starred)
    ]
    is_named = any(one.arg == parameter for one in call.keywords)
    if len(stars) != 1 or is_named:
        return None
    place, star = stars[0]
    return star.value, index - place


def fits(call: ast.Call, function: Function | ast.Lambda, bound: bool) -> bool:
    """Whether a call gives a function what its signature asks for, and nothing else, as far as
    that can be told. A decorator may have changed the signature.
    """
    given = function.args
    keywords = {one.arg for one in call.keywords}
    if getattr(function, "decorator_list", ()):
        return True
    placed = [a for a in call.args if not isinstance(a, ast.Starred)]
    is_open = len(placed) < len(call.args) or None in keywords
    names = [a.arg for a in (*given.posonlyargs, *given.args)]
    names = names[1 if bound else 0 :]
    rest = [*names[len(placed) :], *(a.arg for a in given.kwonlyargs)]
    too_many = len(placed) > len(names) and given.vararg is None
    unknown = given.kwarg is None and not keywords <= {*rest, None}
    if is_open or too_many or unknown:
        return not (too_many or unknown)
    needless = {name for name, default in _defaults(given) if default}
    return all(name in keywords or name in needless for name in rest)


def gives_self(call: ast.Call, method: Function) -> bool:
    """Whether a call hands over the object as well: `Trainer.step(trainer, x)`."""
    return not fits(call, method, True) and fits(call, method, False)


def rest_arguments(
    call: ast.Call, scope: Scope, parameter: str, bound: bool
) -> list[ast.expr] | None:
    """What `call` passes for `*parameter`; None for a parameter of another kind."""
    node = scope.node
    if not isinstance(node, FUNCTIONS):
        return None
    rest = node.args.vararg
    if rest is None or rest.arg != parameter:
        return None
    first = [*node.args.posonlyargs, *node.args.args][1 if bound else 0 :]
    return call.args[len(first) :]


def default_of(function: Function | ast.Lambda, name: str) -> ast.expr | None:
    """The default of a parameter."""
    return dict(_defaults(function.args)).get(name)


def _defaults(given: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    """The parameters that may have a default, with it."""
    positional = [*given.posonlyargs, *given.args]
    last = positional[len(positional) - len(given.defaults) :]
    for one, default in zip(last, given.defaults, strict=True):
        yield one.arg, default
    for one, own in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield one.arg, own
