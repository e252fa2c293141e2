"""Which bindings of a name or attribute may reach a place, and whether one does on every path."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate.model.dataflow.reach import Reach
from amp_migrate.model.files.linking import LinkedProgram
from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Module
from tests.cost import growth
from tests.model.questions import asked

ORDER = {
    "the last one": ("x = 1\nx = 2\nask(x)", "2", True),
    "not the next one": ("x = 1\nask(x)\nx = 2", "1", True),
    "none yet": ("ask(x)\nx = 2", "", False),
    "its own value": ("x = 1\nx = ask(x)", "1", True),
    "both arms": ("if c:\n    x = 1\nelse:\n    x = 2\nask(x)", "1 2", True),
    "one arm": ("if c:\n    x = 1\nask(x)", "1", False),
    "a default and one arm": ("x = 0\nif c:\n    x = 1\nask(x)", "0 1", True),
    "an arm that ends": ("if c:\n    raise E\nelse:\n    x = 2\nask(x)", "2", True),
    "an arm that exits": (
        "import sys\nif c:\n    x = 1\nelse:\n    sys.exit()\nask(x)",
        "1",
        True,
    ),
    "all arms of elif": (
        "if a:\n    x = 1\nelif b:\n    x = 2\nelse:\n    x = 3\nask(x)",
        "1 2 3",
        True,
    ),
    "elif without else": ("if a:\n    x = 1\nelif b:\n    x = 2\nask(x)", "1 2", False),
    "inside one arm": ("x = 0\nif c:\n    x = 1\n    ask(x)\nelse:\n    x = 2", "1", True),
    "a test that always holds": ("if True:\n    x = 1\nask(x)", "1", True),
    "deleted": ("x = 1\ndel x\nask(x)", "", False),
    "deleted on one path": ("x = 1\nif c:\n    del x\nask(x)", "1", False),
    "a walrus": ("if (x := 1):\n    pass\nask(x)", "1", True),
    "a walrus before it": ("y = (x := 1) and ask(x)", "1", True),
    "a walrus that may not run": ("c and (x := 1)\nask(x)", "1", False),
    "augmented": ("x = 1\nx += 2\nask(x)", "2", True),
    "only annotated": ("x: int\nask(x)", "", False),
    "after an assertion that fails": (
        "if c:\n    x = 1\nelse:\n    assert False\nask(x)",
        "1",
        True,
    ),
    "an import under a condition": ("if c:\n    import x\nask(x)", "import", False),
    "an import with a fallback": (
        "try:\n    import x\nexcept ImportError:\n    x = None\nask(x)",
        "import None",
        True,
    ),
    "main only": ("if __name__ == '__main__':\n    x = 1\nask(x)", "1", False),
}

LOOPS = {
    "for may not run": ("for i in r:\n    x = 1\nask(x)", "1", False),
    "its target may not be bound": ("for x in r:\n    pass\nask(x)", "r", False),
    "its target in the body": ("for x in r:\n    ask(x)", "r", True),
    "the iterable comes first": ("x = 1\nfor x in ask(x):\n    pass", "1", True),
    "a default before the loop": ("x = 0\nfor i in r:\n    x = 1\nask(x)", "0 1", True),
    "from the round before": ("x = 0\nfor i in r:\n    ask(x)\n    x = 1", "0 1", True),
    "bound before it is used again": ("for i in r:\n    x = 1\n    ask(x)\n    x = 2", "1", True),
    "not from behind a continue": (
        "x = 0\nfor i in r:\n    ask(x)\n    if c:\n        x = 1\n        continue\n    x = 2",
        "0 1 2",
        True,
    ),
    "killed before the next round": (
        "x = 0\nfor i in r:\n    ask(x)\n    x = 1\n    x = 2",
        "0 2",
        True,
    ),
    "only through break": (
        "x = 0\nfor i in r:\n    if c:\n        x = 1\n        break\n    x = 2\nask(x)",
        "0 1 2",
        True,
    ),
    "endless": ("while True:\n    x = 1\n    if c:\n        break\nask(x)", "1", True),
    "endless with an early break": (
        "while True:\n    if c:\n        break\n    x = 1\nask(x)",
        "1",
        False,
    ),
    "while may not run": ("while c:\n    x = 1\nask(x)", "1", False),
    "the test of while": ("x = 1\nwhile ask(x):\n    x = 2", "1 2", True),
    "else of for": ("for i in r:\n    break\nelse:\n    x = 1\nask(x)", "1", False),
    "nested": (
        "x = 0\nfor i in r:\n    for j in r:\n        ask(x)\n        x = 1\n    x = 2",
        "0 1 2",
        True,
    ),
    "deleted in the loop": ("x = 0\nfor i in r:\n    ask(x)\n    del x", "0", False),
}

TRY = {
    "the handler sees any state": (
        "x = 0\ntry:\n    x = 1\n    x = 2\nexcept E:\n    ask(x)",
        "0 1 2",
        True,
    ),
    "the handler may see none": ("try:\n    x = 1\nexcept E:\n    ask(x)", "1", False),
    "behind a handler": ("try:\n    x = 1\nexcept E:\n    pass\nask(x)", "1", False),
    "behind a handler that ends": ("try:\n    x = 1\nexcept E:\n    raise\nask(x)", "1", True),
    "finally may see none": ("try:\n    x = 1\nfinally:\n    ask(x)", "1", False),
    "behind finally": ("try:\n    x = 1\nfinally:\n    y = 2\nask(x)", "1", True),
    "bound by finally": ("try:\n    f()\nfinally:\n    x = 2\nask(x)", "2", True),
    "a break through finally": (
        "for i in r:\n    try:\n        break\n    finally:\n        x = 2\nelse:\n    x = 3\nask(x)",
        "2 3",
        True,
    ),
    "else of try": ("try:\n    f()\nexcept E:\n    x = 1\nelse:\n    x = 2\nask(x)", "1 2", True),
    "the exception's name": ("try:\n    f()\nexcept E as x:\n    ask(x)", "except", True),
    "its name afterwards": ("x = 1\ntry:\n    f()\nexcept E as x:\n    pass\nask(x)", "1", False),
    "with": ("with f() as x:\n    pass\nask(x)", "f()", True),
    "with suppress": (
        "import contextlib\nwith contextlib.suppress(E):\n    x = 1\nask(x)",
        "1",
        False,
    ),
    "match": (
        "match c:\n    case 1:\n        x = 1\n    case _:\n        x = 2\nask(x)",
        "1 2",
        True,
    ),
    "match without a rest": ("match c:\n    case 1:\n        x = 1\nask(x)", "1", False),
    "captured": ("match c:\n    case [x, *_]:\n        ask(x)", "match", True),
}

SCOPES = {
    "a comprehension's own": ("x = 1\n[ask(x) for x in r]", "r", True),
    "a comprehension binds nothing": ("[x for x in r]\nask(x)", "", False),
    "its first iterable": ("x = 1\n[y for x in ask(x)]", "1", True),
    "a global": ("x = 1\ndef f():\n    ask(x)", "1", True),
    "a global that comes later": ("def f():\n    ask(x)\nx = 1", "1", True),
    "a global after the call": ("def f():\n    ask(x)\nf()\nx = 1", "1", False),
    "called through another": (
        "def f():\n    ask(x)\ndef g():\n    f()\ng()\nx = 1",
        "1",
        False,
    ),
    "a global of main": (
        "def f():\n    ask(x)\nif __name__ == '__main__':\n    x = 1\n    f()",
        "1",
        False,
    ),
    "bound where the function is made": (
        "if __name__ == '__main__':\n    x = 1\n    def f():\n        ask(x)",
        "1",
        True,
    ),
    "deleted after the function is made": ("x = 1\ndef f():\n    ask(x)\ndel x", "1", False),
    "set by another function": (
        "def g():\n    global x\n    x = 1\ndef f():\n    ask(x)",
        "1",
        False,
    ),
    "bound and set by another": (
        "x = 0\ndef g():\n    global x\n    x = 1\ndef f():\n    ask(x)",
        "0 1",
        True,
    ),
    "a parameter": ("def f(x):\n    ask(x)", "parameter", True),
    "a parameter that is bound anew": ("def f(x=None):\n    x = 1\n    ask(x)", "1", True),
    "a parameter that may be": (
        "def f(x):\n    if c:\n        x = 1\n    ask(x)",
        "parameter 1",
        True,
    ),
    "a closure": ("def f():\n    x = 1\n    def g():\n        ask(x)\n    return g", "1", True),
    "a closure sees later bindings": (
        "def f():\n    x = 1\n    def g():\n        ask(x)\n    x = 2\n    g()",
        "1 2",
        True,
    ),
    "a closure called later": (
        "def f():\n    def g():\n        ask(x)\n    x = 2\n    g()",
        "2",
        True,
    ),
    "a closure called too early": (
        "def f():\n    def g():\n        ask(x)\n    g()\n    x = 2",
        "2",
        False,
    ),
    "a builtin": ("ask(len)", "", True),
    "a name of nobody": ("ask(nobody)", "", False),
    "a name that was read": ("from zoo import *\nprint(lion)\nask(lion)", "", True),
    "a name that may have been read": (
        "from zoo import *\nif c:\n    print(lion)\nask(lion)",
        "",
        False,
    ),
    "a default value": ("x = 1\ndef f(x=ask(x)):\n    pass\nx = 2", "1", True),
}

ATTRIBUTES = {
    "of a name": ("args = f()\nargs.x = 1\nask(args.x)", "1", True),
    "one arm of it": ("args = f()\nif c:\n    args.x = 1\nask(args.x)", "1", False),
    "read before": ("args = f()\nprint(args.x)\nask(args.x)", "", True),
    "read of another object": ("args = f()\nprint(args.x)\nargs = g()\nask(args.x)", "", False),
    "an option": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x')\nargs = p.parse_args()\nask(args.x)",
        "",
        True,
    ),
    "no option": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--y')\nargs = p.parse_args()\nask(args.x)",
        "",
        False,
    ),
    "an option that may be missing": (
        "import argparse\np = argparse.ArgumentParser()\nif c:\n    p.add_argument('--x')\nargs = p.parse_args()\nask(args.x)",
        "",
        False,
    ),
    "of what a function returns": (
        "def get():\n    args = f()\n    args.x = 1\n    return args\nargs = get()\nask(args.x)",
        "1",
        True,
    ),
    "of a parameter": (
        "def train(args):\n    ask(args.x)\ndef main():\n    args = f()\n    args.x = 1\n    train(args)",
        "1",
        True,
    ),
    "of a parameter, one caller without": (
        "def train(args):\n    ask(args.x)\ndef main():\n    args = f()\n    args.x = 1\n    train(args)\ntrain(f())",
        "1",
        False,
    ),
    "of a parameter that escapes": (
        "def train(args):\n    ask(args.x)\ndef main():\n    args = f()\n    args.x = 1\n    train(args)\nrun(train)",
        "1",
        False,
    ),
    "of an instance": (
        "class A:\n    def __init__(self):\n        self.x = 1\na = A()\nask(a.x)",
        "1",
        True,
    ),
    "in another method": (
        "class A:\n    def __init__(self):\n        self.x = 1\n    def f(self):\n        ask(self.x)",
        "1",
        True,
    ),
    "set by a method only": (
        "class A:\n    def set(self):\n        self.x = 1\n    def f(self):\n        ask(self.x)",
        "1",
        False,
    ),
    "set by a method that was called": (
        "class A:\n    def set(self):\n        self.x = 1\n    def f(self):\n        self.set()\n        ask(self.x)",
        "1",
        True,
    ),
    "set by a method, perhaps": (
        "class A:\n    def set(self):\n        if c:\n            self.x = 1\n    def f(self):\n        self.set()\n        ask(self.x)",
        "1",
        False,
    ),
    "called by the constructor": (
        "class A:\n    def __init__(self):\n        self.set()\n    def set(self):\n        self.x = 1\n    def f(self):\n        ask(self.x)",
        "1",
        True,
    ),
    "before the constructor sets it": (
        "class A:\n    def __init__(self):\n        self.f()\n        self.x = 1\n    def f(self):\n        ask(self.x)",
        "1",
        False,
    ),
    "before super().__init__": (
        "class B:\n    def __init__(self):\n        self.x = 1\nclass A(B):\n    def __init__(self):\n        ask(self.x)\n        super().__init__()",
        "",
        False,
    ),
    "after super().__init__": (
        "class B:\n    def __init__(self):\n        self.x = 1\nclass A(B):\n    def __init__(self):\n        super().__init__()\n        ask(self.x)",
        "1",
        True,
    ),
    "after Base.__init__": (
        "class B:\n    def __init__(self):\n        self.x = 1\nclass A(B):\n    def __init__(this):\n        B.__init__(this)\n        ask(this.x)",
        "1",
        True,
    ),
    "of the class": (
        "class A:\n    x = 1\n    def __init__(self):\n        ask(self.x)",
        "1",
        True,
    ),
    "a property": (
        "class A:\n    @property\n    def x(self):\n        return 1\n    def f(self):\n        ask(self.x)",
        "def",
        True,
    ),
    "an heir that forgets": (
        "class A:\n    def __init__(self):\n        self.x = 1\n    def f(self):\n        ask(self.x)\nclass B(A):\n    def __init__(self):\n        pass",
        "1",
        False,
    ),
    "of a library's base class": (
        "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        ask(self.device)",
        "",
        False,
    ),
    "an attribute of an attribute": (
        "class N:\n    def __init__(self):\n        self.x = 1\nclass A:\n    def __init__(self):\n        self.net = N()\n    def f(self):\n        ask(self.net.x)",
        "1",
        True,
    ),
    "methods that call each other": (
        "class A:\n    def f(self):\n        self.g()\n        ask(self.x)\n    def g(self):\n        self.f()\n        self.x = 1",
        "1",
        True,
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    x: int\nc = C(1)\nask(c.x)",
        "",
        True,
    ),
}


def described(binding: Binding) -> str:
    """The value of a binding, or how it binds where it has none."""
    return ast.unparse(binding.value) if binding.value is not None else binding.how


def check(source: str, values: str, certain: bool) -> None:
    program, expr, _scope = asked(source)
    dotted = dotted_name(expr)
    assert dotted is not None
    found = program.reaching.at(expr, dotted)
    assert (" ".join(sorted(map(described, found.bindings))), found.certain) == (
        " ".join(sorted(values.split())),
        certain,
    )


@pytest.mark.parametrize("name", ORDER)
def test_in_the_order_of_statements(name: str) -> None:
    check(*ORDER[name])


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    check(*LOOPS[name])


@pytest.mark.parametrize("name", TRY)
def test_exceptions_contexts_and_patterns(name: str) -> None:
    check(*TRY[name])


@pytest.mark.parametrize("name", SCOPES)
def test_scopes(name: str) -> None:
    check(*SCOPES[name])


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name: str) -> None:
    check(*ATTRIBUTES[name])


def of_first_statement(module: Module, function: str) -> ast.stmt:
    """The first statement of a function anywhere in the program."""
    found = (node for node in module.scopes if getattr(node, "name", None) == function)
    return next(found).body[0]  # type: ignore[union-attr]


WILL_READ = {
    "read by the next statement": ("ask(c)\ny = args.x\n", True),
    "read a little later": ("ask(c)\nz = 1\ny = args.x\n", True),
    "perhaps read": ("ask(c)\nif c:\n    y = args.x\n", False),
    "read after a condition": ("ask(c)\nif c:\n    return\ny = args.x\n", False),
    "of another object": ("ask(c)\nargs = g()\ny = args.x\n", False),
}


@pytest.mark.parametrize("name", WILL_READ)
def test_what_is_read_later_in_any_case(name: str) -> None:
    source, bound = WILL_READ[name]
    body = "".join(f"    {line}\n" for line in source.splitlines())
    program, expr, _scope = asked(f"def f(args):\n{body}")
    statement = program.module.statement_of(expr)
    assert program.reaching.is_bound(statement, "args.x", after=True) is bound


def test_after_a_statement() -> None:
    program, _expr, scope = asked("x = 1\nx = 2\nask(x)")
    statement = scope.body[-2]
    assert [described(b) for b in program.reaching.at(statement, "x").bindings] == ["1"]
    assert [described(b) for b in program.reaching.after(statement, "x").bindings] == ["2"]


BASE = "class Base:\n    def __init__(self):\n        self.device = 1\n"
HEIR = (
    "from base import Base\n"
    "class Heir(Base):\n"
    "    def __init__(self):\n"
    "        self.model = 1\n"
    "        super().__init__()\n"
    "        self.scaler = 2\n"
    "    def train(self):\n"
    "        pass\n"
)


def reach_in_heir(program: Program) -> tuple[Reach, Reach, Reach]:
    [init] = [n for n, s in program.module.scopes.items() if s.qualname == "Heir.__init__"]
    model, _super, scaler = init.body  # type: ignore[union-attr]
    reaching = program.reaching
    train = of_first_statement(program.module, "train")
    return (
        reaching.after(model, "self.device"),
        reaching.at(scaler, "self.device"),
        reaching.at(train, "self.device"),
    )


def test_a_base_class_in_another_file_of_the_program() -> None:
    program = LinkedProgram({"/nowhere/heir.py": HEIR, "/nowhere/base.py": BASE}, neighbours=False)
    assert [found.certain for found in reach_in_heir(program)] == [False, True, True]


def test_a_base_class_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(BASE)
    path = tmp_path / "heir.py"
    path.write_text(HEIR)
    program = Program(HEIR, str(path), Neighbours(str(path)))
    assert [found.certain for found in reach_in_heir(program)] == [False, True, True]


def test_a_global_of_another_file() -> None:
    texts = {
        "/nowhere/train.py": "from settings import device, late\ndef train():\n    pass\n",
        "/nowhere/settings.py": "device = 1\nif __name__ == '__main__':\n    late = 2\n",
    }
    program = LinkedProgram(texts, neighbours=False)
    place = of_first_statement(program.module, "train")
    assert program.reaching.at(place, "device").certain


def asking(source: str, name: str = "x") -> Callable[[], object]:
    """The question what reaches the last statement of a module."""
    program = Program(source, "long.py")
    return lambda: program.reaching.at(program.module.root.body[-1], name)


LONG = {
    "statements": lambda n: "x = 1\n" * n + "ask(x)\n",
    "branches": lambda n: "if c:\n    y = 1\nelse:\n    y = 2\n" * n + "ask(x)\n",
    "elifs": lambda n: "if a:\n    y = 0\n" + "elif b:\n    y = 1\n" * n + "ask(x)\n",
    "terms": lambda n: "y = 1" + " + x" * n + "\nask(x)\n",
}


@pytest.mark.parametrize("shape", LONG)
def test_the_cost_grows_with_the_code(shape: str) -> None:
    assert growth(lambda size: asking(LONG[shape](size)), 200) < 2.5


def test_nested_loops_cost_one_pass() -> None:
    def nested(depth: int) -> Callable[[], object]:
        lines = [f"{'    ' * i}for i{i} in r:" for i in range(depth)]
        return asking("\n".join([*lines, f"{'    ' * depth}x = 1", "ask(x)", ""]))

    assert growth(nested, 8) < 3


def test_methods_that_call_each_other_are_bounded() -> None:
    def each_other(count: int) -> Callable[[], object]:
        names = [f"m{i}" for i in range(count)]
        run = "".join(f"        self.{name}()\n" for name in names)
        methods = "".join(f"    def {one}(self):\n{run}        self.{one}_x = 1\n" for one in names)
        source = (
            f"class A:\n{methods}    def ask(self):\n{run}        print(self.m0_x)\nA().ask()\n"
        )
        program = Program(source, "methods.py")
        place = of_first_statement(program.module, "ask")
        return lambda: program.reaching.at(place, "self.m0_x")

    # Twice the methods are four times the calls.
    assert growth(each_other, 20) < 5
