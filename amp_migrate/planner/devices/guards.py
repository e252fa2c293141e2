"""Conditions under which a function gives back what it was to move: `if not use_cuda: return x`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.planner.switch.project_flag import is_condition
from amp_migrate.torch_facts.devices import device

_LISTS = frozenset({"len", "list", "tuple", "dict"})


def guards_before(node: ast.AST, scope: Scope) -> Iterator[ast.expr]:
    """The tests of those behind which a node stands, innermost first."""
    module, function = scope.module, scope.node
    if not isinstance(function, FUNCTIONS):
        return
    rest = (function.args.vararg, function.args.kwarg)
    given = {one.arg for one in (*scope.parameters(), *rest) if one is not None}
    here = module.statement_of(node)
    for one in (here, *module.ancestors(here)):
        if one is function:
            return
        if isinstance(one, ast.stmt):
            block = module.block_of(one)
            for earlier in reversed(block[: block.index(one)]):
                if isinstance(earlier, ast.If) and _gives_back(earlier, given):
                    yield earlier.test


def _gives_back(branch: ast.If, given: set[str]) -> bool:
    """Whether a branch ends the function with what it was given as it is, for a reason that does
    not lie in that: `if x is None: return x` asks for the thing, not for a device.
    """
    last = branch.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return False
    names = names_in(last.value)
    if not names & given or names & names_in(branch.test):
        return False
    done = (node for one in branch.body for node in nodes_in(one))
    return all(
        isinstance(one.func, ast.Name) and one.func.id in _LISTS
        for one in done
        if isinstance(one, ast.Call)
    )


def may_tell_device(test: ast.expr, beside: bool) -> bool:
    """Whether a condition may be about a device. `beside` one that asks for a GPU, what is compared
    with a text is only where that names a device, and `args.model != "gnn"` is not.
    """
    texts = [
        one.value
        for node in nodes_in(test)
        if beside and isinstance(node, ast.Compare)
        for one in node.comparators
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    return is_condition(test) and all(
        device(one) is not None or "gpu" in one for one in texts
    )
