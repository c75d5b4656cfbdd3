"""Flows that compete get equal shares, and flows that do not compete do not disturb each other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import ssh_command
from tests.support.gate_project import NewProject
from tests.support.small_virtual_lab import Bench, small_lab
from tests.support.waiting import wait_until

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
# TCP with timestamps at MTU 1500: link * 1448 / 1538.
FAST_ETHERNET = 100e6 * 1448 / 1538
GIGABIT = 1e9 * 1448 / 1538
SECONDS = 10
PORT = 5300
SIX_LAB_FILE = """\
pinet:
  name: six
  launcher: virtual
  scale: 1
  switches:
    sw: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: p1-p6}
  nodes:
""" + "".join(
    f"    n{n}:\n      board: pi3b\n      interfaces:\n        onboard: {{port: sw/p{n}}}\n" for n in range(1, 7)
)
TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", topology="{topology}")
def test_it(link, gate):
    gate.tcp(link, {words})
"""


@pytest.fixture
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield six nodes on a switch of 100 Mbit/s, with addresses."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    lab = small_lab(tmp_path_factory.mktemp("six"), SIX_LAB_FILE)
    found = Bench(lab)
    try:
        found.boot(*NODES)
        for number, node in enumerate(NODES, start=1):
            found.ssh(node, f"ip addr add 10.6.0.{number}/24 dev eth0")
        yield found
    finally:
        launcher().down(lab)


def goodputs(bench: Bench, flows: Sequence[tuple[str, str]]) -> list[float]:
    """Return the goodput of each flow in bit/s at its receiver, over the seconds in which all flows ran."""
    for index, (_, receiver) in enumerate(flows):
        bench.ssh(receiver, f"iperf3 -s -1 -D -J -p {PORT + index}")
        wait_until("the server", lambda r=receiver, i=index: f":{PORT + i}" in bench.ssh(r, "ss -ltn"))  # type: ignore[misc]
    clients = []
    for index, (sender, receiver) in enumerate(flows):
        target = f"10.6.0.{NODES.index(receiver) + 1}"
        # An extra second at each end, in which not all flows run.
        command = f"iperf3 -c {target} -p {PORT + index} -C cubic -t {SECONDS + 2} -J --get-server-output"
        clients.append(subprocess.Popen(ssh_command(bench.lab.file, sender, [command]), stdout=-1, text=True))
    found = []
    for client in clients:
        out, _ = client.communicate(timeout=60)
        intervals = json.loads(out)["server_output_json"]["intervals"]
        full = [i["sum"]["bits_per_second"] for i in intervals if 0.9 < i["sum"]["start"] < SECONDS + 0.9]
        assert len(full) == SECONDS
        found.append(sum(full) / len(full))
    return found


@pytest.mark.soak(
    "{what} share one link of 100 Mbit/s: each gets a fifth within 5 %, and together they fill it within 1 %.", runs=10
)
@pytest.mark.parametrize("what", ["Five senders", "Five receivers"])
def test_five_flows_get_a_fifth_each(six: Bench, what: str) -> None:
    others = NODES[1:]
    found = goodputs(six, [(node, "n1") if what == "Five senders" else ("n1", node) for node in others])
    assert sum(found) == pytest.approx(FAST_ETHERNET, rel=0.01)
    assert found == pytest.approx([FAST_ETHERNET / 5] * 5, rel=0.05)


@pytest.mark.soak(
    "Three pairs on a switch of 100 Mbit/s reach their full link rates within 1 % at the same time.", runs=10
)
def test_three_pairs_do_not_disturb_each_other(six: Bench) -> None:
    assert goodputs(six, [("n1", "n2"), ("n3", "n4"), ("n5", "n6")]) == pytest.approx([FAST_ETHERNET] * 3, rel=0.01)


def measured(new_project: NewProject, topology: str, words: str) -> dict[str, Any]:
    """Run one measurement, which must pass, and return its result."""
    project = new_project({"test_it.py": TEST.format(topology=topology, words=words)})
    output = project.pytest(timeout_s=240)
    (result,) = project.results["results"]
    assert output.ret == 0, result["message"]
    found: dict[str, Any] = result
    return found


@pytest.mark.soak(
    "Three pairs in the gate, one at 100 Mbit/s and two at 1 Gbit/s, each reach their link rate within 1 %,"
    " and the gate reports their sum.",
    runs=10,
)
def test_the_gate_measures_three_pairs_at_once(new_project: NewProject) -> None:
    result = measured(new_project, "pairs:3", "duration=5")
    found = sorted(flow["goodput_bps"] for flow in result["flows"])
    assert found == pytest.approx([FAST_ETHERNET, GIGABIT, GIGABIT], rel=0.01)
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(sum(found))
    assert result["evenness"]["jain"] > 0.999


@pytest.mark.soak(
    "Five senders in the gate fill one link of 100 Mbit/s within 1 %, and each gets a fifth within 5 %.", runs=10
)
def test_the_gate_measures_five_senders(new_project: NewProject) -> None:
    result = measured(new_project, "incast:5", 'duration=12, sum="94%", share="90%", fairness=0.99')
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.01)
    assert [flow["goodput_bps"] for flow in result["flows"]] == pytest.approx([FAST_ETHERNET / 5] * 5, rel=0.05)
