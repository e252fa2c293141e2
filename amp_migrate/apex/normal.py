"""One form for two trees that are the same program while apex is installed."""

from __future__ import annotations

import ast
from typing import Any

from amp_migrate.apex.original import Facts, dotted, guards, is_pure, of_apex
from amp_migrate.model.syntax.queries import fields_of, nodes_in

_ROUNDS = 10


class Normal(ast.NodeTransformer):
    """Rewrites a tree in place until nothing changes."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.read: set[str] = set()

    def run(self, tree: ast.Module) -> ast.Module:
        """The form of `tree`."""
        last = ""
        for _ in range(_ROUNDS):
            self.read = {
                n.id
                for n in nodes_in(tree)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
            }
            self.visit(tree)
            dump = ast.dump(tree)
            if dump == last:
                break
            last = dump
        return tree

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and (
                block and isinstance(block[0], ast.stmt)
            ):
                left = [s for s in block if not isinstance(s, ast.Pass)]
                setattr(
                    node,
                    name,
                    left or ([] if name == "orelse" else [ast.Pass()]),
                )
            elif (
                block == []
                and name == "body"
                and not isinstance(node, ast.Module)
            ):
                node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_Import(self, node: ast.Import) -> Any:
        """Imports of apex that nothing reads."""
        node.names = [
            a
            for a in node.names
            if a.name.partition(".")[0] != "apex"
            or (a.asname or "apex") in self.read
        ]
        return node if node.names else []

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """The same, and the classes that torch has under the same name, one statement each."""
        if not of_apex(node):
            return node
        found = []
        for alias in node.names:
            if (alias.asname or alias.name) in self.read:
                moved = alias.name == "DistributedDataParallel"
                found.append(
                    ast.ImportFrom(
                        "torch.nn.parallel" if moved else node.module,
                        [alias],
                        0,
                    )
                )
        return found

    def visit_Try(self, node: ast.Try) -> Any:
        """Nothing is left that could fail for want of apex: the handlers never run."""
        was_guard = guards(node)
        self.generic_visit(node)
        body = [s for s in node.body if not isinstance(s, ast.Pass)]
        if was_guard and all(map(_cannot_fail, body)):
            return [*body, *node.orelse]
        return node

    def visit_Global(self, node: ast.Global) -> Any:
        """Declarations of what is gone."""
        node.names = [
            n
            for n in node.names
            if n not in self.facts.imported or n in self.read
        ]
        return node if node.names else []

    def visit_Assert(self, node: ast.Assert) -> Any:
        """That apex is there."""
        return [] if self.known(node.test) is True else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """`amp = None`, flags that nothing reads, and what is assigned to itself."""
        self.generic_visit(node)
        if len(node.targets) != 1:
            return node
        target = node.targets[0]
        if (
            isinstance(target, ast.Name)
            and target.id not in self.read
            and isinstance(node.value, ast.Constant)
        ):
            if target.id in self.facts.flags or (
                target.id in self.facts.imported and not node.value.value
            ):
                return []
        pairs = list(_pairs(target, node.value))
        left = [
            (t, v)
            for t, v in pairs
            if not (dotted(t) and dotted(t) == dotted(v))
        ]
        if len(left) == len(pairs) and len(pairs) < 2:
            return node
        if not left:
            return []
        if len(left) == 1:
            return ast.copy_location(ast.Assign([left[0][0]], left[0][1]), node)
        targets, values = (
            ast.Tuple([t for t, _ in left], ast.Store()),
            ast.Tuple([v for _, v in left], ast.Load()),
        )
        return ast.copy_location(ast.Assign([targets], values), node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """A choice that is settled."""
        known = self.known(node.test)
        self.generic_visit(node)
        return node if known is None else node.body if known else node.orelse

    def visit_If(self, node: ast.If) -> Any:
        """A branch that is settled, empty, or the same as the other."""
        known = self.known(node.test)
        if known is None:
            node.test = self.reduced(node.test)
        self.generic_visit(node)
        if known is not None:
            return node.body if known else node.orelse
        empty = all(isinstance(s, ast.Pass) for s in node.body)
        if not is_pure(node.test):
            return node
        if empty and not node.orelse:
            return []
        if _equal(node.body, node.orelse):
            return node.orelse
        if _equal(node.orelse, node.body):
            return node.body
        if empty:
            node.test, node.body, node.orelse = (
                ast.UnaryOp(ast.Not(), node.test),
                node.orelse,
                [],
            )
        return node

    def has_both(self, node: ast.If) -> bool:
        """One branch with classes of apex, the other with those of torch, for the same
        variables.
        """
        of_apex = ("apex.parallel.", "apex.optimizers.", "apex.normalization.")
        uses = any(
            (self.facts.name(n) or "").startswith(of_apex)
            for s in node.body
            for n in nodes_in(s)
        )
        set_in = [
            {dotted(s.targets[0]) for s in b if isinstance(s, ast.Assign)}
            for b in (node.body, node.orelse)
        ]
        return uses and bool(set_in[0]) and set_in[0] == set_in[1]

    def known(self, test: ast.expr) -> bool | None:
        """What a condition is while apex is installed."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.known(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            values = [self.known(v) for v in test.values]
            if isinstance(test.op, ast.And):
                return (
                    False
                    if False in values
                    else None
                    if None in values
                    else True
                )
            return True if True in values else None if None in values else False
        if isinstance(test, ast.Name):
            return (
                True
                if test.id in self.facts.flags or self.facts.name(test)
                else None
            )
        if (
            isinstance(test, ast.Call)
            and dotted(test.func) == "hasattr"
            and len(test.args) == 2
        ):
            return True if self.facts.name(test.args[0]) else None
        return (
            self._known_comparison(test)
            if isinstance(test, ast.Compare) and len(test.ops) == 1
            else None
        )

    def _known_comparison(self, test: ast.Compare) -> bool | None:
        left, op, right = test.left, test.ops[0], test.comparators[0]
        if (
            self.facts.name(left)
            and isinstance(right, ast.Constant)
            and right.value is None
        ):
            return isinstance(op, (ast.IsNot, ast.NotEq))
        if isinstance(left, ast.Constant) and isinstance(
            op, (ast.In, ast.NotIn)
        ):
            among = left.value == "apex" and dotted(right) == "sys.modules"
            has = (
                isinstance(right, ast.Attribute)
                and right.attr == "__dict__"
                and bool(self.facts.name(right.value))
            )
            return isinstance(op, ast.In) if among or has else None
        return None

    def reduced(self, test: ast.expr) -> ast.expr:
        """A condition without what is known of it."""
        if not isinstance(test, ast.BoolOp):
            return test
        values = [self.reduced(v) for v in test.values if self.known(v) is None]
        return (
            values[0]
            if len(values) == 1
            else ast.copy_location(ast.BoolOp(test.op, values), test)
        )


def _equal(one: object, other: object) -> bool:
    """The same code, where the parameters of an optimizer may be told by the model's."""
    if getattr(one, "of_optimizer", False) and isinstance(other, ast.Call):
        if dotted(other.func).endswith(".parameters"):
            return True
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(
            _equal(a, b) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, ast.AST) and isinstance(other, ast.AST):
        return type(one) is type(other) and _equal(
            fields_of(one), fields_of(other)
        )
    return one == other


def _cannot_fail(statement: ast.stmt) -> bool:
    """Whether a statement raises nothing that a `try` around it would catch."""
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").startswith("torch.")
    if isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Call
    ):
        return dotted(statement.value.func) in ("print", "sys.path.append")
    return isinstance(statement, ast.Assign) and isinstance(
        statement.value, ast.Constant
    )


def _pairs(
    target: ast.expr, value: ast.expr
) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(
        value, (ast.Tuple, ast.List)
    ):
        plain = not any(
            isinstance(e, ast.Starred) for e in [*target.elts, *value.elts]
        )
        if plain and len(target.elts) == len(value.elts):
            return [
                p
                for t, v in zip(target.elts, value.elts, strict=True)
                for p in _pairs(t, v)
            ]
    return [(target, value)]
