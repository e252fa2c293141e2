"""What names may hold, through assignments that lead back to themselves."""

import ast

from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.program import Program

TEXT = """\
def run(x, layers):
    for layer in layers:
        x, cache = x
    return x
"""


def test_a_name_that_is_taken_apart_into_itself_is_followed_once() -> None:
    program = Program(TEXT, "run.py")
    function = program.module.tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    last = function.body[-1]
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.Name)
    parts = held(program, last.value, program.scope(function))
    assert [ast.unparse(expr) for _, expr, _ in parts] == ["x"]
