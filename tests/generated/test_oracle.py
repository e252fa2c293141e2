"""The oracle fails where it has to: each program here is a migration with one thing wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.generated import running
from tests.generated.axes import AXES
from tests.generated.judging import Verdict, judge, verdict
from tests.generated.programs import Program, consistent, program, render

PLAIN = {axis: choices[0] for axis, choices in AXES.items()}
MOVED = "        x, y = x.to(device), y.to(device)\n"


def made(**choices: str) -> Program:
    return render(consistent({**PLAIN, **choices}), "seed")


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    running.prepare()


@pytest.fixture(scope="module")
def clipped() -> tuple[Program, str]:
    """A program that clips, and its right migration."""
    program = made(gradients="clip_norm")
    found = judge(program)
    assert (found.status, found.faults) == ("migrated", ())
    return program, found.after["main.py"]


def checks(program: Program, text: str, folder: Path) -> set[str]:
    found = verdict(program, {"main.py": text}, folder)
    return {fault.check for fault in (*found.faults, *found.ugly)}


FAULTS = [
    ("unscale_ left out", "        scaler.unscale_(optimizer)\n", "", "protocol"),
    ("update left out", "        scaler.update()\n", "", "on raises"),
    ("a bare step", "scaler.step(optimizer)", "optimizer.step()", "protocol"),
    ("a backward without scale", "scaler.scale(loss).backward()", "loss.backward()", "on raises"),
    (
        "a scaler in the loop, never grown",
        "        optimizer.zero_grad()",
        "        scaler = torch.amp.GradScaler('cuda', init_scale=1e30)\n        optimizer.zero_grad()",
        "scaler",
    ),
    ("the loss alone in the region", "            out = model(x)\n", "", "float32 forward"),
    (
        "backward in the region",
        "        scaler.scale(loss)",
        "            scaler.scale(loss)",
        "protocol",
    ),
    ("enabled= asks a string's type", "device.type ==", "device.type.type ==", "off raises"),
    (
        "a scaler that is always off",
        "enabled=device.type",
        "enabled=False and device.type",
        "autocast",
    ),
    (
        "a cast on a list",
        "loss = criterion(out, y)",
        "loss = criterion([out].float(), y)",
        "off raises",
    ),
    ("another loss", "loss = criterion(out, y)", "loss = 1.001 * criterion(out, y)", "off losses"),
    (
        "half kept too long",
        "out = model(x)",
        "out = model(x)\n            out = out if out.dtype == torch.float32 else out / 0",
        "not finite",
    ),
    ("an idle cast", "out = model(x)", "out = model(x.float())", "idle cast"),
    (
        "moving in the region",
        "            out = model(x)",
        f"    {MOVED}            out = model(x)",
        "",
    ),
    ("it does not parse", "scaler.update()", "scaler.update(", "syntax"),
    (
        "a wider region",
        "            out = model(x)",
        "            torch.save({}, 'x.pt')\n            out = model(x)",
        "region",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "check"), FAULTS, ids=[row[0] for row in FAULTS])
def test_a_seeded_fault_is_caught(
    clipped: tuple[Program, str], tmp_path: Path, name: str, old: str, new: str, check: str
) -> None:
    program, right = clipped
    assert old in right
    wrong = right.replace(old, new)
    if name == "the loss alone in the region":
        wrong = wrong.replace(
            "        with torch.autocast", "        out = model(x)\n        with torch.autocast"
        )
    found = checks(program, wrong, tmp_path)
    assert check in found if check else found == set()


def test_the_right_migration_passes(clipped: tuple[Program, str], tmp_path: Path) -> None:
    program, right = clipped
    assert checks(program, right, tmp_path) == set()


def test_a_flag_that_the_switch_ignores_is_caught(tmp_path: Path) -> None:
    program = made(device_source="arg_cpu")
    right = judge(program)
    assert (right.status, right.faults) == ("migrated", ())
    wrong = right.after["main.py"].replace('device.type == "cuda"', "torch.cuda.is_available()")
    assert wrong != right.after["main.py"]
    assert "switch" in checks(program, wrong, tmp_path)


def test_a_second_update_between_two_optimizers_is_caught(tmp_path: Path) -> None:
    """One backward for two optimizers: the scale changes before the second is unscaled."""
    program = made(shape="two_optimizers")
    right = judge(program)
    assert (right.status, right.faults) == ("migrated", ())
    text = right.after["main.py"]
    step = "        scaler.step(optimizer2)"
    assert step in text
    wrong = text.replace(step, f"        scaler.update()\n{step}")
    assert checks(program, wrong, tmp_path)


def test_a_comment_torn_from_its_statement_is_told(tmp_path: Path) -> None:
    program = made(text="comments")
    after = judge(program).after["main.py"]
    comment = next(
        line for line in after.splitlines() if "# about: self.fc2" in line or "# about" in line
    )
    wrong = after.replace(f"{comment}\n", f"{comment}\n{comment.partition('#')[0]}pass\n", 1)
    assert "comment" in checks(program, wrong, tmp_path)


def test_a_program_that_diverges_by_itself_may_skip_its_steps(tmp_path: Path) -> None:
    """The scaler is right to skip what the original writes into its weights as NaN."""
    program = made(hazard="log_of_sigmoid", shape="siamese")
    diverging = {name: text.replace("o * 20", "o * 400") for name, text in program.files.items()}
    assert diverging != dict(program.files)
    found = judge(Program(program.spec, diverging, program.main))
    assert (found.status, found.faults) == ("migrated", ())


@pytest.mark.slow
@pytest.mark.parametrize("choice", AXES["shape"])
def test_each_shape_runs_as_it_is(choice: str, tmp_path: Path) -> None:
    """A generator that writes broken programs would find nothing."""
    assert _original(made(shape=choice), tmp_path).status != "broken"


def _original(program: Program, folder: Path) -> Verdict:
    return verdict(program, program.files, folder)


def test_a_seed_makes_the_same_program_again() -> None:
    assert program("7").files == program("7").files != program("8").files
