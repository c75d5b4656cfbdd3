"""A simulated board on a simulated clock: shells, a traffic tool and a link, behind the interfaces of the product.

The rate of the link may depend on all that a real one depends on: the day, the boot and its age, the link-up, the
number of the connection, the traffic before it, the temperature, the source port of the flow, and the build.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from unittest.mock import patch

from benchmarks.verdicts.links import QUIET, Link, Session
from benchmarks.verdicts.recorded import STEP_S
from pytest_pinet.evidence import other_work
from pytest_pinet.execution import undo
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.starts import settle
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.traffic.tool import TrafficJob

T = TypeVar("T")
# The board answers so long after its kernel started (s).
BOOT_S = 12.0
# From the answer to the first traffic: the link opens (s).
OPENING_S = (2.0, 4.0)
# The time of a connection beside its traffic, and of a link-up (s).
SET_UP_S, LINK_UP_S = 0.4, 3.0
# The time of one reading of all counters of an end (s).
READING_S = 0.05
# The share of the recorded rates: a link that becomes faster stays below the physical limit.
SHARE = 0.85
# Rates between two processes of one end (Mbit/s).
LOOPBACK_MBPS = 20_000.0
# Linux takes source ports from these.
PORTS = 32768, 60999
# Temperatures (degrees Celsius) at rest and with traffic, and how fast the board follows (s).
COOL, WARM, FOLLOWS_S = 45.0, 65.0, 60.0
# The temperature is computed once in so many samples.
LOOK = 5
DEVICE = "eth0"


class Clock:
    """Simulated time in seconds. Only `passes` and a sleep of the product let it pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def passes(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make the product use this clock, in one thread: a thread for each end costs more than all judging.

        Other programs of this machine are no part of the simulation, so they are not read. The counted samples of a
        flow are found once: the product finds them again for each rule, half of the time of a long connection.
        """
        with ExitStack() as stack:
            for where, name, value in (
                (time, "monotonic", lambda: self.now),
                (time, "sleep", self.passes),
                (undo, "ThreadPoolExecutor", _InOrder),
                (other_work, "_read_here", lambda: None),
                (Flow, "counted", _COUNTED),
            ):
                stack.enter_context(patch.object(where, name, value))
            yield


# Of a frozen dataclass, so that it never changes.
_COUNTED = cached_property(lambda flow: _COUNT(flow))
_COUNTED.__set_name__(Flow, "_counted_once")
_COUNT: Callable[[Flow], tuple[Sample, ...]] = Flow.counted.fget  # type: ignore[attr-defined]


class _InOrder:
    """Stands for a pool of threads."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _InOrder:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, call: Callable[[Any], T], targets: Iterable[Any]) -> Iterable[T]:
        return map(call, targets)


class Scope:
    """A day, a boot, a link-up or a connection, with what was drawn for it. Each draw is made once."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.drawn: dict[str, Any] = {}

    def once(self, name: str, draw: Callable[[random.Random], T]) -> T:
        if name not in self.drawn:
            self.drawn[name] = draw(self.source)
        found: T = self.drawn[name]
        return found


@dataclass
class Moment:
    """What the rate of a link may depend on. ``side`` is the build or state, "A" or "B".

    ``now_s`` is the clock. ``age_s`` counts from the answer of the booted board, ``traffic_s`` in the boot, ``number``
    since the link-up.
    ``hot`` is by how much the boot left the board hotter.
    """

    day: Scope
    boot: Scope
    link_up: Scope
    connection: Scope
    side: str = "A"
    number: int = 0
    now_s: float = 0.0
    age_s: float = 0.0
    link_age_s: float = 0.0
    traffic_s: float = 0.0
    celsius: float = COOL
    hot: float = 0.0
    port: int = 0


# The factor of the rate at a moment.
Behaviour = Callable[[Moment], float]


@dataclass(frozen=True)
class Kind:
    """A kind of link: how its rate behaves, beside the noise of ``base``; and how the lab uses it.

    ``hot_boots`` is by how much (K) a boot of build A and of build B leaves the board hotter, for HOT_S.
    ``reboots``: each run boots the board. ``before`` is the number of connections of other tests, which come first in
    half of the runs.
    """

    behaviour: Behaviour
    base: Link = QUIET
    hot_boots: tuple[float, float] = (0.0, 0.0)
    reboots: bool = True
    before: int = 0


# A boot leaves the board hotter for so long (s); then it cools down in the next COOLS_S.
HOT_S, COOLS_S = 20.0, 3.0


@dataclass
class Board:
    """The device under test and its link. ``slower`` is the change of the link in percent, ``side`` what it runs."""

    kind: Kind
    source: random.Random
    clock: Clock = field(default_factory=Clock)
    slower: float = 0.0
    slower_of_b: float = 0.0
    side: str = "A"

    def __post_init__(self) -> None:
        self.rx = [0, 0]
        self.tx = [0, 0]
        self.boots = 0
        self.carrier_changes = 0
        self.new_day()

    def new_day(self) -> None:
        """Begin another day: its first run boots the board."""
        self.clock.passes(86_400.0 - 3600.0)
        self.day = Scope(self.source)
        self.session: Session = self.kind.base.session(0, self.source)
        self.start_boot()

    def start_boot(self) -> None:
        """Boot the board, and wait until it answers."""
        self.boots += 1
        self.kernel_began = self.clock.now
        self.clock.passes(BOOT_S)
        self.boot = Scope(self.source)
        self.traffic_s, self._celsius, self._seen_at = 0.0, COOL, self.clock.now
        self.carrier_changes = 0
        self.link_went_up()

    def link_went_up(self) -> None:
        self.link_up, self.number = Scope(self.source), 0
        self.link_up_at = self.clock.now
        self.carrier_changes += 2 if self.carrier_changes else 1

    @property
    def hot(self) -> float:
        """By how much the boot left the board hotter (K)."""
        left = 1 - (self.clock.now - self.kernel_began - BOOT_S - HOT_S) / COOLS_S
        return self.kind.hot_boots[self.side == "B"] * min(max(left, 0.0), 1.0)

    def celsius(self, busy: bool = False) -> float:
        """Return the temperature now; ``busy``: there was traffic since the last look."""
        passed, self._seen_at = self.clock.now - self._seen_at, self.clock.now
        target = WARM if busy else COOL
        self._celsius += (target - self._celsius) * min(passed / FOLLOWS_S, 1.0)
        return self._celsius + self.hot

    def connect(self, seconds: float, port: int) -> list[float]:
        """Make a connection from this source port. Return its rates in Mbit/s per 0.1 s."""
        self.clock.passes(SET_UP_S)
        self.number += 1
        self.celsius()
        at = Moment(self.day, self.boot, self.link_up, Scope(self.source), self.side, self.number, port=port)
        change = SHARE * (1 - self.slower / 100) * (1 - self.slower_of_b / 100 if self.side == "B" else 1.0)
        rates, clock, answered, behaviour = [], self.clock, self.kernel_began + BOOT_S, self.kind.behaviour
        for index, rate in enumerate(self.session.connection(round(seconds))):
            if index % LOOK == 0:
                at.celsius, at.hot = self.celsius(busy=True), self.hot
            at.now_s, at.age_s = clock.now, clock.now - answered
            at.link_age_s, at.traffic_s = clock.now - self.link_up_at, self.traffic_s
            rates.append(rate * change * behaviour(at))
            clock.now += STEP_S
            self.traffic_s += STEP_S
        return rates


class _Process:
    """A process beside the traffic, which prints nothing."""

    def poll(self) -> int | None:
        return None

    def wait(self, timeout_s: float) -> Completed:
        return Completed(0, "", "")

    def stop(self) -> Completed:
        return Completed(0, "", "")

    def lines(self) -> list[str]:
        return []


class BoardShell:
    """A shell on one end of the link (0: the device under test). It answers what a verdict may depend on."""

    def __init__(self, name: str, board: Board, end: int) -> None:
        self.name = name
        self._board = board
        self._end = end

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        board, dut = self._board, self._end == 0
        if "@@pinet" in command:
            board.clock.passes(READING_S)
        if command == "uname -srvm":
            return _done("Linux 6.12.47+rpt-rpi-v8 #1 SMP PREEMPT Debian aarch64\n")
        if f"cd /sys/class/net/{DEVICE} " in command:
            return _done(self._interface())
        if command == "cat /proc/uptime":
            return _done(f"{board.clock.now - board.kernel_began if dut else board.clock.now:.2f} 1.00\n")
        if "/proc/sys/kernel/random/boot_id" in command and "@@pinet" not in command:
            return _done(f"boot-{board.boots if dut else 0}\n5\n")
        if f"ip link set {DEVICE} down" in command and f"ip link set {DEVICE} up" in command:
            board.clock.passes(LINK_UP_S)
            board.link_went_up()
        if "thermal_zone0/temp" in command:
            return _done(self._heat(command))
        return _done("")

    def spawn(self, command: str) -> _Process:
        return _Process()

    def _interface(self) -> str:
        board, end = self._board, self._end
        values = {
            "flags": "0x1003", "carrier": 1, "speed": 1000, "duplex": "full", "mtu": 1500,
            "address": f"02:00:00:00:00:0{end + 1}", "carrier_changes": board.carrier_changes,
            "statistics/rx_bytes": board.rx[end], "statistics/tx_bytes": board.tx[end], "timestamps": 1,
            "machine": "aarch64",
        }  # fmt: skip
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def _heat(self, command: str) -> str:
        celsius = self._board.celsius() if self._end == 0 else COOL
        value = f"{celsius * 1000:.0f}"
        path = "/sys/class/thermal/thermal_zone0/temp"
        text = f"{path}:{value}\n" if "grep -H" in command else f"{value}\n"
        return f"@@pinet \n{text}" if "@@pinet" in command else text


def _done(text: str) -> Completed:
    return Completed(0, text, "")


class BoardTool:
    """The traffic tool: connections of the board. Without a wanted source port, the kernel chooses one."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def prepare(self, job: TrafficJob) -> None: ...

    def measure(self, job: TrafficJob) -> Measurement:
        traffic, cap_s = job.traffic, job.warmup_cap_s
        seconds = traffic.seconds_with(cap_s)
        if job.watch is not None:
            job.watch()
        if job.dut is job.peer:
            rates = [LOOPBACK_MBPS] * round(seconds / STEP_S)
        else:
            rates = self._board.connect(seconds, wanted_port(job) or self._board.source.randint(*PORTS))
        samples = settle([_sample(index, rate) for index, rate in enumerate(rates)], cap_s)
        if job.dut is not job.peer:
            # With headers, as the devices count.
            total = round(sum(one.bytes for one in samples) * 1.05)
            self._board.tx[0] += total
            self._board.rx[1] += total
        flow = Flow(
            traffic.direction,
            samples,
            retransmits=0,
            other_samples=(Sample(0.0, seconds, 0),),
            events=find_events(samples, cap_s),
        )
        version = {"dut": "iperf 3.12", "peer": "iperf 3.12"}
        return Measurement(
            traffic, {traffic.direction: flow}, versions=version, cpu_percent={"dut": 20.0, "peer": 10.0}
        )


def _sample(index: int, rate: float) -> Sample:
    return Sample(index * STEP_S, STEP_S, round(rate * 1e6 / 8 * STEP_S))


def wanted_port(job: TrafficJob) -> int | None:
    """Return the source port that the product wants for this flow; None if it wants none."""
    where: tuple[TrafficJob | Traffic, ...] = (job, job.traffic)
    found = (getattr(one, name, None) for one in where for name in ("cport", "source_port"))
    return next((port for port in found if port), None)
