"""One attempt: the goodput of a fresh connection, and what happened during it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pytest_pinet.model.measurement import Event, Sample, rate_of
from pytest_pinet.model.quantities import Bitrate


class Fresh(StrEnum):
    """What was new for an attempt: a connection, a link-up or a boot. Each adds to the spread between attempts."""

    CONNECTION = "connection"
    LINK = "link-up"
    BOOT = "boot"


@dataclass(frozen=True)
class Attempt:
    """One direction of one traffic run on a fresh connection: a single flow, or the sum of several flows.

    ``samples`` are the receiver's, including the warm-up. ``excluded`` says why the attempt gives no value (empty: it
    gives one). What was measured before a fault serves only as evidence. ``beside_link``: the reason in ``excluded``
    says nothing about the link, such as other programs on an end; so it makes no verdict ``marginal``.
    """

    samples: tuple[Sample, ...]
    fresh: Fresh = Fresh.CONNECTION
    events: tuple[Event, ...] = ()
    excluded: str = ""
    beside_link: bool = False

    def __hash__(self) -> int:
        # Rules cache what they found in an attempt. A hash of all samples would cost as much as most rules.
        return hash((self.fresh, self.excluded, len(self.samples), self.samples[-1:], self.events))

    @cached_property
    def counted(self) -> tuple[Sample, ...]:
        return tuple(s for s in self.samples if not s.warmup)

    @cached_property
    def seconds(self) -> float:
        return sum(s.seconds for s in self.counted)

    @property
    def traffic_seconds(self) -> float:
        """All seconds of traffic, the warm-up included."""
        return sum(s.seconds for s in self.samples)

    @cached_property
    def goodput(self) -> Bitrate:
        """Received bits over the seconds covered, of the counted samples."""
        return rate_of(self.counted)
