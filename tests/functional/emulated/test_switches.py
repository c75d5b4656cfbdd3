"""Linux switches with VLAN filtering: two boards in QEMU, each with a bridge, managed over real ssh, and their uplink.

The kernel of the machine that runs the tests may lack VLAN filtering. These boards boot Debian's kernel, which has it.
Six hosts send pings through them: h1 to h4 at the switch ``front``, h5 and h6 at ``back``. A virtual switch is the
patch panel: it joins each NIC of a board with its host, and the two uplink ports with each other.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.restoration import restore_crashed
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch, open_switch
from pytest_pinet.lab.switch.switchport import Capability
from pytest_pinet.virtual.runtime import ssh_command
from tests.support.emulated_gate import NEEDS, card_or_skip, patient
from tests.support.gate_project import BIN, GateLab, Project
from tests.support.labgrid_head import labgrid_head
from tests.support.small_virtual_lab import BOARD_ANSWER_S, Bench, bench_up
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
BOOT_S = 240.0
FRONT = ("swp1", "swp2", "swp3", "swp4", "swp5")
BACK = ("swp2", "swp1", "swp5")
HOSTS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Each cable joins two ports of the patch panel: swp1 to swp4 of front with h1 to h4, its swp5 with swp5 of back, swp1
# and swp2 of back with h5 and h6.
CABLES = (("p1", "p9"), ("p2", "p10"), ("p3", "p11"), ("p4", "p12"), ("p5", "p8"), ("p6", "p13"), ("p7", "p14"))


def _nics(names: Sequence[str], first: int) -> str:
    lines = (f"        {n}: {{nic: virtio, device: {n}, port: panel/p{p}}}\n" for p, n in enumerate(names, first))
    return "".join(lines)


LAB_FILE = f"""\
pinet:
  name: switches
  launcher: virtual
  boards:
    virt: {{clock_mhz: 62, cores: 2, buses: [pcie3x1]}}
  nics:
    virtio: {{driver: virtio_net, bus: pcie3x1, speeds_mbps: [1000]}}
  switches:
    panel: {{backend: linux, address: !template "$LG_SWITCH_PANEL", keyfile: !template "$LG_KEYFILE", ports: p1-p14}}
  nodes:
    front:
      board: virt
      machine: virt
      interfaces:
{_nics(FRONT, 1)}\
    back:
      board: virt
      machine: virt
      interfaces:
{_nics(("swp1", "swp2", "swp5"), 6)}\
""" + "".join(
    f"    {host}: {{board: pi4b, boot_timeout: 8 s, interfaces: {{onboard: {{port: panel/p{port}}}}}}}\n"
    for port, host in enumerate(HOSTS, 9)
)
# The same hosts as a user's lab sees them: on two managed switches with an uplink.
TWO_SWITCHES = (
    labgrid_head("h1", "h5")
    + """\
pinet:
  name: two-switches
  switches:
    front: {backend: linux, address: FRONT_ADDRESS, keyfile: !template "$LG_KEYFILE", ports: swp1-swp5}
    back: {backend: linux, address: BACK_ADDRESS, keyfile: !template "$LG_KEYFILE", ports: [swp2, swp1, swp5]}
  uplinks:
    trunk: {ports: [front/swp5, back/swp5], speed: 1 Gbit/s}
  nodes:
    h1: {board: pi4b, boot_timeout: 8 s, interfaces: {onboard: {port: front/swp1}}}
    h5: {board: pi4b, boot_timeout: 8 s, interfaces: {onboard: {port: back/swp1}}}
"""
)
# One bridge per switch. VLAN 50 is tagged on the uplink: another network of the lab, which no test may cut.
SET_UP = (
    "modprobe -a bridge 8021q && ip link add br0 type bridge vlan_filtering 1 && ip link set br0 up && "
    "for port in {ports}; do ip link set $port master br0 up || exit; done; "
    "bridge vlan add dev swp5 vid 50 && bridge vlan add dev br0 vid 50 self && "
    "ip link add link br0 name other type vlan id 50 && ip addr add 10.50.0.{number}/24 dev other && "
    "ip link set other up"
)


class Switches:
    """The two switches, their hosts, and the lab file of a user who has them."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.file = folder / "two-switches.yaml"
        text = TWO_SWITCHES
        for name in ("front", "back"):
            port = bench.ports()["nodes"][name]["ssh"]
            text = text.replace(f"{name.upper()}_ADDRESS", f'"ssh://root@127.0.0.1:{port}"')
        self.file.write_text(patient(text))

    def open(self, name: str) -> ManagedSwitch:
        return open_switch(load(str(self.file)), name)

    def pings(self, node: str, address: str) -> bool:
        argv = ssh_command(self.bench.lab.file, node, [f"ping -n -q -c 1 -i 0.2 -w 4 {address}"])
        return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0

    def reached(self, host: str, others: Sequence[str]) -> list[str]:
        """Return the other hosts that answer."""
        with ThreadPoolExecutor(len(others)) as pool:
            answers = pool.map(lambda other: self.pings(host, f"10.9.0.{other[1:]}"), others)
            return [other for other, answer in zip(others, answers, strict=True) if answer]

    def uplink_carries_vlan_50(self) -> bool:
        return self.pings("front", "10.50.0.2")


@pytest.fixture(scope="module")
def switches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switches]:
    folder = tmp_path_factory.mktemp("switches")
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("XDG_STATE_HOME", str(folder / "state"))
        with card_or_skip():
            bench = stack.enter_context(bench_up(folder, patient(LAB_FILE)))
        for name, value in bench.environment.items():
            environment.setenv(name, value)
        panel = open_switch(bench.lab, "panel")
        stack.callback(panel.close)
        panel.wire([frozenset(cable) for cable in CABLES], undo := UndoStack())
        stack.callback(undo.close)
        for node in ("front", "back", *HOSTS):
            bench.outlet(node, "1")
        for node in ("front", "back", *HOSTS):
            wait_until(f"ssh of {node}", partial(bench.answers, node, BOARD_ANSWER_S), BOOT_S)
        for number, (name, ports) in enumerate((("front", FRONT), ("back", BACK)), 1):
            bench.ssh(name, SET_UP.format(ports=" ".join(ports), number=number), BOOT_S)
        for host in HOSTS:
            bench.ssh(host, f"ip addr add 10.9.0.{host[1:]}/24 dev eth0")
        found = Switches(bench, folder)
        wait_until("the path over the uplink", lambda: found.reached("h1", ["h6"]))
        yield found


@pytest.fixture(autouse=True)
def whole(switches: Switches) -> Iterator[None]:
    """Check that each test leaves the whole network as it was."""
    yield
    assert switches.reached("h1", HOSTS[1:]) == [*HOSTS[1:]]
    assert switches.bench.ssh("front", "ls -d /sys/class/net/*/bridge").split() == ["/sys/class/net/br0/bridge"]
    for name in ("front", "back"):
        assert re.search(r"\b39\d\d\b", switches.bench.ssh(name, "bridge vlan show")) is None


def test_pings_pass_inside_a_vlan_and_not_across(switches: Switches) -> None:
    undo = UndoStack()
    front = switches.open("front")
    try:
        assert {Capability.VLAN, Capability.ADMIN, Capability.COUNTERS, Capability.FDB} <= front.capabilities
        assert {state.vlan for state in front.states(FRONT).values()} == {1}
        front.wire([frozenset({"swp1", "swp2"}), frozenset({"swp3", "swp4"})], undo)
        assert [front.state(port).vlan for port in FRONT] == [3900, 3900, 3902, 3902, 1]
        assert switches.reached("h1", HOSTS[1:]) == ["h2"]
        assert switches.reached("h4", HOSTS[:3]) == ["h3"]
        before = front.counters(["swp1"])["swp1"].rx_octets
        assert switches.reached("h1", ["h2"]) == ["h2"]
        assert front.counters(["swp1"])["swp1"].rx_octets - before >= 98
        mac = switches.bench.ssh("h1", "cat /sys/class/net/eth0/address").strip()
        assert mac in {one.mac for one in front.neighbours(["swp1"])["swp1"]}
        front.set_admin("swp2", False, undo)
        assert switches.reached("h1", ["h2"]) == []
        assert undo.close() == []
        assert {state.vlan for state in front.states(FRONT).values()} == {1}
    finally:
        front.close()


def test_a_path_over_two_switches_is_alone_on_the_uplink(switches: Switches) -> None:
    undo = UndoStack()
    front, back = switches.open("front"), switches.open("back")
    try:
        front.wire([frozenset({"swp1", "swp5"}), frozenset({"swp2", "swp3"})], undo)
        back.wire([frozenset({"swp1", "swp5"})], undo)
        # The numbers differ: frames have no tag on the uplink.
        assert (front.state("swp5").vlan, back.state("swp5").vlan) == (3900, 3901)
        assert switches.reached("h1", HOSTS[1:]) == ["h5"]
        assert switches.reached("h2", ("h1", "h3", "h4", "h5", "h6")) == ["h3"]
        assert switches.reached("h6", HOSTS[:5]) == []
        assert switches.uplink_carries_vlan_50()
        assert undo.close() == []
        assert switches.uplink_carries_vlan_50()
    finally:
        front.close()
        back.close()


def test_ports_of_a_run_that_died_are_restored(switches: Switches) -> None:
    lab_file = str(switches.file)
    script = (
        "import os, sys; from pytest_pinet.config.labfile import load; from pytest_pinet.execution.undo import "
        "UndoStack; from pytest_pinet.lab.switch.managed_switch import open_switch; "
        "open_switch(load(sys.argv[1]), 'front').wire([frozenset({'swp1', 'swp2'})], UndoStack()); "
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([str(BIN / "python"), "-c", script, lab_file], timeout=120, check=False)
    assert done.returncode == -9
    assert switches.reached("h1", HOSTS[1:]) == ["h2"]
    assert restore_crashed(lab_file, switches.open) == [
        "restored port swp1 of switch front: VLAN 1 and up",
        "restored port swp2 of switch front: VLAN 1 and up",
    ]


TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_path(link, gate):
    seen = {name: {p: s.vlan for p, s in switch.states(switch.ports).items()} for name, switch in link.switches.items()}
    assert seen == {
        "front": {"swp1": 3900, "swp2": 1, "swp3": 1, "swp4": 1, "swp5": 3900},
        "back": {"swp2": 1, "swp1": 3901, "swp5": 3901},
    }
    gate.ping(link, count=5)
"""


def test_a_gate_measures_over_two_switches(switches: Switches, tmp_path: Path) -> None:
    environment = switches.bench.environment
    client = [str(BIN / "labgrid-client"), "-x", environment["LG_COORDINATOR"], "-p", "trunk"]
    subprocess.run([*client, "create"], check=True, timeout=30, capture_output=True)
    try:
        project = Project(tmp_path, GateLab(Path(switches.bench.lab.file)))
        project.write("test_path.py", TEST)
        run = project.pytest(lab_file=switches.file, **environment)  # type: ignore[arg-type]  # none is a time
        run.assert_outcomes(passed=1)
        (result,) = project.results["results"]
        assert result["verdict"] == "pass"
    finally:
        subprocess.run([*client, "delete"], check=True, timeout=30, capture_output=True)
        # The run switched these nodes off.
        for host in ("h1", "h5"):
            switches.bench.outlet(host, "1")
            wait_until(f"ssh of {host}", lambda host=host: switches.bench.answers(host))  # type: ignore[misc]
            switches.bench.ssh(host, f"ip addr replace 10.9.0.{host[1:]}/24 dev eth0")
