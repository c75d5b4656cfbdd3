"""The benchmark of the history runs, and a small history is fast; the figures of large ones are in docs/history.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_small_history_is_fast() -> None:
    command = [sys.executable, "-m", "benchmarks.history", "--most", "10000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(
        r"^ +10000 +([\d,]+)/s +([\d.]+) ms +([\d.]+) ms +[\d.]+ ms +([\d.]+) s", done.stdout, re.MULTILINE
    )
    assert found is not None, done.stdout
    ingest, median_ms, _, dashboard_s = (float(figure.replace(",", "")) for figure in found.groups())
    # What the issue asks of a million records, with room for a machine that does other things.
    assert ingest > 5000
    assert median_ms < 100
    assert dashboard_s < 2
