"""The gate: measures a link, judges the result, and ends the test if a limit does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

import pytest

from pytest_pinet.errors import ConfigError, Inconclusive, InvalidMeasurement
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.shares import ShareRule
from pytest_pinet.judge.starts import cap_for
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.boots import Boots
from pytest_pinet.measure.comparison import State, StateComparison
from pytest_pinet.measure.connections import Connections
from pytest_pinet.measure.figures import Probe
from pytest_pinet.measure.idle import MOST_PINGS_S, PINGS_AND_IDLE_S, Idle
from pytest_pinet.measure.latency import Latency
from pytest_pinet.measure.packets import Packets
from pytest_pinet.measure.ping import Pings
from pytest_pinet.measure.recovery import RECOVERY_TIMEOUT_S, Recovery
from pytest_pinet.measure.transactions import Transactions
from pytest_pinet.model.limits import METRICS, WORDS, Limit, Metric, Origin, Scope, parse_arguments
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import (
    USUAL_TIMEOUT_S,
    WARMUP_CAP_S,
    Direction,
    HttpTraffic,
    Kselftest,
    LadderTraffic,
    PathSetup,
    Ping,
    Traffic,
)
from pytest_pinet.model.verdict import (
    ComparisonResult,
    HttpResult,
    KselftestResult,
    LadderResult,
    PingResult,
    Result,
    TrafficResult,
    ValuesResult,
    Verdict,
)
from pytest_pinet.session import arguments
from pytest_pinet.session.arguments import (
    Duration,
    FlowOptions,
    IdleOptions,
    LatencyOptions,
    PingOptions,
    Rate,
    RateOptions,
    Size,
    TrafficOptions,
)
from pytest_pinet.session.hook_calls import GateCall
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.session import PinetSession
from pytest_pinet.session.settings import settings
from pytest_pinet.traffic import http, iperf3_command
from pytest_pinet.traffic.tool import check_whole


def _seconds(name: str, value: Duration | None) -> float | None:
    return None if value is None else arguments.parse_seconds(name, value)


# Readers of the arguments that are not used as they are.
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "duration": _seconds,
    "warmup": _seconds,
    "window": arguments.parse_octets,
    "mss": arguments.parse_octets,
    "length": arguments.parse_octets,
    "size": arguments.parse_octets,
    "bitrate": lambda _, value: arguments.parse_rate(value),
    "peer_bitrate": lambda _, value: arguments.parse_rate(value),
    "rates": lambda _, value: arguments.parse_rising_rates(value),
    "loss": arguments.parse_share,
}
T = TypeVar("T")
# More boots or flaps are a mistake.
MOST_EVENTS = 100_000
# Brings the nodes into a state. The context that it returns is left before the nodes enter another state.
Enter = Callable[[], AbstractContextManager[object] | None]


def _of(part: T | None) -> T:
    """The part of a result that its kind of traffic always has."""
    assert part is not None
    return part


def _way(word: str) -> Direction:
    if word not in list(Direction):
        raise ConfigError(unknown("direction", str(word), [str(one) for one in Direction]))
    return Direction(word)


def check(traffic: Traffic) -> None:
    """Raise ConfigError for traffic that no tool can send, before a node is touched."""
    (http.validate if isinstance(traffic, HttpTraffic) else iperf3_command.validate)(traffic)
    if isinstance(traffic, LadderTraffic):
        if traffic.direction is Direction.BIDIR:
            raise ConfigError("direction='bidir': a rate ladder measures one direction; expected 'tx' or 'rx'")
        for rate in traffic.rates:
            iperf3_command.validate(traffic.step(rate))


def _warmup_cap_s(link: Link) -> float:
    """Return the longest warm-up. A planned link has no speed yet."""
    path = getattr(link, "path", None)
    return WARMUP_CAP_S if path is None else cap_for(path.speed_mbps)


class Gate:
    """The gate of one test. Each call measures and judges, and ends the test if a limit does not hold."""

    def __init__(self, session: PinetSession, item: pytest.Item) -> None:
        self._session = session
        self._item = item
        self._background: tuple[Link, Traffic] | None = None

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
        **options: Unpack[TrafficOptions],
    ) -> TrafficResult:
        """Measure TCP goodput at the receiver, on fresh connections until the verdict is certain.

        ``direction`` is tx, rx or bidir, from the view of the device under test. The default depends on the topology:
        rx for incast, bidir for mesh, else tx.
        ``duration`` (s) is the time of each connection that counts, after ``warmup`` (s). By default the profile
        defines the duration, and the end of the warm-up is detected.
        ``bitrate`` is per stream and direction; ``peer_bitrate`` limits each stream of the peer in bidir.
        ``opposed`` uses one iperf3 process for each direction of bidir, as ``peer_bitrate`` does; only the time in
        which both run counts. ``affinity`` binds iperf3 on the device under test to this CPU.
        ``family`` is that of IP: 4 or 6. ``path`` (``{"delay": "20 ms", "loss": "0.1%"}``) adds delay to each round
        trip, and loses packets in both directions, at the peer; ``{"vlan": 7}`` tags all frames.
        ``profile`` (fast, standard, soak, full) and the limits override the values of the marker. They have the same
        names: ``min``, ``sum``, ``share``, ``fairness``, ``tolerance``, ``cost_tolerance``, ``marginal``,
        ``retransmits``, ``loss``, ``latency``, ``cpu``, ``max_drops``.
        Fails the test if a limit does not hold. Raises LabError, UnsupportedError, InvalidMeasurement, Inconclusive,
        ConfigError.
        """
        values = {
            "direction": direction,
            "duration": duration,
            "warmup": warmup,
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
        return self._measure(link, "tcp", options, values)

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
        **options: Unpack[TrafficOptions],
    ) -> TrafficResult:
        """Measure UDP goodput at the receiver. Other arguments as for ``tcp``.

        ``bitrate`` is required, because UDP has no congestion control. ``length`` is the payload of a datagram.
        """
        if bitrate is None:
            raise ConfigError(f"{self._item.nodeid}: udp: needs bitrate=, such as bitrate='400M' (per stream)")
        values = {
            "udp": True,
            "direction": direction,
            "duration": duration,
            "warmup": warmup,
            "streams": streams,
            "window": window,
            "bitrate": bitrate,
            "length": length,
        }
        return self._measure(link, "udp", options, values)

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
        **options: Unpack[FlowOptions],
    ) -> LadderResult:
        """Find the highest of ``rates`` (per stream) at which at most the share ``loss`` of the datagrams is lost.

        The rates are measured in rising order. The first rate that loses more, also when it is repeated, ends the
        measurement, and a rate that the sender does not reach ends it, too. ``min`` and other limits judge the goodput
        at the highest good rate. Fails the test if no rate is good. Other arguments as for ``udp``.
        """
        values = {
            "udp": True,
            "direction": direction,
            "duration": duration,
            "streams": streams,
            "length": length,
            "rates": rates,
            "loss": loss,
        }
        found = self._run(link, "udp_ladder", options, values, LadderTraffic)
        return LadderResult(**vars(self._end(found)), knee=Bitrate(_of(found.ladder).knee_bps or 0.0))

    def http(
        self,
        link: Link,
        direction: str | None = None,
        *,
        size: Size = 100_000,
        connections: int = 10,
        duration: Duration | None = None,
        requests: str | None = None,
        **options: Unpack[TrafficOptions],
    ) -> HttpResult:
        """Measure HTTP: nginx serves a cached file of ``size``, and wrk requests the file again and again.

        With ``direction`` tx, the device under test serves; with rx, its peer. ``min`` limits the bit rate of the
        payload of good responses, ``requests`` (``'1200/s'``) their number. Limits of the lab file do not apply,
        because they are limits of TCP and UDP. A failed request or a status other than 2xx fails the test.
        """
        topology = link.combination.topology.name
        if topology not in ("pair", "chain"):
            raise ConfigError(f"{self._item.nodeid}: http: topology {topology!r}: expected 'pair' or 'chain'")
        values = {
            "direction": direction,
            "duration": duration,
            "warmup": 0,
            "streams": connections,
            "size": size,
        }
        found = self._run(link, "http", options, values, HttpTraffic, requests)
        return HttpResult(**vars(self._end(found)), requests_per_s=_of(found.http).requests_per_s)

    def ping(
        self, link: Link, *, count: int = 10, interval: Duration = 0.2, size: int = 56, **options: Unpack[PingOptions]
    ) -> PingResult:
        """Measure round trips of single packets from the device under test to its peer, over the idle link.

        The limits are ``loss`` and ``latency`` (mean round trip), in the call or the marker. Each series of ``count``
        packets gives one value, and no loss is certain after three. ``size`` is the payload in bytes, at least 16.
        Raises TrafficError if no reply comes.
        """

        def make(setup: PathSetup) -> Probe:
            return Pings(Ping(count, arguments.parse_seconds("interval", interval), size), setup=setup)

        return PingResult(**vars(self._figures(link, "ping", options, make)))

    def transactions(
        self, link: Link, *, size: int = 64, duration: int = 5, udp: bool = False, **options: Unpack[RateOptions]
    ) -> ValuesResult:
        """Measure how often for each second the peer answers a small request of the device under test.

        The next request is sent when the answer has arrived. ``transactions`` (``'8000/s'``) is the limit, in the call,
        the marker or the lab file. Each connection lasts ``duration`` (s).
        """
        return self._figures(
            link, "transactions", options, lambda setup: Transactions(duration, size, udp, setup=setup)
        )

    def connections(
        self, link: Link, direction: str = "tx", *, duration: int = 5, **options: Unpack[RateOptions]
    ) -> ValuesResult:
        """Measure how often for each second a connection is made, one octet answered, and the connection closed.

        nginx of the device under test (``direction`` tx) or of its peer (rx) serves wrk of the other end. The limit is
        ``connections`` (``'900/s'``).
        """

        def make(setup: PathSetup) -> Probe:
            return Connections(self._direction(link, direction), duration, setup=setup)

        return self._figures(link, "connections", options, make)

    def packets(
        self, link: Link, direction: str = "tx", *, size: int = 64, duration: int = 5, **options: Unpack[RateOptions]
    ) -> ValuesResult:
        """Measure how many datagrams of ``size`` bytes the device under test sends (tx) or receives (rx) each second.

        The kernel's counters of both ends show what limits. If the device under test receives all that its peer sends,
        it was not measured, and the result is inconclusive. The limit is ``packets`` (``'300k/s'``).
        """

        def make(setup: PathSetup) -> Probe:
            return Packets(self._direction(link, direction), duration, size, setup=setup)

        return self._figures(link, "packets", options, make)

    def latency(
        self,
        link: Link,
        load: str | None = None,
        *,
        after: Duration | None = None,
        rate: int = 1000,
        size: int = 64,
        duration: int = 5,
        **options: Unpack[LatencyOptions],
    ) -> ValuesResult:
        """Measure round trips of ``rate`` probes each second, on the idle link or beside a TCP stream.

        ``load`` is the direction of the stream: tx, rx or bidir. The limits are ``p50``, ``p90``, ``p99`` (``'1.2
        ms'``: the longest round trip of this share of the probes), and ``late`` (``'1%'``), the share of probes that
        take longer than ``after`` or are lost.
        """

        def make(setup: PathSetup) -> Probe:
            if "late" in options and after is None:
                raise ConfigError("late= needs after=, such as after='2 ms': later probes are late")
            way = None if load is None else self._direction(link, load)
            return Latency(duration, size, rate, _seconds("after", after), way, setup=setup)

        return self._figures(link, "latency", options, make)

    def recovery(
        self,
        link: Link,
        *,
        count: int = 5,
        silence: str | None = None,
        goodput: str = "0%",
        down: Duration = 1.0,
        profile: str | None = None,
    ) -> ValuesResult:
        """Take the carrier of the device under test away at the far end for ``down``, again and again.

        ``silence`` is the longest silence and its share of the flaps, such as ``'4 s in 90%'``; without it, a link must
        come back within 45 s after ``down`` in 98% of the flaps. Else the board is booted. ``goodput`` is the
        least goodput afterwards, as a share of the line rate. ``count`` good flaps pass; after a bad one, more flaps
        follow. Skips the test where the carrier must not be taken away. The device under test itself is not touched.
        """

        def make(setup: PathSetup) -> Probe:
            seconds = arguments.parse_seconds("down", down)
            silence_s, allowed = arguments.parse_silence(silence, seconds + RECOVERY_TIMEOUT_S)
            least = arguments.parse_share("goodput", goodput)
            check_whole("count", count, 1, MOST_EVENTS)
            rule = ShareRule.passing_after(count, allowed)
            tool = self._session.access.tool
            return Recovery(tool, self._reboot, seconds, silence_s, least, rule=rule, setup=setup)

        return self._figures(link, "recovery", {"profile": profile}, make)

    def idle(self, link: Link, *, idle: Duration | None = None, **options: Unpack[IdleOptions]) -> ValuesResult:
        """Leave the link idle, then send: the loss of idle pings, the first answer, the first second of traffic.

        Pings each 0.1 s come first, as long as the idle time, and at most for 60 s. Then nothing is sent for ``idle``:
        by default 2 s (profile fast), 12 s after 20 s of pings (standard), or 300 s. Several idle times are measured.
        Limits: ``idle_loss`` and ``first_answer`` (at most), ``first_second`` (at least, as a share of the line rate).
        If no answer comes within 10 s, these are the values of this idle time: 10 s and 0%; the board is then booted.
        """

        def make(setup: PathSetup) -> Probe:
            pings_s, idle_s = PINGS_AND_IDLE_S[self._session.profile(self._item, options.get("profile")).name]
            if idle is not None:
                idle_s = arguments.parse_seconds("idle", idle)
                pings_s = min(idle_s, MOST_PINGS_S)
            return Idle(self._session.access.tool, self._reboot, pings_s, idle_s, setup=setup)

        return self._figures(link, "idle", options, make)

    def boots(
        self, link: Link, *, count: int = 33, bad: str = "2%", latency: str = "100 ms", profile: str | None = None
    ) -> ValuesResult:
        """Boot the device under test again and again, and count the bad boots.

        A boot is bad if the board or its link does not come up, if the link is slow, or if the mean round trip of pings
        is above ``latency``. ``bad`` is the share that may be bad. ``count`` good boots pass: 33 find one bad boot in
        seven, 10 find two in five. After a bad boot, more boots follow. Of two builds, the known-good one boots only if
        the build under test has too many bad boots.
        """

        def make(setup: PathSetup) -> Probe:
            access, seconds = self._session.access, arguments.parse_seconds("latency", latency)
            allowed = arguments.parse_share("bad", bad)
            check_whole("count", count, 1, MOST_EVENTS)
            rule = ShareRule.passing_after(count, allowed)
            return Boots(access.reboot, access.reconnect, seconds, rule=rule, setup=setup)

        return self._figures(link, "boots", {"profile": profile}, make)

    def _reboot(self, link: Link) -> None:
        """Bring a link back that does not answer any more."""
        self._session.access.reboot(link)
        self._session.access.reconnect(link)

    def _figures(
        self, link: Link, what: str, options: Mapping[str, Any], make: Callable[[PathSetup], Probe]
    ) -> ValuesResult:
        """Measure the values of a probe on fresh connections until each is judged, and record them."""
        with self._naming(what):
            spending, setup, own = self._common(link, options)
            probe = make(setup)
            accepted = [one.name for one in probe.figures if one.name in METRICS]
            for limit in own:
                if limit.metric not in (*accepted, Metric.TOLERANCE):
                    expected = ", ".join(f"{name}=" for name in (*accepted, "tolerance"))
                    raise ConfigError(f"it has no limit {limit.metric}=; expected {expected}")
        found = self._session.measure(GateCall(self._item, link, spending, own), probe)
        every, seen = self._end(found), _of(found.figures)
        values = {name: one.value for name, one in seen.items() if one.value is not None}
        return ValuesResult(**vars(every), values=MappingProxyType(values))

    def kselftest(
        self,
        link: Link,
        test: str,
        *,
        source: str | None = None,
        timeout: Duration = USUAL_TIMEOUT_S,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> KselftestResult:
        """Run a selftest of the kernel, such as ``drivers/net:ping.py``, between the first two ends of the link.

        ``source`` is a kernel tree, or installed selftests (a folder or an archive); the default is the option
        --pinet-kselftest. ``environment`` adds lines to ``net.config`` (``{"DISRUPTIVE": "yes"}``). The selftest is
        installed on the device under test and removed again. Its TAP decides, not an exit code. Fails the test if a
        part failed, and skips it if all parts were skipped. Raises LabError, UnsupportedError, ConfigError.
        """
        chosen = source or settings(self._session.config)["kselftest"]
        with self._naming("kselftest"):
            if not chosen:
                raise ConfigError("no selftests are named; expected --pinet-kselftest DIR, or source='DIR'")
            seconds = arguments.parse_seconds("timeout", timeout)
            job = Kselftest(test, str(chosen), seconds, environment)
        found = self._session.measure(GateCall(self._item, link, self._session.profile(self._item)), job)
        if found.verdict is Verdict.SKIPPED:
            pytest.skip(found.message)
        results = _of(found.kselftest).results
        names = {kind: tuple(one.name for one in results if one.outcome == kind) for kind in ("pass", "skip")}
        return KselftestResult(**vars(self._end(found)), passed=names["pass"], skipped=names["skip"])

    @contextmanager
    def background(
        self, link: Link, direction: str = "tx", *, udp: bool = False, bitrate: Rate | None = None, streams: int = 1
    ) -> Iterator[None]:
        """Run TCP, or UDP with ``bitrate``, in the background of all gate calls in the ``with`` block.

        It runs between the device under test and its first peer, also in topology chain: so forwarded and local
        traffic run at once. It begins before the traffic of a call and ends after it. Its goodput is a note of the
        result, and it is part of the id. If it ends too early, the call raises InvalidMeasurement.
        """
        with self._naming("background"):
            if self._background is not None:
                raise ConfigError("background traffic runs already")
            traffic = Traffic(_way(direction), udp, streams, bitrate=arguments.parse_rate(bitrate))
            check(traffic)
        self._background = link, traffic
        try:
            yield
        finally:
            self._background = None

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
    ) -> ComparisonResult:
        """Compare two states of the same nodes by TCP goodput, measured alternately: A B B A B A A B.

        Slow drift of the lab cancels out. ``a`` and ``b`` are callables that bring the nodes into a state and return a
        context manager, which is left before the other state is entered; None changes nothing. Measures a pair on
        fresh connections until the difference is certain. Fails the test if B is slower than A by more than
        ``tolerance``. Raises LabError, UnsupportedError, Inconclusive, ConfigError, and errors of ``a`` and ``b``.
        """
        with self._naming("compare"):
            if link.combination.topology.name != "pair":
                raise ConfigError(f"topology {link.combination.topology.name} cannot be compared; expected 'pair'")
            match [limit.bound for limit in parse_arguments({"tolerance": tolerance}, Origin.CALL)]:
                case [Tolerance(Share(part), None)]:
                    pass
                case _:
                    raise ConfigError(f"tolerance={tolerance!r}: expected one share, such as '3%', for both directions")
            spending = self._session.profile(self._item)
            usual_s = spending.connection_s - _warmup_cap_s(link)
            traffic = Traffic(self._direction(link, direction), streams=streams, duration_s=usual_s, warmup_s=None)
        states = State(names[0], a or nullcontext), State(names[1], b or nullcontext)
        result = self._session.measure(GateCall(self._item, link, spending), StateComparison(traffic, states, part))
        every, found = self._end(result), _of(result.comparison)
        sides = {Direction(way): side for way, side in found.directions.items()}
        return ComparisonResult(
            **vars(every),
            goodput_of_a=MappingProxyType({way: Bitrate(side.a_bps) for way, side in sides.items()}),
            change=MappingProxyType({way: side.change for way, side in sides.items()}),
            pairs=found.pairs,
            error_rate=found.error_rate,
        )

    def _run(
        self,
        link: Link,
        what: str,
        options: Mapping[str, Any],
        values: Mapping[str, Any],
        kind: type[Traffic] = Traffic,
        requests: str | None = None,
    ) -> ResultRecord:
        """Measure and record. ``values`` are the arguments of the call that describe the traffic."""
        with self._naming(what):
            spending, setup, own = self._common(link, options)
            read = {name: _READERS[name](name, value) if name in _READERS else value for name, value in values.items()}
            if "rates" in read:
                read["bitrate"] = read["rates"][-1]
            duration_s, warmup_s = read.pop("duration"), read.pop("warmup", None)
            if duration_s is None:
                duration_s = spending.connection_s - _warmup_cap_s(link)
            way = self._direction(link, read.pop("direction"))
            traffic = kind(way, duration_s=duration_s, warmup_s=warmup_s, setup=setup, **read)
            check(traffic)
            if requests is not None and isinstance(traffic, HttpTraffic):
                case = case_of(self._item)
                marked = case.request.limits_for(link.combination) if case is not None else ()
                key = MetricKey(link.combination.identity, traffic, traffic.direction)
                own = arguments.with_requests(own, marked, requests, traffic.size, key)
        return self._session.measure(GateCall(self._item, link, spending, own), traffic)

    def _measure(self, link: Link, what: str, *arguments: Any) -> TrafficResult:
        result = self._run(link, what, *arguments)
        return TrafficResult(
            **vars(self._end(result)),
            flows=MappingProxyType({flow.name: Bitrate(flow.goodput_bps) for flow in result.flows}),
            fairness=result.evenness.jain if result.evenness else None,
        )

    @staticmethod
    def _end(result: ResultRecord) -> Result:
        """End the test if its verdict is not good. If it is good, return what every result has."""
        verdict = result.verdict
        if verdict is Verdict.FAIL:
            pytest.fail(result.message, pytrace=False)
        if verdict is Verdict.INVALID:
            raise InvalidMeasurement(result.message)
        if verdict is Verdict.INCONCLUSIVE:
            raise Inconclusive(result.message)
        rates = {Direction(way): Bitrate(one.goodput_bps) for way, one in result.directions.items()}
        return Result(result.id, verdict, result.message, MappingProxyType(rates))

    def _direction(self, link: Link, wanted: str | None) -> Direction:
        """Return the direction of the call, or the default of the topology."""
        topology = link.combination.topology
        if wanted is None:
            return topology.directions[0]
        way = _way(wanted)
        topology.runs(way)
        return way

    @contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        """Name the test and the call in errors of its arguments."""
        try:
            yield
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._item.nodeid}: {what}: {error}") from None

    def _common(self, link: Link, options: Mapping[str, Any]) -> tuple[Profile, PathSetup, tuple[Limit, ...]]:
        """Read the `CallOptions` and the limits of a call. Raises ConfigError, ValueError."""
        given = dict(options)
        profile = self._session.profile(self._item, given.pop("profile", None))
        setup = arguments.parse_path(given.pop("family", 4), given.pop("path", None))
        if self._background is not None:
            other, traffic = self._background
            if other is not link:
                raise ConfigError("the background traffic runs over another link")
            setup = replace(setup, background=traffic)
        for word in given:
            if word not in WORDS:
                raise ConfigError(unknown("argument", word, WORDS))
        here = link.combination
        return (
            profile,
            setup,
            tuple(parse_arguments(given, Origin.CALL, Scope(here.board, here.nic, here.topology.name))),
        )
