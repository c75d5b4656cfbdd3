"""Finds carrier changes in the readings of an observer, with their time and duration. This module does no I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pytest_pinet.evidence.counting import grown, is_count, link_speed
from pytest_pinet.model.measurement import Event, EventKind

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
            was, speed = _last_speed(readings, begin), after.speed_mbps
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


def _last_speed(readings: Sequence[CarrierReading], begin: CarrierReading) -> int | None:
    """Return the last speed before the drop."""
    return next((r.speed_mbps for r in reversed(readings) if r.uptime_s < begin.uptime_s and r.carrier), None)
