"""Where a module names library things: one index by canonical name, so that rules ask instead of
walking.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    LOOPS,
    Binding,
    Module,
    Scope,
)
from amp_migrate.patterns import pattern
from amp_migrate.records import NamedTuple

# Heads of the names that rules ask about; the rest of a module's names is never looked up.
_HEADS = ("torch", "apex")
# `TORCH_2_4`, `is_torch_greater_or_equal`, `torch_ge_24`, `HAS_AMP`, `__version__`
_ABOUT_VERSIONS = pattern(
    r"(?i)version|^_*has_|(torch|pt)_*(\d|ge|gt|lt|le|greater|less|min"
    r"|newer|older)|^_*is_(torch|pt)"
)


class Use(NamedTuple):
    """One place where a library name is written in full, and the scope that evaluates it."""

    name: str
    """Canonical: `torch.cuda.amp.autocast`."""
    node: ast.Attribute | ast.Name
    scope: Scope
    call: ast.Call | None
    """The call of it, where it is called."""


class Uses:
    """Every use of a name of torch or apex in one module, in source order."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known = {
            local: self._is_ours(origin)
            for local, origin in module.imports.names.items()
        }
        self._all = tuple(
            sorted(
                self._find(),
                key=lambda use: (use.node.lineno, use.node.col_offset),
            )
        )

    def _is_ours(self, origin: str) -> bool:
        """Whether a dotted name begins with a library that counts here."""
        return origin.partition(".")[0] in _HEADS

    def _find(self) -> Iterator[Use]:
        parents = self.module.parents
        stars = bool(self.module.imports.stars)
        for node in parents:
            if not isinstance(node, ast.Name) or not isinstance(
                node.ctx, ast.Load
            ):
                continue
            if not (
                self._known.get(node.id)
                or (stars and node.id not in self._known)
            ):
                continue
            whole: ast.Attribute | ast.Name = node
            while isinstance(above := parents[whole], ast.Attribute):
                whole = above
            use = self._use(whole, node)
            if use is not None:
                yield use

    def _use(
        self, whole: ast.Attribute | ast.Name, root: ast.Name
    ) -> Use | None:
        """A name of a library with the call around it; None for names of the project."""
        name = self.module.canonical(whole)
        if name is None or not self._is_ours(name):
            return None
        scope = self.module.scope_of(whole)
        home = scope.lookup(root.id)
        if home is not None and not self._is_import(home.bindings[root.id]):
            return None
        above = self.module.parents[whole]
        call = (
            above
            if isinstance(above, ast.Call) and above.func is whole
            else None
        )
        return Use(name, whole, scope, call)

    def _is_import(self, bindings: list[Binding]) -> bool:
        """Whether a name is imported, but for what stands in for it where the import fails."""
        imports = [one.statement for one in bindings if one.how == "import"]
        return all(
            one.how == "import" or self._stands_in(one.statement, imports)
            for one in bindings
        )

    def _stands_in(self, statement: ast.AST, imports: list[ast.AST]) -> bool:
        """Whether a handler of the `try` that holds one of the imports holds the statement."""
        above = self.module.parents.get(statement)
        around = (
            self.module.parents.get(above)
            if isinstance(above, ast.ExceptHandler)
            else None
        )
        return isinstance(around, ast.Try) and any(
            one in around.body for one in imports
        )

    def all(self) -> tuple[Use, ...]:
        """Every use."""
        return self._all

    def where(self, wanted: Callable[[str], bool]) -> Iterator[Use]:
        """The uses of names for which `wanted` is true."""
        return (use for use in self._all if wanted(use.name))

    def of(self, *names: str) -> Iterator[Use]:
        """The uses of exactly these names."""
        return (use for use in self._all if use.name in names)

    def calls(self, *names: str) -> Iterator[tuple[ast.Call, Scope]]:
        """The calls of exactly these names."""
        return (
            (use.call, use.scope)
            for use in self.of(*names)
            if use.call is not None
        )

    def is_guarded(self, node: ast.AST) -> bool:
        """Whether the program has asked first where `node` stands: under `try`, `hasattr` or a
        test of a version.
        """
        inner = node
        for above in self.module.ancestors(node):
            if isinstance(above, ast.Try) and any(
                _catches(handler) for handler in above.handlers
            ):
                return True
            if (
                isinstance(above, (ast.If, ast.IfExp))
                and inner is not above.test
                and _asks(above.test)
            ):
                return True
            inner = above
        return False

    def is_shimmed(self, use: Use) -> bool:
        """Whether the name at the head of `use` is imported where the program has asked first."""
        root: ast.expr = use.node
        while isinstance(root, ast.Attribute):
            root = root.value
        assert isinstance(root, ast.Name)
        home = use.scope.lookup(root.id)
        statements = (
            [binding.statement for binding in home.bindings[root.id]]
            if home is not None
            else []
        )
        return any(self.is_guarded(statement) for statement in statements)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for things that are not installed."""
    if handler.type is None:
        return True
    names = {
        node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)
    }
    return bool(
        names
        & {
            "ImportError",
            "ModuleNotFoundError",
            "AttributeError",
            "Exception",
            "TypeError",
            "BaseException",
        }
    )


def _asks(test: ast.expr) -> bool:
    """Whether a test is about what is installed: a version, `hasattr`, an availability flag."""
    for node in ast.walk(test):
        name = (
            node.attr
            if isinstance(node, ast.Attribute)
            else node.id
            if isinstance(node, ast.Name)
            else ""
        )
        text = (
            node.value.lower()
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            else ""
        )
        if name == "hasattr" or "torch" in text or _ABOUT_VERSIONS.search(name):
            return True
    return False


def argument_of(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """What a library call gets by keyword `name` or at `position`."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    before = call.args[: position + 1]
    if position < len(call.args) and not any(
        isinstance(one, ast.Starred) for one in before
    ):
        return call.args[position]
    return None


def in_loop(module: Module, node: ast.AST) -> bool:
    """Whether a loop of the same scope runs `node` again and again."""
    for above in module.ancestors(node):
        if isinstance(above, LOOPS):
            return True
        if isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            return False
    return False


def viewed(module: Module, expr: ast.expr, views: Collection[str]) -> ast.expr:
    """The widest of `fake`, `fake.detach()` and `fake.detach()[0]` around `expr`."""
    while True:
        parent = module.parents[expr]
        if isinstance(parent, ast.Subscript) and parent.value is expr:
            expr = parent
        elif isinstance(parent, ast.Attribute) and parent.attr in views:
            called = module.parents[parent]
            expr = (
                called
                if isinstance(called, ast.Call) and called.func is parent
                else parent
            )
        else:
            return expr
