"""Logins as users write them, and what OpenSSH prints if they do not work."""

from __future__ import annotations

import pytest

from pytest_pinet.init.machine import Login, explain, parse_login

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
