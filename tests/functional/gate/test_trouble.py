"""Labs and kernels that break while the gate measures: a quick message that says who must act, and never a value.

What breaks in the lab, or on a peer, is a lab error. A kernel under test that breaks is a failure.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.amid_traffic import CONFTEST, seconds_to_failure
from tests.support.gate_project import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

LAB_TESTS = """
import pytest
from conftest import pinet

# Other tests run side by side with these.
FEW = dict(bitrate="50 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_cable_pulled(link, gate):
    gate.tcp(link, duration=1, **FEW)

@pytest.mark.pinet(board="pi5", nic="rtl8125")
def test_killed_at_dut(link, gate, amid_traffic):
    amid_traffic(lambda: pinet("exec", "pi5-1", "--", "pkill -KILL -x iperf3"))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="rtl8125")
def test_killed_at_peer(link, gate, amid_traffic):
    amid_traffic(lambda: pinet("exec", "cm4-1", "--", "pkill -KILL -x iperf3"))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_frozen_in_mid_traffic(link, gate, amid_traffic):
    amid_traffic(lambda: pinet("degrade", "pi5-1", "--freeze"))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_frozen_before(link, gate):
    gate.tcp(link, duration=1, **FEW)

@pytest.mark.pinet(board="pi4b", nic="rtl8153")
def test_well(link, gate):
    gate.tcp(link, duration=1, **FEW)
"""

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

KERNEL_TESTS = f"""
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
    """The affected combination, the verdict, the words of the message, and the line of the console."""

    combination: str
    words: tuple[str, ...]
    verdict: str = "error"
    line: str = ""


LAB_TROUBLES = {
    "test_cable_pulled": Trouble(
        "pi3b:onboard/pair", ("no link on pi3b-1 eth0 (port p1 of switch sw1)", "check the cable")
    ),
    "test_killed_at_dut": Trouble(
        "pi5:rtl8125/pair", ("iperf3", "on pi5-1 was killed (SIGKILL)", "find out what killed it on pi5-1")
    ),
    "test_killed_at_peer": Trouble(
        "pi5:rtl8125/pair", ("iperf3", "on cm4-1 was killed (SIGKILL)", "find out what killed it on cm4-1")
    ),
    "test_frozen_in_mid_traffic": Trouble(
        "pi5:onboard/pair", ("pi5-1 does not answer any more", "s of traffic", "power-cycle")
    ),
    "test_frozen_before": Trouble(
        "pi4b:onboard/pair", ("pi4b-1 does not answer on its serial console", "labgrid-client -p pi4b-1 console")
    ),
}
DUT = "(device under test)"
KERNEL_TROUBLES = {
    "test_oops_before_link": Trouble("cm4:onboard/pair", (f"kernel oops on cm4-1 {DUT} at 2",), "fail", OOPS),
    "test_panic_at_dut": Trouble("pi3b:onboard/pair", (f"kernel oops on pi3b-1 {DUT} at 2",), "fail", PANIC),
    "test_panic_at_peer": Trouble(
        "pi4b:onboard/pair",
        ("kernel panic on ", " (peer) at 2", "-> the kernel of a peer is not under test"),
        "error",
        PANIC,
    ),
    "test_netdev_watchdog": Trouble("pi5:onboard/pair", (f"NETDEV WATCHDOG on pi5-1 {DUT} at 2",), "fail", WATCHDOG),
    "test_under_voltage": Trouble(
        "pi5:onboard/pair", ("under-voltage on ", " (peer) at 2", "-> check the power supply"), "invalid", LOW
    ),
    "test_ssh_drops": Trouble("pi5:onboard/pair", ("pi5-1",)),
    "test_a_slow_link_on_a_broken_kernel": Trouble("pi5:onboard/pair", (f"kernel oops on pi5-1 {DUT}",), "fail", OOPS),
}


@dataclass(frozen=True)
class Run:
    """A run in which all tests but one meet trouble."""

    project: Project
    output: pytest.RunResult
    results: dict[str, Any]
    troubles: dict[str, Trouble]

    def result(self, test: str) -> dict[str, Any]:
        found: dict[str, Any] = next(r for r in self.results["results"] if f"::{test}[" in r["test"])
        return found

    def console(self, node: str) -> list[str]:
        """Return the recorded lines of this node, without their times."""
        record = self.project.path / ".pinet" / "latest" / "console" / f"{node}.log"
        return [line.partition(" ")[2] for line in record.read_text().splitlines()]


@pytest.fixture(scope="module")
def lab_run(new_project: NewProject, gate_lab: GateLab) -> Run:
    project = new_project({"conftest.py": CONFTEST, "test_trouble.py": LAB_TESTS})
    gate_lab.degrade("pi3b-1:onboard", "--down")
    gate_lab.degrade("pi4b-1", "--freeze")
    output = project.pytest("--junitxml=junit.xml")
    gate_lab.restore()
    return Run(project, output, project.results, LAB_TROUBLES)


@pytest.fixture(scope="module")
def kernel_run(new_project: NewProject, gate_lab: GateLab) -> Run:
    project = new_project({"conftest.py": CONFTEST + SAY, "test_console.py": KERNEL_TESTS})
    # Switched on before, so that its console has output before the login.
    gate_lab.switch_power(True, "cm4-1")
    gate_lab.await_boot("cm4-1")
    output = project.pytest("--junitxml=junit.xml", timeout_s=600)
    gate_lab.restore()
    gate_lab.switch_power(False, "cm4-1")
    return Run(project, output, project.results, KERNEL_TROUBLES)


@pytest.fixture(scope="module", params=["lab_run", "kernel_run"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


def test_only_a_broken_kernel_under_test_is_a_failure(run: Run) -> None:
    failed = [test for test, trouble in run.troubles.items() if trouble.verdict == "fail"]
    run.output.assert_outcomes(failed=len(failed), errors=len(run.troubles) - len(failed), passed=1)
    assert run.output.ret == pytest.ExitCode.TESTS_FAILED
    suite = next(ElementTree.parse(run.project.path / "junit.xml").getroot().iter("testsuite"))
    ended = {str(case.get("name")): {one.tag for one in case} & {"failure", "error"} for case in suite.iter("testcase")}
    for test, trouble in run.troubles.items():
        assert ended[f"{test}[{trouble.combination}]"] == {"failure" if test in failed else "error"}
    assert sum(not tags for tags in ended.values()) == 1


def test_the_message_says_where_and_who_must_act(run: Run) -> None:
    for test, trouble in run.troubles.items():
        result = run.result(test)
        assert (result["verdict"], result["directions"]) == (trouble.verdict, {}), test
        assert result["combination"]["id"] == trouble.combination
        for word in trouble.words:
            assert word in result["message"]
        assert trouble.line in (result["console_excerpt"] or "")
        if trouble.verdict == "error":
            run.output.stdout.fnmatch_lines([f"* ERROR at setup of {test}*", f"{result['message'][:30]}*", "  -> *"])


def test_no_traceback_of_ours_is_shown(run: Run) -> None:
    output = run.output.stdout.str()
    assert "Traceback" not in output
    assert "/pytest_pinet/" not in output


def test_trouble_ends_the_traffic(run: Run) -> None:
    for test in run.troubles:
        # The traffic would run for a minute.
        assert seconds_to_failure(run.project, test) < 50, test


def test_afterwards_the_lab_is_clean(run: Run, gate_lab: GateLab) -> None:
    assert gate_lab.nodes_on() == set()
    assert set(gate_lab.port_groups().values()) == {"br0"}
    assert gate_lab.holders() == []


def test_what_could_not_be_undone_is_said_of_hung_nodes_only(lab_run: Run) -> None:
    unclean = [line for line in lab_run.output.outlines if "could not" in line]
    assert [line for line in unclean if "pi5-1" not in line] == []


def test_the_next_run_is_green(lab_run: Run) -> None:
    output = lab_run.project.pytest("-k", "cable_pulled or frozen_before")
    output.assert_outcomes(passed=2, deselected=4)
    assert "could not" not in output.stdout.str()


def test_the_lines_around_stand_in_record_and_run_folder(kernel_run: Run) -> None:
    result = kernel_run.result("test_panic_at_dut")
    lines = result["console_excerpt"].splitlines()
    texts = [line.partition(" ")[2] for line in lines]
    assert texts.index(OOPS) == 25
    assert texts[24] == "line 29 before"
    assert texts[0] == "line 5 before"
    assert PANIC in texts
    assert len(lines) <= 50
    # Next to the output of the ends until then.
    (file,) = [file for file in result["files"] if file.endswith("/console.txt")]
    assert (kernel_run.project.path / ".pinet" / "latest" / file).read_text() == result["console_excerpt"]
    kernel_run.output.stdout.fnmatch_lines([f"  raw        *{file.removesuffix('/console.txt')}"])
    record = kernel_run.console("pi3b-1")
    assert all(text in record for text in texts)


def test_the_whole_console_is_recorded_from_power_on(kernel_run: Run) -> None:
    texts = kernel_run.console("pi3b-1")
    start = texts.index("-- power on")
    assert texts[start + 1].startswith("[    0.000000] Booting Linux")
    assert texts[start - 1] == "-- console open"


def test_a_broken_node_is_booted_before_its_next_test(kernel_run: Run) -> None:
    texts = kernel_run.console("cm4-1")
    oops = texts.index(OOPS)
    # It was on before, and a later test uses it as a peer.
    assert "-- power on" not in texts[:oops]
    assert texts[oops:].index("-- power off") < texts[oops:].index("-- power on")


def test_a_node_that_was_found_on_is_given_back_on_and_booted_anew(kernel_run: Run, gate_lab: GateLab) -> None:
    def boot() -> str:
        return gate_lab.execute("cm4-1", "cat", "/proc/1/stat").split()[21]

    gate_lab.switch_power(True, "cm4-1")
    gate_lab.await_boot("cm4-1")
    before = boot()
    kernel_run.project.pytest("-k", "test_oops_before_link").assert_outcomes(failed=1, deselected=len(KERNEL_TROUBLES))
    gate_lab.await_boot("cm4-1")
    assert boot() != before
    gate_lab.switch_power(False, "cm4-1")
