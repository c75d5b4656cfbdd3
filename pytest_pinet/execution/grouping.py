"""Puts values with the same key together, and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in the order of the first value of each."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def occurrences(keys: Iterable[Hashable]) -> Iterator[int]:
    """Yield for each key how often it occurred so far, from 1."""
    seen: Counter[Hashable] = Counter()
    for key in keys:
        seen[key] += 1
        yield seen[key]
