"""Without root: a user namespace carries the virtual lab of ``pinet demo``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ordinary_user import UID, as_ordinary_user

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")

ROOT = Path(__file__).parents[3]
CHECK = "from pytest_pinet.virtual.requirements import check_user_namespaces as check; check()"
PINET = "from pytest_pinet.cli import main; main()"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the user can reach: pytest's own are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "home"


def run(home: Path, *words: str, ids: bool = True, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    argv = as_ordinary_user([sys.executable, "-c", *words], home, {"PYTHONPATH": str(ROOT)}, ids)
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds)


def test_a_user_with_subordinate_ids_needs_no_root(home: Path) -> None:
    done = run(home, CHECK)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_user_without_subordinate_ids_is_told_so(home: Path) -> None:
    done = run(home, CHECK, ids=False)
    assert done.returncode == 1
    assert re.search(r"a user namespace cannot replace it here: unshare: .*/etc/subuid", done.stderr)


@pytest.mark.slow
def test_the_demo_runs_without_root_and_is_removed(home: Path) -> None:
    done = run(home, PINET, "demo", "--yes", "--scale", "0.1", seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"1 measured: 1 (\w+)", done.stdout) == ["pass", "fail", "pass"]
    assert not Path(f"/tmp/pinet-{UID}").exists()
    assert (home / ".pinet" / "demo" / "report.html").stat().st_uid == UID
