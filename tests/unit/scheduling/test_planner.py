"""The plan for workers: which test next, the needs of tests, and how long a whole run takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.generated_labs import generate, lower_bound
from benchmarks.simulated_workers import shortest, simulate
from pytest_pinet.scheduling import planner
from pytest_pinet.scheduling.hooks import STOP_FILE, end_workers
from pytest_pinet.scheduling.planner import AROUND_S, DEFAULT_TOTAL_S, Estimates, Needs, PlannedTest, Planner, joined


def jobs(*groups: tuple[str, int], domains: str = "", total_s: float = 10.0, fillers: int = 0) -> list[PlannedTest]:
    """Return tests for each set of places (one letter per place), then tests without a lab."""
    made: list[PlannedTest] = []
    for places, count in groups:
        needs = Needs(frozenset(places), frozenset(domains.split()))
        made += [PlannedTest(len(made) + i, needs, total_s, total_s / 2) for i in range(count)]
    return made + [PlannedTest(len(made) + i, Needs(), 0.1, 0.0) for i in range(fillers)]


def planner_of(given: list[PlannedTest], *workers: str) -> Planner:
    made = Planner(given)
    for worker in workers:
        made.add_worker(worker)
    return made


def places(job: PlannedTest | None) -> str:
    return "".join(sorted(job.needs.places)) if job is not None else "nothing"


def test_a_node_set_stays_on_one_worker_and_disjoint_sets_run_in_parallel() -> None:
    plan = planner_of(jobs(("ab", 3), ("cd", 3)), "one", "two")
    assert [places(plan.next(worker, 0)) for worker in ("one", "two", "one", "two")] == ["ab", "cd", "ab", "cd"]


def test_the_busiest_node_goes_first() -> None:
    plan = planner_of(jobs(("ab", 1), ("cd", 1), ("ce", 2)), "one")
    assert [places(plan.next("one", 0)) for _ in range(4)] == ["ce", "ce", "cd", "ab"]


def test_nodes_in_use_are_avoided() -> None:
    plan = planner_of(jobs(("ab", 4), ("ac", 3), ("de", 1)), "one", "two")
    assert places(plan.next("one", 0)) == "ab"
    assert places(plan.next("two", 0)) == "de"


def test_an_idle_worker_waits_for_nodes_and_a_busy_worker_gets_its_next_test() -> None:
    plan = planner_of(jobs(("ab", 2), ("ac", 1), ("de", 1)), "one", "two", "three")
    assert places(plan.next("one", 0)) == "ab"
    assert places(plan.next("two", 0)) == "de"
    assert plan.next("three", 0) is None
    # Its test of d and e starts only when the next test is known.
    assert places(plan.next("two", 0)) == "ac"


def test_a_test_without_a_lab_runs_instead_of_waiting() -> None:
    plan = planner_of(jobs(("ab", 2), ("ac", 1), fillers=2), "one", "two")
    assert places(plan.next("one", 0)) == "ab"
    assert [job.index for job in (plan.next("two", 0), plan.next("two", 0)) if job] == [3, 4]


def test_a_domain_without_measurements_is_preferred() -> None:
    needs = {
        "ab": Needs(frozenset("ab"), frozenset({"bus"})),
        "cd": Needs(frozenset("cd"), frozenset({"bus"})),
        "ef": Needs(frozenset("ef"), frozenset({"uplink"})),
    }
    given = [PlannedTest(i, needs[name], 10.0, 9.0) for i, name in enumerate(("ab", "cd", "ef"))]
    plan = planner_of(given, "one", "two")
    first, second = plan.next("one", 0), plan.next("two", 0)
    assert first is not None
    assert second is not None
    assert first.needs.domains != second.needs.domains


def test_other_workers_get_the_tests_of_a_dead_worker() -> None:
    plan = planner_of(jobs(("ab", 3)), "one", "two")
    first, second = plan.next("one", 0), plan.next("one", 0)
    assert plan.remove_worker("one") == [first, second]
    assert second is not None
    plan.requeue(second)
    assert [job.index for job in (plan.next("two", 0), plan.next("two", 0)) if job] == [1, 2]
    assert plan.unassigned == 0


def test_a_requeued_test_of_a_finished_group_runs() -> None:
    plan = planner_of(jobs(("ab", 1), ("cd", 2)), "one", "two")
    given = {worker: plan.next(worker, 0) for worker in ("one", "two")}
    lost = next(job for job in given.values() if places(job) == "ab")
    assert lost is not None
    worker = next(name for name, job in given.items() if job is lost)
    plan.remove_worker(worker)
    plan.requeue(lost)
    other = next(iter(plan.workers))
    assert {places(plan.next(other, 0)) for _ in range(2)} == {"ab", "cd"}


def test_tests_that_share_nodes_have_joined_needs() -> None:
    words = {"1": "ab x", "2": "cd y", "3": "ef z", "4": "bg x", "5": "ge w", "6": "d y"}
    needs = {name: Needs(frozenset(both.split()[0]), frozenset(both.split()[1])) for name, both in words.items()}
    found = joined(needs)
    left = Needs(frozenset("abefg"), frozenset("xzw"))
    right = Needs(frozenset("cd"), frozenset("y"))
    assert found == {"1": left, "2": right, "3": left, "4": left, "5": left, "6": right}


def run(runs: Path, name: str, *results: tuple[str, float, float]) -> None:
    lines = [json.dumps({"test": t, "seconds": s, "traffic_seconds": m}) for t, s, m in results]
    (runs / name).mkdir()
    (runs / name / "results.jsonl").write_text("\n".join([*lines, '{"test": "cut sho']))


def test_the_latest_run_of_each_test_counts(tmp_path: Path) -> None:
    run(tmp_path, "20260101-000000", ("a", 30, 20), ("b", 5, 4))
    run(tmp_path, "20260102-000000", ("a", 10, 8))
    estimates = Estimates.of_earlier_runs(tmp_path)
    assert estimates["a"].total_s == AROUND_S + 10
    assert estimates["a"].traffic_s == 8
    assert estimates["b"].total_s == AROUND_S + 5


def test_measurements_of_a_test_add_up_and_errors_are_ignored(tmp_path: Path) -> None:
    run(tmp_path, "20260101-000000", ("a", 10, 8), ("a", 10, 8), ("b", 0.0, 0.0))
    estimates = Estimates.of_earlier_runs(tmp_path)
    assert estimates["a"].total_s == AROUND_S + 20
    assert estimates["b"] == estimates["never seen"] == estimates["a"]


def test_a_test_with_other_parameters_takes_as_long_as_its_function(tmp_path: Path) -> None:
    run(
        tmp_path,
        "20260101-000000",
        ("f.py::test_idle[a]", 130, 90),
        ("f.py::test_x[a]", 3, 2),
        ("f.py::test_x[b]", 5, 2),
    )
    estimates = Estimates.of_earlier_runs(tmp_path)
    assert estimates["f.py::test_idle[b]"] == estimates["f.py::test_idle[a]"]
    assert estimates["f.py::test_x[c]"].total_s == AROUND_S + 4
    assert estimates["f.py::test_new[a]"].total_s == AROUND_S + 5
    assert estimates.total_s("f.py::test_x[c]", 99.0) == AROUND_S + 4
    # The median of other tests says little of a test that never ran.
    assert estimates.total_s("f.py::test_new[a]", 99.0) == 99.0


def test_a_comparison_of_builds_counts_as_one_of_its_turns(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    result = {"test": "a", "seconds": 540, "traffic_seconds": 27, "change": {"turns": [{}] * 9}}
    (tmp_path / "1" / "results.jsonl").write_text(json.dumps(result))
    estimate = Estimates.of_earlier_runs(tmp_path)["a"]
    assert (estimate.total_s, estimate.traffic_s) == (AROUND_S + 60, 3)


def test_without_an_earlier_run_the_default_is_used(tmp_path: Path) -> None:
    assert Estimates.of_earlier_runs(tmp_path)["a"].total_s == DEFAULT_TOTAL_S


def test_the_written_needs_can_be_read(tmp_path: Path) -> None:
    assert planner.read(tmp_path) == {}
    needs = {"t.py::a[x]": Needs(frozenset({"pi1", "pi2"}), frozenset({"host"}))}
    planner.write(tmp_path, needs)
    assert planner.read(tmp_path) == needs
    assert [path.name for path in tmp_path.iterdir()] == [planner.FILE]


@pytest.mark.parametrize("broken", ["[]", '{"test": 1}', '{"test": "a", "seconds": null, "traffic_seconds": 1}'])
def test_invalid_lines_are_ignored(tmp_path: Path, broken: str) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "results.jsonl").write_text(broken)
    assert Estimates.of_earlier_runs(tmp_path)["a"].total_s == DEFAULT_TOTAL_S


def test_an_unreadable_run_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "2" / "results.jsonl").mkdir(parents=True)
    run(tmp_path, "1", ("a", 10, 8))
    assert Estimates.of_earlier_runs(tmp_path)["a"].total_s == AROUND_S + 10


@pytest.mark.parametrize(
    "result",
    [
        '{"test": [], "seconds": 5, "traffic_seconds": 3}',
        '{"test": "b", "seconds": NaN, "traffic_seconds": 3}',
        '{"test": "b", "seconds": 1' + 400 * "0" + ', "traffic_seconds": 3}',
    ],
)
def test_a_line_with_values_of_other_types_is_ignored(result: str, tmp_path: Path) -> None:
    run(tmp_path, "20260101-000000", ("a", 10, 8))
    (tmp_path / "20260102-000000").mkdir()
    (tmp_path / "20260102-000000" / "results.jsonl").write_text(f"{result}\n")
    assert dict(Estimates.of_earlier_runs(tmp_path)).keys() == {"a"}


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


@pytest.mark.parametrize("moment", ["while the stop file is written", "while workers are stopped", "during the wait"])
def test_a_second_ctrl_c_ends_the_wait_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    said: list[str] = []

    def reach(now: str) -> None:
        said.append(now)
        if now == moment:
            raise KeyboardInterrupt

    def touch(_: Path) -> None:
        reach("while the stop file is written")

    channel = SimpleNamespace(isclosed=lambda: False)
    worker = SimpleNamespace(
        workerinput={"workerid": "gw0"},
        channel=channel,
        gateway=SimpleNamespace(hasreceiver=lambda: True),
        shutdown=lambda: reach("while workers are stopped"),
    )
    monkeypatch.setattr(Path, "touch", touch)
    for name in ("QUIET_S", "UNDO_S"):
        monkeypatch.setattr(f"pytest_pinet.scheduling.hooks.{name}", 0.0)
    end_workers([worker], tmp_path, lambda _: reach("during the wait"))
    assert said[-1] == moment
    assert not (tmp_path / STOP_FILE).exists()
