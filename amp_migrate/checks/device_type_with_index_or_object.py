"""Autocast or its decorators get a device instead of a device type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._renames import torch_name
from amp_migrate.config import Settings
from amp_migrate.model.autocast.regions import NEW
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, returned_at, shallow
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.model.values.literals import held_as
from amp_migrate.rewrite.edits import Edit, ReplaceExpression, Template

RULE = Rule("device_type-with-index-or-object", severity="error")
_DECORATORS = ("torch.amp.custom_fwd", "torch.amp.custom_bwd")
_OBJECT = "a `torch.device` raises here, since the type is wanted as a string: write `.type`"
_INDEX = (
    "a device with an index raises up to torch 2.3 and skips autocast's checks later: pass "
    "the device type alone"
)
_STRING = (
    "the string of a device can hold an index, which raises up to torch 2.3: write "
    "`torch.device(...).type`"
)


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """Device types that are devices, strings with an index, or the string of a device."""
    for call, scope in program.uses.calls(*NEW, *_DECORATORS):
        position = 0 if program.canonical(call.func) in NEW else 99
        given = argument_of(call, position, "device_type")
        found = _judge(program, given, scope) if given is not None else None
        if given is not None and found is not None:
            message, new = found
            yield finding_at(
                program,
                given,
                RULE,
                message,
                fix=Fix("safe", f"pass `{_shown(new)}`", new),
            )


def _judge(
    program: Program, given: ast.expr, scope: Scope
) -> tuple[str, tuple[Edit, ...]] | None:
    """What is wrong with a device type, and the edits that mend it."""
    span = program.module.span(given)
    if (
        isinstance(given, ast.Constant)
        and isinstance(given.value, str)
        and ":" in given.value
    ):
        text = program.module.source(given)
        quote = text[-1]
        return _INDEX, (
            ReplaceExpression(
                span, Template(f"{quote}{given.value.partition(':')[0]}{quote}")
            ),
        )
    if (
        _has_index(given, scope)
        or held_as(program, given, scope, _has_index)
        or _may_keep_index(program, given, scope)
    ):
        return _INDEX, _type_of(program, given)
    if _is_string(given) and isinstance(given, ast.Call):
        return _STRING, _type_of(program, given, given.args[0])
    parts = _parts_given(program, given, scope)
    if parts and all(_is_string(one) for one in parts):
        return _STRING, _type_of(program, given)
    if (
        program.values.kind(given, scope) is Kind.DEVICE
        and not isinstance(given, ast.IfExp)
        and not _compared_as_string(given, scope)
    ):
        return _OBJECT, (ReplaceExpression(span, Template("$0.type", (span,))),)
    return None


def _may_keep_index(program: Program, given: ast.expr, scope: Scope) -> bool:
    """Whether the object keeps a string with an index under a name on some path, and nothing cuts
    it off there.
    """
    cls = program.graph.class_around(scope)
    name = dotted_name(given) or ""
    head, _, attribute = name.partition(".")
    if cls is None or head != scope.self_name or "." in attribute:
        return False
    bound = program.module.scopes[cls].bindings.get(f"self.{attribute}", ())
    values = [one.value for one in bound if one.value is not None]
    return any(_has_index(one, scope) for one in values) and not any(
        isinstance(node, ast.expr) and dotted_name(node) == name
        for one in values
        for node in shallow(one)
    )


def _compared_as_string(given: ast.expr, scope: Scope) -> bool:
    """Whether a parameter is compared with a string like `"cpu"` in its function, which a device
    never equals: the annotation says `torch.device`, and the callers pass a type.
    """
    owner = scope.lookup(given.id) if isinstance(given, ast.Name) else None
    return (
        isinstance(given, ast.Name)
        and owner is not None
        and any(one.arg == given.id for one in owner.parameters())
        and any(
            isinstance(node, ast.Compare)
            and isinstance(node.left, ast.Name)
            and node.left.id == given.id
            and all(
                isinstance(one, ast.Constant) and isinstance(one.value, str)
                for one in node.comparators
            )
            for node in nodes_in(owner.node)
        )
    )


def _is_string(expr: ast.expr) -> bool:
    """`str(device)`"""
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Name)
        and expr.func.id == "str"
        and len(expr.args) == 1
    )


def _parts_given(
    program: Program, given: ast.expr, scope: Scope
) -> list[ast.expr]:
    """What the functions in sight give back at the place of a tuple that a name is bound to."""
    name = given.id if isinstance(given, ast.Name) else ""
    bound = scope.bindings.get(name, ())
    found: list[ast.expr] = []
    for one in bound:
        call = one.value
        if one.index is None or not isinstance(call, ast.Call):
            return []
        for function in program.values.callees(call, scope):
            found += returned_at(function, one.index)
    return found


def _has_index(
    expr: ast.expr,
    scope: Scope,
) -> bool:
    """`"cuda:0"`, `f"cuda:{rank}"`, or a choice with one of them."""
    if isinstance(expr, ast.Constant):
        return isinstance(expr.value, str) and ":" in expr.value
    if isinstance(expr, ast.JoinedStr):
        return any(_has_index(one, scope) for one in expr.values)
    return isinstance(expr, ast.IfExp) and (
        _has_index(expr.body, scope) or _has_index(expr.orelse, scope)
    )


def _type_of(
    program: Program, given: ast.expr, inner: ast.expr | None = None
) -> tuple[Edit, ...]:
    torch, imports = torch_name(program)
    part = program.module.span(inner if inner is not None else given)
    return (
        *imports,
        ReplaceExpression(
            program.module.span(given),
            Template(f"{torch}.device($0).type", (part,)),
        ),
    )


def _shown(edits: tuple[Edit, ...]) -> str:
    last = edits[-1]
    return (
        last.replacement.text.replace("$0", "...")
        if isinstance(last, ReplaceExpression)
        else ""
    )
