"""The section on a change in a real browser: a gate on simulated boards, and its page.

The picture is stored in $PINET_PICTURES; ``make pictures`` copies it to docs/.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.browser import browser
from tests.support.change_session import LAB_FILE, THREE_TESTS, bench_with
from tests.support.console_blocks import ROOT
from tests.support.gate_project import PINET

pytestmark = pytest.mark.slow


def test_the_page_shows_the_turns_of_a_change(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = Path(os.environ.get("PINET_PICTURES") or pytester.path)
    with bench_with(pytester, THREE_TESTS) as bench:
        lab = LAB_FILE.replace("pinet:\n", "pinet:\n  name: bench\n  figures: emulated\n")
        (pytester.path / "lab.yaml").write_text(lab)
        bench.plan('PLAN = Plan(ratio={"ax88179": 0.979}, boot_noise=0.002)')
        gate = ["--pinet-build=new.yaml", "--pinet-against=good.yaml", "--pinet-history=history.db"]
        monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{pytester.path}")
        assert pytester.runpytest_subprocess(*bench.words(*gate), timeout=120).ret == 1
    words = ["report", "--page", "-o", "report.html", "--lab=lab.yaml", "--history=history.db"]
    subprocess.run([PINET, *words], check=True, timeout=60)
    with browser(1200, 760) as seen:
        seen.open(pytester.path / "report.html", anchor="change")
        assert "new must not be merged: 1 of 3 metrics slower" in seen.text
        assert "Values are emulated" in seen.text
        # One chart for each metric.
        assert seen.run("return document.querySelectorAll('#change td.turns svg').length") == 3
        assert not seen.overflows
        seen.picture(pictures / "report-change.png")
        assert seen.left_the_machine() == []
        assert seen.complaints() == []
