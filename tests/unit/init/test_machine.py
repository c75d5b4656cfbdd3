"""What a look at a machine finds."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Completed, Process
from pytest_pinet.init.machine import Login, NicFacts, Route, parse, parse_route, read, this_machine
from tests.support.init_machines import machine


def test_a_pi_4_is_read() -> None:
    found = machine("pi4b")

    assert (found.host, found.user, found.cores, found.clock_mhz) == ("raspberrypi.lan", "pi", 4, 1800)
    assert (found.system, found.kernel) == ("Debian GNU/Linux 13 (trixie)", "6.12.47+rpt-rpi-v8")
    assert found.facts["eth0"] == NicFacts(1000, carrier=True, speeds_mbps=(10, 100, 1000), mtu_max=1500)
    assert found.facts["wlan0"] == NicFacts(wireless=True, mtu_max=2304)
    assert found.addresses["eth0"] == ("192.0.2.5/24", "fe80::dea6:32ff:fe01:203/64")
    assert found.installer == "DEBIAN_FRONTEND=noninteractive apt-get install -y iperf3"
    assert [nic.device for nic in found.linked()] == ["eth0"]


def test_an_adapter_has_its_numbers_and_all_its_speeds() -> None:
    facts = machine("pi5").facts["enx00e04c010203"]

    assert facts == NicFacts(
        1000,
        carrier=True,
        speeds_mbps=(10, 100, 1000, 2500),
        mtu_max=15346,
        chip_id="usb:0bda:8156",
        product="USB 10/100/1G/2.5G LAN",
    )
    assert machine("pc", None).facts["enp3s0"].chip_id == "pci:10ec:8168"


def test_devices_of_software_and_wifi_are_no_candidates() -> None:
    assert [nic.device for nic in machine("pc", None).linked()] == ["enp3s0", "enp4s0"]


def test_a_machine_that_reports_nothing_is_unknown_and_not_zero() -> None:
    found = parse("host x\nuser \nkernel 5\nmachine riscv64\ncores \nkhz \nmhz \nnic eth0\ncarrier \nspeed -1\n", None)

    assert (found.cores, found.clock_mhz, found.installer) == (None, None, None)
    assert found.facts["eth0"] == NicFacts()


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("192.0.2.5 dev enp3s0 src 192.0.2.1 uid 1000 \\    cache", Route("enp3s0", None)),
        ("198.51.100.5 via 192.0.2.254 dev wlp2s0 src 192.0.2.2 uid 1000 \\    cache", Route("wlp2s0", "192.0.2.254")),
        ("local 127.0.0.1 dev lo src 127.0.0.1", Route("lo", None)),
        ("", None),
    ],
)
def test_routes(text: str, route: Route | None) -> None:
    assert parse_route(text) == route


def test_this_machine_is_read_by_the_same_commands() -> None:
    found = this_machine()

    assert found.who == "this machine"
    assert found.kernel
    assert found.cores


class Restricted:
    """A login whose shell runs no commands."""

    name = "x"

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return Completed(1, "", "WARNING: Your password has expired.\nPassword change required but no TTY available.\n")

    def spawn(self, command: str) -> Process:
        raise AssertionError


def test_a_login_without_a_shell_is_named() -> None:
    with pytest.raises(SshError) as error:
        read(Restricted(), Login("pi", "192.0.2.5", 22, "192.0.2.5"))

    assert error.value.message == (
        "pi@192.0.2.5 does not run commands over ssh: Password change required but no TTY available."
    )
