"""Nodes that lead from file to file are asked of the program at hand like its own."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.substitution import made_call

OTHER = "def run(rank):\n    if rank:\n        train(rank)\n"


def _call(module: Module) -> ast.Call:
    return next(n for n in module.nodes if isinstance(n, ast.Call))


def test_a_node_of_another_file_has_its_own_surroundings() -> None:
    here, other = Module("x = 1\n", "here.py"), Module(OTHER, "other.py")
    call = _call(other)
    statement = here.statement_of(call)
    assert statement is other.statement_of(call)
    assert here.scope_of(call) is other.scope_of(call)
    assert here.block_of(statement) is other.block_of(statement)
    assert here.statement_around(statement) is other.tree.body[0].body[0]  # type: ignore[attr-defined]
    assert call not in here.parents


def test_a_call_made_on_the_way_stands_where_its_function_is_named() -> None:
    here, other = Module("x = 1\n", "here.py"), Module(OTHER, "other.py")
    call = _call(other)
    made = made_call(call.func, [], [])
    assert here.statement_of(made) is other.statement_of(call)
    assert made.lineno == call.lineno


def test_a_node_of_no_file_has_none() -> None:
    with pytest.raises(KeyError):
        Module("x = 1\n", "here.py").scope_of(ast.Name("x", ast.Load()))
