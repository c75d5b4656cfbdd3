"""The choice of a worker's next test."""

from pytest_pinet.scheduling.planner import Needs, PlannedTest, Planner, joined


def jobs(*groups: tuple[str, int], domains: str = "", total_s: float = 10.0, fillers: int = 0) -> list[PlannedTest]:
    """Return tests for each set of places (one letter per place), then tests without a lab."""
    made: list[PlannedTest] = []
    for places, count in groups:
        needs = Needs(frozenset(places), frozenset(domains.split()))
        made += [PlannedTest(len(made) + i, needs, total_s, total_s / 2) for i in range(count)]
    return made + [PlannedTest(len(made) + i, Needs(), 0.1, 0.0) for i in range(fillers)]


def planner(given: list[PlannedTest], *workers: str) -> Planner:
    made = Planner(given)
    for worker in workers:
        made.add_worker(worker)
    return made


def places(job: PlannedTest | None) -> str:
    return "".join(sorted(job.needs.places)) if job is not None else "nothing"


def test_a_node_set_stays_on_one_worker_and_disjoint_sets_run_in_parallel() -> None:
    plan = planner(jobs(("ab", 3), ("cd", 3)), "one", "two")
    assert [places(plan.next(worker, 0)) for worker in ("one", "two", "one", "two")] == ["ab", "cd", "ab", "cd"]


def test_the_busiest_node_goes_first() -> None:
    plan = planner(jobs(("ab", 1), ("cd", 1), ("ce", 2)), "one")
    assert [places(plan.next("one", 0)) for _ in range(4)] == ["ce", "ce", "cd", "ab"]


def test_nodes_in_use_are_avoided() -> None:
    plan = planner(jobs(("ab", 4), ("ac", 3), ("de", 1)), "one", "two")
    assert places(plan.next("one", 0)) == "ab"
    assert places(plan.next("two", 0)) == "de"


def test_an_idle_worker_waits_for_nodes_and_a_busy_worker_gets_its_next_test() -> None:
    plan = planner(jobs(("ab", 2), ("ac", 1), ("de", 1)), "one", "two", "three")
    assert places(plan.next("one", 0)) == "ab"
    assert places(plan.next("two", 0)) == "de"
    assert plan.next("three", 0) is None
    # Its test of d and e starts only when the next test is known.
    assert places(plan.next("two", 0)) == "ac"


def test_a_test_without_a_lab_runs_instead_of_waiting() -> None:
    plan = planner(jobs(("ab", 2), ("ac", 1), fillers=2), "one", "two")
    assert places(plan.next("one", 0)) == "ab"
    assert [job.index for job in (plan.next("two", 0), plan.next("two", 0)) if job] == [3, 4]


def test_a_domain_without_measurements_is_preferred() -> None:
    needs = {
        "ab": Needs(frozenset("ab"), frozenset({"bus"})),
        "cd": Needs(frozenset("cd"), frozenset({"bus"})),
        "ef": Needs(frozenset("ef"), frozenset({"uplink"})),
    }
    given = [PlannedTest(i, needs[name], 10.0, 9.0) for i, name in enumerate(("ab", "cd", "ef"))]
    plan = planner(given, "one", "two")
    first, second = plan.next("one", 0), plan.next("two", 0)
    assert first is not None
    assert second is not None
    assert first.needs.domains != second.needs.domains


def test_other_workers_get_the_tests_of_a_dead_worker() -> None:
    plan = planner(jobs(("ab", 3)), "one", "two")
    first, second = plan.next("one", 0), plan.next("one", 0)
    assert plan.remove_worker("one") == [first, second]
    assert second is not None
    plan.requeue(second)
    assert [job.index for job in (plan.next("two", 0), plan.next("two", 0)) if job] == [1, 2]
    assert plan.unassigned == 0


def test_a_requeued_test_of_a_finished_group_runs() -> None:
    plan = planner(jobs(("ab", 1), ("cd", 2)), "one", "two")
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
