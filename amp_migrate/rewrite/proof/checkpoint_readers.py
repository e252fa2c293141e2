"""A checkpoint with a key more: nobody reads it as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.checkpoints.forms import filled_dict, literal
from amp_migrate.model.checkpoints.saved_keywords import saves_keywords
from amp_migrate.model.checkpoints.whole_reads import (
    reader_of,
    reader_of_files,
    saved_places,
)
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved


class CheckpointReaders(RewrittenFile):
    """Who reads the dicts that have got the state of a scaler."""

    def entries(self, original: ast.Module) -> Iterator[Unproved]:
        """A checkpoint with the scaler's state has a key more: nobody may read it as a whole."""
        if "state_dict" not in self.file.text:
            return
        before = [ast.unparse(one) for one in self._states(original)]
        for made in self._states(self.file.tree):
            if ast.unparse(made) not in before and not self._is_dict(made):
                why = "nothing shows that it saves what it is given"
                yield self.failure(made, why)
            reader = reader_of(self.program, made) or reader_of_files(
                self.program, made, saved_places(self.program, made)
            )
            if ast.unparse(made) not in before and reader is not None:
                place = f"line {reader.node.lineno}"
                yield self.failure(
                    made, f"{place} may read it as a whole, a new key included"
                )

    def _is_dict(self, made: ast.Dict | ast.Call) -> bool:
        """`{...}`, `dict(...)`, or a function that saves its keywords as one."""
        if isinstance(made, ast.Dict):
            return True
        is_dict = isinstance(made.func, ast.Name) and made.func.id == "dict"
        return is_dict or saves_keywords(self.program, made)

    def _states(self, tree: ast.Module) -> Iterator[ast.Dict | ast.Call]:
        """The dicts that hold the state of a declared scaler under the key of checkpoints."""
        for node in nodes_in(tree):
            pairs: list[tuple[object, ast.expr]] = []
            if isinstance(node, ast.Dict):
                pairs = list(
                    zip(map(literal, node.keys), node.values, strict=True)
                )
            elif isinstance(node, ast.Call):
                pairs = [(one.arg, one.value) for one in node.keywords]
            for key, value in (
                pairs if isinstance(node, (ast.Dict, ast.Call)) else ()
            ):
                if key == self.introduced.checkpoint_key and self._is_state(
                    value
                ):
                    assert isinstance(node, (ast.Dict, ast.Call))
                    yield node
            made = self._filled(node)
            if made is not None:
                yield made

    def _filled(self, node: ast.AST) -> ast.Dict | ast.Call | None:
        """The dict that gets the state by `checkpoint["scaler"] = scaler.state_dict()`."""
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or not isinstance(
            target, ast.Subscript
        ):
            return None
        is_key = literal(target.slice) == self.introduced.checkpoint_key
        if not is_key or not self._is_state(node.value):
            return None
        return filled_dict(self.program, target)

    def _is_state(self, value: ast.expr) -> bool:
        if isinstance(value, ast.IfExp):
            value = value.body
        func = value.func if isinstance(value, ast.Call) else None
        is_state = isinstance(func, ast.Attribute) and func.attr == "state_dict"
        return (
            is_state
            and isinstance(func, ast.Attribute)
            and self.forms.is_scaler(func.value)
        )
