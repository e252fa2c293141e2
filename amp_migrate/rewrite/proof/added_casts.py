"""Each added `.float()` is called on what can only be a floating-point tensor, and each added
`.to(out.dtype)` on a tensor that is written into `out`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.written_tensors import homes, writer_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.values.index_uses import counts
from amp_migrate.rewrite.proof.class_numbers import may_be_classes
from amp_migrate.rewrite.proof.compare import cast_like, is_float_cast
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.rewrite.proof.doubles import Doubles
from amp_migrate.rewrite.proof.plain_parts import is_out_of_sight
from amp_migrate.rewrite.proof.receivers import receivers_of
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved
from amp_migrate.rewrite.proof.taken_apart import is_taken_apart
from amp_migrate.rewrite.proof.written_dtypes import fault_of_write


class AddedCasts(RewrittenFile):
    """The casts that a file has more than its original."""

    def casts(self, original: ast.Module) -> Iterator[Unproved]:
        """Added casts of what is known to be no tensor that they leave as it is with AMP off."""
        for node in (
            self._added(original) if self.introduced.float_casts else ()
        ):
            scope = self.program.module.scope_of(node)
            like = cast_like(node)
            why = (
                self._fault(node, scope)
                if like is None
                else fault_of_write(self.program, node, like, scope)
            )
            if why is not None:
                yield self.failure(node, why)

    def _added(self, original: ast.Module) -> Iterator[ast.Call]:
        """The casts that the original does not have."""
        before = Counter(
            ast.unparse(node) for node in nodes_in(original) if _is_cast(node)
        )
        for node in self.file.nodes:
            if not isinstance(node, ast.Call) or not _is_cast(node):
                continue
            if before[ast.unparse(node)]:
                before[ast.unparse(node)] -= 1
            else:
                yield node

    def _fault(self, node: ast.Call, scope: Scope) -> str | None:
        """Why a cast may fail, or change a value with AMP off."""
        assert isinstance(node.func, ast.Attribute)
        above = self.program.module.parents.get(node)
        is_asked = isinstance(above, ast.Attribute)  # `t.float().sigmoid(x)`
        if is_asked and is_out_of_sight(node.func.value, scope):
            return "nothing shows that it is a tensor"
        if self._is_written(node):
            return "it is written in place, which reaches a copy alone"
        if is_taken_apart(self.program, node, scope):
            return "it is taken apart, as a tuple is"
        if counts(self.program, node, scope) or counts(
            self.program, node.func.value, scope
        ):
            return "it is used as an index, and is no floating-point tensor"
        fact = self.program.precision.of(node.func.value, scope)
        if fact.dtypes & DType.COMPLEX or fact.dtypes == DType.INTEGER:
            return "it may be no floating-point tensor"
        if self._may_be_double(node, fact):
            return "it may be float64, which this would round"
        is_open = fact.dtypes & DType.UNKNOWN
        if is_open and may_be_classes(self.program, node, scope):
            return "nothing shows whether it holds outputs, or the numbers of classes"
        if demands_of(self.program).demanded(node, scope):
            return None
        if fact.container or not fact.may_be_tensor:
            return "it may be no floating-point tensor"
        if not receivers_of(self.program).is_tensor(node, scope):
            return "nothing shows that it is a tensor"
        return None

    def _is_written(self, node: ast.Call) -> bool:
        """Whether what a call writes in place is the copy that a cast gives of what others hold."""
        assert isinstance(node.func, ast.Attribute)
        if writer_of(self.program, node) is None:
            return False
        asked = Asked(self.program.precision.inference)
        return node.func.value not in homes(asked, node.func.value)

    def _may_be_double(self, node: ast.Call, fact: Fact) -> bool:
        """Whether a cast may take digits away, with AMP off, too: of what is half on no path in
        sight, where the file computes in float64.
        """
        if fact.dtypes & DType.HALF:
            return fact.may_be_double
        if fact.dtypes & (DType.UNKNOWN | DType.DOUBLE):
            return fact.may_be_double or self._doubles.reach(node)
        return self._doubles.is_default

    @cached_property
    def _doubles(self) -> Doubles:
        return Doubles(self.program, self.file, self.forms)


def _is_cast(node: ast.AST) -> bool:
    return is_float_cast(node) or cast_like(node) is not None
