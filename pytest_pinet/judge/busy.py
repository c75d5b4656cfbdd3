"""Find other work on the ends during the traffic: other programs, and processor time that a hypervisor or quota took.

Only user processes excuse a low value. A kernel thread that burns a CPU is the fault of a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pytest_pinet.judge.attempts import Try
from pytest_pinet.judge.circumstances import Excuse
from pytest_pinet.model.evidence import EndEvidence

# Shares of one CPU over an attempt, above which a value below its limit is invalid.
OTHERS = 0.30
STOLEN = 0.05
# Goodput falls by more than the share of stolen time, since TCP also slows down after losses, but not by more than this
# many times the share.
STOLEN_COSTS = 2.0
# So many attempts with other work are repeated in one measurement, and once more before a value is said to be too low.
MOST_REPEATS = 2


def is_busy(end: EndEvidence) -> bool:
    """Return whether other programs used so much that a low value says nothing."""
    return end.others is not None and end.others.share > OTHERS


def is_robbed(end: EndEvidence) -> bool:
    """Return whether so much processor time was stolen that a low value says nothing."""
    return end.stolen is not None and end.stolen > STOLEN


def disturbed(one: Try) -> str:
    """Return a sentence about other work or stolen time in an attempt; empty if there was none."""
    found = [say(end, who) for who, end in _machines(one) for applies, say in _KINDS if applies(end)]
    return "; ".join(found)


def undisturbed(tries: Sequence[Try]) -> list[Try] | None:
    """Return the tries, of which only the undisturbed ones count.

    Returns None if every try that counts was disturbed, or no try was.
    """
    found: dict[int, list[str]] = {}
    for number, one in enumerate(tries, 1):
        for who, end in _machines(one):
            for said in [say(end, who) for applies, say in _KINDS if applies(end)]:
                for each in _covered(number, end):
                    found.setdefault(each, []).append(said)
    counted = {number for number, one in enumerate(tries, 1) if not one.excluded}
    if not 0 < len(counted & found.keys()) < len(counted):
        return None
    return [
        replace(one, excluded="; ".join(found[number])) if number in counted & found.keys() else one
        for number, one in enumerate(tries, 1)
    ]


def excuses(tries: Sequence[Try]) -> list[Excuse]:
    """Return an excuse for a low value for each machine with other work."""
    return [
        *_excuses(tries, is_busy, _busy, "end this program, or keep it off the ends while tests run"),
        *_excuses(tries, is_robbed, _stolen, "give the machine processors of its own, or lift the quota"),
    ]


def _busy(end: EndEvidence, who: str) -> str:
    assert end.others is not None
    named = ", ".join(f"{one.name} (pid {one.pid}) {_percent(one.share)}" for one in end.others.programs)
    return f"other programs took {_percent(end.others.share)} of a CPU {who} ({named})"


def _stolen(end: EndEvidence, who: str) -> str:
    return f"a hypervisor or a quota took {_percent(end.stolen)} of a CPU {who}"


_KINDS = ((is_busy, _busy), (is_robbed, _stolen))


def _covered(number: int, end: EndEvidence) -> range:
    """Return the numbers of the tries that a reading covers; tries that were not read separately have one together."""
    return range(end.first_try or number, number + 1)


def _excuses(
    tries: Sequence[Try], applies: Callable[[EndEvidence], bool], say: Callable[[EndEvidence, str], str], act: str
) -> list[Excuse]:
    numbered = list(enumerate(tries, 1))
    counted = [(number, one) for number, one in numbered if not one.excluded] or numbered
    worst: dict[str, list[EndEvidence]] = {}
    seen: dict[str, set[int]] = {}
    for number, one in counted:
        for who, end in _machines(one):
            if applies(end):
                worst.setdefault(who, []).append(end)
                seen.setdefault(who, set()).update(_covered(number, end))

    def excuse(who: str, end: EndEvidence) -> Excuse:
        seen_in = sum(number in seen[who] for number, _ in counted)
        text = f"{say(end, who)} in {seen_in} of {len(counted)} connections\n  -> {act}"
        return Excuse(text, min(STOLEN_COSTS * (end.stolen or 0.0), 1.0) if applies is is_robbed else 1.0)

    return [excuse(who, max(ends, key=_size)) for who, ends in worst.items()]


def _size(end: EndEvidence) -> float:
    return (end.others.share if end.others is not None else 0.0) + (end.stolen or 0.0)


def _machines(one: Try) -> Iterator[tuple[str, EndEvidence]]:
    """Yield one end of each machine of an attempt, with words for the machine."""
    groups: dict[str, list[EndEvidence]] = {}
    for end in one.evidence:
        groups.setdefault(end.machine or end.end, []).append(end)
    for ends in groups.values():
        nodes = list(dict.fromkeys(end.end.partition(":")[0] for end in ends))
        yield f"of the machine that carries {' and '.join(nodes)}" if len(nodes) > 1 else f"of {nodes[0]}", ends[0]


def _percent(share: float | None) -> str:
    return f"{(share or 0.0) * 100:.0f} %"
