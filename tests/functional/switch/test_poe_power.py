"""Boards powered by a PoE port of a managed switch: our labgrid power driver over SNMP and over command lines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from labgrid import Environment
from labgrid.protocol import PowerProtocol

from pytest_pinet.errors import ConfigError, PowerError
from pytest_pinet.lab.labgrid.power import Power
from pytest_pinet.lab.switch.labgrid_driver import PoePowerDriver
from tests.support.cli_switch_server import PASSWORD, SwitchBench
from tests.support.exporter_host import AGENT, exporter_host
from tests.support.linux_switch import IP, LinuxBench, linux_bench
from tests.support.snmpd_agent import PORT, SNMPD, V3, agent, managed, received_sets, switch_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and accounts for one sshd need root")
needs_snmpd = pytest.mark.skipif(not SNMPD or not shutil.which("snmpget"), reason="needs snmpd and snmp")
needs_sshd = pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="no sshd is installed")
POE_OF_P1 = "1.3.6.1.2.1.105.1.1.1.3.1.11"


@contextmanager
def board(folder: Path, switch: Mapping[str, object], port: str, **arguments: float) -> Iterator[Any]:
    """Yield the labgrid target of a board that a port powers, from a lab file."""
    file = folder / "poe.yaml"
    interface = {"port": f"sw/{port}"}
    content = {
        "imports": ["pytest_pinet.lab.drivers"],
        "targets": {
            "board": {
                "resources": {"EthernetPort": {"switch": "sw", "interface": port}},
                "drivers": {"PoePowerDriver": arguments},
            }
        },
        "pinet": {
            "switches": {"sw": dict(switch)},
            "nodes": {"board": {"board": "pi4b", "interfaces": {"onboard": interface}}},
        },
    }
    file.write_text(yaml.safe_dump(content))
    environment = Environment(str(file))
    try:
        yield environment.get_target("board")
    finally:
        environment.cleanup()


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the journal, which a power switch never uses."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "pinet" / "journal"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LinuxBench]:
    with linux_bench(tmp_path) as found, agent(found, "honest"):
        yield found


def snmp(**settings: object) -> dict[str, object]:
    address = f"snmp://127.0.0.1:{PORT}"
    return {"backend": "snmp", "address": address, "timeout": "1 s", "ports": "p1-p4", **settings}


def changes(bench: LinuxBench) -> list[tuple[float, str]]:
    """Return when the agent switched the power of p1, and to which value.

    A request that was sent again, because its answer came late, changes nothing.
    """
    sets = [(when, value) for when, oid, value in received_sets(bench) if oid == POE_OF_P1 and value in ("1", "2")]
    return [one for last, one in zip([(0.0, ""), *sets], sets, strict=False) if one[1] != last[1]]


@needs_snmpd
@pytest.mark.parametrize("access", [{"community": "writes"}, V3], ids=["v2c", "v3"])
def test_a_board_is_power_cycled_by_snmp(bench: LinuxBench, tmp_path: Path, access: dict[str, str]) -> None:
    with board(tmp_path, snmp(**access), "p1") as target:
        driver = target.get_driver(PowerProtocol)
        assert isinstance(driver, PoePowerDriver)
        assert driver.get() is True
        driver.cycle()
        assert driver.get() is True
        (off_at, off), (on_at, on) = changes(bench)
    assert (off, on) == ("2", "1")
    assert on_at - off_at >= 2.0


@needs_snmpd
def test_the_gate_switches_the_power_and_waits_for_the_capacitors(
    bench: LinuxBench, tmp_path: Path, journal: Path
) -> None:
    with board(tmp_path, snmp(**V3), "p1", delay=2.5) as target:
        power = Power("board", target.get_driver(PowerProtocol))
        assert power.is_on() is True
        power.switch(on=False)
        assert power.is_on() is False
        power.rest()
        power.switch(on=True)
        (off_at, _), (on_at, _) = changes(bench)
        assert on_at - off_at >= 2.5
        power.switch(on=False)
    # The board stays off when the run ends, as with every power switch, and there is nothing to restore.
    with managed(switch_of(bench, community="reads"), bench) as switch:
        assert switch.state("p1").poe is False
        assert switch.state("p2").poe is True
    assert not journal.exists()


@pytest.mark.smoke
@needs_snmpd
@needs_sshd
def test_a_board_is_power_cycled_through_the_exporters_host(bench: LinuxBench, tmp_path: Path) -> None:
    with exporter_host(bench) as host:
        switch = snmp(**V3, proxy=host.address, keyfile=host.keyfile) | {"address": f"snmp://{AGENT}:{PORT}"}
        with board(tmp_path, switch, "p1") as target:
            power = Power("board", target.get_driver(PowerProtocol))
            power.switch(on=False)
            power.rest()
            power.switch(on=True)
    (off_at, off), (on_at, on) = changes(bench)
    assert (off, on) == ("2", "1")
    assert on_at - off_at >= 2.0


# labgrid's own backend uses port 161 and the community "private". In a separate process, which is in the namespace of
# the agent, and because labgrid leaves its SNMP sockets to the garbage collector, which warns of each.
POE_MIB = """
from labgrid import Target
from labgrid.driver import NetworkPowerDriver
from labgrid.resource import NetworkPowerPort
from pytest_pinet.lab.labgrid.power import Power

target = Target("board")
NetworkPowerPort(target, None, model="poe_mib", host="127.0.0.1", index=11)
driver = NetworkPowerDriver(target, None)
target.activate(driver)
power = Power("board", driver)
print(power.is_on())
power.switch(on=False)
print(power.is_on())
power.switch(on=True)
print(power.is_on())
"""


@needs_snmpd
def test_labgrids_own_poe_backend_switches_a_port_of_the_agent(bench: LinuxBench) -> None:
    pytest.importorskip("pysnmp.hlapi", reason="labgrid[snmp] is not installed")
    argv = [IP, "netns", "exec", bench.shell.namespace, sys.executable, "-W", "ignore", "-c", POE_MIB]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["True", "False", "True"], done.stderr
    assert [value for _, value in changes(bench)] == ["2", "1"]


@needs_snmpd
def test_a_switch_that_may_only_be_read_is_no_power_switch(bench: LinuxBench, tmp_path: Path) -> None:
    with board(tmp_path, snmp(community="reads"), "p1") as target:
        power = Power("board", target.get_driver(PowerProtocol))
        with pytest.raises(PowerError) as caught:
            power.switch(on=False)
    assert caught.value.message.startswith(
        "the power switch of board (port p1 of switch sw) failed to switch off: switch sw (backend snmp) cannot switch "
        "the power of a port, because this community may only read it; its capabilities: "
    )
    assert changes(bench) == []


@needs_snmpd
def test_a_silent_switch_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with board(tmp_path, snmp(address="snmp://127.0.0.1:9"), "p1") as target:
        power = Power("board", target.get_driver(PowerProtocol))
        with pytest.raises(PowerError) as caught:
            power.is_on()
    assert caught.value.message.startswith(
        "the power switch of board (port p1 of switch sw) failed to report its state: switch sw "
    )
    assert f"{tmp_path}/poe.yaml:" in caught.value.act


@pytest.mark.parametrize("delay", [1.9, float("nan")])
def test_less_than_two_seconds_without_power_are_refused(tmp_path: Path, delay: float) -> None:
    with (
        pytest.raises(
            ConfigError, match=rf"PoePowerDriver of target board: delay is {delay:g} s; expected at least 2 s"
        ),
        board(tmp_path, snmp(), "p1", delay=delay) as target,
    ):
        target.get_driver(PowerProtocol)


@pytest.mark.slow
@needs_sshd
@pytest.mark.parametrize("dialect", ["ios", "routeros"])
def test_a_board_is_power_cycled_by_a_command_line(tmp_path: Path, dialect: str) -> None:
    pytest.importorskip("netmiko")
    with ExitStack() as stack:
        bench = SwitchBench(dialect, tmp_path)
        stack.callback(bench.stop)
        port = bench.ports[0]
        switch = {"backend": "cli", **bench.switch().settings, "password": PASSWORD, "ports": bench.ports}
        power = Power("board", stack.enter_context(board(tmp_path, switch, port)).get_driver(PowerProtocol))
        assert power.is_on() is True
        power.switch(on=False)
        assert bench.state["ports"][port]["poe"] is False
        assert bench.state["ports"][bench.ports[1]]["poe"] is True
        power.rest()
        power.switch(on=True)
        assert bench.state["ports"][port]["poe"] is True
