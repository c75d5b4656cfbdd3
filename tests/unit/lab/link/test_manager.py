"""Which program configures a device, and what else uses it: from recorded output of the managers' own commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.lab.link import link as link_module
from pytest_pinet.lab.link.link_checks import check_negotiation
from pytest_pinet.lab.link.manager import ManagedDevice, Manager, Surroundings, holding_of, parse, reading, routed
from pytest_pinet.lab.link.rate_shaper import rate_for
from pytest_pinet.model import measurement
from pytest_pinet.model.quantities import Bitrate
from tests.support.link_stand_in import UP, link

RECORDED = Path(__file__).parents[3] / "data" / "managers"


def recorded(manager: str) -> dict[str, dict[str, Surroundings]]:
    """Return the surroundings of each moment of a recording: as found, a link is open, and so on."""
    _, *parts = (RECORDED / f"{manager}.txt").read_text().split("## ")
    return {part.partition("\n")[0]: parse(part.partition("\n")[2], {"mgmt0"}) for part in parts}


@pytest.mark.parametrize("manager", ["NetworkManager", "systemd-networkd", "dhcpcd", "ifupdown"])
def test_each_manager_is_recognised_by_what_its_commands_print(manager: str) -> None:
    found = recorded(manager)["as found"]
    assert {device: around.holding.manager for device, around in found.items() if around.holding} == {
        "mgmt0": manager,
        "eth0": manager,
    }
    assert {device for device, around in found.items() if around.carries_ssh} == {"mgmt0"}


@pytest.mark.parametrize(
    ("manager", "before"),
    [
        ("NetworkManager", "100 (connected)"),
        ("systemd-networkd", "routable configured"),
    ],
)
def test_a_released_device_has_no_manager_until_it_is_given_back(manager: str, before: str) -> None:
    moments = recorded(manager)
    for moment in ("a link is open", "after a lost carrier"):
        assert moments[moment]["eth0"].holding is None
        assert moments[moment]["mgmt0"].holding is not None
    for moment in ("as found", "given back"):
        holding = moments[moment]["eth0"].holding
        assert holding is not None
        assert holding.state == before
        assert holding.settled
        assert moments[moment]["eth0"].to_take is holding
    assert moments["given back"] == moments["as found"]


def test_the_profile_of_networkmanager_is_read() -> None:
    holding = recorded("NetworkManager")["as found"]["eth0"].holding
    assert holding == ManagedDevice(
        Manager.NETWORK_MANAGER, "100 (connected)", "11111111-2222-3333-4444-000000000002", autoconnect=True
    )


@pytest.mark.parametrize("manager", ["dhcpcd", "ifupdown", "NetworkManager", "systemd-networkd"])
def test_the_address_of_a_test_stays_after_a_lost_carrier(manager: str) -> None:
    text = (RECORDED / f"{manager}.txt").read_text()
    assert " 198.18.0.1/30 " in text.partition("## after a lost carrier")[2].partition("## ")[0]


@pytest.mark.parametrize("manager", ["dhcpcd", "ifupdown"])
def test_dhcpcd_and_ifupdown_keep_the_device(manager: str) -> None:
    for found in recorded(manager).values():
        assert found["eth0"].holding is not None
        assert found["eth0"].to_take is None


@pytest.mark.parametrize("manager", [Manager.NETWORK_MANAGER, Manager.NETWORKD])
@pytest.mark.parametrize(("ssh", "wireless"), [(True, False), (False, True)])
def test_a_device_with_ssh_or_wifi_is_never_taken(manager: Manager, ssh: bool, wireless: bool) -> None:
    holding = ManagedDevice(manager, "")
    assert Surroundings(False, False, holding).to_take is holding
    assert Surroundings(ssh, wireless, holding).to_take is None


@pytest.mark.parametrize("manager", [Manager.DHCPCD, Manager.IFUPDOWN, Manager.NETIFD])
def test_a_manager_that_leaves_other_addresses_alone_keeps_the_device(manager: Manager) -> None:
    assert Surroundings(False, False, ManagedDevice(manager, "up")).to_take is None


def test_networkmanager_gets_back_what_it_had() -> None:
    up = ManagedDevice(Manager.NETWORK_MANAGER, "100 (connected)", "0a1b", autoconnect=False)
    assert up.giving_back("eth0") == (
        "nmcli device set eth0 autoconnect no managed yes && "
        "{ nmcli -w 0 connection up uuid 0a1b ifname eth0 >/dev/null 2>&1; :; }"
    )
    idle = ManagedDevice(Manager.NETWORK_MANAGER, "30 (disconnected)")
    assert idle.giving_back("eth0") == "nmcli device set eth0 autoconnect yes managed yes"


def test_no_command_changes_a_profile() -> None:
    for manager in Manager:
        holding = ManagedDevice(manager, "100 (connected)", "0a1b")
        if holding.releases:
            commands = holding.taking("eth0") + holding.giving_back("eth0")
            assert "connection add" not in commands
            assert "connection modify" not in commands
            assert "/etc/" not in commands


def test_a_line_of_networkctl_without_all_columns_says_nothing() -> None:
    assert holding_of("eth0", {"networkctl": ["", "configured", "2 eth0 ether"]}) is None
    found = holding_of("eth0", {"networkctl": ["", "2 eth0 ether routable configured"]})
    assert found == ManagedDevice(Manager.NETWORKD, "routable configured")


def test_openwrt_s_netifd_is_named() -> None:
    # ubus of OpenWrt 23.05, shortened: from its documentation, not recorded.
    line = '{"external":false,"present":true,"type":"Network device","up":true,"carrier":true}'
    assert holding_of("eth0", {"ubus": [line]}) == ManagedDevice(Manager.NETIFD, "")


def test_the_commands_are_read_by_a_posix_shell_for_several_devices() -> None:
    text = reading(["eth0", "eth1"])
    assert "for device in eth0 eth1; do" in text


def test_devices_in_use_are_those_of_routes() -> None:
    text = (
        "default via 192.0.2.254 dev enp3s0 proto dhcp metric 100 \n192.0.2.0/24 dev enp3s0 scope link src 192.0.2.1 \n"
        "198.18.0.0/24 dev enp4s0 proto kernel scope link src 198.18.0.1 \n169.254.0.0/16 dev enp5s0 scope link \n"
        "10.8.0.0/24 via 10.8.0.1 dev tun0 \nunreachable 203.0.113.0/24 metric 1024 \n"
    )

    assert routed(text) == {"enp3s0", "tun0"}


REFUSED = r"^one eth0 \(port p1 of switch s\) negotiated half duplex: not measured\n  -> enable autonegotiation"


def test_a_link_that_opens_in_half_duplex_is_refused(tmp_path: Path) -> None:
    end = link(tmp_path).dut
    check_negotiation(end, UP)
    # A driver that does not report the duplex.
    check_negotiation(end, replace(UP, duplex=None))
    with pytest.raises(InvalidMeasurement, match=REFUSED):
        check_negotiation(end, replace(UP, duplex="half"))


def test_a_link_that_comes_back_in_half_duplex_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_switch: Any = None
    here = link(tmp_path)
    here = replace(here, switches={end.port.switch: no_switch for end in here.ends})
    monkeypatch.setattr(link_module, "read_interface", lambda *_: UP)
    link_module.await_links(here)
    monkeypatch.setattr(link_module, "read_interface", lambda *_: replace(UP, duplex="half"))
    with pytest.raises(InvalidMeasurement, match=REFUSED):
        link_module.await_links(here)


@pytest.mark.parametrize(
    ("mtu", "timestamps", "factor"),
    # The first two values are in catalogue/link_models.yaml; 9014 / 8948 is the one of jumbo frames.
    [(1500, True, 1.04558), (1500, False, 1.03699), (9000, True, 1.00738)],
)
def test_the_rate_includes_the_ethernet_header_only(mtu: int, timestamps: bool, factor: float) -> None:
    rate = rate_for(Bitrate(1e9), measurement.Path(1000, "full", mtu, timestamps))
    assert rate.bps == pytest.approx(factor * 1e9, rel=1e-5)
