"""What ``pinet bisect`` takes from gates on a lab: six boots of both ends, then one boot of one commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.judge.turns import Side
from pytest_pinet.tree.gates import Gates
from tests.support.gate_project import GateLab

pytestmark = pytest.mark.slow
FIGURE = "pi3b:onboard/pair/tcp-P1-rx rx"


def test_boots_of_the_ends_and_of_one_commit_have_a_value_each(
    gate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    builds = [tmp_path / f"{name}.yaml" for name in "ab"]
    for number, build in enumerate(builds):
        build.write_text(f"name: {build.stem}\nsysctls: {{net.ipv4.tcp_sack: {number}}}\n")
    gates = Gates([f"--lab={gate_lab.file}", "--board=pi3b", "--nic=onboard"], tmp_path / "gate", exact=False)
    ends = gates.ends(*builds)
    sides = [side for side, _ in ends.values]
    assert (ends.boots, sides.count(Side.A), sides.count(Side.B), len(ends.figures)) == (6, 3, 3, 1)
    # No baseline of this link was accepted: a boot alone has its value, and no verdict counts.
    one = gates.one(builds[1], builds[0], [FIGURE])
    ((side, value),) = one.values
    assert (side, one.boots) == (Side.B, 1)
    assert [value] * 6 == pytest.approx([other for _, other in ends.values], abs=0.2)
