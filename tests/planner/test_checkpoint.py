"""The scaler's state is saved and loaded with the optimizer's."""

from __future__ import annotations

import pytest

from tests.planner.programs import HEAD, LOOP, SECOND, migrate, output, script

STEP = "    loss = criterion(model(x), y)\n    loss.backward()\n    optimizer.step()\n"


def saved(lines: str, before: str = "") -> str:
    """A script with `lines` after its loop."""
    return HEAD + before + LOOP + STEP + lines


def after(lines: str, before: str = "", **options: object) -> str:
    """What becomes of the lines."""
    return output(saved(lines, before), **options).rpartition("scaler.update()\n")[2]


SAVED = {
    "a dict": (
        'torch.save({"optimizer": optimizer.state_dict()}, path)\n',
        'optimizer.state_dict(), "scaler": scaler.state_dict()}, path)',
    ),
    "the last of several": (
        'state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}\n',
        '"epoch": 3, "scaler": scaler.state_dict()}',
    ),
    "a call of dict": (
        "state = dict(optimizer=optimizer.state_dict())\n",
        "dict(optimizer=optimizer.state_dict(), scaler=scaler.state_dict())",
    ),
}


@pytest.mark.parametrize(("lines", "expected"), SAVED.values(), ids=SAVED)
def test_saved_beside_the_optimizer(lines: str, expected: str) -> None:
    assert expected in after(lines)


def test_two_optimizers_in_one_checkpoint_save_one_scaler() -> None:
    lines = 'state = {"a": optimizer.state_dict(), "b": second.state_dict()}\n'
    source = saved(lines, SECOND).replace(
        "optimizer.step()\n", "optimizer.step()\n    second.step()\n"
    )
    assert output(source).count("scaler.state_dict()") == 1


LOADED = {
    "a key": (
        'checkpoint = torch.load(path)\noptimizer.load_state_dict(checkpoint["optimizer"])\n',
        "checkpoint",
        '"scaler"',
    ),
    "single quotes": (
        "checkpoint = torch.load(path)\noptimizer.load_state_dict(checkpoint['optimizer'])\n",
        "checkpoint",
        "'scaler'",
    ),
    "another name": (
        'state = torch.load(path)\noptimizer.load_state_dict(state["opt"])\n',
        "state",
        '"scaler"',
    ),
}


@pytest.mark.parametrize(("lines", "name", "key"), LOADED.values(), ids=LOADED)
def test_loaded_where_there_is_one(lines: str, name: str, key: str) -> None:
    assert (
        after(lines) == f"{lines}if {name}.get({key}):\n    scaler.load_state_dict({name}[{key}])\n"
    )


def test_loaded_in_a_branch() -> None:
    lines = (
        "if resume:\n    checkpoint = torch.load(resume)\n    "
        'optimizer.load_state_dict(checkpoint["optimizer"])\n'
    )
    assert after(lines) == (
        f'{lines}    if checkpoint.get("scaler"):\n        '
        'scaler.load_state_dict(checkpoint["scaler"])\n'
    )


QUIET = {
    "the model alone": 'torch.save(model.state_dict(), "model.pt")\n',
    "the model in a dict": 'torch.save({"model": model.state_dict()}, "model.pt")\n',
    "the model is loaded": 'model.load_state_dict(torch.load("model.pt"))\n',
    "nothing": "print('done')\n",
}


@pytest.mark.parametrize("lines", QUIET.values(), ids=QUIET)
def test_other_states_stay_as_they_are(lines: str) -> None:
    assert after(lines) == lines


APART = {
    "saved": "torch.save(optimizer.state_dict(), path)\n",
    "loaded": "optimizer.load_state_dict(torch.load(path))\n",
}
KEPT = {
    "named": "state = optimizer.state_dict()\ntorch.save(state, path)\n",
    "named, and given back": (
        "state = optimizer.state_dict()\n"
        "torch.save(state, path)\n"
        "optimizer.load_state_dict(state)\n"
    ),
    "given to another one": ("state = other.state_dict()\noptimizer.load_state_dict(state)\n"),
    "moved": (
        "state = {k: v for k, v in optimizer.state_dict().items()}\ntorch.save(state, path)\n"
    ),
}
READ = {
    "an entry": 'print(optimizer.state_dict()["param_groups"][0]["lr"])\n',
    "an entry of a name": 'state = optimizer.state_dict()\nprint(state["state"], state["lr"])\n',
    "keys": "print(optimizer.state_dict().keys())\n",
    "a loop over keys": "for key in optimizer.state_dict():\n    print(key)\n",
    "changed and given back": (
        "state = optimizer.state_dict()\n"
        'state["param_groups"][0]["lr"] *= 0.5\n'
        "optimizer.load_state_dict(state)\n"
    ),
}


@pytest.mark.parametrize("lines", READ.values(), ids=READ)
def test_a_state_whose_entries_are_read_is_not_saved(lines: str) -> None:
    outcome = migrate(saved(lines))
    assert outcome.output is not None
    assert outcome.output.endswith(lines)
    assert not outcome.notes


@pytest.mark.parametrize("lines", APART.values(), ids=APART)
def test_a_file_of_its_own_is_reported(lines: str) -> None:
    outcome = migrate(saved(lines))
    assert outcome.output is not None
    assert outcome.output.endswith(lines)
    assert ["scaler" in note.message for note in outcome.notes] == [True]
    assert outcome.notes[0].line == saved(lines).count("\n")


@pytest.mark.parametrize("lines", KEPT.values(), ids=KEPT)
def test_a_state_that_gets_a_name_is_reported(lines: str) -> None:
    outcome = migrate(saved(lines))
    assert outcome.output is not None
    assert outcome.output.endswith(lines)
    assert ["scaler" in note.message for note in outcome.notes] == [True]


def test_a_taken_key_is_reported() -> None:
    lines = 'torch.save({"optimizer": optimizer.state_dict(), "scaler": mean}, path)\n'
    outcome = migrate(saved(lines))
    assert outcome.output is not None
    assert outcome.output.endswith(lines)
    assert len(outcome.notes) == 1


def test_bfloat16_has_no_state() -> None:
    lines = 'torch.save({"optimizer": optimizer.state_dict()}, path)\n'
    assert output(saved(lines), dtype="bfloat16").endswith(lines)


def test_a_refused_loop_saves_nothing() -> None:
    source = (
        script("loss = queue.get()\nloss.backward()\noptimizer.step()\n")
        + 'torch.save({"o": optimizer.state_dict()}, path)\n'
    )
    assert migrate(source).output is None


DICT = '{"model": model.state_dict(), "optimizer": optimizer.state_dict()}'
WHOLE = {
    "a loop over its items": (
        f"torch.save({DICT}, path)\nfor name, state in torch.load(path).items():\n"
        "    parts[name].load_state_dict(state)\n"
    ),
    "values unpacked": f"torch.save({DICT}, path)\nm, o = torch.load(path).values()\n",
    "keywords": f"torch.save({DICT}, path)\nstate = State(**torch.load(path))\n",
    "its length": f"state = {DICT}\ntorch.save(state, path)\nassert len(state) == 2\n",
    "its keys compared": f"state = {DICT}\nassert set(state) == EXPECTED\n",
    "a helper": f"def check(state):\n    assert sorted(state) == NAMES\ncheck({DICT})\n",
    "an attribute": f"self.best = {DICT}\nm, o = self.best.values()\n",
    "what a function returns": (
        f"def made():\n    return {DICT}\ndef used(d):\n    return list(d)\nused(made())\n"
    ),
    "a form that has the key as well": (
        f'torch.save({DICT}, path)\nstate = torch.load(path)\nif "ema" in state:\n    print(1)\n'
        "else:\n    print(len(state))\n"
    ),
    "another file in the arm of an older form": (
        f'torch.save({DICT}, path)\nstate = torch.load(path)\nif "model" not in state:\n'
        "    state = torch.load(other)\n    print(len(state))\n"
    ),
    "a file of the same object, saved as who knows what": (
        f"torch.save({DICT}, path)\nclass Files:\n    def write(self, found):\n"
        "        torch.save(found, self.path)\n    def read(self):\n"
        "        self.files = torch.load(self.path)\n    def __len__(self):\n"
        "        return len(self.files)\n"
    ),
    "code out of sight": f"torch.save({DICT}, path)\nrestore(torch.load(path), model)\n",
}


@pytest.mark.parametrize("lines", WHOLE.values(), ids=WHOLE)
def test_a_checkpoint_that_is_read_as_a_whole_is_left_alone(lines: str) -> None:
    outcome = migrate(saved(lines, "import lib\nfrom lib import *\n"))
    assert outcome.output is not None
    assert outcome.output.endswith(lines)
    assert any("not saved here" in note.message for note in outcome.notes)
    assert migrate(outcome.output).output is None


BY_KEY = {
    "weights renamed": (
        'weights = {k[7:]: v for k, v in torch.load("pretrained.pt").items()}\n'
        "model.load_state_dict(weights)\n"
    ),
    "a tuple unpacked": "inputs, labels = torch.load(path)\nprint(len(labels))\n",
    "a list of the same file": (
        "class Files:\n    def write(self, found):\n        torch.save([found], self.path)\n"
        "    def read(self):\n        self.files = torch.load(self.path)\n"
        "    def __len__(self):\n        return len(self.files)\n"
    ),
    "weights given to the model": 'w = torch.load("best.pt")\nmodel.load_state_dict(w)\n',
    "a key looked for": 'state = torch.load(path)\nif "epoch" in state:\n    print(state["epoch"])\n',
    "an entry read as a whole": 'for k, v in torch.load(path)["model"].items():\n    print(k)\n',
    "keys shown": "state = torch.load(path)\nprint(state.keys())\n",
    "an older form, without one of the keys": (
        'state = torch.load(path)\nif "model" in state:\n    weights = state["model"]\n'
        "else:\n    weights = state\nfor k, v in weights.items():\n    print(k)\n"
    ),
    "an older form, asked for the other way round": (
        'state = torch.load(path)\nif "model" not in state:\n    print(list(state.values()))\n'
    ),
    "a helper that takes keys": 'def read(s):\n    return s["epoch"]\nread(torch.load(path))\n',
}


@pytest.mark.parametrize("lines", BY_KEY.values(), ids=BY_KEY)
def test_a_checkpoint_whose_readers_take_keys_by_name_gets_one_more(lines: str) -> None:
    after_it = after(f"torch.save({DICT}, path)\n{lines}")
    assert after_it.startswith(f'torch.save({DICT[:-1]}, "scaler": scaler.state_dict()}}, path)')


def test_a_copy_of_the_state_is_saved_with_that_of_the_scaler() -> None:
    lines = 'best = {"opt": copy.deepcopy(optimizer.state_dict())}\n'
    assert '"scaler": scaler.state_dict()}' in after(lines, "import copy\n")


ONE_SIDED = {
    "saved": (
        f"torch.save({DICT}, path)\nstate = torch.load(path)\nfor one in optimizers:\n"
        "    one.step()\noptimizer.load_state_dict(unpacked)\n"
    ),
    "loaded": (
        "torch.save(optimizer.state_dict(), path)\nstate = torch.load(path)\n"
        'optimizer.load_state_dict(state["optimizer"])\n'
    ),
}


@pytest.mark.parametrize(("what", "lines"), ONE_SIDED.items(), ids=ONE_SIDED)
def test_saved_and_loaded_or_neither(what: str, lines: str) -> None:
    outcome = migrate(saved(lines))
    assert outcome.output is not None
    assert outcome.output.endswith(lines)
    assert any(f"not {what} here" in note.message for note in outcome.notes)


def test_whoever_saves_anything_is_told_of_the_scaler() -> None:
    lines = (
        "def save(path, **all):\n    torch.save({k: v.state_dict() for k, v in all.items()}, path)\n"
        "save(path, model=model, optimizer=optimizer)\n"
    )
    outcome = migrate(saved(lines))
    assert [note.message for note in outcome.notes] == [
        "`save` saves or loads the optimizer's state: give it the scaler, too"
    ]


@pytest.mark.parametrize(
    "lines",
    [
        'torch.save({"model": model, "optimizer": optimizer}, path)\n',
        'state = {"epoch": 3, "optimizer": optimizer}\ntorch.save(state, path)\n',
        "torch.save(optimizer, path)\n",
    ],
)
def test_an_optimizer_that_is_saved_itself_is_told_of(lines: str) -> None:
    outcome = migrate(saved(lines))
    assert ["the optimizer itself is saved here" in one.message for one in outcome.notes] == [True]


@pytest.mark.parametrize(
    "lines",
    [
        'both = {"first": optimizer}\nboth["first"].zero_grad()\n',
        'torch.save({"model": model, "rate": optimizer.param_groups[0]["lr"]}, path)\n',
        'other = torch.optim.SGD(teacher.parameters(), 0.1)\ntorch.save({"other": other}, path)\n',
    ],
)
def test_other_dicts_and_optimizers_are_no_matter_of_the_scaler(lines: str) -> None:
    assert not migrate(saved(lines)).notes
