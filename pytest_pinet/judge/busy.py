"""Find other work on the ends during the traffic: other programs, and processor time that a hypervisor or quota took.

Only user processes excuse a low value. A kernel thread that burns a CPU is the fault of a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pytest_pinet.judge.attempts import Try
from pytest_pinet.model.evidence import EndEvidence

# Shares of one CPU over an attempt, above which a value below its limit is invalid.
OTHERS = 0.30
STOLEN = 0.05
# So many attempts with other work are repeated in one measurement.
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


def excuses(tries: Sequence[Try]) -> list[str]:
    """Return a sentence for each machine whose other work explains a low value; a second line says what to do."""
    return [
        *_sentences(tries, is_busy, _busy, "end this program, or keep it off the ends while tests run"),
        *_sentences(tries, is_robbed, _stolen, "give the machine processors of its own, or lift the quota"),
    ]


def _busy(end: EndEvidence, who: str) -> str:
    assert end.others is not None
    named = ", ".join(f"{one.name} (pid {one.pid}) {_percent(one.share)}" for one in end.others.programs)
    return f"other programs took {_percent(end.others.share)} of a CPU {who} ({named})"


def _stolen(end: EndEvidence, who: str) -> str:
    return f"a hypervisor or a quota took {_percent(end.stolen)} of a CPU {who}"


_KINDS = ((is_busy, _busy), (is_robbed, _stolen))


def _sentences(
    tries: Sequence[Try], applies: Callable[[EndEvidence], bool], say: Callable[[EndEvidence, str], str], act: str
) -> list[str]:
    numbered = list(enumerate(tries, 1))
    counted = [(number, one) for number, one in numbered if not one.excluded] or numbered
    worst: dict[str, list[EndEvidence]] = {}
    seen: dict[str, set[int]] = {}
    for number, one in counted:
        for who, end in _machines(one):
            if applies(end):
                worst.setdefault(who, []).append(end)
                # Attempts that were not read separately have one reading together.
                seen.setdefault(who, set()).update(range(end.first_try or number, number + 1))
    return [
        f"{say(max(ends, key=_size), who)} in {sum(number in seen[who] for number, _ in counted)} of {len(counted)} "
        f"connections\n  -> {act}"
        for who, ends in worst.items()
    ]


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
