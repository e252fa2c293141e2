"""The options that a program declares for its command line, and the objects that hold them."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Module,
    Scope,
    returned,
)

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_PARSES = ("parse_args", "parse_known_args", "parse_intermixed_args")
_MOST = 200


def declares(module: Module, call: ast.Call, name: str) -> bool:
    """Whether `call` reads a command line for which the option `name` is declared."""
    return _parses(call) and name in options(module)


def _parses(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _PARSES


def option_of(
    program: Program, node: ast.expr | ast.stmt, dotted: str
) -> ast.Call | None:
    """The `add_argument` call behind `args.device` at `node`; None where `args` may be something
    else than a command line, or the option is not declared.
    """
    holder, _, name = dotted.rpartition(".")
    option = options(program.module).get(name)
    if (
        option is None
        or not holder
        or not Followed(program).only_options(node, holder)
    ):
        return None
    return option


class Followed:
    """Follows a name back to what made its object."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[Binding] = set()
        self.parsed: dict[ast.Call, None] = {}
        """The calls that read the command line."""

    def only_options(self, node: ast.expr | ast.stmt, holder: str) -> bool:
        """Whether every binding that may reach holds the options of a command line."""
        bindings = self.program.reaching.at(node, holder).bindings
        return bool(bindings) and all(
            self._made(binding) for binding in bindings
        )

    def _made(self, binding: Binding) -> bool:
        if binding in self.seen or len(self.seen) > _MOST:
            return True
        self.seen.add(binding)
        if binding.how == "parameter" and isinstance(
            binding.statement, ast.arg
        ):
            return self._passed(binding.statement)
        if binding.how == "import" or binding.value is None:
            return self._imported(binding)
        if binding.index is not None:
            first_of_known = isinstance(
                binding.value, ast.Call
            ) and self._reads(binding.value)
            return binding.index == 0 and first_of_known
        if binding.value not in self.program.module.parents:
            return False  # a base class in another file has set it
        scope = self.program.reaching.scope_at(binding.value)
        return self._value(binding.value, scope)

    def _value(self, value: ast.expr, scope: Scope) -> bool:
        dotted = dotted_name(value)
        if dotted is not None:
            return self.only_options(value, dotted)
        if not isinstance(value, ast.Call):
            return False
        if self._reads(value):
            return True
        function = self.program.values.callee(value, scope)
        values = returned(function) if function is not None else []
        inner = self.program.scope(function) if function is not None else scope
        return bool(values) and all(self._value(one, inner) for one in values)

    def _reads(self, call: ast.Call) -> bool:
        if not _parses(call):
            return False
        self.parsed[call] = None
        return True

    def _passed(self, parameter: ast.arg) -> bool:
        scope = self.program.module.scope_of(parameter)
        if not isinstance(scope.node, FUNCTIONS):
            return False
        sites = self.program.reaching.entry.sites(scope.node)
        given = [
            (argument(call, scope, parameter.arg, bound), s)
            for call, s, bound in sites
        ]
        return bool(given) and all(
            e is not None and self._value(e, s) for e, s in given
        )

    def _imported(self, binding: Binding) -> bool:
        """`from config import args`, in another file of the program."""
        if not isinstance(binding.statement, ast.ImportFrom):
            return False
        scope = self.program.module.scope_of(binding.statement)
        names = [
            alias.asname or alias.name for alias in binding.statement.names
        ]
        origins = [self.program.module.elsewhere(name, scope) for name in names]
        homes = [
            origin[0].bindings.get(origin[1], [])
            for origin in origins
            if origin is not None
        ]
        return (
            len(homes) == 1
            and bool(homes[0])
            and all(self._made(b) for b in homes[0])
        )


@lru_cache(
    maxsize=4
)  # asked for every attribute of a program; a few are alive at a time
def options(module: Module) -> dict[str, ast.Call]:
    """The `add_argument` calls that run on every path, by the attribute that each one makes; kept
    on the module, as they are asked for again and again.
    """
    known: dict[str, ast.Call] | None = module.__dict__.get("_options")
    if known is None:
        known = _declared(module)
        module.__dict__["_options"] = known
    return known


def _declared(module: Module) -> dict[str, ast.Call]:
    """The options that are declared whatever happens, by the attribute that holds them."""
    found: dict[str, ast.Call] = {}
    for scope in module.scopes.values():
        for call in scope.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "add_argument"
            ):
                name = _attribute(call)
                if name is not None and not _conditional(module, call):
                    found.setdefault(name, call)
    return found


def _attribute(call: ast.Call) -> str | None:
    """`--learning-rate` becomes `learning_rate`, by the rules of argparse."""
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    given = [
        a.value
        for a in call.args
        if isinstance(a, ast.Constant) and isinstance(a.value, str)
    ]
    if not given:
        return None
    long = next(
        (option for option in given if option.startswith("--")), given[0]
    )
    return long.lstrip("-").replace("-", "_")


def _conditional(module: Module, call: ast.Call) -> bool:
    """Whether a call stands under a condition, other than that of the main block."""
    around = module.ancestors(call)
    branches = (
        node
        for node in around
        if isinstance(node, (ast.If, ast.Try, ast.While, ast.Match))
    )
    return any(not _runs_as_script(node) for node in branches)


def _runs_as_script(node: ast.AST) -> bool:
    """`if __name__ == "__main__":`, without which no command line is read either."""
    test = node.test if isinstance(node, ast.If) else None
    return (
        isinstance(test, ast.Compare) and dotted_name(test.left) == "__name__"
    )
