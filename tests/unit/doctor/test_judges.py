"""What the checks of the doctor say of the facts of a lab."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_pinet.config.calibration import Calibration, MeasuredNoise, write_calibration
from pytest_pinet.config.labfile import load
from pytest_pinet.doctor import disturbances, links, node_checks
from pytest_pinet.doctor.bench import Bench, Finding, Status
from pytest_pinet.doctor.disturbances import judge_tolerances
from pytest_pinet.doctor.links import check_management, judge_management
from pytest_pinet.doctor.node_checks import check_power_on, check_root
from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.execution.shell import Shell
from pytest_pinet.lab.node.management import FoundManagement, parse
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.lab.switch.switchport import PortState
from pytest_pinet.model.forms import Management
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.model.quantities import Share
from pytest_pinet.traffic.iperf3_command import Version
from tests.support import doctor_lab
from tests.support.board_answers import CLOCK
from tests.support.doctor_lab import LAB_FILE, lab
from tests.support.local_shell import LocalShell

# A Pi 4 B with the UGREEN adapter.
PI4 = FoundBoard(
    "Raspberry Pi 4 Model B Rev 1.4",
    {
        "eth0": FoundNic("eth0", driver="bcmgenet", bus="platform", is_own=True),
        "eth1": FoundNic("eth1", driver="ax88179_178a", bus="usb", usb_mbps=5000),
    },
)
CM4 = FoundBoard(
    "Raspberry Pi Compute Module 4 Rev 1.0",
    {
        "eth0": FoundNic("eth0", driver="bcmgenet", bus="platform", is_own=True),
        "eth1": FoundNic("eth1", driver="atlantic", bus="pci", pcie_gts=5.0, pcie_lanes=1),
    },
)
BOARDS = {"one": PI4, "two": CM4}


@pytest.fixture
def bench(tmp_path: Path) -> Lab:
    return lab(tmp_path)


def with_nic(board: FoundBoard, device: str, **values: Any) -> FoundBoard:
    return replace(board, nics={**board.nics, device: replace(board.nics[device], **values)})


@pytest.mark.parametrize("node", BOARDS)
def test_a_board_that_matches_the_lab_file_is_ok(bench: Lab, node: str) -> None:
    (found,) = links.judge_board(bench.nodes[node], BOARDS[node])
    assert found.status is Status.OK


@pytest.mark.parametrize(
    ("node", "board", "message"),
    [
        (
            "one",
            replace(PI4, model="Raspberry Pi 3 Model B Plus Rev 1.3"),
            "the board is a 'Raspberry Pi 3 Model B Plus Rev 1.3'",
        ),
        ("one", with_nic(PI4, "eth1", driver="cdc_ncm"), "eth1 has driver cdc_ncm, but ax88179 needs ax88179_178a"),
        ("one", with_nic(PI4, "eth1", usb_mbps=480), "eth1 runs at USB 480 Mbit/s instead of 5000"),
        ("two", with_nic(CM4, "eth1", pcie_gts=2.5), "eth1 runs at PCIe 2.5 GT/s x1 instead of 5 GT/s x1"),
        ("two", with_nic(CM4, "eth1", bus="usb"), "eth1 is on bus usb, but the lab file has aqc107 on pcie2x1"),
        ("two", replace(CM4, nics={"eth0": CM4.nics["eth0"]}), "there is no network device eth1"),
    ],
)
def test_a_difference_from_the_lab_file_is_wrong(bench: Lab, node: str, board: FoundBoard, message: str) -> None:
    (found,) = links.judge_board(bench.nodes[node], board)
    assert found.status is Status.WRONG
    assert found.message.startswith(message)
    assert found.act


def test_bus_speeds_of_a_board_that_counts_instructions_are_not_compared(bench: Lab) -> None:
    slow = with_nic(PI4, "eth1", usb_mbps=12)
    assert [one.status for one in links.judge_board(bench.nodes["one"], slow)] == [Status.WRONG]
    (one,) = links.judge_board(replace(bench.nodes["one"], clock="virtual"), slow)
    assert one.status is Status.OK


def test_a_new_board_without_a_model_is_unknown(bench: Lab) -> None:
    node = bench.nodes["one"]
    (found,) = links.judge_board(replace(node, board=replace(node.board, name="mine", model=None)), PI4)
    assert found.status is Status.UNKNOWN
    assert found.message == (
        "it is a 'Raspberry Pi 4 Model B Rev 1.4'; board mine of the lab file has no `model:` to compare with"
    )


@pytest.mark.parametrize(
    ("board", "model", "usb_mbps", "blue"), [("pi4b", "4 Model B", 480, True), ("pi3b", "3 Model B", 12, False)]
)
def test_an_advice_names_only_ports_that_the_board_has(
    board: str, model: str, usb_mbps: float, blue: bool, tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB_FILE.replace("pi4b", board))
    nics = {
        "eth0": FoundNic(
            "eth0", driver="bcmgenet" if blue else "smsc95xx", bus="platform" if blue else "usb", is_own=True
        ),
        "eth1": FoundNic("eth1", driver="ax88179_178a", bus="usb", usb_mbps=usb_mbps),
    }
    found = links.judge_board(load(file).nodes["one"], FoundBoard(f"Raspberry Pi {model} Rev 1.2", nics))
    (act,) = [one.act for one in found if one.message.startswith(f"eth1 runs at USB {usb_mbps} Mbit/s")]
    assert ("USB 3" in act) is blue
    assert "another port" in act


def test_a_board_without_device_tree_and_bus_is_unknown(bench: Lab) -> None:
    node = bench.nodes["one"]
    interfaces = tuple(replace(interface, drivers=("veth",)) for interface in node.interfaces)
    board = FoundBoard(None, {device: FoundNic(device, driver="veth") for device in ("eth0", "eth1")})
    found = links.judge_board(replace(node, interfaces=interfaces), board)
    assert {finding.status for finding in found} == {Status.UNKNOWN}
    assert [finding.message for finding in found] == [
        "the board has no device tree, so its model is unknown",
        "no bus is known for devices of driver veth",
    ]


UP = InterfaceState(True, True, 1000, "full", 1500, "02:00:00:00:00:01", 1, True, 0, 0)


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"carrier": False}, Status.WRONG, "eth0 has no link after 12 s"),
        ({"speed_mbps": 100}, Status.WRONG, "eth0 negotiated 100 Mbit/s instead of 1000 Mbit/s"),
        ({"duplex": "half"}, Status.WRONG, "eth0 runs in half duplex"),
        (
            {"speed_mbps": None, "duplex": None},
            Status.UNKNOWN,
            "the driver of eth0 does not report its speed and duplex",
        ),
    ],
)
def test_a_link_is_compared_with_the_lab_file(
    bench: Lab, changes: dict[str, object], status: Status, message: str
) -> None:
    interface = bench.nodes["one"].interfaces[0]
    assert links.judge(interface, UP) == []
    (found,) = links.judge(interface, replace(UP, **changes))  # type: ignore[arg-type]
    assert (found.status, found.message) == (status, message)


@pytest.mark.parametrize(
    ("port", "status", "message"),
    [
        (PortState(False), Status.WRONG, "port p1 of switch s is administratively down"),
        (
            PortState(True, False),
            Status.WRONG,
            "port p1 of switch s has no link, but eth0 has one: its cable is in another port",
        ),
        (
            PortState(True, True, 100, "half"),
            Status.WRONG,
            "port p1 of switch s: 100 Mbit/s at the switch, 1000 Mbit/s at eth0; half at the switch, full at eth0",
        ),
    ],
)
def test_a_switch_port_is_compared_with_its_nic(bench: Lab, port: PortState, status: Status, message: str) -> None:
    interface = bench.nodes["one"].interfaces[0]
    assert links.compare({"p1": PortState(True, True, 1000)}, [interface], {interface: UP}) == []
    (found,) = links.compare({"p1": port}, [interface], {interface: UP})
    assert (found.status, found.message) == (status, message)
    (dark,) = links.compare({"p1": PortState(True, False)}, [interface], {interface: replace(UP, carrier=False)})
    assert dark.status is Status.NOT_CHECKED


def test_iperf3_versions_must_be_supported_and_comparable() -> None:
    assert {f.status for f in node_checks.judge_iperf3({"a": Version(3, 12), "b": Version(3, 13)})} == {Status.OK}
    *others, threads = node_checks.judge_iperf3({"a": Version(3, 12), "b": Version(3, 12), "c": Version(3, 18)})
    assert {f.status for f in others} == {Status.OK}
    assert threads.status is Status.WRONG
    assert threads.message == (
        "iperf3 3.18 runs its streams in threads, unlike 3.12 on the other nodes, so their results cannot be compared"
    )
    # A board with Debian 13 and a machine with Debian 12: neither has the version of the other.
    pair = node_checks.judge_iperf3({"board": Version(3, 18), "pc": Version(3, 12)})
    assert [(one.status, one.shown) for one in pair] == [(Status.OK, False), (Status.OK, True)]
    assert pair[1].message == (
        "iperf3 3.12 runs its streams in one thread, unlike 3.18 on the other node: "
        "compare results only with results of these two versions"
    )
    (old,) = node_checks.judge_iperf3({"a": Version(3, 9)})
    assert (old.status, old.act) == (Status.WRONG, "on that node: install iperf3 3.12 or newer")
    assert old.message == "iperf3 3.9 is older than 3.12, which Debian 12 has: Debian 11 (iperf3 3.9) is too old"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0x0", "0x50005", "under-voltage, throttled now (0x50005)"),
        ("throttled=throttled=0x0", "throttled=50000", "under-voltage, throttled since its last boot (0x50000)"),
        ("ondemand", "powersave", "governor powersave keeps the processor at its lowest clock (600 MHz)"),
        ("scaling_max_freq=1800000", "scaling_max_freq=600000", "the processor's clock is capped at 600 of 1800 MHz"),
        ("max_freq=1800000", "max_freq=1200000", "the highest processor clock is 1200 MHz, the lab file has 1500 MHz"),
        ("ondemand", "performance", "governor performance, but the processor runs at 600 of 1800 MHz"),
        ("time=1000.2", "time=1090.2", "its clock is 90 s ahead of the clock of this machine"),
        ("time=1000.2", "time=400.2", "its clock is 600 s behind the clock of this machine"),
    ],
)
def test_a_slow_processor_or_a_wrong_clock_is_reported(bench: Lab, old: str, new: str, message: str) -> None:
    node = bench.nodes["one"]
    assert disturbances.judge_clock(node, disturbances.parse_clock(CLOCK, 1000.1, 1000.3)) == []
    (found,) = disturbances.judge_clock(node, disturbances.parse_clock(CLOCK.replace(old, new), 1000.1, 1000.3))
    assert (found.status, found.message) == (Status.WRONG, message)
    assert found.act


def test_a_node_without_flags_and_cpufreq_is_unknown(bench: Lab) -> None:
    (found,) = disturbances.judge_clock(
        bench.nodes["one"], disturbances.parse_clock("throttled=\ntime=1000.2\n", 1000.1, 1000.3)
    )
    assert (found.status, found.message) == (Status.UNKNOWN, "no throttling flags (no vcgencmd), no cpufreq")


def test_powersave_is_accepted_if_the_hardware_controls_the_clock(bench: Lab) -> None:
    text = CLOCK.replace("cpufreq-dt", "intel_pstate").replace("ondemand", "powersave").replace("tree=1\n", "")
    assert disturbances.judge_clock(bench.nodes["one"], disturbances.parse_clock(text, 1000.1, 1000.3)) == []


QUIET = """\
cpu  100 0 50 1000 10 0 5 0 0 0
70.00
eth0 1000 500
eth1 0 0

cpu  101 0 51 1390 12 0 5 0 0 0
71.00
eth0 1800 600
eth1 0 0
"""


def test_traffic_and_a_busy_processor_without_a_measurement_are_reported(bench: Lab) -> None:
    node = bench.nodes["one"]
    found = disturbances.parse_noise(QUIET)
    assert found is not None
    assert found.busy == pytest.approx(2 / 394)
    assert found.octets == {"eth0": (800.0, 100.0), "eth1": (0.0, 0.0)}
    assert disturbances.judge_noise(node, found) == []
    loud = disturbances.parse_noise(QUIET.replace("eth0 1800 600", "eth0 1801000 600").replace("cpu  101", "cpu  201"))
    assert [f.message for f in disturbances.judge_noise(node, loud)] == [
        "its processor is 21% busy while nothing is measured",
        "eth0 receives 14.4 Mbit/s and sends 800 bit/s while nothing is measured",
    ]
    assert [f.message.split()[0] for f in disturbances.judge_noise(node, loud, paced=False)] == ["eth0"]
    assert disturbances.judge_noise(node, disturbances.parse_noise("nothing"))[0].status is Status.UNKNOWN
    # 0.1 % of a gigabit are 125 kB/s. For a link at a tenth this is much more than 0.1 %.
    some = disturbances.parse_noise(QUIET.replace("eth0 1800 600", "eth0 51000 600"))
    assert disturbances.judge_noise(node, some) == []
    assert "eth0 receives" in disturbances.judge_noise(node, some, scale=0.1)[0].message


SAME = FoundManagement("eth0", frozenset({"eth0"}))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return lab(tmp_path).nodes["one"]


def declared(node: Node, text: str) -> Node:
    return replace(node, management=Management.parse(text))


def test_a_way_of_its_own_costs_nothing(node: Node) -> None:
    assert judge_management(node, FoundManagement(), True) == [Finding(Status.OK, "one", "separate")]


def test_each_declared_way_is_named_with_its_cost(node: Node) -> None:
    (finding,) = judge_management(declared(node, "same"), SAME, True)
    assert (finding.status, finding.message.partition(",")[0]) == (Status.OK, "same: the port stays in its VLAN")
    (finding,) = judge_management(node, FoundManagement("wlan0", frozenset({"wlan0"}), wifi=True), True)
    assert finding.message == "wifi: Wi-Fi driver and firmware run beside the traffic, and the connection may roam"


def test_a_shared_interface_must_be_declared_if_its_port_would_be_moved(node: Node) -> None:
    (finding,) = judge_management(node, SAME, True)
    assert finding.status is Status.WRONG
    assert finding.message == "ssh comes in by eth0, which is under test, and the lab file does not say so"
    assert finding.act.startswith(f"write `management: same` at {node.where}: the port stays in its VLAN")
    (finding,) = judge_management(node, SAME, False)
    assert finding.status is Status.OK


def test_ssh_may_come_in_by_a_nic_that_is_not_that_of_the_lab_file(tmp_path: Path) -> None:
    # openwrt #17820: eth0 is there, but bound by another driver. So the other checks leave it out.
    bench = lab(tmp_path)
    whole = declared(bench.nodes["one"], "same")
    node = replace(whole, interfaces=())
    assert node.carrying is None
    here = SimpleNamespace(
        lab=replace(bench, nodes={"one": whole}),
        session=lambda _: SimpleNamespace(facts={"management": SAME}),
        shell=lambda _: None,
        one_by_one=lambda look: look(node),
    )
    (finding,) = check_management(cast(Bench, here))
    assert (finding.status, finding.message.partition(",")[0]) == (Status.OK, "same: the port stays in its VLAN")


def test_a_wrong_declaration_is_a_fault(node: Node) -> None:
    (finding,) = judge_management(declared(node, "wifi"), SAME, True)
    assert finding.status is Status.WRONG
    assert finding.message == "the lab file says `management: wifi` for one, but ssh comes in by eth0"


def test_a_second_usb_nic_of_the_same_bus_competes_with_the_traffic(node: Node) -> None:
    # A Pi 3 B+: its Ethernet and all its USB ports share one bus.
    text = (
        "server 10.0.0.7\naddress eth9 10.0.0.7/24\n"
        "usb /sys/devices/platform/soc/3f980000.usb/usb1/1-1/1-1.1/1-1.1.1/1-1.1.1:1.0 eth0\n"
        "usb /sys/devices/platform/soc/3f980000.usb/usb1/1-1/1-1.2/1-1.2:1.0 eth9\n"
    )
    (finding,) = judge_management(node, parse(text), True)
    assert (finding.status, finding.message) == (
        Status.WRONG,
        "ssh comes in by eth9, which shares the USB bus of eth0: the traffic of both competes",
    )
    # A Pi 4: its USB 2 and USB 3 ports have buses of their own.
    (finding,) = judge_management(node, parse(text.replace("usb1/1-1/1-1.2/1-1.2:1.0", "usb2/2-1/2-1:1.0")), True)
    assert finding.status is Status.OK


PAIRS = ("pi4b:onboard", "pi4b:ax88179", "cm4:onboard", "cm4:aqc107")


def calibration(pair: str, noise: float, tolerance: float = 0.03) -> Calibration:
    share = Share(noise)
    measured = MeasuredNoise(share, Share(0.0), Share(0.0), runs=20)
    return Calibration(f"{pair}/pair/tcp-P1-tx", measured, Share(tolerance), 1, share, date(2026, 11, 21), {})


def found(folder: Path, *calibrations: Calibration, limits: str = "", baselines: str = "") -> list[Finding]:
    file = folder / "lab.yaml"
    if baselines:
        (folder / "baselines").mkdir()
        (folder / "baselines" / "all.yaml").write_text(baselines)
    file.write_text(doctor_lab.LAB_FILE + limits)
    lab = load(file)
    if calibrations:
        write_calibration(lab.calibration, calibrations)
    return judge_tolerances(lab)


def test_a_lab_without_a_calibration_is_unknown(tmp_path: Path) -> None:
    (finding,) = found(tmp_path)
    assert finding.status is Status.UNKNOWN
    assert finding.message == "no pair is calibrated yet"
    assert finding.act == f"measure the noise: pinet calibrate --lab {tmp_path / 'lab.yaml'}"


def test_pairs_without_a_calibration_are_named_with_the_command(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, *(calibration(pair, 0.001) for pair in PAIRS[1:]))
    assert finding.status is Status.UNKNOWN
    assert finding.message == "not calibrated: pi4b:onboard/pair"
    assert finding.act.endswith(" pi4b:onboard/pair")


def test_tolerances_above_the_noise_are_ok(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, *(calibration(pair, 0.001) for pair in PAIRS))
    assert (finding.status, finding.message) == (Status.OK, "4 pairs are calibrated")


def test_a_tolerance_of_the_lab_file_below_the_noise_is_wrong(tmp_path: Path) -> None:
    limits = "  limits:\n    - {board: cm4, nic: aqc107, tolerance: 1%}\n"
    (finding,) = found(tmp_path, *(calibration(pair, 0.04) for pair in PAIRS), limits=limits)
    assert finding.status is Status.WRONG
    assert finding.message.startswith(f"the tolerance of cm4:aqc107/pair/tcp-P1-tx is 1.0 % ({tmp_path / 'lab.yaml'}:")
    assert "but noise alone can lower goodput by" in finding.message
    assert finding.act.endswith(f"pinet calibrate --lab {tmp_path / 'lab.yaml'} cm4:aqc107/pair")


def test_a_tolerance_of_the_calibration_file_below_the_noise_is_wrong(tmp_path: Path) -> None:
    low = calibration("pi4b:onboard", 0.04, tolerance=0.005)
    (finding,) = found(tmp_path, low, *(calibration(pair, 0.001) for pair in PAIRS[1:]))
    assert finding.status is Status.WRONG
    assert "lab.calibration.yaml:" in finding.message


BOTH_PARTS = "  limits:\n    - {board: cm4, nic: aqc107, tolerance: 1% and 40 Mbit/s}\n"


def accepted(mbps: int) -> str:
    return (
        "baselines:\n"
        f"  - {{id: cm4:aqc107/pair/tcp-P1-tx, value: {mbps} Mbit/s, runs: [{mbps} Mbit/s], build: {{kernel: x}}, "
        "date: 2026-11-21, reason: first, sessions: [{day: 2026-11-20}]}\n"
    )


def test_an_absolute_tolerance_is_compared_as_a_share_of_the_baseline(tmp_path: Path) -> None:
    # 40 Mbit/s are 42.6 % of 94 Mbit/s, and 1.7 % of 2353.
    noisy = [calibration(pair, 0.04) if "aqc107" in pair else calibration(pair, 0.001) for pair in PAIRS]
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    for folder in (slow, fast):
        folder.mkdir()
    (well,) = found(slow, *noisy, limits=BOTH_PARTS, baselines=accepted(94))
    assert well.status is Status.OK
    (finding,) = found(fast, *noisy, limits=BOTH_PARTS, baselines=accepted(2353))
    assert finding.message.startswith("the tolerance of cm4:aqc107/pair/tcp-P1-tx is 1.7 % (")


def test_an_absolute_tolerance_without_a_baseline_is_not_judged(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, *(calibration(pair, 0.04, tolerance=0.5) for pair in PAIRS), limits=BOTH_PARTS)
    assert finding.status is Status.OK


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "PATH=/usr/bin:/bin", "/bin/sh", "-c"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")


def bench_of(shell: Shell) -> Bench:
    """Return the parts of a bench that these checks use, with one node."""
    node = SimpleNamespace(name="pi1")

    def in_parallel(look: object) -> object:
        return look(node)  # type: ignore[operator]

    return cast(Bench, SimpleNamespace(ready=[node], shell=lambda _: shell, in_parallel=in_parallel))


def shell_with(folder: Path, name: str, script: str) -> Shell:
    """Return a shell whose PATH begins with one more command."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return LocalShell("pi1", {"PATH": f"{folder}:/usr/bin:/bin"})


@needs_root
def test_root_needs_no_sudo() -> None:
    assert check_root(bench_of(LocalShell("pi1"))) == []


@needs_root
def test_a_user_without_sudo_is_a_fault() -> None:
    (finding,) = check_root(bench_of(SshShell("pi1", NOBODY)))
    assert finding.status is Status.WRONG
    assert finding.message.startswith("the ssh user of pi1 cannot become root: ")
    assert re.search("sudo: (not found|a password is required)", finding.message)
    assert finding.act.startswith("on pi1: sudo raspi-config nonint do_sudo_pass 1 (Raspberry Pi OS), or: ")


@pytest.mark.parametrize(
    ("line", "waits"),
    [("WAIT_FOR_POWER_BUTTON=1", True), ("WAIT_FOR_POWER_BUTTON=0", False), ("#WAIT_FOR_POWER_BUTTON=1", False)],
)
def test_a_board_that_waits_for_its_button_is_a_fault(tmp_path: Path, line: str, waits: bool) -> None:
    shell = shell_with(tmp_path, "rpi-eeprom-config", f"printf '[all]\nBOOT_UART=1\n{line}\n'")
    found = check_power_on(bench_of(shell))
    assert [finding.message for finding in found] == [
        "pi1 waits for its power button when its power returns (WAIT_FOR_POWER_BUTTON=1)"
    ] * waits


def test_a_board_without_a_boot_loader_to_ask_is_no_fault() -> None:
    assert check_power_on(bench_of(LocalShell("pi1"))) == []
