"""Carrier changes in the readings of an observer, with their time and length; pure but for what is passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pytest_pinet.evidence.counting import grown
from pytest_pinet.model.events import Event, EventKind

# Some drivers refresh their counters once a second: what came in that time may come between two readings.
REFRESH_S = 1.0
# Of a device that does not tell its speed: as fast as the fastest NIC of these boards that may not.
SPEED_MBPS = 2500


@dataclass(frozen=True)
class Reading:
    """One line of an observer; None is what the device does not tell. A device that is down has no carrier."""

    uptime_s: float
    rx_bytes: int
    tx_bytes: int
    carrier: bool
    changes: int | None
    speed_mbps: int | None

    def received_since(self, before: Reading) -> int | None:
        """Bytes; None when the counter began anew."""
        return grown(before.rx_bytes, self.rx_bytes, self._most_since(before))

    def began_anew(self, before: Reading) -> bool:
        """Whether the device's counters are not those of before, which no 32-bit counter's end explains."""
        if before.changes is not None and self.changes is not None and self.changes < before.changes:
            return True
        most = self._most_since(before)
        return self.received_since(before) is None or grown(before.tx_bytes, self.tx_bytes, most) is None

    def _most_since(self, before: Reading) -> float:
        """What one direction of the link can have carried, in bytes."""
        speed_mbps = max(self.speed_mbps or 0, before.speed_mbps or 0) or SPEED_MBPS
        return speed_mbps * 1e6 / 8 * (self.uptime_s - before.uptime_s + REFRESH_S)


def parse_reading(line: str) -> Reading | None:
    """Read ``12.34 1000 2000 1 2 up 1000``; None for a line that is none."""
    words = line.split()
    if len(words) != 7 or not all(word.isdigit() for word in words[1:3]):
        return None
    try:
        uptime_s = float(words[0])
    except ValueError:
        return None
    speed = int(words[6]) if words[6].isdigit() else 0
    return Reading(
        uptime_s,
        int(words[1]),
        int(words[2]),
        # Reading the carrier of a device that is down fails.
        carrier=words[3] == "1",
        changes=int(words[4]) if words[4].isdigit() else None,
        speed_mbps=speed or None,
    )


def carrier_events(
    readings: Sequence[Reading], port_name: str, started_s: float, wall: Callable[[float], datetime]
) -> tuple[Event, ...]:
    """Each time without a carrier, and each restart of the counters, by their start.

    ``started_s`` is the uptime at which traffic began, ``wall`` turns an uptime into the time of day. A drop between
    two readings is known by ``carrier_changes`` alone, and shorter than what lies between them.
    """
    events = []
    down: Reading | None = None
    for before, after in pairwise(readings):
        if after.began_anew(before):
            text = (
                f"the counters of {port_name} began anew at {wall(after.uptime_s):%H:%M:%S}: the driver was restarted"
            )
            events.append(Event(EventKind.RESTART, after.uptime_s - started_s, 0.0, text))
        changes = 0 if before.changes is None or after.changes is None else after.changes - before.changes
        if before.carrier and not after.carrier:
            down = after
        elif not before.carrier and after.carrier:
            begin = readings[0] if down is None else down
            events.append(_dropped(begin, after, port_name, started_s, wall, _last_speed(readings, begin)))
            down = None
        elif after.carrier and changes >= 2:
            events.append(_blinked(before, after, changes // 2, port_name, started_s, wall))
    last = readings[-1] if readings else None
    if last is not None and not last.carrier:
        begin = readings[0] if down is None else down
        seconds = last.uptime_s - begin.uptime_s
        when = f"{wall(begin.uptime_s):%H:%M:%S}"
        text = f"link dropped at {when}, {port_name}, and stayed down for the last {seconds:.1f} s"
        events.append(Event(EventKind.LINK_DOWN, begin.uptime_s - started_s, seconds, text))
    return tuple(sorted(events, key=lambda event: event.start_s))


def _dropped(
    begin: Reading,
    end: Reading,
    port_name: str,
    started_s: float,
    wall: Callable[[float], datetime],
    speed_mbps: int | None,
) -> Event:
    seconds = end.uptime_s - begin.uptime_s
    text = f"link dropped for {seconds:.1f} s at {wall(begin.uptime_s):%H:%M:%S}, {port_name}"
    if speed_mbps is not None and end.speed_mbps is not None and end.speed_mbps != speed_mbps:
        text += f"; it came back at {end.speed_mbps} Mbit/s instead of {speed_mbps}"
    return Event(EventKind.LINK_DOWN, begin.uptime_s - started_s, seconds, text)


def _blinked(
    before: Reading,
    after: Reading,
    times: int,
    port_name: str,
    started_s: float,
    wall: Callable[[float], datetime],
) -> Event:
    seconds = after.uptime_s - before.uptime_s
    often = "" if times == 1 else f" {times} times"
    text = f"link dropped{often} for less than {seconds:.1f} s at {wall(before.uptime_s):%H:%M:%S}, {port_name}"
    return Event(EventKind.LINK_DOWN, before.uptime_s - started_s, seconds, text)


def _last_speed(readings: Sequence[Reading], begin: Reading) -> int | None:
    """The speed before the drop."""
    return next((r.speed_mbps for r in reversed(readings) if r.uptime_s < begin.uptime_s and r.carrier), None)
