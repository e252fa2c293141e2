"""Mistakes planted in programs that the migrator made: found, mended, and the program is the same
but for AMP.
"""

from __future__ import annotations

import ast
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import fix_text, lint_text
from amp_migrate.pipeline.migrate import migrate_text
from tests.loops import Shape, program, shapes

S = r"(?P<scaler>[\w.]*scaler)"
MISTAKES = {
    "update lost": (rf"^{S}\.update\(\)$", "pass", "missing-scaler-update"),
    "unscale_ lost": (rf"^{S}\.unscale_\(.*\)$", "pass", "clip-without-unscale"),
    "step past the scaler": (
        rf"^{S}\.step\((?P<what>.*)\)$",
        r"\g<what>.step()",
        "bare-optimizer-step",
    ),
    "unscale_ doubled": (
        rf"^(?P<line>{S}\.unscale_\(.*\))$",
        r"\g<line>; \g<line>",
        "double-unscale",
    ),
    "update doubled": (
        rf"^(?P<line>{S}\.update\(\))$",
        r"\g<line>; \g<line>",
        "double-or-stray-update",
    ),
    "older torch": (
        r"(?P<torch>torch|th)\.autocast\(\"cuda\", ",
        r"\g<torch>.cuda.amp.autocast(",
        "deprecated-cuda-amp",
    ),
    "switch as dtype": (
        r"\.autocast\(\"cuda\", dtype=[\w.]+, enabled=(?P<switch>.+)\):$",
        r'.autocast("cuda", \g<switch>):',
        "positional-enabled-in-autocast",
    ),
}


class Plain(ast.NodeTransformer):
    """The program without AMP, told apart from the guard's own eraser."""

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if "autocast" in ast.unparse(node.items[0]) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        self.generic_visit(node)
        return None if re.search(r"scaler\.(update|unscale_)\(", ast.unparse(node)) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if "GradScaler" in ast.unparse(node.value) else self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """A spelling may need one more."""

    visit_ImportFrom = visit_Pass = visit_Import

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        func = node.func
        if not isinstance(func, ast.Attribute) or not ast.unparse(func.value).endswith("scaler"):
            return node
        if func.attr == "scale":
            return node.args[0]
        return (
            ast.Call(ast.Attribute(node.args[0], "step", ast.Load()), [], [])
            if func.attr == "step"
            else node
        )


def plain(text: str) -> str:
    """The text of the program without AMP; empty blocks hold `pass`."""
    tree = Plain().visit(ast.parse(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(ast.fix_missing_locations(tree))


def planted(text: str, kind: str) -> str | None:
    """The first line that the mistake fits, changed; what a lost `unscale_` was for must read the
    gradients.
    """
    pattern, replacement, _ = MISTAKES[kind]
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        bare = line.strip()
        if re.search(pattern, bare):
            return "".join(
                [
                    *lines[:number],
                    line.replace(bare, re.sub(pattern, replacement, bare)),
                    *lines[number + 1 :],
                ]
            )
    return None


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(shapes, st.sampled_from(sorted(MISTAKES)))
def test_a_fix_mends_the_mistake_and_nothing_else(shape: Shape, kind: str) -> None:
    right = migrate_text(program(shape), "train.py", Settings()).output
    assert right is not None
    wrong = planted(right, kind)
    if wrong is None:
        return
    once = fix_text(wrong, "train.py", Settings())
    assert plain(once) == plain(wrong) == plain(right)
    assert fix_text(once, "train.py", Settings()) == once
    left = [one for one in lint_text(once, "train.py", Settings()) if one.rule == MISTAKES[kind][2]]
    assert not [one for one in left if one.fix and one.fix.safety == "safe"]
