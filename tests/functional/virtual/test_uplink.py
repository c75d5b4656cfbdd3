"""The second virtual lab: two Linux switches and the uplink between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch.managed_switch import open_switch
from pytest_pinet.virtual.runtime import ssh_command, status
from tests.support.gate_project import wait_until
from tests.support.small_virtual_lab import FULL_MBPS, LEAST, MOST, SCALE, Bench, bench_up

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

LINUX_LAB = Path(__file__).parents[3] / "lab" / "virtual-linux.yaml"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    text = LINUX_LAB.read_text()
    assert text.count("  launcher: virtual\n") == 1
    slow = text.replace("  launcher: virtual\n", f"  launcher: virtual\n  scale: {SCALE}\n")
    with bench_up(tmp_path_factory.mktemp("uplink"), slow) as found:
        found.boot("pi3b-1", "pi3b-2")
        found.ssh("pi3b-1", "ip addr add 10.5.0.1/24 dev eth0")
        found.ssh("pi3b-2", "ip addr add 10.5.0.2/24 dev eth0")
        yield found


def reaches(bench: Bench) -> bool:
    argv = ssh_command(bench.lab.file, "pi3b-1", ["ping -c1 -W1 10.5.0.2"])
    return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0


def test_nodes_of_two_switches_reach_each_other_at_full_rate(bench: Bench) -> None:
    wait_until("the other switch's node to answer", lambda: reaches(bench))
    bench.serve_iperf("pi3b-2", "")
    end = json.loads(bench.ssh("pi3b-1", "iperf3 -c 10.5.0.2 -t 2 -C cubic -J"))["end"]
    assert LEAST * FULL_MBPS < end["sum_received"]["bits_per_second"] / 1e6 / SCALE < MOST * FULL_MBPS


def test_the_uplink_port_of_each_switch_can_be_moved(bench: Bench) -> None:
    found = status(bench.lab.file)
    assert found is not None
    assert {s["name"]: s["groups"]["p5"] for s in found["switches"]} == {"front": "br0", "back": "br0"}
    for command, reached in (
        ("ip link add br7 type bridge; ip link set br7 up; ip link set p5 master br7", False),
        ("ip link set p1 master br7", True),
        ("ip link set p1 master br0; ip link set p5 master br0; ip link del br7", True),
    ):
        bench.switch(command, "FRONT")
        wait_until(f"{command} to tell", lambda reached=reached: reaches(bench) is reached)  # type: ignore[misc]
    assert bench.switch("cat /sys/class/net/p5/speed", "BACK").strip() == "1000"


@pytest.mark.smoke
def test_the_linux_switch_backend_moves_and_restores_ports_over_ssh(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test has its own journal of changes to undo."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    wait_until("the other switch's node to answer", lambda: reaches(bench))
    switch, undo = open_switch(bench.lab, "front"), UndoStack()
    home = switch.states(["p1", "p2", "p5"])
    assert len({state.vlan for state in home.values()}) == 1
    switch.wire([frozenset({"p1", "p2"})], undo)
    assert switch.state("p1").vlan == switch.state("p2").vlan != switch.state("p5").vlan
    wait_until("the uplink to be out of reach", lambda: not reaches(bench))
    assert undo.close() == []
    assert switch.states(["p1", "p2", "p5"]) == home
    wait_until("the other switch's node to answer again", lambda: reaches(bench))


def test_the_uplink_has_its_own_place(bench: Bench) -> None:
    argv = [sys.executable, "-m", "labgrid.remote.client", "-x", bench.environment["LG_COORDINATOR"], "-p", "trunk"]
    shown = subprocess.run([*argv, "show"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "uplink=trunk" in shown
    assert shown.count("'interface': 'p5'") == 2


def test_linux_switches_report_their_neighbours_by_lldp(bench: Bench) -> None:
    def neighbours() -> dict[str, str]:
        found = json.loads(bench.switch("lldpcli -f json0 show neighbors", "FRONT"))["lldp"][0]["interface"]
        return {port["name"]: port["chassis"][0]["name"][0]["value"] for port in found}

    wait_until("LLDP", lambda: neighbours() == {"p1": "pi3b-1", "p5": "back"})
