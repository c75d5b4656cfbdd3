"""What the records of a watch say: hours, events by board and build, their rates and the verdict. No I/O."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_pinet.evidence.vitals import KINDS, STALL
from pytest_pinet.judge.event_rate import PER_H, Exposure, Occurrence, judge_builds, judge_limit, merged, sentence
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.watch.journal import Record

# A build that does not boot, or a link that does not open with it.
BOOT = "failed boot"
SEVERITY = (BOOT, *KINDS)
# Events that a report lists, at most.
LISTED = 20


@dataclass(frozen=True)
class Happened:
    """One event of a board in one turn of a build (side "" without builds), with what the first sign of it said."""

    node: str
    side: str
    event: Occurrence
    text: str


@dataclass
class Tally:
    """The hours and events of a watch. ``by_traffic``: only hours under traffic count."""

    by_traffic: bool = False
    builds: Sequence[str] = ()
    limit: float | None = None
    watched_s: dict[str, float] = field(default_factory=dict)
    loaded_s: dict[str, float] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def exposure(self, side: str | None = None, kind: str | None = None) -> Exposure:
        """Return the events of a build and of a kind (None: of all) in the hours that count."""
        seconds = self.loaded_s if self.by_traffic else self.watched_s
        hours = sum(value for key, value in seconds.items() if side in (None, key)) / 3600
        events = [one for one in self.happened if side in (None, one.side) and kind in (None, one.event.kind)]
        return Exposure(len(events), hours)

    @property
    def verdict(self) -> Verdict:
        """FAIL: B has more events than A, or more than the limit; without builds and limit, that there is an event.

        INCONCLUSIVE: nothing is certain, or no hour was watched.
        """
        if self.builds:
            found = judge_builds(self.exposure("A"), self.exposure("B"))
            if found is Verdict.INCONCLUSIVE and self.limit is not None:
                # Without events, the builds never differ. That B keeps a limit is an answer, too.
                keeps = judge_limit(self.exposure("B"), self.limit)
                return keeps if keeps is Verdict.PASS else found
            return found
        every = self.exposure()
        if self.limit is not None:
            return judge_limit(every, self.limit)
        if every.events:
            return Verdict.FAIL
        return Verdict.PASS if every.hours > 0 else Verdict.INCONCLUSIVE

    @property
    def is_final(self) -> bool:
        """Whether more hours would change nothing."""
        return bool(self.builds or self.limit is not None) and self.verdict is not Verdict.INCONCLUSIVE

    def lines(self) -> list[str]:
        """Return the report."""
        hours = "h under traffic" if self.by_traffic else "h"
        lines = []
        for one in self.happened[-LISTED:]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.event.start_s))
            lasted = one.event.end_s - one.event.start_s
            side = f" ({one.side})" if one.side else ""
            took = f", {lasted:.0f} s" if lasted >= 1 else ""
            lines.append(f"{when}  {one.node}{side}: {one.event.kind}{took}: {one.text}")
        if len(self.happened) > LISTED:
            lines.insert(0, f"{len(self.happened) - LISTED} earlier events are in the file")
        for side in ("A", "B") if self.builds else ("",):
            begin = f"{side} {self.builds[side == 'B']}: " if self.builds else ""
            seen = {one.event.kind for one in self.happened if one.side == side}
            for kind in (one for one in SEVERITY if one == STALL or one in seen):
                lines.append(begin + sentence(self.exposure(side, kind), kind, self.limit, hours))
            if not self.by_traffic and self.loaded_s.get(side):
                lines.append(f"{begin}{self.loaded_s[side] / 3600:.1f} of these hours were under traffic")
        return [*lines, *self.notes, *self._answer()]

    def _answer(self) -> list[str]:
        words = {Verdict.PASS: "pass", Verdict.FAIL: "regression" if self.builds else "fail"}
        answer = words.get(self.verdict, "undecided")
        if self.builds:
            a, b = self.exposure("A"), self.exposure("B")
            return [f"{answer}: {b.events} events of B in {b.hours:.1f} h, {a.events} of A in {a.hours:.1f} h"]
        if self.limit is not None:
            return [f"{answer}: the limit is {self.limit:g} events per {PER_H:,.0f} h"]
        return []


def tally(records: Sequence[Record]) -> Tally:
    """Return what these records say."""
    found = Tally()
    texts: dict[tuple[str, str], list[tuple[Occurrence, str]]] = {}
    begun: dict[tuple[str, str, str], tuple[float, str, str]] = {}
    turn: dict[str, str] = {}
    last_s = records[-1]["t"] if records else 0.0

    def end(key: tuple[str, str, str], at_s: float) -> None:
        start_s, text, of = begun.pop(key)
        texts.setdefault((key[0], of), []).append((Occurrence(start_s, max(at_s, start_s), key[1]), text))

    for one in records:
        node = one.get("node", "")
        match one["what"]:
            case "begin":
                found.by_traffic |= bool(one.get("traffic"))
                found.builds = one.get("builds") or ()
                found.limit = one.get("limit", found.limit)
                # What went on when the watch ended is over, as far as is known.
                for key in list(begun):
                    end(key, one["t"])
            case "turn":
                turn[node] = f"{one['side']}{one['number']}"
                for key in [key for key in begun if key[0] == node]:
                    end(key, one["t"])
            case "alive":
                for name, (watched, loaded) in one["of"].items():
                    side = turn.get(name, "")[:1]
                    found.watched_s[side] = found.watched_s.get(side, 0.0) + watched
                    found.loaded_s[side] = found.loaded_s.get(side, 0.0) + loaded
            case "sign":
                key = node, one["kind"], one.get("part", "")
                if key in begun:
                    if one.get("over"):
                        end(key, one["t"])
                    continue
                begun[key] = one["t"], one["text"], turn.get(node, "")
                if one.get("over"):
                    end(key, one["t"])
            case "note":
                if one["text"] not in found.notes:
                    found.notes.append(one["text"])
    for key in list(begun):
        end(key, last_s)
    for (name, of), parts in texts.items():
        for event in merged([occurrence for occurrence, _ in parts], SEVERITY):
            inside = [part for part in parts if event.start_s <= part[0].start_s <= event.end_s]
            text = next((said for occurrence, said in inside if occurrence.kind == event.kind), "")
            found.happened.append(Happened(name, of[:1], event, text))
    found.happened.sort(key=lambda one: one.event.start_s)
    return found
