"""Functions and lambdas that a program keeps as values, and the names that it keeps them under:
attributes, variables, arguments, keys. Whoever calls such a name may run them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.torch_facts.iteration import CALLING_BUILTINS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Code: TypeAlias = Function | ast.Lambda
_PLAIN_DECORATORS = frozenset(
    {"property", "staticmethod", "classmethod", "setter", "abstractmethod"}
)


class KeptCode:
    """The index of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.anywhere: list[Code] = []
        """All that is kept, or registered by a decorator."""
        self._under: dict[str, list[Code]] = {}
        for code, nodes in self._mentions():
            self.anywhere.append(code)
            for node in nodes:
                for name in self._names(node):
                    self._under.setdefault(name, []).append(code)

    def under(self, name: str) -> tuple[Code, ...]:
        """What is kept under a name."""
        return tuple(dict.fromkeys(self._under.get(name, ())))

    def _mentions(self) -> Iterator[tuple[Code, list[ast.expr]]]:
        """The code that is kept, with the expressions that name it."""
        graph = self.program.graph
        for node in self.program.module.scopes:
            if isinstance(node, ast.Lambda):
                if not self._is_run_at_once(node):
                    yield node, [node]
            elif isinstance(node, FUNCTIONS):
                nodes: list[ast.expr] = [
                    one
                    for one in graph.mentions(node)
                    if not self._is_run_at_once(one)
                ]
                if nodes or is_registered(node):
                    yield node, nodes

    def _is_run_at_once(self, node: ast.expr) -> bool:
        """`map(lambda n: sample(n), counts)` keeps it for nobody else."""
        call = self.program.module.parents.get(node)
        if isinstance(call, ast.keyword):
            call = self.program.module.parents.get(call)
        func = call.func if isinstance(call, ast.Call) else None
        return (
            isinstance(func, ast.Name)
            and func.id in CALLING_BUILTINS
            and self.program.module.scope_of(func).lookup(func.id) is None
        )

    def _names(self, node: ast.AST) -> Iterator[str]:
        """The names that hold an expression, or something that it is a part of."""
        parents = self.program.module.parents
        above = parents.get(node)
        while above is not None:
            yield from _named_by(above, node)
            if isinstance(above, ast.stmt):
                return
            node, above = above, parents.get(above)


def kept_code(program: Program) -> KeptCode:
    """That of a program, made once."""
    return program.remembered(KeptCode, lambda: KeptCode(program))


def is_registered(function: Function) -> bool:
    """Whether a decorator gets the function that may keep it."""
    names = (
        dotted_name(one.func if isinstance(one, ast.Call) else one)
        for one in function.decorator_list
    )
    return any(
        (name or "").rpartition(".")[2] not in _PLAIN_DECORATORS
        and not (name or "").startswith("torch.")
        for name in names
    )


def _named_by(above: ast.AST, node: ast.AST) -> Iterator[str]:
    """The names that a node gives to what stands in it."""
    if isinstance(above, ast.keyword) and above.arg is not None:
        yield above.arg
    elif isinstance(above, ast.Dict):
        yield from (
            key.value
            for key, value in zip(above.keys, above.values, strict=True)
            if value is node
            and isinstance(key, ast.Constant)
            and isinstance(key.value, str)
        )
    elif isinstance(above, ast.Call) and _sets_attribute(above):
        yield str(above.args[1].value)  # type: ignore[attr-defined]
    elif isinstance(above, (ast.Assign, ast.AnnAssign)):
        targets = (
            above.targets if isinstance(above, ast.Assign) else [above.target]
        )
        yield from (
            one.attr if isinstance(one, ast.Attribute) else one.id
            for one in targets
            if isinstance(one, (ast.Attribute, ast.Name))
        )
    elif isinstance(above, ast.arguments):
        yield from _defaulted(above, node)


def _sets_attribute(call: ast.Call) -> bool:
    """`setattr(self, "criterion", loss)`"""
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == "setattr"
        and len(call.args) > 1
        and isinstance(call.args[1], ast.Constant)
    )


def _defaulted(
    arguments: ast.arguments,
    default: ast.AST,
) -> Iterator[str]:
    """The parameters that a default is for."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from (one.arg for one, given in pairs if given is default)
