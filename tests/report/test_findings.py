"""The formats of findings, against what their readers demand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import jsonschema
import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.files import Options, lint_bytes
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.report import findings, text
from tests.pipeline.lint.programs import BCE, BROKEN, OLD
from tests.report import schemas


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Report]:
    monkeypatch.chdir(tmp_path)
    options = Options(Settings(target_torch=(2, 4)), tmp_path)
    files = {
        "a/old one.py": OLD,
        "b/bce.py": BCE,
        "b/bröken.py": BROKEN,
        "clean.py": "import torch\n",
        "twice.py": OLD + "scaler = torch.cuda.amp.GradScaler()\n",
    }
    return [lint_bytes(path, source.encode(), options) for path, source in files.items()]


def render(name: str, reports: list[Report]) -> str:
    return findings.FORMATS[name](reports, False)


def test_json(reports: list[Report]) -> None:
    found = json.loads(render("json", reports))
    jsonschema.validate(found, {"type": "array", "items": schemas.FINDING})
    assert [(one["path"], one["rule"], one["line"]) for one in found] == [
        ("a/old one.py", "deprecated-cuda-amp", 3),
        ("b/bce.py", "bce-under-autocast", 7),
        ("b/bröken.py", "syntax", 3),
        ("twice.py", "deprecated-cuda-amp", 3),
        ("twice.py", "deprecated-cuda-amp", 4),
    ]
    assert found[1]["related"] == [{"line": 6, "column": 10, "message": "under this autocast"}]
    assert [one["fix"] and one["fix"]["safety"] for one in found] == [
        "safe",
        "unsafe",
        None,
        "safe",
        "safe",
    ]
    assert json.loads(render("json", reports[3:4])) == []


def test_json_lines(reports: list[Report]) -> None:
    lines = render("json-lines", reports).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(render("json", reports))
    assert render("json-lines", reports[3:4]) == ""


def test_sarif(reports: list[Report]) -> None:
    log = json.loads(render("sarif", reports))
    jsonschema.validate(log, schemas.SARIF)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["bce-under-autocast", "deprecated-cuda-amp", "syntax"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert "a/old%20one.py" in json.dumps(log)
    prints = [result["partialFingerprints"]["amp-migrate/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    jsonschema.validate(json.loads(render("sarif", [])), schemas.SARIF)


def test_gitlab(reports: list[Report]) -> None:
    entries = json.loads(render("gitlab", reports))
    jsonschema.validate(entries, schemas.GITLAB)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == 5
    assert [entry["severity"] for entry in entries] == [
        "info",
        "critical",
        "critical",
        "info",
        "info",
    ]


def test_fingerprints_hold_when_lines_move(tmp_path: Path) -> None:
    options = Options(Settings(target_torch=(2, 4)), tmp_path)
    before, after = (
        json.loads(render("gitlab", [lint_bytes("a.py", source.encode(), options)]))
        for source in (OLD, "\n\n" + OLD)
    )
    assert [one["fingerprint"] for one in before] == [one["fingerprint"] for one in after]
    assert before[0]["location"] != after[0]["location"]


def test_absolute_paths_become_relative(reports: list[Report], tmp_path: Path) -> None:
    report = lint_bytes(
        str(tmp_path / "b/bce.py"), BCE.encode(), Options(Settings(target_torch=(2, 4)), tmp_path)
    )
    assert json.loads(render("gitlab", [report]))[0]["location"]["path"] == "b/bce.py"
    assert '"uri": "b/bce.py"' in render("sarif", [report])


def test_junit(reports: list[Report]) -> None:
    root = ET.fromstring(render("junit", reports))
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == (
        "testsuites",
        "6",
        "5",
        "0",
    )
    suites = list(root)
    assert [suite.tag for suite in suites] == ["testsuite"] * 5
    for suite, report in zip(suites, reports, strict=True):
        assert suite.get("name") == report.path
        cases = list(suite)
        assert {case.tag for case in cases} == {"testcase"}
        assert suite.get("tests") == str(len(cases))
        assert (
            suite.get("failures")
            == str(len(list(suite.iter("failure"))))
            == str(len(report.findings))
        )
        for case in cases:
            assert case.get("name")
            assert case.get("classname") == report.path
            assert {child.tag for child in case} <= {"failure"}
            assert all(child.get("type") and child.get("message") and child.text for child in case)
    for element in root.iter():
        needed, allowed, held = schemas.JUNIT[element.tag]
        assert needed <= set(element.attrib) <= needed | allowed
        assert {child.tag for child in element} <= held


def test_junit_holds_what_xml_cannot(tmp_path: Path) -> None:
    report = lint_bytes(
        'a "<&>\x07.py', BROKEN.encode(), Options(Settings(target_torch=(2, 4)), tmp_path)
    )
    root = ET.fromstring(render("junit", [report]))
    assert root[0].get("name") == 'a "<&>?.py'


def test_github(reports: list[Report]) -> None:
    lines = render("github", reports).splitlines()
    assert len(lines) == 5
    place = r"file=[^,:]+,line=\d+,endLine=\d+(,col=\d+,endColumn=\d+)?"
    command = re.compile(rf"::(error|warning|notice) title=[^,:]+,{place}::.+")
    assert all(command.fullmatch(line) for line in lines)
    assert lines[1].startswith(
        "::error title=amp-migrate (bce-under-autocast),file=b/bce.py,line=7,endLine=7,col=16,"
    )


def test_github_escapes(tmp_path: Path) -> None:
    report = lint_bytes(
        "50%,a:b.py", OLD.encode(), Options(Settings(target_torch=(2, 4)), tmp_path)
    )
    assert "file=50%25%2Ca%3Ab.py,line=3" in render("github", [report])
    assert "::50%25,a:b.py:3:10: " in render("github", [report])


def test_concise(reports: list[Report]) -> None:
    lines = render("concise", reports).splitlines()
    assert lines[0].startswith("a/old one.py:3:10: info deprecated-cuda-amp: ")
    assert [line.endswith("[*]") for line in lines] == [True, False, False, True, True]


def test_text_shows_the_line_and_the_way_out(reports: list[Report]) -> None:
    block = render("text", reports[1:2]).splitlines()
    assert block[1:4] == [
        "  |",
        "7 |         return F.binary_cross_entropy(scores, targets)",
        "  |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert block[4] == "  = note: under this autocast, line 6"
    assert block[5].startswith("  = fix: compute the loss with autocast off")
    assert block[5].endswith("(--unsafe-fixes)")


@pytest.mark.parametrize(
    ("code", "shown", "caret"),
    [
        ("if 1:\n\tx = torch.cuda.amp.GradScaler()\n", "    x = torch.cuda.amp.GradScaler()", 8),
        ('x = "表", torch.cuda.amp.GradScaler()\n', 'x = "表", torch.cuda.amp.GradScaler()', 10),
        (
            'x = "\u0301", torch.cuda.amp.GradScaler()\n',
            'x = "\u0301", torch.cuda.amp.GradScaler()',
            8,
        ),
        ('x = "\x1b", torch.cuda.amp.GradScaler()\n', 'x = "?", torch.cuda.amp.GradScaler()', 9),
    ],
)
def test_the_caret_is_below(tmp_path: Path, code: str, shown: str, caret: int) -> None:
    report = lint_bytes(
        "a.py", b"import torch\n" + code.encode(), Options(Settings(target_torch=(2, 4)), tmp_path)
    )
    lines = render("text", [report]).splitlines()
    assert lines[2].partition(" | ")[2] == shown
    assert lines[3].partition(" | ")[2] == " " * caret + "^" * len("torch.cuda.amp.GradScaler()")


def test_colours_change_nothing_else(reports: list[Report]) -> None:
    for name in ("text", "concise"):
        coloured = findings.FORMATS[name](reports, True)
        assert "\x1b[" in coloured
        assert click.unstyle(coloured) == render(name, reports)


def test_statistics(reports: list[Report]) -> None:
    lines = list(text.statistics(findings.every(reports), False))
    assert lines == ["3  [*] deprecated-cuda-amp", "1  [ ] bce-under-autocast", "1  [ ] syntax"]


def test_closing(reports: list[Report]) -> None:
    said = text.closing(reports, False)
    assert said == (
        "5 findings in 4 files (5 files looked at). 3 can be fixed with --fix, 1 with "
        "--unsafe-fixes."
    )
    assert text.closing(reports[3:4], False) == "Nothing found in 1 file."
