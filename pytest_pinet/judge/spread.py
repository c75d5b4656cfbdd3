"""The noise of a value: its sources, the mean and variance of connections, the margin they decide, and a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_pinet.judge.level import read, remarks
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.statistics import (
    HALF_ZONE,
    chi_square,
    lasting_bound,
    required,
    sequential_bound,
    variance,
)
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

    ``figures`` is the number of connections that count (`is_steady`), ``disturbed`` the number of connections that were
    left out because of an event or dip.
    """

    connections: Component
    links: Component | None
    boots: Component | None
    figures: int
    disturbed: int = 0


def components(connections: Iterable[Connection]) -> Components:
    """Estimate the components from connections in their order. Only steady connections count (`is_steady`).

    The method is a nested, unbalanced analysis of variance of the logarithms of the levels (Searle, Variance
    Components, 3.6). Raises ValueError if no two connections shared a link-up: the noise between connections is then
    not known.
    """
    made = list(connections)
    disturbed = [one for one in made if (reading := read(one)) is not None and reading.disturbed]
    return nested(grouped(made), len(disturbed), _left_out(disturbed, len(made)))


def nested(boots: Sequence[Sequence[Sequence[float]]], disturbed: int = 0, left_out: str = "") -> Components:
    """Estimate the components from logarithms by boot and link-up. Raises ValueError as `components` does."""
    ups = [up for boot in boots for up in boot]
    every = [x for up in ups for x in up]
    total, n_ups, n_boots = len(every), len(ups), len(boots)
    if total - n_ups < 1:
        raise ValueError(
            f"{total} values on {n_ups} link-ups are too few to estimate the noise between connections; "
            f"at least two connections of one link-up are needed{left_out}"
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
    return Components(of_connections, links, boot_component, total, disturbed)


def level_of(connection: Connection) -> float | None:
    """Return the level of a steady connection; None for any other."""
    reading = read(connection)
    return reading.level if reading is not None and is_steady(connection) else None


def grouped(
    connections: Iterable[Connection], value: Callable[[Connection], float | None] = level_of
) -> list[list[list[float]]]:
    """Return the logarithms of the levels by boot and link-up. Connections without a value still begin a group."""
    boots: list[list[list[float]]] = [[[]]]
    for connection in connections:
        if connection.fresh is Fresh.BOOT:
            boots.append([[]])
        elif connection.fresh is Fresh.LINK:
            boots[-1].append([])
        if found := value(connection):
            boots[-1][-1].append(math.log(found))
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


@dataclass(frozen=True)
class Noise:
    """Relative standard deviations (0.01 = 1 %) of one combination and direction, and how well they are known.

    ``connections`` is between connections of one session, with ``freedom`` degrees of freedom. ``sessions`` is between
    the levels of sessions (link-ups, boots, days), which more connections in a session do not reduce. ``links`` is the
    part of ``sessions`` that changes with each link-up. ``assumed``: the noise was not measured. ``session_freedom`` is
    that of ``sessions`` (None: the same as for ``connections``). ``days_known``: several days of the unchanged link
    were seen, so that nothing is guessed about other days.
    """

    connections: float
    freedom: float
    sessions: float
    links: float = 0.0
    assumed: bool = False
    session_freedom: float | None = None
    days_known: bool = False

    def level_variance(self, fresh: Iterable[Fresh]) -> float:
        """Return the variance of the common level of such connections. More link-ups average the part of links."""
        lasting = max(self.sessions**2 - self.links**2, 0.0)
        link_ups = 1 + sum(kind is not Fresh.CONNECTION for kind in fresh)
        return lasting + min(self.links, self.sessions) ** 2 / link_ups


def combined(own: float, freedom: float, known: Noise) -> float:
    """Pool the variance between connections seen now, with ``freedom`` degrees of freedom, with the known one."""
    total = known.freedom + freedom
    return (known.freedom * known.connections**2 + freedom * own) / total if total > 0 else math.inf


# Without any history: the noise that was seen on quiet virtual links, with few degrees of freedom.
UNKNOWN = Noise(connections=0.0055, freedom=2, sessions=0.003, assumed=True)


# The lowest standard deviation between connections.
FLOOR = 0.0025
# From so many connections on, their own differences count more than assumptions.
FEW = 5
# Without measured noise, a link that is rough within or between connections is assumed to vary as much from day to day.
# The factors were chosen on the tuning half of benchmarks/verdicts (models s1 to s3).
ROUGH_WITHIN = 4.0
ROUGH_BETWEEN = 1.5
# A rough link may also have several levels, and a few connections may show only one of them: each of the rates that
# iperf3 finds without a shaper persists for several connections. So rougher links need more connections: this many if
# the standard deviation of a connection's mean is ROUGH, and fewer with its square below that.
ROUGH = 0.0055
ROUGH_CONNECTIONS = 10
# Nine of ten gates must reach a verdict within the budget: 1.28 standard deviations of the mean.
NINE_OF_TEN = 1.28


@dataclass(frozen=True)
class Spread:
    """The ``mean`` of n logarithms of value over limit; its variance is ``between / n + level``.

    More connections average ``between`` out. They do not reduce ``level``, the variance that all of them share (this
    session, this boot, this day). ``freedom`` and ``level_freedom`` are their degrees of freedom (None: ``level`` is an
    assumption that counts as part of ``between``). ``least`` is the number of connections that any certain result
    needs. ``zone`` is half the distance between the slowdown that may pass and the one that must be found.
    """

    mean: float
    between: float
    level: float
    n: int
    freedom: float
    level_freedom: float | None = None
    least: int = 1
    zone: float = HALF_ZONE

    def needed(self, error_rate: float, connections: int | None = None, share: float = 1.0) -> float:
        """Return the smallest ``|mean|`` that is certain after so many connections (default: those seen).

        The part that more connections reduce is tested again after each of them; the common part is drawn once.
        ``share`` scales all variances.
        """
        count = self.n if connections is None else connections
        freedom = self.freedom + count - self.n
        part, level = share * self.between / count, share * self.level
        if self.level_freedom is None:
            return required(part + level, freedom, error_rate, self.zone)
        lasting = lasting_bound(self.level_freedom, error_rate) ** 2 * level
        both = math.sqrt(lasting + sequential_bound(freedom, error_rate) ** 2 * part) - self.zone
        return max(required(part, freedom, error_rate, self.zone), both)

    def needed_at_last(self, error_rate: float, connections: int | None = None, share: float = 1.0) -> float:
        """Return the same for the last look of a budget, which guards against no further looks.

        It is a test of one sample: Student's quantile of the whole variance. Its degrees of freedom come from both
        parts (Satterthwaite 1946).
        """
        earlier = self.needed(error_rate, connections, share)
        if self.level_freedom is None:
            return earlier
        count = self.n if connections is None else connections
        part, level = share * self.between / count, share * self.level
        freedom = (part + level) ** 2 / (part**2 / (self.freedom + count - self.n) + level**2 / self.level_freedom)
        return min(earlier, max(lasting_bound(freedom, error_rate) * math.sqrt(part + level) - self.zone, 0.0))

    def needed_at_best(self, error_rate: float) -> float:
        """Return the part of `needed` that no number of connections removes; 0 if nothing is known about it."""
        if self.level_freedom is None:
            return 0.0
        return max(lasting_bound(self.level_freedom, error_rate) * math.sqrt(self.level) - self.zone, 0.0)

    def margin_after(self, connections: int, error_rate: float) -> float:
        """Return the least relative margin at which nine of ten gates reach a verdict after so many connections."""
        scatter = NINE_OF_TEN * math.sqrt(self.between / connections + self.level)
        return math.expm1(self.needed(error_rate, connections) + scatter)


def spread_of(
    logs: Sequence[float], own: Sequence[float], noise: Noise, level: float, zone: float = HALF_ZONE
) -> Spread:
    """Pool the variance of ``logs`` with the known noise.

    ``own`` is the variance within each of them, which is a lower bound of the variance between them. ``level`` is the
    known variance of their common level.
    """
    n = len(logs)
    seen = variance(logs) if n > 1 else 0.0
    within = math.fsum(own) / n
    between = combined(seen, n - 1, noise)
    if n >= 3:
        # A higher variance than the known one counts at once, a lower one only gradually.
        between = max(between, seen)
    if noise.assumed and not noise.days_known:
        level = max(
            level + (ROUGH_WITHIN * within if n < FEW else 0.0), ROUGH_BETWEEN * _apart_from_one(logs, seen) - within
        )
    between = max(between, within, FLOOR**2)
    least = least_connections(own) if noise.assumed else 1
    return Spread(math.fsum(logs) / n, between, level, n, noise.freedom + n - 1, noise.session_freedom, least, zone)


def least_connections(own: Sequence[float]) -> int:
    """Return how many connections any verdict needs on a link of unknown noise; ``own`` is as in `spread_of`."""
    rough = min(math.fsum(own) / max(len(own), 1) / ROUGH**2, 1.0)
    return int(1 + (ROUGH_CONNECTIONS - 1) * rough)


def _apart_from_one(logs: Sequence[float], seen: float) -> float:
    """Return the variance without the oddest connection, corrected for leaving it out.

    One bad connection among good ones says nothing about other days. The correction is the factor by which leaving out
    the oddest of n normal values reduces the variance (simulated: 2.7 at 4, 1.9 at 6, 1.5 at 10, 1.27 at 20).
    """
    n = len(logs)
    if n < 4:
        return seen
    ranked = sorted(logs)
    return min(seen, (1 + 5.5 / n) * min(variance(ranked[1:]), variance(ranked[:-1])))


def smallest_margin(noise: Noise, profile: Profile, error_rate: float = 0.01) -> float:
    """Return the least relative margin between value and limit at which nine of ten gates reach a verdict (0.02 = 2 %).

    The margin is what the test requires of the mean after the whole budget (`Spread.needed`) plus the scatter of
    the mean.
    """
    connections = max(int(profile.budget_s / profile.connection_s), 1)
    return margin_after(connections, noise, error_rate)


def margin_after(connections: int, noise: Noise, error_rate: float) -> float:
    """Return the same margin after so many connections of one link-up."""
    level = noise.level_variance([Fresh.CONNECTION])
    between = max(noise.connections, FLOOR) ** 2
    spread = Spread(0.0, between, level, connections, noise.freedom + connections - 1, noise.session_freedom)
    return spread.margin_after(connections, error_rate)


# A change of the link by this much is no regression; the tolerance leaves room for it.
TOLERATED = 0.01
# Steps finer than half a per cent are not distinguishable.
STEP = 0.005
LEAST_TOLERANCE = 0.03


def propose(noise: Noise, profile: Profile, error_rate: float = 0.01) -> tuple[float, int, float]:
    """Return the tolerance below the baseline, the connections for a verdict in most gates, and the least margin.

    A link 1 % slower than its baseline must still pass. The tolerance is this 1 % plus the least margin
    (`smallest_margin`), rounded up to half per cents, and at least 3 %.
    """
    most = max(int(profile.budget_s / profile.connection_s), 1)
    margin = smallest_margin(noise, profile, error_rate)
    tolerance = max(LEAST_TOLERANCE, math.ceil((TOLERATED + margin) / STEP - 1e-9) * STEP)
    enough = (n for n in range(1, most) if margin_after(n, noise, error_rate) <= tolerance - TOLERATED)
    return round(tolerance, 4), max(next(enough, most), profile.passes_after), margin
