"""What holds for rewritten files only together: a parameter that one file adds reaches it from
every other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from amp_migrate.model.linking import LinkedProgram
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Function
from amp_migrate.rewrite.proof.facts import Failure


def call_faults(
    outputs: Mapping[str, str], names: frozenset[str]
) -> Iterator[tuple[str, Failure]]:
    """Calls that lack a new parameter, or pass one that is not taken, with the path of the file
    that makes them.

    `outputs` by path; `names` are new in all of them. Raises SyntaxError, ValueError or
    RecursionError.
    """
    program = LinkedProgram(outputs, neighbours=False)
    for function, scope in program.module.scopes.items():
        for name in sorted(
            names & {argument.arg for argument in scope.parameters()}
        ):
            if isinstance(function, FUNCTIONS) and name in _required(function):
                yield from _missing(program, function, name)
    yield from _refused(program, names)


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
