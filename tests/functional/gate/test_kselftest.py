"""The kernel's selftests on a link of the virtual lab: installed, configured, judged by their TAP, and removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gate_project import GateLab, Project, lab_text
from tests.support.kselftests import TREE, WITHOUT_PROGRAMS, kselftest_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(WITHOUT_PROGRAMS), reason=f"not installed: {WITHOUT_PROGRAMS}"),
]
TEST = """
import pytest

pytestmark = pytest.mark.pinet(board="pi4b", nic="onboard", topology="pair")

@pytest.mark.parametrize("name", ["passes.sh", "fails.sh", "skips.sh", "ends.sh", "hangs.sh"])
def test_shell(link, gate, name):
    gate.kselftest(link, f"drivers/net:{name}", timeout="5 s")

def test_ping(link, gate):
    found = gate.kselftest(link, "drivers/net:ping.py", environment={"KSFT_MACHINE_SLOW": "yes"})
    assert "ping.test_v4" in found.passed
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    file = tmp_path_factory.mktemp("lab") / "virtual.yaml"
    file.write_text(lab_text())
    lab = GateLab(file)
    try:
        yield lab
    finally:
        lab.down()


def test_selftests_are_judged_by_their_tap_and_leave_nothing(lab: GateLab, tmp_path: Path) -> None:
    project = Project(tmp_path, lab)
    project.write("test_it.py", TEST)
    before = sorted(Path("/tmp").glob("pinet-ksft.*"))
    done = project.pytest("-k", "shell", f"--pinet-kselftest={kselftest_folder(tmp_path / 'selftests')}")
    text = done.stdout.str()
    results = {result["id"].rpartition("-")[2]: result for result in project.results["results"]}
    assert {name: one["verdict"] for name, one in results.items()} == {
        "passes.sh": "pass",
        # run_kselftest.sh ends with 0 in all of these.
        "fails.sh": "fail",
        "skips.sh": "skipped",
        "ends.sh": "fail",
        "hangs.sh": "fail",
    }, text
    assert "drivers/net:fails.sh: 1 of 2 failed: reach the peer" in results["fails.sh"]["message"]
    assert "printed 1 of 3 results and then ended" in results["ends.sh"]["message"]
    assert "TIMEOUT 5 seconds" in results["hangs.sh"]["message"]
    assert "1 skipped (no such NIC)" in results["skips.sh"]["message"]
    # passes.sh runs a command on the peer, and copies a file to it.
    assert [one["name"] for one in results["passes.sh"]["kselftest"]["results"]] == ["reach the peer", "copy a file"]
    ktap = (project.path / ".pinet/latest" / results["passes.sh"]["files"][0]).read_text()
    assert "ok 1 selftests: drivers/net: passes.sh" in ktap
    assert sorted(Path("/tmp").glob("pinet-ksft.*")) == before
    assert not Path("/tmp/kselftestpeer").exists()


@pytest.mark.skipif(not TREE, reason="$PINET_LINUX names no kernel tree")
def test_the_upstream_test_runs(lab: GateLab, tmp_path: Path) -> None:
    project = Project(tmp_path, lab)
    project.write("test_it.py", TEST)
    done = project.pytest("-k", "ping", f"--pinet-kselftest={TREE}")
    (result,) = project.results["results"]
    assert result["verdict"] == "pass", done.stdout.str()
