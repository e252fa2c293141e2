"""A new name shows where a program lists the names that it has: `locals().items()`,
`json.dumps(vars(self))`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.checkpoints.whole_reads import reader_of_names
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved
from amp_migrate.rewrite.proof.sifted_names import is_sifted

_OF_SCOPE = ("locals", "vars", "dir")
_OF_OBJECT = ("vars", "dir", "inspect.getmembers")
_WORDS = ("locals(", "globals(", "vars(", "dir(", "__dict__", "getmembers(")


class _New(NamedTuple):
    """A new name, and the scope or the class that gets it."""

    node: ast.AST
    home: Scope | ast.ClassDef


class ListedNames(RewrittenFile):
    """Who lists the names of a scope or of an object that has a new one."""

    def listed(self) -> Iterator[Unproved]:
        """The new names that would be listed."""
        texts = [file.text for file in self.program.module.files]
        if not any(word in text for word in _WORDS for text in texts):
            return
        for new in self._new():
            for names, where in self._lists(new.home):
                if self._is_earlier(names, where, new):
                    continue
                if is_sifted(self.program, names, where):
                    continue
                if reader_of_names(self.program, names) is not None:
                    yield self._shown(new, names)
                    break

    def _shown(self, new: _New, names: ast.expr) -> Unproved:
        scope = self.program.module.scope_of(new.node)
        line = getattr(new.node, "lineno", 1)
        path = self.program.module.scope_of(names).module.path
        place = f"{path}:{names.lineno}"
        why = f"`{ast.unparse(names)}` ({place}) may list all names there, and one would be new"
        return Unproved(self.file.path, scope.qualname, line, "", why)

    def _new(self) -> Iterator[_New]:
        """What is set, and the parameters."""
        module = self.program.module
        for node in self.file.nodes:
            if isinstance(node, ast.arg):
                if node.arg in self.introduced.parameters:
                    yield _New(node, module.scope_of(node))
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(
                node.ctx, ast.Store
            ):
                new = self.forms.is_scaler(node) or self.forms.is_new_name(node)
                scope = module.scope_of(node)
                home = (
                    scope.lookup(node.id) or scope
                    if isinstance(node, ast.Name)
                    else self.program.graph.class_around(scope)
                )
                yield from [_New(node, home)] if new and home else []

    def _lists(
        self, home: Scope | ast.ClassDef
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What gives all names of a scope, or of the objects of a class."""
        if isinstance(home, Scope):
            for scope in home.module.scopes.values():
                yield from ((one, scope) for one in _of_scope(home, scope))
            return
        objects = self.program.remembered(
            ListedNames, lambda: list(self._objects())
        )
        for names, holder, scope in objects:
            if self._is_of(holder, scope, home):
                yield names, scope

    def _objects(self) -> Iterator[tuple[ast.expr, ast.expr, Scope]]:
        """`vars(x)` and `x.__dict__` of a program, with `x`."""
        for node in self.program.module.parents:
            holder: ast.expr | None = None
            if isinstance(node, ast.Call) and node.args:
                name = self.program.canonical(node.func)
                asked = name or dotted_name(node.func)
                holder = node.args[0] if asked in _OF_OBJECT else None
            elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
                holder = node.value if isinstance(node.ctx, ast.Load) else None
            if holder is not None and isinstance(node, ast.expr):
                yield node, holder, self.program.module.scope_of(node)

    def _is_of(
        self, holder: ast.expr, scope: Scope, home: ast.ClassDef
    ) -> bool:
        """Whether an object is of a class, or of an heir, or may be where it is of a base."""
        if isinstance(holder, ast.Name) and holder.id == scope.self_name:
            cls = self.program.graph.class_around(scope)
        else:
            cls = self.program.values.of(holder, scope).cls
        lineage = self.program.graph.lineage
        return cls is not None and (
            home in lineage(cls) or cls in lineage(home)
        )

    def _is_earlier(self, names: ast.expr, where: Scope, new: _New) -> bool:
        """Whether names are listed in the same body before there is a new one."""
        module = self.program.module
        if (
            isinstance(new.node, ast.arg)
            or module.scope_of(new.node) is not where
        ):
            return False
        loops = [
            one
            for one in module.ancestors(names)
            if isinstance(one, (ast.For, ast.AsyncFor, ast.While))
        ]
        line = getattr(new.node, "lineno", 0)
        return names.lineno < line and not any(
            one in loops for one in module.ancestors(new.node)
        )


def _of_scope(home: Scope, scope: Scope) -> Iterator[ast.expr]:
    """`locals()` in a scope, and `globals()` in all of a file."""
    for call in scope.calls:
        name = dotted_name(call.func)
        if call.args or call.keywords:
            continue
        of_file = name == "globals" and home is scope.module.root
        if of_file or scope is home and name in _OF_SCOPE:
            yield call
