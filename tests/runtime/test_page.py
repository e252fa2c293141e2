"""The page: self-contained, drawn without errors, readable without the plots."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from amp_migrate.runtime.figures import figures
from amp_migrate.runtime.page import page
from amp_migrate.runtime.report import Program, Report
from tests.runtime.conftest import Verify
from tests.runtime.programs import AFTER, BEFORE, edited

pytest.importorskip("plotly")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


@pytest.fixture
def report(verify: Verify) -> Report:
    return verify(BEFORE, edited(AFTER, ("scaler.step(optimizer)", "optimizer.step()")))


@pytest.fixture
def html(report: Report, tmp_path: Path) -> str:
    script = tmp_path / "train.py"
    return page(
        report, Program(str(script), ("<b>",), False, {"float16": {str(script): AFTER}}, tmp_path)
    )


def test_the_page_needs_no_network_and_tells_all(html: str, report: Report) -> None:
    own = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)\s*=|https?://""", own)
    assert own.index("<h1>FAIL</h1>") < own.index("<h2>Checks</h2>")
    assert "bare-step-after-unscale" in own
    assert "&lt;b&gt;" in own
    assert "scaler.unscale_(optimizer)" in own
    assert {"loss-amp-0", "scale-amp", "underflow-amp", "time", "memory"} == {
        figure.name for figure in figures(report)
    }


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_the_plots_are_drawn(html: str, tmp_path: Path, report: Report) -> None:
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]
    command += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    count = len(list(figures(report)))
    assert f'data-drawn="{count}"' in done.stdout
    assert done.stdout.count('class="plot-container') >= count
