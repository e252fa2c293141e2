"""Modules that may have no parameters: all that they hold is what they are given, as
`self.backbone = backbone or nn.Identity()`. `next(module.parameters())` of one may raise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, is_abstract
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import layers

_DEEP = 5
_BASE = "torch.nn.Module"
_REGISTERS = frozenset({"register_parameter", "add_module", "register_module"})


def may_be_empty(
    program: Program, cls: ast.ClassDef, deep: int = _DEEP
) -> bool:
    """Whether nothing that a class and its bases set makes parameters; False where a base is out of
    sight.
    """
    if not deep:
        return False
    return program.remembered(
        (may_be_empty, cls), lambda: _may_be_empty(program, cls, deep - 1)
    )


def is_only_base(program: Program, cls: ast.ClassDef) -> bool:
    """Whether a class leaves its `forward` to heirs: what is trained under its name is one of
    these, with what they hold.
    """
    forward = program.graph.method(cls, "forward")
    if forward is None:
        return program.graph.heirs(cls) != [cls]
    marks = (dotted_name(one) or "" for one in forward.decorator_list)
    return is_abstract(forward) or any(
        mark.rpartition(".")[2] == "abstractmethod" for mark in marks
    )


def _may_be_empty(program: Program, cls: ast.ClassDef, deep: int) -> bool:
    lineage = program.graph.lineage(cls)
    if not all(
        _is_empty(program, base, deep) for one in lineage for base in one.bases
    ):
        return False
    return not any(
        _makes_parameters(program, call, scope, deep)
        for call, scope in _made(program, lineage)
    )


def _is_empty(
    program: Program,
    base: ast.expr,
    deep: int,
) -> bool:
    """Whether a base adds nothing: one of the lineage, which is asked as well, or of another
    file.
    """
    scope = program.module.scope_of(base)
    if program.graph.class_named(base, scope) is not None:
        return True
    found = program.values.abroad(base, scope)
    if found is None or not isinstance(found[1], ast.ClassDef):
        return program.canonical(base) == _BASE
    return may_be_empty(found[0], found[1], deep)


def _made(
    program: Program, lineage: list[ast.ClassDef]
) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls in what the classes assign to attributes."""
    for owner in lineage:
        held = program.module.scopes[owner].bindings
        for name, bindings in held.items():
            for binding in bindings if name.startswith("self.") else ():
                scope = program.module.scope_of(binding.statement)
                for node in nodes_in(binding.statement):
                    if isinstance(node, ast.Call):
                        yield node, scope


def _makes_parameters(
    program: Program, call: ast.Call, scope: Scope, deep: int
) -> bool:
    canonical = program.canonical(call.func) or ""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _REGISTERS:
        return True
    row = layers.layer(canonical)
    if row is not None:
        return not _only_computes(row)
    if canonical.startswith("torch."):
        return canonical.startswith("torch.nn.")
    value = program.values.of(call, scope)
    if value.cls is not None:
        return not may_be_empty(program, value.cls, deep)
    is_kept = scope.qualname.endswith("__init__")
    return value.kind is Kind.MODEL or is_kept and value.kind is Kind.UNKNOWN


def _only_computes(row: layers.Layer) -> bool:
    """`nn.Identity()`, `nn.ReLU()`: of one tensor, without weights."""
    op = row.op
    return row.role == "layer" and (
        op is None or op.policy == "keeps" and op.tensors == (0,)
    )
