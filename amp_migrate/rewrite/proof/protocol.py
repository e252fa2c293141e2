"""What a rewritten program must keep of the scaler's protocol, asked of the same analysis as the
lint rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.mistakes import answer, mistakes

UNFOLLOWED = "too-many-paths"
"""The reason for which a loop is refused whose paths cannot all be followed."""


def protocol_failures(text: str) -> list[str]:
    """One message per broken rule of the protocol in a program, with its line; empty where there is
    none.

    Reads of scaled gradients, a warning to the linter, count here: a rewrite unscales before them.

    Raises SyntaxError, ValueError or RecursionError for a text that cannot be read.
    """
    program = Program(text, "<output>")
    found = [f"line {m.node.lineno}: {m.rule}" for m in mistakes(program)]
    if not _is_followed(program):
        found.append(f"line 1: {UNFOLLOWED}")
    return [*found, *_forgotten(program)]


def protocol_mistakes(text: str) -> list[tuple[str, str]]:
    """The same as pairs of rule and scope."""
    return [one[:2] for one in mistakes_of(Program(text, "<output>"))]


def mistakes_of(program: Program) -> list[tuple[str, str, int]]:
    """The same of a program that is read already, with the lines; 0 where it stands at none."""
    found = [
        (rule, program.module.scope_of(node).qualname, _line(node))
        for rule, node in _wrong_nodes(program)
    ]
    if not found and not _is_followed(program):
        found.append((UNFOLLOWED, "", 0))
    return [
        *found,
        *(("missing-scaler-update", "", 0) for _ in _forgotten(program)),
    ]


def mistakes_in(program: Program, whole: Program) -> list[tuple[str, str, int]]:
    """Those of one file that the program shows, too, of which the file is a part: its callers may
    clear the gradients that a function leaves behind.
    """
    found = mistakes_of(program)
    if not found:
        return []
    if not _is_followed(whole):
        return found
    wrong = set(_wrong_scopes(whole, program.module.path))
    wrong.add("")
    return [one for one in found if one[1] in wrong]


def _wrong_scopes(whole: Program, path: str) -> Iterator[str]:
    """The scopes of a file in which a program breaks the protocol."""
    module = whole.module
    for _, node in _wrong_nodes(whole):
        scope = module.scope_of(node)
        if scope.module.path == path:
            yield scope.qualname


def _wrong_nodes(program: Program) -> list[tuple[str, ast.AST]]:
    """Where a program breaks the protocol; where it does not, what it leaves behind."""
    found: list[tuple[str, ast.AST]]
    found = [(one.rule, one.node) for one in mistakes(program)]
    return found or list(_leaks(program))


def _leaks(program: Program) -> Iterator[tuple[str, ast.AST]]:
    """The scaled backwards whose gradients a plain step may meet."""
    for one in answer(program).leaks:
        for node, _ in one.related or ((one.node, ""),):
            yield one.rule, node


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _is_followed(program: Program) -> bool:
    """Whether every path was followed, and none that may not happen breaks a rule."""
    found = answer(program)
    return found.complete and not found.doubts


def _forgotten(program: Program) -> list[str]:
    """Scalers that step somewhere in the module and are updated nowhere in it; no loop need be in
    sight for that.
    """
    events = program.events
    calls = [
        (call, events.what(call, scope))
        for scope in program.module.scopes.values()
        for call in scope.calls
    ]
    steps = [call for call, what in calls if what == EventKind.SCALER_STEP]
    if not steps or any(what == EventKind.UPDATE for _, what in calls):
        return []
    first: ast.Call = min(steps, key=lambda call: call.lineno)
    return [f"line {first.lineno}: missing-scaler-update"]
