"""Flows that begin too far apart are sent once more, on the default virtual lab."""

from __future__ import annotations

import json

import pytest

from tests.support.gate_project import SCALE, GateLab, NewProject

TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_it(link, gate):
    gate.tcp(link, "bidir", opposed=True, duration=1, min="30 Mbit/s")
"""


@pytest.mark.slow
def test_flows_that_began_too_far_apart_are_sent_once_more_and_that_is_told(
    new_project: NewProject, gate_lab: GateLab
) -> None:
    project = new_project({"test_it.py": TEST})
    # No two flows begin at exactly the same moment.
    project.write("conftest.py", "from pytest_pinet.measure import traffic_runner\n\ntraffic_runner.SKEW_MAX_S = 0.0\n")
    done = project.pytest()
    (result,) = project.results["results"]
    # The counters of both switch ports include the earlier traffic, and the message explains it.
    assert done.ret == 0, result["message"]
    assert result["combination"]["traffic"] == "tcp-P1-opposed-bidir"
    counted_bytes = SCALE * sum(
        sample["bytes"] for one in result["directions"]["tx"]["connections"] for sample in one["samples"]
    )
    assert result["cables"][0]["node"]["tx_bytes"] > 1.3 * counted_bytes
    # Files of connections that did not count are kept, with names that say so.
    kept = {name.rpartition("/")[2]: project.path / ".pinet" / "latest" / name for name in result["files"]}
    # One per attempt. There are several if their values differ much.
    assert sum(name.endswith("not-counted-tx-client.json") for name in kept) == len(
        result["directions"]["tx"]["connections"]
    )
    counted, late = (kept[f"{prefix}tx-client.json"].read_text() for prefix in ("", "1-not-counted-"))
    assert json.loads(late)["end"]["sum_received"]["bytes"] > 0
    assert late != counted
    assert gate_lab.holders() + gate_lab.processes("iperf3") == []
