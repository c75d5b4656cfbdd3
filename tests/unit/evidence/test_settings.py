"""The settings that driver and kernel chose for a device, from ethtool and /proc."""

from __future__ import annotations

from pytest_pinet.evidence.settings import parse_settings, read_settings
from tests.support.local_shell import LocalShell

PRINTED = """\
== -k
Features for eth0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
tcp-segmentation-offload: off [requested on]
== -c
Coalesce parameters for eth0:
Adaptive RX: off  TX: off
rx-usecs: 3
rx-frames: n/a
== -g
Ring parameters for eth0:
Pre-set maximums:
RX:\t\t4096
TX:\t\t4096
Current hardware settings:
RX:\t\t256
TX:\t\t512
== -a
Pause parameters for eth0:
Autonegotiate:\ton
RX:\t\toff
== -l
== sysctl
/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456
/proc/sys/net/ipv4/tcp_congestion_control:cubic
== qdisc
qdisc fq_codel 0: root refcnt 2 limit 10240p
"""


def test_what_holds_stands_by_its_name() -> None:
    found = parse_settings(PRINTED)
    assert found["tcp-segmentation-offload"] == "off"
    assert found["tx-checksum-ipv4"] == "off"
    assert (found["ring RX"], found["ring TX"]) == ("256", "512")
    assert found["coalescing rx-usecs"] == "3"
    assert found["pause RX"] == "off"
    assert found["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert found["qdisc"] == "fq_codel"
    assert not any(name.startswith("channels") for name in found)


def test_a_device_that_is_not_there_has_none_but_those_of_the_kernel() -> None:
    found = read_settings(LocalShell("here"), "nosuch0")
    assert "net.ipv4.tcp_rmem" in found
    assert all(name.startswith("net.") for name in found)
