"""Take the AMP constructs out of a module: what is left must be the program that was there before.

A construct goes only where it has the exact form that a rewrite emits, so that every slip shows as
a difference.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.proof.checkpoint_forms import CheckpointForms
from amp_migrate.rewrite.proof.forms import (
    Forms,
    dotted,
    is_none,
)

if TYPE_CHECKING:
    from amp_migrate.rewrite.proof.facts import Introduced

Statements: TypeAlias = list[ast.stmt]


def erase(tree: ast.Module, introduced: Introduced) -> ast.Module:
    """Remove what `introduced` declares from `tree` (changed in place) and return it.

    A hoisted loss stays a name: `guard.inline` folds it, in both programs alike.
    """
    Eraser(introduced).run(tree)
    return tree


class Eraser(ast.NodeTransformer):
    """The rules, one per construct; `lines` tells where one applied."""

    def __init__(self, introduced: Introduced) -> None:
        self.introduced = introduced
        self.forms = Forms(introduced)
        self.checkpoints = CheckpointForms(introduced, self.forms)
        self.lines: list[int] = []
        self.backwards: set[str] = set()
        """The plain names of `torch.autograd.backward`."""

    def run(self, tree: ast.Module) -> list[int]:
        """Erase in place; the lines where something went."""
        if self.introduced.imports_torch:
            self._drop_import(tree)
        self.backwards = _imported(tree, "torch.autograd", "backward")
        self.visit(tree)
        return self.lines

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and not body
            and not isinstance(node, ast.Module)
        ):
            node.body = [ast.copy_location(ast.Pass(), node)]  # type: ignore[attr-defined]
        return node

    def _gone(self, node: ast.AST) -> Statements:
        self.lines.append(getattr(node, "lineno", 1))
        return []

    def _drop_import(self, tree: ast.Module) -> None:
        wanted = ast.dump(ast.parse(_import_of(self.introduced.torch)).body[0])
        blocks: list[Statements] = [tree.body]
        while blocks:
            block = blocks.pop(0)
            for statement in block:
                if (
                    isinstance(statement, ast.Import)
                    and ast.dump(statement) == wanted
                    and not _hides_docstring(tree)
                ):
                    block.remove(statement)
                    self._gone(statement)
                    return
            blocks += [
                inner.body
                for inner in block
                if isinstance(inner, (ast.If, ast.Try, ast.With))
            ]

    # statements

    def visit_With(self, node: ast.With) -> ast.AST | Statements:
        """A region: its body takes its place."""
        kept = [item for item in node.items if not self.forms.is_region(item)]
        if len(kept) == len(node.items):
            return self.generic_visit(node)
        self._gone(node)
        node.items = kept
        if kept:
            return self.generic_visit(node)
        return self._block(node.body)

    def _block(self, body: Statements) -> Statements:
        holder = ast.Module(body=body, type_ignores=[])
        self.generic_visit(holder)
        return holder.body

    def visit_Expr(self, node: ast.Expr) -> ast.AST | Statements:
        """`S.unscale_(o)` and `S.update()`, and the option of `--switch`."""
        gone = self._is_cycle(node) or self.forms.is_declaration(node)
        return self._gone(node) if gone else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | Statements:
        """The field of `--switch`."""
        return (
            self._gone(node)
            if self.forms.is_declaration(node)
            else self.generic_visit(node)
        )

    def _is_cycle(self, node: ast.stmt) -> bool:
        if not isinstance(node, ast.Expr):
            return False
        unscaled = self.forms.method(node.value, "unscale_", 1)
        if unscaled:
            return self.forms.is_pure(unscaled[0])
        return self.forms.method(node.value, "update", 0) is not None

    def visit_Assign(self, node: ast.Assign) -> ast.AST | Statements:
        """A scaler made or handed on, a new name set, the scaler's state put into a checkpoint."""
        if len(node.targets) == 1 and self._is_new_binding(
            node.targets[0], node.value
        ):
            return self._gone(node)
        return self.generic_visit(node)

    def _is_new_binding(self, target: ast.expr, value: ast.expr) -> bool:
        if self.forms.is_scaler(target):
            return self.forms.is_constructor(value) or self.forms.is_scaler(
                value
            )
        if self.forms.is_new_name(target):
            return self.forms.is_value_of_name(value)
        return self.checkpoints.is_entry(target, value)

    def visit_For(self, node: ast.For) -> ast.AST | Statements:
        """`for o in optimizers: S.unscale_(o)`"""
        if self._is_unscaling(node) and dotted(node.iter) is not None:
            return self._gone(node)
        return self.generic_visit(node)

    def _is_unscaling(self, node: ast.For) -> bool:
        only = node.body[0]
        if node.orelse or len(node.body) > 1 or not isinstance(only, ast.Expr):
            return False
        given = self.forms.method(only.value, "unscale_", 1)
        own = node.target.id if isinstance(node.target, ast.Name) else None
        return given is not None and own is not None and dotted(given[0]) == own

    def visit_If(self, node: ast.If) -> ast.AST | Statements:
        """The prologue of an optional scaler, the restored checkpoint, the guarded scheduler."""
        if not node.orelse and (
            self.forms.is_prologue(node) or self.checkpoints.is_restore(node)
        ):
            return self._gone(node)
        if not node.orelse and self._is_scheduler_guard(node.test):
            self._gone(node)
            return self._block(node.body)
        if (
            not node.orelse
            and self.forms.is_pure(node.test)
            and all(map(self._is_cycle, node.body))
        ):
            return self._gone(node)
        return self.generic_visit(node)

    def _is_scheduler_guard(self, test: ast.expr) -> bool:
        if (
            not isinstance(test, ast.Compare)
            or len(test.ops) != 1
            or not isinstance(test.ops[0], ast.GtE)
        ):
            return False
        return self.forms.method(
            test.left, "get_scale", 0
        ) is not None and self.forms.is_new_name(test.comparators[0])

    def visit_Global(self, node: ast.Global) -> ast.AST | Statements:
        """`global S`."""
        return self._declaration(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST | Statements:
        """`nonlocal S`."""
        return self._declaration(node)

    def _declaration(
        self, node: ast.Global | ast.Nonlocal
    ) -> ast.AST | Statements:
        kept = [
            name
            for name in node.names
            if name not in self.introduced.parameters
        ]
        if len(kept) < len(node.names):
            self._gone(node)
        node.names = kept
        return node if kept else []

    # signatures and expressions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A new parameter, a new decorator."""
        self._drop_parameters(node)
        kept = [
            mark
            for mark in node.decorator_list
            if not self.forms.is_decorator(mark)
        ]
        if len(kept) < len(node.decorator_list):
            self._gone(node)
            node.decorator_list = kept
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """A new parameter."""
        self._drop_parameters(node)
        return self.generic_visit(node)

    def _drop_parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> None:
        arguments = node.args
        while (
            arguments.args
            and not arguments.vararg
            and self._is_parameter(arguments.args[-1])
        ):
            # Only the last positional one may be new: any other would shift what callers pass by
            # position.
            default = arguments.defaults[-1] if arguments.defaults else None
            own = self.forms.is_option(arguments.args[-1].arg, default)
            if default is not None and not is_none(default) and not own:
                return
            del arguments.defaults[-1:]
            self._gone(arguments.args.pop())
        for index in reversed(range(len(arguments.kwonlyargs))):
            default = arguments.kw_defaults[index]
            name = arguments.kwonlyargs[index]
            own = self.forms.is_option(name.arg, default)
            if self._is_parameter(name) and (
                default is None or is_none(default) or own
            ):
                self._gone(arguments.kwonlyargs.pop(index))
                arguments.kw_defaults.pop(index)

    def _is_parameter(self, argument: ast.arg) -> bool:
        option = self.introduced.option
        known = self.introduced.parameters | (
            {option.name} if option is not None else set()
        )
        return argument.arg in known and argument.annotation is None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`S.step(o)`, `S.scale(loss).backward()`, `autograd.backward(S.scale(...))`, `f(S=S)`,
        `dict(key=state)`.
        """
        self._drop_keywords(node)
        self._unscale_argument(node)
        whole = (
            self.forms.whole_sequence(node)
            if self.introduced.sequences
            else None
        )
        if whole is not None:
            self._gone(node)
            return self.generic_visit(whole)
        if isinstance(node.func, ast.Attribute):
            self._unscale(node, node.func)
            if (
                node.func.attr == "step"
                and node.args
                and self.forms.is_scaler(node.func.value)
            ):
                node = self._plain_step(node, node.func)
        return self.generic_visit(node)

    def _plain_step(self, node: ast.Call, func: ast.Attribute) -> ast.Call:
        self._gone(node)
        step = ast.copy_location(
            ast.Attribute(value=node.args[0], attr="step", ctx=ast.Load()), func
        )
        return ast.copy_location(
            ast.Call(func=step, args=node.args[1:], keywords=node.keywords),
            node,
        )

    def _unscale(self, node: ast.Call, func: ast.Attribute) -> None:
        if func.attr != "backward":
            return
        if scaled := self.forms.method(func.value, "scale", 1):
            self._gone(node)
            func.value = scaled[0]

    def _unscale_argument(self, node: ast.Call) -> None:
        """The losses of `torch.autograd.backward`, also by a plain name."""
        name = dotted(node.func) or ""
        is_autograd = name in self.backwards or name.endswith(
            "autograd.backward"
        )
        if (
            is_autograd
            and node.args
            and (scaled := self.forms.method(node.args[0], "scale", 1))
        ):
            self._gone(node)
            node.args[0] = scaled[0]

    def _drop_keywords(self, node: ast.Call) -> None:
        func = ast.unparse(node.func) if node.keywords else ""
        saves = func == "dict" or func in self.introduced.savers
        kept = [
            entry
            for entry in node.keywords
            if not self._is_handed_on(entry, saves)
        ]
        if len(kept) < len(node.keywords):
            self._gone(node)
        node.keywords = kept

    def _is_handed_on(self, entry: ast.keyword, saves: bool) -> bool:
        if saves:
            return (
                entry.arg == self.introduced.checkpoint_key
                and self.checkpoints.is_state(entry.value)
            )
        known = self.forms.is_scaler(entry.value) or self.forms.is_new_name(
            entry.value
        )
        return entry.arg in self.introduced.parameters and known

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """The scaler's state in a checkpoint."""
        pairs = list(zip(node.keys, node.values, strict=True))
        kept = [
            (key, value)
            for key, value in pairs
            if not (
                self.checkpoints.is_key(key)
                and self.checkpoints.is_state(value)
            )
            and not (
                isinstance(key, ast.Constant)
                and self.forms.is_option(key.value, value)
            )
        ]
        if len(kept) < len(pairs):
            self._gone(node)
            node.keys, node.values = (
                [key for key, _ in kept],
                [value for _, value in kept],
            )
        return self.generic_visit(node)


def _hides_docstring(tree: ast.Module) -> bool:
    """Whether the second statement would be the docstring if the first went."""
    second = tree.body[1] if len(tree.body) > 1 else None
    is_text = (
        isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
        and isinstance(second.value.value, str)
    )
    return is_text and isinstance(tree.body[0], ast.Import)


def _import_of(name: str) -> str:
    return "import torch" if name == "torch" else f"import torch as {name}"


def _imported(tree: ast.Module, module: str, name: str) -> set[str]:
    """What a name of a module is called here."""
    statements = [n for n in nodes_in(tree) if isinstance(n, ast.ImportFrom)]
    aliases = [one for n in statements if n.module == module for one in n.names]
    return {one.asname or one.name for one in aliases if one.name == name}
