"""Where the state of an optimizer is put when it is saved, and how the scaler's goes beside it."""

from __future__ import annotations

import ast

from amp_migrate.model.checkpoints.forms import (
    entry_by_name,
    filled_dict,
    keys_of,
)
from amp_migrate.model.checkpoints.saved_keywords import saves_keywords
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import (
    AddArgument,
    AddDictEntry,
    Edit,
    InsertAfter,
    Template,
)

KEY = "scaler"
_COPIES = ("copy.copy", "copy.deepcopy")


class Entry(NamedTuple):
    """A dict that gets a state: where it is made, or by an assignment to one of its keys."""

    made: ast.Dict | ast.Call
    filled: ast.Assign | None = None

    def has_key(self, program: Program) -> bool:
        """Whether it already has an entry of the scaler's name, or another dict gets one."""
        written = (
            one.slice
            for one in program.module.parents
            if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)
        )
        return KEY in keys_of(self.made) or any(
            isinstance(k, ast.Constant) and k.value == KEY for k in written
        )

    def edit(self, program: Program, state: str) -> Edit:
        """Put `state` beside the optimizer's."""
        if self.filled is not None:
            return _key_set(program, self.filled, state)
        span = program.module.span(self.made)
        if isinstance(self.made, ast.Dict):
            return AddDictEntry(span, f'"{KEY}"', state)
        return AddArgument(span, KEY, state)


def _key_set(program: Program, filled: ast.Assign, state: str) -> Edit:
    """`checkpoint["scaler"] = ...` behind `checkpoint["optimizer"] = ...`."""
    target, source = filled.targets[0], program.module.source
    assert isinstance(target, ast.Subscript)
    quote = source(target.slice)[0]
    key = f"'{KEY}'" if quote == "'" else f'"{KEY}"'
    line = f"{source(target.value)}[{key}] = {state}"
    return InsertAfter(program.module.span(filled), (Template(line),))


def entry_of(program: Program, call: ast.Call) -> Entry | None:
    """The dict that holds what `opt.state_dict()` gives: `{"optimizer": opt.state_dict()}`,
    `dict(optimizer=...)`, `save(path, optimizer=...)`, one that it reaches by a name or gets
    under a key.
    """
    parents = program.module.parents
    given, parent = call, parents[call]
    if (
        isinstance(parent, ast.Call)
        and program.canonical(parent.func) in _COPIES
    ):
        given, parent = parent, parents[parent]
    holder = parents[parent] if isinstance(parent, ast.keyword) else parent
    if isinstance(holder, ast.Dict) and given in holder.values:
        return Entry(holder)
    if isinstance(holder, ast.Call) and isinstance(parent, ast.keyword):
        is_dict = isinstance(holder.func, ast.Name) and holder.func.id == "dict"
        if is_dict or saves_keywords(program, holder):
            return Entry(holder)
    named = entry_by_name(program, given)
    if named is not None:
        return Entry(named)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        made = filled_dict(program, parent.targets[0])
        return Entry(made, parent) if made is not None else None
    return None


def saved_apart(program: Program, call: ast.Call) -> str:
    """What is to be done where a state goes into no dict in sight."""
    parent = program.module.parents[call]
    if isinstance(parent, ast.keyword):
        parent = program.module.parents[parent]
    taker = parent.func if isinstance(parent, ast.Call) else None
    if taker is None or program.canonical(taker) == "torch.save":
        return "the optimizer's state is saved by itself: save the scaler's state beside it"
    name = ast.unparse(taker)
    return f"`{name}` gets the optimizer's state here: give it the scaler's state, too"


def loaded_alone(given: ast.expr) -> str:
    """Why nothing is loaded beside what `given` gives."""
    if isinstance(given, ast.Subscript) and isinstance(given.value, ast.Call):
        return (
            f"`{ast.unparse(given.value)}` is read here for the optimizer's state alone: keep what "
            "it gives in a variable, and load the scaler's state from it, too"
        )
    return "the optimizer's state is loaded by itself: load the scaler's state beside it"


def is_text(key: ast.expr, scope: Scope) -> bool:
    """A string, or a parameter that is one unless it is given: `states[1]` is an element of a
    list, which has no `get`.
    """
    if isinstance(key, ast.Name) and isinstance(scope.node, FUNCTIONS):
        own = scope.node.args
        pairs = [
            *zip(
                reversed([*own.posonlyargs, *own.args]),
                reversed(own.defaults),
                strict=False,
            ),
            *zip(own.kwonlyargs, own.kw_defaults, strict=True),
        ]
        found = next(
            (default for arg, default in pairs if arg.arg == key.id), None
        )
        return found is not None and is_text(found, scope)
    return isinstance(key, ast.Constant) and isinstance(key.value, str)
