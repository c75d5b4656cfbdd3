"""What ``pinet bisect`` takes from gates on a lab: six boots of both ends, then one boot of one commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement, LabError
from pytest_pinet.judge.bisection import GOOD
from pytest_pinet.tree.gates import Gates
from tests.support.gate_project import GateLab

pytestmark = pytest.mark.slow
FIGURE = "pi3b:onboard/pair/tcp-P1-rx rx"


@pytest.fixture
def gates(gate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    monkeypatch.chdir(tmp_path)
    return Gates([f"--lab={gate_lab.file}", "--board=pi3b", "--nic=onboard"], tmp_path / "gate", exact=False)


def test_boots_of_the_ends_and_of_one_commit_have_a_value_each(gates: Gates, tmp_path: Path) -> None:
    builds = [tmp_path / f"{name}.yaml" for name in "ab"]
    # The second build receives slower.
    for build, memory in zip(builds, ("4096 131072 6291456", "2304 2304 2304"), strict=True):
        build.write_text(f"name: {build.stem}\nsysctls: {{net.ipv4.tcp_rmem: {memory}}}\n")
    ends = gates.ends(builds[0], builds[1], "bad")
    levels = {commit: [value for of, value in ends.values if of == commit] for commit in (GOOD, "bad")}
    assert FIGURE in ends.figures
    assert len(ends.values) == sum(map(len, levels.values())) == ends.boots
    assert max(levels["bad"]) < min(levels[GOOD])
    # No baseline of this link was accepted: a boot alone has its value, and no verdict counts.
    one = gates.one(builds[1], builds[0], "some", ends.figures)
    ((commit, value),) = one.values
    assert (commit, one.boots) == ("some", 1)
    assert value < min(levels[GOOD])


def test_a_gate_that_the_lab_ends_is_an_error_with_its_reason(gates: Gates, gate_lab: GateLab, tmp_path: Path) -> None:
    build = tmp_path / "a.yaml"
    build.write_text("sysctls: {net.core.somaxconn: 4000}\n")
    gate_lab.degrade("pi3b-1:onboard", "--down")
    try:
        with pytest.raises(LabError, match=r"the gate of a\.yaml failed: no link on pi3b-1 "):
            gates.one(build, build, "some", ())
    finally:
        gate_lab.restore()


def test_a_commit_that_does_not_boot_has_no_value_and_says_why(gates: Gates, tmp_path: Path) -> None:
    build = tmp_path / "a.yaml"
    build.write_text("cmdline: root=/dev/nowhere\n")
    # `pinet bisect` skips the commit.
    with pytest.raises(InvalidMeasurement, match=r"panic"):
        gates.one(build, build, "some", (FIGURE,))
