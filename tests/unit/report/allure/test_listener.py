"""Results of allure-pytest that our listener completes. A conftest replaces the session; no lab is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[4]
CONFTEST = f"""
import os, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
import pytest
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.result_record import attach_results
from tests.support.report_records import direction, result
from pytest_pinet.session.allure import subject_of
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.listener import AllureResults
from pytest_pinet.report.allure.run_files import AllureRun
from pytest_pinet.report.trends import RunFacts
from pytest_pinet.execution.trace import doing
from tests.support.chart_series import series
from tests.support.loss_levels import losses

WARNINGS = []

class Combination:
    def __init__(self, text):
        self.identity = CombinationId.parse(text)
        self.nodes = [type("Node", (), {{"name": "pi4b-1"}})]

class Case:
    def __init__(self, text):
        self.combination = Combination(text)

def case_of(item):
    callspec = getattr(item, "callspec", None)
    value = callspec.params.get("link") if callspec is not None else None
    return value if isinstance(value, Case) else None

def pytest_generate_tests(metafunc):
    if "link" in metafunc.fixturenames:
        ids = os.environ.get("COMBINATIONS", "pi4b:onboard/pair").split()
        metafunc.parametrize("link", [Case(one) for one in ids], ids=ids, indirect=True)

@pytest.fixture
def link(request):
    with doing("lease pi4b-1"):
        pass
    with open("run/console/pi4b-1.log", "a") as log:
        log.write("login: ")
    return request.param

@pytest.fixture
def measure(request):
    def run(goodput=941e6, verdict="pass", **more):
        one = result(request.node.callspec.id.rpartition("-")[0] or request.node.callspec.id,
                     {{"tx": direction(goodput, 885e6, verdict)}}, message="tx is " + verdict, **more)
        uname = "Linux " + os.environ.get("KERNEL", "6.12.1") + " #1"
        one = one.replace(build=dict(one.build, uname=uname))
        request.node.measured = [one]
    return run

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" or report.failed:
        attach_results(report, getattr(item, "measured", []))
    return report

def trends_of(found):
    levels = losses() if os.environ.get("LOST") else ()
    return [replace(series(), level=level) for level in levels]

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    Path("run/console").mkdir(parents=True, exist_ok=True)
    directory = config.getoption("allure_report_dir", None)
    if not directory:
        return
    path = Path(directory).absolute()
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        config.pluginmanager.register(
            AllureRun(config, path, lambda: None, lambda r: RunFacts("r", "b"), WARNINGS.append)
        )
    if is_worker or not getattr(config.option, "numprocesses", None):
        results = AllureResults(
            path, lambda item: subject_of(item, case_of(item)), trends_of, lambda item: ["pi4b-1"],
            lambda: Path("run").absolute(), WARNINGS.append,
        )
        config.pluginmanager.register(results)
        config.add_cleanup(results.start())

def pytest_terminal_summary(terminalreporter):
    for warning in WARNINGS:
        terminalreporter.write_line("WARNING " + warning)
"""
RATE = """
import pytest

@pytest.mark.parametrize("direction", ["tx"])
def test_rate(link, measure, direction):
    measure()
"""


class Bench:
    """A folder in which pytest writes Allure results."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        pytester.makeconftest(CONFTEST)
        pytester.makeini("[pytest]\n")

    def write(self, name: str, text: str) -> None:
        path = self._pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *options: str, dies: bool = False, **environ: str) -> pytest.RunResult:
        """Run pytest, in a separate process if it has workers or may die."""
        for name, value in environ.items():
            self._pytester._monkeypatch.setenv(name, value)
        words = ("-p", "no:cacheprovider", "--alluredir=res", *options)
        if dies or any(option.startswith("-n") for option in options):
            return self._pytester.runpytest_subprocess(*words, timeout=240)
        # labgrid's own plugin cannot be started twice in one process.
        return self._pytester.runpytest_inprocess("-p", "no:labgrid", *words)

    def results(self, folder: str = "res") -> list[dict[str, Any]]:
        paths = (self._pytester.path / folder).glob("*-result.json")
        found = [json.loads(path.read_text()) for path in paths]
        return sorted(found, key=lambda one: (str(one.get("parameters")), one["name"]))

    def only(self, folder: str = "res") -> dict[str, Any]:
        (found,) = self.results(folder)
        return found

    def clear(self) -> None:
        for path in (self._pytester.path / "res").iterdir():
            path.unlink()


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Bench:
    return Bench(pytester)


def ids(result: dict[str, Any]) -> tuple[str, str]:
    return result["testCaseId"], result["historyId"]


def test_a_result_has_value_parameter_labels_steps_and_console(bench: Bench) -> None:
    bench.write("test_a.py", RATE)
    assert bench.run().ret == 0
    found = bench.only()
    assert found["name"] == "pi4b:onboard/pair · tcp-P1 tx 941.0 Mbit/s (99.9 % of max)"
    assert found["status"] == "passed"
    assert [p["name"] for p in found["parameters"] if not p.get("excluded")] == ["combination"]
    assert {"name": "board", "value": "pi4b"} in found["labels"]
    assert [one["name"] for one in found["steps"]] == ["lease pi4b-1"]
    assert [one["name"] for one in found["attachments"]] == [
        "throughput over time pi4b:onboard/pair/tcp-P1-tx", "serial console pi4b-1"
    ]  # fmt: skip


def test_another_kernel_is_the_same_test(bench: Bench) -> None:
    bench.write("test_a.py", RATE)
    bench.run(KERNEL="6.12.1")
    one = bench.only()
    bench.clear()
    bench.run(KERNEL="6.18.0")
    other = bench.only()
    assert ids(one) == ids(other)
    assert [p for p in one["parameters"] if not p.get("excluded")] == [
        p for p in other["parameters"] if not p.get("excluded")
    ]
    assert "6.18.0" in str(other["parameters"])


def test_a_renamed_file_and_another_folder_make_no_other_test(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("test_a.py", RATE)
    bench.run()
    first = ids(bench.only())
    bench.clear()
    (pytester.path / "test_a.py").unlink()
    bench.write("deep/test_renamed.py", RATE)
    bench.run()
    assert ids(bench.only()) == first
    bench.clear()
    monkeypatch.chdir(pytester.path / "deep")
    bench.run("--rootdir=.", "--confcutdir=..", "test_renamed.py")
    assert ids(bench.only("deep/res")) == first


@pytest.mark.slow
def test_all_results_of_many_workers_are_there_once(bench: Bench) -> None:
    combinations = [f"pi4b:nic{n}/pair" for n in range(12)]
    bench.write("test_a.py", RATE)
    assert bench.run("-n3", COMBINATIONS=" ".join(combinations)).ret == 0
    found = bench.results()
    assert len(found) == len({ids(one) for one in found}) == 12


def test_an_object_among_the_parameters_whose_text_is_its_address_makes_no_other_test(bench: Bench) -> None:
    text = RATE.replace('"direction", ["tx"]', '"direction", [object()]')
    bench.write("test_a.py", text)
    bench.run()
    one = ids(bench.only())
    bench.clear()
    bench.run()
    assert ids(bench.only()) == one


def test_the_same_test_in_two_files_is_two_tests(bench: Bench) -> None:
    """Allure treats equal ids as retries and shows only one of them."""
    bench.write("a/test_same.py", RATE)
    bench.write("b/test_same_too.py", RATE)
    bench.run()
    assert len({ids(one) for one in bench.results()}) == 2


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ('measure(700e6, "fail"); pytest.fail("slow", pytrace=False)', "failed", "regression: tx is fail"),
        ('measure(941e6, "inconclusive"); raise RuntimeError("noise")', "broken", "inconclusive: tx is inconclusive"),
        ('measure(941e6, "invalid"); raise RuntimeError("x")', "broken", "invalid: tx is invalid"),
        ('measure(941e6, "error"); raise RuntimeError("x")', "broken", "lab error: tx is error"),
        ("pass", "unknown", "not measured: the test passed without a measurement"),
        ("measure(); assert False", "failed", "AssertionError: assert False"),
        ('measure(890e6, "marginal")', "passed", ""),
    ],
)
def test_a_verdict_becomes_a_status_and_a_category(bench: Bench, body: str, status: str, message: str) -> None:
    bench.write("test_a.py", RATE.replace("measure()", body))
    bench.run()
    found = bench.only()
    assert found["status"] == status
    assert found.get("statusDetails", {}).get("message", "").startswith(message)


@pytest.mark.parametrize("call", ["run=False, ", ""])
def test_what_a_test_expects_is_grey_with_its_reason(bench: Bench, call: str) -> None:
    marked = f'@pytest.mark.xfail({call}reason="no segments of 8960 bytes")\ndef test_rate'
    body = 'measure(941e6, "invalid"); raise RuntimeError("x")'
    bench.write("test_a.py", RATE.replace("def test_rate", marked).replace("    measure()", f"    {body}"))
    bench.run()
    found = bench.only()
    assert found["status"] == "skipped"
    assert "no segments of 8960 bytes" in found["statusDetails"]["message"]
    if not call:
        assert found["statusDetails"]["message"] == "expected: no segments of 8960 bytes: tx is invalid"


def test_a_kernel_that_breaks_in_the_set_up_is_no_skipped_test(bench: Bench) -> None:
    """pytest's report has the phase ``call``, for which allure-pytest never saw pass or fail."""
    bench.write(
        "test_a.py",
        RATE.replace("def test_rate(link,", "def test_rate(broken, link,")
        + """
@pytest.fixture
def broken(request, measure):
    measure(0.0, "fail")
    raise RuntimeError("kernel panic")

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "setup":
        report.when = "call"
    return report
""",
    )
    bench.run("-p", "test_a", dies=True, PYTHONPATH=os.pathsep.join([os.curdir, str(HERE)]))
    assert bench.only()["status"] == "failed"


def test_what_the_run_was_killed_in_is_broken_not_missing(bench: Bench) -> None:
    bench.write("test_a.py", RATE.replace("measure()", "import os; os._exit(3)"))
    bench.run(dies=True)
    found = bench.only()
    assert found["status"] == "broken"
    assert found["statusDetails"]["message"].startswith("lab error: the process that ran this test died")


def test_a_worker_that_dies_leaves_the_results_of_all_others(bench: Bench) -> None:
    body = "import os\n    os._exit(3) if 'nic2' in link.combination.identity.nic else measure()"
    bench.write("test_a.py", RATE.replace("measure()", body))
    bench.run(COMBINATIONS="pi4b:nic0/pair")
    alone = ids(bench.only())
    bench.write("res/old-result.json", "{}")
    # The marker activates pinet's plugin.
    result = bench.run(
        "-n2",
        "--clean-alluredir",
        "--pinet-require=0",
        "--pinet-profile=fast",
        COMBINATIONS=" ".join(f"pi4b:nic{n}/pair" for n in range(6)),
    )
    assert result.ret == 1
    found = bench.results()
    # Without a worker it is the same test.
    assert alone in [ids(one) for one in found]
    statuses = {one["parameters"][0]["value"]: one["status"] for one in found}
    assert len(found) == len(statuses)
    assert statuses == {f"pi4b:nic{n}/pair": "broken" if n == 2 else "passed" for n in range(6)}
    result.stdout.fnmatch_lines(["WARNING --clean-alluredir emptied * once, before the workers began"])


def test_what_cannot_be_collected_stands_in_the_report(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.write("test_a.py", "def test_(: pass")
    assert bench.run().ret == pytest.ExitCode.INTERRUPTED
    (path,) = (pytester.path / "res").glob("*-globals.json")
    assert "SyntaxError" in json.loads(path.read_text())["errors"][0]["message"]


def errors(folder: Path) -> list[str]:
    """Return the global errors beside the results."""
    found = [json.loads(path.read_text()) for path in folder.glob("*-globals.json")]
    return [error["message"] for one in found for error in one.get("errors", ())]


def test_a_test_file_that_is_not_there_stands_in_the_report(bench: Bench, pytester: pytest.Pytester) -> None:
    assert bench.run("test_gone.py").ret == pytest.ExitCode.USAGE_ERROR
    (message,) = errors(pytester.path / "res")
    assert message.startswith("pytest could not begin\nfile or directory not found: test_gone.py")


def test_a_lab_file_that_is_wrong_stands_in_the_report(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.write("test_a.py", RATE)
    assert bench.run("--pinet-lab=gone.yaml").ret == pytest.ExitCode.USAGE_ERROR
    (message,) = errors(pytester.path / "res")
    assert "gone.yaml" in message


def test_a_folder_that_holds_an_earlier_run_is_warned_of(bench: Bench) -> None:
    bench.write("test_a.py", RATE)
    bench.write("res/pinet-run.json", "{}")
    bench.run().stdout.fnmatch_lines(
        ["WARNING */res holds an earlier run: Allure treats two results of one test as*; add --clean-alluredir*"]
    )
    bench.run("--clean-alluredir").stdout.no_fnmatch_line("WARNING*")


def test_ordinary_tests_are_left_as_allure_pytest_has_them(bench: Bench) -> None:
    bench.write("test_a.py", "def test_plain(): pass\n")
    bench.run()
    found = bench.only() if bench.results() else {}
    assert found["name"] == "test_plain"
    assert "steps" not in found


def test_warnings_are_errors_and_there_is_none(bench: Bench) -> None:
    bench.write("test_a.py", RATE)
    assert bench.run("-W", "error", dies=True).ret == 0


def test_without_alluredir_or_without_allure_nothing_is_written(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.write("test_a.py", RATE)
    for words in ((), ("-p", "no:allure_pytest")):
        assert pytester.runpytest_inprocess("-p", "no:labgrid", *words).ret == 0
    assert not (pytester.path / "res").exists()


def test_a_loss_is_a_label_and_links_to_where_it_is_tracked(bench: Bench) -> None:
    bench.write("test_a.py", RATE)
    bench.run()
    assert not [label for label in bench.only()["labels"] if label["name"] == "loss"]
    bench.run("--clean-alluredir", LOST="1")
    found = bench.only()
    assert found["status"] == "passed"
    assert [one["value"] for one in found["labels"] if one["name"] == "loss"] == ["acknowledged", "open"]
    (link,) = found["links"]
    name = "known loss, owner Ann Example"
    assert link == {"type": "issue", "url": "https://lore.kernel.org/r/20261012", "name": name}
