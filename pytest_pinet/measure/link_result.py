"""The result of a measurement on a link: what comes from the link is alike for every kind of measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from pytest_pinet.evidence.build import read_build, read_serial
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.shutdown import boot_id
from pytest_pinet.measure.end_settings import once_per_boot, settings_of
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.report.result_record import parameters_hash, result_record

T = TypeVar("T")


def link_result(
    link: Link,
    measured: Traffic | str,
    judged: MeasurementJudgement,
    tunings: Sequence[Tuned] | None = None,
    /,
    **values: object,
) -> ResultRecord:
    """Return a result on this link, with ``values`` as for ``result_record``.

    ``measured`` is the traffic, or the key of a test without goodput, whose parameters have no hash. ``tunings`` are
    the settings that count for the result (default: the settings in force).
    """
    tunings = link.tunings if tunings is None else tunings
    of_link: dict[str, object] = {"link": str(link.path), "tunings": tuple(dict.fromkeys(tunings))}
    if isinstance(measured, Traffic):
        of_link["id"] = str(MetricKey(link.combination.identity, measured, measured.direction))
        of_link["parameters"] = parameters_hash(measured, link.path.mtu, tunings, link.scale)
        measured = measured.key
    return result_record(link.combination, measured, judged, **of_link | values)


def read_ends(link: Link, warn: Callable[[str], None]) -> dict[str, object]:
    """Read what runs at the ends: the values ``build``, ``boot``, ``serials`` and ``settings`` of a result.

    ``warn`` gets a sentence for each end whose settings cannot be read. Raises LabError.
    """
    dut = link.dut
    boot = once_per_boot(dut, "boot", partial(boot_id, dut.shell))
    serials = {str(end.endpoint): once_per_boot(end, "serial", partial(read_serial, end.shell)) for end in link.ends}
    return {
        # Only a boot or a module load changes the build.
        "build": once_per_boot(dut, f"build {dut.device}", partial(read_build, dut.shell, dut.device)),
        # A short name is enough.
        "boot": None if boot is None else hashlib.sha256(boot.encode()).hexdigest()[:8],
        "serials": {end: serial for end, serial in serials.items() if serial is not None},
        "settings": settings_of(link, warn),
    }


def isolation_notes(link: Link) -> list[str]:
    """Return a sentence for readers for each switch whose ports were used as they are wired."""
    fixed = {name: switch.about.note for name, switch in link.switches.items() if not switch.rewires}
    notes = [f"switch {name} was used as it is wired, because {note}" for name, note in fixed.items() if note]
    whys = [f"switch {name} cannot be configured" for name in fixed]
    whys += [f"port {end.port} also carries the connection to its node" for end in link.ends if end.carries_management]
    if whys and len(link.combination.topology.segments) > 1:
        notes.append(f"the pairs are not isolated from each other, because {whys[0]}")
    return notes


def by_end(link: Link, values: Sequence[Mapping[str, T]], traffic: Traffic) -> dict[str, T]:
    """Return the tools' values for ``dut`` and ``peer``. For several runs, the keys are the names of the ends."""
    if len(values) == 1:
        return dict(values[0])
    found: dict[str, T] = {}
    for run, by_role in zip(link.combination.topology.runs(traffic.direction), values, strict=True):
        for role, index in (("dut", run.a), ("peer", run.b)):
            if role in by_role:
                found[str(link.ends[index].endpoint)] = by_role[role]
    return found
