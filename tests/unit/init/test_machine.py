"""Logins, why ssh cannot use them, and what a machine says of itself."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Completed, Process
from pytest_pinet.init.machine import (
    Login,
    NicFacts,
    Route,
    explain,
    parse,
    parse_login,
    parse_route,
    read,
    this_machine,
)
from tests.support.init_machines import machine

PI = Login("pi", "192.0.2.5", 22, "192.0.2.5")


@pytest.mark.parametrize(
    ("text", "user", "host", "port", "shown"),
    [
        ("pi@192.0.2.5", "pi", "192.0.2.5", 22, "pi@192.0.2.5"),
        ("pi@192.0.2.5:2222", "pi", "192.0.2.5", 2222, "pi@192.0.2.5:2222"),
        ("ssh://pi@raspberrypi.local:2222/", "pi", "raspberrypi.local", 2222, "pi@raspberrypi.local:2222"),
        ("pi@[2001:db8::5]:2222", "pi", "2001:db8::5", 2222, "pi@[2001:db8::5]:2222"),
        ("pi@2001:db8::5", "pi", "2001:db8::5", 22, "pi@2001:db8::5"),
        ("first.last@fe80::1%eth0", "first.last", "fe80::1%eth0", 22, "first.last@fe80::1%eth0"),
    ],
)
def test_forms(text: str, user: str, host: str, port: int, shown: str) -> None:
    found = parse_login(text)

    assert (found.user, found.host, found.port, str(found)) == (user, host, port, shown)


@pytest.mark.parametrize(
    "text",
    ["", "pi@", "pi@192.0.2.5:0", "pi@192.0.2.5:70000", "-oProxyCommand=x", "pi@-x", "a b", "pi@h;reboot", "p i@h"],
)
def test_no_logins(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a login such as pi@192\.0\.2\.5"):
        parse_login(text)


@pytest.mark.parametrize(
    ("why", "message", "act"),
    [
        (
            "ssh: connect to host 192.0.2.5 port 22: No route to host",
            "no answer from 192.0.2.5",
            "check that the board has power",
        ),
        ("ssh: connect to host 192.0.2.5 port 22: Connection timed out", "no answer", "power and a cable"),
        ("no answer within 40 s", "no answer", "power"),
        ("ssh: connect to host 192.0.2.5 port 22: Connection refused", "no ssh server listens", "do_ssh 0"),
        (
            "ssh: Could not resolve hostname pi4: Name or service not known",
            "192.0.2.5 is no host that this machine knows",
            "hostname -I",
        ),
        (
            "No ED25519 host key is known for 192.0.2.5 and you have requested strict checking.\n"
            "Host key verification failed.",
            "this machine does not know the host key of 192.0.2.5",
            "log in once and accept the key: ssh pi@192.0.2.5",
        ),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
            "another board or another card answers",
            "ssh-keygen -R 192.0.2.5; then: ssh pi@192.0.2.5",
        ),
        (
            "pi@192.0.2.5: Permission denied (publickey,password).",
            "192.0.2.5 refused pi@192.0.2.5: wrong user",
            "ssh-copy-id pi@192.0.2.5",
        ),
        (
            "[...] until a valid user has been set up.\n\nSee http://rptl.io/newuser\n"
            "pi@192.0.2.5: Permission denied (publickey,password).",
            "a new Raspberry Pi OS without a user",
            "Raspberry Pi Imager",
        ),
        (
            "kex_exchange_identification: read: Connection reset by peer",
            "no ssh connection to pi@192.0.2.5: kex_exchange",
            "make this command work: ssh pi@192.0.2.5",
        ),
    ],
)
def test_each_cause_has_a_sentence_and_an_act(why: str, message: str, act: str) -> None:
    error = explain(PI, None, why)

    assert message in error.message
    assert act in error.act


def test_acts_are_commands_to_paste() -> None:
    login = Login("pi", "192.0.2.5", 2222, "192.0.2.5")

    assert "ssh-keygen -R '[192.0.2.5]:2222'" in explain(login, None, "Host key for x has changed").act
    assert "ssh-copy-id -i k -p 2222 pi@192.0.2.5" in explain(login, "k", "Permission denied").act


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
