"""A link between two network namespaces: other programs that use the device, and missing parts of a node."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import CapabilityError, LinkError, SshError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import link, tuning_session
from pytest_pinet.lab.link import link as link_module
from pytest_pinet.lab.node import guard
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.lab.switch.switchport import SwitchBackend
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.forms import Management
from pytest_pinet.model.lab import Switch
from pytest_pinet.model.tuning import SettingOutcome, Tuning
from pytest_pinet.tuning.journal import replay
from tests.support.namespaces import TWO_BOARDS, NamespaceShell, ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

# NetworkManager as seen through its command: it answers, then takes the device down and removes its addresses.
NMCLI = """\
#!/bin/sh
case "$*" in
"-t -f GENERAL.STATE,GENERAL.CON-UUID,GENERAL.AUTOCONNECT device show eth0")
    echo "GENERAL.STATE:$(cat {state})"; echo GENERAL.CON-UUID:0a1b; echo GENERAL.AUTOCONNECT:no ;;
"device set eth0 managed no")
    (sleep 0.3; ip addr flush dev eth0; ip link set eth0 down; echo "10 (unmanaged)" >{state}) >/dev/null 2>&1 & ;;
"device set eth0 autoconnect no managed yes") echo "100 (connected)" >{state}; ip link set eth0 up ;;
"-w 0 connection up uuid 0a1b ifname eth0") ;;
*) exit 2 ;;
esac
"""

STATE = "ip -o addr; cat /sys/class/net/eth0/flags; ip route; grep . /proc/sys/net/ipv4/conf/*/arp_*"
ARP = "cat /proc/sys/net/ipv4/conf/eth0/arp_*"
# The files of guards, and entries of the journal.
LEFT = "find /run/pytest-pinet/ -type f"


class RewiringSwitch(ManagedSwitch):
    rewires = True

    def wire(self, groups: Sequence[frozenset[str]], undo: UndoStack) -> None:
        undo.add("the wiring", lambda: None)


class KeepingSwitch(RewiringSwitch):
    """A switch that could move ports, and notes which ports it must keep."""

    def __init__(self, switch: Switch, backend: SwitchBackend, journal: Journal) -> None:
        super().__init__(switch, backend, journal)
        self.kept: list[tuple[frozenset[str], frozenset[str]]] = []
        self.wired: list[frozenset[str]] = []

    def keep(self, ports: Collection[str], untouched: Collection[str], undo: UndoStack) -> None:
        self.kept.append((frozenset(ports), frozenset(untouched)))

    def wire(self, groups: Sequence[frozenset[str]], undo: UndoStack) -> None:
        self.wired += groups


class Bench:
    """Both nodes and the cable between them."""

    def __init__(self, folder: Path) -> None:
        file = folder / "two.yaml"
        file.write_text(TWO_BOARDS)
        lab = load(file)
        self._nodes = dict(lab.nodes)
        self.left, self.right = (NamespaceShell(name, f"pinet-{os.getpid()}-{name}") for name in ("left", "right"))
        self.fixed = lab.switches["sw1"]
        self.journal = Journal(str(file), folder / "journal")
        self.switch = ManagedSwitch(self.fixed, FixedSwitch(), self.journal)
        self.undo = UndoStack()
        self.guards = {shell.name: guard.Guard(shell) for shell in (self.left, self.right)}

    def declare(self, node: str, management: str, device: str = "eth0", driver: str = "veth") -> None:
        """Set ``management:`` of a node, and the device of its interface."""
        interfaces = tuple(replace(one, device=device, drivers=(driver,)) for one in self._nodes[node].interfaces)
        changed = replace(self._nodes[node], management=Management.parse(management), interfaces=interfaces)
        self._nodes[node] = changed

    def connect(self) -> link.Link:
        ends = [Endpoint(self._nodes[n], self._nodes[n].interface("pcie")) for n in ("left", "right")]
        sessions = {
            shell.name: cast(NodeSession, SimpleNamespace(shell=shell, facts={}, guard=self.guards[shell.name]))
            for shell in (self.left, self.right)
        }
        return link.connect(Combination.pair(*ends), sessions, {"sw1": self.switch}, self.undo)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path)
    left, right = found.left.namespace, found.right.namespace
    ip(f"netns add {left}")
    ip(f"netns add {right}")
    try:
        ip(f"-n {left} link add eth0 type veth peer name eth0 netns {right}")
        yield found
    finally:
        ip(f"netns del {left}")
        ip(f"netns del {right}")


def test_a_link_comes_up_and_leaves_nothing(bench: Bench) -> None:
    found = bench.connect()
    assert (found.path.speed_mbps, found.path.duplex) == (10_000, "full")
    assert bench.left.addresses() == [str(found.dut.address)]
    assert bench.undo.close() == []
    assert bench.left.addresses() == bench.right.addresses() == []


def test_the_next_lease_undoes_what_a_killed_run_left(bench: Bench) -> None:
    before = bench.left.run(STATE).stdout
    found = bench.connect()
    assert bench.left.run(STATE).stdout != before
    assert replay(bench.left).done == (
        "ARP settings of left",
        f"address {found.dut.address} on left eth0",
        "eth0 up on left",
    )
    assert bench.left.run(STATE).stdout == before


def test_values_that_the_driver_does_not_report_stay_unknown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.right.run

    def untold(command: str, timeout_s: float = 10.0) -> Completed:
        done = run(command, timeout_s)
        text = done.stdout.replace("speed=10000", "speed=-1").replace("duplex=full", "duplex=unknown")
        return Completed(done.returncode, text, done.stderr)

    monkeypatch.setattr(bench.right, "run", untold)
    path = bench.connect().path
    assert (path.speed_mbps, path.duplex) == (10_000, None)
    bench.undo.close()


@pytest.mark.parametrize("rewires", [True, False])
def test_the_port_that_carries_our_ssh_is_never_rewired(bench: Bench, rewires: bool) -> None:
    ip(f"-n {bench.left.namespace} addr add 192.168.1.7/24 dev eth0")
    bench.left.environment["SSH_CONNECTION"] = "192.168.1.2 40000 192.168.1.7 22"
    if not rewires:
        assert bench.connect().path.mtu == 1500
        assert bench.undo.close() == []
        assert bench.left.addresses() == ["192.168.1.7/24"]
        return
    bench.switch = RewiringSwitch(bench.fixed, FixedSwitch(), bench.journal)
    with pytest.raises(
        LinkError, match=r"left eth0 .* carries the ssh connection(?s:.*)-> write `management: same` at "
    ):
        bench.connect()
    assert bench.undo.close() == []
    assert bench.left.addresses() == ["192.168.1.7/24"]


def test_ssh_over_another_nic_allows_rewiring(bench: Bench) -> None:
    bench.switch = RewiringSwitch(bench.fixed, FixedSwitch(), bench.journal)
    bench.left.environment["SSH_CONNECTION"] = "192.168.1.2 40000 192.168.1.7 22"
    bench.connect()
    assert bench.undo.close() == []


@pytest.fixture
def manager(bench: Bench, tmp_path: Path) -> Path:
    """Run NetworkManager on the left node. Return the file with its state of the device."""
    state = tmp_path / "state"
    state.write_text("100 (connected)\n")
    nmcli = tmp_path / "bin" / "nmcli"
    nmcli.parent.mkdir()
    nmcli.write_text(NMCLI.format(state=state))
    nmcli.chmod(0o755)
    bench.left.environment["PATH"] = f"{nmcli.parent}:{os.environ['PATH']}"
    return state


def test_network_manager_releases_the_device_until_the_undo(bench: Bench, manager: Path) -> None:
    bench.left.run("ip link set eth0 up")
    found = bench.connect()
    assert manager.read_text() == "10 (unmanaged)\n"
    assert bench.left.addresses() == [str(found.dut.address)]
    assert bench.undo.close() == []
    assert manager.read_text() == "100 (connected)\n"
    assert bench.left.addresses() == []
    bench.guards["left"].stop()
    assert bench.left.run(LEFT).stdout == ""


def test_the_guard_undoes_all_changes_if_the_runner_is_gone(
    bench: Bench, manager: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAPSES_AFTER_S", 3.0)
    # A runner that is gone renews nothing.
    monkeypatch.setattr(guard.Guard, "_renew", lambda _: None)
    bench.guards["left"] = guard.Guard(bench.left)
    bench.left.run("ip link set eth0 up")
    before = bench.left.run(ARP).stdout
    bench.connect()
    assert manager.read_text() == "10 (unmanaged)\n"
    assert bench.left.run(ARP).stdout != before
    assert Deadline(10.0).wait_until(lambda: bench.left.run(LEFT).stdout == "")
    assert manager.read_text() == "100 (connected)\n"
    assert bench.left.addresses() == []
    assert bench.left.run(ARP).stdout == before
    # The run that comes back has nothing left to undo.
    assert bench.undo.close() == []


def test_network_manager_keeps_the_device_that_carries_our_ssh(bench: Bench, manager: Path) -> None:
    ip(f"-n {bench.left.namespace} addr add 192.168.1.7/24 dev eth0")
    bench.left.environment["SSH_CONNECTION"] = "192.168.1.2 40000 192.168.1.7 22"
    bench.connect()
    assert manager.read_text() == "100 (connected)\n"
    assert bench.undo.close() == []


def test_an_unmanaged_device_is_left_unmanaged(bench: Bench, manager: Path) -> None:
    manager.write_text("10 (unmanaged)\n")
    bench.connect()
    assert bench.undo.close() == []
    assert manager.read_text() == "10 (unmanaged)\n"


def test_an_address_that_is_gone_already_counts_as_undone(bench: Bench) -> None:
    bench.connect()
    bench.left.run("ip addr flush dev eth0")
    assert bench.undo.close() == []


def test_an_address_that_cannot_be_removed_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.left.run
    monkeypatch.setattr(bench.left, "run", lambda command, timeout_s=10.0: run(command.replace("addr del", "addr no")))
    bench.connect()
    failures = bench.undo.close()
    assert len(failures) == 1
    assert failures[0].startswith("could not undo address 198.1")


def test_the_error_for_a_missing_ping_names_its_package(bench: Bench, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "id", "cat", "ls", "grep", "mkdir", "mount", "mv", "rm"):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")
    bench.left.environment["PATH"] = str(tools)
    with pytest.raises(LinkError, match=r"left has no command 'ping'\n  -> on left: sudo apt-get install iputils-ping"):
        bench.connect()
    bench.undo.close()


def test_the_error_for_a_missing_ip_names_its_package(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.left.run
    monkeypatch.setattr(
        bench.left, "run", lambda command, timeout_s=10.0: run(command.replace("command -v ip", "command -v no-ip"))
    )
    with pytest.raises(LinkError, match=r"left has no command 'ip'\n  -> on left: sudo apt-get install iproute2"):
        bench.connect()


def test_a_hanging_peer_is_reported_before_the_spanning_tree_delay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.right.run
    frozen = False

    def hang(command: str, timeout_s: float = 10.0) -> Completed:
        nonlocal frozen
        if frozen:
            raise SshError("right did not answer over ssh")
        done = run(command, timeout_s)
        if "addr replace" in command:
            run("ip addr flush dev eth0")
            frozen = True
        return done

    for shell in (bench.left, bench.right):
        shell.run("ip link set eth0 up")
    monkeypatch.setattr(bench.right, "run", hang)
    started = time.monotonic()
    with pytest.raises(SshError, match="right did not answer"):
        bench.connect()
    # Spanning tree would take 30 s.
    assert time.monotonic() - started < 20


def carried_by_ssh(bench: Bench, device: str = "eth0") -> None:
    """Make ssh come in by this device of the left node, which also keeps the peer's address reachable."""
    ip(f"-n {bench.left.namespace} addr add 192.168.1.7/24 dev {device}")
    ip(f"-n {bench.left.namespace} link set {device} up")
    bench.left.environment["SSH_CONNECTION"] = "192.168.1.2 40000 192.168.1.7 22"


def test_a_declared_shared_port_is_kept_where_it_is(bench: Bench) -> None:
    carried_by_ssh(bench)
    bench.declare("left", "same")
    switch = bench.switch = KeepingSwitch(bench.fixed, FixedSwitch(), bench.journal)
    opened = bench.connect()
    assert bench.left.addresses() == ["192.168.1.7/24", str(opened.ends[0].address)]
    assert not link_module.can_bounce(opened)
    # Only the port of the other end may be touched, and no port is moved.
    assert (switch.kept, switch.wired) == ([(frozenset({"p2"}), frozenset({"p1"}))], [])
    with pytest.raises(
        CapabilityError, match=r"mtu may take down the link of left eth0 .* which also carries the conn"
    ):
        tuning_session.apply(opened, Tuning((("mtu", "9000"),)), bench.undo)
    assert bench.undo.close() == []
    assert bench.left.addresses() == ["192.168.1.7/24"]
    assert ",UP" in bench.left.run("ip -o link show eth0").stdout


def test_settings_that_keep_the_link_are_applied_to_a_shared_port(bench: Bench) -> None:
    carried_by_ssh(bench)
    bench.declare("left", "same")
    opened = bench.connect()
    outcomes = tuning_session.apply(opened, Tuning((("timestamps", "off"),)), bench.undo)
    assert {one.outcome for one in outcomes} == {SettingOutcome.APPLIED}
    assert not opened.path.timestamps
    assert bench.undo.close() == []


def test_a_wrong_declaration_is_refused_before_anything_is_changed(bench: Bench) -> None:
    carried_by_ssh(bench)
    bench.declare("left", "separate")
    with pytest.raises(LinkError, match=r"says `management: separate` for left, but ssh comes in by eth0\n"):
        bench.connect()
    assert bench.left.addresses() == ["192.168.1.7/24"]


def test_a_port_of_a_bridge_that_carries_ssh_cannot_be_measured_alone(bench: Bench) -> None:
    ip(f"-n {bench.left.namespace} link add br0 type bridge")
    ip(f"-n {bench.left.namespace} link set eth0 master br0 up")
    ip(f"-n {bench.left.namespace} link set br0 up")
    carried_by_ssh(bench, "br0")
    bench.declare("left", "same")
    with pytest.raises(
        LinkError, match=r"left eth0 .* is a part of br0, so .*\n  -> write `device: br0` and its `driver:` "
    ):
        bench.connect()
    assert bench.undo.close() == []


def test_the_bridge_that_carries_ssh_is_measured_by_its_own_name(bench: Bench) -> None:
    ip(f"-n {bench.left.namespace} link add br0 type bridge")
    ip(f"-n {bench.left.namespace} link set eth0 master br0 up")
    ip(f"-n {bench.left.namespace} link set br0 up")
    carried_by_ssh(bench, "br0")
    bench.declare("left", "same", device="br0", driver="bridge")
    opened = bench.connect()
    assert opened.ends[0].carries_management
    assert not opened.ends[1].carries_management
    assert bench.undo.close() == []
