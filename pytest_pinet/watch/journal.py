"""The file of a watch, and what it says: hours, events by board and build, their rates and the verdict.

The file has a JSON object in each line, written to the disk at once, so that a crash loses nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any

from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.evidence.vitals import DECAY, KINDS, SILENCE, STALL
from pytest_pinet.execution.files import writing
from pytest_pinet.judge.event_rate import PER_H, Event, Exposure, judge_builds, judge_limit, merged, sentence
from pytest_pinet.model.verdict import Verdict

NAME = "events.jsonl"
# The values depend on `what`.
Record = dict[str, Any]  # type: ignore[explicit-any]
# A build that does not boot, or a link that does not open with it.
BOOT = "failed boot"
SEVERITY = (BOOT, *KINDS)
# Events that a report lists, at most.
LISTED = 20
NO_TURN = ("", 0)


def read(folder: Path) -> list[Record]:
    """Return the records of a watch. A line that a crash cut off is left out. Raises ConfigError."""
    try:
        text = (folder / NAME).read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        raise ConfigError(f"{folder} has no {NAME}; expected the folder of a watch") from None
    except OSError as error:
        raise ConfigError(f"cannot read {folder / NAME}: {error.strerror}") from None
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            # It was cut off. A record may follow.
            continue
        if not _is_record(record):
            what = f"this is no record of a watch: {line[:100]}; remove the line"
            raise ConfigError(what, Where(str(folder / NAME), number))
        records.append(record)
    if text and not records:
        raise ConfigError(f"{folder / NAME} is no file of a watch")
    return records


# The fields of each kind of record that are read, and their types.
_FIELDS: Mapping[str, Mapping[str, type | UnionType]] = {
    "begin": {"builds": list, "limit": float | None},
    "turn": {"node": str, "side": str, "number": int},
    "alive": {"of": dict},
    "sign": {"node": str, "kind": str, "text": str, "part": str | None},
    "note": {"text": str},
    "boot": {"node": str, "id": str},
    "rate": {"node": str, "way": str, "bps": int},
}


def _is_record(value: Any) -> bool:  # type: ignore[explicit-any]
    fields = _FIELDS.get(str(value.get("what"))) if isinstance(value, dict) else None
    if fields is None or not all(isinstance(value.get(name), one) for name, one in {"t": float, **fields}.items()):
        return False
    pairs = value["of"].values() if "of" in fields else ()
    is_known = "kind" not in fields or value["kind"] in SEVERITY
    return is_known and all(isinstance(one, list) and [*map(type, one)] == [float, float] for one in pairs)


class Journal:
    """Appends records to the file of a watch. Only one process at a time may do so. Raises ConfigError, OutputError."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        with writing(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ConfigError(f"another `pinet watch` writes to {folder}; choose another folder") from None
        self.records = read(folder)
        if self.records and not self._path.read_bytes().endswith(b"\n"):
            self._write(b"\n")

    def add(self, at_s: float, what: str, **values: object) -> None:
        """Append a record of this time (s since 1970). Raises OutputError."""
        record: Record = {"t": round(float(at_s), 2), "what": what, **values}
        self.records.append(record)
        self._write(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        with writing(self._path):
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())

    def begin(self, about: Mapping[str, object], **values: object) -> None:
        """Begin or go on with a watch ``about`` a lab, boards and builds. Raises ConfigError if they were others."""
        first = next((record for record in self.records if record["what"] == "begin"), about)
        for key, what in (("lab", "of another lab"), ("nodes", "of other boards"), ("keys", "of other builds")):
            if first.get(key) != about.get(key):
                raise ConfigError(f"this folder has a watch {what}: {first.get(key)}; choose another folder")
        self.add(time.time(), "begin", **about, **values)

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class Tally:
    """The events of a watch, and its hours by build ("" without builds).

    ``builds`` are the names of A and B, ``limit`` is the rate to keep. ``by_traffic``: only hours under traffic count.
    """

    by_traffic: bool
    builds: Sequence[str]
    limit: float | None
    watched_s: Mapping[str, float]
    loaded_s: Mapping[str, float]
    events: Sequence[Event]
    notes: Sequence[str]

    def exposure(self, side: str | None = None, kind: str | None = None) -> Exposure:
        """Return the events of a build and of a kind (None: of all) in the hours that count."""
        seconds = self.loaded_s if self.by_traffic else self.watched_s
        hours = sum(value for key, value in seconds.items() if side in (None, key)) / 3600
        return Exposure(sum(side in (None, one.side) and kind in (None, one.kind) for one in self.events), hours)

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
        hours = "h under traffic" if self.by_traffic else "h"
        earlier = len(self.events) - LISTED
        lines = [f"{earlier} earlier events are in the file"] if earlier > 0 else []
        for one in self.events[-LISTED:]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.start_s))
            lasted = one.end_s - one.start_s
            side = f" ({one.side})" if one.side else ""
            took = f", {lasted:.0f} s" if lasted >= 1 else ""
            lines.append(f"{when}  {one.node}{side}: {one.kind}{took}: {one.text}")
        for side in ("A", "B") if self.builds else ("",):
            begin = f"{side} {self.builds[side == 'B']}: " if self.builds else ""
            seen = {STALL, *(one.kind for one in self.events if one.side == side)}
            for kind in (one for one in SEVERITY if one in seen):
                lines.append(begin + sentence(self.exposure(side, kind), kind, self.limit, hours))
            if not self.by_traffic and self.loaded_s.get(side):
                lines.append(f"{begin}{self.loaded_s[side] / 3600:.1f} of these hours were under traffic")
        lines += self.notes
        words = {Verdict.PASS: "pass", Verdict.FAIL: "regression" if self.builds else "fail"}
        answer = words.get(self.verdict, "undecided")
        if self.builds:
            a, b = self.exposure("A"), self.exposure("B")
            lines.append(f"{answer}: {b.events} events of B in {b.hours:.1f} h, {a.events} of A in {a.hours:.1f} h")
        elif self.limit is not None:
            lines.append(f"{answer}: the limit is {self.limit:g} events per {PER_H:,.0f} h")
        return lines


def tally(records: Sequence[Record]) -> Tally:
    """Return what these records say."""
    begins: list[Record] = []
    watched_s: dict[str, float] = defaultdict(float)
    loaded_s: dict[str, float] = defaultdict(float)
    notes: dict[str, None] = {}
    # By node: the side and the number of its turn. By node, kind and part: the trouble that goes on. By node and turn:
    # the trouble that is over.
    turns: dict[str, tuple[str, int]] = {}
    present: dict[tuple[str, str, str], Event] = {}
    past: dict[tuple[str, tuple[str, int]], list[Event]] = defaultdict(list)

    def end(at_s: float, *keys: tuple[str, str, str]) -> None:
        for key in keys:
            event = present.pop(key)
            past[event.node, turns.get(event.node, NO_TURN)].append(replace(event, end_s=max(at_s, event.start_s)))

    for one in records:
        at_s, node = one["t"], one.get("node", "")
        match one["what"]:
            case "begin":
                begins.append(one)
                # What went on when the watch ended is over, as far as is known.
                end(at_s, *present)
            case "turn":
                end(at_s, *[key for key in present if key[0] == node])
                turns[node] = one["side"], one["number"]
            case "boot":
                # It ends what samples have shown. ssh and our own traffic have signs of their own.
                end(at_s, *[key for key in present if key[0] == node and key[1] != SILENCE and key[2] != "traffic"])
            case "alive":
                for name, (watched, loaded) in one["of"].items():
                    side, _ = turns.get(name, NO_TURN)
                    watched_s[side] += watched
                    loaded_s[side] += loaded
            case "sign":
                key = node, one["kind"], one.get("part", "")
                if one["kind"] == DECAY and one.get("over") and key not in present:
                    # It began before this turn or watch, and is counted there.
                    continue
                side, _ = turns.get(node, NO_TURN)
                present.setdefault(key, Event(at_s, at_s, one["kind"], one["text"], node, side))
                if one.get("over"):
                    end(at_s, key)
            case "note":
                notes[one["text"]] = None
    end(records[-1]["t"] if records else 0.0, *present)
    events = [event for parts in past.values() for event in merged(parts, SEVERITY)]
    last: Record = begins[-1] if begins else {}
    return Tally(
        any(one.get("traffic") for one in begins),
        last.get("builds") or (),
        last.get("limit"),
        watched_s,
        loaded_s,
        sorted(events, key=lambda event: event.start_s),
        list(notes),
    )
