"""The page: self-contained, small, readable on a narrow screen, and without charts of nothing."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from amp_migrate.runtime.charts import Band, Line, Marks, lines
from amp_migrate.runtime.check import Check
from amp_migrate.runtime.figures import figures
from amp_migrate.runtime.page import page
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.verify import Verifier
from tests.runtime.programs import AFTER, BEFORE, edited

_SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


@pytest.fixture(scope="module")
def failing(supervisor: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("page")
    (folder / "train.py").write_text(BEFORE, encoding="utf-8")
    after = edited(AFTER, ("scaler.step(optimizer)", "optimizer.step()"))
    rewrites = {"float16": {str((folder / "train.py").resolve()): after}}
    program = Program("train.py", (), False, rewrites, folder)
    return Verifier(program, Options(steps=10, diagnose=False), supervisor).run()


@pytest.fixture
def report(failing: Report) -> Report:
    return copy.deepcopy(failing)


@pytest.fixture
def html(report: Report, tmp_path: Path) -> str:
    script = tmp_path / "train.py"
    script.write_text(BEFORE, encoding="utf-8")
    return page(
        report, Program(str(script), ("<b>",), False, {"float16": {str(script): AFTER}}, tmp_path)
    )


def numbers(chart: str) -> list[float]:
    """All coordinates of a chart."""
    found = []
    for element in ET.fromstring(_SVG.findall(chart)[0]).iter():
        given = [element.get(name, "") for name in ("d", "x", "y", "width", "height", "viewBox")]
        found += [float(x) for text in given for x in re.findall(r"-?[\d.]+|nan|inf", text)]
    return found


def test_the_page_needs_no_network_and_no_script_and_tells_all(html: str, report: Report) -> None:
    assert "<script" not in html
    assert not re.search(r"""(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)""", html)
    assert html.index("<h1>FAIL</h1>") < html.index("<h2>Checks</h2>")
    assert "bare-step-after-unscale" in html
    assert "&lt;b&gt;" in html
    assert "scaler.unscale_(optimizer)" in html
    drawn = [figure.name for figure in figures(report)]
    assert {"loss-amp-0", "scale-amp"} <= set(drawn) <= {"loss-amp-0", "scale-amp", "underflow-amp"}
    assert html.count("<svg") == len(drawn)


def test_what_passes_in_float32_is_shown(report: Report, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BEFORE, encoding="utf-8")
    assert "in float32</h2>" not in page(report, None)
    patched = dataclasses.replace(report, patched={str(script): AFTER})
    text = page(patched, None)
    assert "scaler.unscale_(optimizer)" in text.partition("in float32</h2>")[2]


def test_on_a_narrow_screen_rows_of_a_table_are_blocks(html: str) -> None:
    assert 'content="width=device-width' in html
    narrow = html[html.index("@media (max-width") :]
    assert "thead { display: none; }" in narrow
    assert 'data-name="measured"' in html
    widths = re.findall(r'<svg viewBox="0 0 (\d+) ', html)
    assert set(widths) == {"400"}  # text of 11 units is then about 10 pixels on a phone


def test_a_long_run_of_many_losses_stays_below_a_megabyte(report: Report, tmp_path: Path) -> None:
    for trace in report.runs.traces.values():
        count = 6_000
        trace.losses = [1 / (1 + i % 97) for i in range(count)]
        trace.loss_sites = [f"train.py:{i % 12}" for i in range(count)]
        trace.loss_steps = list(range(count))
        trace.scales, trace.taken = [2.0**16] * count, [True] * count
    assert len(page(report, None)) < 1_000_000
    assert len([one for one in figures(report) if one.name.startswith("loss")]) == 6


def test_times_stand_there_where_a_check_has_compared_them(report: Report) -> None:
    report.checks.append(Check("amp: speed against float32", "pass", 2.0, None, "faster"))
    names = [figure.name for figure in figures(report)]
    assert "time" in names
    assert "memory" not in names


def test_a_chart_of_nothing_is_none() -> None:
    assert not lines([Line([], "loss", "amp")], "step", "loss")
    assert not lines([Line([math.nan, math.inf], "loss", "amp")], "step", "loss")
    assert not lines([Line([0.0], "scale", "amp")], "step", "scale", powers=True)


@pytest.mark.parametrize(
    "values",
    [[1.0], [2.0, 2.0, 2.0], [1.0, math.nan, 3.0, math.inf, 5.0], [-1e30, 1e30], [1e-300, 2e-300]],
)
def test_a_chart_has_places_for_what_is_finite(values: list[float]) -> None:
    band = Band([0.0] * len(values), [math.nan] * len(values), "band")
    marks = Marks([(1, values[0])], "mark")
    chart = lines([Line(values, "<loss>", "amp")], "step", "loss", band, marks)
    assert all(-1 <= x <= 400 for x in numbers(chart)), chart
    assert "&lt;loss&gt;" in chart


def test_a_scale_is_drawn_by_powers_of_two(report: Report) -> None:
    chart = lines([Line([2.0**16, 2.0**15], "scale", "amp")], "step", "scale", powers=True)
    assert "2^16" in chart
    assert "2^15" in chart
    skipped = dataclasses.replace(report.runs["amp"], taken=[False], scales=[65536.0])
    report.runs.traces["amp"] = skipped
    told = {figure.name: figure for figure in figures(report)}
    assert "skipped step" in told["scale-amp"].chart
