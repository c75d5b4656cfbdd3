"""Measure a link and judge it: what the ``gate`` fixture gives to a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_pinet import asked
from pytest_pinet.asked import Duration, HttpFigures, LadderFigures, PingFigures, Rate, Size
from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError, Inconclusive, InvalidMeasurement
from pytest_pinet.judge.settle import cap_for
from pytest_pinet.markers import LIMITS, read_limits
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.ping import Ping
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.tolerance import Tolerance
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, HttpTraffic, LadderTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.parametrizing import case_of
from pytest_pinet.traffic import http, iperf3_values
from pytest_pinet.traffic import ping as ping_tool

if TYPE_CHECKING:
    from pytest_pinet.lab.link import Link
    from pytest_pinet.report.comparison import ComparisonRecord
    from pytest_pinet.report.record import ResultRecord
    from pytest_pinet.session import PinetSession

# How the fields of a traffic are read that are not taken as they are.
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "window": asked.octets,
    "mss": asked.octets,
    "length": asked.octets,
    "size": asked.octets,
    "bitrate": lambda _, value: asked.rate(value),
    "peer_bitrate": lambda _, value: asked.rate(value),
    "rates": lambda _, value: asked.rising(value),
    "loss": asked.part,
}
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


def check(traffic: Traffic) -> None:
    """Refuse what no tool can send, before a node is asked for it. Raises ConfigError."""
    (http.validate if isinstance(traffic, HttpTraffic) else iperf3_values.validate)(traffic)
    if isinstance(traffic, LadderTraffic):
        if traffic.direction is Direction.BIDIR:
            raise ConfigError("direction='bidir': a ladder is climbed one way; expected 'tx' or 'rx'")
        for rate in traffic.rates:
            iperf3_values.validate(traffic.step(rate))


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
        peer_bitrate: Rate | None = None,
        opposed: bool = False,
        affinity: int | None = None,
        profile: str | None = None,
        **limits: object,
    ) -> Figures:
        """Measure TCP goodput at the receiver, on fresh connections until the verdict is certain.

        ``direction`` is seen from the device under test: tx, rx or bidir; left out it is the usual one of the topology
        (rx for incast, bidir for mesh, else tx). ``duration`` (s) is counted of each connection, after ``warmup`` (s);
        left out the profile says how long, and the warm-up is found. ``bitrate`` is per stream and direction;
        ``peer_bitrate`` is what each of the peer's streams sends at most in bidir. ``opposed`` sends each direction of
        bidir by an iperf3 of its own, as ``peer_bitrate`` does; only the time that both run counts. ``affinity`` keeps
        the iperf3 of the device under test on this CPU.
        ``profile`` (fast, standard, soak, full) and ``limits`` override the marker's, by the same words: ``min``,
        ``sum``, ``share``, ``fairness``, ``tolerance``, ``marginal``, ``retransmits``, ``loss``, ``latency``, ``cpu``.
        Fails the test beyond a limit; raises LabError, UnsupportedError, InvalidMeasurement, Inconclusive or
        ConfigError.
        """
        values = {
            "streams": streams,
            "window": window,
            "mss": mss,
            "bitrate": bitrate,
            "peer_bitrate": peer_bitrate,
            "opposed": opposed,
            "length": length,
            "congestion": congestion,
            "affinity": affinity,
        }
        return self._measure(link, "tcp", Traffic, direction, duration, warmup, profile, limits, values)

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
        values = {"udp": True, "streams": streams, "window": window, "bitrate": bitrate, "length": length}
        return self._measure(link, "udp", Traffic, direction, duration, warmup, profile, limits, values)

    def udp_ladder(
        self,
        link: Link,
        direction: str | None = None,
        *,
        rates: Sequence[Rate],
        loss: str = "0.1%",
        streams: int = 1,
        duration: Duration | None = None,
        length: Size | None = None,
        profile: str | None = None,
        **limits: object,
    ) -> LadderFigures:
        """Find the highest of ``rates`` (per stream) of which no more than ``loss`` is lost, from the lowest on.

        A rate that is not held is tried again before that is believed, and ends the climb; so does one which the sender
        does not reach. ``min`` and other limits judge the goodput at the highest rate that is held. Fails the test
        where none is; other arguments as for ``udp``.
        """
        values = {"udp": True, "streams": streams, "length": length, "rates": rates, "loss": loss}
        found = self._run(link, "udp_ladder", LadderTraffic, direction, duration, None, profile, limits, values)
        verdict = self._end(found)
        (figure,) = found["directions"].values()
        return LadderFigures(verdict, Bitrate(found["ladder"]["knee_bps"] or 0.0), Bitrate(figure["goodput_bps"]))

    def http(
        self,
        link: Link,
        direction: str | None = None,
        *,
        size: Size = 100_000,
        connections: int = 10,
        duration: Duration | None = None,
        requests: str | None = None,
        profile: str | None = None,
        **limits: object,
    ) -> HttpFigures:
        """Have a cached file of ``size`` served (nginx) and asked for again and again (wrk), until that is judged.

        ``direction`` tx: the device under test serves; rx: its peer does. ``min`` limits the payload of good responses
        as a rate, ``requests`` (``'1200/s'``) their number; limits of the lab file speak of TCP and UDP, and are not
        asked. A request that fails, or is answered with another status than 2xx, fails the test.
        """
        runs = link.combination.topology.name
        if runs not in ("pair", "chain"):
            raise ConfigError(f"{self._item.nodeid}: http: topology {runs!r}: expected 'pair' or 'chain'")
        values = {"streams": connections, "size": size}
        found = self._run(link, "http", HttpTraffic, direction, duration, 0, profile, limits, values, requests)
        verdict = self._end(found)
        (figure,) = found["directions"].values()
        return HttpFigures(verdict, Bitrate(figure["goodput_bps"]), found["http"]["requests_per_s"])

    def ping(
        self,
        link: Link,
        *,
        count: int = 10,
        interval: Duration = 0.2,
        size: int = 56,
        profile: str | None = None,
        **limits: object,
    ) -> PingFigures:
        """Measure round trips of single packets from the device under test to its peer, over the idle link.

        ``loss`` and ``latency`` (the mean round trip) limit them, in the call or the marker; a miss is repeated before
        it fails the test. ``size`` is the payload in bytes, 16 at least. Raises TrafficError where nothing comes back.
        """
        try:
            ping = Ping(asked.count("count", count), asked.seconds("interval", interval), size)
            ping_tool.validate(ping)
            own = self._limits(link, limits)
            for limit in own:
                if limit.metric not in (Metric.LOSS, Metric.LATENCY):
                    raise ConfigError(f"{limit.metric}= limits no ping; expected loss= or latency=")
            spending = self._session.profile(self._item, profile)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._item.nodeid}: ping: {error}") from None
        found = self._session.ping(self._item, link, ping, own, spending)
        verdict, seen = self._end(found), found["ping"]
        low, mean, high = seen["rtt_min_s"] or 0.0, seen["rtt_mean_s"] or 0.0, seen["rtt_max_s"] or 0.0
        return PingFigures(verdict, seen["loss"], low, mean, high, seen["rtt_mdev_s"])

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

    def _run(
        self,
        link: Link,
        what: str,
        kind: type[Traffic],
        direction: str | None,
        duration: Duration | None,
        warmup: Duration | None,
        profile: str | None,
        given: Mapping[str, object],
        values: Mapping[str, Any],
        requests: str | None = None,
    ) -> ResultRecord:
        """Measure and record; ``values`` are the fields of the traffic as they were written."""
        try:
            spending = self._session.profile(self._item, profile)
            usual_s = spending.connection_s - _warmup_cap_s(link)
            read = {name: _READERS[name](name, value) if name in _READERS else value for name, value in values.items()}
            if "rates" in read:
                read["bitrate"] = read["rates"][-1]
            traffic = kind(
                self._direction(link, direction),
                duration_s=usual_s if duration is None else asked.seconds("duration", duration),
                warmup_s=None if warmup is None else asked.seconds("warmup", warmup),
                **read,
            )
            check(traffic)
            limits = self._limits(link, given)
            if requests is not None and isinstance(traffic, HttpTraffic):
                case = case_of(self._item)
                marked = case.request.limits_for(link.combination) if case is not None else ()
                least = asked.requests_limit(requests, traffic.size)
                limits = asked.with_requests(limits, marked, least, link.combination, traffic.direction)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._item.nodeid}: {what}: {error}") from None
        return self._session.measure(self._item, link, traffic, limits, spending)

    def _measure(self, link: Link, *arguments: Any) -> Figures:
        result = self._run(link, *arguments)
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

    def _direction(self, link: Link, wanted: str | None) -> Direction:
        """The direction asked for, or the usual one of the topology."""
        topology = link.combination.topology
        if wanted is None:
            return topology.directions[0]
        if wanted not in list(Direction):
            raise ConfigError(unknown("direction", str(wanted), [str(d) for d in Direction]))
        topology.runs(Direction(wanted))
        return Direction(wanted)

    def _limits(self, link: Link, given: Mapping[str, object]) -> tuple[Limit, ...]:
        for word in given:
            if word not in LIMITS:
                raise ConfigError(unknown("argument", word, LIMITS))
        here = link.combination
        return tuple(
            replace(limit, board=here.board, nic=here.nic, topology=here.topology.name)
            for limit in read_limits("", given, Origin.CALL, "the call")
        )
