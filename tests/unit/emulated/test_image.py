"""The cache of cards and boots: one process fills a folder, and the others wait for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.emulated.image import locked
from pytest_pinet.errors import LabError

HOLDER = """
import sys, time
from pathlib import Path
from pytest_pinet.emulated.image import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_wait_names_the_process_and_ends(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    said: list[str] = []
    with (
        pytest.raises(
            LabError, match=rf"^waited 0 s for {tmp_path}, which process {holder.pid} fills\n  -> wait until"
        ),
        locked(tmp_path, said.append, timeout_s=0.3),
    ):
        pass
    assert said == [f"waiting for process {holder.pid}, which fills {tmp_path}"]


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait(10)
    with locked(tmp_path, pytest.fail, timeout_s=10):
        pass
