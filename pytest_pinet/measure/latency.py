"""Latency: round trips of probes at a fixed rate, on an idle link or beside other traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_pinet.errors import ConfigError
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.background import background
from pytest_pinet.measure.messages import Messages
from pytest_pinet.model.figures import LATE, P50, P90, P99, Figure, Sample
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import sockperf
from pytest_pinet.traffic.tool import LARGEST_DATAGRAM, Watch, check_whole

RATES = (10, 100_000)
# With fewer probes than this share, the sender paused, and a pause hides late answers.
LEAST_SENT = 0.8


@dataclass(frozen=True)
class Latency(Messages):
    """Probes over UDP, ``rate`` each second, from the device under test to its peer and back.

    ``after_s``: a later answer is late, a lost one is late, too; None counts no late ones. ``load`` is the direction of
    a TCP stream beside the probes; None is an idle link.
    """

    rate: int = 1000
    after_s: float | None = None
    load: Direction | None = None

    def __post_init__(self) -> None:
        self.check(LARGEST_DATAGRAM[self.setup.family])
        check_whole("rate", self.rate, *RATES)
        if self.after_s is not None and self.after_s <= 0:
            raise ConfigError("after=0: expected a duration such as '2 ms', longer than 0 s")

    @property
    def name(self) -> str:
        after = "" if self.after_s is None else f"-a{self.after_s * 1e3:g}ms"
        load = "" if self.load is None else f"-load-{self.load}"
        return f"latency-sockperf-s{self.size}-r{self.rate}{after}{load}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (P50, P90, P99) if self.after_s is None else (P50, P90, P99, LATE)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure once. Raises LabError, and InvalidMeasurement if the load ended before the probes."""
        raw: dict[str, str] = {}
        with background(link, None if self.load is None else Traffic(self.load), raw):
            trips, text, version = self.ask(link, watch, sockperf.under_load(self.rate), True, sockperf.trips)
        return Sample(self.values(trips), "\n".join([text, *raw.values()]), self.excluded(trips), tool=version)

    def excluded(self, trips: sockperf.Trips) -> str:
        """Return why these round trips do not count; empty if they count."""
        if trips.sent >= LEAST_SENT * self.rate * trips.seconds:
            return ""
        return f"the sender limits: it sent {trips.sent / trips.seconds:.0f} of {self.rate} probes for each second"

    def values(self, trips: sockperf.Trips) -> dict[str, float]:
        """Return the percentiles (s) and the share of late probes. A lost probe is later than all others."""
        lost = max(trips.sent - len(trips.rtts), 0)
        ranked = sorted(trips.rtts) + [max(self.seconds, *trips.rtts)] * lost
        shares = {P50: 0.5, P90: 0.9, P99: 0.99}
        found = {one.name: ranked[math.ceil(share * len(ranked)) - 1] for one, share in shares.items()}
        if self.after_s is not None:
            late = lost + sum(rtt > self.after_s for rtt in trips.rtts)
            found[LATE.name] = late / len(ranked)
        return found
