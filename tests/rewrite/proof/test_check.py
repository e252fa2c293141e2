"""The four checks, the names behind the second, and how a failure reads."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from amp_migrate.rewrite.proof import Failure, Introduced, check

SCALER = Introduced(scalers=frozenset({"scaler"}))


def messages(before: str, after: str, facts: Introduced = SCALER) -> list[str]:
    found = check(f"import torch\n{before}", f"import torch\n{after}", facts)
    assert all(failure.check in ("same-program", "additions") for failure in found)
    return [failure.message for failure in found]


def test_the_same_text_passes() -> None:
    assert check("x = 1\n", "x = 1\n", Introduced()) == ()


def test_formatting_is_no_difference() -> None:
    assert check("a(); b()  # why\n", "\ufeffa( )\n# why\nb()\n", Introduced()) == ()


def test_output_that_does_not_parse() -> None:
    (failure,) = check("x = 1\n", "x = 1\ny = = 2\n", Introduced())
    assert (failure.check, failure.line) == ("parses", 2)


@pytest.mark.parametrize(
    "output", ["x = 1\nreturn\n", "def f(a, a): pass\n", "x = '\0'\n", "f(a=1, a=2)\n"]
)
def test_output_that_does_not_compile(output: str) -> None:
    assert [failure.check for failure in check("x = 1\n", output, Introduced())] == ["parses"]


def test_scaler_read_before_its_global_statement() -> None:
    before = "def f():\n    global o\n    o = 1\n"
    after = "def f():\n    scaler.update()\n    global o, scaler\n    o = 1\n"
    assert [failure.check for failure in check(before, after, SCALER)] == ["parses"]


def test_original_that_does_not_compile_is_compared_all_the_same() -> None:
    assert check("return\n", "return\n", Introduced()) == ()
    assert [failure.check for failure in check("return\n", "pass\n", Introduced())] == [
        "same-program"
    ]


def test_deep_nesting_is_a_failure_not_a_crash() -> None:
    deep = "x = " + " + ".join(["y"] * (sys.getrecursionlimit() * 3)) + "\n"
    found = check(deep + "a()\n", deep + "scaler.update()\na()\n", SCALER)
    assert [failure.check for failure in found] in (["parses"], ["same-program"])


def test_a_difference_says_where_and_what() -> None:
    after = "import torch\nwith torch.autocast('cuda'):\n    a()\nb(2)\nc()\n"
    (failure,) = check("import torch\na()\nb(1)\nc()\n", after, Introduced())
    assert failure.line == 4
    assert (
        failure.message
        == "line 4 of the output is not line 3 of the original: `b(2)` instead of `b(1)`"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 0.0", "x = -0.0"),
        ("x = 'a'", "x = b'a'"),
        ("f(a, b)", "f(b, a)"),
        ("f(a=1, b=2)", "f(b=2, a=1)"),
        ("a()\nb()", "b()\na()"),
        ("a()", "a()\na()"),
        ("a()\na()", "a()"),
        ("for x in y:\n    a()\n    b()", "for x in y:\n    a()\nb()"),
        ("async def f(): pass", "def f(): pass"),
        ("def f() -> int: pass", "def f(): pass"),
        ("f'{x!r}'", "f'{x}'"),
        ("x.detach()", "x"),
        ("x: int = 1", "x = 1"),
        ("match x:\n    case 1: a()", "match x:\n    case 2: a()"),
        ("try:\n    a()\nexcept E:\n    b()", "try:\n    a()\nexcept F:\n    b()"),
        ("with a: pass", "a"),
    ],
)
def test_other_programs_differ(before: str, after: str) -> None:
    assert len(messages(before, after)) == 1


# casts


@pytest.mark.parametrize(
    ("before", "after", "casts"),
    [
        ("sigmoid(x)", "sigmoid(x.float())", 1),
        ("sigmoid(x.float())", "sigmoid(x.float().float())", 1),
        ("sigmoid(f(x), y)", "sigmoid(f(x).float(), y.float())", 2),
        ("x.sigmoid()", "x.float().sigmoid()", 1),
        ("x.float()", "x.float()", 0),
    ],
)
def test_casts_are_counted(before: str, after: str, casts: int) -> None:
    facts = Introduced(float_casts=casts)
    assert messages(before, after, facts) == []
    assert messages(before, after, dataclasses.replace(facts, float_casts=casts + 1))


@pytest.mark.parametrize("after", ["f(x.float(1))", "f(x.half())", "f(float(x))", "f(x.float)"])
def test_other_casts_differ(after: str) -> None:
    assert messages("f(x)", after, Introduced(float_casts=1))


# hoisted losses

HOISTED = Introduced(scalers=frozenset({"scaler"}), hoisted=frozenset({"loss"}))
MADE = "scaler = torch.amp.GradScaler('cuda')\n"


def test_hoisted_loss_is_folded() -> None:
    after = MADE + "loss = f(x)\nscaler.scale(loss).backward()"
    assert messages("f(x).backward()", after, HOISTED) == []


def test_hoisted_twice_in_one_scope() -> None:
    before = "f(x).backward()\na()\nf(y).backward()"
    after = MADE + (
        "loss = f(x)\nscaler.scale(loss).backward()\na()\nloss = "
        "f(y)\nscaler.scale(loss).backward()"
    )
    assert messages(before, after, HOISTED) == []


def test_a_loss_named_so_in_another_function_is_no_hindrance() -> None:
    other = "def g():\n    loss = f(x)\n    loss.backward()\n    return loss\n"
    after = MADE + "loss = f(x)\nscaler.scale(loss).backward()\n" + other
    assert messages("f(x).backward()\n" + other, after, HOISTED) == []


def test_a_loss_that_was_named_before_may_be_folded_on_both_sides() -> None:
    text = "def g():\n    loss = f(x)\n    loss.backward()\n    a()\n"
    after = text.replace("loss.backward", "scaler.scale(loss).backward")
    assert messages(text, MADE + after, HOISTED) == []


@pytest.mark.parametrize(
    "after",
    [
        "loss = f(x)\na()\nscaler.scale(loss).backward()",
        "loss = f(x)\nscaler.scale(loss).backward()\nprint(loss)",
        "loss = f(x)\nscaler.scale(other).backward()",
        "loss = f(x)\nloss = f(x)\nscaler.scale(loss).backward()",
        "if y:\n    loss = f(x)\nscaler.scale(loss).backward()",
    ],
)
def test_what_is_not_a_hoisted_loss(after: str) -> None:
    assert messages("f(x).backward()", MADE + after, HOISTED)


NAMED = Introduced(
    scalers=frozenset({"scaler"}), hoisted=frozenset({"out", "out_2"}), losses=frozenset({"bce"})
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = bce(m(x), y)", "out = m(x)\nloss = bce(out, y)"),
        ("loss += w * bce(m(x), y())", "out = m(x)\nloss += w * bce(out, y())"),
        ("bce(m(x), y).backward()", "out = m(x)\nbce(out, y).backward()"),
        (
            "loss = bce(m(x), o) + bce(m(z), p)",
            "out = m(x)\nout_2 = m(z)\nloss = bce(out, o) + bce(out_2, p)",
        ),
        ("loss = self.bce(self.m(x), y)", "out = self.m(x)\nloss = self.bce(out, y)"),
    ],
)
def test_what_a_model_gives_may_get_a_name(before: str, after: str) -> None:
    assert messages(before, after, NAMED) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = a() * bce(m(x), y)", "out = m(x)\nloss = a() * bce(out, y)"),
        ("loss = m.kl + bce(m(x), y)", "out = m(x)\nloss = m.kl + bce(out, y)"),
        ("loss = self.w * bce(m(x), y)", "out = m(x)\nloss = self.w * bce(out, y)"),
        ("loss = bce(y(), m(x))", "out = m(x)\nloss = bce(y(), out)"),
        ("loss = w * bce(m(w := x), y)", "out = m(w := x)\nloss = w * bce(out, y)"),
        (
            "loss = f(m(x), o) + f(m(z), p)",
            "out = m(x)\nout_2 = m(z)\nloss = f(out, o) + f(out_2, p)",
        ),
        (
            "loss = bce(m(x), o) + bce(m(z), p)",
            "out_2 = m(z)\nout = m(x)\nloss = bce(out, o) + bce(out_2, p)",
        ),
        ("loss = bce(m(x), y) if a else b", "out = m(x)\nloss = bce(out, y) if a else b"),
        ("loss = bce(m(x), m(x))", "out = m(x)\nloss = bce(out, out)"),
        ("loss = bce(m(x), y)\na()", "out = m(x)\na()\nloss = bce(out, y)"),
    ],
)
def test_what_may_not_be_computed_before_the_rest(before: str, after: str) -> None:
    assert messages(before, after, NAMED)


def test_hoisting_over_a_name_that_is_in_use() -> None:
    before = "loss = 0\nf(x).backward()\nprint(loss)"
    after = MADE + "loss = 0\nloss = f(x)\nscaler.scale(loss).backward()\nprint(loss)"
    assert any("already uses that name" in message for message in messages(before, after, HOISTED))


# names


def test_scaler_over_another_scaler() -> None:
    before = "scaler = StandardScaler()\nx = scaler.fit(x)\nloss.backward()"
    after = (
        "scaler = StandardScaler()\nx = scaler.fit(x)\n" + MADE + "scaler.scale(loss).backward()"
    )
    assert (
        messages(before, after)[0]
        == "`scaler` is new here, but line 2 of the original already uses that name"
    )


def test_scaler_of_another_function_is_no_hindrance() -> None:
    other = "def prepare(x):\n    scaler = StandardScaler()\n    return scaler.fit(x)\n"
    assert messages(other + "loss.backward()", other + MADE + "scaler.scale(loss).backward()") == []


def test_scaler_that_a_function_read_from_elsewhere() -> None:
    other = "def prepare(x):\n    return scaler.fit(x)\n"
    assert messages(other + "loss.backward()", other + MADE + "scaler.scale(loss).backward()")


def test_original_with_amp_fails_rather_than_guess() -> None:
    before = "def f(scaler):\n    scaler.update()\n    a()\n"
    after = "def f(scaler):\n    scaler.update()\n    scaler.update()\n    a()\n"
    assert messages(before, after) == [
        "line 2 of the original already uses what the rewrite would introduce"
    ]


def test_attribute_over_another() -> None:
    before = (
        "class A:\n    def f(self):\n        self.scaler = make()\n    def g(self):\n       "
        " loss.backward()\n"
    )
    after = before.replace("loss", "self.scaler.scale(loss)").replace(
        "make()\n", "make()\n        self.scaler = torch.amp.GradScaler('cuda')\n"
    )
    assert (
        "already uses that name"
        in messages(before, after, Introduced(scalers=frozenset({"self.scaler"})))[0]
    )


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("loss.backward()", "scaler.scale(loss).backward()", "`scaler` is read here but never set"),
        (
            "loss.backward()",
            "scaler.scale(loss).backward()\n" + MADE,
            "`scaler` is read here before it is set",
        ),
        (
            "if x:\n    a()\nloss.backward()",
            (
                "if x:\n    a()\n    scaler = "
                "torch.amp.GradScaler('cuda')\nscaler.scale(loss).backward()"
            ),
            "`scaler` is read here but set only on the branch at line 4",
        ),
        (
            "device = f()\nloss.backward()",
            (
                "scaler = torch.amp.GradScaler('cuda', enabled=device.type == 'cuda')\n"
                "device = f()\nscaler.scale(loss).backward()"
            ),
            "`device` is read here before it is set",
        ),
        (
            "loss.backward()",
            (
                "scaler = torch.amp.GradScaler('cuda', enabled=device.type == "
                "'cuda')\nscaler.scale(loss).backward()"
            ),
            "`device` is read here but never set",
        ),
        (
            "def f(x):\n    a()\nf(1)",
            "def f(x, scaler):\n    a()\nf(1)",
            "`f` needs `scaler`, which this call does not pass",
        ),
        (
            "def f(x):\n    a()\nrun(f)",
            "def f(x, scaler):\n    a()\nrun(f)",
            "`f` is handed on as a callback, and needs `scaler`",
        ),
        (
            "def f(x):\n    a()\nf(1)",
            "def f(x):\n    a()\n" + MADE + "f(1, scaler=scaler)",
            "`f` has no parameter `scaler`",
        ),
        (
            "class T:\n    def __init__(self, o):\n        self.o = o\nT(1)",
            "class T:\n    def __init__(self, o, scaler):\n        self.o = o\nT(1)",
            "`T` needs `scaler`, which this call does not pass",
        ),
        (
            "class T:\n    def f(self):\n        a()\n    def g(self):\n        self.f()",
            "class T:\n    def f(self, scaler):\n        a()\n    def g(self):\n        self.f()",
            "`self.f` needs `scaler`, which this call does not pass",
        ),
        (
            "def f(x):\n    a()",
            "def f(x, scaler=None):\n    a()",
            "`scaler` may be None in `f`, and nothing replaces it",
        ),
        (
            "def f(x):\n    a()",
            (
                "def f(x, scaler=None):\n    a()\n    if x.get('scaler'):\n"
                "        scaler.load_state_dict(x['scaler'])"
            ),
            "`scaler` may be None in `f`, and nothing replaces it",
        ),
        (
            "def f(x):\n    a()",
            (
                "def f(x, scaler=None):\n    a()\n"
                "    if scaler is not None and x.get('scaler'):\n"
                "        scaler.load_state_dict(x['scaler'])\n    scaler.update()"
            ),
            "`scaler` may be None in `f`, and nothing replaces it",
        ),
        (
            "a()",
            MADE + "with torch.autocast('cpu'):\n    a()",
            "the device type is 'cpu' here and 'cuda' in line 2",
        ),
    ],
)
def test_names_and_signatures(before: str, after: str, wanted: str) -> None:
    assert wanted in messages(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if train:\n    a()\nif train and more:\n    loss.backward()",
            (
                "if train:\n    a()\n    scaler = torch.amp.GradScaler('cuda')\n"
                "if train and more:\n    scaler.scale(loss).backward()"
            ),
        ),
        (
            "def f(x, **more):\n    a()\nf(1)",
            "def f(x, *, scaler, **more):\n    a()\n" + MADE + "f(1, scaler=scaler)",
        ),
        ("def f(x):\n    a()\nf(**options)", "def f(x, scaler):\n    a()\nf(**options)"),
        (
            "def f(x):\n    a()\nrun(partial(f, 1))",
            "def f(x, scaler):\n    a()\n" + MADE + "run(partial(f, 1, scaler=scaler))",
        ),
        (
            "from m import *\na()",
            "from m import *\nscaler = torch.amp.GradScaler('cuda', enabled=cuda)\na()",
        ),
        (
            "def f(x):\n    a()\ndef g(f):\n    run(f)\n    f(1)",
            "def f(x, scaler):\n    a()\ndef g(f):\n    run(f)\n    f(1)",
        ),
        ("model.train()\ndef train(m):\n    a()", "model.train()\ndef train(m, scaler):\n    a()"),
        (
            "def main():\n    def step():\n        loss.backward()\n    a()",
            "def main():\n    def step():\n        scaler.scale(loss).backward()\n    a()\n    "
            + MADE,
        ),
    ],
)
def test_names_that_are_in_order(before: str, after: str) -> None:
    assert messages(before, after) == []


# the hooks


def test_a_second_run_must_change_nothing() -> None:
    assert check("a()\n", "a()\n", Introduced(), again=lambda text: None) == ()
    assert check("a()\n", "a()\n", Introduced(), again=lambda text: text) == ()
    (failure,) = check("a()\nb()\n", "a()\nb()\n", Introduced(), again=lambda text: text + "c()\n")
    assert failure == Failure(
        "stable", 3, "a second run changes line 3: `c()` instead of `the end of the file`"
    )


def test_the_protocol_is_asked() -> None:
    found = check(
        "a()\n", "a()\n", Introduced(), protocol=lambda text: ["line 1: no update"] if text else []
    )
    assert found == (Failure("protocol", 1, "line 1: no update"),)


def test_hooks_run_only_on_the_same_program() -> None:
    def refuse(text: str) -> list[str]:
        raise AssertionError(text)

    assert [
        failure.check for failure in check("a()\n", "b()\n", Introduced(), protocol=refuse)
    ] == ["same-program"]


# what was there before

AMP = "def old(scaler):\n    scaler.update()\n    a()\n"


def test_amp_in_a_function_left_alone_is_no_hindrance() -> None:
    after = (
        AMP
        + "def new():\n    scaler = torch.amp.GradScaler('cuda')\n    scaler.scale(loss).backward()"
    )
    assert messages(AMP + "def new():\n    loss.backward()", after) == []


@pytest.mark.parametrize(
    "after",
    [
        "def g(): pass\n" + AMP,  # order
        AMP + "def g(): pass\n" + AMP,  # twice
        AMP.replace("a()", "b()") + "def g(): pass\n",
        "if x:\n    " + AMP.replace("\n", "\n    ") + "\ndef g(): pass\n",
        "@cache\n" + AMP + "def g(): pass\n",
        "def g(): pass\n",
    ],
)
def test_what_was_left_alone_still_counts(after: str) -> None:
    assert messages(AMP + "def g(): pass\n", after)


def test_methods_left_alone_are_set_aside_one_by_one() -> None:
    before = (
        "class A:\n    def f(self):\n        scaler.update()\n    def g(self):\n        "
        "a()\n        b()\n"
    )
    assert messages(
        before, before.replace("        a()\n", "        scaler.update()\n        a()\n"), SCALER
    ) == ["`scaler` is read here but never set"]
    assert messages(before, before.replace("        a()\n        b()", "        b()\n        a()"))


def test_scaler_made_under_a_global_statement() -> None:
    before = "def make():\n    global o\n    o = 1\ndef g():\n    o.step()\nmake()\ng()"
    after = before.replace(
        "global o\n    o = 1", f"global o, scaler\n    o = 1\n    {MADE}"
    ).replace("o.step()", "scaler.step(o)")
    assert messages(before, after) == []
    assert messages(before, after.replace("global o, scaler", "global o")) == [
        "`scaler` is read here but never set"
    ]
