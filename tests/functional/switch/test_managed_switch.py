"""Groups of ports on a real bridge: isolated, read back, restored, also after a crash; and switches that lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.errors import CapabilityError, SwitchError, Where
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.restoration import restore_crashed
from pytest_pinet.lab.switch import managed_switch
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.lab.switch.switchport import Capability, PortState
from pytest_pinet.model.lab import Switch
from tests.support.linux_switch import LinuxBench, NamespaceShell, linux_bench

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
HOME = dict.fromkeys(("p1", "p2", "p3", "p4"), "br0")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LinuxBench]:
    with linux_bench(tmp_path) as found:
        yield found


def test_groups_are_isolated_and_leave_no_bridges(bench: LinuxBench) -> None:
    switch, undo = bench.open(), UndoStack()
    assert bench.reaches(1, 3)
    switch.wire([frozenset({"p1", "p2"}), frozenset({"p3", "p4"})], undo)
    assert bench.bridges() == {"p1": "br3900", "p2": "br3900", "p3": "br3902", "p4": "br3902"}
    assert bench.reaches(1, 2)
    assert bench.reaches(3, 4)
    assert not bench.reaches(1, 3)
    assert {port: state.vlan for port, state in switch.states(["p1", "p4"]).items()} == {"p1": 3900, "p4": 3902}
    assert undo.close() == []
    assert bench.bridges() == HOME
    assert bench.all_bridges() == ["br0"]
    assert bench.reaches(1, 3)


def test_wiring_needs_few_commands(bench: LinuxBench) -> None:
    switch, undo = bench.open(), UndoStack()
    assert switch.rewires
    bench.shell.commands = 0
    switch.wire([frozenset({"p1", "p2"}), frozenset({"p3", "p4"})], undo)
    # Reading the state, the change, reading it back.
    assert bench.shell.commands == 3
    assert undo.close() == []
    # And creating the two bridges.
    assert bench.shell.commands == 3 + 3 + 2


def test_every_port_gets_its_original_state_back(bench: LinuxBench) -> None:
    bench.sh("ip link add br20 type bridge && ip link set br20 up && ip link set p2 master br20")
    bench.sh("ip link set p3 nomaster && ip link set p4 down")
    switch, undo = bench.open(), UndoStack()
    switch.wire([frozenset({"p1", "p2", "p3", "p4"})], undo)
    assert set(bench.bridges().values()) == {"br3900"}
    assert switch.state("p4").admin_up
    assert undo.close() == []
    assert bench.bridges() == {"p1": "br0", "p2": "br20", "p3": "", "p4": "br0"}
    assert not switch.state("p4").admin_up
    assert switch.state("p3").vlan == 0
    assert not [*bench.folder.glob("journal/*.json")]


def test_a_port_that_is_not_in_the_lab_file_is_never_touched(bench: LinuxBench) -> None:
    bench.sh("ip link add p5 type veth peer name q5 && ip link set p5 master br0")
    switch, undo = bench.open(), UndoStack()
    for touch in (
        lambda: switch.wire([frozenset({"p1", "p5"})], undo),
        lambda: switch.set_admin("p5", False),
        lambda: switch.set_vlan("p5", 20),
        lambda: switch.state("p5"),
        lambda: switch.counters(["p5"]),
    ):
        with pytest.raises(
            SwitchError,
            match=r"port p5 of switch sw was not used, because it is not in the lab file\n  -> if pinet may",
        ):
            touch()
    assert bench.bridges() == HOME
    assert undo.close() == []


def test_ports_that_a_killed_runner_left_in_the_vlan_are_moved_to_the_default(bench: LinuxBench) -> None:
    for name in ("br3900", "br3901"):
        bench.sh(f"ip link add {name} type bridge && ip link set {name} up")
    bench.sh("ip link set p1 master br3900; ip link set p4 master br3900; ip link set p3 master br3901")
    undo = UndoStack()
    bench.open().wire([frozenset({"p1", "p3"})], undo)
    # p4 does not belong to the group. The VLAN that p3 left is now empty.
    assert bench.bridges() == {"p1": "br3900", "p2": "br0", "p3": "br3900", "p4": "br0"}
    assert bench.all_bridges() == ["br0", "br3900"]
    assert undo.close() == []
    assert bench.bridges() == HOME


def test_the_lab_file_sets_the_default_vlan(bench: LinuxBench) -> None:
    bench.sh("ip link add br4000 type bridge; ip link set p1 master br4000; ip link add lan type bridge")
    bench.sh("ip link set p2 master lan")
    undo = UndoStack()
    switch = replace(bench.switch(default_group="lan"), default_vlan=7, group_vlans=range(4000, 4051))
    bench.open(switch=switch).wire([frozenset({"p1", "p2"})], undo)
    assert bench.bridges()["p1"] == "br4000"
    assert undo.close() == []
    assert bench.bridges() == {"p1": "lan", "p2": "lan", "p3": "br0", "p4": "br0"}


KILLED = """\
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.support.linux_switch import LinuxBench, NamespaceShell
from pytest_pinet.execution.undo import UndoStack
bench = LinuxBench(Path({folder!r}))
bench.shell = NamespaceShell("switch sw", {namespace!r})
switch, undo = bench.open(), UndoStack()
switch.wire([frozenset({{"p1", "p2"}})], undo)
switch.set_admin("p3", False)
os.kill(os.getpid(), 9)
"""


def script(bench: LinuxBench) -> str:
    tests = str(Path(__file__).parents[3])
    return KILLED.format(tests=tests, folder=str(bench.folder), namespace=bench.shell.namespace)


def killed_runner(bench: LinuxBench) -> None:
    """Kill a process while p1 and p2 are a group and p3 is down."""
    assert subprocess.run([sys.executable, "-c", script(bench)], timeout=30, check=False).returncode == -9
    assert (bench.bridges()["p1"], bench.bridges()["p2"]) == ("br3900", "br3900")


def test_after_a_crash_the_journal_restores_the_ports(bench: LinuxBench) -> None:
    bench.sh("ip link set p1 down")
    killed_runner(bench)
    sentences = restore_crashed(bench.lab_file, lambda name: bench.open(), bench.folder / "journal")
    assert sentences == [
        "restored port p1 of switch sw: VLAN 1 and down",
        "restored port p2 of switch sw: VLAN 1 and up",
        "restored port p3 of switch sw: up",
    ]
    assert bench.bridges() == HOME
    assert {port: state.admin_up for port, state in bench.open().states(HOME).items()} == {
        "p1": False,
        "p2": True,
        "p3": True,
        "p4": True,
    }
    assert not [*bench.folder.glob("journal/*.json")]
    assert restore_crashed(bench.lab_file, lambda name: bench.open(), bench.folder / "journal") == []


def test_the_next_runner_restores_from_the_journal_of_a_dead_one(bench: LinuxBench) -> None:
    bench.sh("ip link add br20 type bridge; ip link set br20 up")
    bench.sh("ip link set p2 master br20")
    killed_runner(bench)
    undo = UndoStack()
    bench.open().wire([frozenset({"p2", "p4"})], undo)
    assert bench.bridges() == {"p1": "br3900", "p2": "br3901", "p3": "br0", "p4": "br3901"}
    assert undo.close() == []
    assert bench.bridges()["p2"] == "br20"
    # The changes of the dead process to the other ports are still known.
    assert restore_crashed(bench.lab_file, lambda name: bench.open(), bench.folder / "journal") == [
        "restored port p1 of switch sw: VLAN 1 and up",
        "restored port p3 of switch sw: up",
    ]


def test_the_ports_of_a_live_runner_are_not_restored(bench: LinuxBench, tmp_path: Path) -> None:
    text = script(bench).replace("os.kill(os.getpid(), 9)", "print('wired', flush=True); sys.stdin.read()")
    argv = [sys.executable, "-c", text]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"wired\n"
        try:
            assert restore_crashed(bench.lab_file, lambda name: bench.open(), bench.folder / "journal") == []
            assert bench.bridges()["p1"] == "br3900"
        finally:
            runner.kill()
    assert len(restore_crashed(bench.lab_file, lambda name: bench.open(), bench.folder / "journal")) == 3


@pytest.fixture
def liar(bench: LinuxBench, monkeypatch: pytest.MonkeyPatch) -> NamespaceShell:
    """Return the same switch with commands that report success without an effect."""
    monkeypatch.setattr(managed_switch, "READ_BACK_TIMEOUT_S", 0.2)
    folder = bench.folder / "bin"
    folder.mkdir()
    (folder / "ip").write_text("#!/bin/sh\nexit 0\n")
    (folder / "ip").chmod(0o755)
    return NamespaceShell("switch sw", bench.shell.namespace, {"PATH": f"{folder}:{os.environ['PATH']}"})


def test_a_switch_that_accepts_a_change_without_effect_is_an_error(bench: LinuxBench, liar: NamespaceShell) -> None:
    undo = UndoStack()
    bench.sh("ip link set p2 down")
    with pytest.raises(SwitchError) as caught:
        bench.open(liar).wire([frozenset({"p1", "p2"})], undo)
    assert caught.value.message == (
        "switch sw accepted a change, but 0.2 s later port p1 is in VLAN 1 and up instead of VLAN 3900 and up, "
        "port p2 is in VLAN 1 and down instead of VLAN 3900 and up"
    )
    assert undo.close() == []
    assert not [*bench.folder.glob("journal/*.json")]
    with pytest.raises(SwitchError, match=r"port p3 is up instead of down"):
        bench.open(liar).set_admin("p3", False)


def test_a_failed_restore_is_reported_and_stays_in_the_journal(bench: LinuxBench, liar: NamespaceShell) -> None:
    honest, path = bench.open(liar), liar.environment["PATH"]
    liar.environment["PATH"] = os.environ["PATH"]
    undo = UndoStack()
    honest.wire([frozenset({"p1", "p2"})], undo)
    liar.environment["PATH"] = path
    (failure,) = undo.close()
    assert failure.startswith(
        "could not undo the wiring of p1 and p2 on switch sw: switch sw accepted a change, but 0.2 s later "
    )
    (page,) = bench.folder.glob("journal/*.json")
    assert json.loads(page.read_text())["switches"]["sw"].keys() == {"p1", "p2"}


def test_single_settings_are_read_back_and_undone(bench: LinuxBench) -> None:
    switch, undo = bench.open(), UndoStack()
    switch.set_vlan("p1", 20, undo)
    switch.set_admin("p1", False, undo)
    assert (bench.bridges()["p1"], switch.state("p1").admin_up) == ("br20", False)
    assert undo.close() == []
    assert (bench.bridges()["p1"], switch.state("p1").admin_up) == ("br0", True)
    switch.set_admin("p1", False)
    assert [*bench.folder.glob("journal/*.json")]
    switch.set_admin("p1", True)
    assert not [*bench.folder.glob("journal/*.json")]
    with pytest.raises(ValueError, match="5000 is no VLAN; expected 1 to 4094"):
        switch.set_vlan("p1", 5000)
    with pytest.raises(
        CapabilityError, match=r"switch sw \(backend linux\) cannot switch the power of a port; its capabilities: "
    ):
        switch.set_poe("p1", True)


def test_an_interrupted_port_comes_up_again(bench: LinuxBench) -> None:
    switch, undo = bench.open(), UndoStack()
    switch.interrupt("p1", 0.01, undo)
    assert switch.state("p1").admin_up
    assert not [*bench.folder.glob("journal/*.json")]
    assert undo.close() == []


@pytest.mark.parametrize("wired", [True, False])
def test_a_port_that_was_down_when_the_run_ended_comes_up(
    bench: LinuxBench, monkeypatch: pytest.MonkeyPatch, wired: bool
) -> None:
    switch, undo = bench.open(), UndoStack()
    if wired:
        switch.wire([frozenset({"p1", "p2"})], undo)

    def killed(_: float) -> None:
        assert not switch.state("p1").admin_up
        raise KeyboardInterrupt

    monkeypatch.setattr(managed_switch, "time", SimpleNamespace(sleep=killed))
    with pytest.raises(KeyboardInterrupt):
        switch.interrupt("p1", 1.0, undo)
    # A run that was killed undoes nothing; the next one reads the journal.
    assert [*bench.folder.glob("journal/*.json")]
    assert undo.close() == []
    assert switch.state("p1").admin_up
    assert bench.bridges() == HOME
    assert not [*bench.folder.glob("journal/*.json")]


def test_a_port_with_an_unknown_vlan_is_not_changed(bench: LinuxBench) -> None:
    bench.sh("ip link add odd type bridge; ip link set p2 master odd")
    with pytest.raises(SwitchError, match="shows that port p2 is not in exactly one access VLAN"):
        bench.open().wire([frozenset({"p1", "p2"})], UndoStack())
    assert bench.bridges() == {**HOME, "p2": "odd"}


def test_counters_and_neighbours_of_a_linux_switch(bench: LinuxBench) -> None:
    switch = bench.open()
    before = switch.counters(["p1", "p2"])
    bench.sh("ip link set p3 down")
    assert bench.reaches(1, 2)
    after = switch.counters(["p1", "p2"])
    # At least an echo request of 98 bytes and an ARP request.
    assert after["p1"].rx_octets - before["p1"].rx_octets >= 98 + 42
    assert after["p2"].tx_octets - before["p2"].tx_octets >= 98
    assert after["p1"].time_s > before["p1"].time_s
    assert after["p1"].epoch == before["p1"].epoch != after["p2"].epoch
    argv = ["ip", "netns", "exec", bench.host(1), "cat", "/sys/class/net/eth0/address"]
    mac = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    found = switch.neighbours(["p1", "p3"])
    assert mac in {one.mac for one in found["p1"] if one.source is Capability.FDB}
    assert found.keys() == {"p1", "p3"}


def test_a_port_that_the_switch_does_not_have(bench: LinuxBench) -> None:
    bench.sh("ip link del p2")
    with pytest.raises(SwitchError, match=r"switch sw has no port 'p2'\n  -> correct the ports of sw in .*lab.yaml:3"):
        bench.open().wire([frozenset({"p1", "p3"})], UndoStack())


def test_a_fixed_switch_cannot_be_rewired(tmp_path: Path) -> None:
    switch = Switch("desk", "fixed", ("p1", "p2"), {}, Where("lab.yaml", 3))
    fixed, undo = ManagedSwitch(switch, FixedSwitch(), Journal("lab.yaml", tmp_path)), UndoStack()
    assert not fixed.rewires
    fixed.wire([frozenset({"p1", "p2"})], undo)
    assert undo.close() == []
    assert fixed.state("p1") == PortState()
    for ask in (
        lambda: fixed.set_vlan("p1", 2),
        lambda: fixed.set_admin("p1", True),
        lambda: fixed.counters(["p1"]),
        lambda: fixed.neighbours(["p1"]),
    ):
        with pytest.raises(CapabilityError, match=r"switch desk \(backend fixed\) cannot .*; its capabilities: none"):
            ask()


def test_ports_that_are_kept_stay_in_their_vlan_and_come_up(bench: LinuxBench) -> None:
    bench.sh("ip link set p2 down")
    switch, undo = bench.open(), UndoStack()
    switch.keep(["p1", "p2"], ["p3"], undo)
    assert {port: state.admin_up for port, state in switch.states(["p1", "p2"]).items()} == {"p1": True, "p2": True}
    assert bench.bridges() == HOME
    assert undo.close() == []
    assert switch.state("p2").admin_up is False


def test_a_kept_port_is_taken_out_of_the_vlan_of_a_dead_run(bench: LinuxBench) -> None:
    bench.open().wire([frozenset({"p1", "p2"}), frozenset({"p3", "p4"})], UndoStack())
    undo = UndoStack()
    bench.open().keep(["p2"], [], undo)
    assert bench.bridges() == {"p1": "br3900", "p2": "br0", "p3": "br3902", "p4": "br3902"}
    assert undo.close() == []
    assert bench.bridges()["p2"] == "br0"


def test_a_fixed_switch_keeps_all_ports(tmp_path: Path) -> None:
    switch = Switch("desk", "fixed", ("p1", "p2"), {}, Where("lab.yaml", 3))
    undo = UndoStack()
    ManagedSwitch(switch, FixedSwitch(), Journal("lab.yaml", tmp_path)).keep(["p1"], ["p2"], undo)
    assert undo.close() == []


def test_ports_of_several_vlans_are_not_kept_as_a_group(bench: LinuxBench) -> None:
    switch, undo = bench.open(), UndoStack()
    switch.set_vlan("p2", 7, undo)
    message = r"port p1 in VLAN 1, port p2 in VLAN 7, and pinet cannot move these ports, because p1 carries the conn"
    with pytest.raises(CapabilityError, match=message):
        switch.keep(["p2"], ["p1"], undo)
    assert undo.close() == []
    assert bench.bridges() == HOME
