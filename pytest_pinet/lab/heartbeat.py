"""Signs of life: labgrid keeps a place acquired for ever, so its holder must show that it still lives.

A holder writes a count into a tag of one of its places (one for each holder, however many places it has); the
coordinator tells everybody. No clock is compared between hosts: who watches waits by its own clock whether the tag
still changes. The mark in the tag says whose it is, so that one that a crash left behind says nothing of the next
holder. A holder without our kind of identity, such as a user of labgrid-client, is never judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.lab.identity import Identity

TAG = "pinet_lease"
BEAT_S = 3.0
# Five beats: a busy machine may be late with some. With the look itself it stays well below 30 s.
STILL_S = 15.0


@dataclass(frozen=True)
class Beat:
    """What stands in the tag: whose it is, the how manieth it is, and since when the place is held (s since 1970)."""

    mark: str
    count: int
    since: float

    def __str__(self) -> str:
        return f"{self.mark}.{self.count}.{self.since:.0f}"

    @classmethod
    def parse(cls, text: str | None) -> Beat | None:
        mark, _, rest = (text or "").partition(".")
        count, _, since = rest.partition(".")
        return cls(mark, int(count), float(since)) if mark and count.isdecimal() and since.isdecimal() else None

    @classmethod
    def of(cls, holder: Identity, text: str | None) -> Beat | None:
        """The beat in a tag's text, if it is this holder's."""
        beat = cls.parse(text)
        return beat if beat is not None and beat.mark == holder.mark else None


class Watch:
    """Tells which holders have stopped beating, from what this process has seen of them."""

    def __init__(self) -> None:
        self._seen: dict[Identity, tuple[int | None, float]] = {}

    def look(self, counts: Mapping[Identity, int | None], watched_s: float) -> list[Identity]:
        """Take in each holder's latest count (None: no beat yet); the holders that are dead.

        ``watched_s`` is how long they could have been seen to beat since the last look: 0 when the coordinator did not
        answer in between, so that its own trouble is nobody's death.
        """
        seen: dict[Identity, tuple[int | None, float]] = {}
        for holder, count in counts.items():
            before, still_s = self._seen.get(holder, (count, -watched_s))
            seen[holder] = (count, still_s + watched_s if count == before else 0.0)
        self._seen = seen
        return [holder for holder, (_, still_s) in seen.items() if still_s >= STILL_S]
