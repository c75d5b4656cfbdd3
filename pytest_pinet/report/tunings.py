"""The outcome of tunings in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.tuning import Tuned


def tuning_notes(tunings: Iterable[Tuned]) -> list[str]:
    """Return a note for each setting without effect."""
    return [f"{one} (the value was measured without it)" for one in dict.fromkeys(tunings) if not one.outcome.holds]


def ineffective(results: Sequence[ResultRecord]) -> list[str]:
    """Return a line for each setting without effect, once per run."""
    tunings = [tuned for result in results for tuned in result.tunings or ()]
    return list(dict.fromkeys(str(one) for one in tunings if not one.outcome.holds))
