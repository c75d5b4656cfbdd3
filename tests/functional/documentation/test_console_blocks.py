"""The console blocks that are marked ``run: with ...`` run as they stand on their page, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.block_settings import BIN, GIT, SETTINGS
from tests.support.console_blocks import ConsoleBlock, console_blocks

pytestmark = pytest.mark.smoke
BLOCKS = [block for block in console_blocks() if block.mark.startswith("run: ")]
# A page names a last day, which passes.
LAST_DAY, LATER = "2026-12-31", str((datetime.now(UTC) + timedelta(days=30)).date())


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs(block: ConsoleBlock, tmp_path: Path) -> None:
    with SETTINGS[block.mark.removeprefix("run: ")](tmp_path) as variables:
        environment = {
            **os.environ,
            **GIT,
            "HOME": str(tmp_path),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
            **variables,
        }
        environment.pop("PINET_HISTORY", None)
        environment.pop("PINET_LAB", None)
        if labs := sorted(tmp_path.glob("*.yaml")):
            environment["PINET_LAB"] = str(labs[0])
        script = "\n".join(["set -ex -o pipefail", *block.commands]).replace(LAST_DAY, LATER)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout
