"""Ten times a second (five without bash) what a device has received and sent, and whether its link stands.

A shell script at the end itself, so that its samples keep their time when the way to the runner is slow; it needs
nothing there but ``sh`` and ``sleep``, and costs least with ``bash`` (benchmarks.observer).
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType

from pytest_pinet.errors import PinetError
from pytest_pinet.evidence.carrier import Reading, carrier_events, parse_reading
from pytest_pinet.evidence.expected import ExpectedChanges
from pytest_pinet.model.events import Event
from pytest_pinet.shell import Process, Shell

# What the observer may outlive the traffic by, should nobody end it.
LIFETIME_S = 20.0
# The latest rate is that of so many seconds, and none when the last sample is older than STALE_S.
RATE_S = 0.5
STALE_S = 2.0

# A line: seconds of uptime, received and sent bytes, carrier, carrier changes, operstate, speed; "-" is what cannot be
# read. A read that times out is a tick for which no process is started (bash; others start a sleep, every 0.2 s since
# that is most of their cost). Its input is a sleep which lives as long as the observer may. The speed is asked of the
# driver, and by some of those of the PHY, over USB: only after a change of the link. A driver that was loaded again
# made another folder of the same name.
_SCRIPT = r"""
exec 2>/dev/null
cd /sys/class/net/@device || exit 44
read -r up x </proc/uptime
end=$((${up%%.*} + @seconds))
(read -t 0.01 x)
if [ $? -gt 128 ]; then tick() { read -t 0.1 x; [ $? -gt 128 ] || exit 0; }
else tick() { sleep 0.2 || sleep 1; }; fi
seen=none
while :; do
 read -r up x </proc/uptime
 [ "${up%%.*}" -lt "$end" ] || exit 0
 rx=; tx=; carrier=; changes=
 read -r rx <statistics/rx_bytes || cd /sys/class/net/@device; read -r tx <statistics/tx_bytes
 read -r carrier <carrier; read -r changes <carrier_changes
 if [ "$carrier/$changes" != "$seen" ]; then
  state=; speed=; seen=$carrier/$changes
  read -r state <operstate; read -r speed <speed
 fi
 echo "$up ${rx:--} ${tx:--} ${carrier:--} ${changes:--} ${state:--} ${speed:--}" || exit 0
 tick
done
"""


def command(device: str, seconds: float) -> str:
    """The command line of an observer that ends by itself after ``seconds``."""
    life = f"{seconds:.0f}"
    script = shlex.quote(_SCRIPT.replace("@device", shlex.quote(device)).replace("@seconds", life))
    return f"sleep {life} | {{ s=sh; command -v bash >/dev/null 2>&1 && s=bash; exec $s -c {script}; }}"


@dataclass(frozen=True)
class _Clock:
    """What to add to an end's uptime to get the runner's monotonic clock."""

    offset_s: float

    def wall(self, uptime_s: float) -> datetime:
        """The runner's local time of that moment."""
        return datetime.now() - timedelta(seconds=time.monotonic() - (uptime_s + self.offset_s))


class Observer:
    """Watches one device while the context lasts; ``port_name`` is what events call it (``sw1/p5``).

    It lives at the end for ``seconds``, how long the traffic will take, and LIFETIME_S more, then ends by itself:
    ``ensure`` before each run starts it again where that is not enough. Nothing here ever raises what the end does: an
    end that is gone is told by the traffic itself.
    """

    def __init__(self, shell: Shell, device: str, port_name: str, seconds: float) -> None:
        self._shell = shell
        self._device = device
        self._seconds = seconds
        self._port_name = port_name
        self._open = False
        self._ends_s = 0.0
        self._process: Process | None = None
        self._readings: list[Reading] = []
        self._lines: list[str] = []
        self._expected: ExpectedChanges | None = None
        self._clock: _Clock | None = None
        self._heard_s = 0.0

    def __enter__(self) -> Observer:
        self._open = True
        self._start(self._seconds)
        return self

    def _start(self, seconds: float) -> None:
        # Up to a second early, since its end is a whole second of the end's clock.
        self._ends_s = time.monotonic() + seconds + LIFETIME_S - 1
        try:
            self._process = self._shell.spawn(command(self._device, seconds + LIFETIME_S))
        except PinetError:
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        trouble = self._stop()
        if trouble is not None and error is not None:
            error.add_note(f"the observer of {self._port_name} could not be stopped: {trouble}")

    def _stop(self) -> PinetError | None:
        """End its process, and return why it could not be ended."""
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
        """Whether its process runs at the end."""
        return self._process is not None and self._process.poll() is None

    def ensure(self, seconds: float) -> None:
        """Have it watch for ``seconds`` from now on; call it before each run, while the context lasts.

        One that has ended, or would before, is started afresh, and what it saw so far is then no event any more.
        """
        if not self._open or (self.alive and self._ends_s - time.monotonic() > seconds):
            return
        self._stop()
        # The end may have been booted since, which sets its uptime back.
        self._readings.clear()
        self._expected = None
        self._clock = None
        self._start(seconds)

    def accept(self, changes: int | None) -> None:
        """Forget the carrier changes up to this count of the device's (None: it has none): they were expected.

        Traffic that begins within a tenth of a second would have them among its own otherwise.
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
        """What the device receives now, in bit/s on the wire; None while nobody tells."""
        self._read()
        if not self._readings or time.monotonic() - self._heard_s > STALE_S:
            return None
        last = self._readings[-1]
        first = next(r for r in self._readings if r.uptime_s >= last.uptime_s - RATE_S - 0.05)
        seconds, received = last.uptime_s - first.uptime_s, last.received_since(first)
        return received * 8 / seconds if seconds > 0 and received is not None else None

    def events(self, started_s: float, ended_s: float | None = None) -> tuple[Event, ...]:
        """Carrier changes and counters that began anew while traffic ran, counted from its start.

        ``started_s`` and ``ended_s`` (None: now) are those of the traffic (``time.monotonic``): one observer may serve
        for several runs, and what happens between them is no event of any.
        """
        self._read()
        if self._clock is None:
            return ()
        found = carrier_events(self._readings, self._port_name, started_s - self._clock.offset_s, self._clock.wall)
        length_s = (time.monotonic() if ended_s is None else ended_s) - started_s
        return tuple(event for event in found if event.start_s + event.seconds >= 0 and event.start_s <= length_s)

    @property
    def text(self) -> str:
        """All that the end printed, as evidence."""
        return "".join(f"{line}\n" for line in self._lines)

    def _read(self) -> None:
        """Take in what has come since the last time."""
        if self._process is None:
            return
        lines = self._process.lines()
        now = time.monotonic()
        readings = [reading for line in lines if (reading := parse_reading(line)) is not None]
        self._lines += lines
        if not readings:
            return
        for reading in readings:
            self._take(reading)
        self._heard_s = now
        # A line cannot arrive before it was written: the smallest difference is the nearest to the truth.
        offset = now - readings[-1].uptime_s
        if self._clock is None or offset < self._clock.offset_s:
            self._clock = _Clock(offset)

    def _take(self, reading: Reading) -> None:
        if self._expected is None:
            self._readings.append(reading)
        elif begins_with := self._expected.after(reading):
            self._readings += begins_with
            self._expected = None
