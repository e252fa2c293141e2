"""Parameters, arguments and dict entries in the layout of their neighbours."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.writer import EditConflict
from tests.rewrite.writer.spots import Case, applied, argument, check, entry, parameter, swap

DEF = [parameter("def")]
NONE = [parameter("def", "scaler", "None")]
PARAMETERS: list[Case] = [
    ("none", "def f(): pass\n", DEF, "def f(scaler): pass\n"),
    ("one", "def f(a): pass\n", DEF, "def f(a, scaler): pass\n"),
    ("a trailing comma", "def f(a,): pass\n", DEF, "def f(a, scaler,): pass\n"),
    ("no spaces", "def f(a,b): pass\n", DEF, "def f(a,b,scaler): pass\n"),
    ("spaces inside", "def f( a, b ): pass\n", DEF, "def f( a, b, scaler ): pass\n"),
    ("self", "class C:\n    def f(self): pass\n", DEF, "class C:\n    def f(self, scaler): pass\n"),
    ("a default before it", "def f(a, b=1): pass\n", DEF, "def f(a, b=1, *, scaler): pass\n"),
    (
        "a default before it and its own",
        "def f(a, b=1): pass\n",
        NONE,
        "def f(a, b=1, scaler=None): pass\n",
    ),
    ("a default of its own", "def f(a): pass\n", NONE, "def f(a, scaler=None): pass\n"),
    ("*args", "def f(a, *args): pass\n", DEF, "def f(a, *args, scaler): pass\n"),
    (
        "*args and a default of its own",
        "def f(a, *args): pass\n",
        NONE,
        "def f(a, *args, scaler=None): pass\n",
    ),
    ("**kwargs", "def f(a, **kw): pass\n", DEF, "def f(a, scaler, **kw): pass\n"),
    ("only **kwargs", "def f(**kw): pass\n", DEF, "def f(scaler, **kw): pass\n"),
    (
        "**kwargs and a trailing comma",
        "def f(a, **kw,): pass\n",
        DEF,
        "def f(a, scaler, **kw,): pass\n",
    ),
    (
        "a default and **kwargs",
        "def f(a=1, **kw): pass\n",
        DEF,
        "def f(a=1, *, scaler, **kw): pass\n",
    ),
    (
        "everything",
        "def f(a, /, b=1, *c, d, **e): pass\n",
        DEF,
        "def f(a, /, b=1, *c, d, scaler, **e): pass\n",
    ),
    ("keyword-only ones", "def f(a, *, b): pass\n", DEF, "def f(a, scaler, *, b): pass\n"),
    ("only keyword-only ones", "def f(*, b=1): pass\n", DEF, "def f(scaler, *, b=1): pass\n"),
    (
        "keyword-only ones and a default",
        "def f(a=1, *, b): pass\n",
        DEF,
        "def f(a=1, *, b, scaler): pass\n",
    ),
    ("positional-only ones", "def f(a, /): pass\n", DEF, "def f(a, /, scaler): pass\n"),
    (
        "positional-only ones with a default",
        "def f(a=1, /): pass\n",
        DEF,
        "def f(a=1, /, *, scaler): pass\n",
    ),
    (
        "annotations",
        "def f(a: int, b: str = 'x') -> None: pass\n",
        NONE,
        "def f(a: int, b: str = 'x', scaler=None) -> None: pass\n",
    ),
    (
        "one per line",
        "def f(\n    a,\n    b,\n):\n    pass\n",
        DEF,
        "def f(\n    a,\n    b,\n    scaler,\n):\n    pass\n",
    ),
    (
        "one per line, no comma",
        "def f(\n    a,\n    b\n):\n    pass\n",
        DEF,
        "def f(\n    a,\n    b,\n    scaler\n):\n    pass\n",
    ),
    (
        "one line of its own",
        "def f(\n    a, b\n):\n    pass\n",
        DEF,
        "def f(\n    a, b, scaler\n):\n    pass\n",
    ),
    (
        "one on a line",
        "def f(\n    a\n):\n    pass\n",
        DEF,
        "def f(\n    a,\n    scaler\n):\n    pass\n",
    ),
    (
        "aligned",
        "def f(a,\n      b):\n    pass\n",
        DEF,
        "def f(a,\n      b,\n      scaler):\n    pass\n",
    ),
    (
        "filled",
        "def f(a, b,\n      c, d):\n    pass\n",
        DEF,
        "def f(a, b,\n      c, d, scaler):\n    pass\n",
    ),
    (
        "a comment behind the last",
        "def f(\n    a,  # one\n    b  # two\n):\n    pass\n",
        DEF,
        "def f(\n    a,  # one\n    b,  # two\n    scaler\n):\n    pass\n",
    ),
    (
        "a comment behind the last comma",
        "def f(\n    a,\n    b,  # two\n):\n    pass\n",
        DEF,
        "def f(\n    a,\n    b,  # two\n    scaler,\n):\n    pass\n",
    ),
    (
        "one per line and a default",
        "def f(\n    a,\n    b=1,\n):\n    pass\n",
        DEF,
        "def f(\n    a,\n    b=1,\n    *,\n    scaler,\n):\n    pass\n",
    ),
    (
        "one per line and **kwargs",
        "def f(\n    a,  # one\n    **kw,  # rest\n):\n    pass\n",
        DEF,
        "def f(\n    a,  # one\n    scaler,\n    **kw,  # rest\n):\n    pass\n",
    ),
    (
        "CRLF",
        "def f(\r\n    a,\r\n):\r\n    pass\r\n",
        DEF,
        "def f(\r\n    a,\r\n    scaler,\r\n):\r\n    pass\r\n",
    ),
    (
        "tabs",
        "def f(\n\t\ta,\n\t\tb):\n\tpass\n",
        DEF,
        "def f(\n\t\ta,\n\t\tb,\n\t\tscaler):\n\tpass\n",
    ),
    ("async", "async def f(a): pass\n", [parameter("async")], "async def f(a, scaler): pass\n"),
    ("decorated", "@d\ndef f(a): pass\n", DEF, "@d\ndef f(a, scaler): pass\n"),
    ("twice the same", "def f(a): pass\n", [*DEF, *DEF], "def f(a, scaler): pass\n"),
    (
        "two",
        "def f(a): pass\n",
        [parameter("def", "b"), parameter("def", "c", "1")],
        "def f(a, b, c=1): pass\n",
    ),
]
ARGUMENTS: list[Case] = [
    (
        "a comment behind two on a line of their own",
        "f(\n    a, b  # one\n)\n",
        [argument("f(\n    a, b  # one\n)")],
        "f(\n    a, b,  # one\n    scaler=scaler\n)\n",
    ),
    ("none", "f()\n", [argument("f()")], "f(scaler=scaler)\n"),
    ("one", "f(a)\n", [argument("f(a)")], "f(a, scaler=scaler)\n"),
    ("keywords", "f(a, b=1)\n", [argument("f(a, b=1)")], "f(a, b=1, scaler=scaler)\n"),
    ("a trailing comma", "f(a,)\n", [argument("f(a,)")], "f(a, scaler=scaler,)\n"),
    ("spaces inside", "f( a )\n", [argument("f( a )")], "f( a, scaler=scaler )\n"),
    ("*args", "f(*a)\n", [argument("f(*a)")], "f(*a, scaler=scaler)\n"),
    ("**kwargs", "f(a, **k)\n", [argument("f(a, **k)")], "f(a, scaler=scaler, **k)\n"),
    ("only **kwargs", "f(**k)\n", [argument("f(**k)")], "f(scaler=scaler, **k)\n"),
    (
        "*args behind a keyword",
        "f(b=1, *a)\n",
        [argument("f(b=1, *a)")],
        "f(b=1, *a, scaler=scaler)\n",
    ),
    (
        "a generator",
        "f(x for x in y)\n",
        [argument("f(x for x in y)")],
        "f((x for x in y), scaler=scaler)\n",
    ),
    (
        "a generator in brackets",
        "f((x for x in y))\n",
        [argument("f((x for x in y))")],
        "f((x for x in y), scaler=scaler)\n",
    ),
    ("another call inside", "f(g(a))\n", [argument("f(g(a))")], "f(g(a), scaler=scaler)\n"),
    ("the inner call", "f(g(a), b)\n", [argument("g(a)")], "f(g(a, scaler=scaler), b)\n"),
    (
        "a value",
        "f(a)\n",
        [argument("f(a)", "scaler", "self.scaler")],
        "f(a, scaler=self.scaler)\n",
    ),
    (
        "one per line",
        "f(\n    a,\n    b,\n)\n",
        [argument("f(\n    a,\n    b,\n)")],
        "f(\n    a,\n    b,\n    scaler=scaler,\n)\n",
    ),
    (
        "one per line, no comma",
        "f(\n    a,\n    b\n)\n",
        [argument("f(\n    a,\n    b\n)")],
        "f(\n    a,\n    b,\n    scaler=scaler\n)\n",
    ),
    ("aligned", "f(a,\n  b)\n", [argument("f(a,\n  b)")], "f(a,\n  b,\n  scaler=scaler)\n"),
    ("filled", "f(a, b,\n  c)\n", [argument("f(a, b,\n  c)")], "f(a, b,\n  c, scaler=scaler)\n"),
    (
        "a comment behind the only one",
        "f(a  # one\n  )\n",
        [argument("f(a  # one\n  )")],
        "f(a,  # one\n      scaler=scaler\n  )\n",
    ),
    (
        "an own-line comment at the end",
        "f(\n    a,\n    # more\n)\n",
        [argument("f(\n    a,\n    # more\n)")],
        "f(\n    a,\n    # more\n    scaler=scaler,\n)\n",
    ),
    (
        "in an indented block",
        "if c:\n    f(\n        a\n    )\n",
        [argument("f(\n        a\n    )")],
        "if c:\n    f(\n        a,\n        scaler=scaler\n    )\n",
    ),
    (
        "**kwargs on a line of its own",
        "f(\n    a,\n    **k\n)\n",
        [argument("f(\n    a,\n    **k\n)")],
        "f(\n    a,\n    scaler=scaler,\n    **k\n)\n",
    ),
    ("of a call in parentheses", "x = (f(a))\n", [argument("f(a)")], "x = (f(a, scaler=scaler))\n"),
    (
        "of a call that is replaced",
        "f(a)\n",
        [argument("f(a)"), swap("f(a)", "g($0)")],
        "g(f(a, scaler=scaler))\n",
    ),
    ("twice the same", "f(a)\n", [argument("f(a)"), argument("f(a)")], "f(a, scaler=scaler)\n"),
    (
        "a lambda as the last",
        "f(lambda: a)\n",
        [argument("f(lambda: a)")],
        "f(lambda: a, scaler=scaler)\n",
    ),
    (
        "of a class",
        "mp.spawn(f, args=(a,))\n",
        [argument("mp.spawn(f, args=(a,))", "join", "True")],
        "mp.spawn(f, args=(a,), join=True)\n",
    ),
]
NEW = "'scaler': scaler.state_dict()"
ENTRIES: list[Case] = [
    ("empty", "{}\n", [entry("{}")], '{"scaler": scaler.state_dict()}\n'),
    ("one", '{"a": 1}\n', [entry('{"a": 1}')], '{"a": 1, "scaler": scaler.state_dict()}\n'),
    ("single quotes", "{'a': 1}\n", [entry("{'a': 1}")], f"{{'a': 1, {NEW}}}\n"),
    (
        "mostly single quotes",
        "{'a': 1, \"b\": 2, 'c': 3}\n",
        [entry("{'a': 1, \"b\": 2, 'c': 3}")],
        f"{{'a': 1, \"b\": 2, 'c': 3, {NEW}}}\n",
    ),
    (
        "keys that are no strings",
        "{a: 'x'}\n",
        [entry("{a: 'x'}")],
        "{a: 'x', \"scaler\": scaler.state_dict()}\n",
    ),
    ("a trailing comma", "{'a': 1,}\n", [entry("{'a': 1,}")], f"{{'a': 1, {NEW},}}\n"),
    (
        "a trailing comma and a space",
        "{'a': 1, }\n",
        [entry("{'a': 1, }")],
        f"{{'a': 1, {NEW}, }}\n",
    ),
    ("spaces inside", "{ 'a': 1 }\n", [entry("{ 'a': 1 }")], f"{{ 'a': 1, {NEW} }}\n"),
    ("unpacked", "{**a}\n", [entry("{**a}")], '{**a, "scaler": scaler.state_dict()}\n'),
    (
        "no space behind the colon",
        "{'a':1}\n",
        [entry("{'a':1}")],
        "{'a':1, 'scaler':scaler.state_dict()}\n",
    ),
    (
        "one per line",
        "f({\n    'a': 1,\n    'b': 2,\n}, x)\n",
        [entry("{\n    'a': 1,\n    'b': 2,\n}")],
        f"f({{\n    'a': 1,\n    'b': 2,\n    {NEW},\n}}, x)\n",
    ),
    (
        "one per line, no comma",
        "f({\n    'a': 1,\n    'b': 2\n}, x)\n",
        [entry("{\n    'a': 1,\n    'b': 2\n}")],
        f"f({{\n    'a': 1,\n    'b': 2,\n    {NEW}\n}}, x)\n",
    ),
    (
        "one on a line",
        "x = {\n    'a': 1\n}\n",
        [entry("{\n    'a': 1\n}")],
        f"x = {{\n    'a': 1,\n    {NEW}\n}}\n",
    ),
    (
        "aligned",
        "x = {'a': 1,\n     'b': 2}\n",
        [entry("{'a': 1,\n     'b': 2}")],
        f"x = {{'a': 1,\n     'b': 2,\n     {NEW}}}\n",
    ),
    (
        "a comment behind the last",
        "x = {\n    'a': 1,  # one\n    'b': 2  # two\n}\n",
        [entry("{\n    'a': 1,  # one\n    'b': 2  # two\n}")],
        f"x = {{\n    'a': 1,  # one\n    'b': 2,  # two\n    {NEW}\n}}\n",
    ),
    (
        "a comment behind the last comma",
        "x = {\n    'a': 1,  # one\n}\n",
        [entry("{\n    'a': 1,  # one\n}")],
        f"x = {{\n    'a': 1,  # one\n    {NEW},\n}}\n",
    ),
    (
        "a commented-out entry",
        "x = {\n    'a': 1,\n    # 'b': 2,\n}\n",
        [entry("{\n    'a': 1,\n    # 'b': 2,\n}")],
        f"x = {{\n    'a': 1,\n    # 'b': 2,\n    {NEW},\n}}\n",
    ),
    (
        "in an indented block",
        "if c:\n  f({\n    'a': 1,\n  })\n",
        [entry("{\n    'a': 1,\n  }")],
        f"if c:\n  f({{\n    'a': 1,\n    {NEW},\n  }})\n",
    ),
    (
        "CRLF",
        "x = {\r\n    'a': 1,\r\n}\r\n",
        [entry("{\r\n    'a': 1,\r\n}")],
        f"x = {{\r\n    'a': 1,\r\n    {NEW},\r\n}}\r\n",
    ),
    ("one in another", "{'a': {'b': 1}}\n", [entry("{'b': 1}")], f"{{'a': {{'b': 1, {NEW}}}}}\n"),
    (
        "both of them",
        "{'a': {'b': 1}}\n",
        [entry("{'b': 1}"), entry("{'a': {'b': 1}}")],
        f"{{'a': {{'b': 1, {NEW}}}, {NEW}}}\n",
    ),
    ("twice the same", "{}\n", [entry("{}"), entry("{}")], '{"scaler": scaler.state_dict()}\n'),
    ("two", "{}\n", [entry("{}", '"a"', "1"), entry("{}", '"b"', "2")], '{"a": 1, "b": 2}\n'),
    ("a name as key", "{'a': 1}\n", [entry("{'a': 1}", "KEY", "1")], "{'a': 1, KEY: 1}\n"),
]


@pytest.mark.parametrize("case", PARAMETERS, ids=[case[0] for case in PARAMETERS])
def test_parameter(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", ARGUMENTS, ids=[case[0] for case in ARGUMENTS])
def test_argument(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", ENTRIES, ids=[case[0] for case in ENTRIES])
def test_entry(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "signature", ["scaler", "a, scaler=None", "*scaler", "*, scaler", "**scaler", "scaler, /"]
)
def test_a_parameter_of_that_name_is_a_conflict(signature: str) -> None:
    with pytest.raises(EditConflict, match="scaler"):
        applied(f"def f({signature}): pass\n", *DEF)


def test_an_argument_of_that_name_is_a_conflict() -> None:
    with pytest.raises(EditConflict, match="scaler"):
        applied("f(scaler=None)\n", argument("f(scaler=None)"))


@pytest.mark.parametrize("display", ["{'scaler': 1}", '{"scaler": 1}', "{'a': 1, r'scaler': 2}"])
def test_an_entry_with_that_key_is_a_conflict(display: str) -> None:
    with pytest.raises(EditConflict, match="scaler"):
        applied(f"{display}\n", entry(display))
