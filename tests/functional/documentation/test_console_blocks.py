"""The console blocks that are marked ``run: with ...`` run as they stand on their page, in a folder of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.console_blocks import ROOT, ConsoleBlock, console_blocks
from tests.support.half_year_history import half_year, keep

pytestmark = pytest.mark.smoke
BLOCKS = [block for block in console_blocks() if block.mark.startswith("run: ")]
BIN = Path(sys.executable).parent


def with_a_history(folder: Path) -> None:
    """Forty nightly runs, of which the last one is also a file."""
    (folder / ".pinet").mkdir()
    runs = half_year(1, runs=40)
    lab = (ROOT / "lab" / "virtual.yaml").read_text(encoding="utf-8")
    (folder / "lab.yaml").write_text(lab.replace("name: virtual", f"name: {runs[-1].lab}"), encoding="utf-8")
    keep(runs, str(folder / ".pinet" / "history.db"))
    newest = folder / ".pinet" / "runs" / runs[-1].run
    newest.mkdir(parents=True)
    (newest / "results.json").write_text(json.dumps(runs[-1].dump()), encoding="utf-8")
    (folder / ".pinet" / "latest").symlink_to(newest)


def with_a_lab_file(folder: Path) -> None:
    """A lab file, and nothing that runs."""
    shutil.copy(ROOT / "lab" / "virtual.yaml", folder / "my-bench.yaml")


SETTINGS: dict[str, Callable[[Path], None]] = {"with a history": with_a_history, "with a lab file": with_a_lab_file}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs(block: ConsoleBlock, tmp_path: Path) -> None:
    SETTINGS[block.mark.removeprefix("run: ")](tmp_path)
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
    }
    environment.pop("PINET_HISTORY", None)
    environment["PINET_LAB"] = next(str(path) for path in sorted(tmp_path.glob("*.yaml")))
    for command in block.commands:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
