"""Byte counters that start over: at 32 bits of their own accord, from nothing when a driver is restarted.

The kernel of a 32-bit Raspberry Pi OS, and some NICs, count bytes in 32 bits: 34 s at 1 Gbit/s.
"""

from __future__ import annotations

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
