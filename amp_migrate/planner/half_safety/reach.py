"""What a run of statements leads to: functions and models' `forward`s in this module, and in
others of the project.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Container, Iterable, Iterator

from amp_migrate.model.calls.kept_code import Code
from amp_migrate.model.calls.may_run import may_run, properties
from amp_migrate.model.calls.targets import (
    kept_functions,
    kept_lambdas,
    targets,
)
from amp_migrate.model.classes.bases_abroad import (
    constructor,
)
from amp_migrate.model.classes.constructors import classes_made
from amp_migrate.model.files.neighbours import Definition
from amp_migrate.model.forwards.unknown_models import methods_abroad, possible
from amp_migrate.model.naming.one_of_several import all_abroad
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow
from amp_migrate.model.values.kinds import Kind, Value
from amp_migrate.planner.half_safety.chosen_models import bodies_of_several
from amp_migrate.planner.half_safety.forwards_abroad import (
    forwards_abroad,
    made_abroad,
    made_by_factories,
    part_abroad,
    with_bases_abroad,
)
from amp_migrate.planner.half_safety.methods_behind import methods_behind
from amp_migrate.planner.half_safety.own_versions import own_version
from amp_migrate.records import NamedTuple

_FILES = 4
"""How far a loop is followed from file to file."""
_RUN = (Kind.MODEL, Kind.CRITERION)
"""What runs a `forward`."""


class Part(NamedTuple):
    """A statement, or what a lambda gives, that others run; where it stands, and what it runs
    itself.
    """

    root: ast.AST
    scope: Scope
    runs: tuple[Code, ...]


def reachable(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> Iterator[tuple[ast.AST, Scope]]:
    """Every node of the statements and of the functions in sight that they run, models' `forward`
    included.
    """
    for part in parts(program, statements, scope):
        yield from ((node, part.scope) for node in shallow(part.root))


def perhaps_reachable(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> Iterator[tuple[ast.AST, Scope]]:
    """The same, and of what nothing says that the statements run it, all that they may run."""
    for part in parts(program, statements, scope, perhaps=True):
        yield from ((node, part.scope) for node in shallow(part.root))


def parts(
    program: Program,
    statements: list[ast.stmt],
    scope: Scope,
    *,
    perhaps: bool = False,
) -> tuple[Part, ...]:
    """The same by statements. Asked about one loop by many, and found once."""
    return program.remembered(
        (parts, *statements, scope, perhaps),
        lambda: tuple(_parts(program, statements, scope, perhaps)),
    )


def _parts(
    program: Program,
    statements: list[ast.stmt],
    scope: Scope,
    perhaps: bool,
    known: Container[ast.AST] = (),
) -> Iterator[Part]:
    """The same, found anew; what is `known` leads to nothing else."""
    seen: set[Code] = set()
    wanted: deque[tuple[ast.AST, Scope]] = deque((s, scope) for s in statements)
    while wanted:
        root, where = wanted.popleft()
        if isinstance(root, FUNCTIONS) or root in known:
            continue
        part = _part(program, root, where, perhaps)
        yield part
        for code in part.runs:
            if code not in seen:
                seen.add(code)
                inner = program.module.scopes[code]
                wanted.extend((one, inner) for one in _body(code))


def _part(program: Program, root: ast.AST, scope: Scope, perhaps: bool) -> Part:
    """Many loops, and many parts of one, lead to the same statements: each is looked at once."""

    def found() -> Part:
        runs = (
            code
            for node in shallow(root)
            for code in _run_at(program, node, scope, perhaps)
        )
        return Part(root, scope, tuple(dict.fromkeys(runs)))

    return program.remembered((_part, root, scope, perhaps), found)


def _run_at(
    program: Program, node: ast.AST, scope: Scope, perhaps: bool
) -> Iterator[Code]:
    """What a node runs; with `perhaps`, also what it may run."""
    if isinstance(node, ast.Call):
        yield from _called(program, node, scope)
        yield from may_run(program, node, scope) if perhaps else ()
    elif perhaps and isinstance(node, ast.Attribute):
        yield from properties(program, node)


def _called(program: Program, call: ast.Call, scope: Scope) -> tuple[Code, ...]:
    """What a call runs in this program."""

    def found() -> tuple[Code, ...]:
        others = bodies_of_several(program, call, scope)
        found = (
            *targets(program, call, scope),
            *possible(program, call, scope),
            *_constructors(program, call, scope),
            *kept_lambdas(program, call.func, scope),
            *(f for home, f in others if home is program),
        )
        return tuple(dict.fromkeys(found))

    return program.remembered((_called, call, scope), found)


def _body(code: Code) -> list[ast.stmt] | list[ast.expr]:
    return [code.body] if isinstance(code, ast.Lambda) else code.body


def abroad(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> list[tuple[Program, Function, tuple[ast.Call, ...]]]:
    """Functions of other modules of the project that the statements run, transitively; with all
    calls of those that the statements alone call, none for the others. Those of the program's own
    files that nothing but such a function leads to are among them. Asked about one loop by many.
    """
    return program.remembered(
        (abroad, *statements, scope),
        lambda: _abroad(program, statements, scope),
    )


def _abroad(
    program: Program, statements: list[ast.stmt], scope: Scope
) -> list[tuple[Program, Function, tuple[ast.Call, ...]]]:
    own = {one.scope.node for one in parts(program, statements, scope)}
    found: dict[Function, Program] = {}
    direct: dict[Function, list[ast.Call]] = {}
    hidden: set[Function] = set()
    wanted = [(program, statements, scope, 0)]
    followed = _Followed()
    while wanted:
        where, block, inside, depth = wanted.pop()
        new = followed.new(where, block, inside, depth)
        for home, body, call in _next_abroad(where, new):
            other, function = own_version(program, home, body)
            if function in own:
                continue
            if call is None or depth:
                hidden.add(function)
            else:
                direct.setdefault(function, []).append(call)
            if function not in found and depth < _FILES:
                found[function] = other
                wanted.append(
                    (other, function.body, other.scope(function), depth + 1)
                )
    return [
        (
            other,
            function,
            tuple(direct.get(function, ())) if function not in hidden else (),
        )
        for function, other in found.items()
    ]


class _Followed:
    """The statements whose calls were followed from one file into others. Functions of a file share
    most of what they run.
    """

    def __init__(self) -> None:
        self._onward: set[ast.AST] = set()
        """Those whose functions were followed in turn."""
        self._all: set[ast.AST] = set()

    def new(
        self,
        program: Program,
        statements: list[ast.stmt],
        scope: Scope,
        depth: int,
    ) -> Iterator[Part]:
        """What statements run and was not followed yet."""
        known = self._onward if depth < _FILES else self._all
        for one in _parts(program, statements, scope, False, known):
            yield one
            # What the loop itself calls, it hands what nobody else does.
            if depth:
                self._all.add(one.root)
            if 0 < depth < _FILES:
                self._onward.add(one.root)


def _next_abroad(
    program: Program, found: Iterable[Part]
) -> Iterator[tuple[Program, Function, ast.Call | None]]:
    """One import further: imported functions that are called, and `forward` of imported classes."""
    for part in found:
        for node in shallow(part.root):
            if isinstance(node, ast.Call):
                yield from _abroad_of(program, node, part.scope)


def _abroad_of(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[tuple[Program, Function, ast.Call | None], ...]:
    """The same of one call. Asked about each step of each loop, and found once."""

    def found() -> tuple[tuple[Program, Function, ast.Call | None], ...]:
        methods = dict.fromkeys(methods_abroad(program, call, scope))
        methods |= dict.fromkeys(methods_behind(program, call, scope))
        others = bodies_of_several(program, call, scope)
        methods |= dict.fromkeys(one for one in others if one[0] is not program)
        return (
            *leads_to(program, call, scope),
            *((*one, None) for one in methods),
        )

    return program.remembered((_abroad_of, call, scope), found)


def leads_to(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function, ast.Call | None]]:
    """The functions of other files that a call runs for all that is known of it, with the call
    where it names them itself.
    """
    definitions = all_abroad(program, call.func, scope)
    for definition in definitions:
        run = _runs_of(definition)
        if run is not None:
            yield *run, call
    if not definitions:
        kept = kept_functions(program, call.func, scope)
        yield from ((*one, None) for one in kept if one[0] is not program)
    for value in _run(program, call, scope):
        for home, cls in with_bases_abroad(program, value):
            yield from forwards_abroad(program, home, cls)
    yield from made_by_factories(program, call, scope)
    for home, cls in (
        *made_abroad(program, call, scope),
        *part_abroad(program, call, scope),
    ):
        yield from forwards_abroad(program, home, cls)


def _runs_of(found: Definition) -> tuple[Program, Function] | None:
    """What a call of a definition runs: of a class, what makes its objects."""
    home, one = found
    return (
        constructor(home, one) if isinstance(one, ast.ClassDef) else (home, one)
    )


def _constructors(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[Function]:
    """`Mixture(logits, means)` of a class in sight."""
    for cls in classes_made(program, call.func, scope):
        found = constructor(program, cls)
        if found is not None and found[0] is program:
            yield found[1]


def _run(program: Program, call: ast.Call, scope: Scope) -> list[Value]:
    """What a call runs, and the modules that it is handed, as `self.compute_loss(self.criterion,
    outputs, y)` is.
    """
    given = [*call.args, *(k.value for k in call.keywords)]
    handed = [
        program.values.of(a, scope)
        for a in given
        if isinstance(a, (ast.Name, ast.Attribute))
    ]
    return [
        program.values.of(call.func, scope),
        *(v for v in handed if v.kind in _RUN),
    ]
