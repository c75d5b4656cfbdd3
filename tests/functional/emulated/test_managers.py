"""Real network managers on an emulated board: a run takes the NIC under test, and all is given back.

NetworkManager, systemd-networkd, dhcpcd and ifupdown are Debian's packages. Each also configures the NIC that carries
ssh, and a Wi-Fi station on the kernel's simulated radios.
"""

from __future__ import annotations

import ipaddress
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.end import End, bring_up, read_surroundings, take
from pytest_pinet.lab.node.guard import Guard
from pytest_pinet.lab.node.management import find_management
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.combination import Endpoint
from pytest_pinet.model.lab import MANAGERS
from tests.support.emulated_gate import NEEDS, card_or_skip
from tests.support.managed_board import ManagedBoard, await_board, managed_board, project

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]

# Longer than all managers take to answer a lost carrier (NetworkManager: 6 s), shorter than the test holds the link.
LAPSES_AFTER_S = 20.0
HOLDS_A_LINK = """
import os, subprocess, time
import pytest
from pytest_pinet.lab.link.end import read_surroundings

pytestmark = pytest.mark.pinet(board="virt", nic="virtio")

def cable(*words):
    subprocess.run([os.environ["PINET"], "lab", *words[:1], "--lab", os.environ["LAB"], *words[1:]], check=True)

def test_a_lost_carrier_changes_nothing(link):
    shell, device = link.dut.shell, link.dut.device
    addresses = shell.run(f"ip -o -4 addr show dev {device}").stdout
    assert link.dut.ip in addresses
    holding = read_surroundings(link.dut).holding
    assert ("" if holding is None else holding.manager) == os.environ["HOLDER"]
    cable("degrade", "board:virtio", "--down")
    time.sleep(9)
    cable("restore", "board:virtio")
    deadline = time.monotonic() + 20
    while shell.run(f"ping -n -q -c 1 -W 1 -I {device} {link.peer.ip}").returncode:
        assert time.monotonic() < deadline, "no answer after the cable was plugged in again"
    done = shell.run(f"ping -n -q -c 75 -i 0.2 -I {device} {link.peer.ip}", timeout_s=60)
    assert " 0% packet loss" in done.stdout
    assert link.dut.ip in shell.run(f"ip -o -4 addr show dev {device}").stdout
"""
HANGS = """
import time

import pytest

@pytest.mark.pinet(board="virt", nic="virtio")
def test_hangs(link):
    open("opened", "w").close()
    time.sleep(600)
"""


@pytest.fixture(scope="module", params=MANAGERS)
def board(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedBoard]:
    with card_or_skip(), managed_board(tmp_path_factory.mktemp("managed"), request.param) as board:
        board.start_wifi()
        yield board


def holder(board: ManagedBoard) -> str:
    """Return the manager that stays in charge of the NIC under test while a link is open, or nothing."""
    return board.manager if board.manager in ("dhcpcd", "ifupdown") else ""


def await_state(board: ManagedBoard, before: Sequence[str], timeout_s: float = 60.0) -> None:
    """Wait until the managers and the kernel say the same of all interfaces as before, and nothing of the run is left.

    A guard removes its files after its undo, which a slow board shows.
    """
    try:
        await_board("the state before the link", lambda: board.state() == before and not board.left(), timeout_s)
    except AssertionError:
        assert board.state() == before
        assert board.left() == ""
        raise


def open_and_hang(board: ManagedBoard, folder: Path, lapses_after_s: float) -> subprocess.Popen[bytes]:
    """Start a run that holds a link open. Return when the link is open."""
    own = project(folder, board, lapses_after_s, HANGS)
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            own.argv("-W", "default"), cwd=own.path, env=own.environment(), stdout=output, start_new_session=True
        )
    await_board("the link", (folder / "opened").exists, 150.0)
    return process


def is_open(board: ManagedBoard) -> bool:
    """Return whether the NIC under test has the address of a link."""
    return " 198.1" in board.ssh("ip -o -4 addr show dev eth0")


def test_a_link_is_open_longer_than_the_manager_reacts_and_all_is_as_before(
    board: ManagedBoard, tmp_path: Path
) -> None:
    before, associated_s, uptime_s = board.state(), board.associated_s(), board.uptime_s()
    assert associated_s is not None
    with board.watched():
        own = project(tmp_path, board, LAPSES_AFTER_S, HOLDS_A_LINK)
        done = own.pytest(timeout_s=280, HOLDER=holder(board))
        assert done.ret == 0
        await_state(board, before)
    # A new association would count from zero. Both clocks are the board's.
    now_s = board.associated_s()
    assert now_s is not None
    assert now_s - associated_s > board.uptime_s() - uptime_s - 5


def test_a_killed_run_is_undone_by_the_board_itself(board: ManagedBoard, tmp_path: Path) -> None:
    before = board.state()
    process = open_and_hang(board, tmp_path, LAPSES_AFTER_S)
    try:
        assert is_open(board)
        with board.watched():
            process.kill()
            process.wait(20)
            assert is_open(board)
            await_state(board, before, LAPSES_AFTER_S + 60)
    finally:
        process.kill()


def test_the_next_run_undoes_what_a_killed_run_left_and_ctrl_c_gives_all_back(
    board: ManagedBoard, tmp_path: Path
) -> None:
    before = board.state()
    with board.watched():
        process = open_and_hang(board, tmp_path, 600.0)
        process.kill()
        process.wait(20)
        assert is_open(board)
        (tmp_path / "opened").unlink()
        process = open_and_hang(board, tmp_path, 600.0)
        try:
            process.send_signal(signal.SIGINT)
            # pytest's exit status for an interruption.
            assert process.wait(150) == 2
            await_state(board, before)
        finally:
            process.kill()
    assert "which an interrupted run left on board" in (tmp_path / "output").read_text()


def end_of(board: ManagedBoard, device: str, address: str) -> End:
    interface = SimpleNamespace(node="board", device=device, port=SimpleNamespace(port="p1", switch="sw1"))
    session = SimpleNamespace(facts={}, guard=Guard(board.shell))
    return End(
        cast(Endpoint, SimpleNamespace(interface=interface, node=SimpleNamespace(runner=False))),
        cast(NodeSession, session),
        board.shell,
        ipaddress.IPv4Interface(address),
    )


def test_a_wifi_end_keeps_its_manager_and_its_association(board: ManagedBoard) -> None:
    before, associated_s = board.state(), board.associated_s()
    assert associated_s is not None
    end = end_of(board, "wlan1", "192.168.88.3/24")
    around = read_surroundings(end)
    assert around.wireless
    assert around.holding is not None
    assert around.holding.manager == board.manager
    undo = UndoStack()
    take(end, around, undo)
    bring_up(end, around, undo)
    board.ssh("ping -c 10 -i 0.2 -I 192.168.88.3 192.168.88.1")
    assert undo.close() == []
    end.session.guard.stop()
    await_state(board, before)
    # A new association would count from zero.
    now_s = board.associated_s()
    assert now_s is not None
    assert now_s >= associated_s


def test_ssh_over_wifi_is_named(board: ManagedBoard) -> None:
    # A login by the simulated radios, from the namespace of the access point.
    shell = board.shell_over_wifi()
    assert shell.run("echo $SSH_CONNECTION", 60.0).stdout.split()[2] == "192.168.88.2"
    found = find_management(shell, {})
    assert (found.device, found.wifi) == ("wlan1", True)
    assert "wlan1" in found.carriers
    assert str(found.beside(["eth0"])) == "wifi"


def test_the_interface_that_carries_ssh_is_never_taken(board: ManagedBoard) -> None:
    around = read_surroundings(end_of(board, "mgmt0", "192.0.2.1/24"))
    assert around.carries_ssh
    assert around.holding is not None
    assert around.holding.manager == board.manager
    assert around.to_take is None


# A VLAN on a bond of two NICs.
BOND = """
set -e
modprobe -a bonding dummy 8021q
ip link add bond9 type bond
for nic in nic8 nic9; do ip link add $nic type dummy; ip link set $nic master bond9; done
ip link add link bond9 name bond9.7 type vlan id 7
ip link set bond9 up; ip link set bond9.7 up
ip addr add 192.168.99.2/24 dev bond9.7
"""


def test_ssh_through_a_vlan_and_a_bond_uses_the_nics_below(board: ManagedBoard) -> None:
    board.ssh(BOND)
    try:
        shell = SshShell("board", [*board.shell.argv, "SSH_CONNECTION='192.168.99.1 5000 192.168.99.2 22'; "])
        found = find_management(shell, {})
    finally:
        board.ssh("for nic in bond9.7 bond9 nic8 nic9; do ip link del $nic; done")
    assert (found.device, found.vlan, found.wifi) == ("bond9.7", 7, False)
    assert {"bond9.7", "bond9", "nic8", "nic9"} <= found.carriers
    assert not found.carriers & {"mgmt0", "eth0"}
    assert (found.parts["nic8"], found.parts["nic9"]) == ("bond9", "bond9")
    assert str(found.beside(["nic9"])) == "vlan:7"
