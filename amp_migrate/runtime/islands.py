"""The rewritten program with some of its modules in float32, as text: what `--bisect` tries is what
it writes.
"""

from __future__ import annotations

import ast
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.edits import (
    AddImport,
    Edit,
    InsertBefore,
    ReplaceExpression,
    Template,
    WrapStatements,
)
from amp_migrate.rewrite.writer import WriteError, apply
from amp_migrate.runtime.linemap import line_map
from amp_migrate.runtime.trace import Place
from amp_migrate.torch_facts.methods import AS_THEY_ARE

HEADER = 'torch.autocast("cuda", enabled=False)'
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def kept(
    places: Iterable[Place],
    rewrites: Mapping[str, str],
    original: Callable[[str], str],
) -> dict[str, str] | None:
    """`rewrites` with what stands at `places` in float32; None where there is no way to write it.

    `original` reads a file as it is on disk.
    """
    by_file: dict[str, list[Place]] = {}
    for place in dict.fromkeys(places):
        by_file.setdefault(os.path.realpath(place.file), []).append(place)
    found = dict(rewrites)
    for file, own in by_file.items():
        before = original(file)
        text = _written(before, found.get(file, before), own)
        if text is None:
            return None
        found[file] = text
    return found


def _written(before: str, text: str, places: list[Place]) -> str | None:
    module, lines = Module(text, ""), line_map(before, text).line
    edits: list[Edit] = [AddImport("torch")]
    for place in places:
        new = [
            edit
            for node in nodes_in(module.tree)
            if isinstance(node, ast.stmt) and _stands_at(node, place, lines)
            for edit in _edits(node, place, module)
        ]
        if not new:
            return None
        edits += new
    try:
        return apply(text, edits)
    except WriteError:
        return None


def _stands_at(node: ast.stmt, place: Place, lines: tuple[int, ...]) -> bool:
    if not place.expression:
        # A function begins at its first decorator.
        first = min(
            [
                node.lineno,
                *(one.lineno for one in getattr(node, "decorator_list", ())),
            ]
        )
        return isinstance(node, _DEFINITIONS) and lines[first] == place.line
    return isinstance(node, _SIMPLE) and (
        lines[node.lineno]
        <= place.line
        <= lines[node.end_lineno or node.lineno]
    )


def _edits(node: ast.stmt, place: Place, module: Module) -> Iterator[Edit]:
    if isinstance(node, _DEFINITIONS):
        yield from _body(node, place, module)
        return
    calls = [
        call
        for call in nodes_in(node)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == place.expression
    ]
    if calls and not any(_computes(one, calls) for one in nodes_in(node)):
        yield WrapStatements(module.span(node), module.span(node), HEADER)
    else:
        for span in (module.span(call.func) for call in calls):
            yield ReplaceExpression(span, Template(f"{HEADER}($0)", (span,)))
    for call in calls:
        for span in map(module.span, _floats(call, place.floats)):
            yield ReplaceExpression(span, Template("$0.float()", (span,)))


def _computes(node: ast.AST, calls: list[ast.Call]) -> bool:
    """Whether it may be something else that autocast has a say in: then the calls alone are
    wrapped, as autocast wraps a function, and their arguments are computed as before.
    """
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) if name in AS_THEY_ARE:
            return False
        case ast.Call():
            return node not in calls
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
            return True
    return False


def _floats(
    call: ast.Call, floats: tuple[int | str, ...]
) -> Iterator[ast.expr]:
    """The arguments that are floating tensors, but for those behind a starred one."""
    plain = itertools.takewhile(
        lambda one: not isinstance(one, ast.Starred), call.args
    )
    yield from (one for index, one in enumerate(plain) if index in floats)
    yield from (one.value for one in call.keywords if one.arg in floats)


def _body(
    node: ast.FunctionDef | ast.AsyncFunctionDef, place: Place, module: Module
) -> Iterator[Edit]:
    """The whole forward, without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return
    names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)][1:]
    known = [*names, *(one.arg for one in node.args.kwonlyargs)]
    casts = [
        f"{name} = {name}.float()"
        for index, name in enumerate(known)
        if name in place.floats
        or (index < len(names) and index in place.floats)
    ]
    first, last = module.span(body[0]), module.span(body[-1])
    yield WrapStatements(first, last, HEADER)
    if casts:
        yield InsertBefore(first, tuple(Template(cast) for cast in casts))
