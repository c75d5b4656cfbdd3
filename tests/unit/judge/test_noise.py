"""Noise: its sources, the tolerances that it allows, and the proposed tolerance."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from benchmarks.verdicts.ours import noise_of
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import decide
from pytest_pinet.judge.spread import UNKNOWN, Noise, components, propose, smallest_margin
from pytest_pinet.judge.statistics import chi_square, student
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import connection_of, steady, with_dips

STANDARD = PROFILES["standard"]


def history(
    boots: int, links: int, connections: int, sds: tuple[float, float, float], values: random.Random
) -> list[Connection]:
    """Return steady connections with these standard deviations between connections, link-ups and boots."""
    found = []
    for _ in range(boots):
        of_boot = values.gauss(0, sds[2])
        for link in range(links):
            of_link = of_boot + values.gauss(0, sds[1])
            for connection in range(connections):
                fresh = Fresh.CONNECTION if connection else Fresh.LINK if link else Fresh.BOOT
                rate = 940 * math.exp(of_link + values.gauss(0, sds[0]))
                found.append(connection_of([rate] * 10, fresh=fresh))
    return found


def test_each_component_is_estimated_without_the_others() -> None:
    values = random.Random(7)
    seen = [components(history(6, 4, 3, (0.004, 0.01, 0.02), values)) for _ in range(60)]
    assert fmean(s.connections.sd for s in seen) == pytest.approx(0.004, rel=0.05)
    assert fmean(s.links.sd for s in seen if s.links) == pytest.approx(0.01, rel=0.1)
    assert math.sqrt(fmean(s.boots.sd**2 for s in seen if s.boots)) == pytest.approx(0.02, rel=0.2)
    one = seen[0]
    assert one.links is not None
    assert one.boots is not None
    assert (one.connections.freedom, one.links.freedom, one.boots.freedom) == (48, 18, 5)
    assert one.figures == 72


def test_differences_between_connections_are_not_attributed_to_link_ups() -> None:
    values = random.Random(17)
    seen = [components(history(1, 24, 3, (0.02, 0.01, 0.0), values)) for _ in range(80)]
    assert math.sqrt(fmean(s.links.sd**2 for s in seen if s.links)) == pytest.approx(0.01, rel=0.12)


def test_groups_of_unequal_size_are_weighted_correctly() -> None:
    values = random.Random(8)
    seen = []
    for _ in range(300):
        made = history(1, 4, 12, (0.005, 0.01, 0.0), values)
        # One link-up keeps all its connections, the others keep only one.
        seen.append(components([a for index, a in enumerate(made) if index < 12 or index % 12 == 0]))
    assert math.sqrt(fmean(s.links.sd**2 for s in seen if s.links)) == pytest.approx(0.01, rel=0.12)
    assert math.sqrt(fmean(s.connections.sd**2 for s in seen)) == pytest.approx(0.005, rel=0.1)


def test_the_cautious_value_is_above_the_truth_seven_times_in_ten() -> None:
    values = random.Random(9)
    seen = [components(history(1, 8, 2, (0.005, 0.01, 0.0), values)) for _ in range(300)]
    share = fmean(s.links is not None and s.links.at_most > 0.01 for s in seen)
    assert 0.65 < share < 0.85


def test_the_noise_of_a_gate_has_all_levels_and_the_baselines_own_error() -> None:
    found = components(history(4, 3, 3, (0.004, 0.01, 0.02), random.Random(3)))
    noise, with_baseline = noise_of(found), noise_of(found, 4)
    assert noise.freedom == 24
    assert noise.sessions > noise.links > 0
    assert with_baseline.sessions == pytest.approx(noise.sessions * math.sqrt(1.25))


def test_a_level_known_from_few_link_ups_is_trusted_less() -> None:
    connections = [steady(925)] * 2
    known = {freedom: Noise(0.003, 24, 0.008, session_freedom=freedom) for freedom in (2, 100)}
    outcomes = {
        freedom: decide(connections, Bitrate.mbps(900), noise, STANDARD).outcome for freedom, noise in known.items()
    }
    assert outcomes == {2: None, 100: Verdict.PASS}
    margins = [smallest_margin(noise, STANDARD) for noise in known.values()]
    assert margins == sorted(margins, reverse=True)


def test_a_level_without_repetitions_counts_as_assumed() -> None:
    found = components([steady(940 + index) for index in range(6)])
    assert (found.links, found.boots) == (None, None)
    assert noise_of(found).sessions == UNKNOWN.sessions


def test_connections_without_a_value_are_ignored() -> None:
    made = history(1, 3, 3, (0.004, 0.01, 0.0), random.Random(3))
    assert components([*made, connection_of([940], excluded="killed"), steady(0)]) == components(made)


def test_one_stall_does_not_count_as_noise_but_as_a_disturbance() -> None:
    made = [steady(940 + index) for index in range(5)]
    quiet = components(made).connections.sd
    spoiled = components([*made[:4], with_dips(944, [(1.0, 1.0, 0.0)])])
    assert spoiled.connections.sd == pytest.approx(quiet, rel=0.3)
    assert (spoiled.figures, spoiled.disturbed) == (4, 1)


def test_a_link_that_always_stalls_is_not_calibrated_and_the_error_says_why() -> None:
    stalled = with_dips(944, [(1.0, 1.0, 0.0)])
    with pytest.raises(ValueError, match=r"4 of 5 were disturbed, for example: 0 % of the rate for 1\.0 s, 1"):
        components([steady(940), *[stalled] * 4])


def test_components_need_two_connections_of_one_link_up() -> None:
    with pytest.raises(
        ValueError, match="3 values on 3 link-ups are too few to estimate the noise between connections"
    ):
        components([steady(940, fresh=Fresh.LINK)] * 3)


def test_more_link_ups_average_their_part_of_the_noise() -> None:
    noise = Noise(0.01, 5, 0.02, links=0.016)
    one, four = (noise.level_variance([Fresh.LINK] * (n - 1)) for n in (1, 4))
    assert one == pytest.approx(0.02**2)
    assert four == pytest.approx(0.012**2 + 0.016**2 / 4)


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_the_smallest_margin_is_one_that_nine_of_ten_gates_decide(profile: str) -> None:
    noise = Noise(0.02, 50, 0.003)
    chosen = PROFILES[profile]
    margin = smallest_margin(noise, chosen)
    values = random.Random(5)
    ends = []
    for _ in range(120):
        level = 900 * (1 + margin) * math.exp(values.gauss(0, noise.sessions))
        made: list[Connection] = []
        outcome = None
        while outcome is None:
            made.append(connection_of([level * math.exp(values.gauss(0, 0.02))] * chosen.connection_s, 1.0, warmup=0))
            outcome = decide(made, Bitrate.mbps(900), noise, chosen).outcome
        ends.append(outcome)
    assert ends.count(Verdict.PASS) > 0.85 * len(ends)
    assert ends.count(Verdict.FAIL) <= 1


def test_the_margin_grows_with_the_noise_and_with_certainty() -> None:
    margins = [smallest_margin(Noise(sd, 10, sd / 3), STANDARD) for sd in (0.001, 0.005, 0.02, 0.1)]
    assert margins == sorted(margins)
    noise = Noise(0.02, 10, 0.005)
    assert smallest_margin(noise, STANDARD, 0.001) > smallest_margin(noise, STANDARD, 0.05)


def test_a_quiet_link_gets_three_percent_tolerance_and_a_noisy_link_gets_more() -> None:
    tolerance, repeats, _ = propose(Noise(0.003, 10, 0.002), STANDARD)
    assert (tolerance, repeats) == (0.03, 1)
    noisy, looser = (propose(Noise(0.03, 10, 0.015), STANDARD, error_rate)[0] for error_rate in (0.01, 0.05))
    assert noisy > 0.05
    assert looser <= noisy
    assert noisy * 200 == pytest.approx(round(noisy * 200))


# Abramowitz and Stegun, tables 26.8 and 26.10.
@pytest.mark.parametrize(
    ("freedom", "chi", "t"), [(1, 6.635, 31.821), (2, 9.210, 6.965), (5, 15.086, 3.365), (20, 37.566, 2.528)]
)
def test_quantiles_match_published_tables(freedom: int, chi: float, t: float) -> None:
    assert chi_square(0.99, freedom) == pytest.approx(chi, rel=0.02)
    assert student(0.99, freedom) == pytest.approx(t, rel=0.01)
    assert student(0.01, freedom) == pytest.approx(-t, rel=0.01)
