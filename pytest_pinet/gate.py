"""Measure a link and judge it: what the ``gate`` fixture gives to a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError, Inconclusive, InvalidMeasurement
from pytest_pinet.judge.settle import cap_for
from pytest_pinet.markers import LIMITS, read_limits
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.quantities import Bitrate, parse_duration, parse_size
from pytest_pinet.model.tolerance import Tolerance
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic
from pytest_pinet.model.verdict import Verdict

if TYPE_CHECKING:
    from pytest_pinet.lab.link import Link
    from pytest_pinet.report.comparison import ComparisonRecord
    from pytest_pinet.report.record import ResultRecord
    from pytest_pinet.session import PinetSession

# A rate or size is text with a unit; a duration may also be a number of seconds.
Rate = str
Size = str | int
Duration = str | int | float
# Brings the nodes into a state; what it returns is left before another state is entered.
Enter = Callable[[], AbstractContextManager[object] | None]


@dataclass(frozen=True)
class Figures:
    """What a measurement gave a test that goes on: the verdict, and goodput by direction (the sum of several flows).

    ``flows`` has the goodput of each of several flows by its name (``pi3b-1:onboard>pi4b-1:onboard``); ``fairness`` is
    Jain's index over what they got of their fair rates. Both are empty, or None, where one flow ran.
    """

    verdict: Verdict
    goodput: dict[Direction, Bitrate]
    flows: dict[str, Bitrate] = field(default_factory=dict)
    fairness: float | None = None

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


def _warmup_cap_s(link: Link) -> float:
    """How long a warm-up may take at most; a link that is only planned has no speed yet."""
    path = getattr(link, "path", None)
    return WARMUP_CAP_S if path is None else cap_for(path.speed_mbps)


class Gate:
    """Bound to one test; every call measures once, judges, records, and ends the test when the limit does not hold."""

    def __init__(self, session: PinetSession, item: pytest.Item) -> None:
        self._session = session
        self._item = item

    def tcp(
        self,
        link: Link,
        direction: str | None = None,
        *,
        streams: int = 1,
        duration: Duration | None = None,
        warmup: Duration | None = None,
        window: Size | None = None,
        mss: int | None = None,
        bitrate: Rate | None = None,
        length: Size | None = None,
        congestion: str | None = None,
        profile: str | None = None,
        **limits: object,
    ) -> Figures:
        """Measure TCP goodput at the receiver, on fresh connections until the verdict is certain.

        ``direction`` is seen from the device under test: tx, rx or bidir; left out it is the usual one of the topology
        (rx for incast, bidir for mesh, else tx). ``duration`` (s) is counted of each connection, after ``warmup`` (s);
        left out the profile says how long, and the warm-up is found. ``bitrate`` is per stream and direction.
        ``profile`` (fast, standard, soak) and ``limits`` override the marker's, by the same words: ``min``, ``sum``,
        ``share``, ``fairness``, ``tolerance``, ``marginal``, ``retransmits``, ``loss``, ``latency``, ``cpu``. Fails the
        test beyond a limit; raises LabError, UnsupportedError, InvalidMeasurement, Inconclusive or ConfigError.
        """
        return self._measure(link, False, direction, streams, duration, warmup, window, mss, bitrate, length,
                             congestion, profile, limits)  # fmt: skip

    def udp(
        self,
        link: Link,
        direction: str | None = None,
        *,
        bitrate: Rate | None = None,
        streams: int = 1,
        duration: Duration | None = None,
        warmup: Duration | None = None,
        window: Size | None = None,
        length: Size | None = None,
        profile: str | None = None,
        **limits: object,
    ) -> Figures:
        """Measure UDP goodput at the receiver; arguments as for ``tcp``.

        ``bitrate`` must be given, since UDP sends as fast as it is told; ``length`` is the datagram's payload.
        """
        if bitrate is None:
            raise ConfigError(f"{self._item.nodeid}: udp: needs bitrate=, such as bitrate='400M' (per stream)")
        return self._measure(link, True, direction, streams, duration, warmup, window, None, bitrate, length, None,
                             profile, limits)  # fmt: skip

    def compare(
        self,
        link: Link,
        a: Enter | None = None,
        b: Enter | None = None,
        direction: str | None = None,
        *,
        names: tuple[str, str] = ("A", "B"),
        tolerance: str = "3%",
        streams: int = 1,
    ) -> ComparisonRecord:
        """Measure two states of the same nodes in turn, A B B A B A A B, so that drift of the lab cannot fool.

        ``a`` and ``b`` bring the nodes into a state: callables that return a context manager, which is left before the
        other state is entered (None: nothing is done). TCP goodput of a pair, on fresh connections, until the
        difference is certain. Fails the test where B is slower than A by more than ``tolerance``; raises LabError,
        UnsupportedError, Inconclusive, ConfigError, and whatever entering a state raises.
        """
        from pytest_pinet.comparing import State

        try:
            if link.combination.topology.name != "pair":
                raise ConfigError(f"a {link.combination.topology.name} cannot be compared; expected topology 'pair'")
            (limit,) = read_limits("", {"tolerance": tolerance}, Origin.CALL, "the call")
            if not isinstance(limit.bound, Tolerance) or limit.bound.absolute is not None:
                raise ConfigError(f"tolerance={tolerance!r}: two states are compared by a share alone, such as '3%'")
            part = limit.bound.relative.fraction
            spending = self._session.profile(self._item, None)
            usual_s = spending.connection_s - _warmup_cap_s(link)
            traffic = Traffic(self._direction(link, direction), streams=streams, duration_s=usual_s, warmup_s=None)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._item.nodeid}: compare: {error}") from None
        states = State(names[0], a or nullcontext), State(names[1], b or nullcontext)
        result = self._session.compare(self._item, link, traffic, states, part)
        self._end(result)
        return result["comparison"]

    def _measure(
        self,
        link: Link,
        udp: bool,
        direction: str | None,
        streams: int,
        duration: Duration | None,
        warmup: Duration | None,
        window: Size | None,
        mss: int | None,
        bitrate: Rate | None,
        length: Size | None,
        congestion: str | None,
        profile: str | None,
        given: Mapping[str, object],
    ) -> Figures:
        try:
            spending = self._session.profile(self._item, profile)
            traffic = Traffic(
                direction=self._direction(link, direction),
                udp=udp,
                streams=streams,
                duration_s=spending.connection_s - _warmup_cap_s(link)
                if duration is None
                else _seconds("duration", duration),
                warmup_s=None if warmup is None else _seconds("warmup", warmup),
                window=_bytes("window", window),
                mss=_bytes("mss", mss),
                bitrate=None if bitrate is None else Bitrate.parse(bitrate),
                length=_bytes("length", length),
                congestion=congestion,
            )
            limits = self._limits(link, given)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._item.nodeid}: {'udp' if udp else 'tcp'}: {error}") from None
        result = self._session.measure(self._item, link, traffic, limits, spending)
        verdict = self._end(result)
        figures = {Direction(name): Bitrate(d["goodput_bps"]) for name, d in result["directions"].items()}
        flows = {f["name"]: Bitrate(f["goodput_bps"]) for f in result["flows"]}
        return Figures(verdict, figures, flows, result["evenness"]["jain"] if result["evenness"] else None)

    @staticmethod
    def _end(result: ResultRecord) -> Verdict:
        """End the test where the verdict is not a good one."""
        verdict = Verdict(result["verdict"])
        if verdict is Verdict.FAIL:
            pytest.fail(result["message"], pytrace=False)
        if verdict is Verdict.INVALID:
            raise InvalidMeasurement(result["message"])
        if verdict is Verdict.INCONCLUSIVE:
            raise Inconclusive(result["message"])
        return verdict

    def _direction(self, link: Link, asked: str | None) -> Direction:
        """The direction asked for, or the usual one of the topology."""
        topology = link.combination.topology
        if asked is None:
            return topology.directions[0]
        if asked not in list(Direction):
            raise ConfigError(unknown("direction", str(asked), [str(d) for d in Direction]))
        topology.runs(Direction(asked))
        return Direction(asked)

    def _limits(self, link: Link, given: Mapping[str, object]) -> tuple[Limit, ...]:
        for word in given:
            if word not in LIMITS:
                raise ConfigError(unknown("argument", word, LIMITS))
        here = link.combination
        return tuple(
            replace(limit, board=here.board, nic=here.nic, topology=here.topology.name)
            for limit in read_limits("", given, Origin.CALL, "the call")
        )
