"""Names that hold half-precision values made in an autocast region."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._regions import Region, nodes, region_of, statements
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.owners import part_of
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned, shallow
from amp_migrate.model.syntax.queries import children_of, names_in
from amp_migrate.model.values.kinds import criterion_name
from amp_migrate.torch_facts.methods import KEEPS_DTYPE, MOVES

_KEEPING = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_SLICES = (ast.Slice, ast.Tuple)
_JOINS = ("torch.cat", "torch.stack", "torch.concat")


def half_names(program: Program, region: Region) -> set[str]:
    """Names given the output of a model in the region, and of what keeps its type, as long as they
    are not rebound.
    """
    found: set[str] = set()
    for statement in statements(region.blocks()):
        note(program, statement, region.scope, found, may_start=True)
    return found


def note(
    program: Program,
    statement: ast.stmt,
    scope: Scope,
    known: set[str],
    *,
    may_start: bool,
) -> None:
    """Follow one assignment: its names become half, or stop being so."""
    if not isinstance(statement, ast.Assign):
        return
    half = is_half(program, statement.value, scope, known, may_start=may_start)
    parts = half_entries(program, statement.value, scope) if may_start else ()
    for target in statement.targets:
        if isinstance(target, ast.Name):
            (known.add if half else known.discard)(target.id)
            known |= {f"{target.id}[{key}]" for key in parts}
        elif isinstance(target, ast.Tuple) and half:
            known |= names_in(target)  # the parts of what a model gives
        else:
            known -= names_in(target)


def is_half(
    program: Program,
    expr: ast.expr,
    scope: Scope,
    known: set[str],
    *,
    may_start: bool,
) -> bool:
    """Whether `expr` is half for sure, as far as names tell: a model's output, or one of `known`
    with its type kept.
    """
    if isinstance(expr, ast.Name):
        return expr.id in known
    if isinstance(expr, ast.Subscript) and ast.unparse(expr) in known:
        return True
    parts = _parts_of_dtype(program, expr)
    if parts:
        return all(
            is_half(program, part, scope, known, may_start=may_start)
            for part in parts
        )
    if not isinstance(expr, ast.Call):
        return False
    func = expr.func
    if isinstance(func, ast.Attribute) and func.attr in KEEPS_DTYPE:
        casts = func.attr == "to" and any(
            "float" in ast.unparse(a)
            for a in [*expr.args, *(k.value for k in expr.keywords)]
        )
        return not casts and is_half(
            program, func.value, scope, known, may_start=may_start
        )
    return may_start and (
        _is_model(program, expr, scope)
        and not _ends_in_float(program, expr, scope)
        or gives_half(program, expr, scope)
    )


def _parts_of_dtype(program: Program, expr: ast.expr) -> list[ast.expr]:
    """What gives an expression its dtype: both sides of a sum, the one that is no number, what is
    negated or sliced, and what `torch.cat` joins.
    """
    if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.USub):
        return [expr.operand]
    if isinstance(expr, ast.Subscript):
        return [expr.value] if isinstance(expr.slice, _SLICES) else []
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, _KEEPING):
        sides = (expr.left, expr.right)
        return [one for one in sides if not isinstance(one, ast.Constant)]
    if not isinstance(expr, ast.Call) or not expr.args:
        return []
    if (program.canonical(expr.func) or "") in _JOINS:
        joined = expr.args[0]
        if isinstance(joined, (ast.List, ast.Tuple)):
            return joined.elts
    return []


def _is_model(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    return program.values.callee(call, scope) is None and (
        program.effects.is_forward(call, scope) or _is_moved(program, call.func)
    )


def _is_moved(program: Program, called: ast.expr) -> bool:
    """Whether what is called was moved to a device, as only a module is: `self.net =
    net.to(device)`.
    """
    name = dotted_name(called)
    if name is None or criterion_name(name.rpartition(".")[2]):
        return False
    held = program.reaching.at(called, name).bindings
    given = [part_of(one) for one in held]
    return bool(given) and all(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr in MOVES
        for one in given
    )


def _ends_in_float(program: Program, call: ast.Call, scope: Scope) -> bool:
    """A model in sight that casts its output, or computes its loss itself."""
    cls = program.values.of(call.func, scope).cls
    forward = program.graph.method(cls, "forward") if cls is not None else None
    if forward is None:
        return False
    returned = [
        n.value
        for n in nodes(forward.body)
        if isinstance(n, ast.Return) and n.value is not None
    ]
    return any(
        ".float()" in ast.unparse(r)
        or "softmax" in ast.unparse(r)
        or "loss" in ast.unparse(r)
        for r in returned
    )


def bare_uses(node: ast.AST, names: set[str]) -> list[ast.expr]:
    """Uses of `names` in `node` that are not cast to float right away."""
    parents = {
        child: parent
        for parent in shallow(node)
        for child in children_of(parent)
    }
    found: list[ast.expr] = []
    for inner in shallow(node):
        if (
            _names(inner) in names
            and isinstance(inner, (ast.Name, ast.Subscript))
            and isinstance(inner.ctx, ast.Load)
            and not _is_cast(inner, parents)
        ):
            found.append(inner)
    return found


def _names(node: ast.AST) -> str | None:
    """`x` of a variable, `x['key']` of what it has under a key."""
    if isinstance(node, ast.Subscript):
        is_key = isinstance(node.slice, ast.Constant)
        return ast.unparse(node) if is_key else None
    return node.id if isinstance(node, ast.Name) else None


def _is_cast(name: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    here: ast.AST = name
    while here in parents and not isinstance(here, (ast.stmt, *FUNCTIONS)):
        parent = parents[here]
        if isinstance(parent, ast.Attribute) and parent.attr in {
            "float",
            "double",
            "to",
            "type",
            "type_as",
            "shape",
            "size",
            "device",
            "dtype",
            "item",
        }:
            return True
        if isinstance(parent, ast.Call) and here in parent.args:
            return False
        here = parent
    return False


def gives_half(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    """Whether every function in sight that a call in the region runs gives half precision."""
    given = list(_given_back(program, call, scope))
    return bool(given) and all(
        is_half(program, value, inner, known, may_start=True)
        for value, inner, known in given
    )


def half_entries(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> set[str]:
    """The keys, as they are written, under which such a function gives half precision in a dict."""
    if not isinstance(expr, ast.Call):
        return set()
    found = [
        {
            ast.unparse(key)
            for key, part in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant)
            and is_half(program, part, inner, known, may_start=True)
        }
        for value, inner, known in _given_back(program, expr, scope)
        if isinstance(value, ast.Dict)
    ]
    return set.intersection(*found) if found else set()


def _given_back(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Scope, set[str]]]:
    """What the functions give back that a call runs, with the half-precision names in there."""
    for function in program.values.callees(call, scope):
        inner = program.scope(function)
        if function.decorator_list or any(
            region_of(program, one) is not None for one in inner.calls
        ):
            return  # it has regions of its own
        known: set[str] = set()
        for statement in statements(function.body):
            note(program, statement, inner, known, may_start=True)
        for value in returned(function):
            yield value, inner, known
