"""The records of traffic beside goodput: shared time, sockets, HTTP requests, pings and the UDP ladder."""

from __future__ import annotations

from pytest_pinet.model.record.base import Record


class WindowRecord(Record):
    """The time that all flows of one connection (numbered from 1) shared, in seconds after the start of the first flow.

    ``start_skew_s`` is the time between the first and the last start; null if an end does not report it.
    ``start_skew_within_s`` is its uncertainty (95 %).
    """

    connection: int
    start_s: float
    seconds: float
    start_skew_s: float | None
    start_skew_within_s: float | None = None


class SocketsRecord(Record):
    """What the kernels at both ends reported of a flow's connections during the traffic; null if one does not report.

    ``mss`` is the smallest one in use (bytes, without TCP options). ``sndbuf_bytes`` is the buffer of the
    sender, ``rcvbuf_bytes`` the buffer of the receiver.
    """

    connections: int
    mss: int
    rtt_s: float | None
    cwnd_bytes: int | None
    sndbuf_bytes: int | None
    rcvbuf_bytes: int | None


class HttpRoundRecord(Record):
    """One run of the HTTP client."""

    requests: int
    seconds: float
    requests_per_s: float
    latency_mean_s: float | None
    latency_p99_s: float | None
    failed: dict[str, int]


class HttpRecord(Record):
    """Requests for a cached file: successful requests per second over all rounds. One round is one run of wrk.

    ``failed`` counts failed requests by kind (``not answered with 2xx``, ``timed out``). A kind that did not occur has
    no key.
    """

    size_bytes: int
    connections: int
    requests_per_s: float
    failed: dict[str, int]
    rounds: tuple[HttpRoundRecord, ...]


class StepRecord(Record):
    """One rate of a ladder: the highest sent rate, the goodput, and whether the loss stayed within the bound.

    ``reached`` is false if the sender did not reach its rate.
    """

    rate_bps: float
    goodput_bps: float
    loss: float | None
    connections: int
    reached: bool
    held: bool


class LadderRecord(Record):
    """Increasing rates: ``knee_bps`` is the highest rate that held (all streams together), null if none held."""

    loss: float
    knee_bps: float | None
    steps: tuple[StepRecord, ...]


class PingRoundRecord(Record):
    """One series of echo requests. Times are in seconds; null if no reply came, or if the tool does not print it."""

    sent: int
    received: int
    rtt_min_s: float | None
    rtt_mean_s: float | None
    rtt_max_s: float | None
    rtt_mdev_s: float | None


class KselftestResultRecord(Record):
    """One line of TAP: ``outcome`` is ``pass``, ``fail`` or ``skip``, ``note`` the text behind ``#``."""

    name: str
    outcome: str
    note: str


class KselftestRecord(Record):
    """A selftest of the kernel (``drivers/net:ping.py``): its results, and how many it ``planned`` (null: no plan)."""

    test: str
    planned: int | None
    results: tuple[KselftestResultRecord, ...]


class PingRecord(PingRoundRecord):
    """All series together, and each series in ``rounds``. ``rtt_mdev_s`` is that of the last series."""

    size_bytes: int
    interval_s: float
    loss: float
    rounds: tuple[PingRoundRecord, ...]
