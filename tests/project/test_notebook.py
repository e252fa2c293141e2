"""A notebook as one text, and the text back in its cells."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.one_file import Rewritten, rewrite_bytes
from amp_migrate.project.errors import SourceError
from amp_migrate.project.notebook import Notebook
from amp_migrate.project.notebook import decode as decode_notebook
from amp_migrate.project.text import decode
from tests.notebooks import code, markdown, notebook, rest, sources

SETUP = """\
%matplotlib inline
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
SCALER = '\nscaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")'
LOOP = """\
%%time
# é
for x, y in data:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
"""
DONE = """\
%%time
# é
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
        loss = criterion(model(x.to(device)), y.to(device))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
FIT = "def fit(model, optimizer):\n" + "".join(
    f"    {line}" for line in LOOP.splitlines(keepends=True)[1:]
)


def migrated(data: bytes, **settings: Any) -> Rewritten:
    return rewrite_bytes("n.ipynb", data, Settings(**settings))


def text_of(data: bytes) -> str:
    """The text without the digest in its marks."""
    book = decode_notebook(data)
    return book.text.replace(book.digest, "-")


def test_the_text() -> None:
    data = notebook(
        markdown("# x"), "a = 1", "%a", code("b = 2\n", listed=False), "", "%%bash\nls", "no python"
    )
    assert text_of(data) == (
        '"%% cell 2 -"\na = 1\n"%% cell 3 -"\n"""%% 0 -"""\n"%% cell 4 -"\nb = 2\n'
        '"%% cell 5 -"\n"%% cell 6 -"\n"%% cell 7 -"\n'
    )


def test_a_module_is_no_notebook() -> None:
    assert decode(b"{}", "a.py").text == "{}"
    assert isinstance(decode(notebook(), "a.ipynb"), Notebook)


@pytest.mark.parametrize(
    "dumped", [{}, {"indent": 2}, {"indent": None}, {"indent": "\t"}, {"ensure_ascii": True}]
)
@pytest.mark.parametrize("listed", [True, False])
def test_only_sources_change(dumped: dict[str, Any], listed: bool) -> None:
    cells = [
        markdown("é"),
        code(SETUP, listed, tags=["a"]),
        code("%ls é\n", listed),
        code(LOOP, listed),
    ]
    data = notebook(*cells, **dumped)
    result = migrated(data)
    assert result.outcome.status == "migrated"
    expected = [cells[0], code(SETUP + SCALER, listed, tags=["a"]), cells[2], code(DONE, listed)]
    assert result.after == notebook(*expected, **dumped)


@pytest.mark.parametrize(
    "data", [notebook(SETUP, LOOP).rstrip(), codecs.BOM_UTF8 + notebook(SETUP, LOOP)]
)
def test_the_ends_of_a_file(data: bytes) -> None:
    after = migrated(data).after
    assert sources(after) == [SETUP + SCALER, DONE]
    assert (after[:3], after[-1:]) == (data[:3], data[-1:])


def test_lines_of_the_outcome_are_lines_of_cells() -> None:
    (loop,) = migrated(notebook(markdown("x"), SETUP, LOOP)).outcome.loops
    assert (loop.cell, loop.line, loop.status) == (3, 6, "migrated")


def test_functions_are_threaded_through_cells() -> None:
    result = migrated(
        notebook(
            SETUP,
            FIT,
            "%time fit(model, optimizer)",
            "for _ in range(2):\n    fit(model, optimizer)",
        )
    )
    first, second, third, fourth = sources(result.after)
    assert first == SETUP + SCALER
    assert second.startswith("def fit(model, optimizer, scaler):\n")
    assert third == "%time fit(model, optimizer, scaler=scaler)"
    assert fourth == "for _ in range(2):\n    fit(model, optimizer, scaler=scaler)"


def test_the_scaler_is_rebuilt_where_the_optimizer_is() -> None:
    again = "optimizer = torch.optim.Adam(model.parameters())\n"
    result = migrated(notebook(SETUP, LOOP, again, LOOP))
    assert sources(result.after) == [SETUP + SCALER, DONE, again + SCALER[1:] + "\n", DONE]


def test_a_cell_that_builds_several_optimizers_makes_its_own_scalers() -> None:
    inner = "".join(f"    {line}" for line in LOOP.splitlines(keepends=True)[1:])
    again = f"for seed in range(3):\n    optimizer = torch.optim.Adam(model.parameters())\n{inner}"
    third = sources(migrated(notebook(SETUP, LOOP, again)).after)[2]
    assert (
        "    optimizer = torch.optim.Adam(model.parameters())\n    scaler = torch.amp.GradScaler("
        in third
    )


@pytest.mark.parametrize("indent", ["  ", "\t"])
def test_a_cell_may_be_indented(indent: str) -> None:
    before, after = (
        "".join(indent + line for line in source.splitlines(keepends=True)[1:])
        for source in (LOOP, DONE)
    )
    assert sources(migrated(notebook(SETUP, before)).after) == [SETUP + SCALER, after]


@pytest.mark.parametrize(
    "caller",
    [
        "%%mystery\nfit(model, optimizer)",
        "  fit(model, optimizer)\nx",
        "t = %timeit -o fit(model, optimizer)",
    ],
)
def test_a_function_called_where_nobody_reads_is_never_given_a_parameter_that_it_needs(
    caller: str,
) -> None:
    result = migrated(notebook(SETUP, FIT, "fit(model, optimizer)", caller))
    assert "scaler):" not in result.after.decode()
    assert result.outcome.status in ("refused", "migrated")


def test_a_region_over_two_cells_is_refused() -> None:
    result = migrated(
        notebook(
            SETUP,
            "output = model(x)\n",
            "loss = criterion(output, y)\nloss.backward()\n",
            "optimizer.step()",
        )
    )
    (loop,) = result.outcome.loops
    assert (loop.status, loop.reason, loop.cell, loop.line) == ("refused", "notebook", 3, 2)
    assert loop.message is not None
    assert loop.message.startswith(
        "cell 3, line 1: its forward is in cell 2, line 1, and no `with` block spans two cells"
    )
    assert result.after == b"" or result.after == result.before


def test_evaluation_over_two_cells_stays_as_it_is() -> None:
    inside = "with torch.no_grad():\n    model(x)"
    result = migrated(notebook(SETUP, LOOP, inside), eval=True)
    assert "autocast" in sources(result.after)[2]
    result = migrated(
        notebook(
            SETUP, LOOP, "torch.set_grad_enabled(False)\nout = model(x)", "loss = criterion(out, y)"
        ),
        eval=True,
    )
    assert result.outcome.status == "migrated"
    assert all("autocast" not in source for source in sources(result.after)[2:])


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"language": "R"}},
        {"language_info": {"name": "julia"}},
        {"kernelspec": {"language": "python"}, "language_info": {"name": "R"}},
    ],
)
def test_other_languages_are_left_alone(metadata: dict[str, Any]) -> None:
    data = notebook(SETUP, LOOP, metadata=metadata)
    assert decode_notebook(data).text == ""
    assert migrated(data).outcome == FileOutcome("n.ipynb", "unchanged")


@pytest.mark.parametrize(
    "metadata", [{}, {"kernelspec": {"name": "x"}}, {"language_info": {"name": "ipython"}}]
)
def test_python_is_what_is_not_named(metadata: dict[str, Any]) -> None:
    assert migrated(notebook(SETUP, LOOP, metadata=metadata)).outcome.status == "migrated"


def test_a_cell_of_another_language() -> None:
    data = notebook(SETUP, LOOP, code("loss.backward();", vscode={"languageId": "csharp"}))
    assert [loop.cell for loop in migrated(data).outcome.loops] == [2]


@pytest.mark.parametrize(
    ("cell", "line", "reason", "part"),
    [
        ("\nloss.backward(\n", 2, "syntax", "read by Python"),
        ("x\rloss.backward()", 1, "syntax", "carriage return"),
        ("x = '\0'\nloss.backward()", 1, "syntax", "null bytes"),
        ("x = '\ud800'\nloss.backward()", 1, "syntax", "surrogate"),
        ("%%writefile a.py\nloss.backward()", 1, "notebook", "`%%writefile` takes this cell away"),
    ],
)
def test_cells_that_are_not_read_and_may_train(
    cell: str, line: int, reason: str, part: str
) -> None:
    data = notebook(SETUP, LOOP, cell, ensure_ascii=True)
    result = migrated(data)
    assert result.outcome.status == "migrated"
    assert sources(result.after)[2] == cell
    told = result.outcome.loops[-1]
    assert (told.cell, told.line, told.status, told.reason) == (3, line, "refused", reason)
    assert told.message is not None
    assert part in told.message
    alone = migrated(notebook(cell, ensure_ascii=True)).outcome
    assert alone.status == "refused"


@pytest.mark.parametrize("cell", ["%%bash\nx.backward()", "print 1", "%%html\n<b>"])
def test_other_cells_are_passed_over(cell: str) -> None:
    assert [loop.status for loop in migrated(notebook(SETUP, cell, LOOP)).outcome.loops] == [
        "migrated"
    ]


def test_a_name_that_a_cell_sets_that_does_not_parse() -> None:
    told = migrated(notebook(SETUP + "\nprint 1", LOOP)).outcome.loops
    assert [(loop.cell, loop.status, loop.reason) for loop in told] == [(2, "refused", "syntax")]
    assert told[0].message is not None
    assert re.search(r"`\w+` is set in cell 1, which does not parse \(line 8: ", told[0].message)


def test_a_name_that_no_cell_sets_is_no_matter_of_cells_that_do_not_parse() -> None:
    setup = SETUP.replace("optimizer = torch", "other = torch")
    told = migrated(notebook(setup, "print optimizer.state == 1", LOOP)).outcome.loops
    assert [loop.reason for loop in told] == ["optimizer-not-in-sight"]


@pytest.mark.parametrize(
    ("data", "place", "part"),
    [
        (b"{}", "1:1", "no list of cells"),
        (b'{"worksheets": [], "nbformat": 3}', "1:1", "nbformat 3"),
        (b'{"cells": [\n}', "2:1", "no JSON"),
        (b'{"cells": [], "cells": []}', "1:15", "stands twice"),
        (b'{"cells": {}}', "1:11", "Expecting '['"),
        (b'{"cells": [1]}', "1:12", "Expecting '{'"),
        (b'{"cells": [{"cell_type": "code", "source": 1}]}', "", "cell 1 is neither"),
        (b'{"cells": [{"cell_type": "code", "source": ["a", 1]}]}', "", "cell 1 is neither"),
        (b'{"cells": [], "x": ' + b"1" * 5000 + b"}", "", "no JSON that can be read"),
        (b'{"cells": "\xff"}', "", "not UTF-8"),
        (b"", "1:1", "no JSON"),
    ],
)
def test_what_is_no_notebook(data: bytes, place: str, part: str) -> None:
    error = migrated(data).outcome.error
    assert error is not None
    assert error.startswith(f"n.ipynb:{place}: " if place else "n.ipynb: ")
    assert part in error


def test_a_source_without_manner_is_not_written() -> None:
    data = notebook(SETUP, LOOP).replace(b'"import torch\\n"', b'"import torch \\u0023#\\n"')
    result = migrated(data)
    assert result.outcome.status == "failed"
    assert "the source of cell 1 is spelled as no notebook writer does" in str(result.outcome.error)


def test_marks_that_are_lost_are_not_written() -> None:
    book = decode_notebook(notebook("%a\nx = 1", "y = 2"))
    with pytest.raises(SourceError, match="bounds of its cells"):
        book.encode(book.text.partition("\n")[2])
    with pytest.raises(SourceError, match="commands of cell 1"):
        book.encode(book.text.replace('"""%% 0', '"""%% 1'))
    with pytest.raises(SourceError, match="put back into these cells"):
        book.encode(book.text.replace("y = 2", "%b"))


def test_the_second_run_changes_nothing() -> None:
    after = migrated(notebook(SETUP, LOOP)).after
    assert migrated(after).outcome.status == "unchanged"


CELL = st.sampled_from(
    [
        SETUP,
        LOOP,
        FIT,
        "%time fit(model, optimizer)\n",
        "x = !ls é",
        "%%bash\nls",
        "if x:\n\t%cd",
        "no python",
        "",
        "# é\n\n",
        "y = 'ü\\n'",
    ]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(CELL, st.booleans()), max_size=6),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.booleans(),
)
def test_any_notebook_comes_back(
    cells: list[tuple[str, bool]], indent: int | str | None, ascii_only: bool
) -> None:
    data = notebook(
        *(code(source, listed) for source, listed in cells), indent=indent, ensure_ascii=ascii_only
    )
    book = decode_notebook(data)
    assert book.encode(book.text) == data
    changed = book.encode(_commented(book.text))
    assert rest(changed) == rest(data)
    assert sources(changed) == [_commented(source) for source in sources(data)]


def _commented(text: str) -> str:
    return re.sub(r"^# é$", "# é\n# ü", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "order", [(SETUP, FIT, "fit(model, optimizer)"), (SETUP, LOOP), (LOOP, SETUP, LOOP)]
)
def test_outputs_and_metadata_stay(order: tuple[str, ...]) -> None:
    data = notebook(markdown("a"), *order, "%ls")
    result = migrated(data)
    after = result.after or data
    assert rest(after) == rest(data)
    assert json.loads(after)["cells"][0] == markdown("a")
