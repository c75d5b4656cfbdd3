from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3_values import validate

TCP = Traffic(Direction.TX)
UDP = Traffic(Direction.TX, udp=True, bitrate=Bitrate(20e6))


@pytest.mark.parametrize(
    "traffic",
    [
        TCP,
        UDP,
        replace(TCP, streams=128, window=512 * 1024**2, mss=9216, length=1024**2, congestion="bbr"),
        replace(TCP, mss=88, length=1, window=1, bitrate=Bitrate(1)),
        replace(TCP, warmup_s=0),
        replace(TCP, warmup_s=0.1, duration_s=0.5),
        replace(TCP, duration_s=86_399),
        replace(UDP, length=65_507),
        replace(UDP, length=16, window=65536),
    ],
)
def test_values_that_iperf3_accepts_are_accepted(traffic: Traffic) -> None:
    validate(traffic)


@pytest.mark.parametrize(
    ("traffic", "sentence"),
    [
        (replace(TCP, streams=0), "streams=0: expected 1 to 128"),
        (replace(TCP, streams=129), "streams=129: expected 1 to 128"),
        (replace(TCP, duration_s=0), "duration=0 s: expected more than 0 s"),
        (replace(TCP, duration_s=math.nan), "duration=nan s: expected more than 0 s"),
        (replace(TCP, duration_s=math.inf), "duration=inf s: expected more than 0 s"),
        (replace(TCP, duration_s=86_400), "duration=86400 s: with the warm-up, iperf3 takes at most 86400 s"),
        (replace(TCP, warmup_s=-1), "warmup=-1 s: expected 0 s, or at least 0.1 s"),
        (replace(TCP, warmup_s=0.05), "warmup=0.05 s: expected 0 s, or at least 0.1 s"),
        (replace(TCP, window=0), "window=0 bytes: expected 1 to 536870912 bytes"),
        (replace(TCP, window=2**30), "window=1073741824 bytes: expected 1 to 536870912 bytes"),
        (replace(TCP, mss=87), "mss=87 bytes: expected 88 to 9216 bytes"),
        (replace(TCP, mss=9217), "mss=9217 bytes: expected 88 to 9216 bytes"),
        (replace(TCP, affinity=-1), "affinity=-1: expected 0 to 1023"),
        (replace(TCP, length=2**20 + 1), "length=1048577 bytes: expected 1 to 1048576 bytes"),
        (replace(UDP, length=15), "length=15 bytes: expected 16 to 65507 bytes"),
        (replace(UDP, length=65_508), "length=65508 bytes: expected 16 to 65507 bytes"),
        (
            replace(TCP, bitrate=Bitrate(0)),
            "bitrate=0 bit/s: expected at least 1 bit/s; leave it out for no limit",
        ),
        (
            replace(UDP, bitrate=None),
            "udp needs a bitrate such as '900M': without it iperf3 sends 1 Mbit/s, too little for a link",
        ),
        (replace(UDP, mss=1000), "mss=1000: UDP has no MSS; 'length' sets the size of its datagrams"),
        (replace(UDP, congestion="cubic"), "congestion='cubic': UDP has no congestion control"),
        (
            replace(TCP, congestion="x; reboot"),
            "congestion='x; reboot': expected the kernel's name of a congestion control, such as 'cubic'",
        ),
    ],
)
def test_other_values_are_refused_in_one_sentence(traffic: Traffic, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(traffic)
    assert str(caught.value) == sentence
