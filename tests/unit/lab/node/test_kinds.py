"""The machine that runs pytest as a node of the lab file: a peer without a target, and never under test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.catalogue.load import load as load_catalogue
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.node import kinds
from pytest_pinet.lab.node.kinds import RunnerSession, UnpoweredSession
from pytest_pinet.lab.node.node_login import NoAnswer
from pytest_pinet.lab.node.shutdown import Shutdown
from pytest_pinet.matrix.expansion import combinations
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.session.arguments import read_marker
from pytest_pinet.tuning.journal import Replayed
from tests.support.node_board import BOOT_S, Board

LAB = """\
targets:
  pi:
    resources:
      RemotePlace: {name: pi}
pinet:
  boards:
    pc: {title: A desktop, clock_mhz: 3000, cores: 8, buses: [pcie3x1], onboard: i210}
  nics:
    i210: {title: Intel I210, chip: I210, driver: igb, bus: pcie3x1, speeds_mbps: [10, 100, 1000], mtu_max: 9000}
  switches:
    s: {backend: fixed, ports: p1-p4}
  nodes:
    pi:
      board: pi4b
      interfaces:
        onboard: {port: s/p1}
    here:
      board: pc
      runner: true
      interfaces:
        lan: {nic: i210, port: s/p2, device: enp3s0}
"""


def load_text(folder: Path, text: str) -> Lab:
    file = folder / "lab.yaml"
    file.write_text(text)
    return load(file)


def test_the_runner_needs_no_target_and_is_a_peer(tmp_path: Path) -> None:
    lab = load_text(tmp_path, LAB)
    assert lab.nodes["here"].runner
    assert not lab.nodes["pi"].runner
    (found,) = combinations(lab, read_marker("t", [pytest.mark.pinet().mark]))
    assert isinstance(found, Combination)
    assert (found.dut.node.name, found.peer.node.name) == ("pi", "here")
    # It is leased like any other node, so that only one test at a time uses its NIC.
    assert found.places == ("here", "pi")


def test_the_runner_is_never_under_test(tmp_path: Path) -> None:
    lab = load_text(tmp_path, LAB)
    (missing,) = combinations(lab, read_marker("t", [pytest.mark.pinet(board="pc").mark]))
    assert not isinstance(missing, Combination)
    assert missing.reason == "no board 'pc' in lab lab (boards: pi4b)"


def test_the_runner_is_not_booted_after_a_failed_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Replayed(failed=("mtu=9000 of here:lan (Device or resource busy)",))
    monkeypatch.setattr("pytest_pinet.lab.node.node_session.replay", lambda _: failed)
    monkeypatch.setattr("pytest_pinet.lab.deploy.recovery.put_back", lambda _: pytest.fail("it is not ours to boot"))
    session = RunnerSession(load_text(tmp_path, LAB).nodes["here"])
    session.switch_on()
    session.log_in()
    assert session.take_warnings() == [
        "could not undo mtu=9000 of here:lan (Device or resource busy) on here: the change stays until here is booted"
    ]
    assert session.shell.run("echo up").stdout == "up\n"


def test_the_runner_is_never_shut_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shutdown, "begin", lambda *_: pytest.fail("this would switch off the machine of the tests"))
    session = RunnerSession(load_text(tmp_path, LAB).nodes["here"])
    session.switch_on()
    session.log_in()
    session.reset_due = True
    session.begin_reset_if_due()
    session.reset_if_due()
    session.leave()
    session.reset_due = True
    session.reboot_at_release()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "board: pi4b\n",
            "board: pi4b\n      runner: true\n",
            "nodes 'pi' and 'here' both have 'runner: true', but only one node can be the machine that pytest runs on",
        ),
        (
            "  switches:",
            "  launcher: virtual\n  switches:",
            "node 'here' is the machine that pytest runs on (key 'runner'); launcher 'virtual' cannot connect it: "
            "remove the node, or its key 'runner'",
        ),
        (
            "    here:\n      board: pc\n      runner: true\n",
            "    here:\n      board: pc\n",
            "node 'here' has no target",
        ),
    ],
)
def test_invalid_runner_entries_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_text(tmp_path, LAB.replace(old, new))


class SshBoard(Board):
    """A board with ssh and nothing else."""

    def __init__(self) -> None:
        super().__init__(True)
        self.has_login = self.has_power = False

    def await_boot(self) -> None:
        self.path = []


def test_the_wait_for_a_board_that_runs_no_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "boot_id", lambda _: None)
    node = Node("pi1", load_catalogue().boards["pi4b"], "pi1", "pi1", (), Where("lab.yaml", 1), BOOT_S)
    session = UnpoweredSession(node, SshBoard())
    session._ending = "0123"
    with pytest.raises(NoAnswer) as caught:
        session._connect(Deadline(0.1))
    assert caught.value.error.message == "pi1 takes ssh connections, but runs no command"
