"""Samples the bytes and the carrier of a link end's device ten times a second (five without bash).

A shell script runs at the end itself, so that samples keep their time when the connection to the runner is slow. The
script needs only ``sh`` and ``sleep`` there, and costs least with ``bash`` (benchmarks.observer).
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import dropwhile, pairwise
from types import TracebackType

from pytest_pinet.errors import PinetError
from pytest_pinet.evidence.counting import grown, is_count, link_speed
from pytest_pinet.execution.shell import Process, Shell
from pytest_pinet.judge.starts import settle
from pytest_pinet.model.measurement import Event, EventKind, Sample, rate_of

# Some drivers refresh their counters once a second, so a difference can include one more second of traffic.
REFRESH_S = 1.0
# Assumed for devices that report no speed: the speed of the fastest NIC of these boards that might report none.
SPEED_MBPS = 2500
# Of /proc/uptime, up to 31 years.
_UPTIME = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?")


@dataclass(frozen=True)
class CarrierReading:
    """One output line of an observer. None: the device does not report the value. A device that is down: no carrier."""

    uptime_s: float
    rx_bytes: int
    tx_bytes: int
    carrier: bool
    changes: int | None
    speed_mbps: int | None

    def received_since(self, before: CarrierReading) -> int | None:
        """Return the received bytes since an earlier reading; None if the counter restarted."""
        return grown(before.rx_bytes, self.rx_bytes, self._most_since(before))

    def began_anew(self, before: CarrierReading) -> bool:
        """Return whether the device's counters restarted; a 32-bit counter that wrapped is no restart."""
        if before.changes is not None and self.changes is not None and self.changes < before.changes:
            return True
        most = self._most_since(before)
        return self.received_since(before) is None or grown(before.tx_bytes, self.tx_bytes, most) is None

    def _most_since(self, before: CarrierReading) -> float:
        """Return the most bytes that one direction of the link can have carried since an earlier reading."""
        speed_mbps = max(self.speed_mbps or 0, before.speed_mbps or 0) or SPEED_MBPS
        return speed_mbps * 1e6 / 8 * (self.uptime_s - before.uptime_s + REFRESH_S)


def parse_reading(line: str) -> CarrierReading | None:
    """Parse a line such as ``12.34 1000 2000 1 2 up 1000``; None for a line of another form."""
    words = line.split()
    if len(words) != 7 or not _UPTIME.fullmatch(words[0]) or not all(is_count(word) for word in words[1:3]):
        return None
    return CarrierReading(
        float(words[0]),
        int(words[1]),
        int(words[2]),
        # Reading the carrier of a device that is down fails.
        carrier=words[3] == "1",
        changes=int(words[4]) if is_count(words[4]) else None,
        speed_mbps=link_speed(words[6]),
    )


def carrier_events(
    readings: Sequence[CarrierReading], port_name: str, started_s: float, wall: Callable[[float], datetime]
) -> tuple[Event, ...]:
    """Return an event for each time without carrier and each restart of the counters, sorted by start.

    ``started_s`` is the uptime at which traffic began. ``wall`` converts an uptime to the time of day. A link drop
    between two readings shows only in ``carrier_changes``. Such a drop is shorter than the time between the readings.
    """
    events: list[Event] = []
    down: CarrierReading | None = None

    def add_drop(begin: CarrierReading, end: CarrierReading, how: str, more: str = "", times: int = 1) -> None:
        text = f"link dropped{how} at {wall(begin.uptime_s):%H:%M:%S}, {port_name}{more}"
        lasted = end.uptime_s - begin.uptime_s
        events.append(Event(EventKind.LINK_DOWN, begin.uptime_s - started_s, lasted, text, times))

    for before, after in pairwise(readings):
        if after.began_anew(before):
            text = f"the counters of {port_name} restarted at {wall(after.uptime_s):%H:%M:%S}: the driver was restarted"
            events.append(Event(EventKind.RESTART, after.uptime_s - started_s, 0.0, text))
        changes = 0 if before.changes is None or after.changes is None else after.changes - before.changes
        if before.carrier and not after.carrier:
            down = after
        elif not before.carrier and after.carrier:
            begin = down or readings[0]
            earlier = (r.speed_mbps for r in reversed(readings) if r.uptime_s < begin.uptime_s and r.carrier)
            was, speed = next(earlier, None), after.speed_mbps
            slower = was is not None and speed is not None and speed != was
            more = f"; it came back at {speed} Mbit/s instead of {was}" if slower else ""
            add_drop(begin, after, f" for {after.uptime_s - begin.uptime_s:.1f} s", more)
            down = None
        elif after.carrier and changes >= 2:
            often = "" if changes < 4 else f" {changes // 2} times"
            how = f"{often} for less than {after.uptime_s - before.uptime_s:.1f} s"
            add_drop(before, after, how, times=changes // 2)
    if readings and not readings[-1].carrier:
        begin, last = down or readings[0], readings[-1]
        add_drop(begin, last, "", f", and stayed down for the last {last.uptime_s - begin.uptime_s:.1f} s")
    return tuple(sorted(events, key=lambda event: event.start_s))


@dataclass
class ExpectedChanges:
    """Carrier changes made on purpose, up to this count of the device. Readings before them belong to no run.

    ``before`` is the latest reading that does not show all these changes.
    """

    changes: int
    before: CarrierReading | None = None

    def after(self, reading: CarrierReading) -> tuple[CarrierReading, ...]:
        """Return the readings that the next run begins with; nothing while the expected changes are not all visible.

        Events after the expected changes stay visible: another link drop, or a driver that restarted its counters.
        """
        before, self.before = self.before, reading
        if before is None or before.changes is None or reading.changes is None:
            return (reading,) if reading.changes is None or reading.changes >= self.changes else ()
        if reading.changes > self.changes:
            # A made-up reading right after the expected changes. Its byte counts come from the new reading, because
            # the driver may have restarted its counters on purpose.
            bytes_now = {"rx_bytes": reading.rx_bytes, "tx_bytes": reading.tx_bytes}
            return replace(before, changes=self.changes, carrier=True, **bytes_now), reading
        if reading.changes == self.changes:
            return (reading,)
        return (before, reading) if reading.changes < before.changes else ()


# The observer may run this long after the traffic if it is not stopped.
LIFETIME_S = 20.0
# The rate covers the last RATE_S seconds. There is no rate if the last sample is older than STALE_S.
RATE_S = 0.5
STALE_S = 2.0
# Traffic flows from the first sample with this share of the highest rate on. Its start is found in its first seconds.
FLOWS = 0.1
START_S = 10.0

_RETRANSMITS = "retransmits"
# An output line: uptime in seconds, received and sent bytes, carrier, carrier changes, operstate, speed; "-" if a value
# cannot be read. With bash, a read with a timeout is the tick, so that no process is started. Its input is a sleep that
# lives as long as the observer may. Other shells start a sleep every 0.2 s, because starting it is most of their cost.
# The speed is read only after a link change, because some drivers read it from the PHY over USB. A driver that was
# reloaded has made a new folder of the same name. Once a second, a second sample follows a semicolon: "retransmits" and
# the TCP segments that this end has retransmitted since its boot.
_SCRIPT = r"""
exec 2>/dev/null
cd /sys/class/net/@device || exit 44
read -r up x </proc/uptime
end=$((${up%%.*} + @seconds))
(read -t 0.01 x)
if [ $? -gt 128 ]; then tick() { read -t 0.1 x; [ $? -gt 128 ] || exit 0; }
else tick() { sleep 0.2 || sleep 1; }; fi
seen=none
second=
while :; do
 read -r up x </proc/uptime
 [ "${up%%.*}" -lt "$end" ] || exit 0
 rx=; tx=; carrier=; changes=
 read -r rx <statistics/rx_bytes || cd /sys/class/net/@device; read -r tx <statistics/tx_bytes
 read -r carrier <carrier; read -r changes <carrier_changes
 news=
 if [ "$carrier/$changes" != "$seen" ]; then
  news=1; state=; speed=; seen=$carrier/$changes
  read -r state <operstate; read -r speed <speed
 fi
 line="$up ${rx:--} ${tx:--} ${carrier:--} ${changes:--} ${state:--} ${speed:--}"
 if [ "${up%%.*}" != "$second" ]; then
  second=${up%%.*}; sent=
  while read -r name a b c d e f g h i j k again x; do
   [ "$name" = Tcp: ] && sent=$again
  done </proc/net/snmp
  line="$line;retransmits ${sent:--}"
 fi
 @print
 tick
done
"""
# One packet a second: each line of its own would be a packet of ssh on the link under test. The samples are joined by
# semicolons, because bash writes each line of a longer text by a system call of its own.
_BATCHED = r"""lines="${lines:+$lines;}$line"
 if [ -n "$news" ] || [ "${up%%.*}" != "$last" ]; then echo "$lines" || exit 0; lines=; last=${up%%.*}; fi"""


def command(device: str, seconds: float, batched: bool = False) -> str:
    """Return the command line of an observer that ends by itself after ``seconds``.

    With ``batched`` it prints a line of several samples once a second, and at once after a link change.
    """
    life = f"{seconds:.0f}"
    script = _SCRIPT.replace("@device", shlex.quote(device)).replace("@seconds", life)
    script = shlex.quote(script.replace("@print", _BATCHED if batched else 'echo "$line" || exit 0'))
    return f"sleep {life} | {{ s=sh; command -v bash >/dev/null 2>&1 && s=bash; exec $s -c {script}; }}"


class Observer:
    """Watches one device of an end while the context lasts.

    Events name the device by ``port_name``, the switch port that it is cabled to (``sw1/p5``).

    The remote process lives for ``seconds``, the expected duration of the traffic, and LIFETIME_S more. Call ``ensure``
    before each run to start the process again if needed. Nothing here raises an error of the end: the traffic tool
    reports an end that is lost. ``batched``: our own connection uses this device, so the process prints seldom.
    """

    def __init__(self, shell: Shell, device: str, port_name: str, seconds: float, batched: bool = False) -> None:
        self._shell = shell
        self._device = device
        self._seconds = seconds
        self._batched = batched
        self._port_name = port_name
        self._open = False
        self._ends_s = 0.0
        self._process: Process | None = None
        self._readings: list[CarrierReading] = []
        self._lines: list[str] = []
        self._expected: ExpectedChanges | None = None
        # From the end's uptime to the runner's monotonic clock.
        self._offset_s: float | None = None
        self._heard_s = 0.0
        self._retransmits: int | None = None

    def __enter__(self) -> Observer:
        self._open = True
        self._start(self._seconds)
        return self

    def _start(self, seconds: float) -> None:
        # Up to a second early, because the process ends at a whole second of the end's clock.
        self._ends_s = time.monotonic() + seconds + LIFETIME_S - 1
        try:
            self._process = self._shell.spawn(command(self._device, seconds + LIFETIME_S, self._batched))
        except PinetError:
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        trouble = self._stop()
        if trouble is not None and error is not None:
            error.add_note(f"could not stop the process that samples {self._port_name}; it ends by itself: {trouble}")

    def _stop(self) -> PinetError | None:
        """Stop the remote process. Return the error if that failed."""
        self._read()
        process, self._process = self._process, None
        try:
            if process is not None:
                process.stop()
        except PinetError as trouble:
            return trouble
        return None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ensure(self, seconds: float) -> None:
        """Make sure that the observer watches for ``seconds`` from now.

        Call this before each run, while the context lasts.

        A process that has ended, or would end earlier, is started again. Its earlier readings then cause no events.
        """
        if not self._open or (self.alive and self._ends_s - time.monotonic() > seconds):
            return
        self._stop()
        # The end may have rebooted since, which resets its uptime.
        self._readings.clear()
        self._expected = None
        self._offset_s = None
        self._retransmits = None
        self._start(seconds)

    def accept(self, changes: int | None) -> None:
        """Forget the carrier changes up to this count of the device, because they were expected.

        None means that the device has no such count.

        Without this call, traffic that begins within 0.1 s of the changes would report them as its own.
        """
        self._read()
        if changes is None:
            return
        pending = self._expected.before if self._expected is not None else None
        last = self._readings[-1] if self._readings else pending
        self._readings.clear()
        self._expected = ExpectedChanges(changes, last)
        if last is not None and last.changes == changes:
            self._take(last)

    def rate(self) -> float | None:
        """Return the present receive rate in bit/s on the wire; None if there are no recent readings."""
        self._read()
        if not self._readings or time.monotonic() - self._heard_s > STALE_S:
            return None
        last = self._readings[-1]
        first = next(r for r in self._readings if r.uptime_s >= last.uptime_s - RATE_S - 0.05)
        seconds, received = last.uptime_s - first.uptime_s, last.received_since(first)
        return received * 8 / seconds if seconds > 0 and received is not None else None

    def mean_rate(self, started_s: float, cap_s: float) -> float | None:
        """Return the mean receive rate in bit/s on the wire, without the start of the traffic, as verdicts count.

        ``started_s`` (``time.monotonic``) is before the traffic, ``cap_s`` is its longest warm-up. None if there are no
        recent readings.
        """
        if self.rate() is None or self._offset_s is None:
            return None
        begin_s = started_s - self._offset_s
        readings = [one for one in self._readings if one.uptime_s >= begin_s]
        samples = [
            Sample(after.uptime_s - begin_s, after.uptime_s - before.uptime_s, after.received_since(before) or 0)
            for before, after in pairwise(readings)
        ]
        # Before the first bytes, the connection is set up.
        least = max((one.bps for one in samples), default=0.0) * FLOWS
        samples = list(dropwhile(lambda one: one.bps < least, samples))
        if not samples:
            return None
        first_s = samples[0].start_s
        start = [replace(one, start_s=one.start_s - first_s) for one in samples if one.start_s - first_s < START_S]
        return rate_of(samples[sum(one.warmup for one in settle(start, cap_s)) :]).bps

    def retransmits(self) -> int | None:
        """Return the TCP segments that the end has retransmitted since its boot; None if it does not report them."""
        self._read()
        return self._retransmits

    def events(self, started_s: float) -> tuple[Event, ...]:
        """Return carrier changes and counter restarts since the start of the traffic (``time.monotonic``).

        Their times count from there. Changes before it are events of no run.
        """
        self._read()
        offset_s = self._offset_s
        if offset_s is None:
            return ()

        def wall(uptime_s: float) -> datetime:
            """Return the runner's local time at this uptime."""
            return datetime.now() - timedelta(seconds=time.monotonic() - (uptime_s + offset_s))

        found = carrier_events(self._readings, self._port_name, started_s - offset_s, wall)
        return tuple(event for event in found if event.start_s + event.seconds >= 0)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def _read(self) -> None:
        """Process the output since the last call."""
        if self._process is None:
            return
        lines = [sample for line in self._process.lines() for sample in line.split(";")]
        now = time.monotonic()
        readings = [reading for line in lines if (reading := parse_reading(line)) is not None]
        self._lines += lines
        for line in lines:
            name, _, count = line.partition(" ")
            if name == _RETRANSMITS and is_count(count):
                self._retransmits = int(count)
        if not readings:
            return
        for reading in readings:
            self._take(reading)
        self._heard_s = now
        # A line cannot arrive before it was written, so the smallest difference is nearest to the true offset.
        offset_s = now - readings[-1].uptime_s
        self._offset_s = offset_s if self._offset_s is None else min(offset_s, self._offset_s)

    def _take(self, reading: CarrierReading) -> None:
        if self._expected is None:
            self._readings.append(reading)
        elif begins_with := self._expected.after(reading):
            self._readings += begins_with
            self._expected = None
