"""What a reader must know of figures from links that ran at less than their rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def scale_text(results: Iterable[Mapping[str, Any]]) -> str:
    """One clause on all of these results; empty where every link ran at full rate."""
    return text_of(float(result.get("scale", 1.0)) for result in results)


def text_of(scales: Iterable[float]) -> str:
    """The same of the shares themselves."""
    shares = sorted({share for share in scales if share != 1})
    if not shares:
        return ""
    return f"links ran at {' and '.join(f'{share:g}' for share in shares)} of their rate; figures are told at full rate"
