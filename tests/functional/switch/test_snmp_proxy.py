"""An SNMP switch that only the exporter's host reaches: net-snmp's agent, a real sshd, and three network namespaces."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import SshError, SwitchError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.lab.switch.switchport import Capability
from tests.support.exporter_host import AGENT, ExporterHost, exporter_host
from tests.support.linux_switch import LinuxBench, linux_bench
from tests.support.snmpd_agent import PORT, SNMPD, V3, agent, managed, switch_of

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not SNMPD or not shutil.which("snmpget"), reason="needs snmpd and snmp"),
    pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="no sshd is installed"),
]
ADDRESS = f"snmp://{AGENT}:{PORT}"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinuxBench]:
    with linux_bench(tmp_path_factory.mktemp("proxy")) as found, agent(found, "honest"):
        yield found


@pytest.fixture(scope="module")
def host(bench: LinuxBench) -> Iterator[ExporterHost]:
    with exporter_host(bench) as found:
        yield found


def through(host: ExporterHost) -> dict[str, str]:
    return {"address": ADDRESS, "proxy": host.address, "keyfile": host.keyfile}


def test_the_runner_has_no_way_of_its_own_to_the_switch(bench: LinuxBench, host: ExporterHost) -> None:
    with (
        managed(switch_of(bench, address=ADDRESS, community="writes"), bench) as switch,
        pytest.raises(SwitchError, match=rf"{re.escape(AGENT)}:{PORT}"),
    ):
        switch.states(["p1"])


@pytest.mark.parametrize("access", [{"community": "writes"}, V3], ids=["v2c", "v3"])
def test_a_switch_is_managed_through_the_exporters_host(
    bench: LinuxBench, host: ExporterHost, access: dict[str, str]
) -> None:
    undo = UndoStack()
    with managed(switch_of(bench, **through(host), **access), bench) as switch:
        assert {Capability.ADMIN, Capability.VLAN, Capability.POE, Capability.COUNTERS} <= switch.capabilities
        switch.wire([frozenset({"p1", "p2"}), frozenset({"p3", "p4"})], undo)
        switch.set_poe("p1", False, undo)
        states = switch.states(["p1", "p3"])
        assert [(state.vlan, state.poe) for state in states.values()] == [(3900, False), (3902, True)]
        assert switch.counters(["p1", "p2"]).keys() == {"p1", "p2"}
        assert undo.close() == []
        assert {(s.vlan, s.poe) for s in switch.states(["p1", "p2", "p3", "p4"]).values()} == {(1, True)}
        assert [command for command in host.commands().values() if "agent_socket" in command]
    # Nothing of ours stays on the exporter's host.
    assert Deadline(5).wait_until(lambda: not host.commands())


def test_a_program_that_was_ended_is_started_again(bench: LinuxBench, host: ExporterHost) -> None:
    with managed(switch_of(bench, **through(host), community="reads"), bench) as switch:
        assert switch.state("p1").vlan == 1
        (first,) = (pid for pid, command in host.commands().items() if "agent_socket" in command)
        os.kill(first, signal.SIGKILL)
        assert Deadline(5).wait_until(lambda: first not in host.commands())
        assert Deadline(10).wait_until(lambda: reports_its_vlan(switch))
        assert first not in host.commands()


def reports_its_vlan(switch: ManagedSwitch) -> bool:
    """Return False after the error that the connection to the program has ended."""
    try:
        return switch.state("p1").vlan == 1
    except SshError:
        return False


def test_an_agent_that_is_silent_behind_the_proxy(bench: LinuxBench, host: ExporterHost) -> None:
    settings = {**through(host), "address": f"snmp://{AGENT}:9", "community": "reads"}
    with managed(switch_of(bench, **settings), bench) as switch, pytest.raises(SwitchError) as caught:
        switch.states(["p1"])
    assert caught.value.message == (
        f"switch sw does not answer SNMP version 2c at {AGENT}:9 through {host.address} within 1 s"
    )


def test_a_proxy_that_cannot_be_reached(bench: LinuxBench, host: ExporterHost) -> None:
    settings = {**through(host), "proxy": host.address.replace(":2222", ":9"), "community": "reads"}
    with (
        managed(switch_of(bench, **settings), bench) as switch,
        pytest.raises(SshError, match=r"no ssh connection to the proxy ssh://.* of switch sw: .*refused"),
    ):
        switch.states(["p1"])


def test_a_proxy_without_python(tmp_path: Path) -> None:
    with (
        linux_bench(tmp_path) as bench,
        agent(bench),
        exporter_host(bench, python=False) as host,
        managed(switch_of(bench, **through(host), community="reads"), bench) as switch,
        pytest.raises(SwitchError, match=r"the proxy ssh://.* of switch sw ended: .*python3: not found") as caught,
    ):
        switch.states(["p1"])
    assert caught.value.act.startswith("check that python3 is installed there")
