"""The report of an HTTP load generator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HttpReport:
    """One run of a load generator: ``requests`` were answered in ``seconds``.

    ``refused`` of them had a status other than 2xx. ``read_bytes`` is everything that was read, including response
    headers, with about 3 significant digits. ``connect``, ``read``, ``write`` and ``timeout`` count connection errors.
    Latencies (s) are None if the tool did not print them.
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
        """The number of requests that were answered with 2xx."""
        return self.requests - self.refused

    @property
    def rate(self) -> float:
        """Good requests per second."""
        return self.good / self.seconds if self.seconds > 0 else 0.0

    @property
    def troubles(self) -> dict[str, int]:
        """The counts of failures, by their names in reports; empty if nothing failed."""
        named = {
            "not answered with 2xx": self.refused,
            "no connection": self.connect,
            "failed to read": self.read,
            "failed to write": self.write,
            "timed out": self.timeout,
        }
        return {name: count for name, count in named.items() if count}
