"""A run with a build under test: workers, shards and warnings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.ab.build_run import AlternatingMeasuring
from tests.support.change_session import CONFTEST, LOG, ONE_TEST, THREE_TESTS, Bench, bench_with, fresh_plans, printed


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        yield found


def test_a_build_without_a_lab_is_a_mistake(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PINET_LAB", raising=False)
    result = bench.run("--pinet-lab=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--pinet-build: no lab is configured for the build; pass --pinet-lab FILE*"])


def test_the_default_baseline_is_the_own_build_of_the_boards(bench: Bench) -> None:
    result = bench.run(builds=("new.yaml",))
    result.assert_outcomes(passed=1)
    sentence = "new may be merged: the metric is not slower than with the boards' own build."
    printed(result, "A: the build that is installed on the boards", sentence)


def test_after_ctrl_c_the_results_of_earlier_boots_are_kept(bench: Bench) -> None:
    bench.plan("def stop(side, boot):\n    if boot == 3:\n        raise KeyboardInterrupt\n\nPLAN = Plan(traffic=stop)")
    result = bench.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert bench.boots == "ABB"
    # The results of earlier turns are not lost.
    assert bench.verdicts == ["inconclusive"]
    (entry,) = bench.head["entries"]
    assert (entry["a_bps"], entry["b_bps"]) == (pytest.approx(940e6, rel=0.01), pytest.approx(940e6, rel=0.01))
    turns = bench.record["results"][0]["change"]["turns"]
    assert [one["side"] for one in turns if one["connections"]] == ["A", "B"]
    printed(result, "No decision on new: 1 of 1 metrics are undecided.")


def test_after_ctrl_c_the_answer_is_undecided_because_a_test_is_not_measured(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace('board="pi4b", nic="onboard"', 'board=["pi4b", "cm4"], nic="onboard"'))
    plan = """
first_boots = []
def stop(side, boot):
    first_boots.append(boot)
    if first_boots.count(1) == 2:
        raise KeyboardInterrupt

PLAN = Plan(start=stop)
"""
    bench.plan(plan)
    result = bench.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert bench.verdicts == ["pass"]
    assert (bench.head["verdict"], bench.record["complete"]) == ("inconclusive", False)
    printed(result, "No decision on new: no metric is slower, but the run was interrupted.")


def test_a_finding_before_ctrl_c_is_reported(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    plan = """
of_b = []
def stop(side, boot):
    of_b.append(side)
    if of_b.count(Side.B) == 1:
        raise KernelError("kernel oops on one", "Oops!")
    if of_b.count(Side.B) == 2:
        raise KeyboardInterrupt

PLAN = Plan(traffic=stop)
"""
    bench.plan(plan)
    assert bench.run().ret == pytest.ExitCode.INTERRUPTED
    assert sorted(bench.verdicts) == ["fail", "inconclusive", "inconclusive"]
    assert (bench.head["verdict"], bench.head["entries"][0]["text"]) == ("fail", "kernel oops on one")


def test_values_of_all_shards_count() -> None:
    plain = SimpleNamespace(shards=4, error_rate=0.01, is_measuring=None, references=None)
    boots = SimpleNamespace(options=SimpleNamespace(most_boots=16))
    measuring = AlternatingMeasuring(boots, plain)  # type: ignore[arg-type]
    measuring.rounds = SimpleNamespace(values=3)  # type: ignore[assignment]
    assert measuring._values() == 12


PLAN = """
import warnings

def start(side, boot):
    # As labgrid's SerialLoggingReporter does for a console that has said nothing yet.
    warnings.warn("unhandled exception during event notification: PiSerialDriver(one)")

PLAN = Plan(start=start)
"""
TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""


def test_labgrid_may_warn_of_a_silent_console_where_warnings_are_errors(pytester: pytest.Pytester) -> None:
    with fresh_plans(pytester.path):
        bench = Bench(pytester)
        bench.plan(PLAN)
        # The plugin was imported before this pytest began.
        known = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
        pytester.makeini(f"[pytest]\nfilterwarnings =\n    error\n    {known}\n")
        pytester.makepyfile(test_it=TEST)
        bench.run().assert_outcomes(passed=1)


# Two pairs without common nodes, each with its own switch.
TWO_PAIRS = """\
pinet:
  switches:
    s: {backend: fixed, ports: p1-p9}
    t: {backend: fixed, ports: p1-p9}
  nodes:
    one: {board: pi4b, interfaces: {onboard: {port: s/p1}}}
    two: {board: cm4, interfaces: {onboard: {port: s/p2}}}
    three: {board: pi5, interfaces: {onboard: {port: t/p1}}}
    four: {board: cm4, interfaces: {onboard: {port: t/p2}}}
"""
BOARDS = """
import pytest

@pytest.mark.pinet(board=["pi4b", "pi5"], nic="onboard")
@pytest.mark.parametrize("direction", ["tx", "rx"])
def test_way(link, gate, direction):
    gate.tcp(link, direction=direction)
"""


@pytest.fixture
def pairs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # Workers are separate processes.
    paths = [str(Path(__file__).parents[3]), str(pytester.path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    # Their controller is not the worker that may run this test.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with bench_with(pytester, BOARDS) as found:
        (pytester.path / "lab.yaml").write_text(TWO_PAIRS)
        yield found


def with_workers(bench: Bench, *options: str) -> pytest.RunResult:
    words = bench.words("--pinet-build=new.yaml", "--pinet-against=good.yaml", "-p", "xdist", *options)
    return bench.pytester.runpytest_subprocess(*words, timeout=240)


def boots_of(pytester: pytest.Pytester) -> dict[str, str]:
    """Return the boards that each worker booted, in order."""
    logs = {path.suffix: path.read_text().splitlines() for path in pytester.path.glob(f"{LOG}.*")}
    return {
        name: " ".join(line.split()[1] for line in lines if line.startswith("boot")) for name, lines in logs.items()
    }


def test_each_worker_boots_boards_that_share_no_node_and_the_regression_is_one_answer(
    pairs: Bench, pytester: pytest.Pytester
) -> None:
    pairs.plan('PLAN = Plan(ratio={"onboard": 0.95}, boot_noise=0.0005, noise=0.0005)')
    result = with_workers(pairs, "-n2")
    result.assert_outcomes(failed=4)
    boots = boots_of(pytester)
    # One worker per board, with all its tests in the same boots.
    assert sorted(sorted(set(words.split())) for words in boots.values()) == [["one"], ["three"]]
    found = pairs.head
    assert found["turns"] == sum(len(words.split()) for words in boots.values())
    assert found["verdict"] == "fail"
    assert [entry["verdict"] for entry in found["entries"]] == ["fail"] * 4
    result.stdout.fnmatch_lines(["new must not be merged: 4 of 4 metrics slower*"])


@pytest.mark.slow
def test_boards_that_share_a_node_stay_on_one_worker(pairs: Bench, pytester: pytest.Pytester) -> None:
    (pytester.path / "lab.yaml").write_text(TWO_PAIRS.replace("t/p1", "s/p5").replace("t/p2", "s/p6").replace(
        "    four: {board: cm4, interfaces: {onboard: {port: s/p6}}}\n", ""
    ))  # fmt: skip
    with_workers(pairs, "-n2").assert_outcomes(passed=4)
    assert sorted(set(words.split()) for words in boots_of(pytester).values() if words) == [{"one", "three"}]


@pytest.mark.slow
def test_a_board_that_cannot_run_the_build_ends_the_run_of_all_workers(pairs: Bench) -> None:
    pairs.plan('PLAN = Plan(check=lambda build: ConfigError("the module is of another kernel"))')
    result = with_workers(pairs, "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["No decision on new: the module is of another kernel."])
    text = result.stdout.str() + result.stderr.str()
    assert text.count("the module is of another kernel") == 1
    assert "Exit: the run ended early; the summary above says why" in text


@pytest.mark.slow
def test_a_build_that_changes_before_all_workers_have_read_it_is_not_measured(pairs: Bench) -> None:
    pairs.plan(
        "import os\nfrom pathlib import Path\nif os.environ.get('PYTEST_XDIST_WORKER') == 'gw1':\n"
        "    Path('new.yaml').write_text('sysctls: {net.core.rmem_max: 4000}')\n\nPLAN = Plan()"
    )
    result = with_workers(pairs, "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*a file of a build changed while this run read*"])


def test_a_dist_option_that_can_split_the_tests_of_a_board_is_refused(pairs: Bench) -> None:
    result = with_workers(pairs, "-n2", "--dist=load")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--dist load can run the tests of one board in several workers; use -n*"])


@pytest.mark.slow
def test_such_a_dist_option_is_also_refused_with_tx(pairs: Bench) -> None:
    assert with_workers(pairs, "--dist=load", "--tx=2*popen").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.slow
def test_a_worker_that_dies_during_a_boot_leaves_the_answer_undecided(pairs: Bench, pytester: pytest.Pytester) -> None:
    pairs.plan(
        """
import os

def die(side, boot):
    if boot == 2 and os.environ["PYTEST_XDIST_WORKER"] == "gw0":
        os._exit(1)

PLAN = Plan(traffic=die, boot_noise=0.0005, noise=0.0005)
"""
    )
    result = with_workers(pairs, "-n2")
    # Another worker measures the board again, except for the test that crashed.
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            "LeaseError: worker gw0 died while it ran this test*",
            "No decision on new: no metric is slower, but 1 test failed*",
        ]
    )
    assert pairs.head["exit"] == 3


def all_left(pytester: pytest.Pytester, result: pytest.RunResult) -> bool:
    """Return whether both workers finished leaving the lab and reported it."""
    logs = [path.read_text().splitlines() for path in pytester.path.glob(f"{LOG}.*")]
    told = result.stdout.str().count("pinet: pi4b-1 is still powered on")
    return [log[-1] for log in logs] == ["left", "left"] and told == 2


@pytest.mark.slow
def test_workers_can_leave_the_lab_before_they_are_killed(pairs: Bench, pytester: pytest.Pytester) -> None:
    # xdist kills workers that take more than ten seconds.
    pairs.plan("PLAN = Plan(boot_noise=0.0005, noise=0.0005, leaving_s=12)")
    result = with_workers(pairs, "-n2")
    result.assert_outcomes(passed=4)
    assert all_left(pytester, result)


# The signal goes only to the controller, as in CI systems. Without a message, a worker continues for some 16 boots.
INTERRUPTING = """
import os, signal, time
from pathlib import Path

SENT = []

def interrupt(side, boot):
    time.sleep(0.5)
    if boot != 2 or os.environ["PYTEST_XDIST_WORKER"] != "gw0" or SENT:
        return
    for number in range({times}):
        # A second signal while pytest handles the first would end pytest itself. This worker sends the second one
        # before it looks for the stop file, which ends it.
        late = time.monotonic() + 60
        while number and not list(Path(".pinet/runs").glob("*/stop")):
            assert time.monotonic() < late, "no stop file within 60 s of Ctrl-C"
            time.sleep(0.01)
        SENT.append(number)
        os.kill(os.getppid(), signal.SIGINT)

PLAN = Plan(ratio={{"onboard": 0.99}}, traffic=interrupt, leaving_s=12)
"""


@pytest.mark.slow
def test_after_ctrl_c_workers_stop_and_can_leave_the_lab_before_they_are_killed(
    pairs: Bench, pytester: pytest.Pytester
) -> None:
    pairs.plan(INTERRUPTING.format(times=1))
    result = with_workers(pairs, "-n2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["pinet: waiting until workers gw?, gw? have restored the lab (at most 180 s)"])
    assert all_left(pytester, result)
    assert all(len(words.split()) <= 8 for words in boots_of(pytester).values())
    assert pairs.record["complete"] is False
    assert pairs.head["turns"] == sum(len(words.split()) for words in boots_of(pytester).values())


@pytest.mark.slow
def test_after_a_second_ctrl_c_the_run_ends_at_once_and_results_are_written(pairs: Bench) -> None:
    pairs.plan(INTERRUPTING.format(times=2))
    result = with_workers(pairs, "-n2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in result.stderr.str()
    assert "pinet: worker gw0 ended before it restored the lab; the next run restores the rest" in result.stdout.str()
    assert pairs.record["complete"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conftest", "test"),
    [
        ("def pytest_sessionstart(session): assert not hasattr(session.config, 'workerinput')", "def test(): pass"),
        ("", "import os, time\ndef test(): os.kill(os.getppid(), 2); time.sleep(120)"),
    ],
    ids=["workers that did not begin", "workers without a link"],
)
def test_the_run_does_not_wait_for_workers_that_use_no_link(
    pairs: Bench, pytester: pytest.Pytester, conftest: str, test: str
) -> None:
    pytester.makeconftest(CONFTEST + conftest)
    pytester.makepyfile(test_it=test)
    result = with_workers(pairs, "-n2")
    assert result.ret != 0
    assert "restored the lab" not in result.stdout.str()
    # Its worker would take two minutes.
    assert result.duration < 90
