"""Round trips of single packets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ping:
    """The parameters of a ping: ``count`` echo requests with ``size`` bytes of payload, one every ``interval_s``."""

    count: int = 10
    interval_s: float = 0.2
    size: int = 56

    @property
    def key(self) -> str:
        """The part of an id that describes the ping; stable across runs."""
        return f"ping-c{self.count}-i{self.interval_s:g}-s{self.size}"

    @property
    def seconds(self) -> float:
        """How long sending takes."""
        return self.count * self.interval_s


@dataclass(frozen=True)
class PingReport:
    """The result of a ping. Round trips (s) are None without a reply; ``mdev_s`` also if the tool does not print it."""

    sent: int
    received: int
    min_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    mdev_s: float | None = None

    @property
    def loss(self) -> float:
        """The share (0 to 1) of requests without a reply."""
        return 1 - self.received / self.sent if self.sent else 0.0
