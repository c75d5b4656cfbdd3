"""The outcome of tunings, as plain data and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.tuning import TuningRecord
from pytest_pinet.model.tuning import SettingOutcome, Tuned


def tuning_records(tunings: Iterable[Tuned]) -> tuple[TuningRecord, ...]:
    """Return the record of each setting once, in the order of application."""
    return tuple(
        TuningRecord(
            end=one.end,
            name=one.name,
            asked=one.asked,
            before=one.before,
            found=one.found,
            outcome=one.outcome.value,
            why=one.why,
        )
        for one in dict.fromkeys(tunings)
    )


def tuning_notes(tunings: Iterable[Tuned]) -> list[str]:
    """Return a note for each setting without effect."""
    return [f"{one} (the value was measured without it)" for one in dict.fromkeys(tunings) if not one.outcome.holds]


def ineffective(results: Sequence[ResultRecord]) -> list[str]:
    """Return a line for each setting without effect, once per run."""
    records = [record for result in results for record in result.tunings or ()]
    tunings = [Tuned(**{**record.model_dump(), "outcome": SettingOutcome(record.outcome)}) for record in records]
    return list(dict.fromkeys(str(one) for one in tunings if not one.outcome.holds))
