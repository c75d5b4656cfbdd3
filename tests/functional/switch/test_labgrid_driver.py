"""Switch ports through labgrid: our driver on labgrid's own EthernetPort, and a stock client on the same place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labgrid import Environment
from labgrid.binding import StateError

from pytest_pinet.errors import CapabilityError, ConfigError
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.switch.labgrid_driver import SwitchPortDriver
from pytest_pinet.lab.switch.switchport import Capability, PortState
from tests.support.gate_project import BIN, LAB_FILE, GateLab

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]
PLACE = "pi3b-2"
TARGET = f"""\
  {PLACE}:
    resources:
      RemotePlace: {{name: {PLACE}}}
    drivers: *drivers
"""
# pi3b-2 has one port. For a place with several ports, `bindings:` selects one.
OURS = f"""\
  {PLACE}:
    resources:
      RemotePlace: {{name: {PLACE}}}
    drivers:
      - SwitchPortDriver: {{}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    """Yield a lab whose environment has our driver for one place."""
    text = LAB_FILE.read_text().replace("scale: auto", "scale: 1")
    assert text.count(TARGET) == 1
    file = tmp_path_factory.mktemp("driver-lab") / "virtual.yaml"
    file.write_text(text.replace(TARGET, OURS))
    found = GateLab(file)
    yield found
    found.down()


def client(lab: GateLab, *words: str) -> str:
    """Run labgrid's own client as a user without pytest-pinet."""
    environment = {**os.environ, **lab.environment, "LG_HOSTNAME": "desk", "LG_USERNAME": "alice"}
    argv = [str(BIN / "labgrid-client"), "-x", lab.environment["LG_COORDINATOR"], *words]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def target(lab: GateLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    coordinator = Coordinator(lab.environment["LG_COORDINATOR"], Identity.of_this_process("driver"))
    coordinator.expand_places()
    coordinator.acquire(PLACE)
    environment = Environment(str(lab.file))
    try:
        yield environment.get_target(PLACE)
    finally:
        environment.cleanup()
        coordinator.release(PLACE, coordinator.identity)
        coordinator.close()


def test_a_port_is_managed_through_its_place_and_restored(target: Any, tmp_path: Path) -> None:
    driver = target.get_driver(SwitchPortDriver)
    assert isinstance(driver, SwitchPortDriver)
    assert {Capability.ADMIN, Capability.VLAN, Capability.COUNTERS} <= driver.capabilities
    assert (driver.get_vlan(), driver.get_state().admin_up) == (1, True)
    driver.set_vlan(20)
    driver.set_admin(False)
    assert (driver.get_vlan(), driver.get_state().admin_up) == (20, False)
    assert driver.get_counters().rx_octets >= 0
    assert driver.get_neighbours() == frozenset()
    assert [*tmp_path.glob("pinet/journal/*.json")]
    target.deactivate(driver)
    with pytest.raises(StateError, match="has not been activated"):
        driver.get_vlan()
    target.activate(driver)
    assert (driver.get_vlan(), driver.get_state().admin_up) == (1, True)
    assert not [*tmp_path.glob("pinet/journal/*.json")]


PLAIN = """\
imports: [pytest_pinet.lab.switch.labgrid_driver]
targets:
  main:
    resources:
      EthernetPort: {switch: SWITCH, interface: PORT}
    drivers:
      SwitchPortDriver: {}
pinet:
  switches:
    desk: {backend: fixed, ports: p1-p2}
  nodes:
    a: {board: pi4b, target: main, interfaces: {onboard: {port: desk/p1}}}
"""


def plain(tmp_path: Path, switch: str, port: str) -> Any:
    """Return a target whose port is defined in the file, without a place or coordinator."""
    file = tmp_path / "plain.yaml"
    file.write_text(PLAIN.replace("SWITCH", switch).replace("PORT", port))
    return Environment(str(file)).get_target("main")


def test_a_port_without_a_place(tmp_path: Path) -> None:
    driver = plain(tmp_path, "desk", "p1").get_driver(SwitchPortDriver)
    assert driver.capabilities == frozenset()
    assert driver.get_state() == PortState()
    with pytest.raises(CapabilityError, match=r"switch desk \(backend fixed\) cannot move a port to another VLAN"):
        driver.get_vlan()


@pytest.mark.parametrize(
    ("switch", "port", "says"),
    [
        ("sw9", "p1", r"of target main is on switch 'sw9', which is not in .*plain.yaml \(it has: desk\)"),
        ("desk", "p9", r"plain.yaml:10: resource .* of target main is port 'p9', which switch 'desk' does not have"),
    ],
)
def test_a_port_that_is_not_in_the_lab_file_is_an_error(tmp_path: Path, switch: str, port: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        plain(tmp_path, switch, port).get_driver(SwitchPortDriver)


def test_a_stock_client_still_works_with_the_place(lab: GateLab) -> None:
    config = ("-c", str(lab.file))
    assert PLACE in client(lab, "places").split()
    assert f"pinet/{PLACE}/EthernetPort" in client(lab, "resources").split()
    client(lab, *config, "-p", PLACE, "acquire")
    try:
        shown = client(lab, *config, "-p", PLACE, "show")
        assert "EthernetPort" in shown
        assert "desk/alice" in shown
        assert "'switch': 'sw1'" in shown
    finally:
        client(lab, *config, "-p", PLACE, "release")
    assert "acquired: None" in client(lab, "-p", PLACE, "show")


def test_the_client_drives_power_beside_our_driver(lab: GateLab, tmp_path: Path) -> None:
    """A remote target makes the client create every resource of the place, also ours."""
    client(lab, "-p", PLACE, "acquire")
    try:
        assert "off" in client(lab, "-p", PLACE, "power", "get")
    finally:
        client(lab, "-p", PLACE, "release")
