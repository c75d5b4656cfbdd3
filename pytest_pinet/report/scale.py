"""The note on values from links that ran below their rate."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_pinet.model.record.result import ResultRecord


def scale_text(results: Iterable[ResultRecord]) -> str:
    """Return a note on all these results; empty if every link ran at full rate."""
    return text_of(result.scale or 1.0 for result in results)


def text_of(scales: Iterable[float]) -> str:
    """Return the note for these shares of the full link rate."""
    shares = sorted({share for share in scales if share != 1})
    if not shares:
        return ""
    listed = " and ".join(f"{share:g}" for share in shares)
    return f"links ran at {listed} of their rate; values are converted to full rate"
