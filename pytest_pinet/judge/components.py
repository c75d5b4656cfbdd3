"""Estimate the sources of noise: between connections, between link-ups, between boots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_pinet.judge.level import read, remarks
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.statistics import chi_square
from pytest_pinet.model.connection import Connection, Fresh

# Few link-ups may be alike by chance. In seven of ten cases the true spread is at most the value used.
CAUTION = 0.3


@dataclass(frozen=True)
class Component:
    """The relative standard deviation of one level: estimate, upper bound (70 % sure), degrees of freedom."""

    sd: float
    at_most: float
    freedom: int


@dataclass(frozen=True)
class Components:
    """Nested components of the noise; None if a level was not repeated.

    ``figures`` is the number of connections that count (`is_steady`); ``link_ups`` and ``boot_count`` say on how
    many of each. ``disturbed`` is the number of connections that were left out because of an event or dip.
    """

    connections: Component
    links: Component | None
    boots: Component | None
    figures: int
    link_ups: int
    boot_count: int
    disturbed: int = 0

    def noise(self, baseline_runs: int | None = None) -> Noise:
        """Return the noise for the benchmark of verdicts; a gate uses `Calibration.judged_noise`.

        It includes the error of a baseline of so many sessions (default: none). If neither link-ups nor boots were
        repeated, the noise between sessions is the value assumed for any link. If only one of them was repeated, the
        other one adds nothing.
        """
        links = self.links.at_most if self.links else 0.0
        boots = self.boots.at_most if self.boots else 0.0
        lasting = boots if self.boots else (0.0 if self.links else UNKNOWN.sessions)
        share = 1 + 1 / baseline_runs if baseline_runs else 1.0
        sessions = math.sqrt((links**2 + lasting**2) * share)
        source = f"{self.figures} connections, {self.link_ups} link-ups, {self.boot_count} boots"
        known = min((c.freedom for c in (self.links, self.boots) if c), default=None)
        links = min(links, sessions)
        return Noise(self.connections.sd, self.connections.freedom, sessions, source, links, session_freedom=known)


def components(connections: Iterable[Connection]) -> Components:
    """Estimate the components from connections in their order. Only steady connections count (`is_steady`).

    The method is a nested, unbalanced analysis of variance of the logarithms of the levels (Searle, Variance
    Components, 3.6). Raises ValueError if no two connections shared a link-up: the noise between connections is then
    not known.
    """
    made = list(connections)
    disturbed = [one for one in made if (reading := read(one)) is not None and reading.disturbed]
    boots = grouped(made)
    ups = [up for boot in boots for up in boot]
    every = [x for up in ups for x in up]
    total, n_ups, n_boots = len(every), len(ups), len(boots)
    if total - n_ups < 1:
        raise ValueError(
            f"{total} values on {n_ups} link-ups are too few to estimate the noise between connections; "
            f"at least two connections of one link-up are needed{_left_out(disturbed, len(made))}"
        )
    within = math.fsum((x - fmean(up)) ** 2 for up in ups for x in up) / (total - n_ups)
    of_connections = _component(within, total - n_ups, 0.0, 1.0)
    squares = math.fsum(math.fsum(len(up) ** 2 for up in boot) / _size(boot) for boot in boots)
    links = boot_component = None
    link_variance = 0.0
    if n_ups > n_boots:
        mean_square = math.fsum(len(up) * (fmean(up) - _mean(boot)) ** 2 for boot in boots for up in boot) / (
            n_ups - n_boots
        )
        size = (total - squares) / (n_ups - n_boots)
        links = _component(mean_square, n_ups - n_boots, within, size, total - n_ups)
        link_variance = links.sd**2
    if n_boots > 1:
        middle = fmean(every)
        mean_square = math.fsum(_size(boot) * (_mean(boot) - middle) ** 2 for boot in boots) / (n_boots - 1)
        of_links = (squares - math.fsum(len(up) ** 2 for up in ups) / total) / (n_boots - 1)
        explained = within + of_links * link_variance
        size = (total - math.fsum(_size(boot) ** 2 for boot in boots) / total) / (n_boots - 1)
        boot_component = _component(mean_square, n_boots - 1, explained, size, total - n_boots)
    return Components(of_connections, links, boot_component, total, n_ups, n_boots, len(disturbed))


def grouped(connections: Iterable[Connection]) -> list[list[list[float]]]:
    """Return the logarithms of the levels by boot and link-up. Connections without a value still begin a group."""
    boots: list[list[list[float]]] = [[[]]]
    for connection in connections:
        if connection.fresh is Fresh.BOOT:
            boots.append([[]])
        elif connection.fresh is Fresh.LINK:
            boots[-1].append([])
        reading = read(connection)
        if reading is not None and is_steady(connection):
            boots[-1][-1].append(math.log(reading.level))
    kept = [[up for up in boot if up] for boot in boots]
    return [boot for boot in kept if boot]


def is_steady(connection: Connection) -> bool:
    """Return whether a connection shows pure noise: its value is above 0, and it was not disturbed."""
    reading = read(connection)
    return reading is not None and reading.level > 0 and not reading.disturbed


def _left_out(disturbed: Sequence[Connection], of: int) -> str:
    if not disturbed:
        return ""
    cause = remarks(disturbed[0])[0]
    return f"; {len(disturbed)} of {of} were disturbed, for example: {cause}; remove the cause, then calibrate"


def _component(mean_square: float, freedom: int, below: float, size: float, freedom_below: int = 0) -> Component:
    """Return the part of a mean square that the levels below it do not explain, per ``size`` values.

    ``below`` is the variance that the lower levels explain, known with ``freedom_below``. The upper bound uses a low
    estimate of it.
    """
    highest = mean_square * freedom / max(chi_square(CAUTION, freedom), 1e-9)
    sure = below * freedom_below / chi_square(1 - CAUTION, freedom_below) if freedom_below else 0.0
    return Component(
        sd=math.sqrt(max(mean_square - below, 0.0) / size),
        at_most=math.sqrt(max(highest - sure, 0.0) / size),
        freedom=freedom,
    )


def _size(boot: Sequence[Sequence[float]]) -> int:
    return sum(len(up) for up in boot)


def _mean(boot: Sequence[Sequence[float]]) -> float:
    return fmean([x for up in boot for x in up])
