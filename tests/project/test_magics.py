"""IPython's additions to Python: what stands for them, and the way back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amp_migrate.project.magics import Marker, as_python, restored

DIGEST = "0123456789ab"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\n", "x = 1\n"),
        ("x = (1\n %2)\n!ls", 'x = (1\n %2)\n"""MARK"""'),
        ("%matplotlib inline\nx = 1", '"""MARK"""\nx = 1'),
        ("!pip install \\\n  torch\nx", '"""MARK\n"""\nx'),
        ("if a:\n    !ls\nelse:\n\t%cd ..\n", 'if a:\n    """MARK"""\nelse:\n\t"""MARK"""\n'),
        ("files = !ls *.py\n", 'files = get_ipython("""MARK""")\n'),
        ("a, b[0] = !ls \\\n -l\n", 'a, b[0] = get_ipython("""MARK\n""")\n'),
        ("t = %timeit -o fit()\n", 't = get_ipython(("""MARK""", fit))\n'),
        ("%time fit(x)\n", "fit(x)  # MARK\n"),
        ("for x in y:\n  %timeit -n 10 -r 3 z = fit(x)\n", "for x in y:\n  z = fit(x)  # MARK\n"),
        ("%prun -s cumtime -l 5 fit(x)", "fit(x)  # MARK"),
        ("%lprun -f fit fit(x)", "fit(x)  # MARK"),
        ("%time\nx", '"""MARK"""\nx'),
        ("%time fit(x,\\\n  y)", '("""MARK\n""", fit)'),
        ("%time x = '#'", "x = '#'  # MARK"),
        ("%time fit(x) # y\nz", "fit(x) # y  # MARK\nz"),
        ("%time # y", '"""MARK"""'),
        ("%run -i fit\n", '("""MARK""", fit)\n'),
        ("!python fit.py", '"""MARK"""'),
        ("?fit\nobj.x??\nfit?\n%timeit?\n", '"""MARK"""\n"""MARK"""\n"""MARK"""\n"""MARK"""\n'),
        ("%%time\nx = 1", '"""MARK"""\nx = 1'),
        ("\n%%capture out\n%%time\n!ls\n", '\n"""MARK"""\n"""MARK"""\n"""MARK"""\n'),
        ("!echo \"don't (\nx = [1] # it's\n!ls", '"""MARK"""\nx = [1] # it\'s\n"""MARK"""'),
        ("s = '''\n%no magic\n'''\n%magic", "s = '''\n%no magic\n'''\n\"\"\"MARK\"\"\""),
        ('s = "a\\\n%b"\n%magic', 's = "a\\\n%b"\n"""MARK"""'),
        ("x = 1 \\\n  %2\n%magic", 'x = 1 \\\n  %2\n"""MARK"""'),
        ("from __future__ import division\nx", '"""MARK"""\nx'),
        ("%a\r\nx = 1\r\n", '"""MARK"""\r\nx = 1\r\n'),
        (",fit a b\n;fit a\n/fit a", '("""MARK""", fit)\n("""MARK""", fit)\n("""MARK""", fit)'),
        ("await x\n%a", 'await x\n"""MARK"""'),
        ("%a\n\n  # end", '"""MARK"""\n\n  # end'),
    ],
)
def test_stand_ins(source: str, expected: str) -> None:
    marker = Marker(DIGEST, {"fit"})
    text = as_python(source, marker)
    for number in range(len(marker.made)):
        assert text.count(f"%% {number} {DIGEST}") == 1
        text = text.replace(f"%% {number} {DIGEST}", "MARK")
    assert text == expected
    ast.parse(text)
    assert text.count("\n") == source.count("\n")
    assert restored(as_python(source, again := Marker(DIGEST, {"fit"})), again.made) == source


@pytest.mark.parametrize(
    "source",
    [
        "x =\n!ls",
        "!ls\n%%bash\nls",
        "  x = 1",
        "print 1",
        "%%unknown\nx",
        "x = (\n%a",
        "s = '''\n%a",
        "%a\n'",
        ">>> x = 1",
    ],
)
def test_what_is_not_read(source: str) -> None:
    with pytest.raises(SyntaxError):
        as_python(source, Marker(DIGEST))


def test_edits_around_stand_ins() -> None:
    marker = Marker(DIGEST)
    text = as_python("if x:\n    %time a = fit(b)\n    !ls \\\n      -l\n", marker)
    edited = "with y:\n    " + text.replace("\n    ", "\n        ").replace("fit(b)", "fit(b, c)")
    assert restored(edited, marker.made) == (
        "with y:\n    if x:\n        %time a = fit(b, c)\n        !ls \\\n      -l\n"
    )


def test_a_stand_in_that_is_lost_or_doubled() -> None:
    marker = Marker(DIGEST)
    text = as_python("!ls\n", marker)
    assert restored("x = 1\n", marker.made) is None
    assert restored(text * 2, marker.made) is None


LINE = st.sampled_from(
    [
        "%a b",
        "!ls",
        "x = !ls 'it",
        "x?",
        "%time f(x)",
        "y = 1",
        "if x:\n    %a\n    !b",
        "def f():\n\t%c",
        "'''a\n%d'''",
        "# %e",
        "",
    ]
)


@given(st.lists(LINE), st.sampled_from(["\n", "\r\n"]))
def test_any_cell_comes_back(lines: list[str], end: str) -> None:
    source = "\n".join(lines).replace("\n", end)
    marker = Marker(DIGEST, {"f", "b"})
    text = as_python(source, marker)
    assert restored(text, marker.made) == source
    assert text.count("\n") == source.count("\n")
