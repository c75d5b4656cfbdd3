"""The outcome of tunings, as plain data and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from pytest_pinet.model.tuning import SettingOutcome, Tuned


class TuningRecord(TypedDict):
    """One setting of one end: ``node:interface``, or the node alone for what belongs to all of it.

    ``before`` and ``found`` are what was read before and after (empty where nothing tells); ``outcome`` is ``applied``,
    ``unchanged``, ``clamped``, ``unsupported`` or ``rejected``, and ``why`` says more where it does not hold.
    """

    end: str
    name: str
    asked: str
    before: str
    found: str
    outcome: str
    why: str


def tuning_records(tunings: Iterable[Tuned]) -> list[TuningRecord]:
    """Return the record of each setting once, in the order of application."""
    return [
        {
            "end": one.end,
            "name": one.name,
            "asked": one.asked,
            "before": one.before,
            "found": one.found,
            "outcome": one.outcome.value,
            "why": one.why,
        }
        for one in dict.fromkeys(tunings)
    ]


def tuning_notes(tunings: Iterable[Tuned]) -> list[str]:
    """Return a note for each setting without effect."""
    return [f"{one} (the figure is without it)" for one in dict.fromkeys(tunings) if not one.outcome.holds]


def ineffective(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each setting without effect, once per run."""
    lines = []
    for result in results:
        for record in result.get("tunings", ()):
            if not SettingOutcome(record["outcome"]).holds:
                tuned = Tuned(**{**record, "outcome": SettingOutcome(record["outcome"])})
                lines.append(str(tuned))
    return list(dict.fromkeys(lines))
