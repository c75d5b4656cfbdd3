"""The attempts of a calibration: the gate's traffic again and again, on fresh connections, link-ups and boots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_pinet.calibrating.levels import Levels, fresh_of
from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.build import read_build
from pytest_pinet.lab.bounce import bounce, can_bounce
from pytest_pinet.lab.link import Link
from pytest_pinet.measuring import DROPS_MAX, run_once
from pytest_pinet.model.attempt import Attempt
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.traffic import Direction
from pytest_pinet.standard_traffic import attempt_at, figure_ids, standard_traffic
from pytest_pinet.visiting import Visit


@dataclass
class Course:
    """The attempts at each figure, by its id, in the order in which they were made; the build of the device under test.

    ``notes`` are what a reader must know, such as why no link-up was drawn anew.
    """

    figures: dict[str, list[Attempt]] = field(default_factory=dict)
    build: dict[str, str | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def calibrate(
    visit: Visit,
    combination: Combination,
    ways: Sequence[Direction],
    levels: Levels,
    connection_s: int,
    streams: int,
    on_step: Callable[[str], None],
) -> Course:
    """Measure one combination, the directions in turn. Raises LabError, UnsupportedError, InvalidMeasurement.

    A link that cannot be taken down, since our ssh or a route goes over it, is measured without fresh link-ups.
    """
    course = Course()
    for boot in range(levels.boots + 1):
        with visit.link(combination, reset=boot > 0) as link:
            link_ups = levels.links
            if link_ups and not can_bounce(link):
                link_ups = 0
                course.notes.append(f"{link.dut} cannot be taken down: link-ups are not measured")
            course.build = read_build(link.dut.shell, link.dut.device)
            for link_up in range(link_ups + 1):
                if link_up:
                    bounce(link)
                for run in range(levels.runs):
                    where = f"boot {boot + 1}, link-up {link_up + 1}, connection {run + 1} of {levels.runs}"
                    for way in ways:
                        rates = _connect(visit, link, way, (boot, link_up, run), connection_s, streams, course)
                        on_step(f"{combination.id} {way}, {where}: {rates}")
    course.notes = list(dict.fromkeys(course.notes))
    return course


def _connect(
    visit: Visit,
    link: Link,
    way: Direction,
    count: tuple[int, int, int],
    connection_s: int,
    streams: int,
    course: Course,
) -> str:
    """One more attempt at the figures of this traffic; what they were, in words."""
    traffic = standard_traffic(way, connection_s, streams)
    with visit.measuring(link.combination):
        one = run_once(link, traffic, visit.tool, fresh_of(*count), watch=visit.watch)
    told = []
    for part, figure in figure_ids(link, traffic).items():
        attempt = attempt_at(one, part)
        attempts = course.figures.setdefault(figure, [])
        attempts.append(attempt)
        told.append(attempt.excluded or str(attempt.goodput))
        dropped = [a for a in attempts if a.excluded]
        if len(dropped) >= DROPS_MAX:
            raise LinkError(
                f"{dropped[-1].excluded}; so it went in {len(dropped)} of {len(attempts)} connections",
                "a link that drops cannot be calibrated: check cable, connector and power supply",
            )
    return ", ".join(told)
