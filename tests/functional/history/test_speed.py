"""The history benchmark runs and prints all its values. docs/explanation/trends.md has values of large histories."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_benchmark_tells_its_values() -> None:
    command = [sys.executable, "-m", "benchmarks.history", "--most", "10000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(
        r"^ +10000 +([\d,]+)/s +([\d.]+) ms +([\d.]+) ms +[\d.]+ ms +([\d.]+) s", done.stdout, re.MULTILINE
    )
    assert found is not None, done.stdout
    ingest, median_ms, _, dashboard_s = (float(figure.replace(",", "")) for figure in found.groups())
    assert min(ingest, median_ms) > 0
    assert dashboard_s >= 0
