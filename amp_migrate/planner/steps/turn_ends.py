"""Where a turn of a training loop ends early."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import LOOPS, Module

EXITS = (ast.Continue, ast.Break, ast.Return)
_ENDS_RUN = (ast.Return, ast.Raise)


def cut_off(module: Module, first: ast.stmt, later: ast.stmt) -> bool:
    """Whether a turn that runs `first` never comes to `later`: it ends in
    between (`step(); return`), or they stand in two branches of one `if`.
    """
    around = {id(later), *map(id, module.ancestors(later))}
    ends: tuple[type[ast.stmt], ...] = (*EXITS, ast.Raise)
    here: ast.stmt | None = first
    while here is not None and id(here) not in around:
        block = module.block_of(here)
        if any(id(one) in around for one in block):
            return False
        if _ends_in(block, here, ends):
            return True
        above = module.statement_around(here)
        if above is not None and id(above) in around:
            return isinstance(above, ast.If)
        if isinstance(above, LOOPS):
            ends = _ENDS_RUN
        here = above
    return False


def _ends_in(
    block: list[ast.stmt], after: ast.stmt, ends: tuple[type[ast.stmt], ...]
) -> bool:
    rest = block[block.index(after) :]
    return any(isinstance(one, ends) for one in rest)
