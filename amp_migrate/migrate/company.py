"""In whose company a loop that was left alone may be migrated: other files of its project, planned together with it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.migrate.optimizers import handed_over
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.kinds import Value
from amp_migrate.model.program import Program
from amp_migrate.model.project import Project
from amp_migrate.model.syntax import FUNCTIONS, Scope

# What a helper's file can mend: the model's sigmoid, a mask in its forward, a base class that makes the optimizer.
_BELOW = {
    "bce-on-probabilities",
    "optimizer-not-in-sight",
    "big-constant-in-half",
    "eps-underflow",
    "dtype-strict-inplace",
}
# What a caller's file can show: the model, the optimizer, its step, the device.
_ABOVE = {"loss-computed-elsewhere", "optimizer-not-in-sight", "step-elsewhere", "no-optimizer", "cpu-only"}
_MOST = 40


def company(refusal: Refusal, scope: Scope, program: Program, project: Project) -> list[str]:
    """Files, by resolved path, that the program should hold, too; none where no file can help."""
    if refusal.files:
        return [*refusal.files, *_packages(refusal.files, project)]
    if not project.imports:
        return []
    here = str(Path(scope.module.path).resolve())
    found = project.helpers(here, _MOST) if refusal.reason in _BELOW else []
    for name in _names(scope, program) if refusal.reason in _ABOVE else ():
        found += project.users(here, name)
    if refusal.reason == "cpu-only":  # the program that imports this may move everything, and name nothing of it
        found += project.users(here)[:_MOST]
    linked = {str(Path(f.path).resolve()) for f in program.module.files}
    return [file for file in dict.fromkeys(found) if file not in linked]


def _packages(files: Iterable[str], project: Project) -> Iterator[str]:
    """The `__init__.py` files above, which may hand names on."""
    for file in files:
        for folder in list(Path(file).parents)[:3]:
            init = str(folder / "__init__.py")
            if init in project.imports and init not in files:
                yield init


def callers(scope: Scope, steps: Iterable[ast.Call], program: Program, project: Project) -> list[str]:
    """Files that call a loop's function, or make its object, where only they show which model or optimizer it gets."""
    if not project.imports:
        return []
    optimizers = [c.func.value for c in steps if isinstance(c.func, ast.Attribute)]
    models = [c.func for c in scope.calls if program.effects.is_forward(c, scope)]
    hidden = [o for o in optimizers if not _in_sight(program.values.of(o, scope))]
    if not hidden and all(_in_sight(program.values.of(m, scope)) or not handed_over(program, m, scope) for m in models):
        return []
    here = str(Path(scope.module.path).resolve())
    linked = {str(Path(f.path).resolve()) for f in program.module.files}
    users = [file for name in _names(scope, program) for file in project.users(here, name)]
    found = [file for file in users if file not in linked]
    if hidden and not found:  # what the callers make it of
        found = [f for user in users for f in project.imports.get(user, ()) if f not in linked]
    return list(dict.fromkeys(found))[:_MOST]


def savers(program: Program, project: Project) -> list[str]:
    """Files whose functions are handed an optimizer here and save or load its state: the scaler's belongs beside it."""
    if not project.imports:
        return []
    found: dict[str, None] = {}
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = [*call.args, *(entry.value for entry in call.keywords)]
            if any(program.effects.is_optimizer(g, scope) for g in given if isinstance(g, (ast.Name, ast.Attribute))):
                found |= dict.fromkeys(_file_of_saver(program, call, scope))
    return [file for file in found if file in project.writable]


def _file_of_saver(program: Program, call: ast.Call, scope: Scope) -> Iterator[str]:
    definition = program.values.abroad(call.func, scope)
    if definition is None or isinstance(definition[1], ast.ClassDef):
        return
    elsewhere = definition[0]
    body = elsewhere.scope(definition[1])
    parameters = {argument.arg for argument in body.parameters()}
    for inner in body.calls:
        if isinstance(inner.func, ast.Attribute) and inner.func.attr in ("state_dict", "load_state_dict"):
            if isinstance(inner.func.value, ast.Name) and inner.func.value.id in parameters:
                yield str(Path(elsewhere.module.path).resolve())


def _in_sight(value: Value) -> bool:
    """Whether it is known what a value was made by."""
    return value.cls is not None or value.foreign is not None or value.name is not None


def _names(scope: Scope, program: Program) -> list[str]:
    """What other files call the scope by: its function, or the class of its method."""
    cls = program.graph.class_around(scope)
    if cls is not None:
        return [cls.name]
    here: Scope | None = scope
    while here is not None and here.parent is not None:
        if isinstance(here.node, FUNCTIONS) and isinstance(here.parent.node, ast.Module):
            return [here.node.name]
        here = here.parent
    return []
