"""A third-party package adds a traffic tool: a lab file selects it, gates measure with it, results name it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement, LinkError
from pytest_pinet.evidence.interface import CountedDevice, Crossing, Moved, read_interface
from tests.support import replay_tool
from tests.support.gate_project import GateLab, NewProject, Project
from tests.support.local_shell import LocalShell

TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="90%")
def test_it(link, gate):
    gate.{call}
"""
REPLAY = """
test_it*:
  - connections: [{goodput: 93.0}]
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a folder of installed packages: one working tool, and one whose module cannot be imported."""
    replay_tool.install(tmp_path, "broken", "no_such_module_at_all:Tool")
    return replay_tool.install(tmp_path)


def run(project: Project, packages: Path, keys: str, *options: str) -> pytest.RunResult:
    return project.replayed(packages, *options, keys=keys)


def test_it_is_found_used_and_named_in_the_result(new_project: NewProject, packages: Path) -> None:
    """For TCP and for HTTP."""
    both = TEST.format(call="tcp(link)") + "    gate.http(link, duration=1)\n"
    project = new_project({"test_it.py": both, "replay.yaml": REPLAY})
    run(project, packages, "  traffic_tool: replay\n  http_tool: replay\n").assert_outcomes(passed=1)
    results = project.results["results"]
    assert [result["id"].split("/")[-1].partition("-")[0] for result in results] == ["tcp", "http"]
    for result in results:
        assert result["tool"] == "replay"
        assert result["versions"] == {"dut": "replay 1.0", "peer": "replay 1.0"}
        assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(93e6, rel=0.001)
        assert any(name.endswith("replay.txt") for name in result["files"])


def test_a_dry_run_names_the_tool_without_commands(new_project: NewProject, packages: Path) -> None:
    project = new_project({"test_it.py": TEST.format(call="tcp(link)"), "replay.yaml": REPLAY})
    output = run(project, packages, "  traffic_tool: replay\n", "--pinet-dry-run")
    output.stdout.fnmatch_lines(["    traffic tool replay sends tcp-P1"])
    output.stdout.no_fnmatch_line("*iperf3*")


def test_the_error_of_an_unknown_name_has_file_and_line(new_project: NewProject, packages: Path) -> None:
    project = new_project({"test_it.py": TEST.format(call="tcp(link)")})
    output = run(project, packages, "  traffic_tool: repaly\n")
    assert output.ret == pytest.ExitCode.USAGE_ERROR
    output.stderr.fnmatch_lines(
        ["ERROR: *virtual.yaml:* unknown traffic tool 'repaly', did you mean 'replay'? (accepted: *, wrk)"]
    )


def test_an_import_error_of_a_tool_is_reported_before_a_node_is_used(
    new_project: NewProject, packages: Path, gate_lab: GateLab
) -> None:
    before = gate_lab.nodes_on()
    project = new_project({"test_it.py": TEST.format(call="tcp(link)")})
    output = run(project, packages, "  traffic_tool: broken\n")
    output.assert_outcomes(errors=1)
    output.stdout.fnmatch_lines(
        ["traffic tool 'broken' of package pinet-broken 1.0 cannot be imported: ModuleNotFoundError: *"]
    )
    assert gate_lab.nodes_on() == before


SIZE = 4_000_000


def loopback() -> CountedDevice:
    return CountedDevice(LocalShell(), "lo", "runner lo")


def send_over_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            thread = threading.Thread(target=sender.sendall, args=(bytes(SIZE),))
            thread.start()
            left = SIZE
            while left:
                left -= len(receiver.recv(1 << 16))
            thread.join()


def through(moved: int) -> list[Moved]:
    return [Moved(moved, 0), Moved(0, moved)]


def test_traffic_that_crossed_is_accepted() -> None:
    crossing = Crossing([loopback(), loopback()])
    send_over_loopback()
    crossing.check(through(SIZE))


def test_traffic_over_another_nic_is_invalid() -> None:
    crossing = Crossing([loopback(), loopback()])
    send_over_loopback()
    with pytest.raises(InvalidMeasurement, match=r"runner lo sent [\d.]+ MB of the 40000.0 MB .*another NIC or cable"):
        crossing.check(through(40_000_000_000))


def test_a_device_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(LinkError, match=r"runner has no network device eth77 \(it has: .*lo.*\)"):
        read_interface(LocalShell(), "eth77")
