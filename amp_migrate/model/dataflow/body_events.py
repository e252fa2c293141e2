"""What the header of one statement does to names, in the order of evaluation: reads, bindings,
deletions and calls of methods of the same object.

A header is what a statement evaluates itself: the test of an `if`, the iterable of a `for`, the
whole of an assignment. The statements in its blocks have headers of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.child_nodes import children
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Module, Scope
from amp_migrate.records import NamedTuple

_FIELDS_OF_BLOCKS = frozenset(
    {"body", "orelse", "finalbody", "handlers", "cases"}
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_WITHOUT_PARTS = frozenset({ast.Constant, ast.Lambda})


class Read(NamedTuple):
    """A dotted name is read; where that runs on every path, it was bound."""

    key: str


class Bind(NamedTuple):
    """A dotted name gets a value."""

    key: str
    binding: Binding
    always: bool = True


class Unbind(NamedTuple):
    """A dotted name is deleted."""

    key: str


class Invoke(NamedTuple):
    """A method of the same object is called: `self.m()`, `super().m()`, `Base.m(self)`."""

    call: ast.Call


Event = Read | Bind | Unbind | Invoke


class Events:
    """The events of the statements of one module; bindings are those that its scopes hold."""

    def __init__(self, module: Module) -> None:
        self._bound: dict[ast.AST, list[tuple[str, Binding]]] = {}
        for scope in module.scopes.values():
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    self._bound.setdefault(binding.statement, []).append(
                        (name, binding)
                    )

    @cached_property
    def comprehended(self) -> frozenset[str]:
        """The names that comprehensions bind."""
        own = (
            found
            for node, found in self._bound.items()
            if isinstance(node, ast.comprehension)
        )
        return frozenset(name for found in own for name, _ in found)

    def bindings_at(self, node: ast.AST) -> list[tuple[str, Binding]]:
        """The names that a statement, handler, comprehension or walrus binds."""
        return self._bound.get(node, [])

    def header(self, statement: ast.stmt, self_name: str | None) -> list[Event]:
        """The events of a statement's own expressions, then of what it binds.

        The target of a `for` and the name of an `except` are bound where their blocks begin, so
        they are left out here.
        """
        found: list[Event] = []
        for expr in _evaluated(statement):
            found += self.expression(expr, self_name)
        if isinstance(statement, ast.Delete):
            return found + [
                Unbind(key)
                for t in statement.targets
                if (key := _key(t, self_name))
            ]
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                found += self.bound(item, self_name)
        if not isinstance(statement, (ast.For, ast.AsyncFor)):
            found += self.bound(statement, self_name)
        return found

    def bound(self, node: ast.AST, self_name: str | None) -> list[Event]:
        """What `node` binds, attributes of any depth included."""
        found: list[Event] = [
            Bind(name, binding) for name, binding in self.bindings_at(node)
        ]
        for target, value in _targets(node):
            key = _key(target, self_name)
            if (
                isinstance(target, ast.Attribute)
                and key is not None
                and key.count(".") > 1
            ):
                found.append(Bind(key, Binding(node, value, "assign")))
        return found

    def expression(self, expr: ast.expr, self_name: str | None) -> list[Event]:
        """Reads that always run, bindings by `:=`, and calls of methods of the same object."""
        found: list[Event] = []
        stack: list[tuple[ast.AST, bool]] = [(expr, True)]
        while stack:
            node, always = stack.pop()
            if type(node) in _WITHOUT_PARTS:
                continue
            if isinstance(node, (ast.Name, ast.Attribute)):
                if always and isinstance(node.ctx, ast.Load):
                    key = _key(node, self_name)
                    found += [Read(key)] if key is not None else []
                if type(node) is ast.Attribute:
                    stack.append((node.value, always))
                continue
            if isinstance(node, ast.NamedExpr):
                found += [Bind(n, b, always) for n, b in self.bindings_at(node)]
            elif isinstance(node, ast.Call) and is_of_same_object(
                node, self_name
            ):
                found.append(Invoke(node))
            stack += reversed(_parts(node, always))
        return found


def _evaluated(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a header, values before targets."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        yield from statement.decorator_list
        if isinstance(statement, ast.ClassDef):
            yield from statement.bases
        else:
            yield from statement.args.defaults
            yield from (d for d in statement.args.kw_defaults if d is not None)
        return
    value = getattr(statement, "value", None)
    if isinstance(value, ast.expr):
        yield value
    for name, field in ast.iter_fields(statement):
        if name in _FIELDS_OF_BLOCKS or name in ("value", "annotation"):
            continue
        for node in field if isinstance(field, list) else [field]:
            if isinstance(node, ast.withitem):
                yield node.context_expr
            elif isinstance(node, ast.expr):
                yield node
    if isinstance(statement, ast.AugAssign):
        yield _as_read(statement.target)


def _as_read(target: ast.expr) -> ast.expr:
    """`x += 1` reads `x` first."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return target


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, None


def _parts(node: ast.AST, always: bool) -> list[tuple[ast.AST, bool]]:
    """What is evaluated inside an expression, and whether it always is."""
    if isinstance(node, ast.BoolOp):
        return [
            (node.values[0], always),
            *((value, False) for value in node.values[1:]),
        ]
    if isinstance(node, ast.IfExp):
        return [(node.test, always), (node.body, False), (node.orelse, False)]
    if isinstance(node, _COMPREHENSIONS):
        return [
            (node.generators[0].iter, always),
            *((part, False) for part in children(node)),
        ]
    return [(child, always) for child in children(node)]


def _key(expr: ast.expr, self_name: str | None) -> str | None:
    dotted = dotted_name(expr)
    return normal_key(dotted, self_name) if dotted is not None else None


def normal_key(dotted: str, self_name: str | None) -> str:
    """A dotted name with `self` for the first parameter of a method, whatever it is called."""
    head, dot, rest = dotted.partition(".")
    return f"self.{rest}" if dot and head == self_name else dotted


def is_of_same_object(call: ast.Call, self_name: str | None) -> bool:
    """Whether a call runs a method of the object that the body belongs to."""
    if self_name is None or not isinstance(call.func, ast.Attribute):
        return False
    holder = call.func.value
    if (
        isinstance(holder, ast.Name)
        and holder.id == self_name
        or is_super(holder)
    ):
        return True
    first = call.args[0] if call.args else None
    return (
        isinstance(first, ast.Name)
        and first.id == self_name
        and dotted_name(holder) is not None
    )


def is_super(expr: ast.expr) -> bool:
    """Whether an expression is `super(...)`."""
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Name)
        and (expr.func.id == "super")
    )


def parameters_of(scope: Scope) -> list[ast.arg]:
    """All parameters, `*args` and `**kwargs` included."""
    if not isinstance(scope.node, FUNCTIONS):
        return []
    extra = (scope.node.args.vararg, scope.node.args.kwarg)
    return [
        *scope.parameters(),
        *(argument for argument in extra if argument is not None),
    ]


def locals_of(scope: Scope) -> tuple[frozenset[str], dict[str, list[Binding]]]:
    """The names that the body binds itself, and their bindings but for parameters."""
    if isinstance(scope.node, ast.ClassDef):
        return frozenset(), {}
    bound = {
        name: [
            b
            for b in bindings
            if not isinstance(b.statement, ast.comprehension)
        ]
        for name, bindings in scope.bindings.items()
        if "." not in name and name not in scope.outer
    }
    rebound = {
        n: [b for b in bs if b.how != "parameter"] for n, bs in bound.items()
    }
    return (
        frozenset(name for name, bindings in bound.items() if bindings),
        {name: bindings for name, bindings in rebound.items() if bindings},
    )


def truth_of(test: ast.expr) -> bool | None:
    """Whether a test always holds or never does; None where that depends."""
    return bool(test.value) if isinstance(test, ast.Constant) else None


def is_irrefutable(pattern: ast.pattern) -> bool:
    """Whether a pattern of `match` fits everything."""
    if isinstance(pattern, ast.MatchOr):
        return is_irrefutable(pattern.patterns[-1])
    return isinstance(pattern, ast.MatchAs) and (
        pattern.pattern is None or is_irrefutable(pattern.pattern)
    )


def reads_ahead(
    coming: Iterable[tuple[ast.stmt, list[Event]]], key: str
) -> bool:
    """Whether one of the statements reads `key` in any case, with nothing before it that binds the
    name, or may leave the block.
    """
    for statement, events in coming:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return False  # its context may be new itself
        names = [
            event.key for event in events if isinstance(event, (Bind, Unbind))
        ]
        if any(
            isinstance(event, Read) and event.key == key for event in events
        ):
            return True
        if any(key == name or key.startswith(f"{name}.") for name in names):
            return False
        if not isinstance(
            statement, (ast.Assign, ast.Expr, ast.AugAssign, ast.AnnAssign)
        ):
            return False
    return False
