"""The exact gate: judges the build under test by the instructions that it executes on an exact board."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Protocol

import pytest

from pytest_pinet.errors import ConfigError, Inconclusive, InvalidMeasurement, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.exact import ExactLimits
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import (
    INSTRUCTIONS,
    InstructionLimit,
    MadeExactBoot,
    parse_instructions,
    parse_written_instructions,
)
from pytest_pinet.model.limits import Limit, Metric, Origin, parse_arguments
from pytest_pinet.model.quantities import Bitrate, Tolerance
from pytest_pinet.model.record.result import CombinationRecord, ResultRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import SEVERITY, ExactResult, Verdict
from pytest_pinet.report.exact_text import exact_combination, exact_label
from pytest_pinet.report.failure import MOST_LINES
from pytest_pinet.report.text_wrap import wrap
from pytest_pinet.session.arguments import globs_of, nearest_arguments
from pytest_pinet.session.option_table import EXACT
from pytest_pinet.session.settings import settings


@dataclass(frozen=True)
class PlannedExactBoot:
    """A build that passed all checks that need no boot.

    Both functions get the number of a meaningless change, such as words on the command line, which move memory and
    timers as another binary does; 0 is none. A number is the same change for both builds. ``boots`` returns how often
    ``make`` boots; 0 if the values are known from an earlier run. ``make`` raises BuildError or LabError. It is called
    in several threads at the same time. Plans of several NICs are made one after the other. ``modules`` are the loaded
    modules by name; without them, it is not known which functions have other code.
    """

    boots: Callable[[int], int]
    make: Callable[[int], MadeExactBoot]
    modules: Mapping[str, bytes] = field(default_factory=dict)


class ExactMachines(Protocol):
    """Boots builds on exact boards. The hook ``pytest_pinet_exact_machines`` returns another implementation."""

    @property
    def nics(self) -> Sequence[str]:
        """The names of the NICs that have an exact board."""

    def stock_release(self, say: Callable[[str], None]) -> str:
        """Return the release of the stock kernel. Raises LabError."""

    def known_good(self, nic: str, build: Build | None, new: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        """Check the known-good build (None: the stock kernel). Raises BuildError, LabError or UnsupportedError.

        It gets the traffic that the build under test, ``new``, can send too. The first time on a machine, it is booted
        twice without a change. ``make`` raises LabError if the boots differ. ``say`` shows what is being done.
        """

    def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        """Check the build under test, after ``known_good``. Raises BuildError, LabError or UnsupportedError."""

    def stop(self) -> None:
        """End all boots that are not over. Called at the end of each process, after its results are written."""


MARKER = "exact"
_ARGUMENTS = ("nic", INSTRUCTIONS, str(Metric.TOLERANCE))
# The combination of a test whose boots have ended.
COMBINATION_KEY: pytest.StashKey[CombinationRecord] = pytest.StashKey()
# The keyword of a test that was skipped because not even the known-good build can run on its board.
NO_BOARD = "pinet-no-exact-board"
Instructions = str | int | float | Mapping[str, str | int | float] | None


class ExactMode(Protocol):
    """Measures builds on exact boards for a session. ``session.exact`` holds it in a run with ``--pinet-exact``."""

    @property
    def nics(self) -> Sequence[str]:
        """The NICs that have an exact board."""

    def measure(self, item: pytest.Item, nic: str, limits: ExactLimits) -> Sequence[ResultRecord]:
        """Boot both builds, and return a finished result for each window of traffic. Raises PinetError."""


class ExactGate:
    """The exact gate of one test. A call judges both builds, and ends the test if a limit does not hold."""

    def __init__(self, mode: ExactMode, item: pytest.Item, nic: str, marked: ExactLimits, written: ExactLimits) -> None:
        """``marked`` are the limits of the marker, ``written`` the limits of the command line."""
        self._mode = mode
        self._item = item
        self._marked, self._written = marked, written
        self.nic = nic

    def __call__(self, *, instructions: Instructions = None, tolerance: str | None = None) -> Mapping[str, ExactResult]:
        """Count what both builds execute for fixed amounts of traffic, judge build B by build A, and return the values.

        The keys are the names of the windows of traffic, such as ``frame-60-rx`` or ``tcp-tx``. ``instructions`` is
        how much the instructions for each packet may grow: ``'1%'``, ``20``, ``'1% and 20'`` (more than both fails), or
        a mapping from globs of functions to such limits. ``tolerance`` is the share by which virtual goodput may fall.
        Both override the marker. Fails the test if a limit does not hold. Raises BuildError, LabError,
        InvalidMeasurement, ConfigError.
        """
        with mistake_in(f"{self._item.nodeid}: exact_gate"):
            called = read_limits({INSTRUCTIONS: instructions, "tolerance": tolerance}, Origin.CALL)
        limits = ExactLimits(
            (*self._marked.instructions, *called.instructions, *self._written.instructions),
            next((one.tolerance for one in (self._written, called, self._marked) if one.tolerance is not None), None),
        )
        results = self._mode.measure(self._item, self.nic, limits)
        _end(results)
        return MappingProxyType(dict(map(_entry, results)))


def _end(results: Sequence[ResultRecord]) -> None:
    """End the test if a result is not good. Its text has the worst one in full, and the names of the others."""
    bad = [one for one in results if one.verdict in (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE)]
    if not bad:
        return
    first = min(bad, key=lambda one: SEVERITY.index(one.verdict))
    worst = first.verdict
    others = [f"{exact_label(one.id)} {one.verdict}" for one in bad if one is not first]
    also = wrap(f"also not good: {', '.join(others)}", hanging="  ", lines=1) if others else []
    text = "\n".join([*first.message.splitlines()[: MOST_LINES - len(also)], *also])
    if worst is Verdict.FAIL:
        pytest.fail(text, pytrace=False)
    raise (InvalidMeasurement if worst is Verdict.INVALID else Inconclusive)(text)


def _entry(record: ResultRecord) -> tuple[str, ExactResult]:
    exact, change = record.exact, record.change
    assert exact is not None
    assert change is not None
    ((way, direction),) = record.directions.items()
    found = ExactResult(
        metric_id=record.id,
        verdict=record.verdict,
        reason=direction.reason,
        goodput=MappingProxyType({Direction(way): Bitrate(direction.goodput_bps)}),
        goodput_of_a=MappingProxyType({Direction(way): Bitrate(change.directions[way].a_bps)}),
        instructions=exact.b.instructions,
        instructions_of_a=exact.a.instructions,
        packets_per_second=exact.b.packets_per_second,
        packets_per_second_of_a=exact.a.packets_per_second,
        functions=MappingProxyType({str(one.function): (one.a, one.b) for one in exact.functions}),
    )
    return record.id.rpartition("/")[2], found


def read_limits(given: Mapping[str, object], origin: Origin) -> ExactLimits:
    """Read the limits of a marker or a call. Raises ValueError."""
    source = f"the {origin.name.lower()}"
    written = given.get(INSTRUCTIONS)
    instructions = () if written is None else tuple(parse_instructions(written, f"{INSTRUCTIONS}= of {source}"))
    tolerance = given.get("tolerance")
    if tolerance is None:
        return ExactLimits(instructions)
    bounds = [limit.bound for limit in parse_arguments({"tolerance": tolerance}, origin)]
    return ExactLimits(instructions, relative(bounds[0] if isinstance(tolerance, str) else None, f"{tolerance!r}"))


def relative(bound: object, what: str) -> float:
    """Return the share of a tolerance. Raises ValueError if the tolerance has an absolute part."""
    if not isinstance(bound, Tolerance) or bound.absolute is not None:
        raise ValueError(f"tolerance {what}: expected one share for an exact gate, such as '1%'")
    return bound.relative.fraction


def read_marker(test: str, markers: Sequence[pytest.Mark]) -> tuple[tuple[str, ...], ExactLimits]:
    """Return the globs of NICs and the limits of a test. For each argument, the nearest marker counts.

    Raises ConfigError.
    """
    given = nearest_arguments(test, MARKER, markers, _ARGUMENTS, EXACT)
    globs = globs_of(test, MARKER, "nic", given.get("nic", "*"))
    with mistake_in(test):
        return globs, read_limits(given, Origin.MARKER)


def chosen(nics: Sequence[str], globs: Sequence[str], what: str) -> Iterator[str]:
    """Yield the NICs that match a glob. Raises ConfigError for a glob that matches none."""
    for glob in globs:
        if not any(fnmatchcase(nic, glob) for nic in nics):
            raise ConfigError(f"{what}: {unknown('NIC of exact boards', glob, nics)}")
    for nic in nics:
        if not globs or any(fnmatchcase(nic, glob) for glob in globs):
            yield nic


def exact_limits(texts: Sequence[str], origin: str, tolerances: Sequence[Limit]) -> ExactLimits:
    """Return the limits of ``--pinet-instructions`` (``texts``) and ``--pinet-tolerance``. Raises ConfigError."""
    instructions: list[InstructionLimit] = []
    for text in texts:
        with mistake_in(f"{origin} {text!r}"):
            instructions += parse_written_instructions(text, f"{origin} {text}")
    found = []
    for limit in tolerances:
        with mistake_in(limit.source):
            found.append(relative(limit.bound, str(limit.bound)))
    return ExactLimits(tuple(instructions), found[-1] if found else None)


NO_BUILD = "an exact gate needs --pinet-exact and --pinet-build PATH, or: pinet gate --exact BUILD"


def parametrize(metafunc: pytest.Metafunc, mode_of: Callable[[], ExactMode | None]) -> None:
    """Add one parameter for each NIC of the marker and of ``--pinet-nic``. Raises ConfigError.

    ``mode_of`` makes the session, which a run without ``--pinet-exact`` does not need.
    """
    test = f"{metafunc.definition.path.name}::{metafunc.definition.name}"
    globs, _ = read_marker(test, list(metafunc.definition.iter_markers("exact")))
    found = settings(metafunc.config)
    mode = mode_of() if found["exact"] else None
    if mode is None:
        parameters = [pytest.param(None, id="no-build", marks=pytest.mark.skip(reason=NO_BUILD))]
    else:
        wanted = set(chosen(mode.nics, found["nic"], found.origin("nic")))
        parameters = [pytest.param(nic, id=nic) for nic in chosen(mode.nics, globs, test) if nic in wanted]
    if not parameters:
        reason = f"{found.origin('nic')} selects none of the NICs of this test"
        parameters = [pytest.param(None, id="no-nic", marks=pytest.mark.skip(reason=reason))]
    metafunc.parametrize("exact_gate", parameters, indirect=True)


def limits_of(item: pytest.Item) -> ExactLimits:
    """Return the limits of the marker of a test. Raises ConfigError."""
    return read_marker(item.nodeid, list(item.iter_markers("exact")))[1]


def exact_combination_of(item: pytest.Item) -> CombinationRecord | None:
    """Return the combination of a test of an exact gate, before its first boot; None for every other test."""
    callspec = getattr(item, "callspec", None)
    nic = None if callspec is None else callspec.params.get("exact_gate")
    return exact_combination(nic) if isinstance(nic, str) else None
