"""Parts of the sentences that explain a decision."""

from __future__ import annotations


def percent(value: float) -> str:
    """Return ``3.2 %``, ``0.25 %`` or ``43 %`` for a fraction, with no more digits than are useful."""
    size = abs(value) * 100
    digits = 0 if size >= 9.95 else 1 if size >= 0.95 else 2
    return f"{size:.{digits}f} %"


def place(ratio: float) -> str:
    """Return where a value is: ``3.1 % above the limit``."""
    return f"{percent(ratio - 1)} {'above' if ratio >= 1 else 'below'} the limit"


def counted(connections: int, of: int | None = None) -> str:
    """Return ``1 connection``, ``3 of 3 connections``."""
    shown = connections if of is None else of
    return f"{'' if of is None else f'{connections} of '}{shown} connection{'' if shown == 1 else 's'}"
