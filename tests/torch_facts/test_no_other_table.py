"""No other module of the package holds a table of torch's operators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.torch_facts import ops

PACKAGE = Path(__file__).parents[2] / "amp_migrate"
FACTS = PACKAGE / "torch_facts"
NAMES = {name for row in ops.ROWS for name in (*row.methods, row.name.rpartition(".")[2])}
# Names that are those of operators and of much else: attributes, methods of modules, modes.
ORDINARY = {"to", "cuda", "cpu", "float", "half", "double", "int", "long", "bool", "type", "data"}
ORDINARY |= {"item", "size", "shape", "device", "dtype", "dim", "numel", "is_cuda", "all", "any"}
ORDINARY |= {"set_", "copy_", "requires_grad_", "requires_grad", "numpy", "tolist", "split", "eq"}


def tables(path: Path) -> Iterator[int]:
    """Lines of collections of six or more names of operators."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            found = {e.value for e in node.elts if isinstance(e, ast.Constant)}
        elif isinstance(node, ast.Dict):
            found = {k.value for k in node.keys if isinstance(k, ast.Constant)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
            found = set(words) if all(w.isidentifier() for w in words) else set()
        else:
            continue
        if len((found & NAMES) - ORDINARY) >= 6:
            yield node.lineno


def test_tables_of_operators_stand_in_torch_facts() -> None:
    holding = {
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if FACTS not in path.parents and list(tables(path))
    }
    assert not holding


def test_a_table_is_seen(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text("A = {'matmul', 'mm', 'bmm', 'softmax', 'exp', 'log'}\n", encoding="utf-8")
    assert list(tables(sample)) == [1]
    sample.write_text("A = {'to', 'cuda', 'cpu', 'float', 'half', 'item'}\n", encoding="utf-8")
    assert list(tables(sample)) == []
