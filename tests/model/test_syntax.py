"""Scopes, bindings, blocks and byte spans of a module."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.syntax.module import Module

BINDINGS = {
    "assign": ("x = 1", "assign"),
    "annotated": ("x: int = 1", "assign"),
    "augmented": ("x += 1", "augmented"),
    "unpacked": ("x, y = f()", "assign"),
    "starred": ("*x, y = f()", "assign"),
    "for": ("for x in y:\n    pass", "for"),
    "with": ("with f() as x:\n    pass", "with"),
    "walrus": ("if (x := f()):\n    pass", "walrus"),
    "import": ("import x", "import"),
    "from": ("from y import z as x", "import"),
    "def": ("def x():\n    pass", "def"),
    "class": ("class x:\n    pass", "def"),
}


@pytest.mark.parametrize(("source", "how"), BINDINGS.values(), ids=BINDINGS)
def test_bindings(source: str, how: str) -> None:
    assert [binding.how for binding in Module(source, "m.py").root.bindings["x"]] == [how]


UNBOUND = {
    "declared": "x: int",
    "read": "print(x)",
    "an attribute": "y.x = 1",
    "an item": "y['x'] = 1",
    "in a function": "def f():\n    x = 1",
    "a parameter": "def f(x):\n    pass",
    "in a class": "class A:\n    x = 1",
}


@pytest.mark.parametrize("source", UNBOUND.values(), ids=UNBOUND)
def test_other_uses_bind_nothing_here(source: str) -> None:
    assert "x" not in Module(source, "m.py").root.bindings


def test_global_binds_in_the_module() -> None:
    module = Module("def f():\n    global x\n    x = 1\n", "m.py")
    inner = next(scope for scope in module.scopes.values() if scope.qualname == "f")
    assert "x" in module.root.bindings
    assert inner.lookup("x") is module.root


def test_class_bodies_are_not_seen_from_methods() -> None:
    module = Module("x = 1\nclass A:\n    x = 2\n    def m(self):\n        pass\n", "m.py")
    method = next(scope for scope in module.scopes.values() if scope.qualname == "A.m")
    assert method.lookup("x") is module.root
    assert method.self_name == "self"


@pytest.mark.parametrize("mark", ["@staticmethod", "@classmethod"])
def test_methods_without_self(mark: str) -> None:
    module = Module(f"class A:\n    {mark}\n    def m(it):\n        pass\n", "m.py")
    method = next(scope for scope in module.scopes.values() if scope.qualname == "A.m")
    assert method.self_name is None


TEXTS = {
    "ASCII": "a = 1\nb = 2\n",
    "wide characters": "a = 'ü€'\nb = 2\n",
    "CRLF": "a = 1\r\nb = 2\r\n",
    "CR": "a = 1\rb = 2\r",
    "a form feed": "a = 'x\x0cy'\nb = 2\n",
    "a line separator": "a = 'x\u2028y'\nb = 2\n",
    "tabs": "if a:\n\tb = 2\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_spans_are_bytes(text: str) -> None:
    module = Module(text, "m.py")
    last = [node for node in ast.walk(module.tree) if isinstance(node, ast.Assign)][-1]
    span = module.span(last)
    assert text.encode()[span.start : span.end] == b"b = 2"


def test_blocks() -> None:
    source = (
        "try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\nmatch x:\n    case "
        "1:\n        e\n"
    )
    module = Module(source, "m.py")
    names = [node for node in ast.walk(module.tree) if isinstance(node, ast.Expr)]
    assert [len(module.block_of(statement)) for statement in names] == [1] * 5
