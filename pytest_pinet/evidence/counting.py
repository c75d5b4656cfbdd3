"""Byte counters that start over: at 32 bits of their own accord, from nothing when a driver is restarted.

The kernel of a 32-bit Raspberry Pi OS, and some NICs, count bytes in 32 bits: 34 s at 1 Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping

NARROW = 1 << 32


def since(old: int, new: int) -> int:
    """Bytes between two readings; a counter that fell is taken to have started over once, where 32 bits held it."""
    return (new - old) % NARROW if new < old < NARROW else new - old


def grown(old: int, new: int, most: float) -> int | None:
    """As ``since``, between readings in whose time at most ``most`` bytes can have come; None: it began anew.

    A restart is taken for a 32-bit counter's end only when it happened within ``most`` bytes of that.
    """
    if new >= old:
        return new - old
    found = since(old, new)
    return found if 0 <= found <= most else None


def rise(old: int, new: int) -> int | None:
    """By how much a counter of events grew, also past the end of its 32 bits; None: it began anew.

    A counter that fell is taken to have passed its end only when both readings are near it.
    """
    if new >= old:
        return new - old
    found = since(old, new)
    return found if 0 <= found < NARROW // 2 else None


def rises(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int] | None:
    """As ``rise``, of those that stand in both readings; None: one of them began anew, and so all did."""
    found = {name: rise(old[name], value) for name, value in new.items() if name in old}
    return None if None in found.values() else {name: value for name, value in found.items() if value is not None}


def rises_by_cpu(
    old: Mapping[str, Mapping[int, int]], new: Mapping[str, Mapping[int, int]]
) -> dict[str, tuple[int, ...]] | None:
    """As ``rises``, of counters that each CPU has; of the CPUs that were there both times, by their numbers."""
    flat = rises(_flat(old), _flat(new))
    if flat is None:
        return None
    return {
        name: tuple(flat[f"{name}/{cpu}"] for cpu in sorted(cpus) if f"{name}/{cpu}" in flat)
        for name, cpus in new.items()
        if name in old
    }


def _flat(table: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    return {f"{name}/{cpu}": value for name, cpus in table.items() for cpu, value in cpus.items()}
