"""The time that a run with several workers takes, against the least that it can take, in generated labs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.generated_labs import generate, lower_bound
from benchmarks.simulated_workers import simulate

Count = Callable[[int, int, str], None]
MOST = 1.15
# Workers and domains are both scarce: there is work for 1.3 to 1.6 workers per domain during the whole run. A single
# worker leaves the domain idle between its measurements, two wait for each other, and each bound counts only one of the
# two effects. For the tenth lab of fifty nodes, a search of two million schedules with known durations found none below
# 1.17 times the bound, which does not prove that there is none. The worst of 150 labs was 1.242. With six nodes, the
# order is chosen once and not searched: the worst of 100 labs was 1.217 with two workers, and 1.217 with three.
MOST_WHERE_BOUNDS_MEET = 1.25


def ratio(nodes: int, workers: int, seed: int) -> float:
    """Return makespan over lower bound of one lab."""
    jobs, actual = generate(nodes, seed)
    outcome = simulate(jobs, workers, actual)
    found = outcome.makespan_s / lower_bound(jobs, actual, workers)[0]
    assert found >= 1.0, "no run is shorter than the lower bound"
    assert sorted(index for index, _ in outcome.order) == list(range(len(jobs)))
    return found


@pytest.mark.parametrize(
    ("nodes", "workers", "labs", "most"),
    [
        pytest.param(
            nodes,
            workers,
            labs,
            most,
            marks=pytest.mark.soak(
                f"With {nodes} nodes and {workers} workers a run takes at most {most} times the lower bound.",
                runs=labs,
                minutes=60,
            ),
        )
        for nodes, workers, labs, most in [
            (6, 2, 100, MOST_WHERE_BOUNDS_MEET),
            (6, 3, 100, MOST_WHERE_BOUNDS_MEET),
            (50, 4, 50, MOST),
            (50, 8, 50, MOST_WHERE_BOUNDS_MEET),
            (50, 16, 50, MOST),
            (1000, 64, 3, MOST),
            (1000, 128, 8, MOST_WHERE_BOUNDS_MEET),
            (1000, 250, 3, MOST),
        ]
    ],
)
def test_the_makespan_is_near_the_lower_bound(
    soak_count: Count, nodes: int, workers: int, labs: int, most: float
) -> None:
    found = [ratio(nodes, workers, seed) for seed in range(labs)]
    worst = ", ".join(f"{value:.3f} (seed {seed})" for seed, value in enumerate(found) if value > most)
    soak_count(labs, sum(one > most for one in found), f"times the lower bound: {worst}")


@pytest.mark.soak("With {nodes} nodes and {workers} workers half of all runs take at most 1.15 times the lower bound.")
@pytest.mark.parametrize(("nodes", "workers", "labs"), [(6, 2, 100), (6, 3, 100), (50, 8, 40), (1000, 128, 8)])
def test_the_usual_makespan_is_near_the_lower_bound(nodes: int, workers: int, labs: int) -> None:
    found = sorted(ratio(nodes, workers, seed) for seed in range(labs))
    assert found[(labs - 1) // 2] <= MOST


@pytest.mark.soak("With {nodes} nodes and {workers} workers a decision of the scheduler takes less than 5 ms.")
@pytest.mark.parametrize(("nodes", "workers"), [(6, 3), (50, 16), (1000, 250)])
def test_a_decision_is_quick(nodes: int, workers: int) -> None:
    jobs, actual = generate(nodes, 0)
    outcome = simulate(jobs, workers, actual)
    # Processor time of the scheduler's own thread.
    assert outcome.decision_s / outcome.decisions < 0.005
