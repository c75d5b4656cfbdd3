"""The cli backend over real ssh and netmiko, with stand-ins for two switches, one with modes and one without."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator

import pytest

from pytest_pinet.errors import SwitchError
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch.cli import CliSwitch, connect
from pytest_pinet.lab.switch.switchport import Capability, Neighbour, PortState
from tests.support.cli_switch_server import PASSWORD, SwitchBench

pytest.importorskip("netmiko")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="accounts for one sshd alone need root"),
    pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="no sshd is installed"),
]
DIALECTS = ["ios", "routeros"]


@pytest.fixture(scope="module", params=DIALECTS)
def bench_of_module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchBench]:
    bench = SwitchBench(request.param, tmp_path_factory.mktemp(request.param))
    yield bench
    bench.stop()


@pytest.fixture(scope="module")
def session_of_module(bench_of_module: SwitchBench) -> Iterator[CliSwitch]:
    session = bench_of_module.connect()
    yield session
    session.close()


@pytest.fixture
def bench(bench_of_module: SwitchBench) -> SwitchBench:
    """Return the switch with factory settings."""
    bench_of_module.reset()
    return bench_of_module


@pytest.fixture
def switch(bench: SwitchBench, session_of_module: CliSwitch) -> CliSwitch:
    """Return the logged-in session, which tests share unless one ends it."""
    return session_of_module


def test_capabilities(switch: CliSwitch) -> None:
    assert switch.capabilities == set(Capability)


def test_states(bench: SwitchBench, switch: CliSwitch) -> None:
    first, second, third = bench.ports[:3]
    states = switch.states(bench.ports)
    assert list(states) == bench.ports
    assert states[first] == PortState(True, True, 1000, "full", 1, True)
    assert states[second] == PortState(True, True, 100, "full", 1, True)
    assert states[third] == PortState(True, False, None, None, 1, True)


def test_set_and_read_back(bench: SwitchBench, switch: CliSwitch) -> None:
    port, other = bench.ports[0], bench.ports[1]
    switch.configure({port: PortState(admin_up=False, vlan=3900, poe=False)})
    there = bench.state["ports"]
    assert (there[port]["admin"], there[port]["vlan"], there[port]["poe"]) == (False, 3900, False)
    assert (there[other]["admin"], there[other]["vlan"], there[other]["poe"]) == (True, 1, True)
    state = switch.states([port])[port]
    assert (state.admin_up, state.vlan, state.poe) == (False, 3900, False)
    switch.configure({port: PortState(admin_up=True, vlan=1, poe=True)})
    switch.remove_vlan(3900)
    switch.remove_vlan(3900)
    assert switch.states([port])[port] == PortState(True, True, 1000, "full", 1, True)
    assert bench.state["vlans"] == [1, 10]


def test_each_setting_alone(bench: SwitchBench, switch: CliSwitch) -> None:
    port = bench.ports[1]
    switch.configure({port: PortState(admin_up=False)})
    assert switch.states([port])[port].admin_up is False
    assert switch.states([port])[port].vlan == 1
    switch.configure({port: PortState(poe=False)})
    assert switch.states([port])[port].poe is False
    switch.configure({port: PortState(vlan=10)})
    assert switch.states([port])[port].vlan == 10
    assert bench.state["ports"][port]["admin"] is False


def test_counters(bench: SwitchBench, switch: CliSwitch) -> None:
    port = bench.ports[1]
    before = time.monotonic()
    counters = switch.counters([port])[port]
    assert before <= counters.time_s <= time.monotonic()
    assert (counters.rx_octets, counters.tx_octets) == (5_880_759_395, 72_669_654)
    assert (counters.rx_errors, counters.rx_discards, counters.tx_discards) == (3, 0, 7)


def test_neighbours(bench: SwitchBench, switch: CliSwitch) -> None:
    found = switch.neighbours(bench.ports)
    first = found[bench.ports[0]]
    assert Neighbour(Capability.FDB, "dc:a6:32:00:00:01") in first
    lldp = next(neighbour for neighbour in first if neighbour.source is Capability.LLDP)
    assert (lldp.mac, lldp.system) == ("dc:a6:32:00:00:01", "pi 1")
    assert found[bench.ports[2]] == frozenset()
    # ether1 and ether10 must not be confused.
    assert found[bench.ports[3]] == frozenset()


def test_the_configuration_is_not_saved(bench: SwitchBench) -> None:
    switch = bench.connect()
    switch.configure({bench.ports[0]: PortState(vlan=3900)})
    switch.close()
    assert not [
        command for command in bench.state["log"] if "write" in command or "copy" in command or "save" in command
    ]


class TestTrouble:
    def test_wrong_password(self, bench: SwitchBench) -> None:
        with pytest.raises(SwitchError, match="refused the login of user 'admin'") as error:
            bench.connect(password="guess")
        assert str(bench.port) in error.value.message
        assert error.value.act == "correct the user, password or keyfile of the switch in lab.yaml:12"
        assert "guess" not in str(error.value)

    def test_dead_switch(self, bench: SwitchBench) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"ssh://admin@127.0.0.1:{listener.getsockname()[1]}"
            with pytest.raises(SwitchError, match=r"switch sw1 at 127\.0\.0\.1:\d+ "):
                bench.connect(address=address, timeout="2 s")

    def test_closed_port(self, bench: SwitchBench) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"ssh://admin@127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(SwitchError, match=r"cannot be reached within 2 s: ") as error:
            bench.connect(address=address, timeout="2 s")
        assert error.value.act.startswith("the lab's admin: check its power")

    def test_refused_command(self, bench: SwitchBench, switch: CliSwitch) -> None:
        port = bench.ports[0]
        with pytest.raises(SwitchError) as error:
            switch.configure({port: PortState(vlan=5000)})
        command, answer = {
            "ios": ("vlan 5000", "% Invalid input detected at '^' marker."),
            "routeros": (
                f'/interface bridge port set [find interface="{port}"] pvid=5000',
                "value of pvid out of range (1..4094)",
            ),
        }[bench.dialect]
        assert error.value.message == f"switch sw1 refused '{command}': '{answer}'"
        # The session continues with the next command.
        assert switch.states([port])[port].vlan == 1

    def test_dropped_session(self, bench: SwitchBench, switch: CliSwitch) -> None:
        port = bench.ports[0]
        switch.states([port])
        shown = bench.state["log"][-1]
        bench.change(faults={"drop": {shown: 1}}, log=[])
        assert switch.states([port])[port].vlan == 1
        assert bench.state["log"].count(shown) == 2

    def test_session_dropped_while_it_configures(self, bench: SwitchBench, switch: CliSwitch) -> None:
        port = bench.ports[0]
        down = {"ios": "shutdown", "routeros": f'/interface disable "{port}"'}[bench.dialect]
        bench.change(faults={"drop": {down: 1}})
        switch.configure({port: PortState(admin_up=False, vlan=3900)})
        state = switch.states([port])[port]
        assert (state.admin_up, state.vlan) == (False, 3900)

    def test_switch_that_drops_every_session(self, bench: SwitchBench, switch: CliSwitch) -> None:
        port = bench.ports[0]
        switch.states([port])
        shown = bench.state["log"][-1]
        bench.change(faults={"drop": {shown: 9}})
        with pytest.raises(SwitchError, match=r"switch sw1 at .* ended the session twice, the second time after '"):
            switch.states([port])

    def test_hanging_command(self, bench: SwitchBench) -> None:
        switch = bench.connect(timeout="2 s")
        port = bench.ports[0]
        switch.states([port])
        shown = bench.state["log"][-1]
        bench.change(faults={"hang": [shown]})
        with pytest.raises(SwitchError, match=re.escape(f"did not finish its answer to '{shown[:40]}")):
            switch.states([port])
        bench.change(faults={})
        assert switch.states([port])[port].vlan == 1
        switch.close()

    def test_another_family(self, bench: SwitchBench) -> None:
        other = {"ios": "mikrotik_routeros", "routeros": "cisco_ios"}[bench.dialect]
        with pytest.raises(
            SwitchError, match=r"switch sw1 (at 127\.0\.0\.1:\d+ did not show the prompt of a |refused |did not fin)"
        ):
            bench.connect(family=other, timeout="2 s").states(bench.ports)

    def test_close_twice(self, bench: SwitchBench) -> None:
        switch = bench.connect()
        switch.close()
        switch.close()


class TestManaged:
    """The managed switch on top of the backend."""

    def test_wire_and_restore(self, bench: SwitchBench, switch: CliSwitch) -> None:
        managed = bench.managed(switch)
        one, two, three, four = bench.ports[:4]
        switch.configure({four: PortState(vlan=10)})
        switch.configure({three: PortState(admin_up=False)})
        undo = UndoStack()
        managed.wire([frozenset({one, two}), frozenset({three, four})], undo)
        states = managed.states(bench.ports)
        assert [states[port].vlan for port in bench.ports[:4]] == [3900, 3900, 3902, 3902]
        assert all(states[port].admin_up for port in bench.ports)
        assert undo.close() == []
        states = managed.states(bench.ports)
        assert [states[port].vlan for port in bench.ports[:4]] == [1, 1, 1, 10]
        assert states[three].admin_up is False
        assert bench.state["vlans"] == [1, 10]

    def test_all_ports_are_set_in_one_configuration_session(self, bench: SwitchBench, switch: CliSwitch) -> None:
        managed = bench.managed(switch)
        bench.change(log=[])
        managed.wire([frozenset(bench.ports[:2]), frozenset(bench.ports[2:4])], UndoStack())
        assert bench.state["log"].count("configure terminal") == (1 if bench.dialect == "ios" else 0)

    def test_a_change_without_effect_is_an_error(
        self, bench: SwitchBench, switch: CliSwitch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pytest_pinet.lab.switch.managed_switch.READ_BACK_TIMEOUT_S", 1.0)
        port = bench.ports[0]
        down = {"ios": "shutdown", "routeros": f'/interface disable "{port}"'}[bench.dialect]
        bench.change(faults={"lie": [down]})
        with pytest.raises(
            SwitchError, match=rf"switch sw1 accepted a change, but .* port {port} is up instead of down"
        ):
            bench.managed(switch).set_admin(port, False)


@pytest.fixture(scope="module")
def catalyst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchBench]:
    bench = SwitchBench("ios", tmp_path_factory.mktemp("catalyst"))
    yield bench
    bench.stop()


def test_a_catalyst_that_cannot_create_high_vlans(catalyst: SwitchBench) -> None:
    catalyst.reset(vtp="server")
    switch = catalyst.connect()
    with pytest.raises(SwitchError, match=r"switch sw1 refused 'exit': '% Failed to create VLANs 3900'"):
        switch.configure({"Gi1/0/1": PortState(vlan=3900)})
    managed = catalyst.managed(switch, range(901, 907))
    undo = UndoStack()
    managed.wire([frozenset({"Gi1/0/1", "Gi1/0/2"})], undo)
    assert managed.state("Gi1/0/2").vlan == 901
    assert undo.close() == []
    managed.close()


def test_a_catalyst_without_lldp(catalyst: SwitchBench) -> None:
    catalyst.reset(lldp=False)
    switch = catalyst.connect()
    assert Capability.LLDP not in switch.capabilities
    assert {found.source for found in switch.neighbours(["Gi1/0/1"])["Gi1/0/1"]} == {Capability.FDB}
    switch.close()


def test_a_catalyst_trunk_is_not_changed(catalyst: SwitchBench) -> None:
    catalyst.reset()
    ports = catalyst.state["ports"]
    ports["Gi1/0/1"]["trunk"] = True
    catalyst.change(ports=ports)
    switch = catalyst.connect()
    with pytest.raises(SwitchError, match="no access VLAN of port Gi1/0/1"):
        switch.configure({"Gi1/0/1": PortState(vlan=3900)})
    switch.close()


def test_full_and_abbreviated_port_names(catalyst: SwitchBench) -> None:
    catalyst.reset()
    described = catalyst.switch(["GigabitEthernet1/0/1", "gi1/0/2"])
    switch = connect(described, {**described.settings, "username": "admin", "password": PASSWORD})
    switch.configure({"GigabitEthernet1/0/1": PortState(vlan=10)})
    assert {port: state.vlan for port, state in switch.states(described.ports).items()} == {
        "GigabitEthernet1/0/1": 10,
        "gi1/0/2": 1,
    }
    switch.close()
