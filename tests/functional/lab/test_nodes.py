"""Nodes of a real lab: lost to another user, with a blind power switch, refusing logins, without exporter."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConsoleError, CoordinatorError, LabError, LeaseError, SshError
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.model.combination import Combination, Endpoint
from tests.support.gate_project import BIN, GateLab

# labgrid's log of serial lines fails on a console without output so far (KeyError in flush).
pytestmark = pytest.mark.filterwarnings("ignore:unhandled exception during event notification")

PLACES = ("pi3b-1", "pi3b-2")
Connect = Callable[..., tuple[LabAccess, Combination]]


@pytest.fixture
def connect(gate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Open sessions on the gate's lab with a modified copy of its lab file. Afterwards the nodes are off."""
    for name, value in gate_lab.environment.items():
        monkeypatch.setenv(name, value)
    opened: list[LabAccess] = []

    def make(*replacements: tuple[str, str]) -> tuple[LabAccess, Combination]:
        text = gate_lab.text_without_launcher()
        for old, new in replacements:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        file = tmp_path / f"lab{len(opened)}.yaml"
        file.write_text(text)
        lab = load(file)
        opened.append(LabAccess(lab, Identity.of_this_process("main"), 3, lambda _: None))
        ends = [Endpoint(lab.nodes[name], lab.nodes[name].interface("onboard")) for name in PLACES]
        return opened[-1], Combination.pair(*ends)

    yield make
    for session in opened:
        session.close()
    for place in gate_lab.holders():
        alice(gate_lab, place, "release", "--kick")
    gate_lab.switch_power(False, *PLACES)


def alice(gate_lab: GateLab, place: str, *command: str) -> None:
    """Run labgrid's own client as a user on another host."""
    environment = {**os.environ, "LG_HOSTNAME": "otherhost", "LG_USERNAME": "alice"}
    argv = [str(BIN / "labgrid-client"), "-x", gate_lab.environment["LG_COORDINATOR"], "-p", place, *command]
    subprocess.run(argv, env=environment, check=True, timeout=30, capture_output=True)


def groups(session: LabAccess) -> set[int | None]:
    """Return the VLANs of the switch ports of both nodes."""
    return {session.switch("sw1").state(port).vlan for port in ("p1", "p3")}


def booted_at(gate_lab: GateLab, node: str) -> str:
    """Return the start time of the first process of a node."""
    return gate_lab.execute(node, "cat", "/proc/1/stat").split()[21]


@pytest.mark.smoke
def test_a_lost_node_is_neither_switched_off_nor_rewired(connect: Connect, gate_lab: GateLab) -> None:
    session, pair = connect()
    with session.open(pair) as link:
        (wired,) = groups(session)
        assert wired != 1
        alice(gate_lab, "pi3b-1", "release", "--kick")
        alice(gate_lab, "pi3b-1", "acquire")
        with pytest.raises(LeaseError, match="pi3b-1 was lost during the test, and is held by otherhost/alice"):
            session.check(pair)
    session.distrust(pair)
    session.keep_only(())
    # Her place does not change. Ours is in its initial state.
    assert gate_lab.nodes_on() == {"pi3b-1"}
    assert gate_lab.addresses("pi3b-1") == [str(link.dut.address)]
    assert groups(session) == {wired}
    assert gate_lab.holders() == ["pi3b-1"]
    assert session.take_warnings() == [
        "did not undo ARP settings of pi3b-1: this run no longer holds pi3b-1",
        f"did not undo address {link.dut.address} on pi3b-1 eth0: this run no longer holds pi3b-1",
        "did not undo the wiring of p1 and p3 on switch sw1: this run no longer holds pi3b-1",
        "pi3b-1 stays switched on: this run has lost its place pi3b-1",
    ]
    alice(gate_lab, "pi3b-1", "release")
    with session.open(pair):
        pass
    assert set(gate_lab.port_groups().values()) == {"br0"}
    # Her lease did not know of them.
    left = ("ARP settings of pi3b-1", f"address {link.dut.address} on pi3b-1 eth0")
    assert session.close() == [f"undid {what}, which an interrupted run left on pi3b-1" for what in left]
    assert gate_lab.nodes_on() == {"pi3b-1"}


def test_nodes_halt_while_the_next_ones_boot(connect: Connect, gate_lab: GateLab) -> None:
    session, pair = connect()
    next_nodes = [session.lab.nodes[name] for name in ("pi4b-1", "pi4b-2")]
    other = Combination.pair(*(Endpoint(node, node.interface("onboard")) for node in next_nodes))
    with session.open(pair):
        pass
    session.keep_only(other.nodes)
    # They halt, and so no other run may use them yet.
    assert gate_lab.holders() == list(PLACES)
    assert gate_lab.nodes_on() == set(PLACES)
    with session.open(other):
        assert gate_lab.holders() == ["pi4b-1", "pi4b-2"]
        assert gate_lab.nodes_on() == {"pi4b-1", "pi4b-2"}
    session.keep_only(pair.nodes)
    # A node that halts, but is needed again, is booted.
    with session.open(other):
        assert gate_lab.nodes_on() == {"pi4b-1", "pi4b-2"}
    # Without a next test there is nothing to wait for.
    session.keep_only(())
    assert gate_lab.holders() == []
    assert gate_lab.nodes_on() == set()
    assert session.close() == []


@pytest.mark.slow
def test_refused_credentials_are_an_error_without_a_power_cycle(
    connect: Connect, gate_lab: GateLab, tmp_path: Path
) -> None:
    key = tmp_path / "other_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    trials: list[tuple[type[LabError], str, tuple[str, str]]] = [
        (
            ConsoleError,
            "the console refused the login of user 'root'",
            ('password: !template "$LG_CONSOLE_PASSWORD"', "password: wrong"),
        ),
        (
            SshError,
            r"pi3b-1: ssh refused root@127\.0\.0\.1: .*Permission denied(?s:.*)-> correct user",
            ('PiSSHDriver:\n        keyfile: !template "$LG_KEYFILE"', f"PiSSHDriver:\n        keyfile: {key}"),
        ),
    ]
    gate_lab.switch_power(True, *PLACES)
    gate_lab.await_boot(*PLACES)
    before = booted_at(gate_lab, "pi3b-1")
    for kind, words, replacement in trials:
        session, pair = connect(replacement)
        with pytest.raises(kind, match=words), session.open(pair):
            pass
        assert session.close() == []
        assert booted_at(gate_lab, "pi3b-1") == before


@pytest.mark.slow
def test_a_place_without_exporter_is_not_a_mistake_in_the_lab_file(connect: Connect, gate_lab: GateLab) -> None:
    alice(gate_lab, "bare", "create")
    try:
        session, pair = connect(
            ("RemotePlace: {name: pi3b-2}", "RemotePlace: {name: bare}"),
            ("    pi3b-2:\n      board", "    pi3b-2:\n      place: bare\n      board"),
        )
        with (
            pytest.raises(
                CoordinatorError,
                match=r"no exporter serves place bare \(no NetworkPowerPort\), which node pi3b-2 needs"
                r"(?s:.*)-> start labgrid-exporter",
            ),
            session.open(pair),
        ):
            pass
        assert session.close() == []
        assert gate_lab.holders() == []
    finally:
        alice(gate_lab, "bare", "delete")
