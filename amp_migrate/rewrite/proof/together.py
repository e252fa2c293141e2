"""What holds for rewritten files only together: a parameter that one file adds reaches it from
every other, and each argument that is added is taken by all that its call may run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.checkpoints.saved_keywords import saves_keywords
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.rewrite.proof.facts import Failure


def call_faults(
    program: Program, names: frozenset[str]
) -> Iterator[tuple[str, Failure]]:
    """Calls that lack a new parameter, or pass one that is not taken, with the path of the file
    that makes them; `names` are new in all files of the output `program`.
    """
    for function, scope in program.module.scopes.items():
        for name in sorted(
            names & {argument.arg for argument in scope.parameters()}
        ):
            if isinstance(function, FUNCTIONS) and name in _required(function):
                yield from _missing(program, function, name)
    yield from _refused(program, names)
    yield from _alternatives(program, names)


def _missing(
    program: Program, function: Function, name: str
) -> Iterator[tuple[str, Failure]]:
    for site in program.graph.sites(function):
        sure = program.values.callee(site.call, site.scope) is function
        if sure and not any(
            entry.arg in (name, None) for entry in site.call.keywords
        ):
            message = f"`{function.name}` needs `{name}`, which this call does not pass"
            yield (
                site.scope.module.path,
                Failure("same-program", site.call.lineno, message),
            )


def _refused(
    program: Program, names: frozenset[str]
) -> Iterator[tuple[str, Failure]]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = {entry.arg for entry in call.keywords} & names
            function = program.values.callee(call, scope) if given else None
            if (
                function is None
                or function.args.kwarg is not None
                or function.decorator_list
            ):
                continue
            for name in sorted(
                given
                - {
                    argument.arg
                    for argument in program.scope(function).parameters()
                },
                key=str,
            ):
                message = f"`{function.name}` has no parameter `{name}`"
                yield (
                    scope.module.path,
                    Failure("same-program", call.lineno, message),
                )


def _alternatives(
    program: Program, names: frozenset[str]
) -> Iterator[tuple[str, Failure]]:
    """Calls of a name that stands for several definitions (one in each branch), or for one that
    is not here, of which one does not take what the call passes, or needs what it does not.
    """
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = {entry.arg for entry in call.keywords}
            behind = _behind(program, call, scope)
            if len(behind) == 1 and behind[0] is not None:
                continue  # asked of the call graph
            if any(program.graph.function_at(a, scope) for a in call.args):
                continue  # it hands a function on, with what that takes
            if given & names and saves_keywords(program, call):
                continue  # it takes any
            for message in _misfits(program, behind, given, names):
                path = scope.module.path
                yield path, Failure("same-program", call.lineno, message)


def _misfits(
    program: Program,
    behind: list[Function | None],
    given: set[str | None],
    names: frozenset[str],
) -> Iterator[str]:
    for function in behind:
        passed = sorted(given & names, key=str)
        if function is None:
            yield from (
                f"nothing shows that all it may call take {n}" for n in passed
            )
            continue
        taken = {one.arg for one in program.scope(function).parameters()}
        if function.args.kwarg is None and not function.decorator_list:
            for name in passed:
                if name not in taken:
                    yield f"`{function.name}` has no parameter `{name}`"
        for name in sorted(names & _required(function) - given):
            if None not in given:
                yield f"`{function.name}` needs `{name}`, which this call does not pass"


def _behind(
    program: Program, call: ast.Call, scope: Scope
) -> list[Function | None]:
    """The functions that a plain name, or a name in an imported module, stands for; None for one
    that is in no file of the program.
    """
    dotted = dotted_name(call.func)
    head, _, rest = (dotted or "").partition(".")
    home = scope.lookup(head) if dotted is not None else None
    found: dict[Function | None, None] = {}
    for binding in home.bindings[head] if home is not None else ():
        if isinstance(binding.statement, FUNCTIONS) and not rest:
            found[binding.statement] = None
        elif isinstance(binding.statement, (ast.Import, ast.ImportFrom)):
            found |= dict.fromkeys(
                _imported(program, binding.statement, dotted or "", scope)
            )
    return list(found)


def _imported(
    program: Program,
    statement: ast.Import | ast.ImportFrom,
    dotted: str,
    scope: Scope,
) -> list[Function | None]:
    """What an import statement brings by a name, the methods of the classes that it brings among
    them.
    """
    file = scope.module
    where = program.module.imported_by(statement, dotted, file)
    holder, _, name = dotted.rpartition(".")
    owner = program.module.imported_by(statement, holder, file)
    if where is not None or owner is None:
        return _defined(where)
    bound = owner[0].bindings.get(owner[1], ())
    return [
        program.graph.method(one.statement, name)
        if isinstance(one.statement, ast.ClassDef)
        else None
        for one in bound
    ]


def _defined(where: tuple[Scope, str] | None) -> list[Function | None]:
    """The functions that a name of a file is bound to; nothing for classes and variables."""
    if where is None:
        return [None]
    statements = [one.statement for one in where[0].bindings.get(where[1], ())]
    return [one for one in statements if isinstance(one, FUNCTIONS)]


def _required(function: Function) -> set[str]:
    arguments: ast.arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    plain = positional[: len(positional) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {
        argument.arg
        for argument in [
            *plain,
            *(a for a, default in pairs if default is None),
        ]
    }
