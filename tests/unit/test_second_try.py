"""`tools/second-try`, by which `make test` and `make slow` run what measures."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "tools" / "second-try"
FAILS_TWICE = """
from pathlib import Path

def test_noisy():
    tries = Path(__file__).with_suffix(".tries")
    tries.open("a").write("x")
    Path("stat").write_text("cpu  20 0 0 {idle} 0 0 0 {stolen} 0 0\\n")
    assert tries.stat().st_size == 3
"""
FAILS_AT_FIRST = """
from pathlib import Path

def test_noisy():
    tried = Path("tried")
    first = not tried.exists()
    tried.touch()
    assert not first
def test_quiet():
    Path("quiet").open("a").write("x")
"""


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try of each test would load them all."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def prepare(directory: Path, tests: str) -> None:
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    (directory / "test_it.py").write_text(tests)
    (directory / ".venv").symlink_to(sys.prefix)


def run(directory: Path, tests: str) -> subprocess.CompletedProcess[str]:
    prepare(directory, tests)
    return subprocess.run([SCRIPT], cwd=directory, capture_output=True, text=True, timeout=60)


def test_what_failed_is_tried_again_alone_and_then_counts(tmp_path: Path) -> None:
    found = run(tmp_path, FAILS_AT_FIRST)
    assert found.returncode == 0
    assert "second try, alone, of what failed:\n  test_it.py::test_noisy\n" in found.stdout
    assert (tmp_path / "quiet").read_text() == "x"


def test_what_fails_three_times_fails(tmp_path: Path) -> None:
    found = run(tmp_path, "def test_broken():\n    assert False\ndef test_fine():\n    pass")
    assert found.returncode == 1
    assert found.stdout.count("FAILED test_it.py::test_broken") == 3


def test_what_passes_is_not_tried_again(tmp_path: Path) -> None:
    found = run(tmp_path, "def test_fine():\n    pass")
    assert (found.returncode, "second try" in found.stdout) == (0, False)


@pytest.mark.parametrize(
    ("tests", "status"),
    [("def test_broken():\n    assert False", 1), ("def", 2)],
    ids=["six files with failures", "no collection"],
)
def test_what_is_no_noise_gets_no_second_try(tmp_path: Path, tests: str, status: int) -> None:
    for number in range(5):
        (tmp_path / f"test_{number}.py").write_text(tests)
    found = run(tmp_path, tests)
    assert (found.returncode, "second try, alone" in found.stdout) == (status, False)


def test_many_failures_in_one_file_may_have_one_cause_and_get_a_second_try(tmp_path: Path) -> None:
    each = "import pytest\n@pytest.mark.parametrize('n', range(9))\n"
    found = run(tmp_path, f"{each}def test_one_run(n):\n    assert False")
    assert (found.returncode, found.stdout.count("9 failed")) == (1, 3)


def test_a_failure_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    cache = tmp_path / ".pytest_cache/v/cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text('{"test_old.py::test_gone": true}')
    found = run(tmp_path, FAILS_AT_FIRST)
    assert "of what failed:\n  test_it.py::test_noisy\n" in found.stdout
    assert "gone" not in found.stdout


@pytest.mark.parametrize(
    ("idle", "stolen", "tries", "status"), [(970, 30, 3, 0), (990, 10, 0, 1)], ids=["3 % stolen", "1 % stolen"]
)
def test_a_host_that_takes_its_processors_away_spoils_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    idle: int,
    stolen: int,
    tries: int,
    status: int,
) -> None:
    tests = FAILS_TWICE.format(idle=idle, stolen=stolen)
    prepare(tmp_path, tests)
    for number in range(5):
        (tmp_path / f"test_{number}.py").write_text(tests)
    (tmp_path / "stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
    monkeypatch.chdir(tmp_path)
    assert runpy.run_path(str(SCRIPT))["main"]([], Path("stat")) == status
    told = capfd.readouterr().out
    assert f"the host took {stolen // 10} % of the processor time" in told
    assert (told.count("third try, alone"), told.count("6 failed")) == ((1, 2) if tries else (0, 1))
    assert ("tests of 6 files failed: too many for another try" in told) == (not tries)


def test_ctrl_c_is_left_to_pytest(tmp_path: Path) -> None:
    tests = "import os, signal, time\ndef test_it():\n    os.kill(os.getppid(), signal.SIGINT)\n    time.sleep(1)"
    assert run(tmp_path, tests).returncode == 0
