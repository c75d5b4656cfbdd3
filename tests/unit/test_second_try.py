"""`tools/second-try`, by which `make test` and `make slow` run what measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "tools" / "second-try"
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


def run(directory: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_it.py").write_text(tests)
    (directory / ".venv").symlink_to(sys.prefix)
    return subprocess.run([SCRIPT], cwd=directory, capture_output=True, text=True, timeout=60)


def test_what_failed_is_tried_again_alone_and_then_counts(tmp_path: Path) -> None:
    found = run(tmp_path, FAILS_AT_FIRST)
    assert found.returncode == 0
    assert "second try, alone, of what failed:\n  test_it.py::test_noisy\n" in found.stdout
    assert (tmp_path / "quiet").read_text() == "x"


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    found = run(tmp_path, "def test_broken():\n    assert False\ndef test_fine():\n    pass")
    assert found.returncode == 1
    assert found.stdout.count("FAILED test_it.py::test_broken") == 2


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
    assert (found.returncode, found.stdout.count("9 failed")) == (1, 2)


def test_a_failure_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    cache = tmp_path / ".pytest_cache/v/cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text('{"test_old.py::test_gone": true}')
    found = run(tmp_path, FAILS_AT_FIRST)
    assert "of what failed:\n  test_it.py::test_noisy\n" in found.stdout
    assert "gone" not in found.stdout
