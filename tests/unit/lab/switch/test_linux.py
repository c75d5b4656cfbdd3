"""Recorded output of a Linux switch: VLANs, learned addresses and neighbours."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import SwitchError, Where
from pytest_pinet.lab.switch.linux import (
    Bridges,
    LinuxSwitch,
    access_vlan,
    neighbours_by_fdb,
    neighbours_by_lldp,
    untagged_vlans,
)
from pytest_pinet.lab.switch.switchport import Capability, Neighbour
from pytest_pinet.model.lab import Switch
from tests.support.board_answers import Answering

# bridge -j vlan show, iproute2 6.1 on a DSA switch.
VLANS = """\
[{"ifname":"lan1","vlans":[{"vlan":1,"flags":["PVID","Egress Untagged"]}]},
 {"ifname":"lan2","vlans":[{"vlan":1,"flags":["Egress Untagged"]},{"vlan":20,"flags":["PVID","Egress Untagged"]}]},
 {"ifname":"lan3","vlans":[{"vlan":5,"vlanEnd":8},{"vlan":20,"flags":["PVID","Egress Untagged"]}]},
 {"ifname":"lan4","vlans":[{"vlan":5,"vlanEnd":8}]},
 {"ifname":"br-lan","vlans":[{"vlan":1,"flags":["PVID","Egress Untagged"]}]}]
"""
# bridge -j fdb show, iproute2 6.1.
FDB = """\
[{"mac":"DC:A6:32:01:02:03","ifname":"lan1","flags":[],"master":"br-lan","state":""},
 {"mac":"02:11:22:33:44:55","ifname":"lan1","flags":[],"master":"br-lan","state":"permanent"},
 {"mac":"33:33:00:00:00:01","ifname":"lan2","flags":["self"],"state":"permanent"}]
"""
# lldpcli -f json0 show neighbors, lldpd 1.0.16.
LLDP = """\
{"lldp": [{"interface": [
 {"name": "lan1", "via": "LLDP", "rid": "1", "age": "0 day, 00:00:08",
  "chassis": [{"id": [{"type": "mac", "value": "dc:a6:32:01:02:02"}], "name": [{"value": "pi4b-1"}]}],
  "port": [{"id": [{"type": "mac", "value": "DC:A6:32:01:02:03"}], "descr": [{"value": "eth0"}]}]},
 {"name": "lan2", "via": "LLDP",
  "chassis": [{"id": [{"type": "local", "value": "sw2"}], "name": [{"value": "sw2"}]}],
  "port": [{"id": [{"type": "ifname", "value": "gi24"}], "descr": [{"value": "uplink"}]}]},
 {"name": "lan3", "via": "LLDP", "chassis": [{}], "port": [{}]}
]}]}
"""


def test_the_access_vlan_of_a_filtering_bridge() -> None:
    untagged = untagged_vlans(VLANS)
    assert {port: access_vlan(untagged[port]) for port in ("lan1", "lan2", "lan3", "lan4")} == {
        "lan1": 1,
        "lan2": None,
        "lan3": 20,
        "lan4": 0,
    }
    assert untagged_vlans("") == {}


@pytest.mark.parametrize(
    ("bridge", "vlan"),
    [
        ("lan", 7),
        ("br20", 20),
        ("br3900", 3900),
        ("", 0),
        ("br0", None),
        ("br7", None),
        ("br-x", None),
        ("docker0", None),
    ],
)
def test_a_bridge_without_filtering_is_one_vlan(bridge: str, vlan: int | None) -> None:
    bridges = Bridges(7, "lan")
    assert bridges.vlan(bridge) == vlan
    if vlan:
        assert bridges.name(vlan) == bridge


def test_only_learned_addresses_are_neighbours() -> None:
    assert neighbours_by_fdb(FDB) == [("lan1", Neighbour(Capability.FDB, mac="dc:a6:32:01:02:03"))]
    assert neighbours_by_fdb("") == []


def test_neighbours_from_lldp() -> None:
    assert neighbours_by_lldp(LLDP) == [
        ("lan1", Neighbour(Capability.LLDP, mac="dc:a6:32:01:02:03", system="pi4b-1", port="eth0")),
        ("lan2", Neighbour(Capability.LLDP, system="sw2", port="gi24")),
        ("lan3", Neighbour(Capability.LLDP)),
    ]
    assert neighbours_by_lldp("") == []


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        ("states", "x"),
        ("states", "0x1003|1|1000|full|lan|1|"),
        ("states", "zz|1|1000|full|lan|1"),
        ("states", "0x1003|1|1000|full|lan|1\n{"),
        ("states", '0x1003|1|1000|full|lan|1\n[{"vlans": 1}]'),
        ("counters", "boot 1 2"),
        ("counters", "boot 1 2 3 4 5 6\nboot 1 2 3 4 5 6"),
        ("neighbours", "{"),
        ("neighbours", "[" * 5000),
        ("neighbours", '[{"master": "lan"}]'),
        ("neighbours", '\n---\n{"lldp": [{"interface": [1]}]}'),
        ("neighbours", "\n---\n[]"),
    ],
)
def test_an_answer_of_another_form_is_an_error_of_the_switch(act: str, answer: str) -> None:
    switch = Switch("sw1", "linux", ("lan1",), {}, Where("lab.yaml", 3))
    linux = LinuxSwitch(switch, Answering(answer), Bridges(1, "lan"))  # type: ignore[arg-type]
    with pytest.raises(SwitchError, match=r"switch sw1 gives no readable .*; its answer begins with '") as caught:
        getattr(linux, act)(["lan1"])
    assert len(str(caught.value)) < 300
