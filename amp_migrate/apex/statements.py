"""Statements without apex: the plain float32 program that an apex program stands for."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from amp_migrate.apex.branches import Branches
from amp_migrate.apex.expressions import Expressions
from amp_migrate.apex.initialize import Initialize, assigned
from amp_migrate.apex.names import ApexNames, imports_apex, is_apex, is_guard
from amp_migrate.apex.replacements import registers_half
from amp_migrate.apex.result import (
    Result,
    edits_of,
    flattened,
    gone,
    kept,
    plain_of,
)
from amp_migrate.apex.scaled_loss import ScaledLosses
from amp_migrate.model.syntax.module import Module
from amp_migrate.rewrite.edits import Edit, Template


@dataclass
class Seen:
    """What the walk met."""

    initialized: list[tuple[Initialize, ast.stmt]] = field(default_factory=list)
    scaled: list[ast.With] = field(default_factory=list)
    merged: set[ast.expr] = field(default_factory=set)
    """Conditions whose branches have become the same."""
    gone: list[ast.stmt] = field(default_factory=list)
    """Statements of which nothing is left."""


@dataclass(frozen=True)
class Needed:
    """Names of imports and flags that something is left of, as far as known."""

    imports: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


class Statements:
    """Walks the blocks of one module."""

    def __init__(
        self,
        module: Module,
        names: ApexNames,
        expressions: Expressions,
        needed: Needed,
    ) -> None:
        self.module = module
        self.names = names
        self.expressions = expressions
        self.needed = needed
        self.seen = Seen()
        self.branches = Branches(self)
        self.scaled_losses = ScaledLosses(self)

    def block(self, statements: Iterable[ast.stmt]) -> list[Result]:
        """Each statement of a block."""
        return [self.statement(s) for s in statements]

    def statement(self, node: ast.stmt) -> Result:
        """One statement."""
        result = self._statement(node)
        if result.replaced and not result.templates:
            self.seen.gone.append(node)
        return result

    def _statement(self, node: ast.stmt) -> Result:
        match node:
            case ast.Import() | ast.ImportFrom() if imports_apex(node):
                return self._import(node)
            case ast.Try() if is_guard(node):
                return self._guard(node)
            case ast.If():
                return self.branches.chain(node)
            case ast.With(items=[item]) if self.is_call_of(
                item.context_expr, "scale_loss"
            ):
                return self.scaled_losses.flat(node)
            case ast.Assign():
                return self._assign(node)
            case ast.Expr(value=ast.Call() as call):
                return self._call(node, call)
            case ast.Global(names=listed) | ast.Nonlocal(names=listed):
                return self._declared(node, listed)
            case ast.Assert(test=test) if self.expressions.truth(test) is True:
                return gone(self._span(node))
        return self.generic(node)

    def _span(self, node: ast.stmt | ast.expr) -> Any:
        return self.module.span(node)

    def is_call_of(self, expr: ast.expr, name: str) -> bool:
        """Whether it calls `amp.NAME`."""
        return (
            isinstance(expr, ast.Call)
            and self.names.canonical(expr.func) == f"apex.amp.{name}"
        )

    def generic(self, node: ast.stmt) -> Result:
        """A statement of no special form: its expressions and its blocks."""
        edits: list[Edit] = []
        return kept(self._span(node), self._rebuilt(node, edits), edits)

    def _rebuilt(self, node: Any, edits: list[Edit]) -> Any:
        """The node with edited fields, at the same place."""
        fields = {
            name: self._field(getattr(node, name, None), edits)
            for name in node._fields
        }
        return ast.copy_location(type(node)(**fields), node)

    def _field(self, value: Any, edits: list[Edit]) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            results = self.block(value)
            edits += edits_of(results)
            return list(plain_of(results)) or [ast.Pass()]
        if (
            isinstance(value, list)
            and value
            and isinstance(value[0], (ast.ExceptHandler, ast.match_case))
        ):
            return [self._rebuilt(item, edits) for item in value]
        if isinstance(value, ast.AST):
            return self.expressions.copy(value, edits)
        if isinstance(value, list):
            return [self._field(item, edits) for item in value]
        return value

    # imports

    def _import(self, node: ast.Import | ast.ImportFrom) -> Result:
        if isinstance(node, ast.Import):
            stays = [
                a
                for a in node.names
                if not is_apex(a.name)
                or (a.asname or "apex") in self.needed.imports
            ]
            return (
                self._written(
                    node, ast.Import(stays), f"import {_listed(stays)}"
                )
                if stays
                else gone(self._span(node))
            )
        lines: list[tuple[str, list[ast.alias]]] = []
        for alias in node.names:
            module = self._new_home(
                f"{node.module}.{alias.name}", node.module or ""
            )
            if (alias.asname or alias.name) in self.needed.imports:
                if not lines or lines[-1][0] != module:
                    lines.append((module, []))
                lines[-1][1].append(alias)
        if lines == [(node.module, node.names)]:
            return self.generic(node)
        texts = tuple(
            Template(f"from {module} import {_listed(names)}")
            for module, names in lines
        )
        plain = tuple(
            ast.ImportFrom(module, names, 0) for module, names in lines
        )
        return Result(self._span(node), plain, texts, (), replaced=True)

    def _new_home(self, name: str, module: str) -> str:
        moved = {
            "apex.parallel.DistributedDataParallel": "torch.nn.parallel",
            "apex.parallel.distributed.DistributedDataParallel": "torch.nn.parallel",
        }
        return moved.get(name, module)

    def _written(self, node: ast.stmt, plain: ast.stmt, text: str) -> Result:
        if ast.dump(plain) == ast.dump(node):
            return kept(self._span(node), plain)
        return Result(
            self._span(node), (plain,), (Template(text),), (), replaced=True
        )

    def _guard(self, node: ast.Try) -> Result:
        """`try: from apex import amp; except ImportError: ...`: apex is not asked for any more."""
        body = self.block(node.body)
        left = plain_of(body)
        if all(self._settled(s) for s in left):
            return flattened(
                self._span(node), [*body, *self.block(node.orelse)]
            )
        return self.generic(node)

    def _settled(self, statement: ast.stmt) -> bool:
        """What cannot fail for want of apex: a flag that is set, an import of torch."""
        if isinstance(statement, ast.ImportFrom):
            return (statement.module or "").partition(".")[0] == "torch"
        if isinstance(statement, ast.Assign):
            return isinstance(statement.value, ast.Constant)
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and ast.unparse(call.func) in (
            "print",
            "sys.path.append",
        )

    def _declared(
        self, node: ast.Global | ast.Nonlocal, listed: list[str]
    ) -> Result:
        stays = [n for n in listed if not self._is_dropped_name(n, node)]
        if stays == listed:
            return self.generic(node)
        if not stays:
            return gone(self._span(node))
        word = "global" if isinstance(node, ast.Global) else "nonlocal"
        return self._written(
            node, type(node)(stays), f"{word} {', '.join(stays)}"
        )

    def _is_dropped_name(self, name: str, node: ast.stmt) -> bool:
        """Whether a name came from an import that is dropped."""
        probe = ast.Name(name, ast.Load())
        self.module.parents[probe] = node
        return (
            name not in self.needed.imports
            and self.names.canonical(probe) is not None
        )

    # apex.amp

    def _assign(self, node: ast.Assign) -> Result:
        target = node.targets[0]
        if (
            len(node.targets) == 1
            and isinstance(target, ast.Name)
            and isinstance(node.value, ast.Constant)
        ):
            return self._placeholder(node, target)
        if self.is_call_of(node.value, "initialize"):
            return self._initialized(node)
        is_entry = len(node.targets) == 1 and isinstance(target, ast.Subscript)
        if is_entry and self.expressions.replacements.is_state(node.value):
            return gone(self._span(node))
        return self.generic(node)

    def _placeholder(self, node: ast.Assign, target: ast.Name) -> Result:
        """`amp = None`, and a flag that nothing asks any more."""
        for_apex = (
            self.names.canonical(target) is not None
            and target.id not in self.needed.imports
        )
        idle = self.names.is_flag(target) and target.id not in self.needed.flags
        return (
            gone(self._span(node)) if for_apex or idle else self.generic(node)
        )

    def _initialized(self, node: ast.Assign) -> Result:
        assert isinstance(node.value, ast.Call)
        call = Initialize(node.value)
        self.seen.initialized.append((call, node))
        given = call.given
        pairs = assigned(node.targets, given) if given is not None else None
        if pairs is None or any(value is given for _, value in pairs):
            return self.generic(node)
        if not pairs:
            return gone(self._span(node))
        edits: list[Edit] = []
        inner = [
            (self.expressions.copy(t, []), self.expressions.copy(v, edits))
            for t, v in pairs
        ]
        spans = (
            *(self._span(t) for t, _ in pairs),
            *(self._span(v) for _, v in pairs),
        )
        left = ", ".join(f"${i}" for i in range(len(pairs)))
        right = ", ".join(f"${i + len(pairs)}" for i in range(len(pairs)))
        if len(pairs) == 1:
            plain = ast.Assign([inner[0][0]], inner[0][1])
        else:
            targets, values = (
                ast.Tuple([t for t, _ in inner], ast.Store()),
                ast.Tuple([v for _, v in inner], ast.Load()),
            )
            plain = ast.Assign([targets], values)
        template = Template(f"{left} = {right}", spans)
        return Result(
            self._span(node),
            (ast.copy_location(plain, node),),
            (template,),
            tuple(edits),
            replaced=True,
        )

    def _call(self, node: ast.Expr, call: ast.Call) -> Result:
        """What becomes of a call that stands by itself."""
        name = self.names.canonical(call.func)
        if name == "apex.amp.load_state_dict":
            return gone(self._span(node))
        if (
            name == "apex.amp.initialize"
        ):  # what it hands back is the same objects
            self.seen.initialized.append((Initialize(call), node))
            return gone(self._span(node))
        if name == "apex.amp.register_half_function" and registers_half(call):
            return gone(self._span(node))
        return self.generic(node)


def _listed(names: Iterable[ast.alias]) -> str:
    return ", ".join(
        f"{one.name} as {one.asname}" if one.asname else one.name
        for one in names
    )
