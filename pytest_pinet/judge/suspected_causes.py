"""Differences between two builds besides goodput: the first things to check if one of them is slower."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from pytest_pinet.model.evidence import Suspect

# A smaller ratio of costs explains nothing: a slower build has slightly higher values of most costs per bit.
LEAST_RATIO = 1.3
# Costs must differ by so many standard deviations of the connections.
LEAST_APART = 4.0
# If both costs are below this, there is no cost (per Gbit, or a share).
NEXT_TO_NOTHING = 1e-3
MOST_COSTS = 3
# Numeric settings that differ by at most this share are alike: a kernel that needs more memory has smaller limits.
LEAST_APART_OF_NUMBERS = 0.25
# Values of a setting that is off, or that a kernel or driver does not know: equal for a packet.
NOTHING = {"off", "n/a", "TX:"}
# Stands for the value of a setting that an end does not have.
ABSENT = "absent"


def of_settings(a: Sequence[Mapping[str, str]], b: Sequence[Mapping[str, str]]) -> list[Suspect]:
    """Return settings that are equal in all boots of A and equal in all boots of B, but differ between A and B.

    Settings that both builds know come first.
    """
    found = []
    for name in sorted({name for boot in (*a, *b) for name in boot}):
        in_a, in_b = ({boot.get(name) for boot in boots} for boots in (a, b))
        if len(in_a) != 1 or len(in_b) != 1 or in_a == in_b:
            continue
        (one,), (two,) = in_a, in_b
        if _same(one, two):
            continue
        before, after = one or ABSENT, two or ABSENT
        found.append(Suspect(name, before, after, f"{name}: {before} -> {after}"))
    return sorted(found, key=lambda suspect: ABSENT in (suspect.a, suspect.b))


def _same(one: str | None, two: str | None) -> bool:
    """Return whether both values are off, or are nearly equal numbers: a kernel sizes buffers by its free memory."""
    if all(value is None or set(value.split()) <= NOTHING for value in (one, two)):
        return True
    before, after = (one or "").split(), (two or "").split()
    if len(before) != len(after) or not all(word.isdigit() for word in before + after):
        return False
    return all(abs(int(a) - int(b)) <= LEAST_APART_OF_NUMBERS * int(a) for a, b in zip(before, after, strict=True))


def of_costs(a: Sequence[Mapping[str, float]], b: Sequence[Mapping[str, float]]) -> list[Suspect]:
    """Return costs that differ much more between the builds than between connections, the largest ratio first."""
    ranked = []
    for name in sorted({name for one in (*a, *b) for name in one}):
        in_a = [one[name] for one in a if name in one]
        in_b = [one[name] for one in b if name in one]
        if not in_a or not in_b:
            continue
        before, after = fmean(in_a), fmean(in_b)
        if max(before, after) <= NEXT_TO_NOTHING:
            continue
        ratio = (after + NEXT_TO_NOTHING) / (before + NEXT_TO_NOTHING)
        apart = abs(after - before)
        within = max(pstdev(in_a), pstdev(in_b))
        if max(ratio, 1 / ratio) < LEAST_RATIO or apart < LEAST_APART * within:
            continue
        ranked.append((abs(math.log(ratio)), Suspect(name, _short(before), _short(after), _text(name, before, after))))
    ranked.sort(key=lambda entry: -entry[0])
    return [suspect for _, suspect in ranked[:MOST_COSTS]]


def _text(name: str, before: float, after: float) -> str:
    if before <= NEXT_TO_NOTHING:
        return f"{name}: none -> {_short(after)}"
    return f"{name}: {_short(before)} -> {_short(after)} ({(after / before - 1) * 100:+.0f} %)"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
