"""Heartbeats. labgrid keeps a place acquired for ever, so the holder must show that it is alive.

A holder writes a counter into a tag of one of its places, however many places it has. The coordinator sends the tag to
all processes. They check by their own clock whether the counter still changes, so no clocks are compared between hosts.
The mark in the tag identifies the holder: a tag that a crashed holder left behind does not count for the next one. A
holder without an identity of this plugin, such as a user of labgrid-client, is never considered dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.lab.labgrid.identity import Identity

TAG = "pinet_lease"
BEAT_S = 3.0
# Five beats: on a busy machine some beats may be late. With the time of one check the total stays well below 30 s.
STILL_S = 15.0


@dataclass(frozen=True)
class Heartbeat:
    """The content of the tag: the holder's mark, the sequence number, and the start of the lease (s since 1970)."""

    mark: str
    count: int
    since: float

    def __str__(self) -> str:
        return f"{self.mark}.{self.count}.{self.since:.0f}"

    @classmethod
    def parse(cls, text: str | None) -> Heartbeat | None:
        mark, _, rest = (text or "").partition(".")
        count, _, since = rest.partition(".")
        return cls(mark, int(count), float(since)) if mark and count.isdecimal() and since.isdecimal() else None

    @classmethod
    def of(cls, holder: Identity, text: str | None) -> Heartbeat | None:
        """Return the heartbeat in a tag's text, or None if there is none of this holder."""
        beat = cls.parse(text)
        return beat if beat is not None and beat.mark == holder.mark else None


class Watch:
    """Finds holders whose heartbeat has stopped, from the counters that this process has seen."""

    def __init__(self, still_s: float = STILL_S) -> None:
        self._still_s = still_s
        self._seen: dict[Identity, tuple[int | None, float]] = {}

    def look(self, counts: Mapping[Identity, int | None], watched_s: float) -> list[Identity]:
        """Update the counter of each holder (None: no beat yet); return the holders that are dead.

        ``watched_s`` is how long their beats could have been seen since the last look. It is 0 if the coordinator did
        not answer in between, so that an outage of the coordinator makes no holder count as dead.
        """
        seen: dict[Identity, tuple[int | None, float]] = {}
        for holder, count in counts.items():
            before, still_s = self._seen.get(holder, (count, -watched_s))
            seen[holder] = (count, still_s + watched_s if count == before else 0.0)
        self._seen = seen
        return [holder for holder, (_, still_s) in seen.items() if still_s >= self._still_s]
