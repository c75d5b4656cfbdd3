"""The duration of a run with the real scheduler and simulated workers. tests/soak/ has more labs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from benchmarks.generated_labs import generate, lower_bound
from benchmarks.simulated_workers import shortest, simulate
from pytest_pinet.scheduling.planner import Needs, PlannedTest

MOST = 1.15


def ratios(nodes: int, workers: int, seeds: Iterable[int]) -> list[float]:
    """Return makespan over lower bound of these labs."""
    found = []
    for seed in seeds:
        jobs, actual = generate(nodes, seed)
        outcome = simulate(jobs, workers, actual)
        found.append(outcome.makespan_s / lower_bound(jobs, actual, workers)[0])
        assert found[-1] >= 1.0, "a run cannot be shorter than the lower bound"
    return found


@pytest.mark.parametrize(("nodes", "workers", "labs"), [(6, 2, 3), (6, 3, 3), (50, 4, 1), (50, 16, 1)])
def test_the_makespan_is_within_15_percent_of_the_lower_bound(nodes: int, workers: int, labs: int) -> None:
    assert max(ratios(nodes, workers, range(labs))) <= MOST


def test_the_best_order_of_combinations_is_above_the_bound_and_near_a_run() -> None:
    jobs, actual = generate(3, 0)
    best = shortest(jobs, actual, 2)
    assert lower_bound(jobs, actual, 2)[0] <= best + 1e-9 <= 1.05 * simulate(jobs, 2, actual).makespan_s
    assert shortest(jobs, actual, 1) == pytest.approx(sum(total_s for total_s, _ in actual.values()))


def test_each_test_runs_once_and_a_node_set_stays_on_one_worker() -> None:
    jobs, actual = generate(50, 1)
    outcome = simulate(jobs, 8, actual)
    assert sorted(index for index, _ in outcome.order) == list(range(len(jobs)))
    assert most_workers_of_a_node_set(jobs, outcome.order) == 1


@pytest.mark.parametrize("nodes", [3, 5, 8, 12])
@pytest.mark.parametrize("workers", [1, 2, 3, 6])
def test_the_same_holds_in_small_labs(nodes: int, workers: int) -> None:
    for seed in range(4):
        jobs, actual = generate(nodes, seed)
        outcome = simulate(jobs, workers, actual)
        assert sorted(index for index, _ in outcome.order) == list(range(len(jobs)))
        assert most_workers_of_a_node_set(jobs, outcome.order) == 1


def most_workers_of_a_node_set(jobs: list[PlannedTest], order: Iterable[tuple[int, str]]) -> int:
    workers: dict[frozenset[str], set[str]] = {}
    for index, worker in order:
        workers.setdefault(jobs[index].needs.places, set()).add(worker)
    return max(len(names) for names in workers.values())


@pytest.mark.parametrize(("nodes", "workers"), [(6, 1), (6, 3), (12, 4), (50, 4)])
@pytest.mark.parametrize("kill_at_s", [1.0, 40.0, 100.0])
def test_after_the_death_of_a_worker_all_other_tests_run_once(nodes: int, workers: int, kill_at_s: float) -> None:
    for seed in range(2):
        jobs, actual = generate(nodes, seed)
        begun = [index for index, _ in simulate(jobs, workers, actual, kill_at_s=kill_at_s).order]
        assert len(begun) == len(set(begun))
        # The current test of the dead worker is lost, even if it still waited for its places.
        assert len(begun) >= len(jobs) - 1


def test_more_workers_than_nodes_do_not_prolong_the_run() -> None:
    jobs, actual = generate(6, 3)
    assert simulate(jobs, 20, actual).makespan_s <= MOST * lower_bound(jobs, actual, 20)[0]


def bound(workers: int, *groups: tuple[str, str, float, float]) -> float:
    """Return the lower bound of groups of one test each.

    A group is places (one letter each), domain, total and traffic (s).
    """
    jobs = [
        PlannedTest(index, Needs(frozenset(places), frozenset({domain})), total_s, traffic_s)
        for index, (places, domain, total_s, traffic_s) in enumerate(groups)
    ]
    return lower_bound(jobs, {job.index: (job.total_s, job.traffic_s) for job in jobs}, workers)[0]


def test_the_bound_counts_node_sets_as_a_whole() -> None:
    three = [(places, f"domain {places}", 10.0, 1.0) for places in ("ab", "cd", "ef")]
    assert bound(2, *three) == 20.0
    # Too many to try all assignments: one of four workers has three of nine.
    nine = [(f"{letter}{letter.upper()}", f"domain {letter}", 10.0, 1.0) for letter in "abcdefghi"]
    assert bound(4, *nine) == 30.0


def test_the_bound_counts_node_sets_that_exclude_each_other() -> None:
    ring = [(places, "host", 10.0, 1.0) for places in ("ab", "bc", "cd", "de", "ea")]
    assert bound(5, *ring) == 25.0
