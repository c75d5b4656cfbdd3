"""Measure a link and judge it: what the ``gate`` fixture gives to a test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError, InvalidMeasurement
from pytest_pinet.markers import parse_limits
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.quantities import Bitrate, parse_duration, parse_size
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict

if TYPE_CHECKING:
    from pytest_pinet.lab.link import Link
    from pytest_pinet.session import PinetSession

# A rate or size is text with a unit; a duration may also be a number of seconds.
Rate = str
Size = str | int
Duration = str | int | float


@dataclass(frozen=True)
class Figures:
    """What a measurement gave a test that goes on: goodput by direction, and the verdict."""

    verdict: Verdict
    goodput: dict[Direction, Bitrate]

    def __getitem__(self, direction: Direction | str) -> Bitrate:
        return self.goodput[Direction(direction)]


def _seconds(name: str, value: Duration) -> float:
    if isinstance(value, bool) or (isinstance(value, int | float) and not 0 <= value < float("inf")):
        raise ConfigError(f"{name}={value!r}: expected a number of seconds or text such as '10 s'")
    return parse_duration(value) if isinstance(value, str) else float(value)


def _bytes(name: str, value: Size | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, int) and value <= 0):
        raise ConfigError(f"{name}={value!r}: expected a number of bytes or text such as '64K'")
    return parse_size(value) if isinstance(value, str) else value


class Gate:
    """Bound to one test; every call measures once, judges, records, and ends the test when the limit does not hold."""

    def __init__(self, session: PinetSession, item: pytest.Item) -> None:
        self._session = session
        self._item = item

    def tcp(
        self,
        link: Link,
        direction: str = "tx",
        *,
        streams: int = 1,
        duration: Duration = 5,
        warmup: Duration = 1,
        window: Size | None = None,
        mss: int | None = None,
        bitrate: Rate | None = None,
        length: Size | None = None,
        congestion: str | None = None,
        min: object = None,
    ) -> Figures:
        """Measure TCP goodput at the receiver.

        ``direction`` is seen from the device under test: tx, rx or bidir. ``duration`` (s) counts after ``warmup`` (s).
        ``bitrate`` is per stream and direction. ``min`` overrides the marker's limit. Fails the test below the limit;
        raises LabError, UnsupportedError, InvalidMeasurement or ConfigError.
        """
        return self._measure(link, False, direction, streams, duration, warmup, window, mss, bitrate, length,
                             congestion, min)  # fmt: skip

    def udp(
        self,
        link: Link,
        direction: str = "tx",
        *,
        bitrate: Rate,
        streams: int = 1,
        duration: Duration = 5,
        warmup: Duration = 1,
        window: Size | None = None,
        length: Size | None = None,
        min: object = None,
    ) -> Figures:
        """Measure UDP goodput at the receiver; arguments as for ``tcp``. ``length`` is the datagram's payload."""
        return self._measure(link, True, direction, streams, duration, warmup, window, None, bitrate, length, None, min)

    def _measure(
        self,
        link: Link,
        udp: bool,
        direction: str,
        streams: int,
        duration: Duration,
        warmup: Duration,
        window: Size | None,
        mss: int | None,
        bitrate: Rate | None,
        length: Size | None,
        congestion: str | None,
        minimum: object,
    ) -> Figures:
        try:
            if direction not in list(Direction):
                raise ConfigError(unknown("direction", str(direction), [str(d) for d in Direction]))
            traffic = Traffic(
                direction=Direction(direction),
                udp=udp,
                streams=streams,
                duration_s=_seconds("duration", duration),
                warmup_s=_seconds("warmup", warmup),
                window=_bytes("window", window),
                mss=_bytes("mss", mss),
                bitrate=None if bitrate is None else Bitrate.parse(bitrate),
                length=_bytes("length", length),
                congestion=congestion,
            )
            limits = self._limits(link, minimum)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._item.nodeid}: {'udp' if udp else 'tcp'}: {error}") from None
        result = self._session.measure(self._item, link, traffic, limits)
        verdict = Verdict(result["verdict"])
        if verdict is Verdict.FAIL:
            pytest.fail(result["message"], pytrace=False)
        if verdict is Verdict.INVALID:
            raise InvalidMeasurement(result["message"])
        figures = {Direction(name): Bitrate(d["goodput_bps"]) for name, d in result["directions"].items()}
        return Figures(verdict, figures)

    def _limits(self, link: Link, minimum: object) -> tuple[Limit, ...]:
        if minimum is None:
            return ()
        limits = parse_limits("min", minimum, Origin.CALL, f"min={minimum!r} of the call")
        here = link.combination
        return tuple(replace(limit, board=here.board, nic=here.nic, topology=here.topology) for limit in limits)
