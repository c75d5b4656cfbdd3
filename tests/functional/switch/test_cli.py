"""The cli backend over real ssh and netmiko, with stand-ins for two switches, one with modes and one without."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator

import pytest

from pytest_pinet.errors import SwitchError
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch.cli import CliSwitch
from pytest_pinet.lab.switch.switchport import Capability, PortState
from tests.support.cli_switch_server import SwitchBench

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
