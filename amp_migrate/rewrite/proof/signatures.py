"""A parameter that a rewrite adds must reach the function at every call that this module makes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.rewrite.proof.checkpoint_forms import CheckpointForms
from amp_migrate.rewrite.proof.forms import Forms
from amp_migrate.rewrite.proof.scopes import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amp_migrate.rewrite.proof.facts import Introduced
    from amp_migrate.rewrite.proof.scopes import Scope

Fault: TypeAlias = "tuple[int, str]"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def signature_faults(
    pairs: list[tuple[Scope, Scope]],
    nodes: list[ast.AST],
    introduced: Introduced,
) -> Iterator[Fault]:
    """Calls without a new required parameter, and keywords that the called function does
    not take.
    """
    functions = [
        scope for _, scope in pairs if isinstance(scope.node, FUNCTIONS)
    ]
    if not introduced.parameters or not functions:
        return
    yield from _prologue_faults(pairs, introduced)
    needed = _required(pairs, introduced.parameters)
    accepted = _accepted(functions)
    known = _Callees([scope for _, scope in pairs])
    handed: set[int] = set()
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for call in calls:
        callee = known.name(call.func)
        given = {entry.arg for entry in call.keywords}
        new = given & introduced.parameters
        handed.update(map(id, [call.func, *(call.args if new else [])]))
        if callee in needed and None not in given:
            yield from _missing(call, callee, needed[callee] - given)
        unknown = new - accepted.get(callee, given) - {None}
        for name in sorted(unknown, key=str):
            yield call.lineno, f"`{callee}` has no parameter `{name}`"
    yield from _callback_faults(calls, known, needed, handed)


def _missing(call: ast.Call, callee: str, names: set[str]) -> Iterator[Fault]:
    if names:
        why = f"`{callee}` needs `{min(names)}`, which this call does not pass"
        yield call.lineno, why


def _prologue_faults(
    pairs: list[tuple[Scope, Scope]], introduced: Introduced
) -> Iterator[Fault]:
    """A scaler that may be None is replaced by a disabled one before anything else happens, or
    asked for wherever it is used.
    """
    forms = Forms(introduced)
    checkpoints = CheckpointForms(introduced, forms)
    plain = introduced.parameters & introduced.scalers
    for left, right in pairs:
        if not isinstance(left.node, FUNCTIONS) or not isinstance(
            right.node, FUNCTIONS
        ):
            continue
        new = (
            _parameters(right.node)
            - _parameters(left.node)
            - _parameters(right.node, required=True)
        )
        body = (
            right.node.body[1:]
            if ast.get_docstring(right.node, clean=False) is not None
            else right.node.body
        )
        replaced = body and forms.is_prologue(body[0])
        if new & plain and not (
            replaced
            or all(checkpoints.asks_everywhere(right.node, n) for n in new)
        ):
            yield (
                right.node.lineno,
                f"`{min(new & plain)}` may be None in `{right.node.name}`, and nothing replaces it",
            )


def _callback_faults(
    calls: list[ast.Call],
    known: _Callees,
    needed: dict[str, set[str]],
    handed: set[int],
) -> Iterator[Fault]:
    """A function handed on without its new parameter will be called without it."""
    for call in calls:
        for argument in [*call.args, *(entry.value for entry in call.keywords)]:
            callee = known.name(argument)
            if callee in needed and id(argument) not in handed:
                yield (
                    argument.lineno,
                    f"`{callee}` is handed on as a callback, and needs `{min(needed[callee])}`",
                )


class _Callees:
    """Which function of this module a name means, where nothing else bears that name."""

    def __init__(self, scopes: list[Scope]) -> None:
        found = (
            (scope, mention)
            for scope in scopes
            for mention in scope.mentions
            if mention.kind == "read"
        )
        self._meant = {
            mention.position
            for scope, mention in found
            if _means_a_definition(scope, mention.name)
        }

    def name(self, func: ast.expr) -> str:
        """`f` for a name, `self.f` for a method called on self, else nothing that is known here."""
        if isinstance(func, ast.Name):
            return (
                func.id if (func.lineno, func.col_offset) in self._meant else ""
            )
        if (
            isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Name)
            and func.value.id in {"self", "cls"}
        ):
            return f"self.{func.attr}"
        return ""


def _means_a_definition(scope: Scope, name: str) -> bool:
    owner = scope.owner(name)
    if owner is None:
        return False
    defined = [
        child
        for child in owner.children
        if getattr(child.node, "name", "") == name
    ]
    return bool(defined) and len(owner.of(name, "set")) == len(defined)


def _name_of(scope: Scope) -> str:
    """How this module calls the function: by name, on self, or by its class."""
    function, holder = scope.node, scope.parent.node if scope.parent else None
    assert isinstance(function, FUNCTIONS)
    if not isinstance(holder, ast.ClassDef):
        return function.name
    return (
        holder.name if function.name == "__init__" else f"self.{function.name}"
    )


def _required(
    pairs: list[tuple[Scope, Scope]], names: frozenset[str]
) -> dict[str, set[str]]:
    """New parameters without a default, by the function's name; a name defined twice needs what
    both need.
    """
    found: dict[str, set[str]] = {}
    for left, right in pairs:
        if isinstance(left.node, FUNCTIONS) and isinstance(
            right.node, FUNCTIONS
        ):
            new = (
                _parameters(right.node, required=True) - _parameters(left.node)
            ) & names
            name = _name_of(right)
            found[name] = found[name] & new if name in found else new
    return {name: new for name, new in found.items() if new}


def _accepted(functions: list[Scope]) -> dict[str, set[str | None]]:
    """Parameter names by the function's name, where no `**kwargs` takes any."""
    found: dict[str, set[str | None]] = {}
    open_ended: set[str] = set()
    for scope in functions:
        assert isinstance(scope.node, FUNCTIONS)
        name = _name_of(scope)
        found.setdefault(name, set()).update(_parameters(scope.node))
        if scope.node.args.kwarg or scope.node.decorator_list:
            open_ended.add(name)
    return {
        name: taken for name, taken in found.items() if name not in open_ended
    }


def _parameters(function: Function, required: bool = False) -> set[str]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if required:
        positional = positional[: len(positional) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    keyword_only = [
        argument
        for argument, default in pairs
        if not required or default is None
    ]
    return {argument.arg for argument in [*positional, *keyword_only]}
