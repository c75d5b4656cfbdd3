"""The simulated end of a run."""

from __future__ import annotations

import pytest

from benchmarks.generated_labs import generate
from benchmarks.simulated_workers import simulate
from pytest_pinet.scheduling.endgame import Block, WorkerLane, rehearse
from pytest_pinet.scheduling.plan import Needs, PlannedTest

A, B, C = 1, 2, 4


def block(mask: int, *tests: tuple[float, float], domain: str = "host") -> Block:
    """Return a block of tests, given by total and traffic seconds."""
    needs = Needs(frozenset({"any"}), frozenset({domain}))
    return Block.of(
        [PlannedTest(index, needs, total_s, traffic_s) for index, (total_s, traffic_s) in enumerate(tests)], mask
    )


def ends(*blocks: Block, workers: int = 2) -> float:
    return rehearse(100.0, [WorkerLane(())] * workers, blocks)


def test_a_block_is_split_where_it_measures() -> None:
    made = block(A, (10, 6), (8, 2))
    assert (made.gaps_s, made.traffic_s, made.tail_s) == ((2.0, 5.0), (6, 2), 3.0)


def test_independent_blocks_run_in_parallel() -> None:
    assert ends(block(A, (10, 6)), block(B, (10, 6), domain="other")) == 110.0


def test_measurements_in_one_domain_run_one_after_the_other() -> None:
    assert ends(block(A, (10, 6)), block(B, (10, 6))) == pytest.approx(116.0, abs=0.01)


def test_blocks_that_share_a_place_run_one_after_the_other() -> None:
    assert ends(block(A | B, (10, 1)), block(B | C, (10, 1), domain="other")) == 120.0


def test_another_domain_is_preferred_to_a_crowded_one() -> None:
    # The third worker takes the last block, and the third test of the host follows the first two.
    crowd = [block(1 << bit, (10, 9)) for bit in range(3)]
    assert ends(*crowd, block(8, (19, 9), domain="other"), workers=3) == pytest.approx(128.0, abs=0.05)
    assert ends(block(8, (19, 9), domain="other"), *crowd, workers=3) == pytest.approx(128.0, abs=0.05)


def test_a_running_lane_continues_and_an_overdue_test_ends_now() -> None:
    assert rehearse(100.0, [WorkerLane((block(A, (10, 6)),), since=95.0)], []) == 105.0
    assert rehearse(100.0, [WorkerLane((block(A, (10, 6)),), since=50.0)], []) == 100.0


def test_a_lane_begins_when_its_places_are_free() -> None:
    lanes = [WorkerLane((block(A, (10, 1)),), since=100.0), WorkerLane((block(A, (5, 1)),), since=None)]
    assert rehearse(100.0, lanes, []) == 115.0


def test_a_rehearsal_without_a_free_worker_never_ends() -> None:
    assert rehearse(100.0, [WorkerLane((block(A, (10, 6)),), since=100.0, open=False)], [block(B, (1, 1))]) == float(
        "inf"
    )


def test_a_pausing_lane_takes_a_block_when_another_lane_has_finished() -> None:
    lanes = [WorkerLane((block(A, (10, 1)),), since=100.0), WorkerLane((), pauses=True)]
    assert rehearse(100.0, lanes, [block(B, (4, 1))]) == 114.0


def test_a_rehearsal_stops_at_its_limit() -> None:
    assert rehearse(100.0, [WorkerLane(())], [block(A, (10, 6)), block(B, (10, 6))], limit=105.0) >= 105.0


@pytest.mark.parametrize("seed", range(5))
def test_a_rehearsal_with_one_worker_has_the_simulated_duration(seed: int) -> None:
    jobs, _ = generate(6, seed)
    blocks = [block(A, *[(job.total_s, job.traffic_s) for job in jobs])]
    assert rehearse(0.0, [WorkerLane(())], blocks) == pytest.approx(simulate(jobs, 1).makespan_s)
