"""The three power protocols of the virtual lab, through labgrid's own drivers as its exporter announces them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
import yaml

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError
from pytest_pinet.virtual.spec import spec_of
from pytest_pinet.virtual.status import status
from pytest_pinet.virtual.udp_relay import poe_socket
from tests.support.gate_project import wait_until
from tests.support.small_virtual_lab import LAB_FILE, SNMP_LAB_FILE, Bench, bench_up
from tests.support.snmp_tools import ENVIRONMENT, POE, POE_STATUS, Snmp

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

OUTLETS = {"left": "rest", "right": "shelly_gen2", "both": "poe_mib"}
BOTH = 3  # the number of the port that supplies it


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_up(tmp_path_factory.mktemp("power"), SNMP_LAB_FILE) as found:
        yield found


@pytest.fixture(autouse=True)
def whole(bench: Bench) -> Iterator[None]:
    yield
    bench.restore()


def power(bench: Bench, node: str, action: str) -> str:
    """Run ``on``, ``off`` or ``get`` through labgrid's NetworkPowerDriver. Return its result."""
    resource = yaml.safe_load((bench.runtime.path / "exporter.yaml").read_text())[node]["NetworkPowerPort"]
    config = {"targets": {"main": {"resources": {"NetworkPowerPort": resource}, "drivers": {"NetworkPowerDriver": {}}}}}
    file = bench.runtime.path.parent / f"{node}-power.yaml"
    file.write_text(yaml.safe_dump(config))
    script = (
        "import sys; from labgrid import Environment; t = Environment(sys.argv[1]).get_target('main');"
        "d = t.get_driver('NetworkPowerDriver'); print(getattr(d, sys.argv[2])())"
    )
    argv = [sys.executable, "-c", script, str(file), action]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    finally:
        file.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def is_on(bench: Bench, node: str) -> bool:
    """Return whether the node is on, independent of its outlet's answer."""
    found = status(bench.lab.file)
    assert found is not None
    states = {n["name"]: n["power"] for n in found["nodes"]}
    return bool(states[node] == "on")


@pytest.mark.parametrize(("node", "model"), OUTLETS.items())
def test_labgrids_driver_switches_the_power_of_a_node(bench: Bench, node: str, model: str) -> None:
    pytest.importorskip("pysnmp.hlapi", reason="labgrid[snmp] is not installed")
    resource = yaml.safe_load((bench.runtime.path / "exporter.yaml").read_text())[node]["NetworkPowerPort"]
    assert resource["model"] == model
    assert (power(bench, node, "get"), is_on(bench, node)) == ("False", False)
    power(bench, node, "on")
    assert (power(bench, node, "get"), is_on(bench, node)) == ("True", True)
    wait_until(f"ssh of {node}", lambda: bench.answers(node))
    power(bench, node, "off")
    assert (power(bench, node, "get"), is_on(bench, node)) == ("False", False)
    assert not bench.answers(node)


def test_the_poe_setting_of_a_port_is_the_power_of_its_node(bench: Bench) -> None:
    agent = Snmp(bench.environment)
    assert (agent.get(POE, BOTH), agent.get(POE_STATUS, BOTH)) == ("2", "1")
    assert agent.set(POE, BOTH, "i", "1") == ""
    assert (agent.get(POE, BOTH), agent.get(POE_STATUS, BOTH), is_on(bench, "both")) == ("1", "3", True)
    assert agent.set(POE, BOTH, "i", "2") == ""
    assert (agent.get(POE, BOTH), agent.get(POE_STATUS, BOTH), is_on(bench, "both")) == ("2", "1", False)


def test_poe_of_a_port_without_a_node_delivers_no_power(bench: Bench) -> None:
    agent = Snmp(bench.environment)
    assert (agent.get(POE, 1), agent.get(POE_STATUS, 1)) == ("1", "2")
    assert agent.set(POE, 1, "i", "2") == ""
    assert (agent.get(POE, 1), agent.get(POE_STATUS, 1)) == ("2", "1")
    assert agent.set(POE, 1, "i", "1") == ""


def test_the_well_known_community_gives_access_only_to_poe(bench: Bench) -> None:
    address = bench.ports()["poe"]["sw-1"]
    assert address.startswith("127.")
    private = ("-v1", "-c", "private", "-Onq", "-t", "0.5", "-r", "0", address)
    for oid, answer in ((f"{POE}.{BOTH}", f".{POE}.{BOTH} 2"), ("1.3.6.1.2.1.1.5.0", "")):
        done = subprocess.run(
            ["snmpget", *private, oid], capture_output=True, text=True, timeout=10, check=False, env=ENVIRONMENT
        )
        assert done.stdout.strip() == answer


def test_a_node_with_poe_has_no_outlet_of_the_pdu(bench: Bench) -> None:
    with pytest.raises(OSError, match="HTTP Error 404"):
        bench.outlet("both")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"id": 1, "method": "Switch.Set", "params": {"id": 99, "on": true}}', 200),
        (b'{"id": 1, "method": "Sys.Reboot"}', 200),
        (b"[]", 400),
        (b"no json", 400),
    ],
)
def test_a_broken_request_switches_nothing(bench: Bench, body: bytes, code: int) -> None:
    request = Request(f"http://127.0.0.1:{bench.ports()['pdu']}/rpc", data=body, method="POST")
    if code == 400:
        with pytest.raises(OSError, match="HTTP Error 400"):
            urlopen(request, timeout=5)
    else:
        with urlopen(request, timeout=5) as answer:
            assert b'"error"' in answer.read()


def test_an_impossible_outlet_is_a_config_error(bench: Bench) -> None:
    file = bench.runtime.path / "other.yaml"
    file.write_text(LAB_FILE.replace("both:\n", "both:\n      outlet: poe_mib\n"))
    with pytest.raises(
        ConfigError, match=r"node both \(outlet poe_mib\) by SNMP on port sw-1/p3, .* has backend linux"
    ):
        spec_of(load(file))
    file.unlink()


def test_each_poe_switch_keeps_its_own_address() -> None:
    with poe_socket("here") as first:
        address = first.getsockname()
        with poe_socket("here") as second:
            assert second.getsockname()[0] != address[0]
            assert second.getsockname()[1] == address[1] == 161
    with poe_socket("here") as again:
        assert again.getsockname() == address
