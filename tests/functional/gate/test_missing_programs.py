"""A board without programs that only some metrics need: their tests are skipped, and each place names the command."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doctor_command import doctor
from tests.support.gate_project import GateLab, NewProject

pytestmark = pytest.mark.slow

TESTS = """
import pytest

pytestmark = pytest.mark.pinet(board="pi3b", nic="onboard")

@pytest.mark.parametrize("size", [64, 128])
def test_transactions(link, gate, size):
    gate.transactions(link, duration=1, size=size)

def test_connections(link, gate):
    gate.connections(link, duration=1)

def test_plain(link, gate):
    gate.ping(link, count=2)
"""
COMMAND = "pi3b-1 has no sockperf; on pi3b-1: sudo apt-get install sockperf"


@pytest.fixture
def bare(gate_lab: GateLab) -> Iterator[GateLab]:
    """The lab, with programs hidden on pi3b-1 until it is switched off."""
    gate_lab.switch_power(True, "pi3b-1")
    gate_lab.await_boot("pi3b-1")
    in_board(gate_lab, *(f"mount --bind /dev/null {one}" for one in ("/usr/bin/sockperf", "/usr/sbin/nginx")))
    yield gate_lab
    gate_lab.switch_power(False, "pi3b-1")


def in_board(lab: GateLab, *commands: str) -> None:
    """Run commands in the mount namespace of pi3b-1, which cannot mount anything itself."""
    namespace = lab.execute("pi3b-1", "readlink /proc/self/ns/mnt").strip()
    pid = next(
        entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and mounts_of(entry) == namespace
    )
    subprocess.run(["nsenter", "-t", pid, "-m", "sh", "-ec", "\n".join(commands)], check=True)


def mounts_of(process: Path) -> str | None:
    try:
        return str((process / "ns" / "mnt").readlink())
    except OSError:
        return None


def test_tests_are_skipped_and_the_next_run_says_so_first(bare: GateLab, new_project: NewProject) -> None:
    project = new_project({"test_it.py": TESTS})
    first = project.pytest("-rs")
    first.assert_outcomes(passed=1, skipped=3)
    assert "again unless you act" not in first.stdout.str()
    reasons = {one["id"].partition("[")[0]: one["reason"] for one in project.results["skipped"]}
    assert reasons == {
        "test_transactions": COMMAND,
        "test_connections": "pi3b-1 has no nginx; on pi3b-1: sudo apt-get install nginx-light",
    }

    again = project.pytest("-k", "test_transactions")
    text = " ".join(again.stdout.str().split())
    assert f"pinet: skipped in the last run, and again unless you act: test_transactions ({COMMAND})" in text
    # The last run had no other test, so the first run is the last one of these.
    other = project.pytest("-k", "test_connections or test_plain", "-n", "1")
    assert "again unless you act: test_connections (pi3b-1 has no nginx;" in " ".join(other.stdout.str().split())
    bare.switch_power(False, "pi3b-1")
    project.pytest("-k", "test_transactions").assert_outcomes(passed=2)
    assert "again unless you act" not in project.pytest("-k", "test_transactions", "--collect-only").stdout.str()


def test_doctor_names_the_command_for_each_board(bare: GateLab) -> None:
    answer = doctor(bare, "pi3b-1", "pi3b-2")
    (found,) = [one for one in answer.findings if one["check"] == "tools of metrics" and one["status"] != "ok"]
    assert (found["node"], found["status"]) == ("pi3b-1", "unknown")
    assert found["message"] == "no sockperf and no nginx: tests that need them are skipped"
    assert found["act"] == "on that node: sudo apt-get install sockperf nginx-light"
    assert answer.wrong == {}
