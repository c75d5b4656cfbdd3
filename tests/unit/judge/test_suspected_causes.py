"""Settings and costs that may explain a difference between two builds."""

from __future__ import annotations

from pytest_pinet.judge.difference import of_costs, of_settings


def test_settings_that_differ_between_all_boots_of_both_builds_are_suspects() -> None:
    a = [{"tso": "on", "ring RX": "256", "moving": "1"}, {"tso": "on", "ring RX": "256", "moving": "2"}]
    b = [{"tso": "off", "ring RX": "256", "moving": "3", "new": "x"}] * 2
    assert [one.text for one in of_settings(a, b)] == ["tso: on -> off", "new: absent -> x"]


def test_settings_off_in_both_builds_are_not_suspects() -> None:
    a = [{"fcoe-mtu": "off", "coalescing Adaptive RX": "n/a  TX: n/a", "net.ipv4.tcp_wmem": "4096 16384 3775712"}]
    b = [{"coalescing Adaptive RX": "off  TX: n/a", "net.ipv4.tcp_wmem": "4096 16384 3680800"}]
    assert of_settings(a, b) == []
    assert [one.text for one in of_settings([{"ring RX": "256"}], [{"ring RX": "80"}])] == ["ring RX: 256 -> 80"]
    assert [one.text for one in of_settings([{"gro": "on"}], [{}])] == ["gro: on -> absent"]


def test_costs_that_differ_far_more_between_builds_than_within_are_suspects_the_largest_first() -> None:
    one = {"interrupts per Gbit": 100.0, "CPU ms per Gbit": 50.0, "retransmits per Gbit": 0.0, "rough": 1.0}
    a = [one, {"interrupts per Gbit": 102.0, "CPU ms per Gbit": 51.0, "retransmits per Gbit": 0.0, "rough": 9.0}]
    b = [{"interrupts per Gbit": 900.0, "CPU ms per Gbit": 55.0, "retransmits per Gbit": 2.0, "rough": 20.0}] * 2
    assert [one.text for one in of_costs(a, b)] == [
        "retransmits per Gbit: none -> 2",
        "interrupts per Gbit: 101 -> 900 (+791 %)",
    ]
