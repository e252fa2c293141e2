"""Which expression a call gives to a parameter, and what stands there where it gives none."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax import FUNCTIONS, Function, Scope


def argument(
    call: ast.Call, scope: Scope, parameter: str, bound: bool
) -> ast.expr | None:
    """What `call` passes for `parameter` of the function at `scope`; None where it
    cannot be told.
    """
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    names = [a.arg for a in scope.parameters()][1 if bound else 0 :]
    index = names.index(parameter) if parameter in names else len(call.args)
    if any(isinstance(one, ast.Starred) for one in call.args[: index + 1]):
        return None
    return call.args[index] if index < len(call.args) else None


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


def default_of(function: Function, name: str) -> ast.expr | None:
    """The default of a parameter."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((default for one, default in pairs if one.arg == name), None)
