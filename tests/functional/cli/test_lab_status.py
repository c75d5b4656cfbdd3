"""``pinet lab status`` of a bench: what can be reached now, with a real coordinator."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from tests.support.labgrid_server import LabgridServer, labgrid_server

LAB = """\
options: {{coordinator_address: "{address}"}}
pinet:
  boards:
    pc: {{title: PC, clock_mhz: 3000, cores: 8, buses: [pcie2x1], onboard: i340}}
  switches:
    s: {{backend: fixed, ports: p1-p9}}
    sw: {{backend: snmp, address: "127.0.0.1:1", timeout: 100 ms, ports: p1-p9}}
  nodes:
    held: {{board: pi4b, place: pi1, interfaces: {{onboard: {{port: s/p1}}}}}}
    off: {{board: pi4b, place: pi6, interfaces: {{onboard: {{port: s/p2}}}}}}
    runner: {{board: pc, place: pi2, runner: true, interfaces: {{lan: {{nic: i340, port: sw/p3, device: lan0}}}}}}
"""


def status(*words: str) -> int:
    """Return the exit code."""
    try:
        return run(["lab", "status", *words])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def board() -> Iterator[socket.socket]:
    """A socket of this machine on which no server listens yet."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held


@pytest.fixture
def server(tmp_path: Path, board: socket.socket) -> Iterator[LabgridServer]:
    with labgrid_server(tmp_path) as started:
        (tmp_path / "exporter.yaml").write_text(
            f"pi6: {{NetworkService: {{address: 127.0.0.1, username: root, port: {board.getsockname()[1]}}}}}\n"
        )
        started.start_exporter()
        yield started


def test_a_bench_says_what_can_be_reached(
    server: LabgridServer, tmp_path: Path, board: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "bench.yaml"
    lab.write_text(LAB.format(address=server.address))
    port = board.getsockname()[1]
    server.alice("pi1", "acquire", "--allow-unmatched")
    assert status("--lab", str(lab)) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "lab bench has no launcher: it is always there, and this is what can be reached now"
    assert lines[1] == f"ok coordinator {server.address}"
    assert lines[2].startswith(
        "? held no exporter offers its NetworkService, so its address is not known held by otherhost/alice since "
    )
    assert lines[3] == f"BAD off no ssh server answers at 127.0.0.1 port {port} (Connection refused) free"
    assert lines[4] == "ok runner this machine free"
    assert lines[5].startswith("BAD switch sw switch sw ")
    board.listen()
    assert status("--json", "--lab", str(lab)) == 1
    found = {one["part"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["off"] == {
        "part": "off", "answers": True, "words": f"an ssh server answers at 127.0.0.1 port {port}", "lease": "free",
    }  # fmt: skip
    assert found["switch sw"]["answers"] is False


def test_a_bench_without_its_coordinator_is_not_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = tmp_path / "bench.yaml"
    lab.write_text(LAB.format(address="127.0.0.1:1"))
    assert status("--lab", str(lab)) == 1
    said = capsys.readouterr().out
    assert "no labgrid coordinator answers at 127.0.0.1:1" in said
    assert "down" not in said


@pytest.mark.parametrize("command", [["degrade", "off", "--down"], ["exec", "off", "true"]])
def test_commands_for_virtual_labs_say_that_a_bench_is_none(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "bench.yaml"
    lab.write_text(LAB.format(address="127.0.0.1:1"))
    assert run(["lab", command[0], "--lab", str(lab), *command[1:]]) == 4
    assert capsys.readouterr().err == f"pinet: {lab} has no launcher; this command is only for virtual labs\n"
