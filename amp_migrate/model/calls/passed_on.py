"""Calls in a body as its callers would write them: `super().__init__(net, *args, **kwargs)`
with what one caller has given for `net` and for the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in


class Passed:
    """What one call passes for each parameter of a function."""

    def __init__(
        self, call: ast.Call, inner: Scope, bound: bool = False
    ) -> None:
        """`inner`: the body that `call` runs; `bound`: whether its first parameter is given by
        what the call is asked of.
        """
        assert isinstance(inner.node, FUNCTIONS)
        self._inner = inner
        self._names = [one.arg for one in inner.parameters()]
        given = inner.node.args
        first = 1 if bound else 0
        placed = [*given.posonlyargs, *given.args][first:]
        sure = _before_star(call.args)
        self.values: dict[str, ast.expr] = dict(
            zip((one.arg for one in placed), sure, strict=False)
        )
        named = [one for one in call.keywords if one.arg is not None]
        self.values |= {
            one.arg: one.value for one in named if one.arg in self._names
        }
        is_open = len(sure) < min(len(placed), len(call.args))
        self._rest = [_star()] if is_open else call.args[len(placed) :]
        self._more = [
            one for one in call.keywords if one.arg not in self._names
        ]
        self._is_whole = len(sure) == len(call.args) and all(
            one.arg is not None for one in call.keywords
        )
        self._vararg = given.vararg.arg if given.vararg is not None else None
        self._kwarg = given.kwarg.arg if given.kwarg is not None else None

    def positional(self, call: ast.Call) -> list[ast.expr]:
        """The positional arguments of a call in the body, as the caller wrote them; a star where
        nothing tells what is there.
        """
        found: list[ast.expr] = []
        for one in call.args:
            if isinstance(one, ast.Starred):
                is_rest = _is(one.value, self._vararg)
                found += self._rest if is_rest else [_star()]
            else:
                found.append(self._outside(one))
        return found

    def keywords(self, call: ast.Call) -> list[ast.keyword]:
        """The same of its keywords; what it names itself comes first."""
        found: list[ast.keyword] = []
        more: list[ast.keyword] = []
        for one in call.keywords:
            if one.arg is not None:
                found.append(ast.keyword(one.arg, self._outside(one.value)))
            elif _is(one.value, self._kwarg):
                more += self._more
        return [*found, *more]

    def _outside(self, expr: ast.expr) -> ast.expr:
        if isinstance(expr, ast.Constant):
            return expr
        if not isinstance(expr, ast.Name) or expr.id not in self._names:
            return unknown()
        bound = [one.how for one in self._inner.bindings.get(expr.id, ())]
        found = self.values.get(expr.id)
        if found is None and self._is_whole:
            found = self._default(expr.id)
        return found if found is not None and len(bound) == 1 else unknown()

    def _default(self, name: str) -> ast.expr | None:
        assert isinstance(self._inner.node, FUNCTIONS)
        found = default_of(self._inner.node, name)
        return found if isinstance(found, ast.Constant) else None


def passes_rest_on(call: ast.Call, scope: Scope) -> bool:
    """Whether a call in a body hands on `*args` or `**kwargs` of this body, which nothing else in
    it may change, and for the rest what its callers have given.
    """
    assert isinstance(scope.node, FUNCTIONS)
    given = scope.node.args
    rest = {one.arg for one in (given.vararg, given.kwarg) if one is not None}
    stars = [one.value for one in call.args if isinstance(one, ast.Starred)]
    stars += [one.value for one in call.keywords if one.arg is None]
    own = {one.arg for one in scope.parameters()}
    plain = [one for one in call.args if not isinstance(one, ast.Starred)]
    plain += [one.value for one in call.keywords if one.arg is not None]
    return (
        bool(stars)
        and all(isinstance(one, ast.Name) and one.id in rest for one in stars)
        and all(
            isinstance(one, ast.Constant)
            or (isinstance(one, ast.Name) and one.id in own - rest)
            for one in plain
        )
        and not _may_change(scope, rest)
    )


def _may_change(scope: Scope, names: set[str]) -> bool:
    """Whether a body does more with some of its names than hand them on, starred, or read a key."""
    return any(
        isinstance(node, ast.Name) and node.id in names
        for node in _other_uses(scope)
    )


def options_are_told(call: ast.Call, scope: Scope) -> bool:
    """Whether what a call spreads is a mapping that its body makes key by key, and which nothing
    else in it changes: `run(**options)` of `options = {"rate": 0.1}`.
    """
    spread = [one.value for one in call.keywords if one.arg is None]
    names = {one.id for one in spread if isinstance(one, ast.Name)}
    if len(names) < len(spread):
        return False
    bindings = [b for name in names for b in scope.bindings.get(name, ())]
    made = [one.value for one in bindings if one.how == "assign"]
    told = len(made) == len(bindings) == len(names) and all(map(_told, made))
    return told and not any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in names
        for node in _other_uses(scope)
    )


def _told(made: ast.expr | None) -> bool:
    """`{"a": 1}`, `dict(a=1)`"""
    if isinstance(made, ast.Dict):
        return None not in made.keys
    is_dict = (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Name)
        and made.func.id == "dict"
    )
    return (
        is_dict
        and isinstance(made, ast.Call)
        and (
            not made.args and all(one.arg is not None for one in made.keywords)
        )
    )


def _other_uses(scope: Scope) -> Iterator[ast.AST]:
    """What a body holds, without what is only read where it stands."""
    nodes = list(nodes_in(scope.node))
    kept = {id(one) for node in nodes for one in _only_read(node)}
    return (node for node in nodes if id(node) not in kept)


def _only_read(node: ast.AST) -> list[ast.expr]:
    """What a node reads and leaves as it is: `*args`, `**kwargs`, `kwargs["lr"]`,
    `kwargs.get("lr")`, `"lr" in kwargs`.
    """
    if isinstance(node, ast.Starred) or (
        isinstance(node, ast.keyword) and node.arg is None
    ):
        return [node.value]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.value]
    if isinstance(node, ast.Compare):
        return node.comparators
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return [node.func.value] if node.func.attr == "get" else []
    return []


def unknown() -> ast.Name:
    """An argument that says nothing."""
    return ast.Name("", ast.Load())


def _star() -> ast.Starred:
    """Any number of them."""
    return ast.Starred(unknown(), ast.Load())


def _before_star(args: list[ast.expr]) -> list[ast.expr]:
    """The arguments whose places are known."""
    stars = [
        place for place, one in enumerate(args) if isinstance(one, ast.Starred)
    ]
    return args[: stars[0]] if stars else args


def _is(expr: ast.expr, name: str | None) -> bool:
    return isinstance(expr, ast.Name) and expr.id == name
