"""Seeded faults: every small change to a correct rewrite, sorted by who must notice it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Judge = Literal["guard", "protocol", "harmless"]
BLOCKS = ("body", "orelse", "finalbody")
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
}


@dataclass(frozen=True)
class Mutant:
    """A changed program, what was changed, and who must notice: `protocol` names what the state
    machine is for.
    """

    change: str
    text: str
    judge: Judge


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of `source` that differs from it as a program."""
    was = ast.dump(ast.parse(source))
    seen = {was}
    for operator in OPERATORS:
        for change, judge, tree in operator(source):
            text = ast.unparse(ast.fix_missing_locations(tree))
            if (code := ast.dump(ast.parse(text))) not in seen:
                seen.add(code)
                yield Mutant(f"{operator.__name__}: {change}", text, judge)


Changed = Iterator[tuple[str, Judge, ast.Module]]


def kind(node: ast.stmt) -> str:
    """What a statement is to AMP: update, unscale, construction, prologue, restore or (nothing)
    program.
    """
    text = ast.unparse(node)
    first = text.partition("\n")[0]
    if first.endswith("scaler.update()"):
        return "update"
    if "scaler.unscale_(" in first:
        return "unscale"
    if first.startswith("if ") and "load_state_dict" in text and ".get('scaler')" in first:
        return "restore"
    if "GradScaler(" in first and not first.startswith("if"):
        return "construction"
    if first == "if scaler is None:":
        return "prologue"
    if first.startswith(
        ("import torch", "scale_before =", "use_amp =", "amp_dtype =", "self.scaler = scaler")
    ):
        return "construction"
    return "program"


def judge_of(*nodes: ast.stmt, moved: bool = False) -> Judge:
    """Who must notice that these statements were lost, moved or doubled."""
    kinds = {kind(node) for node in nodes}
    if kinds & {"update", "unscale"}:
        return "protocol"
    if "restore" in kinds or (moved and "construction" in kinds):
        return "harmless"
    return "guard"


def blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    """Every statement list."""
    found = [getattr(node, name, None) for node in ast.walk(tree) for name in BLOCKS]
    return [block for block in found if isinstance(block, list) and block]


def places(
    source: str, wanted: Callable[[list[ast.stmt], int], bool] = lambda *_: True
) -> Iterator[tuple[ast.Module, list[ast.stmt], int]]:
    """A fresh tree for each place (block, index) that `wanted` accepts."""
    tree = ast.parse(source)
    for number, original in enumerate(blocks(tree)):
        for index in range(len(original)):
            if wanted(original, index):
                fresh = ast.parse(source)
                yield fresh, blocks(fresh)[number], index


def drop(source: str) -> Changed:
    """Lose a statement."""
    for tree, block, index in places(source):
        lost = block.pop(index)
        if not block:
            block.append(ast.Pass())
        yield ast.unparse(lost), judge_of(lost), tree


def duplicate(source: str) -> Changed:
    """Run a statement twice."""
    for tree, block, index in places(source):
        block.insert(index, copy.deepcopy(block[index]))
        doubled = block[index]
        judge = "harmless" if kind(doubled) == "prologue" else judge_of(doubled, moved=True)
        yield ast.unparse(doubled), judge, tree


def swap(source: str) -> Changed:
    """Exchange neighbours."""
    for tree, block, index in places(source, lambda block, index: index + 1 < len(block)):
        pair = block[index : index + 2]
        block[index : index + 2] = reversed(pair)
        yield " <> ".join(map(ast.unparse, pair)), judge_of(*pair, moved=True), tree


def guard_by_if(source: str) -> Changed:
    """Put a statement under a condition."""
    for tree, block, index in places(source):
        judge = judge_of(block[index])
        change = ast.unparse(block[index])
        block[index] = ast.If(test=ast.Name("verbose", ast.Load()), body=[block[index]], orelse=[])
        yield change, judge, tree


def unwrap_if(source: str) -> Changed:
    """Take a condition away."""
    for tree, block, index in places(source, lambda block, index: isinstance(block[index], ast.If)):
        found = block[index]
        assert isinstance(found, ast.If)
        block[index : index + 1] = found.body
        # Without its test the scheduler steps as it did before the rewrite.
        yield (
            ast.unparse(found.test),
            "harmless" if "get_scale" in ast.unparse(found.test) else "guard",
            tree,
        )


def move_out(source: str) -> Changed:
    """Take the last statement of an `if` or a loop out of it."""
    compound = (ast.If, ast.For)
    for tree, block, index in places(
        source, lambda block, index: isinstance(block[index], compound)
    ):
        inner = block[index]
        assert isinstance(inner, compound)
        moved = inner.body.pop()
        if not inner.body:
            inner.body.append(ast.Pass())
        block.insert(index + 1, moved)
        yield ast.unparse(moved), judge_of(moved), tree


def nodes(source: str, wanted: Callable[[ast.AST], bool]) -> Iterator[tuple[ast.Module, ast.AST]]:
    """A fresh tree for each node that `wanted` accepts."""
    tree = ast.parse(source)
    for number in [number for number, node in enumerate(ast.walk(tree)) if wanted(node)]:
        fresh = ast.parse(source)
        yield fresh, list(ast.walk(fresh))[number]


def constants(source: str) -> Changed:
    """Another number, string or flag."""
    for tree, node in nodes(source, lambda node: isinstance(node, ast.Constant)):
        assert isinstance(node, ast.Constant)
        was = node.value
        if isinstance(was, bool):
            node.value = not was
        elif isinstance(was, str):
            node.value = {"cuda": "cpu"}.get(was, was + "_")
        elif was is None:
            node.value = 0
        elif isinstance(was, (int, float)):
            node.value = was + 1
        yield repr(was), "guard", tree


def names(source: str) -> Changed:
    """Another variable read; the argument of unscale_ is the protocol's."""
    unscaled: set[tuple[int, int]] = set()
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "unscale_":
            unscaled |= {
                (node.lineno, node.col_offset)
                for node in ast.walk(call.args[0])
                if isinstance(node, ast.Name)
            }
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    ):
        assert isinstance(node, ast.Name)
        was, node.id = node.id, f"other_{node.id}"
        yield was, "protocol" if (node.lineno, node.col_offset) in unscaled else "guard", tree


def calls(source: str) -> Changed:
    """An argument lost, a keyword lost, a method without arguments (`.detach()`) lost."""
    for tree, node in nodes(source, lambda node: isinstance(node, ast.Call) and bool(node.args)):
        assert isinstance(node, ast.Call)
        lost = node.args.pop()
        yield f"argument {ast.unparse(lost)}", "guard", tree
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.Call) and bool(node.keywords)
    ):
        assert isinstance(node, ast.Call)
        lost_keyword = node.keywords.pop()
        yield (
            f"keyword {lost_keyword.arg}",
            "guard" if lost_keyword.arg != "scaler" or not is_dict(node) else "harmless",
            tree,
        )
    for tree, node in nodes(
        source, lambda node: isinstance(getattr(node, "value", None), ast.Call)
    ):
        call = node.value  # type: ignore[attr-defined]
        if isinstance(call.func, ast.Attribute) and not call.args:
            node.value = call.func.value  # type: ignore[attr-defined]
            judge = judge_of(ast.Expr(call))
            yield f"method {call.func.attr}", judge if judge != "protocol" else "guard", tree


def is_dict(node: ast.Call) -> bool:
    """`dict(...)`."""
    return isinstance(node.func, ast.Name) and node.func.id == "dict"


def operators(source: str) -> Changed:
    """Another operator."""
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED
    ):
        assert isinstance(node, ast.Compare)
        node.ops[0] = COMPARED[type(node.ops[0])]()
        yield ast.unparse(node), "guard", tree
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.BinOp) and type(node.op) in COMPUTED
    ):
        assert isinstance(node, ast.BinOp)
        node.op = COMPUTED[type(node.op)]()
        yield ast.unparse(node), "guard", tree


def headers(source: str) -> Changed:
    """A parameter lost or exchanged with its neighbour, a `global` name lost."""
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.arguments) and bool(node.args)
    ):
        assert isinstance(node, ast.arguments)
        lost = node.args.pop(0)
        yield f"parameter {lost.arg}", "guard", tree
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.arguments) and len(node.args) > 1
    ):
        assert isinstance(node, ast.arguments)
        node.args[-2:] = reversed(node.args[-2:])
        yield f"order of {node.args[-1].arg}", "guard", tree
    for tree, node in nodes(
        source, lambda node: isinstance(node, ast.Global) and len(node.names) > 1
    ):
        assert isinstance(node, ast.Global)
        yield f"global {node.names.pop()}", "guard", tree


OPERATORS = (
    drop,
    duplicate,
    swap,
    guard_by_if,
    unwrap_if,
    move_out,
    constants,
    names,
    calls,
    operators,
    headers,
)
