"""The kernel's selftests between two network namespaces: installed, configured, judged by their TAP, and removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.kselftest import LOG, measure
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Kselftest
from tests.support import link_stand_in
from tests.support.kselftests import TREE, WITHOUT_PROGRAMS, kselftest_folder
from tests.support.namespaces import ip
from tests.support.shaped_link import shaped_link

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(WITHOUT_PROGRAMS), reason=f"not installed: {WITHOUT_PROGRAMS}"),
    pytest.mark.slow,
]
Run = Callable[[str], tuple[ResultRecord, str]]


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Link]:
    with shaped_link() as cable:
        for number, shell in enumerate((cable.dut, cable.peer), 1):
            ip(f"-n {shell.namespace} addr add 192.0.2.{number}/24 dev eth0")
        yield link_stand_in.link(tmp_path_factory.mktemp("lab"), shells=(cable.dut, cable.peer))


@pytest.fixture
def run(link: Link, tmp_path: Path) -> Iterator[Run]:
    """Run a selftest. Afterwards nothing of it may be left."""
    source = str(kselftest_folder(tmp_path / "selftests"))
    before, warnings = sorted(Path("/tmp").glob("pinet-ksft.*")), list[str]()

    def run(name: str) -> tuple[ResultRecord, str]:
        raw: dict[str, str] = {}
        limit_s = 5.0 if name == "hangs.sh" else 240.0
        found = measure(link, Kselftest(f"drivers/net:{name}", source, limit_s), raw, warnings.append)
        return found, raw[LOG]

    yield run
    assert warnings == []
    assert sorted(Path("/tmp").glob("pinet-ksft.*")) == before
    assert not Path("/tmp/kselftestpeer").exists()


def test_a_selftest_reaches_the_peer_and_copies_a_file_to_it(run: Run) -> None:
    found, ktap = run("passes.sh")
    assert (str(found.verdict), found.id) == ("pass", "pi4b:onboard/pair/kselftest-drivers-net-passes.sh"), ktap
    assert found.kselftest is not None
    assert [one.name for one in found.kselftest.results] == ["reach the peer", "copy a file"]
    assert "ok 1 selftests: drivers/net: passes.sh" in ktap
    assert found.settings is not None
    assert [own["end"] for own in found.settings.values()] == ["one:onboard", "two:onboard"]
    assert found.settings["dut"]["kernel"] == f"{os.uname().release} {os.uname().version}"


# The runner ends with 0 in all of these.
@pytest.mark.parametrize(
    ("name", "verdict", "sentence"),
    [
        ("fails.sh", "fail", "1 of 2 failed: reach the peer"),
        ("ends.sh", "fail", "printed 1 of 3 results and then ended"),
        ("hangs.sh", "fail", "TIMEOUT 5 seconds"),
        ("skips.sh", "skipped", "1 skipped (no such NIC)"),
        ("silent.sh", "inconclusive", "No result of the test itself arrived"),
    ],
)
def test_the_tap_decides(run: Run, name: str, verdict: str, sentence: str) -> None:
    found, ktap = run(name)
    assert str(found.verdict) == verdict, ktap
    assert sentence in found.message


@pytest.mark.skipif(not TREE, reason="$KERNEL_TREE names no kernel tree")
def test_the_kernels_own_ping_test(link: Link) -> None:
    raw: dict[str, str] = {}
    found = measure(link, Kselftest("drivers/net:ping.py", TREE, 240.0), raw, print)
    assert str(found.verdict) == "pass", raw[LOG]
    assert found.kselftest is not None
    outcomes = {one.name: one.outcome for one in found.kselftest.results}
    assert outcomes["ping.test_v4"] == "pass"
    assert outcomes["ping.test_v6"] == "skip"
