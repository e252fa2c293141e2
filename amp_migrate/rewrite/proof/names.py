"""Every name that a rewrite brings must be free where it is set, and set where it is read."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.proof.beside import is_made_beside
from amp_migrate.rewrite.proof.forms import Forms, device, dotted
from amp_migrate.rewrite.proof.scopes import FUNCTIONS, Mention, Scope, build
from amp_migrate.rewrite.proof.signatures import signature_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amp_migrate.rewrite.proof.facts import Introduced

Fault: TypeAlias = "tuple[int, str]"


def name_faults(
    before: ast.Module, after: ast.Module, introduced: Introduced
) -> list[Fault]:
    """Lines of the output and what is wrong there; both trees as parsed, before anything is
    erased.
    """
    nodes = list(nodes_in(after))
    emitted = _emitted(nodes, Forms(introduced))
    read = [
        node
        for value in emitted
        for node in nodes_in(value)
        if isinstance(node, ast.Name)
    ]
    inputs = frozenset(node.id for node in read)
    places = frozenset((node.lineno, node.col_offset) for node in read)
    defined = frozenset(
        node.name
        for node in nodes
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
    )
    old, new = (
        build(before, introduced.bindings | inputs),
        build(after, introduced.bindings | inputs | defined),
    )
    pairs = list(zip(old.walk(), new.walk(), strict=False))
    found = [
        fault
        for left, right in pairs
        for fault in _scope_faults(left, right, introduced.bindings)
    ]
    found += [
        fault
        for _, scope in pairs
        for fault in _input_faults(scope, places, inputs - introduced.bindings)
    ]
    found += _attribute_faults(before, nodes, introduced)
    found += _device_faults(emitted)
    found += signature_faults(pairs, nodes, introduced)
    return sorted(set(found))


def _emitted(nodes: list[ast.AST], forms: Forms) -> list[ast.expr]:
    """The expressions that the rewrite evaluates: region headers, scaler constructions, values of
    new names.
    """
    found: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.With):
            found += [
                item.context_expr
                for item in node.items
                if forms.is_region(item)
            ]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            scaler = forms.is_scaler(node.targets[0]) and forms.is_constructor(
                node.value
            )
            if scaler or (
                forms.is_new_name(node.targets[0])
                and forms.is_value_of_name(node.value)
            ):
                found.append(node.value)
    return found


def _scope_faults(
    before: Scope, after: Scope, names: frozenset[str]
) -> Iterator[Fault]:
    for name in sorted(names & {mention.name for mention in after.mentions}):
        sets, reads = after.of(name, "set"), after.of(name, "read")
        if len(sets) > len(before.of(name, "set")) and (
            used := list(before.sees(name))
        ):
            yield sets[0].position[0], _taken(name, used[0].position[0])
        if len(reads) > len(before.of(name, "read")):
            yield from _read_faults(after, sets, reads)


def _read_faults(
    scope: Scope, sets: list[Mention], reads: list[Mention]
) -> Iterator[Fault]:
    name, owner = reads[0].name, scope.owner(reads[0].name)
    if owner is None:
        yield reads[0].position[0], f"`{name}` is read here but never set"
    elif owner is scope:
        for read in reads:
            earlier = [
                mention for mention in sets if mention.position < read.position
            ]
            if not earlier:
                yield (
                    read.position[0],
                    f"`{name}` is read here before it is set",
                )
            elif (
                len(earlier) == 1
                and not earlier[0].conditions <= read.conditions
                and not is_made_beside(scope.node, name, read.position)
            ):
                yield (
                    read.position[0],
                    f"`{name}` is read here but set only on the branch at line {_line(earlier)}",
                )


def _taken(name: str, line: int) -> str:
    return f"`{name}` is new here, but line {line} of the original already uses that name"


def _line(mentions: list[Mention]) -> int:
    return mentions[0].position[0]


def _input_faults(
    scope: Scope, places: frozenset[tuple[int, int]], names: frozenset[str]
) -> Iterator[Fault]:
    """What a new expression reads must be there when it is evaluated."""
    for name in sorted(names & {mention.name for mention in scope.mentions}):
        sets = scope.of(name, "set")
        owner = scope.owner(name)
        for read in scope.of(name, "read"):
            if read.position not in places:
                continue
            if (
                owner is None
                and not hasattr(builtins, name)
                and not _has_star_import(scope)
            ):
                yield read.position[0], f"`{name}` is read here but never set"
            elif owner is scope and not any(
                mention.position < read.position for mention in sets
            ):
                yield (
                    read.position[0],
                    f"`{name}` is read here before it is set",
                )


def _has_star_import(scope: Scope) -> bool:
    while scope.parent:
        scope = scope.parent
    nodes = (
        node
        for node in nodes_in(scope.node)
        if isinstance(node, ast.ImportFrom)
    )
    return any(alias.name == "*" for node in nodes for alias in node.names)


def _attribute_faults(
    before: ast.Module, nodes: list[ast.AST], introduced: Introduced
) -> Iterator[Fault]:
    paths = {
        path for path in introduced.scalers | introduced.names if "." in path
    }
    if not paths:
        return
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    stored = {
        node.attr for node in attributes if isinstance(node.ctx, ast.Store)
    } | introduced.given
    old = {
        node.name: node
        for node in nodes_in(before)
        if isinstance(node, ast.ClassDef)
    }
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and dotted(node) in paths
            and node.attr not in stored
        ):
            yield node.lineno, f"`{dotted(node)}` is read here but never set"
        elif isinstance(node, ast.ClassDef) and node.name in old:
            yield from _class_faults(old[node.name], node, paths)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = {
                p for p in paths if p.rpartition(".")[2] not in introduced.given
            }
            yield from _order_faults(node, own)


def _class_faults(
    before: ast.ClassDef, after: ast.ClassDef, paths: set[str]
) -> Iterator[Fault]:
    old, new = list(_paths(before, paths)), list(_paths(after, paths))
    for path in sorted(paths):
        sets = [
            node
            for node in new
            if dotted(node) == path and isinstance(node.ctx, ast.Store)
        ]
        used = [node for node in old if dotted(node) == path]
        if used and len(sets) > sum(
            isinstance(node.ctx, ast.Store) for node in used
        ):
            yield sets[0].lineno, _taken(path, used[0].lineno)


def _order_faults(
    function: ast.FunctionDef | ast.AsyncFunctionDef, paths: set[str]
) -> Iterator[Fault]:
    """In the function that sets an attribute, no read may come first; `additions` asks the same
    about those that a base class of another file has set.
    """
    found = sorted(
        _paths(function, paths), key=lambda node: (node.lineno, node.col_offset)
    )
    for path in sorted(paths):
        uses = [node for node in found if dotted(node) == path]
        if any(isinstance(node.ctx, ast.Store) for node in uses) and isinstance(
            uses[0].ctx, ast.Load
        ):
            yield uses[0].lineno, f"`{path}` is read here before it is set"


def _paths(tree: ast.AST, paths: set[str]) -> Iterator[ast.Attribute]:
    return (
        node
        for node in nodes_in(tree)
        if isinstance(node, ast.Attribute) and dotted(node) in paths
    )


def _device_faults(emitted: list[ast.expr]) -> Iterator[Fault]:
    """Regions and scalers that name their device must name the same."""
    places = [
        (value, device(value))
        for value in emitted
        if isinstance(value, ast.Call)
    ]
    named = [
        (value.lineno, place.value)
        for value, place in places
        if isinstance(place, ast.Constant)
    ]
    for line, device_type in named:
        if device_type != named[0][1]:
            yield (
                line,
                (
                    f"the device type is {device_type!r} here and {named[0][1]!r} in line "
                    f"{named[0][0]}"
                ),
            )
