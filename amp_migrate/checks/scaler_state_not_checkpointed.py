"""A checkpoint holds the optimizer's state but not the scaler's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from amp_migrate.checks._checkpointers import checkpointers_without
from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._savers import is_handed_on
from amp_migrate.checks._scaler_bindings import made_before, may_be_none
from amp_migrate.checks._scaler_states import (
    is_done_elsewhere,
    is_handled,
    makes_stepper,
    steps_at_callers,
)
from amp_migrate.checks._states import (
    calls_on_scaler,
    entry_of,
    holds_optimizer,
    is_kept_by,
    is_lent,
    is_own,
    is_written,
    kept_as,
    whole_value,
)
from amp_migrate.config import Settings
from amp_migrate.model.checkpoints.whole_reads import (
    reader_of,
    reader_of_files,
    saved_places,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.rewrite.edits import AddDictEntry, InsertAfter, Template

RULE = Rule("scaler-state-not-checkpointed", severity="warning")
_SAVED = (
    "the scaler's state is not saved beside the optimizer's: a resumed run starts with the "
    "factor 65,536 again and skips steps; add `scaler.state_dict()`"
)
_LOADED = (
    "the scaler's state is not loaded beside the optimizer's: the run starts with the factor "
    "65,536 again and skips steps; call `scaler.load_state_dict(...)`"
)


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """Find states of optimizers that are saved or loaded without that of the scaler in scope."""
    if (
        "caler" not in program.module.text
        or "state_dict" not in program.module.text
        and "heckpoint" not in program.module.text
    ):
        return
    for maker in checkpointers_without(program, _scaler):
        yield finding_at(program, maker, RULE, _SAVED)
    told: set[ast.AST] = set()
    for scope in program.module.scopes.values():
        for call in () if _is_part(program, scope) else scope.calls:
            func = call.func
            if not isinstance(func, ast.Attribute) or func.attr not in {
                "state_dict",
                "load_state_dict",
            }:
                continue
            scaler = (
                _scaler(program, scope)
                or _beside(program, func.value, scope, func.attr)
                if holds_optimizer(program, func.value, scope)
                else None
            )
            if scaler is None and _is_forgotten(program, call, scope):
                told.add(call)
                yield finding_at(program, call, RULE, _LOADED)
            found = _left_out(program, call, scope, scaler)
            if found is not None and found[0] not in told:
                told.add(found[0])
                message = _SAVED if func.attr == "state_dict" else _LOADED
                yield finding_at(program, found[0], RULE, message, fix=found[1])


def _left_out(
    program: Program, call: ast.Call, scope: Scope, scaler: str | None
) -> tuple[ast.expr, Fix | None] | None:
    """Where the state of the scaler is missing; a function that is not given it has to be, before
    there is a fix.
    """
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    is_given = scaler is not None or steps_at_callers(program, call, scope)
    if not is_given or is_handled(program, scope, method):
        return None
    if is_lent(program, call.func.value, scope):
        return None
    name = scaler or "scaler"
    found = (
        _saved(program, call, name)
        if method == "state_dict"
        else _loaded(program, call, scope, name)
    )
    is_heirs = scaler is not None and not is_own(program, scope, scaler)
    if is_heirs and is_done_elsewhere(program, scope, method):
        return None
    if found is None or (scaler is not None and not is_heirs):
        is_idle = method != "state_dict" and _stays_unsaved(program)
        return (found[0], None) if found and is_idle else found
    return found[0], None


def _is_part(program: Program, scope: Scope) -> bool:
    """Whether an optimizer of the project hands its state on to one that it holds: who saves or
    loads the outer one is asked.
    """
    cls = program.graph.class_around(scope)
    return cls is not None and program.values.class_kind(cls) is Kind.OPTIMIZER


def _stays_unsaved(program: Program) -> bool:
    """Whether an optimizer's state is saved in sight where the scaler's cannot be, and that is
    saved nowhere: a restore would never find it.
    """
    if calls_on_scaler(program, "state_dict"):
        return False
    found = [
        saved
        for scope in program.module.scopes.values()
        for call in scope.calls
        if _is_state(program, call, scope)
        and (saved := _saved(program, call, "scaler")) is not None
    ]
    return bool(found) and all(fix is None for _, fix in found)


def _is_state(program: Program, call: ast.Call, scope: Scope) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "state_dict"
        and program.effects.is_optimizer(func.value, scope)
    )


def _is_forgotten(program: Program, call: ast.Call, scope: Scope) -> bool:
    """An optimizer's state is loaded where no scaler is at hand, though the scaler's is saved in
    this file, and loaded nowhere in it.
    """
    return (
        _is_restored(program, call, scope)
        and calls_on_scaler(program, "state_dict")
        and not calls_on_scaler(program, "load_state_dict")
    )


def _scaler(
    program: Program,
    scope: Scope,
) -> str | None:
    """The name of the scaler that trains here: of this scope, an outer one, or the same object."""
    around = program.graph.class_around(scope)
    for target, other in program.remembered("scalers", lambda: _all(program)):
        name = dotted_name(target) or ""
        head, _, rest = name.partition(".")
        if around is not None and is_kept_by(program, target, other, around):
            own = scope.self_name or other.self_name
            return f"{own}.{name.rpartition('.')[2]}" if own else None
        if (
            not rest
            and scope.lookup(head) is not None
            and scope.lookup(head) is other.lookup(head)
        ):
            return name
    return None


def _beside(
    program: Program, optimizer: ast.expr, scope: Scope, method: str
) -> str | None:
    """The scaler that another object keeps beside its optimizer: `trainer.scaler` of
    `trainer.optimizer`, where nobody in sight asks a scaler for its state.
    """
    holder = optimizer.value if isinstance(optimizer, ast.Attribute) else None
    own = dotted_name(holder) if holder is not None else None
    if holder is None or own is None or own == scope.self_name:
        return None
    cls = program.values.of(holder, scope).cls
    if cls is None or calls_on_scaler(program, method):
        return None
    for target, other in program.remembered("scalers", lambda: _all(program)):
        if is_kept_by(program, target, other, cls):
            name = dotted_name(target) or ""
            return f"{own}.{name.rpartition('.')[2]}"
    return None


def _all(program: Program) -> list[tuple[ast.expr, Scope]]:
    """What is used as a scaler, with its scope, in the order of the source."""
    return [
        (target, scope)
        for scope in program.module.scopes.values()
        for call in scope.calls
        if (target := _used(program, call, scope)) is not None
        and dotted_name(target) is not None
    ]


def _used(program: Program, call: ast.Call, scope: Scope) -> ast.expr | None:
    what = program.events.what(call, scope)
    if what in {EventKind.SCALE, EventKind.SCALER_STEP}:
        used = call.func.value if isinstance(call.func, ast.Attribute) else None
        while isinstance(used, ast.Subscript):
            used = used.value
        return used
    parent = program.module.parents[whole_value(program, call)]
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if target is None:
        return None
    is_live = (
        what is EventKind.SCALER_CREATED
        and program.events.is_scaler(target, scope)
        and program.attributes.is_read(
            (dotted_name(target) or "").rpartition(".")[2]
        )
    ) or (what is None and makes_stepper(program, call, scope))
    return target if is_live else None


def _saved(
    program: Program, call: ast.Call, scaler: str
) -> tuple[ast.expr, Fix | None] | None:
    kept = kept_as(program, call)
    parent = program.module.parents[kept]
    if isinstance(parent, ast.Dict):
        if (
            isinstance(outer := program.module.parents[parent], ast.keyword)
            and outer.arg == "metadata"
        ):
            return None  # told, not stored
        if any(
            "scal" in ast.unparse(n).lower() or "amp" in ast.unparse(n).lower()
            for n in parent.keys
            if n is not None
        ):
            return None
        return parent, _add_entry(program, parent, scaler)
    if isinstance(parent, ast.keyword):
        holder = program.module.parents[parent]
        assert isinstance(holder, ast.Call)
        above = program.module.parents[holder]
        return (
            None
            if _is_load(above)
            or any(k.arg and "scal" in k.arg.lower() for k in holder.keywords)
            else (holder, None)
        )
    if is_handed_on(parent, kept):
        return parent, None
    if _is_whole_file(parent, program, kept):
        scope = program.module.scope_of(call)
        elsewhere = is_done_elsewhere(program, scope, "state_dict")
        return None if elsewhere else (parent, None)
    entry = entry_of(parent, call)
    if entry is not None and is_written(program, entry):
        return call, None
    return None


def _is_whole_file(
    parent: ast.AST, program: Program, state: ast.expr
) -> TypeGuard[ast.Call]:
    """`torch.save(optimizer.state_dict(), path)`: the scaler may have a file of its own, too."""
    return (
        isinstance(parent, ast.Call)
        and bool(parent.args)
        and parent.args[0] is state
        and program.canonical(parent.func) == "torch.save"
    )


def _is_load(node: ast.AST) -> bool:
    """`optimizer.load_state_dict(packed(flat, like=optimizer.state_dict()))`"""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load_state_dict"
    )


def _add_entry(program: Program, display: ast.Dict, scaler: str) -> Fix | None:
    if may_be_none(program, program.module.scope_of(display), scaler):
        return None
    if (
        reader_of(program, display) is not None
        or reader_of_files(program, display, saved_places(program, display))
        is not None
    ):
        return None  # who reads the whole dict would see the new key
    if _stays_unread(program):
        return None  # saved and not loaded, it would only look as if it were
    edit = AddDictEntry(
        program.module.span(display), '"scaler"', f"{scaler}.state_dict()"
    )
    return Fix("safe", "save the scaler's state", (edit,))


def _stays_unread(program: Program) -> bool:
    """Whether an optimizer's state is loaded in sight where the scaler's cannot be, and that is
    loaded nowhere.
    """
    if calls_on_scaler(program, "load_state_dict"):
        return False
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if _is_restored(program, call, scope):
                scaler = _scaler(program, scope)
                found = (
                    _loaded(program, call, scope, scaler)
                    if scaler is not None
                    else None
                )
                if found is None or found[1] is None:
                    return True
    return False


def _is_restored(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether an optimizer gets a state that is not its own of a moment ago."""
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "load_state_dict"
        and bool(call.args)
        and program.effects.is_optimizer(func.value, scope)
        and "state_dict()" not in ast.unparse(call.args[0])
    )


def _loaded(
    program: Program, call: ast.Call, scope: Scope, scaler: str
) -> tuple[ast.expr, Fix | None] | None:
    given = call.args[0] if call.args else None
    if (
        given is None
        or "state_dict()" in ast.unparse(given)
        or "scal" in ast.unparse(given).lower()
    ):
        return None
    code = Code(program, call)
    holder = (
        given.value
        if isinstance(given, ast.Subscript)
        and isinstance(given.slice, ast.Constant)
        else None
    )
    text = dotted_name(holder) if holder is not None else None
    if (
        text is None
        or not code.alone()
        or may_be_none(program, scope, scaler)
        or not made_before(program, call, scope, scaler)
    ):
        return call, None
    lines = f'if {text}.get("scaler"):\n    {scaler}.load_state_dict({text}["scaler"])'
    edit = InsertAfter(code.span(code.statement), (Template(lines),))
    return call, Fix(
        "safe", "load the scaler's state, where there is one", (edit,)
    )
