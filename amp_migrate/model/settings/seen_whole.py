"""Whether a program goes by all entries of a configuration, where one more would be one too many:
`Net(**vars(args))`, `keys = list(config)`, `lr, layers = astuple(cfg)`, `locals()`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.settings.configurations import Configuration
from amp_migrate.model.syntax.displays import Displays
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.model.syntax.queries import nodes_in

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_VIEWS = frozenset(
    ("vars", "asdict", "astuple", "_asdict", "to_dict", "model_dump")
)
"""Functions that give all of a configuration."""
_ITEMS = frozenset(("items", "keys", "values"))
_LISTS = frozenset(
    ("sorted", "list", "tuple", "set", "enumerate", "reversed", "iter")
)
_TELLS = frozenset(
    (
        *("print", "str", "repr", "format", "vars", "isinstance", "type"),
        *("id", "bool", "hasattr", "getattr", "setattr", "callable"),
    )
)
"""Builtins that say nothing about single entries."""
_SOME = frozenset(("get", "update", "pop", "setdefault"))
_DICT = frozenset(dir(dict)) - _SOME


def is_seen_whole(program: Program, configuration: Configuration) -> bool:
    """Whether one more option would break what takes all of them."""
    home = configuration.home
    if configuration.kind == "click":
        assert isinstance(home, FUNCTIONS)
        return _hands_parameters_on(home)
    if isinstance(home, ast.Dict):
        return _Uses(program, (home,), is_view=False).are_whole()
    return _Uses(program, list(_views(program)), is_view=True).are_whole()


def _hands_parameters_on(function: Function) -> bool:
    """`build(**locals())`, `ctx.forward(other)`, `ctx.params`."""
    passed = [
        one.arg for one in (*function.args.posonlyargs, *function.args.args)
    ]
    for node in nodes_in(function):
        if isinstance(node, ast.Call) and _last(node.func) == "locals":
            return True
        if isinstance(node, ast.Attribute) and node.attr in (
            "forward",
            "params",
        ):
            if passed and getattr(node.value, "id", None) == passed[0]:
                return True
    return False


def _views(program: Program) -> Iterator[ast.expr]:
    """`vars(args)`, `asdict(cfg)`, `args.__dict__`, and what functions return of them."""
    names = set(_VIEWS)
    nodes = list(program.module.parents)
    while True:
        found = [node for node in nodes if _is_view(node, names)]
        makers = {
            parent.name
            for one in found
            if isinstance(program.module.parents[one], ast.Return)
            for parent in program.module.ancestors(one)
            if isinstance(parent, FUNCTIONS)
        }
        if makers <= names:
            break
        names |= makers
    yield from (one for one in found if isinstance(one, ast.expr))


def _is_view(node: ast.AST, names: Collection[str]) -> bool:
    if isinstance(node, ast.Call):
        return _last(node.func) in names
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Uses:
    """What is done with some dicts, or with views of an object."""

    def __init__(
        self, program: Program, origins: Collection[ast.expr], *, is_view: bool
    ) -> None:
        self.program = program
        self.origins = frozenset(origins)
        self.is_view = is_view
        self.parents = program.module.parents

    def are_whole(self) -> bool:
        """Whether some use counts the entries, or goes through them."""
        if not self.origins:
            return False
        return any(
            self._is_whole(node) and self._may_be_one(node)
            for node in self.parents
            if isinstance(node, (ast.Name, ast.Attribute))
            or node in self.origins
        )

    def _may_be_one(self, node: ast.AST) -> bool:
        if node in self.origins:
            return True
        assert isinstance(node, ast.expr)
        name = dotted_name(node)
        if name is None or not isinstance(getattr(node, "ctx", None), ast.Load):
            return False
        known = Displays(self.program, self.origins).of(node, name)
        return not self.origins.isdisjoint(known.found)

    def _is_whole(self, node: ast.AST) -> bool:
        """Whether an expression stands where all entries count."""
        plain, node = node, self._listed(node)
        above = self.parents[node]
        if isinstance(above, ast.keyword) and above.arg is not None:
            above = self.parents[above]
        match above:
            case ast.For(iter=through) if through is node:
                return not self.is_view
            case ast.comprehension():
                return not (self.is_view and self._is_text(above))
            case ast.Call():
                return self._counts(above, node is not plain)
            case ast.Attribute():
                return above.attr in _DICT
            case ast.Subscript():
                key = above.slice
                return not (self.is_view or isinstance(key, ast.Constant))
            case ast.Assign():
                return node is not plain or not all(
                    map(self._can_be_followed, above.targets)
                )
            case ast.Return():
                return not self.is_view
            case ast.Dict():
                return node not in above.values or not (
                    self.is_view or isinstance(self.parents[above], ast.Call)
                )
            case ast.Compare():
                return not all(
                    isinstance(o, (ast.In, ast.NotIn)) for o in above.ops
                )
        return isinstance(above, _WHOLE)

    def _listed(self, node: ast.AST) -> ast.AST:
        """`sorted(vars(args).items())` around `vars(args)`."""
        above = self.parents[node]
        if isinstance(above, ast.Attribute) and above.attr in _ITEMS:
            call = self.parents[above]
            return self._listed(call) if isinstance(call, ast.Call) else node
        if isinstance(above, ast.Call) and node in above.args:
            if isinstance(above.func, ast.Name) and above.func.id in _LISTS:
                return self._listed(above)
        return node

    def _counts(self, call: ast.Call, is_listed: bool) -> bool:
        """Whether what is called with it, or with a list of it, counts entries."""
        last = _last(call.func)
        if (self.program.canonical(call.func) or "").startswith("copy."):
            return True
        if isinstance(call.func, ast.Name) and hasattr(builtins, last):
            return last not in _TELLS
        return is_listed and last != "join"

    def _is_text(self, through: ast.comprehension) -> bool:
        """`", ".join(f"{k}: {v}" for k, v in vars(args).items())`"""
        call = self.parents[self.parents[through]]
        return isinstance(call, ast.Call) and _last(call.func) in (
            "join",
            "print",
        )

    def _can_be_followed(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Subscript):
            return self.is_view
        return dotted_name(target) is not None


_WHOLE = (
    ast.keyword,
    ast.Starred,
    ast.BinOp,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.IfExp,
    ast.BoolOp,
    ast.NamedExpr,
    ast.Yield,
    ast.YieldFrom,
    ast.Lambda,
    ast.AugAssign,
)
