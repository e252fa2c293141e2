"""The walk that fills a module's scopes: every binding of every name, once, in source order."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.naming.scopes import Binding, Scope, Stored
from amp_migrate.model.syntax.child_nodes import child_fields
from amp_migrate.model.syntax.nesting import DEEPEST

if TYPE_CHECKING:
    from amp_migrate.model.syntax.module import Module

_Waiting: TypeAlias = tuple[ast.AST, Scope, int]
"""A node to visit, the scope that evaluates it, and how deep it stands."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class ScopeBuilder:
    """Fills `parents`, `scopes`, `identifiers` and the bindings of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def build(self) -> None:
        """Visit the tree with a stack of its own, so that deep nesting costs no recursion.

        Raises RecursionError where it is nested more deeply than other analyses can bear.
        """
        stack: list[_Waiting] = [(self.module.tree, self.module.root, 0)]
        handlers = {
            getattr(ast, kind): getattr(self, name) for kind, name in _HANDLERS
        }
        identifiers = self.module.identifiers
        while stack:
            node, scope, depth = stack.pop()
            if type(node) is ast.Name:
                # Most nodes are names, which have no children.
                identifiers.add(node.id)
                continue
            handler = handlers.get(type(node))
            if handler is not None:
                handler(node, scope)
            children = self._children(node)
            if not children:
                continue
            if depth == DEEPEST:
                raise RecursionError("nested too deeply")
            stack += self._waiting(node, children, scope, depth + 1)

    def _waiting(
        self, node: ast.AST, children: list[ast.AST], scope: Scope, depth: int
    ) -> list[_Waiting]:
        """The children of a node, the last one first, each with the scope that evaluates it."""
        parents = self.module.parents
        for child in children:
            parents[child] = node
        children.reverse()
        if not isinstance(node, _SCOPES):
            return [(child, scope, depth) for child in children]
        inner, outside = self.module.scopes[node], _evaluated_outside(node)
        return [
            (child, scope if child in outside else inner, depth)
            for child in children
        ]

    def _children(self, node: ast.AST) -> list[ast.AST]:
        """Child nodes in source order, without contexts and operators; their blocks are noted on
        the way.
        """
        found: list[ast.AST] = []
        for name in child_fields(node):
            value = getattr(node, name, None)
            if isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    self.module.block_lists.update(dict.fromkeys(value, value))
                    found += value
                else:
                    found += [
                        child for child in value if isinstance(child, ast.AST)
                    ]
            elif isinstance(value, ast.AST):
                found.append(value)
        return found

    def _bind(
        self,
        scope: Scope,
        target: ast.expr,
        statement: ast.AST,
        value: ast.expr | None,
        how: str,
    ) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(scope, target, statement, value, how)
        elif isinstance(target, ast.Starred):
            self._bind(scope, target.value, statement, None, how)
        elif isinstance(target, ast.Name):
            self._add(scope, target.id, statement, value, how, None)
        elif isinstance(target, ast.Attribute) and isinstance(
            target.value, ast.Name
        ):
            self._bind_attribute(scope, target, statement, value, how, None)
        elif (
            isinstance(target, ast.Subscript)
            and value is not None
            and how == "assign"
        ):
            self._store(
                scope, target.value, Stored(statement, target.slice, value)
            )

    def _store(self, scope: Scope, holder: ast.expr, stored: Stored) -> None:
        home, name = scope, holder.id if isinstance(holder, ast.Name) else None
        if isinstance(holder, ast.Attribute) and isinstance(
            holder.value, ast.Name
        ):
            home, name = self._home_of(scope, holder)
        elif name is not None:
            home = self._declared(scope, name)
        if name is not None:
            home.stored.setdefault(name, []).append(stored)

    def _unpack(
        self,
        scope: Scope,
        target: ast.Tuple | ast.List,
        statement: ast.AST,
        value: ast.expr | None,
        how: str,
    ) -> None:
        elements = (
            value.elts
            if isinstance(value, (ast.Tuple, ast.List)) and how == "assign"
            else None
        )
        count, is_after_star = len(target.elts), False
        for place, element in enumerate(target.elts):
            # What stands after `*rest` is counted from the end.
            index = place - count if is_after_star else place
            is_after_star |= isinstance(element, ast.Starred)
            if elements is not None and len(elements) == count:
                self._bind(scope, element, statement, elements[index], how)
            elif isinstance(element, ast.Name):
                self._add(scope, element.id, statement, value, how, index)
            elif isinstance(element, ast.Attribute) and isinstance(
                element.value, ast.Name
            ):
                self._bind_attribute(
                    scope, element, statement, value, how, index
                )
            else:
                part = _gone_through(value, index) if how == "for" else None
                self._bind(scope, element, statement, part, how)

    def _add(
        self,
        scope: Scope,
        name: str,
        statement: ast.AST,
        value: ast.expr | None,
        how: str,
        index: int | None,
    ) -> None:
        home = self._declared(scope, name)
        home.bindings.setdefault(name, []).append(
            Binding(statement, value, how, index)
        )

    def _declared(self, scope: Scope, name: str) -> Scope:
        """The scope that a name assigned in `scope` belongs to."""
        while name in scope.outer and scope.parent is not None:
            scope = scope.parent
        return scope

    def _bind_attribute(
        self,
        scope: Scope,
        target: ast.Attribute,
        statement: ast.AST,
        value: ast.expr | None,
        how: str,
        index: int | None,
    ) -> None:
        home, name = self._home_of(scope, target)
        self._add(home, name, statement, value, how, index)

    def _home_of(
        self, scope: Scope, target: ast.Attribute
    ) -> tuple[Scope, str]:
        """`self.x` is kept in the class under `self.x`; other attributes are kept where they are
        set, as `a.x`.
        """
        assert isinstance(target.value, ast.Name)
        method: Scope | None = scope
        while method is not None and method.self_name != target.value.id:
            method = method.parent
        if method is not None and method.owner is not None:
            return method.owner, f"self.{target.attr}"
        return scope, f"{target.value.id}.{target.attr}"

    def _on_Import(self, node: ast.Import, scope: Scope) -> None:
        self.module.import_statements.append(node)
        for alias in node.names:
            self._add(
                scope,
                alias.asname or alias.name.partition(".")[0],
                node,
                None,
                "import",
                None,
            )

    def _on_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.module.import_statements.append(node)
        for alias in node.names:
            self._add(
                scope, alias.asname or alias.name, node, None, "import", None
            )

    def _on_FunctionDef(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope
    ) -> None:
        self._add(scope, node.name, node, None, "def", None)
        self._open(node, scope, node.name)

    _on_AsyncFunctionDef = _on_FunctionDef

    def _on_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        self._add(scope, node.name, node, None, "def", None)
        self._open(node, scope, node.name)

    def _on_Lambda(self, node: ast.Lambda, scope: Scope) -> None:
        self._open(node, scope, "<lambda>")

    def _open(
        self,
        node: ast.FunctionDef
        | ast.AsyncFunctionDef
        | ast.ClassDef
        | ast.Lambda,
        scope: Scope,
        name: str,
    ) -> None:
        prefix = "" if scope.parent is None else f"{scope.qualname}."
        inner = Scope(node, scope, self.module, prefix + name)
        self.module.scopes[node] = inner
        self.module.identifiers.add(name)
        if not isinstance(node, ast.ClassDef):
            for argument in [
                *inner.parameters(),
                node.args.vararg,
                node.args.kwarg,
            ]:
                if argument is not None:
                    self.module.identifiers.add(argument.arg)
                    self._add(
                        inner, argument.arg, argument, None, "parameter", None
                    )

    def _on_Global(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        scope.outer.update(node.names)

    _on_Nonlocal = _on_Global

    def _on_Assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self._bind(scope, target, node, node.value, "assign")

    def _on_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self._bind(scope, node.target, node, node.value, "assign")

    def _on_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        self._bind(scope, node.target, node, node.value, "augmented")

    def _on_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._bind(scope, node.target, node, node.value, "walrus")

    def _on_For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._bind(scope, node.target, node, node.iter, "for")

    _on_AsyncFor = _on_For

    def _on_comprehension(self, node: ast.comprehension, scope: Scope) -> None:
        self._bind(scope, node.target, node, node.iter, "for")

    def _on_withitem(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self._bind(
                scope, node.optional_vars, node, node.context_expr, "with"
            )

    def _on_ExceptHandler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            self._add(scope, node.name, node, None, "except", None)

    def _on_MatchAs(
        self, node: ast.MatchAs | ast.MatchStar, scope: Scope
    ) -> None:
        if node.name:
            self._add(scope, node.name, node, None, "match", None)

    _on_MatchStar = _on_MatchAs

    def _on_MatchMapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest:
            self._add(scope, node.rest, node, None, "match", None)

    def _on_Call(self, node: ast.Call, scope: Scope) -> None:
        scope.calls.append(node)
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "append"
            and len(node.args) == 1
        ):
            self._store(scope, func.value, Stored(node, None, node.args[0]))

    def _on_Expr(self, node: ast.Expr, scope: Scope) -> None:
        """`self.add_module("head", head)` sets an attribute as `self.head = head` does."""
        found = _set_by_call(node.value)
        if found is not None:
            target, value = found
            self._bind(scope, target, node, value, "assign")

    def _on_Attribute(self, node: ast.Attribute, scope: Scope) -> None:
        self.module.identifiers.add(node.attr)

    def _on_keyword(self, node: ast.keyword, scope: Scope) -> None:
        if node.arg:
            self.module.identifiers.add(node.arg)


def _set_by_call(call: ast.expr) -> tuple[ast.Attribute, ast.expr] | None:
    """The attribute that `x.add_module("name", value)` or `setattr(x, "name", value)` sets, and
    the value.
    """
    if not isinstance(call, ast.Call) or call.keywords:
        return None
    func, given = call.func, call.args
    if isinstance(func, ast.Attribute) and func.attr in (
        "add_module",
        "register_module",
    ):
        given = [func.value, *given]
    elif not (isinstance(func, ast.Name) and func.id == "setattr"):
        return None
    if len(given) != 3 or not isinstance(given[1], ast.Constant):
        return None
    name = given[1].value
    is_name = isinstance(name, str) and name.isidentifier()
    return (
        (ast.Attribute(given[0], str(name), ast.Store()), given[2])
        if is_name
        else None
    )


_HANDLERS = tuple(
    (name.removeprefix("_on_"), name)
    for name in vars(ScopeBuilder)
    if name.startswith("_on_")
)


def _gone_through(value: ast.expr | None, index: int) -> ast.expr | None:
    """What a tuple within a loop's target goes through: `pairs` of `for i, (x, y) in
    enumerate(pairs)`, `left` of `for (a, b), c in zip(left, right)`.
    """
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return None
    if any(isinstance(one, ast.Starred) for one in value.args):
        return None
    if value.func.id == "enumerate" and index == 1 and value.args:
        return value.args[0]
    if value.func.id == "zip" and index < len(value.args):
        return value.args[index]
    return None


def _evaluated_outside(node: ast.AST) -> set[ast.AST]:
    """Decorators, defaults, annotations and bases belong to the scope around a definition."""
    if isinstance(node, ast.ClassDef):
        return {*node.decorator_list, *node.bases, *node.keywords}
    outside: set[ast.AST] = set(getattr(node, "decorator_list", ()))
    returns = getattr(node, "returns", None)
    return outside | ({returns} if returns is not None else set())
