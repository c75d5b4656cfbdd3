"""What a run that failed had moved until then: evidence in words, never samples of a figure."""

from __future__ import annotations

import json

# A line of a report.
_LONGEST = 4000


def partial(stdout: str) -> str:
    """The rates of all intervals in a failed process's output, one line for each direction; empty where there are none.

    Forgiving, since what a process prints when it is ended may be anything.
    """
    try:
        report = json.loads(stdout)
    except (ValueError, RecursionError):
        return ""
    intervals = report.get("intervals") if isinstance(report, dict) else None
    rates: dict[str, list[str]] = {}
    for interval in intervals if isinstance(intervals, list) else ():
        for key in ("sum", "sum_bidir_reverse"):
            one = interval.get(key) if isinstance(interval, dict) else None
            if not isinstance(one, dict) or one.get("omitted") is True:
                continue
            start, seconds, octets = (one.get(word) for word in ("start", "seconds", "bytes"))
            if not isinstance(start, int | float) or not isinstance(seconds, int | float) or seconds <= 0:
                continue
            if not isinstance(octets, int | float):
                continue
            verb = "received" if one.get("sender") is False else "sent"
            line = rates.setdefault(verb, [f"from {start:.1f} s on, every {seconds:.1f} s:"])
            line.append(f"{octets * 8e-6 / seconds:.1f}")
    return "".join(f"{verb} (Mbit/s) {_cut(' '.join(words))}\n" for verb, words in rates.items())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
