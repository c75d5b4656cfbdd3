"""The result of a measurement on a link, and the values of its ends that are read once in each boot."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from pytest_pinet.errors import SshError, first_line
from pytest_pinet.evidence.build import read_build, read_end, read_serial
from pytest_pinet.execution.undo import at_once
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.shutdown import boot_id
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.report.result_record import parameters_hash, result_record
from pytest_pinet.traffic.concurrent import read_clock
from pytest_pinet.traffic.exchange import ToolOfEnd, tool_of

T = TypeVar("T")


def once_per_boot(end: End, key: str, read: Callable[[], T]) -> T:
    """Return what ``read`` returned at the first call since the boot of the end's node."""
    facts = end.session.facts
    if key not in facts:
        facts[key] = read()
    found: T = facts[key]
    return found


def settings_of(link: Link, warn: Callable[[str], None] | None = None) -> dict[str, dict[str, str]]:
    """Return the settings of ``dut``, ``peer``, ``end 2`` and so on, each after the name of its ``end``.

    All ends are read now, at the same time, because a test or a person can change settings at any moment. An end that
    cannot be read is left out, and ``warn`` gets a sentence; without ``warn``, raises SshError.
    """

    def read(index: int) -> tuple[str, dict[str, str]]:
        end = link.ends[index]
        role = "dut" if index == 0 else "peer" if index == 1 else f"end {index}"
        try:
            return role, {"end": str(end.endpoint), **read_end(end.shell, end.device)}
        except SshError as error:
            if warn is None:
                raise
            warn(f"the settings of {end.endpoint} could not be read: {first_line(error)}")
            return role, {}

    return {role: own for role, own in at_once(read, range(len(link.ends))) if own}


def tool_of_end(end: End, program: str) -> ToolOfEnd:
    """Return a program of an end, which is read once in each boot. Raises TrafficError if the end has none."""
    return once_per_boot(end, f"tool {program}", partial(tool_of, end.shell, program))


class BootTraffic:
    """The traffic of this run over a device in one boot. ``booted_s`` is a moment of our monotonic clock."""

    def __init__(self, booted_s: float | None) -> None:
        self._booted_s = booted_s
        self._link_up: int | None = None
        self._number = 0
        self._seconds = 0.0

    def note_link_up(self, carrier_changes: int | None) -> None:
        """Count connections from 1 again if the carrier changed (None: the device does not count its changes)."""
        if carrier_changes != self._link_up:
            self._link_up, self._number = carrier_changes, 0

    def begin(self, fresh_link: bool) -> tuple[int, float | None, float]:
        """Count a connection. Return its number since the link-up, the age of the boot, and the traffic before it."""
        self._number = 1 if fresh_link else self._number + 1
        return self._number, self.age_s, self._seconds

    @property
    def age_s(self) -> float | None:
        """The age of the boot now; None if it is not known."""
        return None if self._booted_s is None else time.monotonic() - self._booted_s

    def add(self, seconds: float) -> None:
        self._seconds += seconds


def boot_traffic(end: End) -> BootTraffic:
    """Return the traffic over the device of this end since the boot of its node."""
    return once_per_boot(end, f"traffic {end.device}", lambda: BootTraffic(_booted_s(end)))


def _booted_s(end: End) -> float | None:
    """Return when the node booted on our monotonic clock; None if it has a clock of its own, or does not tell."""
    clock = None if end.endpoint.node.clock == VIRTUAL else read_clock(end.shell)
    return None if clock is None else clock.here(0.0)


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
