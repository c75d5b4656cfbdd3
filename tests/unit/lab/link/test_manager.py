"""Which program configures a device, and what else uses it: from recorded output of the managers' own commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.lab.link.manager import Holding, Manager, Surroundings, holding_of, parse, reading

SSH_OVER_ETH0 = """\
server 192.168.1.7
address 1: lo    inet 127.0.0.1/8 scope host lo
address 2: eth0    inet 192.168.1.7/24 brd 192.168.1.255 scope global eth0
route 192.168.1.2 dev eth0 src 192.168.1.7 uid 0 \\    cache
device eth0
device eth1
"""
# ssh over a VLAN of a bridge over a bond of two NICs.
SSH_OVER_A_VLAN = """\
server 10.0.0.7
address 7: br0.40@br0    inet 10.0.0.7/24 brd 10.0.0.255 scope global br0.40
route 10.0.0.2 dev br0.40 src 10.0.0.7 uid 0 \\    cache
lower bond0 eth0
lower bond0 eth1
lower br0 bond0
lower br0.40 br0
device eth0
device eth1
device eth2
"""
RECORDED = Path(__file__).parents[3] / "data" / "managers"


def recorded(manager: str) -> dict[str, dict[str, Surroundings]]:
    """Return the surroundings of each moment of a recording: as found, a link is open, and so on."""
    _, *parts = (RECORDED / f"{manager}.txt").read_text().split("## ")
    return {part.partition("\n")[0]: parse(part.partition("\n")[2]) for part in parts}


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
    assert holding == Holding(
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


def carrying(text: str) -> list[str]:
    return [device for device, around in parse(text).items() if around.carries_ssh]


def test_the_device_with_the_address_carries_ssh() -> None:
    assert carrying(SSH_OVER_ETH0) == ["eth0"]


def test_all_devices_below_a_vlan_a_bridge_and_a_bond_carry_ssh() -> None:
    assert carrying(SSH_OVER_A_VLAN) == ["eth0", "eth1"]


def test_the_route_to_the_peer_counts_even_if_the_address_is_elsewhere() -> None:
    # The address of lo, reached by a route over eth1.
    text = SSH_OVER_ETH0.replace("2: eth0    inet 192.168.1.7", "1: lo    inet 192.168.1.7").replace(
        "dev eth0", "dev eth1"
    )
    assert carrying(text) == ["eth1"]


def test_without_ssh_nothing_carries_it() -> None:
    assert carrying("server \naddress 2: eth0    inet 192.168.1.7/24\ndevice eth0\n") == []


@pytest.mark.parametrize("manager", [Manager.NETWORK_MANAGER, Manager.NETWORKD])
@pytest.mark.parametrize(("ssh", "wireless"), [(True, False), (False, True)])
def test_a_device_with_ssh_or_wifi_is_never_taken(manager: Manager, ssh: bool, wireless: bool) -> None:
    holding = Holding(manager, "")
    assert Surroundings(False, False, holding).to_take is holding
    assert Surroundings(ssh, wireless, holding).to_take is None


@pytest.mark.parametrize("manager", [Manager.DHCPCD, Manager.IFUPDOWN, Manager.NETIFD])
def test_a_manager_that_leaves_other_addresses_alone_keeps_the_device(manager: Manager) -> None:
    assert Surroundings(False, False, Holding(manager, "up")).to_take is None


def test_networkmanager_gets_back_what_it_had() -> None:
    up = Holding(Manager.NETWORK_MANAGER, "100 (connected)", "0a1b", autoconnect=False)
    assert up.giving_back("eth0") == (
        "nmcli device set eth0 autoconnect no managed yes && "
        "{ nmcli -w 0 connection up uuid 0a1b ifname eth0 >/dev/null 2>&1; :; }"
    )
    idle = Holding(Manager.NETWORK_MANAGER, "30 (disconnected)")
    assert idle.giving_back("eth0") == "nmcli device set eth0 autoconnect yes managed yes"


def test_no_command_changes_a_profile() -> None:
    for manager in Manager:
        holding = Holding(manager, "100 (connected)", "0a1b")
        if holding.releases:
            commands = holding.taking("eth0") + holding.giving_back("eth0")
            assert "connection add" not in commands
            assert "connection modify" not in commands
            assert "/etc/" not in commands


def test_openwrt_s_netifd_is_named() -> None:
    # ubus of OpenWrt 23.05, shortened: from its documentation, not recorded.
    line = '{"external":false,"present":true,"type":"Network device","up":true,"carrier":true}'
    assert holding_of("eth0", {"ubus": [line]}) == Holding(Manager.NETIFD, "")


def test_the_commands_are_read_by_a_posix_shell_for_several_devices() -> None:
    text = reading(["eth0", "eth1"])
    assert "for device in eth0 eth1; do" in text
