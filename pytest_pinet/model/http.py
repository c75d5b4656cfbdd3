"""What a load generator said of the requests that it made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HttpReport:
    """One run: ``requests`` were answered in ``seconds``, ``refused`` of them with another status than 2xx.

    ``read_bytes`` is all that was read, heads of responses included, to some 3 digits. ``connect``, ``read``, ``write``
    and ``timeout`` count what went wrong with connections. Latencies (s) are None where they were not told.
    """

    requests: int
    seconds: float
    read_bytes: float
    refused: int = 0
    connect: int = 0
    read: int = 0
    write: int = 0
    timeout: int = 0
    latency_mean_s: float | None = None
    latency_max_s: float | None = None
    latency_p99_s: float | None = None

    @property
    def good(self) -> int:
        """Requests that were answered as they must be."""
        return self.requests - self.refused

    @property
    def rate(self) -> float:
        """Good requests for each second."""
        return self.good / self.seconds if self.seconds > 0 else 0.0

    @property
    def troubles(self) -> dict[str, int]:
        """What failed, by what reports call it; empty where nothing did."""
        named = {
            "not answered with 2xx": self.refused,
            "no connection": self.connect,
            "failed to read": self.read,
            "failed to write": self.write,
            "timed out": self.timeout,
        }
        return {name: count for name, count in named.items() if count}
