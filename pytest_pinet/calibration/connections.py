"""Calibrates: the gate's traffic on fresh connections, link-ups and boots; the noise, and the tolerance it allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial

from pytest_pinet.config.calibration import Calibration, MeasuredNoise
from pytest_pinet.evidence.build import read_build
from pytest_pinet.judge.costs import JUDGED, judged_cost
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.spread import Components, components, grouped, is_steady, nested, propose
from pytest_pinet.judge.statistics import percent
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link, can_bounce
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.metric_key import metric_keys
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.traffic import Direction, Traffic

# Time of a connection besides traffic, of a link-up and of opening the link (s). A PHY of 1 Gbit/s negotiates for 2 to
# 4 s.
SET_UP_S = 0.4
LINK_UP_S = 4.0
OPENING_S = 5.0
# The most time (s) that a fresh link-up takes.
LONGEST_LINK_UP_S = 15.0


@dataclass(frozen=True)
class Levels:
    """How often to measure: ``runs`` connections per link-up, at least 2, so that their spread is known.

    ``links`` and ``boots`` are the fresh link-ups per boot, and the reboots; the first of each is not counted.
    """

    runs: int
    links: int
    boots: int

    @property
    def connections(self) -> int:
        """The number of connections for each direction."""
        return (self.boots + 1) * (self.links + 1) * self.runs

    def seconds(self, ways: int, connection_s: int, boot_s: float) -> float:
        """Return the approximate duration for one combination in seconds."""
        ups = (self.boots + 1) * self.links * LINK_UP_S
        return OPENING_S + ways * self.connections * (connection_s + SET_UP_S) + ups + self.boots * (boot_s + OPENING_S)


def fresh_of(boot: int, link_up: int, run: int) -> Fresh:
    """Return what is fresh for the ``run``-th connection of a link-up and boot, all counted from 0."""
    if run or not (boot or link_up):
        return Fresh.CONNECTION
    return Fresh.LINK if link_up else Fresh.BOOT


@dataclass(frozen=True)
class CalibrationConnections:
    """The connections of each metric by ID, in order, the build of the device under test, and notes for the reader."""

    figures: Mapping[str, Sequence[Connection]]
    build: Mapping[str, str | None]
    notes: Sequence[str]


def calibrate(
    access: LabAccess,
    combination: Combination,
    traffics: Mapping[Direction, Traffic],
    levels: Levels,
    on_step: Callable[[str], None],
) -> CalibrationConnections:
    """Measure one combination, with alternating directions. Raises LabError, UnsupportedError, InvalidMeasurement."""
    figures: dict[str, list[Connection]] = {}
    build: dict[str, str | None] = {}
    notes: list[str] = []
    ways = list(traffics)
    for boot in range(levels.boots + 1):
        with access.open(combination, reset=boot > 0) as link:
            link_ups = levels.links
            if link_ups and not can_bounce(link):
                link_ups = 0
                notes.append(
                    f"{link.dut} cannot be taken down, because ssh or a route uses it: link-ups are not measured"
                )
            if link.scale != 1:
                notes.append(f"links run at {link.scale:g} of their rate: the noise at full rate can differ")
            build = read_build(link.dut.shell, link.dut.device)
            connection_s = max(traffic.seconds for traffic in traffics.values())
            lasts_s = (link_ups + 1) * (levels.runs * len(ways) * (connection_s + 1.0) + LONGEST_LINK_UP_S)
            with Runs(MeasureContext(link, access.tool, watch=access.watch), lasts_s) as runs:
                for link_up in range(link_ups + 1):
                    for run in range(levels.runs):
                        where = f"boot {boot + 1}, link-up {link_up + 1}, connection {run + 1} of {levels.runs}"
                        for way, traffic in traffics.items():
                            first = run == 0 and way is ways[0]
                            # A link-up before the first connection is fresh for the connections of all directions that
                            # follow.
                            new_link = link_up > 0 and first
                            rates = _connect(access, link, runs, traffic, (boot, link_up, run), new_link, figures)
                            on_step(f"{combination.id} {way}, {where}: {rates}")
                with access.measuring(combination):
                    runs.finish(traffics[ways[0]])
    return CalibrationConnections(figures, build, list(dict.fromkeys(notes)))


def _connect(
    access: LabAccess,
    link: Link,
    runs: Runs,
    traffic: Traffic,
    count: tuple[int, int, int],
    new_link: bool,
    figures: dict[str, list[Connection]],
) -> str:
    """Make one more connection with this traffic, after a link-up if ``new_link``. Return the values as text."""
    with access.measuring(link.combination):
        one = replace(runs.again(traffic, Fresh.LINK if new_link else Fresh.CONNECTION), fresh=fresh_of(*count))
    texts = []
    for part, figure in metric_keys(link.combination.identity, traffic).items():
        connection = one.towards(part)
        figures.setdefault(str(figure), []).append(connection)
        texts.append(connection.excluded or str(connection.goodput))
    return ", ".join(texts)


@dataclass(frozen=True)
class CalibrationOutcome:
    """The result for one metric. ``seconds``: traffic for a verdict at the proposed tolerance."""

    goodput: Bitrate
    components: Components
    calibration: Calibration
    seconds: float

    def as_json(self) -> dict[str, object]:
        parts = asdict(self.components)
        return {
            "id": self.calibration.id,
            "goodput_bps": self.goodput.bps,
            "noise": {level: parts[level] for level in ("connections", "links", "boots")},
            "runs": self.components.figures,
            "disturbed": self.components.disturbed,
            "tolerance": self.calibration.tolerance.fraction,
            "repeats": self.calibration.repeats,
            "traffic_seconds": self.seconds,
            "margin": self.calibration.margin.fraction,
            "date": self.calibration.date.isoformat(),
            "build": dict(self.calibration.build),
        }


def outcome(
    figure: str, connections: Sequence[Connection], profile: Profile, today: date, build: Mapping[str, str | None]
) -> CalibrationOutcome:
    """Return noise, tolerance, repeats and margin of a metric. Raises ValueError if too few attempts gave a value.

    For link-ups and boots the estimate is often 0 by chance. Their upper bound with 70 % certainty is kept instead
    (`components.CAUTION`). The proposal uses the noise that a gate will read from the file, so that both agree.
    """
    parts = components(connections)
    nothing = Share(0.0)
    calibration = Calibration(figure, _measured(parts), nothing, 1, nothing, today, build, _of_costs(connections))
    tolerance, repeats, margin = propose(calibration.judged_noise, profile)
    calibration = replace(calibration, tolerance=Share(tolerance), repeats=repeats, margin=Share(margin))
    counted = [connection for connection in connections if is_steady(connection)]
    goodput = Bitrate(sum(connection.goodput.bps for connection in counted) / len(counted))
    return CalibrationOutcome(goodput, parts, calibration, repeats * float(profile.connection_s))


def _measured(parts: Components) -> MeasuredNoise:
    return MeasuredNoise(
        Share(parts.connections.sd),
        None if parts.links is None else Share(parts.links.at_most),
        None if parts.boots is None else Share(parts.boots.at_most),
        runs=parts.figures,
        link_ups=max(1, parts.figures - parts.connections.freedom),
    )


def _of_costs(connections: Sequence[Connection]) -> dict[str, MeasuredNoise]:
    """Return the noise of each cost that was counted often enough: at least twice on one link-up."""
    found = {}
    for key in JUDGED:
        with suppress(ValueError):
            found[key] = _measured(nested(grouped(connections, partial(judged_cost, key=key))))
    return found


def table(outcomes: Iterable[CalibrationOutcome]) -> list[str]:
    """Return the lines for each metric, in 80 columns: goodput, noise and its consequences, connections left out."""
    lines = [
        "result, goodput",
        "  noise (degrees of freedom) of                  at 1 % errors",
        "  connections   link-ups      boots         tolerance  repeats  traffic  margin",
    ]
    for one in outcomes:
        parts, found = one.components, one.calibration
        lines.append(f"{found.id}, {one.goodput}")
        noise = "".join(
            f"{text:<14}"
            for text in (
                f"{percent(parts.connections.sd)} ({parts.connections.freedom})",
                *(f"<= {percent(up.at_most)} ({up.freedom})" if up else "-" for up in (parts.links, parts.boots)),
            )
        )
        lines.append(
            f"  {noise}{percent(found.tolerance.fraction):<9}  {found.repeats:>7}  {one.seconds:>5.0f} s"
            f"  {percent(found.margin.fraction):>6}"
        )
        if parts.disturbed:
            of = parts.figures + parts.disturbed
            lines.append(f"  left out: {parts.disturbed} of {of} connections, which stalled or were disturbed")
    return lines
