"""Verdicts on real links: quick if certain, confirmed if bad; link drops are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import replay_tool
from tests.support.gate_project import SLOW_ON_PURPOSE, GateLab, NewProject, Project

# A 100 Mbit/s link carries 94.15 Mbit/s with TCP timestamps.
TESTS = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="60 Mbit/s")
def test_drop(link, gate, drop):
    drop()
    gate.tcp(link, direction="tx")

@pytest.mark.pinet(board="pi3b", nic="onboard", max_drops=0)
def test_no_drop(link, gate, drop):
    drop()
    gate.tcp(link, direction="tx")

@pytest.mark.pinet(board="pi3b", nic="onboard", min="60 Mbit/s")
def test_gone(link, gate, lose):
    lose()
    gate.tcp(link, direction="tx")
"""
CONFTEST = """
import os, subprocess
from contextlib import contextmanager
import pytest

def exec_on(node, command):
    argv = [os.environ["PINET"], "lab", "exec", "--lab", os.environ["LAB"], node, "--", command]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

@contextmanager
def starting(node, command):
    '''Yield a function that starts a command on a node. At the end, the command must have ended by itself.'''
    running = []

    def start():
        running.append(exec_on(node, f"echo started; {command}"))
        # A busy machine takes longer for this than for the traffic.
        assert running[0].stdout.readline() == "started\\n"

    yield start
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0

def when_3_mb_are_sent(device):
    seen = f"$(cat /sys/class/net/{device}/statistics/tx_bytes)"
    return f"b={seen}; until [ $(({seen} - b)) -gt 3000000 ]; do sleep 0.02; done"

@pytest.fixture
def lose(link):
    '''The link goes down when 3 MB have gone over it, and stays down until the end of the test.'''
    device, node = link.dut.device, link.dut.endpoint.node.name
    with starting(node, f"{when_3_mb_are_sent(device)}; ip link set {device} down") as start:
        yield start
    with starting(node, f"ip link set {device} up") as start:
        start()

@pytest.fixture
def drop(link):
    '''The link goes down for 1.2 s when 3 MB have gone over it; with DROPS=2 again in the next connection.'''
    device = link.dut.device
    wait = when_3_mb_are_sent(device)
    down = f"ip link set {device} down; sleep 1.2; ip link set {device} up"
    following = 'p=$(pgrep -x iperf3); while [ "$(pgrep -x iperf3)" = "$p" ]; do sleep 0.05; done'
    following += "; until pgrep -x iperf3 >/dev/null; do sleep 0.05; done"
    times = int(os.environ.get("DROPS", "1"))
    with starting(link.dut.endpoint.node.name, f"; {following}; ".join([f"{wait}; {down}"] * times)) as start:
        yield start
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, full_rate_lab: GateLab) -> Project:
    """Return a project on 100 Mbit/s links at full rate, which baselines require. Its nodes stay on to shorten runs."""
    full_rate_lab.switch_power(True, "pi3b-1", "pi3b-2")
    full_rate_lab.await_boot("pi3b-1", "pi3b-2")
    project = Project(tmp_path_factory.mktemp("project"), full_rate_lab)
    project.write("test_it.py", TESTS)
    project.write("conftest.py", CONFTEST)
    return project


def only_result(project: Project) -> dict[str, Any]:
    (result,) = project.results["results"]
    found: dict[str, Any] = result
    return found


@pytest.mark.slow
def test_a_link_that_drops_once_is_told_with_its_time_and_port_and_stands_in_no_figure(project: Project) -> None:
    output = project.pytest("-k", "test_drop")
    output.assert_outcomes(passed=1)
    figures = only_result(project)["directions"]["tx"]
    dropped, repeat = figures["connections"][:2]
    assert "sw1/p1" in dropped["excluded"]
    (event,) = [event for event in dropped["events"] if event["kind"] == "link down"]
    assert 1.0 < event["seconds"] < 5
    assert repeat["excluded"] == ""
    # Including the gap, goodput would be more than a third lower.
    assert figures["goodput_bps"] > 0.8 * 94.15e6
    assert figures["verdict"] == "marginal"
    output.stdout.fnmatch_lines(["*link dropped for *.* s at *:*:*sw1/p1*"])


@pytest.mark.slow
def test_a_link_that_drops_again_on_a_fresh_link_up_fails_and_names_node_cable_and_port(project: Project) -> None:
    output = project.pytest("-k", "test_drop", DROPS="2")
    output.assert_outcomes(failed=1)
    result = only_result(project)
    assert (result["verdict"], result["directions"]) == ("fail", {})
    message = " ".join(result["message"].split())
    assert "link dropped for " in message
    assert "the link of pi3b-1:onboard dropped in 2 of 2 connections, again on a fresh link-up" in message
    assert "of node pi3b-1 and its driver from the cable between it and port sw1/p1" in message


@pytest.mark.slow
def test_a_limit_of_no_drops_fails_at_the_first_one_and_strict_runs_take_no_marginal_result(project: Project) -> None:
    project.pytest("-k", "test_no_drop").assert_outcomes(failed=1)
    assert "max_drops=0 of the marker" in " ".join(only_result(project)["message"].split())
    output = project.pytest("-k", "test_drop", "--pinet-strict")
    output.assert_outcomes(failed=1)
    assert only_result(project)["directions"]["tx"]["verdict"] == "fail"
    output.stdout.fnmatch_lines(["*--pinet-strict*"])


@pytest.mark.slow
def test_a_link_that_drops_and_stays_down_fails_and_a_second_board_is_measured(project: Project) -> None:
    lab = project.lab
    # Without a launcher, its values count as measured, and a second board is looked for.
    bench = project.path / "bench.yaml"
    bench.write_text(lab.text_without_launcher())
    output = project.pytest("-k", "test_gone", lab_file=bench, **lab.environment)  # type: ignore[arg-type]
    output.assert_outcomes(failed=1)
    result = only_result(project)
    assert (result["verdict"], result["directions"]) == ("fail", {})
    message = " ".join(result["message"].split())
    assert "the link of pi3b-1:onboard did not come back within 12 s after it dropped" in message
    assert "of node pi3b-1 and its driver from the cable between it and port sw1/p1" in message
    assert result["settings"]["dut"]["end"] == "pi3b-1:onboard"
    assert result["build"]["uname"]
    second = result["second_board"]
    assert (second["end"], second["verdict"]) == ("pi3b-2:onboard", "pass")
    assert second["text"].endswith("look at pi3b-1:onboard, its cable and port sw1/p1")


COMPARED = """
import os, subprocess
from contextlib import contextmanager
import pytest

@contextmanager
def slower():
    sack = "/proc/sys/net/ipv4/tcp_sack"
    pinet("exec", "pi3b-1", "--", f"echo 0 > {sack}")
    pinet("degrade", "pi3b-1:onboard", "--rate", "0.6", "--direction", "tx")
    try:
        yield
    finally:
        pinet("restore")
        pinet("exec", "pi3b-1", "--", f"echo 1 > {sack}")

def pinet(*words):
    argv = [os.environ["PINET"], "lab", words[0], "--lab", os.environ["LAB"], *words[1:]]
    subprocess.run(argv, check=True, timeout=60, stdout=subprocess.DEVNULL)

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_slower(link, gate):
    gate.compare(link, b=slower, names=("as it is", "slower"))
"""


@pytest.mark.smoke
def test_two_states_are_measured_in_turn_and_the_slower_one_fails(new_project: NewProject) -> None:
    project = new_project({"conftest.py": SLOW_ON_PURPOSE, "test_states.py": COMPARED})
    output = project.pytest()
    output.assert_outcomes(failed=1)
    (slower,) = project.results["results"]
    figures = slower["directions"]["tx"]
    assert figures["goodput_bps"] < 0.8 * figures["limit"]["number"]
    assert slower["comparison"]["directions"]["tx"]["change"] == pytest.approx(-0.4, abs=0.1)
    assert "".join(turn["side"] for turn in slower["comparison"]["turns"]).startswith("ABBABA")
    assert any("as it is and slower differ: net.ipv4.tcp_sack 1 -> 0 at pi3b-1" in note for note in slower["notes"])
    output.stdout.fnmatch_lines(["tx ??.? Mbit/s is *.? % below the limit *.? Mbit/s", "*3% below as it is*"])


def test_options_of_the_command_line_hold_for_gates_and_comparisons(new_project: NewProject, tmp_path: Path) -> None:
    project = new_project(
        {
            "test_states.py": """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_same(link, gate):
    assert gate.compare(link).error_rate == 0.2

@pytest.mark.pinet(board="pi3b", nic="onboard", min="60 Mbit/s")
def test_slower(link, gate):
    gate.tcp(link)
""",
            "replay.yaml": "test_same*: [{connections: [{goodput: 94}]}]\ntest_slow*: [{connections: [{goodput: 40}]}]",
        }
    )
    options = ("--pinet-error-rate=20%", "--pinet-confirm=connection")
    project.replayed(replay_tool.install(tmp_path), *options).assert_outcomes(passed=1, failed=1)
    same, slower = project.results["results"]
    fresh = [one["fresh"] for one in slower["directions"]["tx"]["connections"]]
    assert fresh == ["connection"] * len(fresh), "without a link-up"
    assert len(fresh) > 1
    assert (same["comparison"]["error_rate"], same["directions"]["tx"]["error_rate"]) == (0.2, 0.2)
    assert same["rerun"].endswith(" --pinet-error-rate=20% --pinet-confirm=connection")
