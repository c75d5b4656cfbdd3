"""One try at a figure: what a fresh connection gave, and what happened during it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.model.events import Event
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate


class Fresh(StrEnum):
    """What was new for an attempt; the spread between attempts has a part from each of these."""

    CONNECTION = "connection"
    LINK = "link-up"
    BOOT = "boot"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Attempt:
    """One direction (or the sum of several flows, or one of them) of one traffic run on a fresh connection.

    ``samples`` are the receiver's, the warm-up among them. ``excluded`` says why it gives no figure (empty: it does):
    what was obtained before a fault is evidence, and nothing else.
    """

    samples: tuple[Sample, ...]
    fresh: Fresh = Fresh.CONNECTION
    events: tuple[Event, ...] = ()
    excluded: str = ""

    @property
    def counted(self) -> tuple[Sample, ...]:
        """The samples after the warm-up."""
        return tuple(s for s in self.samples if not s.warmup)

    @property
    def seconds(self) -> float:
        """Counted seconds."""
        return sum(s.seconds for s in self.counted)

    @property
    def traffic_seconds(self) -> float:
        """All seconds of traffic, the warm-up included."""
        return sum(s.seconds for s in self.samples)

    @property
    def goodput(self) -> Bitrate:
        """Received bytes over covered seconds of what counts."""
        seconds = self.seconds
        return Bitrate(sum(s.bytes for s in self.counted) * 8 / seconds) if seconds > 0 else Bitrate(0.0)
