"""Differences of counters that restart: a 32-bit counter wraps, and a driver restart sets counters to 0.

The kernel of a 32-bit Raspberry Pi OS and some NICs count bytes in 32 bits. Such a counter wraps after 34 s at 1
Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping

NARROW = 1 << 32


def is_count(text: str) -> bool:
    """Return whether a text is a counter of a kernel: ASCII digits, at most 2^64 - 1."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def link_speed(text: str) -> int | None:
    """Return the speed of a link in Mbit/s from sysfs; None for 0, for -1, and for the -1 of old kernels and drivers.

    They print it as a number of 16 or 32 bits without a sign (SPEED_UNKNOWN in ethtool.h).
    """
    speed = int(text) if is_count(text) else 0
    return None if speed in (0, 2**16 - 1, 2**32 - 1) else speed


def since(old: int, new: int) -> int:
    """Return the bytes between two readings.

    A counter that fell is assumed to have wrapped once, if it fits in 32 bits.
    """
    return (new - old) % NARROW if new < old < NARROW else new - old


def grown(old: int, new: int, most: float) -> int | None:
    """Return the bytes between two readings; None if the counter restarted. At most ``most`` bytes are possible.

    A counter that fell has wrapped only if this explains at most ``most`` bytes. All other falls are restarts.
    """
    if new >= old:
        return new - old
    found = since(old, new)
    return found if 0 <= found <= most else None


def rise(old: int, new: int) -> int | None:
    """Return the growth of an event counter, which may have wrapped at 32 bits; None if the counter restarted.

    A counter that fell has wrapped only if this explains a growth below 2^31.
    """
    return grown(old, new, NARROW // 2 - 1)


def rises(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int] | None:
    """Return the ``rise`` of each counter that is in both readings; None if one restarted, because then all did."""
    found = {name: rise(old[name], value) for name, value in new.items() if name in old}
    return None if None in found.values() else {name: value for name, value in found.items() if value is not None}


def rises_by_cpu(
    old: Mapping[str, Mapping[int, int]], new: Mapping[str, Mapping[int, int]]
) -> dict[str, tuple[int, ...]] | None:
    """Return the ``rises`` of counters per CPU, ordered by CPU number. Only CPUs in both readings count."""
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
