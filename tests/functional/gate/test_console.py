"""Kernels that break, with messages on the console, while the gate measures on the virtual lab."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.amid_traffic import CONFTEST, seconds_to_failure
from tests.support.gate_project import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

SAY = """
import pathlib

def say(node, *lines):
    '''What the kernel of a node prints on its console.'''
    text = "\\\\n".join(["", *lines, ""])
    pinet("exec", node, "--", f"printf '{text}' > /dev/ttyAMA0")

@pytest.fixture
def when_the_console_opens(request):
    '''Call with a node and what its console is to show as soon as a program opens the console.'''
    threads = []
    def act(node, lines):
        log = pathlib.Path(".pinet/latest/console") / f"{node}.log"
        for _ in range(3000):
            if log.exists() and "console open" in log.read_text():
                break
            time.sleep(0.01)
        request.config.stash[ACTED] = time.time()
        say(node, *lines)
    def start(node, *lines):
        threads.append(threading.Thread(target=act, args=[node, lines]))
        threads[0].start()
    yield start
    threads[0].join(30)
"""

PANIC = "[   61.180102] Kernel panic - not syncing: Oops: Fatal exception in interrupt"
OOPS = "[   12.000001] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010"
WATCHDOG = "[ 4242.100012] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out 5004 ms"
LOW = "[   31.215501] hwmon hwmon1: Undervoltage detected!"
NORMAL = "[   35.375531] hwmon hwmon1: Voltage normalised"

TESTS = f"""
import pytest
from conftest import pinet, say

PANIC, OOPS, WATCHDOG, LOW, NORMAL = {PANIC!r}, {OOPS!r}, {WATCHDOG!r}, {LOW!r}, {NORMAL!r}
# Other tests run side by side with these.
FEW = dict(bitrate="50 Mbit/s", min="10 Mbit/s")

@pytest.fixture
def early(when_the_console_opens):
    when_the_console_opens("cm4-1", OOPS)

@pytest.mark.pinet(board="cm4", nic="onboard")
def test_oops_before_link(early, link):
    raise AssertionError("never reached")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_panic_at_dut(link, gate, amid_traffic):
    def panic():
        say("pi3b-1", *(f"line {{n}} before" for n in range(30)), OOPS, PANIC, "---[ end Kernel panic ]---")
        pinet("degrade", "pi3b-1", "--freeze")
    amid_traffic(panic)
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_panic_at_peer(link, gate, amid_traffic):
    node = link.peer.endpoint.node.name
    def panic():
        say(node, PANIC)
        pinet("degrade", node, "--freeze")
    amid_traffic(panic)
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_netdev_watchdog(link, gate, amid_traffic):
    amid_traffic(lambda: say("pi5-1", WATCHDOG))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_under_voltage(link, gate, amid_traffic):
    amid_traffic(lambda: say(link.peer.endpoint.node.name, LOW, NORMAL))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_ssh_drops(link, gate, amid_traffic):
    drop = "setsid sh -c 'sleep 0.2; pkill -KILL sshd' >/dev/null 2>&1 </dev/null &"
    amid_traffic(lambda: pinet("exec", "pi5-1", "--", drop))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_a_slow_link_on_a_broken_kernel(link, gate):
    say("pi5-1", OOPS)
    pytest.fail("below the limit")

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_well(link, gate):
    gate.tcp(link, duration=1, **FEW)
"""


@dataclass(frozen=True)
class Trouble:
    """The expected verdict and outcome of a test, and the words of its message."""

    verdict: str
    outcome: str
    words: tuple[str, ...]
    line: str | None


FAILED, ERROR = "failure", "error"
TROUBLES = {
    "test_oops_before_link": Trouble("fail", FAILED, ("kernel oops on cm4-1 (device under test) at 2",), OOPS),
    "test_panic_at_dut": Trouble("fail", FAILED, ("kernel oops on pi3b-1 (device under test) at 2",), PANIC),
    "test_panic_at_peer": Trouble(
        "error", ERROR, ("kernel panic on ", " (peer) at 2", "-> the kernel of a peer is not under test"), PANIC
    ),
    "test_netdev_watchdog": Trouble("fail", FAILED, ("NETDEV WATCHDOG on pi5-1 (device under test) at 2",), WATCHDOG),
    "test_under_voltage": Trouble(
        "invalid", ERROR, ("under-voltage on ", " (peer) at 2", "-> check the power supply"), LOW
    ),
    "test_ssh_drops": Trouble("error", ERROR, ("pi5-1",), None),
    "test_a_slow_link_on_a_broken_kernel": Trouble("fail", FAILED, ("kernel oops on pi5-1 (device under test)",), OOPS),
}


@dataclass(frozen=True)
class Run:
    project: Project
    output: pytest.RunResult
    results: dict[str, Any]

    def result(self, test: str) -> dict[str, Any]:
        found: dict[str, Any] = next(r for r in self.results["results"] if f"::{test}[" in r["test"])
        return found

    @property
    def folder(self) -> Path:
        return self.project.path / ".pinet" / "latest"


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Run:
    project = new_project({"conftest.py": CONFTEST + SAY, "test_console.py": TESTS})
    # Switched on before, so that its console has output before the login.
    gate_lab.switch_power(True, "cm4-1")
    gate_lab.await_boot("cm4-1")
    output = project.pytest("--junitxml=junit.xml", timeout_s=600)
    gate_lab.restore()
    return Run(project, output, project.results)


def test_a_broken_kernel_under_test_fails_and_everything_else_is_an_error(run: Run) -> None:
    failed = sum(trouble.outcome == FAILED for trouble in TROUBLES.values())
    run.output.assert_outcomes(failed=failed, errors=len(TROUBLES) - failed, passed=1)
    suite = next(ElementTree.parse(run.project.path / "junit.xml").getroot().iter("testsuite"))
    ended = {
        str(case.get("name")).partition("[")[0]: [child.tag for child in case if child.tag in (FAILED, ERROR)]
        for case in suite.iter("testcase")
    }
    assert ended == {"test_well": [], **{test: [trouble.outcome] for test, trouble in TROUBLES.items()}}


@pytest.mark.parametrize("test", TROUBLES)
def test_the_message_names_culprit_kind_line_and_time(run: Run, test: str) -> None:
    trouble = TROUBLES[test]
    result = run.result(test)
    assert (result["verdict"], result["directions"]) == (trouble.verdict, {})
    for word in trouble.words:
        assert word in result["message"]
    if trouble.line is not None:
        assert trouble.line in result["console_excerpt"]


@pytest.mark.parametrize("test", TROUBLES)
def test_it_ends_the_traffic(run: Run, test: str) -> None:
    # The traffic would run for a minute.
    assert seconds_to_failure(run.project, test) < 50


def test_the_lines_around_stand_in_record_and_run_folder(run: Run) -> None:
    result = run.result("test_panic_at_dut")
    lines = result["console_excerpt"].splitlines()
    texts = [line.partition(" ")[2] for line in lines]
    assert texts.index(OOPS) == 25
    assert texts[24] == "line 29 before"
    assert texts[0] == "line 5 before"
    assert PANIC in texts
    assert len(lines) <= 50
    # Next to the output of the ends until then.
    (file,) = [file for file in result["files"] if file.endswith("/console.txt")]
    assert (run.folder / file).read_text() == result["console_excerpt"]
    run.output.stdout.fnmatch_lines([f"  raw        *{file.removesuffix('/console.txt')}"])
    record = (run.folder / "console" / "pi3b-1.log").read_text()
    assert all(line in record for line in lines)


def test_the_whole_console_is_recorded_from_power_on(run: Run) -> None:
    texts = [line.partition(" ")[2] for line in (run.folder / "console" / "pi3b-1.log").read_text().splitlines()]
    start = texts.index("-- power on")
    assert texts[start + 1].startswith("[    0.000000] Booting Linux")
    assert texts[start - 1] == "-- console open"


def test_no_traceback_of_ours_is_shown(run: Run) -> None:
    output = run.output.stdout.str()
    assert "Traceback" not in output
    assert "/pytest_pinet/" not in output


def test_a_broken_node_is_booted_before_its_next_test(run: Run) -> None:
    texts = [line.partition(" ")[2] for line in (run.folder / "console" / "cm4-1.log").read_text().splitlines()]
    oops = texts.index(OOPS)
    # It was on before, and a later test uses it as a peer.
    assert "-- power on" not in texts[:oops]
    assert texts[oops:].index("-- power off") < texts[oops:].index("-- power on")


def test_afterwards_the_lab_is_clean(run: Run, gate_lab: GateLab) -> None:
    gate_lab.switch_power(False, "cm4-1")
    assert gate_lab.nodes_on() == set()
    assert len(set(gate_lab.port_groups().values())) == 1
    assert gate_lab.holders() == []


def test_a_node_that_was_found_on_is_given_back_on_and_booted_anew(run: Run, gate_lab: GateLab) -> None:
    def boot() -> str:
        return gate_lab.execute("cm4-1", "cat", "/proc/1/stat").split()[21]

    gate_lab.switch_power(True, "cm4-1")
    gate_lab.await_boot("cm4-1")
    before = boot()
    run.project.pytest("-k", "test_oops_before_link").assert_outcomes(failed=1, deselected=len(TROUBLES))
    gate_lab.await_boot("cm4-1")
    assert boot() != before
    gate_lab.switch_power(False, "cm4-1")
