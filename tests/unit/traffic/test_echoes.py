"""The lines of ping with their times: silences, pauses of the sender, and the first answer."""

from __future__ import annotations

import pytest

from pytest_pinet.traffic.echoes import Echo, first_answer_s, longest_silence, parse

# Printed by ping of iputils 20221126 while the far end was down for 0.5 s; most lines are left out.
PRINTED = """\
PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.
[1796000385.556288] 64 bytes from 192.0.2.2: icmp_seq=1170 ttl=64 time=0.005 ms
[1796000385.557289] 64 bytes from 192.0.2.2: icmp_seq=1171 ttl=64 time=0.005 ms
[1796000385.571114] no answer yet for icmp_seq=1173
[1796000385.581225] no answer yet for icmp_seq=1174
[1796000386.080959] no answer yet for icmp_seq=1222
[1796000386.081059] 64 bytes from 192.0.2.2: icmp_seq=1223 ttl=64 time=0.129 ms
[1796000386.082060] 64 bytes from 192.0.2.2: icmp_seq=1224 ttl=64 time=0.009 ms

--- 192.0.2.2 ping statistics ---
1224 packets transmitted, 1174 received, 4.08497% packet loss, time 1530ms
"""


def test_each_line_with_a_time_is_an_echo() -> None:
    found = parse(PRINTED.splitlines())
    assert len(found) == 7
    assert found[0] == Echo(1796000385.556288, 0.000005)
    assert found[2] == Echo(1796000385.571114, None)


def test_the_longest_silence_is_between_two_answers() -> None:
    found = longest_silence(parse(PRINTED.splitlines()))
    assert found is not None
    assert found.seconds == pytest.approx(0.52377, abs=1e-5)
    assert found.pause_s == pytest.approx(0.013825, abs=1e-5)


def test_a_pause_in_the_middle_of_a_silence_changes_nothing() -> None:
    echoes = [Echo(0.0, 0.0), Echo(0.01), Echo(0.9), Echo(0.91), Echo(0.92, 0.0)]
    found = longest_silence(echoes)
    assert found is not None
    assert (found.seconds, found.pause_s) == pytest.approx((0.92, 0.01))


def test_a_pause_before_the_first_answer_is_one_of_the_sender() -> None:
    found = longest_silence([Echo(0.0, 0.0), Echo(0.01), Echo(0.02), Echo(0.5, 0.0)])
    assert found is not None
    assert found.pause_s == pytest.approx(0.48)


def test_a_link_that_stays_silent_is_silent_until_the_end() -> None:
    found = longest_silence([Echo(0.0, 0.0), Echo(0.1, 0.0), Echo(0.2), Echo(45.0), Echo(45.01)])
    assert found is not None
    assert found.seconds == pytest.approx(44.91)


def test_without_an_answer_no_silence_is_known() -> None:
    assert longest_silence([Echo(0.0), Echo(0.01)]) is None
    assert first_answer_s([Echo(0.0), Echo(0.01)], 0.01) is None


def test_the_first_answer_counts_from_the_first_request() -> None:
    assert first_answer_s([Echo(5.0, 0.002), Echo(5.1, 0.001)], 0.01) == pytest.approx(0.002)
    assert first_answer_s([Echo(5.01), Echo(5.02), Echo(5.03, 0.001)], 0.01) == pytest.approx(0.03)
