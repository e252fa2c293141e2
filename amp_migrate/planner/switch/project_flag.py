"""The project's own switch for AMP, by the loops of it that have AMP already: what they ask is what
new loops ask (`enabled=args.use_amp`, `GradScaler() if cfg.fp16 else None`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_migrate.model.gradients.flow import under_no_grad
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.settings.configurations import configurations, has_option
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.switch.own_options import with_option
from amp_migrate.planner.switch.reading_place import ReadingPlace
from amp_migrate.planner.switch.switches_elsewhere import (
    is_named_switch,
    is_of_user,
    same_switches,
)
from amp_migrate.torch_facts.devices import DEVICES


def flags(
    program: Program,
    scope: Scope,
    place: ast.stmt,
    can_read: Callable[[str], bool],
) -> Iterator[str]:
    """What other loops ask, as text that can be read at `place`: those of the same file as they
    are written, those of other files by the option that they name.
    """
    known = program.remembered(flags, lambda: list(_found(program)))
    for test, where in known:
        text = program.module.source(test)
        plain = where.module is scope.module and is_condition(test)
        if plain and can_read(text):
            yield text
    elsewhere = [t for t, where in known if where.module is not scope.module]
    for near in _imported(program, scope.module):
        for test, where in _found(near):
            elsewhere.append(test)
            text = ast.unparse(test)
            same = _is_same_object(program, scope, test, near, where)
            if same and can_read(text):
                yield text
    for test in {ast.unparse(t): t for t in elsewhere}.values():
        yield from _by_option(program, scope, place, test)


def _is_same_object(
    program: Program,
    scope: Scope,
    test: ast.expr,
    near: Program,
    where: Scope,
) -> bool:
    """Whether `cfg` of another file's `cfg.amp` is imported here from where that file has it."""
    head, _, rest = (dotted_name(test) or "").partition(".")
    mine = program.reaching.imported.variable_named(head, scope)
    theirs = near.reaching.imported.variable_named(head, where)
    return bool(rest) and mine is not None and mine == theirs


def _imported(program: Program, module: Module) -> list[Program]:
    """The files that a file imports from, where AMP is named in them."""

    def near() -> list[Program]:
        neighbours = module.neighbours
        names = module.imports.names.values() if neighbours is not None else ()
        found = (
            neighbours.find(name) for name in names if neighbours is not None
        )
        programs = {id(d[0]): d[0] for d in found if d is not None}
        return [
            one
            for one in programs.values()
            if "GradScaler" in one.module.identifiers
        ]

    return program.remembered((_imported, module), near)


def _by_option(
    program: Program, scope: Scope, place: ast.stmt, test: ast.expr
) -> Iterator[str]:
    """`args.amp` of another file, by the name that the options have here."""
    dotted = dotted_name(test) or ""
    name = dotted.rpartition(".")[2]
    for one in configurations(program, scope, place) if "." in dotted else ():
        if one.kind in ("argparse", "dataclass") and has_option(
            program, one, name
        ):
            yield f"{one.holder}.{name}"


def _found(program: Program) -> Iterator[tuple[ast.expr, Scope]]:
    for name in (".GradScaler", ".autocast"):
        for scope in program.module.scopes.values():
            for call in scope.calls:
                if (program.canonical(call.func) or "").endswith(name):
                    yield from (
                        (t, scope)
                        for t in _asked(program, call)
                        if _is_flag(t, name)
                        and not under_no_grad(program, call)
                    )


def _is_flag(test: ast.expr, name: str) -> bool:
    """What a scaler asks, or a plain name that a region asks: regions ask other things, too. Or
    what is called a switch.
    """
    of_scaler = name == ".GradScaler"
    if of_scaler or not isinstance(test, ast.Compare):
        if is_named_switch(test):
            return True
    return is_condition(test) and (of_scaler or dotted_name(test) is not None)


def _asked(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    """`enabled=`, and the conditions under which a scaler is made at all."""
    yield from (
        keyword.value for keyword in call.keywords if keyword.arg == "enabled"
    )
    below: ast.AST = call
    scaler = (program.canonical(call.func) or "").endswith(".GradScaler")
    for parent in program.module.ancestors(call) if scaler else ():
        if isinstance(parent, ast.IfExp) and below is parent.body:
            yield parent.test
        elif isinstance(parent, ast.If):
            if below in parent.body:
                yield parent.test
            return
        below = parent
        if isinstance(parent, (ast.Module, *DEFINITIONS)):
            return


_DEVICES = frozenset(row.name for row in DEVICES)


def is_condition(test: ast.expr) -> bool:
    """A name, its negation, or its comparison with a constant: `"cpu" not in device`, too."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Constant):
        (kind, *more), text = test.ops, test.left.value
        named = dotted_name(test.comparators[0]) is not None
        is_part = isinstance(kind, (ast.In, ast.NotIn)) and not more
        return is_part and named and text in _DEVICES
    if isinstance(test, ast.Compare):
        constants = all(
            isinstance(c, (ast.Constant, ast.UnaryOp)) for c in test.comparators
        )
        return constants and dotted_name(test.left) not in (None, "__name__")
    return dotted_name(test) is not None


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def alike(here: ReadingPlace) -> Iterator[str]:
    """What other loops read of an object that has the same name at a place, whose attributes and
    entries nobody sees: the program itself reads them.
    """
    program = here.program
    known = program.remembered(flags, lambda: list(_found(program)))
    for test in same_switches(program, known, here.node):
        yield program.module.source(test)


def refuse_unread(here: ReadingPlace, node: ast.AST) -> None:
    """Raise Refusal, at `node`, where another loop of the file obeys a switch of who runs the
    program, and nothing that can be read at a place is one.
    """
    program, scope = here.program, here.scope
    known = program.remembered(flags, lambda: list(_found(program)))
    switches = (
        test
        for test, where in known
        if where.module is scope.module and is_of_user(program, test)
    )
    first = next(switches, None)
    if first is None:
        return
    read = next(flags(program, scope, here.node, here.can_read), None)
    read = read or next(alike(here), None)
    if read is None and with_option(here, None) is None:
        said, where = ast.unparse(first), place_of(program, first)
        raise Refusal(
            "switch-out-of-reach",
            node,
            f"another loop obeys `{said}` ({where}), which cannot be read by a name where the "
            "scaler of this one would be made",
        )
