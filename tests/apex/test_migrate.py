"""Both steps together: what is migrated, what is refused and why, alone and in company."""

from __future__ import annotations

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text, migrate_texts

LOOP = """\
import torch
from torch import nn
from apex import amp

model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="{level}"{more})
for x in batches:
    optimizer.zero_grad()
    loss = model(x.cuda()).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""


def test_without_a_flag_amp_is_always_on() -> None:
    outcome = migrate_text(LOOP.format(level="O1", more=""), "train.py", Settings())
    assert outcome.status == "migrated"
    assert outcome.output is not None
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in outcome.output
    assert "apex" not in outcome.output
    assert [(loop.line, loop.status) for loop in outcome.loops] == [(11, "migrated")]


def test_level_0_is_plain_float32() -> None:
    outcome = migrate_text(LOOP.format(level="O0", more=""), "train.py", Settings())
    assert outcome.output is not None
    assert "    loss.backward()\n" in outcome.output
    assert "amp" not in outcome.output
    assert "O0 is plain float32" in outcome.notes[-1].message


@pytest.mark.parametrize("level", ["O2", "O3"])
def test_other_levels_say_what_changes(level: str) -> None:
    outcome = migrate_text(LOOP.format(level=level, more=""), "train.py", Settings())
    assert outcome.status == "migrated"
    assert f"opt_level {level}" in outcome.notes[0].message


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", loss_scale=128.0", "init_scale=128.0"),
        (", loss_scale=args.scale", "init_scale=float(args.scale)"),
        (", num_losses=2", "share one GradScaler"),
        (", keep_batchnorm_fp32=True", "precision of batch norm"),
        (", max_loss_scale=2.0**14", "no upper bound"),
    ],
)
def test_settings_are_told(more: str, said: str) -> None:
    outcome = migrate_text(LOOP.format(level="O1", more=more), "train.py", Settings())
    assert outcome.status == "migrated"
    assert any(said in note.message for note in outcome.notes)


def test_dynamic_scaling_needs_no_note() -> None:
    assert (
        migrate_text(
            LOOP.format(level="O1", more=', loss_scale="dynamic"'), "train.py", Settings()
        ).notes
        == ()
    )


def test_evaluation_is_told() -> None:
    text = LOOP.format(level="O1", more="") + "with torch.no_grad():\n    print(model(x))\n"
    outcome = migrate_text(text, "train.py", Settings())
    assert [note.message for note in outcome.notes if "--eval" in note.message]


def test_bfloat16_has_regions_alone() -> None:
    outcome = migrate_text(LOOP.format(level="O1", more=""), "train.py", Settings(dtype="bfloat16"))
    assert outcome.output is not None
    assert 'with torch.autocast("cuda", dtype=torch.bfloat16):' in outcome.output
    assert "GradScaler" not in outcome.output


def test_a_second_run_finds_nothing() -> None:
    outcome = migrate_text(LOOP.format(level="O1", more=""), "train.py", Settings())
    assert outcome.output is not None
    assert migrate_text(outcome.output, "train.py", Settings()).output is None


def test_a_loop_that_cannot_be_migrated_keeps_apex() -> None:
    text = LOOP.format(level="O1", more="").replace("optimizer.step()", "optimizer.step(closure)")
    outcome = migrate_text(text, "train.py", Settings())
    assert outcome.status == "refused"
    assert outcome.output is None
    assert [loop.reason for loop in outcome.loops] == ["step-with-closure"]
    assert "apex.amp is left as it is" in (outcome.loops[0].message or "")


def test_a_switch_that_cannot_be_read_is_no_reason_to_guess() -> None:
    text = LOOP.format(level="O1", more="").replace(
        "model, optimizer = amp", "if half():\n    model, optimizer = amp"
    )
    text = text.replace("if half", "def half():\n    return True\n\n\nif half")
    outcome = migrate_text(text, "train.py", Settings())
    assert outcome.status == "refused"
    assert "cannot be read" in (outcome.loops[0].message or "")


TESTED = """\
if args.load_path:
    model = amp.initialize(model, opt_level="O1"{more})
    evaluate(model)
"""


@pytest.mark.parametrize("more", ["", ", optimizers=None"])
def test_what_turned_apex_on_to_evaluate_turns_no_training_on(more: str) -> None:
    text = LOOP.format(level="O1", more="") + TESTED.format(more=more)
    outcome = migrate_text(text, "train.py", Settings())
    assert outcome.status == "migrated"
    assert outcome.output is not None
    assert "load_path" not in outcome.output.partition("for ")[0]


@pytest.mark.parametrize(
    "more", [", optimizers=optimizer", ", optimizers=[optimizer]", ", **options"]
)
def test_a_second_training_may_be_on_where_the_first_is_not(more: str) -> None:
    text = LOOP.format(level="O1", more="") + TESTED.format(more=more)
    outcome = migrate_text(text, "train.py", Settings())
    assert outcome.status == "refused"


def test_a_switch_in_a_dictionary_is_asked_once() -> None:
    text = LOOP.format(level="O1", more=', enabled=cfg["amp"]').replace(
        "\nmodel =", '\ncfg = {"amp": False}\nmodel ='
    )
    outcome = migrate_text(text, "train.py", Settings())
    assert outcome.status == "migrated"
    assert outcome.output is not None
    assert "enabled=bool(cfg['amp']))" in outcome.output


MAIN = """\
import torch
from apex import amp
from engine import parse, train
from torch import nn

if __name__ == "__main__":
    args = parse()
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for epoch in range(3):
        train(args, model, optimizer, loader)
"""
ENGINE = """\
from apex import amp


def parse():
    return argparse.ArgumentParser().parse_args()


def train(args, model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x.cuda()).mean()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
"""


def test_files_of_one_program_change_together() -> None:
    outcomes = migrate_texts({"main.py": MAIN, "engine.py": ENGINE}, Settings()).outcomes
    assert {path: outcome.status for path, outcome in outcomes.items()} == {
        "main.py": "migrated",
        "engine.py": "migrated",
    }
    main, engine = outcomes["main.py"].output, outcomes["engine.py"].output
    assert main is not None
    assert engine is not None
    assert 'scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))' in main
    assert "scaler=scaler" in main
    assert "scaler.scale(loss).backward()" in engine
    assert "apex" not in main + engine


@pytest.mark.parametrize(("path", "text"), [("main.py", MAIN), ("engine.py", ENGINE)])
def test_one_of_them_alone_is_left_alone(path: str, text: str) -> None:
    outcome = migrate_text(text, path, Settings())
    assert outcome.status == "refused"
    assert "another file" in (outcome.loops[0].message or "")


def test_all_or_none() -> None:
    spoilt = MAIN + "\namp._amp_state.verbosity = 0\n"
    outcomes = migrate_texts({"main.py": spoilt, "engine.py": ENGINE}, Settings()).outcomes
    assert {outcome.status for outcome in outcomes.values()} == {"refused"}
    assert all(outcome.output is None for outcome in outcomes.values())
    assert "main.py, line" in (outcomes["engine.py"].loops[0].message or "")


@pytest.mark.parametrize(
    ("size", "made"), [("0", "None"), ("4", "apex.parallel.create_syncbn_process_group(4)")]
)
def test_groups_of_all_processes(size: str, made: str) -> None:
    plain = f"""\
import apex
import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
group = apex.parallel.create_syncbn_process_group({size})
model = apex.parallel.convert_syncbn_model(model, process_group=group)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    optimizer.zero_grad()
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""
    outcome = migrate_text(plain, "train.py", Settings())
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert f"group = {made}\n" in (outcome.output or "")


def test_what_is_imported_and_not_used_says_nothing_of_the_loop() -> None:
    plain = """\
import torch
from torch import nn

try:
    import apex
    from apex import amp, optimizers
except ImportError:
    pass

model = nn.Linear(4, 1).cuda()
if sync:
    model = apex.parallel.convert_syncbn_model(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    optimizer.zero_grad()
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""
    outcome = migrate_text(plain, "train.py", Settings())
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert outcome.output is not None
    assert "scaler.scale(loss).backward()" in outcome.output


CONVERTED = """\
import apex
import torch
from torch import nn, optim

net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).cuda()
other = nn.Linear(4, 4).cuda()
{before}model = apex.parallel.DistributedDataParallel(net)
model = apex.parallel.convert_syncbn_model(model)
{after}for x in batches:
    optimizer.zero_grad()
    loss = model(other(x.cuda())).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "optimizer = optim.SGD(net.parameters(), lr=0.1)\n",
        "optimizer = optim.SGD([{'params': filter(bool, net.parameters())}], lr=0.1)\n",
        "given = list(net.parameters())\noptimizer = optim.SGD(given, lr=0.1)\n",
    ],
)
def test_an_optimizer_that_holds_what_apex_replaces(made: str) -> None:
    """Only what needs `apex.amp` has to do without `apex.parallel`."""
    plain = CONVERTED.format(before=made, after="")
    outcome = migrate_text(plain, "train.py", Settings())
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert "apex.parallel.convert_syncbn_model(model)\n" in (outcome.output or "")
    outcome = migrate_text(f"from apex import amp\n{plain}", "train.py", Settings())
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert "apex.parallel.convert_syncbn_model(model)\n" in (outcome.output or "")
    scaled = plain.replace(
        "    loss.backward()\n",
        "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n",
    ).replace("for x", "model, optimizer = amp.initialize(model, optimizer)\nfor x")
    outcome = migrate_text(f"from apex import amp\n{scaled}", "train.py", Settings())
    assert [loop.reason for loop in outcome.loops] == ["apex-form"]
    assert "does not hold" in (outcome.loops[0].message or "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "optimizer = optim.SGD(model.parameters(), lr=0.1)\n"),
        ("optimizer = optim.SGD(other.parameters(), lr=0.1)\n", ""),
        ("count = len([*net.parameters()])\n", "optimizer = optim.SGD(net.parameters(), count)\n"),
    ],
)
def test_optimizers_that_hold_the_same_in_apex_and_in_torch(before: str, after: str) -> None:
    outcome = migrate_text(CONVERTED.format(before=before, after=after), "train.py", Settings())
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert "convert_sync_batchnorm(model)" in (outcome.output or "")
