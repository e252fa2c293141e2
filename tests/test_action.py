"""The GitHub Action and the workflows: read as GitHub reads them, and their steps executed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.pipeline.lint.programs import NEW, OLD

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
_NAME = "^[A-Za-z_][A-Za-z0-9_-]*$"
_TEXT = {"type": "string", "minLength": 1}
_STEP = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": _TEXT,
        "id": {"type": "string", "pattern": _NAME},
        "if": _TEXT,
        "run": _TEXT,
        "shell": {"enum": ["bash", "sh", "pwsh", "python"]},
        "uses": {"type": "string", "pattern": r"^[\w.-]+/[\w./-]+@[\w.-]+$"},
        "with": {"type": "object"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "working-directory": _TEXT,
        "continue-on-error": {"type": "boolean"},
    },
    "oneOf": [{"required": ["run"]}, {"required": ["uses"]}],
}
# https://docs.github.com/actions/reference/workflows-and-actions/metadata-syntax
METADATA = {
    "type": "object",
    "required": ["name", "description", "runs"],
    "additionalProperties": False,
    "properties": {
        "name": _TEXT,
        "author": _TEXT,
        "description": {"type": "string", "minLength": 1, "maxLength": 125},
        "branding": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "icon": {"type": "string", "pattern": "^[a-z0-9-]+$"},
                "color": {
                    "enum": [
                        *["white", "black", "yellow", "blue", "green", "orange", "red", "purple"],
                        "gray-dark",
                    ]
                },
            },
        },
        "inputs": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "additionalProperties": {
                "type": "object",
                "required": ["description"],
                "additionalProperties": False,
                "properties": {
                    "description": _TEXT,
                    "default": {"type": "string"},
                    "required": {"type": "boolean"},
                    "deprecationMessage": _TEXT,
                },
            },
        },
        "outputs": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "additionalProperties": {
                "type": "object",
                "required": ["description", "value"],
                "additionalProperties": False,
                "properties": {"description": _TEXT, "value": _TEXT},
            },
        },
        "runs": {
            "type": "object",
            "required": ["using", "steps"],
            "additionalProperties": False,
            "properties": {
                "using": {"const": "composite"},
                "steps": {
                    "type": "array",
                    "minItems": 1,
                    # A step that runs something names its shell, in a composite action.
                    "items": {
                        **_STEP,
                        "if": {"required": ["run"]},
                        "then": {"required": ["shell"]},
                    },
                },
            },
        },
    },
}
# https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
WORKFLOW = {
    "type": "object",
    "required": ["on", "jobs"],
    "properties": {
        "jobs": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": _NAME},
            "additionalProperties": {
                "type": "object",
                "required": ["runs-on", "steps"],
                "properties": {
                    "timeout-minutes": {"type": "integer", "minimum": 1},
                    "steps": {"type": "array", "minItems": 1, "items": _STEP},
                },
            },
        }
    },
}
CURRENT = {
    "actions/checkout": "v6",
    "actions/setup-python": "v6",
    "actions/upload-artifact": "v7",
    "github/codeql-action/upload-sarif": "v4",
}


def _workflow(path: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    text = re.sub(r"^on:", '"on":', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def test_the_action_is_what_github_reads() -> None:
    jsonschema.validate(ACTION, METADATA)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_what_github_reads(path: Path) -> None:
    jsonschema.validate(_workflow(path), WORKFLOW)


def test_the_schema_refuses_what_github_refuses() -> None:
    step = {"run": "true"}
    for wrong in ([], [step], [{"uses": "a/b@v1", "run": "x", "shell": "bash"}], [{"uses": "a/b"}]):
        action = {"name": "a", "description": "b", "runs": {"using": "composite", "steps": wrong}}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(action, METADATA)


def test_actions_are_at_their_current_versions() -> None:
    texts = [path.read_text(encoding="utf-8") for path in [ROOT / "action.yml", *WORKFLOWS]]
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    used = [use for text in texts + pages for use in re.findall(r"uses: ([\w/.-]+)@(v\S+)", text)]
    assert used
    assert set(used) == {(name, CURRENT[name]) for name, _ in used}


def test_expressions_name_what_is_there() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    ids = [step.get("id") for step in ACTION["runs"]["steps"]]
    inputs = set(re.findall(r"\binputs\.([\w-]+)", text))
    assert inputs == set(ACTION["inputs"])
    assert set(re.findall(r"\bsteps\.([\w-]+)\.outputs", text)) <= set(ids)


def test_inputs_reach_the_shell_through_the_environment() -> None:
    """Else an input is text of the script, and whoever sets it runs what they like."""
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


class Runner:
    """Executes the steps of a composite action as GitHub does: those that run a script here, the
    others are other people's and stood in for by their outputs.
    """

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder = folder
        self.inputs = {
            name: inputs.get(name, str(field.get("default", "")))
            for name, field in ACTION["inputs"].items()
        }
        self.outputs: dict[str, dict[str, str]] = {"python": {"python-path": sys.executable}}
        self.env = {**os.environ, "RUNNER_TEMP": str(folder.parent)}
        self.used: list[str] = []

    def all(self) -> int:
        """Run every step whose condition holds; the exit status of the first that fails."""
        for step in ACTION["runs"]["steps"]:
            if not self._holds(step.get("if", "true")):
                continue
            if "uses" in step:
                self.used.append(step["uses"].partition("@")[0])
            elif code := self._script(step):
                return code
        return 0

    def _script(self, step: dict[str, Any]) -> int:
        files = {name: self.folder.parent / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
        for file in files.values():
            file.write_text("")
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={
                **self.env,
                **{name: self._value(value) for name, value in step.get("env", {}).items()},
                **{name: str(file) for name, file in files.items()},
            },
            check=False,
        )
        told = {name: _pairs(file.read_text()) for name, file in files.items()}
        self.env |= told["GITHUB_ENV"]
        self.outputs[step.get("id", "")] = told["GITHUB_OUTPUT"]
        return ran.returncode

    def _value(self, text: str) -> str:
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: self._looked_up(found[1]), text)

    def _looked_up(self, name: str) -> str:
        context, *rest = name.split(".")
        if context == "inputs":
            return self.inputs[rest[0]]
        if context == "steps":
            return self.outputs[rest[0]][rest[2]]
        return {"github.action_path": str(ROOT)}[name]

    def _holds(self, condition: str) -> bool:
        terms = re.findall(r"([\w.-]+) (==|!=) '([^']*)'", condition)
        return all(
            (self._looked_up(name) == value) == (sign == "==") for name, sign, value in terms
        )


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.slow
def test_the_steps_do_what_the_action_promises(tmp_path: Path) -> None:
    """Installed by its own first step, which asks a package index."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text(OLD)
    runner = Runner(folder, paths="a.py b.py", args="--select ALL")
    (folder / "b.py").write_text(NEW)
    assert runner.all() == 1  # a finding fails the job, once the report is uploaded
    assert runner.outputs["lint"] == {"exit-code": "1"}
    assert runner.used == ["actions/setup-python", "github/codeql-action/upload-sarif"]
    assert "deprecated-cuda-amp" in (folder / "amp-migrate.sarif").read_text()
    quiet = Runner(folder, paths="a.py", fail="false", upload="false")
    assert (quiet.all(), quiet.used) == (0, ["actions/setup-python"])
    wrong = Runner(folder, paths="missing.py")
    assert (wrong.all(), wrong.outputs["lint"]) == (2, {"exit-code": "2"})
