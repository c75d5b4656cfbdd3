"""Several flows at once in the virtual lab: a port serves its inputs, and a node its receivers, in equal shares."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence

import pytest
from gate_bench import wait_until
from virtual_bench import SIX_LAB_FILE, Bench, small_lab

from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.status import ssh_command

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.slow,
]

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
WIRE_MBPS = 94.15
SECONDS = 10
PORT = 5300


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    lab = small_lab(tmp_path_factory.mktemp("fair"), SIX_LAB_FILE)
    found = Bench(lab)
    try:
        found.boot(*NODES)
        for number, node in enumerate(NODES, start=1):
            found.ssh(node, f"ip addr add 10.6.0.{number}/24 dev eth0")
        yield found
    finally:
        launcher().down(lab)


def goodputs(bench: Bench, flows: Sequence[tuple[str, str]]) -> list[float]:
    """Mbit/s of each flow over the seconds in which all of them ran, at the receivers."""
    for index, (_, receiver) in enumerate(flows):
        bench.ssh(receiver, f"iperf3 -s -1 -D -J -p {PORT + index}")
        wait_until("the server", lambda r=receiver, i=index: f":{PORT + i}" in bench.ssh(r, "ss -ltn"))  # type: ignore[misc]
    clients = []
    for index, (sender, receiver) in enumerate(flows):
        target = f"10.6.0.{NODES.index(receiver) + 1}"
        # A second at each end, in which not all of them run.
        command = f"iperf3 -c {target} -p {PORT + index} -C cubic -t {SECONDS + 2} -J --get-server-output"
        clients.append(subprocess.Popen(ssh_command(bench.lab.file, sender, [command]), stdout=-1, text=True))
    found = []
    for client in clients:
        out, _ = client.communicate(timeout=60)
        intervals = json.loads(out)["server_output_json"]["intervals"]
        full = [i["sum"]["bits_per_second"] / 1e6 for i in intervals if 0.9 < i["sum"]["start"] < SECONDS + 0.9]
        assert len(full) == SECONDS
        found.append(sum(full) / len(full))
    return found


# As the gate sees it: test_gate_topologies.py.
@pytest.mark.soak
def test_five_senders_get_a_fifth_each_of_one_receivers_link(bench: Bench) -> None:
    found = goodputs(bench, [(sender, "n1") for sender in NODES[1:]])
    assert sum(found) == pytest.approx(WIRE_MBPS, rel=0.01)
    assert found == pytest.approx([WIRE_MBPS / 5] * 5, rel=0.05)


def test_five_receivers_get_a_fifth_each_of_one_senders_link(bench: Bench) -> None:
    found = goodputs(bench, [("n1", receiver) for receiver in NODES[1:]])
    assert sum(found) == pytest.approx(WIRE_MBPS, rel=0.01)
    assert found == pytest.approx([WIRE_MBPS / 5] * 5, rel=0.05)


@pytest.mark.soak
def test_three_pairs_do_not_disturb_each_other(bench: Bench) -> None:
    found = goodputs(bench, [("n1", "n2"), ("n3", "n4"), ("n5", "n6")])
    assert found == pytest.approx([WIRE_MBPS] * 3, rel=0.01)
