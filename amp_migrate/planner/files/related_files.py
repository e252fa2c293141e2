"""In whose company a loop that was left alone may be migrated: other files of its project, planned
together with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.model.classes.bases_abroad import Class, with_bases
from amp_migrate.model.files.neighbours import Definition
from amp_migrate.model.program import Program
from amp_migrate.model.steps.whole_optimizers import saved_whole
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.values.kinds import Value
from amp_migrate.planner.files.handed_out import (
    handed_out,
    made_by,
    names_of,
)
from amp_migrate.planner.files.vicinity import callers_of_scope
from amp_migrate.planner.optimizers.handed_optimizers import handed_over
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project import nearby
from amp_migrate.project.import_paths import resolved
from amp_migrate.project.module_graph import Project

# What a helper's file can show or mend: a method that makes the optimizer, the model's sigmoid. All
# other hazards name their file themselves.
_BELOW = {"bce-on-probabilities", "optimizer-not-in-sight"}
# What a caller's file can show: the model, the optimizer, its step, the device.
SHOWN_ABOVE = {
    "loss-computed-elsewhere",
    "optimizer-not-in-sight",
    "step-elsewhere",
    "no-optimizer",
    "cpu-only",
}
# What the file of a base class can show.
_INHERITED = {"step-elsewhere", "no-optimizer", "optimizer-not-in-sight"}
_MOST = 40


def company(
    refusal: Refusal, scope: Scope, program: Program, project: Project
) -> list[str]:
    """Files, by resolved path, that the program should hold, too; none where no file can help."""
    here = resolved(scope.module.path)
    if refusal.files:
        return _named(refusal.files, here, program, project)
    if not project.imports:
        return []
    linked = program.module.paths
    found: list[str] = []
    if refusal.reason in _INHERITED:
        for where in _told_of(refusal, scope, program):
            own = resolved(where.module.path)
            found += _of_bases(own, where, program, project)
        found = [file for file in found if file not in linked]
    # A base class sets what its heirs read: first it is asked, and then their forty neighbours.
    if refusal.reason in _BELOW and not found:
        found = project.helpers(here, _MOST)
    if refusal.above or refusal.reason in SHOWN_ABOVE:
        users = [
            user
            for file, name in handed_out(scope, program)
            for user in project.users(file, name)
        ]
        found += users
        if refusal.above and linked.issuperset(
            users
        ):  # they hand its object on
            found += _beyond([*users, here], scope, program, project)
    if refusal.reason == "cpu-only":
        found += _of_movers(here, project)
    return [file for file in dict.fromkeys(found) if file not in linked]


def _beyond(
    near: list[str], scope: Scope, program: Program, project: Project
) -> Iterator[str]:
    """What the users of a scope import, and who uses what makes its objects."""
    more = [file for user in near for file in project.imports.get(user, ())]
    yield from more[:_MOST]
    for home, name in made_by(scope, program):
        yield from project.users(home, name)


def _told_of(refusal: Refusal, scope: Scope, program: Program) -> set[Scope]:
    """The loop's scope, and that which a refusal tells of: a caller whose optimizer steps."""
    module = program.module
    node = refusal.node
    if node in module.scopes:
        return {scope, module.scopes[node]}
    if node in module.parents:
        return {scope, module.scope_of(node)}
    return {scope}


def _named(
    files: tuple[str, ...], here: str, program: Program, project: Project
) -> list[str]:
    """Files that a refusal names, and those over which the program gets to them."""
    own = (resolved(file.path) for file in program.module.files)
    starts = dict.fromkeys([here, *own])
    ways = (one for start in starts for one in _ways(start, files, project))
    return [*files, *ways, *_packages(files, project)]


def _of_movers(here: str, project: Project) -> Iterator[str]:
    """The program that imports a file may move everything, and name nothing of it."""
    yield from project.users(here)[:_MOST]
    yield from (file for file in project.helpers(here, _MOST) if _moves(file))


def _of_bases(
    here: str, scope: Scope, program: Program, project: Project
) -> Iterator[str]:
    """The files of the base classes, which may step, and those that hand on their names."""
    bases = list(_bases(scope, program))
    yield from bases
    yield from _ways(here, bases, project)
    yield from _packages(bases, project)


def makers(
    files: Iterable[str], program: Program, project: Project
) -> Iterator[str]:
    """Files of the tree that a migrated loop is planned with again, and those that hand on their
    names.
    """
    linked = program.module.paths
    new = [
        file
        for file in files
        if file not in linked and file in project.writable
    ]
    ways = [one for file in linked for one in _ways(file, new, project)]
    found = dict.fromkeys([*new, *ways, *_packages(new, project)])
    yield from (file for file in found if file not in linked)


def _moves(file: str) -> bool:
    """Whether a helper's file may put things on a device: a base class, `to_variable(x)`."""
    data = nearby.text_of(file) or b""
    return (
        b".cuda(" in data
        or b".to(" in data
        and b"device" in data
        or file.endswith(_PACKAGE)
    )


_PACKAGE = "/__init__.py"


def _ways(here: str, files: Iterable[str], project: Project) -> Iterator[str]:
    """The files over which a program gets to others: a class whose base they define."""
    for file in files:
        yield from (
            one
            for one in project.between(here, [file])
            if one in project.writable
        )


def _packages(files: Iterable[str], project: Project) -> Iterator[str]:
    """The `__init__.py` files above, which may hand names on."""
    for file in files:
        for folder in list(Path(file).parents)[:3]:
            init = str(folder / "__init__.py")
            if init in project.imports and init not in files:
                yield init


def callers(
    scope: Scope, steps: Iterable[ast.Call], program: Program, project: Project
) -> list[str]:
    """Files that call a loop's function, or make its object, where only they show which model or
    optimizer it gets.
    """
    if not project.imports:
        return []
    optimizers = [
        c.func.value for c in steps if isinstance(c.func, ast.Attribute)
    ]
    models = [
        c.func for c in scope.calls if program.effects.is_forward(c, scope)
    ]
    hidden = [
        o for o in optimizers if not _in_sight(program.values.of(o, scope))
    ]
    if not hidden and all(
        _in_sight(program.values.of(m, scope))
        or not handed_over(program, m, scope)
        for m in models
    ):
        return []
    here = resolved(scope.module.path)
    linked = program.module.paths
    several = len(hidden) > 1 and _chooses(scope, program)
    users = [
        file
        for name in _names_above(scope, program, several)
        for file in project.users(here, name)
    ]
    found = [file for file in users if file not in linked]
    if hidden and not found:  # what the callers make it of
        found = [
            f
            for user in users
            for f in project.imports.get(user, ())
            if f not in linked
        ]
    return list(dict.fromkeys(found))[:_MOST]


def _names_above(scope: Scope, program: Program, above: bool) -> list[str]:
    """What other files call the scope by; `above`: and the functions that lead to it."""
    names = names_of(scope, program)
    for node in callers_of_scope(program, scope) if above else ():
        names += names_of(program.module.scopes[node], program)
    return list(dict.fromkeys(names))


def _chooses(scope: Scope, program: Program) -> bool:
    """Whether a model runs in some branch alone: what its optimizer finds then depends on which
    model it trains.
    """
    forwards = (c for c in scope.calls if program.effects.is_forward(c, scope))
    return any(
        isinstance(above, ast.If)
        for call in forwards
        for above in program.module.ancestors(call)
    )


def that_show(
    scopes: Iterable[Scope], program: Program, project: Project
) -> Iterator[str]:
    """Files that call functions of which nothing in sight tells the device or the model, or hold a
    base class that may set it.
    """
    linked = program.module.paths
    for scope in scopes if project.imports else ():
        yield from (
            file for file in _bases(scope, program) if file not in linked
        )
        here = resolved(scope.module.path)
        for name in names_of(scope, program):
            yield from [
                f for f in project.users(here, name) if f not in linked
            ][:_MOST]


def _bases(scope: Scope, program: Program) -> Iterator[str]:
    """The files of the bases of a scope's class."""
    cls = program.graph.class_around(scope)
    for owner in program.graph.lineage(cls) if cls is not None else ():
        for base in owner.bases:
            above = program.module.scopes[owner].parent or program.module.root
            found = program.values.abroad(base, above)
            if found is None:
                continue
            yield resolved(found[0].module.path)
            for home, _ in _all_bases(found):
                yield resolved(home.module.path)


def _all_bases(found: Definition) -> Iterable[Class]:
    """A base class in another file and its own bases, which may stand in others again."""
    home, base = found
    return with_bases(home, base) if isinstance(base, ast.ClassDef) else ()


def savers(program: Program, project: Project) -> list[str]:
    """Files whose functions are handed an optimizer here and save or load its state: the scaler's
    belongs beside it.
    """
    if not project.imports:
        return []
    found: dict[str, None] = {}
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = [*call.args, *(entry.value for entry in call.keywords)]
            if any(
                program.effects.is_optimizer(g, scope)
                for g in given
                if isinstance(g, (ast.Name, ast.Attribute))
            ):
                found |= dict.fromkeys(file_of_saver(program, call, scope))
    return [
        file
        for file in (*found, *_packages(found, project))
        if file in project.writable
    ]


def file_of_saver(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[str]:
    """The file of an imported function that saves or loads the state of what it is handed, or
    saves that itself.
    """
    definition = program.values.abroad(call.func, scope) or _method_abroad(
        program, call.func, scope
    )
    if definition is None or isinstance(definition[1], ast.ClassDef):
        return
    elsewhere = definition[0]
    body = elsewhere.scope(definition[1])
    parameters = {argument.arg for argument in body.parameters()}
    for inner in body.calls:
        if isinstance(inner.func, ast.Attribute) and inner.func.attr in (
            "state_dict",
            "load_state_dict",
        ):
            if (
                isinstance(inner.func.value, ast.Name)
                and inner.func.value.id in parameters
            ):
                yield resolved(elsewhere.module.path)
    for whole in saved_whole(elsewhere):
        if isinstance(whole, ast.Name) and whole.id in parameters:
            if elsewhere.module.scope_of(whole) is body:
                yield resolved(elsewhere.module.path)


def _method_abroad(
    program: Program, func: ast.expr, scope: Scope
) -> tuple[Program, Function] | None:
    """`model.load` of an object whose class stands in another file."""
    if not isinstance(func, ast.Attribute):
        return None
    foreign = program.values.of(func.value, scope).foreign
    if foreign is None or not isinstance(foreign[1], ast.ClassDef):
        return None
    method = foreign[0].graph.method(foreign[1], func.attr)
    return (foreign[0], method) if method is not None else None


def _in_sight(value: Value) -> bool:
    """Whether it is known what a value was made by."""
    return (
        value.cls is not None
        or value.foreign is not None
        or value.name is not None
    )
