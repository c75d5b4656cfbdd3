"""Round trips of single packets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ping:
    """What is sent: ``count`` echo requests of ``size`` bytes of payload, one every ``interval_s``."""

    count: int = 10
    interval_s: float = 0.2
    size: int = 56

    @property
    def key(self) -> str:
        """The stable part of an id."""
        return f"ping-c{self.count}-i{self.interval_s:g}-s{self.size}"

    @property
    def seconds(self) -> float:
        """How long it takes to send them."""
        return self.count * self.interval_s


@dataclass(frozen=True)
class PingReport:
    """What came back; round trips (s) are None where nothing did, ``mdev_s`` also where the tool does not tell it."""

    sent: int
    received: int
    min_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    mdev_s: float | None = None

    @property
    def loss(self) -> float:
        """The part (0 to 1) that did not come back."""
        return 1 - self.received / self.sent if self.sent else 0.0
