"""Objects that each caller moves as soon as they are made, to a device that the constructor was
handed: `Agent(self.config).to(self.config.device)`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.torch_facts.methods import MOVES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def device_handed_in(program: Program, scope: Scope) -> str | None:
    """`config.device` in a constructor, or what it is called in a method that only the constructor
    calls: whatever it holds there, whoever makes the object goes on to read it, and to move the
    object to that.
    """
    constructor = _constructor(program, scope)
    if constructor is None:
        return None
    sites = _constructions(program, constructor)
    found = {
        _named_inside(program, call, constructor, bound)
        for call, bound in sites
    }
    name = found.pop() if len(found) == 1 else None
    if name is None or _is_set_anew(name, constructor):
        return None
    waiting = {program.module.scope_of(call) for call, _ in sites}
    if _is_changed(program, name, waiting):
        return None
    return name if scope is constructor else _kept_as(name, scope, constructor)


def makes(program: Program, scope: Scope, made: ast.expr) -> bool:
    """Whether an expression makes the object whose constructor runs at `scope`."""
    constructor = _constructor(program, scope)
    if constructor is None:
        return False
    return any(call is made for call, _ in _constructions(program, constructor))


def _constructor(program: Program, scope: Scope) -> Scope | None:
    """The constructor that a scope is, or that alone calls it."""
    function, entry = scope.node, program.reaching.entry
    if not isinstance(function, FUNCTIONS):
        return None
    if function.name == "__init__":
        return scope
    callers = {caller for _, caller, _ in entry.sites(function)}
    caller = callers.pop() if len(callers) == 1 else None
    if caller is None or not entry.is_followed(function):
        return None
    is_one = getattr(caller.node, "name", "") == "__init__"
    return caller if is_one and caller.owner is scope.owner else None


def _kept_as(dotted: str, scope: Scope, constructor: Scope) -> str | None:
    """`self.config.device` for the `config.device` of the constructor."""
    head, _, rest = dotted.partition(".")
    bindings = scope.owner.bindings if scope.owner is not None else {}
    for name, bound in bindings.items():
        value = bound[0].value if len(bound) == 1 else None
        attribute = name.removeprefix("self.")
        is_kept = isinstance(value, ast.Name) and value.id == head
        if is_kept and attribute != name and _is_in(bound[0], constructor):
            return ".".join(filter(None, (scope.self_name, attribute, rest)))
    return None


def _is_in(binding: Binding, constructor: Scope) -> bool:
    """Whether the body of the constructor itself makes a binding, under no condition."""
    return binding.statement in getattr(constructor.node, "body", ())


def _constructions(
    program: Program, scope: Scope
) -> list[tuple[ast.Call, bool]]:
    """All calls of a constructor."""
    function, entry = scope.node, program.reaching.entry
    if not isinstance(function, FUNCTIONS) or function.name != "__init__":
        return []
    sites = entry.sites(function) if entry.is_followed(function) else []
    return [(call, bound) for call, _, bound in sites]


def _named_inside(
    program: Program, made: ast.Call, scope: Scope, bound: bool
) -> str | None:
    """The device of the move behind a call, by the parameter through which the call hands it in."""
    device = _moved_to(program, made) or ""
    for parameter in scope.parameters():
        given = argument(made, scope, parameter.arg, bound)
        text = dotted_name(given) if given is not None else None
        if text and f"{device}.".startswith(f"{text}."):
            return parameter.arg + device.removeprefix(text)
    return None


def _moved_to(program: Program, made: ast.Call) -> str | None:
    """The device of `made.to(device)`."""
    parents = program.module.parents
    func = parents[made]
    move = parents.get(func)
    if not isinstance(func, ast.Attribute) or not isinstance(move, ast.Call):
        return None
    if move.func is not func or func.attr not in MOVES or move.keywords:
        return None
    return dotted_name(move.args[0]) if len(move.args) == 1 else None


def _is_set_anew(dotted: str, scope: Scope) -> bool:
    """Whether the constructor gives the parameter another value."""
    bindings = scope.bindings[dotted.partition(".")[0]]
    return any(one.how != "parameter" for one in bindings)


def _is_changed(
    program: Program, dotted: str, waiting: Collection[Scope]
) -> bool:
    """Whether something may set its attributes meanwhile: not the bodies that wait for the
    constructor to return.
    """
    attributes = dotted.split(".")[1:]
    for node in program.module.parents:
        if isinstance(node, ast.Attribute) and node.attr in attributes:
            scope = program.module.scope_of(node)
            is_own = dotted_name(node.value) == scope.self_name
            is_read = isinstance(node.ctx, ast.Load)
            if not (is_read or is_own or scope in waiting):
                return True
    return False
