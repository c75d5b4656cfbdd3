"""The expected duration of a test, and the needs that a worker writes."""

import json
from pathlib import Path

import pytest

from pytest_pinet.scheduling import planner
from pytest_pinet.scheduling.planner import AROUND_S, DEFAULT_TOTAL_S, Estimates, Needs


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
