"""README and docs/: what they show is what commands print, and their code blocks hold."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

from amp_migrate import config
from tests import documents
from tests.documents import DOCS, GENERATED, ROOT, WRITTEN, Workshop, replayed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
BY_HAND = [path for path in WRITTEN if path.name not in GENERATED]
SLOW = {"verify.md", "first-session.md"}
"""Documents whose commands run programs; the numbers that they print differ from run to run."""


def blocks(kind: str) -> list[tuple[str, str]]:
    """All blocks of a kind, with the name of their document."""
    found = [(path.name, _FENCE.findall(path.read_text(encoding="utf-8"))) for path in WRITTEN]
    return [(name, text) for name, fences in found for word, text in fences if word == kind]


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_document_is_what_commands_print(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == GENERATED[name](), (
        "make it anew: python -m tests.documents"
    )


@pytest.mark.parametrize("path", [p for p in BY_HAND if p.name not in SLOW], ids=lambda p: p.name)
def test_output_is_what_commands_print(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert replayed(text) == text, "make it anew: python -m tests.documents"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_output_of_programs_is_what_commands_print(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert _masked(replayed(text)) == _masked(text)


def _masked(text: str) -> str:
    """Without numbers, and without the notes on what this machine's runs took."""
    return _NUMBER.sub("0", re.sub(r"^note: measuring .*\n", "", text, flags=re.MULTILINE))


def test_commands_work(tmp_path: Path) -> None:
    """Each in a fresh copy of the programs: what one writes is not what the next one needs."""
    lines = [line for _, text in blocks("sh") for line in text.splitlines()]
    commands = [line.partition("#")[0].strip() for line in lines]
    assert len(commands) > 10
    workshop = Workshop(tmp_path)
    for command in commands:
        assert command.startswith("amp-migrate")
        code, said = workshop.run(command)
        assert code in (0, 1), (command, said)
        assert "Traceback" not in said


def test_settings_are_those_that_are_read(tmp_path: Path) -> None:
    tables = [tomllib.loads(text)["tool"]["amp-migrate"] for _, text in blocks("toml")]
    assert tables
    for table in tables:
        for key, value in table.items():
            config.READERS[key](value)
    listed = re.findall(r"^\| `([\w-]+)` \|", (DOCS / "settings.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(config.READERS)


def test_python_and_yaml_parse() -> None:
    for _, text in blocks("python"):
        ast.parse(text)
    assert all(yaml.safe_load(text) for _, text in blocks("yaml"))


def test_hooks_in_the_docs_are_ours() -> None:
    ours = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    repos = [yaml.safe_load(text).get("repos") for _, text in blocks("yaml")]
    named = [hook["id"] for every in repos if every for repo in every for hook in repo["hooks"]]
    assert named
    assert set(named) <= ours


def test_links_lead_somewhere() -> None:
    for path in [*WRITTEN, ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            if "://" not in target:
                assert (path.parent / target).exists(), (path.name, target)


def test_the_first_pages_stay_short() -> None:
    assert (ROOT / "README.md").stat().st_size < 7_000
    assert (ROOT / "CONTRIBUTING.md").stat().st_size < 12_000


def test_nothing_is_installed_from_where_it_is_not() -> None:
    """No index has the package yet: pip gets a path, or what `$AMP_MIGRATE` stands for."""
    for path in [*WRITTEN, ROOT / "CONTRIBUTING.md", ROOT / "action.yml"]:
        assert not re.search(r"pip install[^\n]*\bamp-migrate\b", path.read_text(encoding="utf-8"))


def test_no_document_names_a_machine() -> None:
    for path in WRITTEN:
        assert not re.search(r"/(home|root|tmp|work|Users)/", path.read_text(encoding="utf-8"))


def test_the_replay_sees_a_difference() -> None:
    text = "```console\n$ amp-migrate --version\nsomething else\n```\n"
    assert documents.replayed(text) != text
