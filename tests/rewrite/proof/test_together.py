"""Faults that show only between files."""

from __future__ import annotations

import pytest

from amp_migrate.model.files.linking import LinkedProgram
from amp_migrate.rewrite.proof.together import call_faults

NAMES = frozenset({"scaler"})
ENGINE = "def train(model, optimizer, scaler):\n    pass\n"


def faults(**files: str) -> list[tuple[str, int, str]]:
    texts = {f"{name}.py": text for name, text in files.items()}
    found = call_faults(LinkedProgram(texts, neighbours=False), NAMES)
    return [(path, failure.line, failure.message) for path, failure in found]


@pytest.mark.parametrize(
    "main",
    [
        "from engine import train\ntrain(m, o, scaler=s)\n",
        "import engine\nengine.train(m, o, scaler=s)\n",
        "from engine import train as run\nrun(m, o, scaler=s)\n",
        "from engine import train\ntrain(m, o, **options)\n",
        "def train(m):\n    pass\ntrain(m)\n",
        "from elsewhere import train\ntrain(m, o)\n",
    ],
)
def test_calls_that_pass_it(main: str) -> None:
    assert faults(main=main, engine=ENGINE) == []


@pytest.mark.parametrize(
    "main",
    [
        "from engine import train\ntrain(m, o)\n",
        "import engine\nengine.train(m, o)\n",
        "from engine import train as run\nrun(m, o)\n",
        "from engine import *\ntrain(m, optimizer=o)\n",
    ],
)
def test_a_call_that_lacks_it(main: str) -> None:
    assert faults(main=main, engine=ENGINE) == [
        ("main.py", 2, "`train` needs `scaler`, which this call does not pass")
    ]


def test_an_optional_one_may_be_absent() -> None:
    assert (
        faults(main="from engine import f\nf(1)\n", engine="def f(a, scaler=None):\n    pass\n")
        == []
    )


def test_a_keyword_that_is_not_taken() -> None:
    main = "from engine import f\nf(1, scaler=s)\n"
    assert faults(main=main, engine="def f(a):\n    pass\n") == [
        ("main.py", 2, "`f` has no parameter `scaler`")
    ]
    assert faults(main=main, engine="def f(a, **rest):\n    pass\n") == []


def test_a_method_of_a_base_class_in_another_file() -> None:
    base = "class Base:\n    def step(self, batch, scaler):\n        pass\n"
    heir = "from base import Base\n\nclass Heir(Base):\n    def run(self):\n        self.step(1)\n"
    assert faults(heir=heir, base=base) == [
        ("heir.py", 5, "`step` needs `scaler`, which this call does not pass")
    ]


BRANCHES = "if fast:\n    from first import train\nelse:\n    from second import train\n"
OTHER = "def train(model, optimizer):\n    pass\n"


def test_of_two_imports_of_one_name_both_take_it() -> None:
    main = f"{BRANCHES}train(m, o, scaler=s)\n"
    assert faults(main=main, first=ENGINE, second=OTHER) == [
        ("main.py", 5, "`train` has no parameter `scaler`")
    ]
    assert (
        faults(main=main, first=OTHER, second=ENGINE)
        == [("main.py", 5, "`train` has no parameter `scaler`")] * 2
    )  # the call graph knows the first
    assert faults(main=main, first=ENGINE, second=ENGINE) == []


def test_of_two_imports_of_one_name_neither_lacks_it() -> None:
    main = f"{BRANCHES}train(m, o)\n"
    needs = ("main.py", 5, "`train` needs `scaler`, which this call does not pass")
    assert faults(main=main, first=OTHER, second=ENGINE) == [needs]
    assert faults(main=main, first=OTHER, second=OTHER) == []


def test_modules_of_one_name() -> None:
    main = (
        "try:\n    import first as M\nexcept ImportError:\n    import second as M\n"
        "M.train(m, o, scaler=s)\n"
    )
    assert faults(main=main, first=ENGINE, second=ENGINE) == []
    assert faults(main=main, first=ENGINE, second=OTHER) == [
        ("main.py", 5, "`train` has no parameter `scaler`")
    ]


def test_a_definition_that_stands_in_for_an_import() -> None:
    main = (
        "try:\n    from fast import train\nexcept ImportError:\n"
        "    def train(model, optimizer, scaler):\n        pass\n"
        "train(m, o, scaler=s)\n"
    )
    assert faults(main=main) == [("main.py", 6, "nothing shows that all it may call take scaler")]
    assert faults(main=main, fast=ENGINE) == []


@pytest.mark.parametrize("main", ["from fast import train\n", "import fast\nfast."])
def test_a_file_that_is_no_part_of_the_program(main: str) -> None:
    call = "train(m, o)\n"
    assert faults(main=f"{main}{call}") == []
    passing = "train(m, o, scaler=s)\n"
    assert [what for _, _, what in faults(main=f"{main}{passing}")] == [
        "nothing shows that all it may call take scaler"
    ]


def test_a_function_that_is_handed_on_with_what_it_takes() -> None:
    main = (
        "from functools import partial\nfrom engine import train\nrun = partial(train, scaler=s)\n"
    )
    assert faults(main=main, engine=ENGINE) == []
