"""The parsed report of one iperf3 process: sender or receiver, intervals, sums."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from pytest_pinet.errors import TrafficError
from pytest_pinet.model.measurement import Sample
from pytest_pinet.traffic import iperf3_json
from pytest_pinet.traffic.iperf3_command import Version
from pytest_pinet.traffic.iperf3_json import BadJson, Json
from pytest_pinet.traffic.iperf3_trouble import Output, explain

_SUMS = ("sum", "sum_bidir_reverse")
# Intervals follow one another to the microsecond. A larger gap means that iperf3 merged or lost some.
_SEAM_S = 0.05


@dataclass(frozen=True)
class Received:
    """One interval of what this end received; ``streams`` has the bytes of each stream."""

    sample: Sample
    streams: Counter[int]
    lost: int | None
    packets: int | None


@dataclass(frozen=True)
class Iperf3Report:
    """A parsed ``output``. Accessors raise BadJson if something is missing."""

    output: Output
    json: Json
    version: Version

    @property
    def start(self) -> Json:
        return iperf3_json.member(self.json, "start")

    @property
    def end(self) -> Json:
        return iperf3_json.member(self.json, "end")

    @property
    def test(self) -> Json:
        return iperf3_json.member(self.start, "test_start")

    @property
    def cookie(self) -> str:
        """The token that both processes of one run share."""
        return iperf3_json.text(self.start, "cookie")

    @property
    def bidirectional(self) -> bool:
        # 3.12 does not report this in test_start; only the keys show it.
        return any(key.endswith("_bidir_reverse") for key in self.end)

    @property
    def grain(self) -> float:
        """Bytes that a TCP receiver counts in one piece: with threads (3.16) a read waits for a whole block.

        The blocks of several streams arrive at different moments, so their sum varies by the square root of the number
        of streams.
        """
        if not self.version.threaded or iperf3_json.text(self.test, "protocol") != "TCP":
            return 0.0
        return iperf3_json.number(self.test, "blksize") * math.sqrt(iperf3_json.number(self.test, "num_streams"))

    def missed(self, shown: int, final: int, intervals: int) -> int:
        """Return the bytes that a receiver with threads does not count in its intervals, but in its final sum.

        A block that arrives after iperf3 has read the counter of an interval, and before it clears the counter, is in
        no interval. So these are whole blocks, at most one in each interval of a stream: 3 to 11 of 120 on a busy
        emulated board. 0 for any other difference.
        """
        block = int(iperf3_json.number(self.test, "blksize"))
        most = intervals * int(iperf3_json.number(self.test, "num_streams"))
        blocks, rest = divmod(final - shown, block) if self.grain else (0, 0)
        return blocks * block if not rest and 0 < blocks <= most else 0

    def intervals(self, sent: bool) -> Sequence[Sample]:
        """Return the intervals in which this end sent, or the intervals in which it received."""
        return self.sent if sent else [one.sample for one in self.received]

    @cached_property
    def sent(self) -> tuple[Sample, ...]:
        """The intervals in which this end sent; empty if it only received."""
        sums = [one for interval in iperf3_json.members(self.json, "intervals") for one in _sums(interval, sender=True)]
        return tuple(_sample(one) for one in sums)

    @property
    def rtt_s(self) -> float | None:
        """The mean round trip that this end's kernel saw as a sender, over all streams; None if it did not send."""
        sides = [
            iperf3_json.member(stream, "sender")
            for stream in iperf3_json.members(self.end, "streams")
            if "sender" in stream
        ]
        means = [iperf3_json.number(side, "mean_rtt") for side in sides if "mean_rtt" in side]
        known = [mean for mean in means if mean > 0]
        return sum(known) / len(known) / 1e6 if known else None

    @cached_property
    def received(self) -> list[Received]:
        """The intervals in which this end received, without intervals that ``-O`` omitted; empty if it only sent."""
        found = []
        for interval in iperf3_json.members(self.json, "intervals"):
            mine = _sums(interval, sender=False)
            if len(mine) > 1:
                raise BadJson("an interval has two sums of a receiver")
            if mine:
                found.append(_received(mine[0], iperf3_json.members(interval, "streams")))
        for before, after in pairwise(found):
            seam = after.sample.start_s - (before.sample.start_s + before.sample.seconds)
            if abs(seam) > _SEAM_S:
                what = "overlap by" if seam < 0 else "leave a gap of"
                raise BadJson(f"its intervals {what} {abs(seam):.1f} s (caused by iperf3's omit timer)")
        return found


@contextmanager
def trusted(output: Output) -> Iterator[None]:
    """Turn BadJson into the error for an output with missing or unexpected content."""
    try:
        yield
    except BadJson as error:
        raise TrafficError(
            f"the output of the iperf3 {output.role} on {output.end} cannot be trusted: {error}",
            f"repeat; if it happens again, look at which iperf3 is on {output.end}, and at what else prints there",
            output.evidence,
        ) from None


def read(output: Output) -> Iperf3Report:
    """Read the output of a process that must have succeeded.

    Raises the error that explains its output, and TrafficError for anything that is not one good JSON object.
    """
    if output.failed or not output.stdout.strip():
        raise explain(output)
    with trusted(output):
        json = iperf3_json.load(output.stdout)
        version = iperf3_json.text(iperf3_json.member(json, "start"), "version")
        try:
            return Iperf3Report(output, json, Version.parse(version))
        except ValueError as error:
            raise BadJson(str(error)) from None


def _sums(interval: Json, sender: bool) -> list[Json]:
    """Return the sums of an interval for the sender or for the receiver."""
    sums = [iperf3_json.member(interval, key) for key in _SUMS if key in interval]
    return [one for one in sums if one.get("sender") is sender and one.get("omitted") is not True]


def _sample(total: Json) -> Sample:
    return Sample(
        iperf3_json.number(total, "start"), iperf3_json.number(total, "seconds"), iperf3_json.count(total, "bytes")
    )


def _received(total: Json, streams: Sequence[Json]) -> Received:
    sample = _sample(total)
    parts: Counter[int] = Counter()
    for stream in streams:
        if stream.get("sender") is False:
            parts[iperf3_json.count(stream, "socket")] += iperf3_json.count(stream, "bytes")
    # A late datagram takes back a loss of an earlier interval, so the count may be negative.
    lost = total.get("lost_packets")
    packets = iperf3_json.count(total, "packets") if "packets" in total else None
    return Received(sample, parts, lost if isinstance(lost, int) else None, packets)
