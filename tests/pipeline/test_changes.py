"""What a rewrite is said to have changed."""

from __future__ import annotations

from amp_migrate.pipeline.changes import changes

BEFORE = """\
for x in loader:
    for t in range(3):
        h = model(x, h)

        # store
        kept.append(h)

    # the last one
    h = model(x, h)
    kept.append(h)
    loss = h.mean()
    loss.backward()
    optimizer.step()
"""
AFTER = """\
for x in loader:
    with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
        for t in range(3):
            h = model(x, h)

            # store
            kept.append(h)

        # the last one
        h = model(x, h)
        kept.append(h)
        loss = h.mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_lines_that_only_moved_to_the_right_are_no_changes() -> None:
    assert [(one.line, one.kind) for one in changes(BEFORE, AFTER)] == [
        (2, "autocast"),
        (12, "scale"),
        (13, "step"),
        (14, "update"),
    ]


def test_a_text_that_is_the_same_has_none() -> None:
    assert changes(BEFORE, BEFORE) == ()


def kinds(before: str, after: str) -> list[str]:
    return [one.kind for one in changes(before, after)]


def test_a_parameter_in_a_list_on_several_lines() -> None:
    before = "def train(model: Net,\n          ewc: EWC, importance: float):\n    pass\n"
    assert kinds(before, before.replace("float):", "float, scaler):")) == ["parameter"]
    assert kinds(before, before.replace("float):", "float, *, scaler):")) == ["parameter"]


def test_a_function_on_one_line_gets_no_parameter() -> None:
    before = "def f(x): return torch.sigmoid(g(x))\n"
    assert kinds(before, before.replace("g(x)", "g(x).float()")) == ["float32"]
    assert kinds(before, before.replace("f(x)", "f(x, scaler)")) == ["parameter"]


def test_an_argument_in_a_list_on_several_lines_is_no_parameter() -> None:
    before = "train(model,\n      ewc, importance)\n"
    after = before.replace("importance)", "importance, scaler=scaler)")
    assert kinds(before, after) == ["argument"]


def test_each_statement_of_a_line_is_explained() -> None:
    before = "optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
    after = (
        "optimizer.zero_grad(); scaler.scale(loss).backward(); scaler.step(optimizer)\n"
        "scaler.update()\n"
    )
    found = [(one.line, one.kind) for one in changes(before, after)]
    assert found == [(1, "scale"), (1, "step"), (2, "update")]
    assert changes("a(); b()\n", "a(); c()\n")[0].kind == "other"
