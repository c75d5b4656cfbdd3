"""``pinet lab restore`` restores the switch ports of killed runs, except ports in use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.doctor_command import CommandAnswer, copy_with, held_by_alice, pinet
from tests.support.gate_project import GateLab

pytestmark = pytest.mark.slow

# p4 is cabled to pi4b-1, p12 and p13 to nothing.
CRASH = """\
import os, sys
from pytest_pinet.config.labfile import load
from pytest_pinet.lab.switch.managed_switch import open_switch
switch = open_switch(load(sys.argv[1]), "sw1")
for port in sys.argv[3:]:
    # One of the VLANs for groups of ports.
    switch.set_vlan(port, int(sys.argv[2]))
"""
DIE = "os._exit(0)\n"
LIVE = "print('wired', flush=True)\nsys.stdin.read()\n"
HOLD = """\
import sys
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
identity = Identity.of_this_process("main")
user = identity.user.split("-")
# As seen from another machine, or from this one after it was rebooted.
coordinator = Coordinator(sys.argv[1], Identity("otherhost", "-".join([*user[:4], "0123abcd", user[5]])))
assert coordinator.acquire("pi4b-1")
print("held", flush=True)
sys.stdin.read()
"""


class Bench:
    """A lab that pytest-pinet did not start, such as a physical one, with its own journal."""

    def __init__(self, lab: GateLab, folder: Path) -> None:
        self.lab = lab
        self.file = copy_with(lab, folder, [])
        self.state = {"XDG_STATE_HOME": str(folder / "state")}

    def python(self, code: str, *words: str) -> subprocess.Popen[str]:
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **self.lab.environment, **self.state}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-c", code, *words], env=environment, stdin=pipe, stdout=pipe, text=True
        )

    def crash(self, *ports: str, file: Path | None = None) -> None:
        process = self.python(CRASH + DIE, str(file or self.file), "3905", *ports)
        process.communicate(timeout=60)
        assert process.returncode == 0

    def restore(self, *words: str, file: Path | None = None, **environment: str) -> CommandAnswer:
        return pinet(self.lab, "lab", "restore", "--lab", str(file or self.file), *words, **self.state, **environment)

    def vlans(self, ports: Sequence[str]) -> dict[str, str]:
        groups = self.lab.port_groups()
        return {port: groups[port] for port in ports}


@pytest.fixture
def bench(gate_lab: GateLab, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(gate_lab, tmp_path)
    yield bench
    bench.restore("--without-leases")


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_ports_that_a_crash_left_changed_are_restored(bench: Bench, gate_lab: GateLab) -> None:
    for file in (bench.file, gate_lab.file):
        assert bench.restore(file=file).output == "nothing to restore\n"
        bench.crash("p4", "p12", file=file)
        result = bench.restore(file=file)
        assert result.code == 0
        assert sorted(result.output.splitlines()) == [
            "restored port p12 of switch sw1: VLAN 1",
            "restored port p4 of switch sw1: VLAN 1",
        ]
        assert bench.restore(file=file).output == "nothing to restore\n"
    assert gate_lab.holders() == []


def test_a_port_of_a_leased_node_is_not_restored(bench: Bench, gate_lab: GateLab) -> None:
    home = bench.vlans(["p4", "p12"])
    bench.crash("p4", "p12")
    changed = bench.vlans(["p4", "p12"])
    with held_by_alice(gate_lab, "pi4b-1"):
        result = bench.restore()
        left, restored = result.output.splitlines()
        assert left.startswith(
            "not restored: port p4 of switch sw1, because place pi4b-1 is held by otherhost/alice since "
        )
        assert restored == "restored port p12 of switch sw1: VLAN 1"
        assert bench.vlans(["p4", "p12"]) == {"p4": changed["p4"], "p12": home["p12"]}
    assert bench.restore().output == "restored port p4 of switch sw1: VLAN 1\n"
    assert bench.vlans(["p4", "p12"]) == home


def test_a_port_that_a_live_run_took_over_is_not_restored(bench: Bench) -> None:
    home = bench.vlans(["p4", "p12"])
    bench.crash("p4", "p12")
    runner = bench.python(CRASH + LIVE, str(bench.file), "3906", "p12")
    try:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "wired\n"
        wired = bench.vlans(["p12"])
        # A port without a cable has no lease. Only the journal shows its owner.
        assert bench.restore().output == "restored port p4 of switch sw1: VLAN 1\n"
        assert bench.vlans(["p4", "p12"]) == {"p4": home["p4"], **wired}
        assert wired["p12"] != home["p12"]
    finally:
        ended(runner)
    assert bench.restore().output == "restored port p12 of switch sw1: VLAN 1\n"
    assert bench.vlans(["p4", "p12"]) == home


def test_without_a_coordinator_ports_are_restored_only_on_request(bench: Bench) -> None:
    bench.crash("p4")
    changed = bench.vlans(["p4"])
    result = bench.restore(LG_COORDINATOR="127.0.0.1:1")
    assert (result.code, result.output) == (2, "")
    assert ". Not restored: sw1/p4, because pinet cannot check whether another run uses them\n  -> " in result.errors
    assert f"If no other run uses them: pinet lab restore --lab {bench.file} --without-leases" in result.errors
    assert bench.vlans(["p4"]) == changed
    result = bench.restore("--without-leases", LG_COORDINATOR="127.0.0.1:1")
    assert (result.code, result.output) == (0, "restored port p4 of switch sw1: VLAN 1\n")


def test_the_places_of_a_silent_holder_are_leased_after_a_wait(bench: Bench, gate_lab: GateLab) -> None:
    bench.crash("p4")
    holder = bench.python(HOLD, gate_lab.environment["LG_COORDINATOR"])
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    ended(holder)
    assert gate_lab.holders() == ["pi4b-1"]
    result = bench.restore()
    assert result.output == "restored port p4 of switch sw1: VLAN 1\n"
    # It takes time to see whether the heartbeat continues.
    assert result.seconds > 10
    assert gate_lab.holders() == []
