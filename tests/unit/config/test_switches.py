"""Valid settings of a switch, and the messages on mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.config.switches import seconds
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.forms import Address, snmp_address
from pytest_pinet.model.lab import Switch

LAB = """\
pinet:
  switches:
    sw:
      backend: {backend}
      ports: {ports}
{settings}
  nodes:
    a:
      board: pi4b
      interfaces: {{onboard: {{port: sw/p1}}}}
"""


def switch(tmp_path: Path, settings: str, backend: str = "snmp", ports: str = "p1-p8") -> Switch:
    lines = "\n".join(f"      {line.strip()}" for line in settings.split(";"))
    (tmp_path / "lab.yaml").write_text(LAB.format(backend=backend, ports=ports, settings=lines))
    return load(str(tmp_path / "lab.yaml")).switches["sw"]


def test_defaults_of_switch_settings(tmp_path: Path) -> None:
    found = switch(tmp_path, "address: snmp://10.0.0.2")
    assert (found.default_vlan, found.group_vlans, found.counter_latency_s) == (1, range(3900, 4000), None)
    many = switch(tmp_path, "address: snmp://10.0.0.2", ports="p1-p200")
    assert many.group_vlans == range(3800, 4000)


@pytest.mark.parametrize("port", ["ge-0-1", "1-1", "lan-1-2", "p1-2", "ge-1-ge-2"])
def test_a_switch_may_have_one_port_with_a_name_like_a_range(tmp_path: Path, port: str) -> None:
    text = LAB.format(backend="fixed", ports=f"[{port}]", settings="").replace("sw/p1", f"sw/{port}")
    (tmp_path / "lab.yaml").write_text(text)
    assert load(str(tmp_path / "lab.yaml")).switches["sw"].ports == (port,)


def test_a_switch_that_can_only_be_read(tmp_path: Path) -> None:
    assert switch(tmp_path, "address: x; read_only: true").is_wired_by_hand
    assert not switch(tmp_path, "address: x; read_only: false").is_wired_by_hand
    assert switch(tmp_path, "", backend="fixed").is_wired_by_hand


def test_configured_switch_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LG_SWITCH_SW", "LG_COMMUNITY"):
        monkeypatch.setenv(name, "x")
    found = switch(tmp_path, "address: 10.0.0.2; default_vlan: 7; group_vlans: 100-120; counter_latency: 500 ms")
    assert (found.default_vlan, found.group_vlans, found.counter_latency_s) == (7, range(100, 121), 0.5)
    assert snmp_address("snmp://10.0.0.2:1161") == Address("10.0.0.2", 1161)
    assert snmp_address("switch.lab") == Address("switch.lab")
    assert (seconds("2"), seconds("2 s"), seconds("0.5")) == (2.0, 2.0, 0.5)
    switch(tmp_path, 'address: !template "$LG_SWITCH_SW"; community: !template "$LG_COMMUNITY"')


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("community: public", "3: pinet.switches.sw lacks the key 'address', which backend 'snmp' needs"),
        (
            "address: http://x",
            "6: pinet.switches.sw.address: expected an address such as 'snmp://10.0.0.2:161', got 'http",
        ),
        ("address: 10.0.0.2:99999", "6: pinet.switches.sw.address: expected an address such as"),
        ("address: x; version: 2", "7: pinet.switches.sw.version: expected one of 1, 2c, 3, got '2'"),
        ("address: x; timeout: soon", "7: pinet.switches.sw.timeout: 'soon' is not a duration such as"),
        (
            "address: x; proxy: http://bench",
            "7: pinet.switches.sw.proxy: expected an address such as 'ssh://pi@bench-host:22', got 'http://bench'",
        ),
        ("address: x; read_only: maybe", "7: pinet.switches.sw.read_only: expected one of true, false, got 'maybe'"),
        (
            "address: x; keyfile: k",
            "7: pinet.switches.sw: the key 'keyfile' is for the login at the proxy; add `proxy: ssh://user@host`",
        ),
        (
            "address: x; default_vlan: 5000",
            "7: pinet.switches.sw.default_vlan: expected a number from 1 to 4094, got '5000'",
        ),
        (
            "address: x; group_vlans: 9-1",
            "7: pinet.switches.sw.group_vlans: expected an ascending range of VLANs such as",
        ),
        (
            "address: x; group_vlans: 10-16",
            "7: pinet.switches.sw has 8 ports, but only 7 VLANs in group_vlans; expected",
        ),
        (
            "address: x; default_vlan: 3950",
            "7: pinet.switches.sw: default_vlan 3950 is one of the group_vlans, which are",
        ),
        (
            'address: x; default_vlan: !template "$LG_V"',
            "7: pinet.switches.sw.default_vlan: expected a number from 1 to",
        ),
        ("address: x; version: 3", "3: pinet.switches.sw lacks the key 'user', which SNMP version 3 needs"),
        ("address: x; user: me", "7: pinet.switches.sw: SNMP version 2c does not use the key 'user'"),
        (
            "address: x; version: 3; community: me",
            "8: pinet.switches.sw: SNMP version 3 does not use the key 'community'",
        ),
        ("address: x; auth_protocol: sha1", "7: pinet.switches.sw.auth_protocol: expected one of md5, sha, sha224"),
        ("address: x; timeout: 0", "7: pinet.switches.sw.timeout: expected a time from 100 ms to 5 min, got '0'"),
        ("address: x; timeout: 1e300 s", "7: pinet.switches.sw.timeout: '1e300' is more than a year; expected"),
        ("address: x; timeout: 2 h", "7: pinet.switches.sw.timeout: expected a time from 100 ms to 5 min, got '2 h'"),
        (
            "address: x; counter_latency: 2 h",
            "7: pinet.switches.sw.counter_latency: expected a time of at most 1 h, got '2 h'",
        ),
        (
            "address: snmp://me@10.0.0.2",
            "6: pinet.switches.sw.address: expected an address such as 'snmp://10.0.0.2:161', without a user, got "
            "'snmp://me@10.0.0.2'",
        ),
        (
            "address: x; proxy: ssh://pi@pi@bench",
            "7: pinet.switches.sw.proxy: expected an address such as 'ssh://pi@bench-host:22', got 'ssh://pi@pi@bench'",
        ),
        ("address: x; community: ' '", "7: pinet.switches.sw.community: expected a text, got ' '"),
        (
            "address: x; version: 3; user: -x; auth_key: k; priv_key: k",
            "8: pinet.switches.sw.user: expected the name of a user such as 'pi', got '-x'",
        ),
        ("address: x; comunity: me", "7: unknown key 'comunity' in pinet.switches.sw, did you mean 'community'?"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, settings: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        switch(tmp_path, settings)
    assert str(caught.value).startswith(f"{tmp_path / 'lab.yaml'}:{says}")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            "address: ssh://a@b@sw; family: cisco_ios",
            "6: pinet.switches.sw.address: expected an address such as 'ssh://pi@bench-host:22', got 'ssh://a@b@sw'",
        ),
        (
            "address: ssh://a:secret@sw; family: cisco_ios",
            "6: pinet.switches.sw.address: expected an address such as 'ssh://pi@bench-host:22', got",
        ),
        (
            "address: ssh://a@sw; family: cisco_ios; username: b",
            "8: pinet.switches.sw has two users, 'a' in the address and 'b' in the key 'username'; remove one",
        ),
        (
            "address: sw; family: cisco_ios; username: -oProxyCommand=x",
            "8: pinet.switches.sw.username: expected the name of a user such as 'pi', got '-oProxyCommand=x'",
        ),
    ],
)
def test_a_switch_with_a_command_line_has_one_user(tmp_path: Path, settings: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        switch(tmp_path, settings, backend="cli")
    assert str(caught.value).startswith(f"{tmp_path / 'lab.yaml'}:{says}")
    switch(tmp_path, "address: ssh://a@sw; family: cisco_ios; username: a", backend="cli")
