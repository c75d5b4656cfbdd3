"""The values that iperf3 accepts, so that a mistake gives one sentence instead of a page of usage text."""

from __future__ import annotations

import math
import re

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic

# Limits of iperf3 (iperf.h), as in 3.12. The lowest MSS is the kernel's (TCP_MIN_MSS).
STREAMS_MAX = 128
SECONDS_MAX = 86_400
INTERVAL_MIN_S = 0.1
MSS_RANGE = (88, 9216)
WINDOW_RANGE = (1, 512 * 1024**2)
TCP_LENGTH_RANGE = (1, 1024**2)
AFFINITY_RANGE = (0, 1023)
UDP_LENGTH_RANGE = (16, 65_507)
# The kernel's TCP_CA_NAME_MAX is 16 with the final zero.
_CONGESTION = re.compile(r"[A-Za-z0-9_-]{1,15}")


def validate(traffic: Traffic) -> None:
    """Check values and combinations that no iperf3 accepts. Raises ConfigError."""
    _range("streams", traffic.streams, (1, STREAMS_MAX))
    if not math.isfinite(traffic.duration_s) or traffic.duration_s <= 0:
        raise ConfigError(f"duration={traffic.duration_s:g} s: expected more than 0 s")
    warmup = WARMUP_CAP_S if traffic.warmup_s is None else traffic.warmup_s
    if not math.isfinite(warmup) or warmup < 0 or 0 < warmup < INTERVAL_MIN_S:
        raise ConfigError(f"warmup={warmup:g} s: expected 0 s, or at least {INTERVAL_MIN_S:g} s")
    if traffic.duration_s + warmup > SECONDS_MAX:
        raise ConfigError(f"duration={traffic.duration_s:g} s: with the warm-up, iperf3 takes at most {SECONDS_MAX} s")
    if traffic.bitrate is not None and not (math.isfinite(traffic.bitrate.bps) and traffic.bitrate.bps >= 1):
        raise ConfigError(
            f"bitrate={traffic.bitrate.bps:g} bit/s: expected at least 1 bit/s; leave it out for no limit"
        )
    if traffic.apart and traffic.direction is not Direction.BIDIR:
        word = "peer_bitrate" if traffic.peer_bitrate is not None else "opposed"
        instead = "use bitrate=" if word == "peer_bitrate" else "leave it out"
        raise ConfigError(
            f"{word} needs both directions at once (direction='bidir'); "
            f"with direction={str(traffic.direction)!r}, {instead}"
        )
    if traffic.peer_bitrate is not None and not (
        math.isfinite(traffic.peer_bitrate.bps) and traffic.peer_bitrate.bps >= 1
    ):
        raise ConfigError(f"peer_bitrate={traffic.peer_bitrate.bps:g} bit/s: expected at least 1 bit/s")
    _range("affinity", traffic.affinity, AFFINITY_RANGE)
    _range("window", traffic.window, WINDOW_RANGE, " bytes")
    _range("length", traffic.length, UDP_LENGTH_RANGE if traffic.udp else TCP_LENGTH_RANGE, " bytes")
    if traffic.udp:
        _validate_udp(traffic)
    else:
        _range("mss", traffic.mss, MSS_RANGE, " bytes")
    if traffic.congestion is not None and not _CONGESTION.fullmatch(traffic.congestion):
        raise ConfigError(
            f"congestion={traffic.congestion!r}: expected the kernel's name of a congestion control, such as 'cubic'"
        )


def _validate_udp(traffic: Traffic) -> None:
    if traffic.bitrate is None:
        raise ConfigError("udp needs a bitrate such as '900M': without it iperf3 sends 1 Mbit/s, too little for a link")
    if traffic.mss is not None:
        raise ConfigError(f"mss={traffic.mss}: UDP has no MSS; 'length' sets the size of its datagrams")
    if traffic.congestion is not None:
        raise ConfigError(f"congestion={traffic.congestion!r}: UDP has no congestion control")


def _range(name: str, value: int | None, allowed: tuple[int, int], unit: str = "") -> None:
    low, high = allowed
    if value is not None and not low <= value <= high:
        raise ConfigError(f"{name}={value}{unit}: expected {low} to {high}{unit}")
