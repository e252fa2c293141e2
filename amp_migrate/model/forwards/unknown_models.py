"""What a call may run of a model whose class nobody can tell: a parameter that no call in sight
binds, an attribute that is set from one.

Such a model may be of any module class of the program, or of one that its files import.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.computing_functions import only_computes
from amp_migrate.model.calls.found_by_name import found_by_name
from amp_migrate.model.calls.targets import kept_functions, made
from amp_migrate.model.classes.bases_abroad import (
    Class,
    asked_class,
    called_of_base,
    method_of,
    run_by,
)
from amp_migrate.model.classes.class_methods import (
    fitting_anywhere,
    fitting_methods,
    methods_of,
)
from amp_migrate.model.classes.classes_by_text import (
    classes_by_text,
    classes_of_named_modules,
    imports_by_text,
)
from amp_migrate.model.classes.factories import (
    behind,
    called,
    out_of_tables,
)
from amp_migrate.model.classes.imported_tables import (
    homes_of_tables,
    imported_tables,
)
from amp_migrate.model.classes.looked_up import module_searched
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.files.neighbours import Definition
from amp_migrate.model.forwards.late_modules import (
    imports_late,
    is_computed_module,
    is_made_late,
    maker_of,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.one_of_several import classes_brought
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Function, Scope, is_abstract
from amp_migrate.model.values.kinds import (
    Kind,
    Value,
    criterion_name,
    library_kind,
)
from amp_migrate.project.import_paths import resolved
from amp_migrate.torch_facts import layers

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 3


def possible(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[Function]:
    """What `call` may run in this program, where the class of the model is not known."""
    method, kind = _asked(program, call, scope)
    if method is not None:
        for cls in module_classes(program, kind):
            yield from fitting_methods(program, cls, method, call)
    if method is not None and kind is Kind.CRITERION:
        for cls in module_classes(program):
            if cls.decorator_list:  # its name says nothing, a table holds it
                yield from fitting_methods(program, cls, method, call)
    func = call.func
    own = (
        program.values.of(func.value, scope).cls
        if isinstance(func, ast.Attribute)
        else None
    )
    if own is not None and isinstance(func, ast.Attribute):
        said = program.graph.method(own, func.attr)
        if said is not None and is_abstract(said):
            yield from _of_class(program, own, func.attr)


def methods_abroad(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function]]:
    """What `call` runs of a class in another file of the project: the method of that class, or of
    any that the program imports, where it is not known.
    """
    func = call.func
    if isinstance(func, ast.Attribute):
        of_base = called_of_base(program, func, scope)
        if of_base is not None:
            yield of_base
            cls = asked_class(program, func.value, scope)
            yield from run_by(program, cls, of_base) if cls is not None else ()
            return
        foreign = _foreign(program, program.values.of(func.value, scope))
        for home, cls in foreign:
            yield from ((home, one) for one in _of_class(home, cls, func.attr))
            inherited = method_of(home, cls, func.attr)
            if inherited is not None:
                yield inherited
                yield from run_by(home, cls, inherited)
        if foreign:
            return
    method, kind = _asked(program, call, scope)
    if method is not None:
        run = (
            one
            for home, cls in _all_classes(program, kind)
            for one in fitting_anywhere(home, cls, method, call)
        )
        yield from dict.fromkeys(one for one in run if one[0] is not program)


def _foreign(program: Program, value: Value) -> list[Class]:
    """The classes of other files that an object may be of."""
    brought = classes_brought(program, value) if value.mixed else ()
    found = [one for one in brought if one[0] is not program]
    first = [value.foreign] if value.foreign is not None else []
    return list(dict.fromkeys([*first, *found]))


def _of_class(
    program: Program, cls: ast.ClassDef, method: str
) -> Iterator[Function]:
    """The method of a class and of its heirs; where it is left to others, that of any module class
    of its file, for an annotation promises no more.
    """
    family = [
        cls,
        *(heir for heir in program.graph.heirs(cls) if heir is not cls),
    ]
    found = dict.fromkeys(
        body for one in family for body in methods_of(program, one, method)
    )
    yield from found
    if found and all(map(is_abstract, found)):
        for one in module_classes(program):
            yield from (
                body
                for body in methods_of(program, one, method)
                if body not in found
            )


def _asked(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[str | None, Kind]:
    """What a call runs of a model or a loss of which nothing tells the class."""
    method = _method(program, call, scope)
    if method is None and _is_unknown_loss(program, call, scope):
        return "forward", Kind.CRITERION
    return method, Kind.MODEL


def _method(program: Program, call: ast.Call, scope: Scope) -> str | None:
    """The method that a call runs of a model whose class is not known; None for other calls."""
    func = call.func
    if (
        program.canonical(func) is not None
        or program.values.callee(call, scope) is not None
    ):
        return None
    runs = program.effects.forward_of(call, scope)
    if not runs & (EventKind.FORWARD | EventKind.CALLABLE):
        return None
    if isinstance(func, ast.Attribute) and program.values.is_model(
        func.value, scope
    ):
        if _is_unknown(program, func.value, scope):
            return func.attr
    elif _is_unknown(program, func, scope):
        return "forward"
    return "forward" if is_made_late(program, func, scope) else None


def _is_unknown_loss(program: Program, call: ast.Call, scope: Scope) -> bool:
    """`self.loss_func(outputs, y)` of a loss that nothing in sight makes: it may be of any class of
    losses.
    """
    name = dotted_name(call.func)
    if name is None or not criterion_name(name.rpartition(".")[2]):
        return False
    if (
        program.canonical(call.func) is not None
        or program.values.callee(call, scope) is not None
        or kept_functions(program, call.func, scope)
    ):
        return False
    return _is_unknown(program, call.func, scope)


def _is_unknown(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    value = program.values.of(expr, scope)
    if value.kind not in (Kind.MODEL, Kind.CRITERION, Kind.UNKNOWN):
        return False
    behind = made(program, expr, scope)
    if behind.is_cut:
        return True
    if value.cls is not None or value.foreign is not None:
        return False
    if value.name not in layers.SAY_NO_CLASS:
        return False
    return all(
        isinstance(one, ast.expr) and says_no_class(program, one)
        for one in behind.found
    ) or _is_by_factory(program, expr, scope, _HOPS)


def _is_by_factory(
    program: Program, expr: ast.expr, scope: Scope, hops: int
) -> bool:
    """Whether a factory of another file makes it, whatever libraries give that its arguments."""
    for home, value, where in held(program, expr, scope) if hops else ():
        maker = maker_of(value)
        if home is not program or maker is value:
            continue
        made = program.values.abroad(maker, where)
        if made is not None:
            if not isinstance(made[1], ast.ClassDef):
                return True
        elif _is_by_factory(program, maker, where, hops - 1):
            return True
    return False


def says_no_class(program: Program, name: ast.expr) -> bool:
    """A table or a factory of another file says no more than that it is one; `torch.device(0)` and
    what the standard library holds are no class of a model either.
    """
    canonical = program.canonical(name)
    is_torch = canonical is not None and canonical.startswith("torch.")
    is_standard = (canonical or "").partition(".")[0] in sys.stdlib_module_names
    if canonical in layers.SAY_NO_CLASS or is_standard:
        return True
    if is_torch and library_kind(canonical or "") is not Kind.MODEL:
        return True
    scope = program.module.scope_of(name)
    imported = program.reaching.imported
    searched = module_searched(name) or name
    made = imported.definition(name, scope)
    is_factory = made is not None and not isinstance(made[1], ast.ClassDef)
    dotted = dotted_name(name) or ""
    is_table = imported_variable(program, dotted, scope) is not None
    return is_factory or is_table or imported.is_module(searched, scope)


def module_classes(
    program: Program, kind: Kind = Kind.MODEL
) -> list[ast.ClassDef]:
    """The classes of the program whose instances are models, or losses."""

    def found() -> list[ast.ClassDef]:
        of = program.values.class_kind
        return [cls for cls in program.graph.classes() if of(cls) is kind]

    return program.remembered((module_classes, kind), found)


def _all_classes(program: Program, kind: Kind) -> Iterator[Class]:
    """Those that a model or a loss may be of, here and in other files."""
    yield from ((program, cls) for cls in module_classes(program, kind))
    yield from _imported_classes(program, kind)
    if kind is Kind.CRITERION:
        yield from _models_of_tables(program)


def _imported_classes(program: Program, kind: Kind) -> list[Class]:
    """The classes that the program's calls name in other files of the project; of a function
    there, those of its file, any of which it may make.
    """

    def found() -> list[Class]:
        own = program.module.paths
        return list(
            dict.fromkeys(
                pair
                for near in _all_named(program)
                if resolved(near[0].module.path) not in own
                for pair in _classes_of(*near, kind)
            )
        )

    return program.remembered((_imported_classes, kind), found)


def _all_named(program: Program) -> tuple[Definition, ...]:
    """What the calls, the imports and the tables of a program name in other files, models and
    losses alike.
    """

    def found() -> tuple[Definition, ...]:
        files, scopes = program.module.files, program.module.scopes
        named = [one for s in scopes.values() for one in _named(program, s)]
        named += [one for file in files for one in imported_tables(file)]
        named += [
            one
            for file in files
            for one in found_by_name(program, file.tree, file.root)
            if one[0] is not program
        ]
        named += out_of_tables(program)
        named += _by_text(program, [one[0] for one in named])
        behind_all = (near for one in named for near in behind(program, one))
        return tuple(dict.fromkeys(behind_all))

    return program.remembered(_all_named, found)


def _by_text(program: Program, others: list[Program]) -> list[Definition]:
    """What may be imported by a text: here, in a function of another file that is called, in a
    module of which everything is imported, or one of which a table is.
    """
    stars = [
        file.neighbours.module(star)
        for file in program.module.files
        if file.neighbours is not None
        for star in file.imports.stars
    ]
    near = [one for one in stars if one is not None]
    for file in program.module.files:
        near += homes_of_tables(file)
    importing = list(dict.fromkeys([program, *others, *near]))
    found = [one for i in importing for one in classes_of_named_modules(i)]
    if any(map(imports_by_text, importing)):
        files = [file.neighbours for file in program.module.files]
        found += classes_by_text(near for near in files if near is not None)
    own = program.module.paths
    return [one for one in found if resolved(one[0].module.path) not in own]


def _named(
    program: Program,
    scope: Scope,
) -> Iterator[Definition]:
    """What the calls of a scope name, or find in a module whose name is computed."""
    yield from called(program, scope)
    for call in scope.calls if imports_late(program) else ():
        if (
            isinstance(call.func, ast.Attribute)
            and program.values.abroad(call.func, scope) is None
            and scope.module.neighbours is not None
        ):
            if is_computed_module(program, call.func.value):
                own = program.module.paths
                near = scope.module.neighbours.definers(call.func.attr)
                yield from (
                    one
                    for one in near
                    if resolved(one[0].module.path) not in own
                )


def _models_of_tables(program: Program) -> list[Class]:
    """Modules out of tables, which are losses as well as models."""

    def found() -> list[Class]:
        held = (
            one
            for file in program.module.files
            for one in imported_tables(file)
        )
        return [pair for one in held for pair in _classes_of(*one, Kind.MODEL)]

    return program.remembered(_models_of_tables, found)


def _classes_of(
    home: Program, node: Function | ast.ClassDef, kind: Kind
) -> Iterator[Class]:
    if not isinstance(node, ast.ClassDef):
        if not only_computes(home, node):
            yield from ((home, cls) for cls in module_classes(home, kind))
    elif home.values.class_kind(node) is kind:
        yield home, node
