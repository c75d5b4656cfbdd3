"""The time that a run takes with the real scheduler and simulated workers, against the least that it can take."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.generated_labs import generate, lower_bound
from benchmarks.simulated_workers import simulate

MOST = 1.15


def ratios(nodes: int, workers: int, labs: int) -> list[float]:
    """Makespan over lower bound of the first so many labs; none is left out."""
    found = []
    for seed in range(labs):
        jobs, actual = generate(nodes, seed)
        outcome = simulate(jobs, workers, actual)
        found.append(outcome.makespan_s / lower_bound(jobs, actual, workers)[0])
        assert outcome.decision_s / outcome.decisions < 0.005
    return found


@pytest.mark.parametrize(("nodes", "workers", "labs"), [(50, 4, 20), (50, 16, 20), (1000, 64, 1), (1000, 250, 1)])
def test_the_makespan_is_within_15_percent_of_the_lower_bound(nodes: int, workers: int, labs: int) -> None:
    assert max(ratios(nodes, workers, labs)) <= MOST


@pytest.mark.parametrize(("nodes", "workers", "labs"), [(6, 2, 40), (6, 3, 40), (50, 8, 40), (1000, 128, 1)])
def test_where_several_bounds_meet_the_usual_lab_is_within_15_percent_and_none_is_far(
    nodes: int, workers: int, labs: int
) -> None:
    """Not every lab is: of six nodes one in 6 to 20, of fifty with eight workers one in three, up to 1.26 times.

    A node, a domain or the workers that are each busy for nearly the whole run delay each other, which no bound counts.
    """
    found = ratios(nodes, workers, labs)
    assert median(found) <= MOST
    assert max(found) <= 1.3


def test_each_test_runs_once_and_a_node_set_stays_on_one_worker() -> None:
    jobs, actual = generate(50, 1)
    outcome = simulate(jobs, 8, actual)
    assert sorted(index for index, _ in outcome.order) == list(range(len(jobs)))
    workers: dict[frozenset[str], set[str]] = {}
    for index, worker in outcome.order:
        workers.setdefault(jobs[index].needs.places, set()).add(worker)
    assert {len(names) for names in workers.values()} == {1}


def test_after_a_worker_died_everything_else_runs_once() -> None:
    jobs, actual = generate(50, 2)
    outcome = simulate(jobs, 4, actual, kill_at_s=100.0)
    begun = [index for index, _ in outcome.order]
    assert set(begun) == set(range(len(jobs)))
    assert len(begun) == len(jobs)


def test_more_workers_than_nodes_do_no_harm() -> None:
    jobs, actual = generate(6, 3)
    assert simulate(jobs, 20, actual).makespan_s <= MOST * lower_bound(jobs, actual, 20)[0]
