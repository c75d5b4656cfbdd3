"""The parts of a result that come from its link, alike for every kind of measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import ResultParts, parameters_hash
from pytest_pinet.report.sentences import tuning_notes


def parts_of(
    link: Link, measured: Traffic | str, verdict: Verdict, reason: str, tunings: Sequence[Tuned] | None = None
) -> ResultParts:
    """Return the parts of a result on this link; the caller replaces the others.

    ``measured`` is the traffic, or the key of a test without goodput, whose parameters have no hash. ``tunings`` are
    the settings that count for the result (default: the settings in force).
    """
    tunings = link.tunings if tunings is None else tunings
    parts = ResultParts(
        id=f"{link.id}/{measured}",
        verdict=verdict,
        message=f"{link.id} {reason}",
        combination=link.combination,
        traffic=str(measured),
        path=link.path,
        notes=tuning_notes(tunings),
        tunings=tunings,
    )
    if isinstance(measured, str):
        return parts
    return replace(
        parts,
        id=str(MetricKey(link.combination.identity, measured, measured.direction)),
        traffic=measured.key,
        parameters=parameters_hash(measured, link.path.mtu, tunings, link.scale),
    )
