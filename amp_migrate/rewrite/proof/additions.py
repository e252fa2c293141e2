"""What a rewrite has added cannot fail: every inserted expression has a value at its place.

Erasing shows that the rest is the program that was there; it is blind to the additions, and they
run with AMP off as well. Here the output is read as a program of its own. Each name and attribute
in an added expression must be bound on every path to it, `.type` may be asked of a `torch.device`
only, `torch.device(x)` only made of what is one, a scaler be read only where its optimizer may be
read, and `.float()` be called on floating-point tensors only. Nothing here is taken from the plan
but what it declares (`Introduced`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from amp_migrate.model.program import Program
from amp_migrate.rewrite.proof.added_casts import AddedCasts
from amp_migrate.rewrite.proof.added_reads import AddedReads
from amp_migrate.rewrite.proof.checkpoint_readers import CheckpointReaders
from amp_migrate.rewrite.proof.facts import Introduced
from amp_migrate.rewrite.proof.function_values import value_faults
from amp_migrate.rewrite.proof.listed_names import ListedNames
from amp_migrate.rewrite.proof.names import name_faults
from amp_migrate.rewrite.proof.optional_scalers import OptionalScalers
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved
from amp_migrate.rewrite.proof.scaler_reads import ScalerReads


def unproved(
    program: Program,
    originals: Mapping[str, str],
    introduced: Mapping[str, Introduced],
) -> Iterator[Unproved]:
    """The additions that are not proved, in the files of the output `program`, by path."""
    for file in program.module.files:
        if file.text != originals[file.path]:
            before = ast.parse(originals[file.path])
            known = introduced[file.path]
            yield from _Additions(program, file, known).failures(before)


class _Additions(RewrittenFile):
    """The added expressions of one file."""

    def failures(self, before: ast.Module) -> Iterator[Unproved]:
        """What is not proved of the additions to the original."""
        of_file = (self.program, self.file, self.introduced)
        for line, message in name_faults(
            before, self.file.tree, self.introduced
        ):
            yield Unproved(
                self.file.path, self._scope_at(line), line, "", message
            )
        yield from self._expressions(before)
        yield from ScalerReads(*of_file).step_values()
        yield from ScalerReads(*of_file).unscaled()
        yield from OptionalScalers(*of_file).left_out()
        yield from AddedCasts(*of_file).casts(before)
        yield from CheckpointReaders(*of_file).entries(before)
        yield from ListedNames(*of_file).listed()
        for node, why in value_faults(*of_file):
            yield self.failure(node, why)

    def _expressions(self, before: ast.Module) -> Iterator[Unproved]:
        """Of the regions, of what is set, and of the scalers that are read."""
        of_file = (self.program, self.file, self.introduced)
        reads, scalers = AddedReads(*of_file, before), ScalerReads(*of_file)
        for node in self.file.nodes:
            if isinstance(node, ast.withitem) and self.forms.is_region(node):
                yield from reads.total(node.context_expr)
            elif isinstance(node, ast.Assign) and self._is_new(node.targets[0]):
                if not self.forms.is_scaler(node.value):
                    yield from reads.total(node.value)
                yield from self._set(node.targets[0])
            elif isinstance(
                node, (ast.Name, ast.Attribute)
            ) and self.forms.is_scaler(node):
                yield from scalers.scaler(node)

    def _scope_at(self, line: int) -> str:
        """The innermost scope that holds a line."""
        around = [
            scope
            for scope in self.file.own_scopes
            if isinstance(scope.node, ast.stmt)
            if scope.node.lineno <= line <= (scope.node.end_lineno or 0)
        ]
        return (
            max(
                around, key=lambda scope: getattr(scope.node, "lineno", 0)
            ).qualname
            if around
            else "<module>"
        )

    def _is_new(self, target: ast.expr) -> bool:
        return self.forms.is_scaler(target) or self.forms.is_new_name(target)

    def _set(self, target: ast.expr) -> Iterator[Unproved]:
        """An object whose class says which attributes it has takes no other."""
        cls = self.program.graph.class_around(
            self.program.module.scope_of(target)
        )
        if cls is not None and isinstance(target, ast.Attribute):
            if not self.program.attributes.takes(cls, target.attr):
                yield self.failure(
                    target, f"`{cls.name}` takes no new attributes"
                )
