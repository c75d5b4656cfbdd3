"""Carrier changes that somebody made on purpose: readings from before them are none of the next run's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_pinet.evidence.carrier import Reading


@dataclass
class ExpectedChanges:
    """Those up to this count of the device's; ``before`` is the latest reading from before they are all seen."""

    changes: int
    before: Reading | None = None

    def after(self, reading: Reading) -> tuple[Reading, ...]:
        """What the next run begins with, from a reading that has all of them; nothing while they are not all seen.

        Whatever happened beyond them stays to be seen: one more drop, or a driver that was restarted and counts anew.
        """
        before, self.before = self.before, reading
        if before is None or before.changes is None or reading.changes is None:
            return (reading,) if reading.changes is None or reading.changes >= self.changes else ()
        if reading.changes > self.changes:
            # As it was right after them, whose bytes nobody knows: a driver that was restarted on purpose counts anew.
            bytes_now = {"rx_bytes": reading.rx_bytes, "tx_bytes": reading.tx_bytes}
            return replace(before, changes=self.changes, carrier=True, **bytes_now), reading
        if reading.changes == self.changes:
            return (reading,)
        return (before, reading) if reading.changes < before.changes else ()
