"""The result of reading a correct lab file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.config.yaml_lines import substitute
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.oracle import highest_limit
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.model.forms import Template
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Lab, PortRef
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.quantities import Bitrate, CpuCost, Duration, Share, Tolerance
from pytest_pinet.model.traffic import Direction
from tests.support.link_stand_in import key

ROOT = Path(__file__).parents[3]
VIRTUAL = ROOT / "lab" / "virtual.yaml"
BENCH = ROOT / "lab" / "example-bench.yaml"

SMALL = """\
pinet:
  switches:
    sw: {backend: fixed, ports: [1, 2, uplink]}
  nodes:
    a:
      board: pi4b
      interfaces:
        onboard: {port: sw/1}
        fast: {nic: ugreen-ax88179, port: sw/2, speed: 100M}
        other: {nic: rtl8153, port: sw/uplink}
"""


def lab_of(tmp_path: Path, text: str) -> LabOfFile:
    path = tmp_path / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


@pytest.fixture(scope="module")
def virtual() -> Lab:
    return load(VIRTUAL)


def test_the_virtual_lab_has_its_six_nodes(virtual: Lab) -> None:
    assert virtual.name == "virtual"
    assert virtual.launcher == "virtual"
    assert list(virtual.nodes) == ["pi3b-1", "pi3b-2", "pi4b-1", "pi4b-2", "cm4-1", "pi5-1"]
    assert [f"{i}={i.label} {i.device} {i.bus} {i.speed_mbps} {i.port}" for i in virtual.interfaces()] == [
        "pi3b-1:onboard=onboard eth0 usb2 100 sw1/p1",
        "pi3b-1:usb=ax88179 eth1 usb2 1000 sw1/p2",
        "pi3b-2:onboard=onboard eth0 usb2 100 sw1/p3",
        "pi4b-1:onboard=onboard eth0 soc 1000 sw1/p4",
        "pi4b-1:usb=ax88179 eth1 usb3 1000 sw1/p5",
        "pi4b-2:onboard=onboard eth0 soc 1000 sw1/p6",
        "pi4b-2:usb=rtl8153 eth1 usb3 1000 sw1/p7",
        "cm4-1:onboard=onboard eth0 soc 1000 sw1/p8",
        "cm4-1:pcie=aqc107 eth1 pcie2x1 10000 sw1/p9",
        "pi5-1:onboard=onboard eth0 soc 1000 sw1/p10",
        "pi5-1:pcie=rtl8125 eth1 pcie2x1 2500 sw1/p11",
    ]
    assert virtual.switches["sw1"].ports == tuple(f"p{n}" for n in range(1, 17))
    assert virtual.domains == {"host": tuple(virtual.nodes)}


def test_every_interface_of_the_virtual_lab_has_a_limit_for_each_direction(virtual: Lab) -> None:
    for interface in virtual.interfaces():
        bound = highest_limit(interface.speed_mbps, interface.nic.mtu_max, interface.bus).goodput
        board = virtual.nodes[interface.node].board.name
        for direction in (Direction.TX, Direction.RX):
            limit = most_specific(virtual.limits, key(board, interface.label, direction))
            assert limit is not None
            found = limit.threshold(bound)
            assert found is not None
            assert 0 < found.number < bound.bps


# Healthy published goodput (at most the physical limit with TCP timestamps), and how far below it the limit is.
@pytest.mark.parametrize(
    ("board", "nic", "direction", "healthy_mbps"),
    [
        ("pi3b", "ax88179", "tx", 321),
        ("pi4b", "ax88179", "tx", 736),
        ("pi4b", "ax88179", "rx", 941),
        ("pi4b", "rtl8153", "tx", 941),
        ("pi4b", "rtl8153", "rx", 933),
        ("cm4", "aqc107", "tx", 2353),
        ("pi5", "rtl8125", "rx", 2353),
    ],
)
def test_a_drop_of_a_tenth_breaks_every_limit(
    virtual: Lab, board: str, nic: str, direction: str, healthy_mbps: float
) -> None:
    limit = most_specific(virtual.limits, key(board, nic, Direction(direction)))
    assert limit is not None
    assert isinstance(limit.minimum, Bitrate)
    assert 0.93 < limit.minimum.bps / 1e6 / healthy_mbps < 0.96


def test_loading_takes_milliseconds(virtual: Lab) -> None:
    durations = []
    for _ in range(5):
        # Processor time, so that other programs do not count.
        start = time.process_time()
        load(VIRTUAL)
        durations.append(time.process_time() - start)
    assert min(durations) < 0.06


def test_the_example_bench_loads() -> None:
    bench = load(BENCH)
    assert bench.launcher is None
    assert bench.nodes["pi4b-a"].board.clock_mhz == 1800
    assert bench.nodes["pi4b-a"].boot_timeout_s == 90
    assert bench.nodes["pi4b-b"].interface("usb").nic.chip == "RTL8153"
    assert bench.nodes["pi5-a"].interface("pcie").speed_mbps == 1000
    assert bench.switches["poe"].ports == tuple("12345678")
    assert bench.domains == {"uplink": ("pi4b-a", "pi4b-b")}


@pytest.mark.parametrize("path", [VIRTUAL, BENCH], ids=lambda path: path.name)
def test_labgrid_takes_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labgrid = pytest.importorskip("labgrid")
    for name in ("COORDINATOR", "KEYFILE", "CONSOLE_PASSWORD", "SWITCH_SW1"):
        monkeypatch.setenv(f"LG_{name}", f"value-of-{name}")
    environment = labgrid.Environment(str(path))  # imports our drivers too
    assert set(environment.config.get_targets()) >= set(load(path).nodes)
    for role in environment.config.get_targets().values():
        assert list(role["drivers"]) == [
            "NetworkPowerDriver",
            "PiSerialDriver",
            "PiShellDriver",
            "PiSSHDriver",
            "PiStrategy",
        ]


def test_a_board_with_one_core_may_boot_for_longer(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SMALL.replace("board: pi4b", "board: pib"))
    assert lab.nodes["a"].board.cores == 1
    assert lab.nodes["a"].boot_timeout_s == 300


def test_only_an_emulated_board_has_a_user(tmp_path: Path) -> None:
    text = SMALL.replace("pinet:\n", "pinet:\n  launcher: virtual\n").replace("pi4b\n", "pi4b\n      user: pi\n")
    with pytest.raises(ConfigError, match="node 'a' has the key 'user', which needs an emulated board; add machine"):
        lab_of(tmp_path, text)
    assert lab_of(tmp_path, text.replace("user: pi", "user: pi\n      machine: virt")).nodes["a"].user == "pi"


def test_defaults(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SMALL)
    node = lab.nodes["a"]
    assert (lab.name, lab.launcher, lab.limits, lab.domains) == ("small", None, (), {})
    assert (node.place, node.target, node.boot_timeout_s) == ("a", "a", 180.0)
    assert [i.device for i in node.interfaces] == ["eth0", "eth1", "eth2"]
    assert [i.label for i in node.interfaces] == ["onboard", "ax88179", "rtl8153"]
    assert [i.port for i in node.interfaces] == [PortRef("sw", "1"), PortRef("sw", "2"), PortRef("sw", "uplink")]
    assert [i.speed_mbps for i in node.interfaces] == [1000, 100, 1000]


def test_places_are_remembered(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SMALL)
    file = str(tmp_path / "small.yaml")
    assert lab.file == file
    assert str(lab.switches["sw"].where) == f"{file}:3"
    assert str(lab.nodes["a"].where) == f"{file}:5"
    assert str(lab.nodes["a"].interface("fast").where) == f"{file}:9"


def test_the_source_of_a_limit_is_its_file_and_line(tmp_path: Path) -> None:
    limits = "  limits:\n    - {min: 90%}\n    - {nic: ugreen-ax88179, min: 50 Mbit/s, direction: tx}\n"
    general, special = lab_of(tmp_path, SMALL + limits).limits
    assert general.minimum == Share(0.9)
    assert (special.scope.nic, special.scope.direction) == ("ax88179", Direction.TX)
    assert special.source == f"{tmp_path / 'small.yaml'}:13"


def test_a_board_without_its_own_nic_counts_devices_from_eth0(tmp_path: Path) -> None:
    text = SMALL.replace("pi4b", "zero2w").replace("        onboard: {port: sw/1}\n", "")
    node = lab_of(tmp_path, text).nodes["a"]
    assert [(i.device, i.bus) for i in node.interfaces] == [("eth0", Bus.USB2), ("eth1", Bus.USB2)]


def test_a_nic_can_be_named_by_its_address_its_place_and_its_driver(tmp_path: Path) -> None:
    head = SMALL.partition("        onboard: {port: sw/1}\n")[0]
    text = head + (
        "        onboard: {port: sw/1, device: end0}\n"
        "        one: {nic: ax88179, port: sw/2, mac: 'A0-CE-C8-01-02-03', driver: cdc_ncm}\n"
        "        two: {nic: ax88179, port: sw/3, bus_info: '0000:01:00.0', driver: [r8152, r8153]}\n"
        "        three: {nic: ax88179, port: sw/4, device: eth1}\n"
        "        four: {nic: ax88179, port: sw/5}\n"
        "        five: {nic: rtl8153, port: sw/6, driver: [r8152, cdc_ncm], bus: usb}\n"
    )
    text = text.replace("ports: [1, 2, uplink]", "ports: 1-6")
    own, one, two, three, four, five = lab_of(tmp_path, text).nodes["a"].interfaces
    assert (own.is_onboard, own.is_named, own.found_by) == (True, True, "end0")
    assert (one.mac, one.bus_info, one.drivers, one.found_by) == (
        "a0:ce:c8:01:02:03", None, ("cdc_ncm",), "a0:ce:c8:01:02:03",
    )  # fmt: skip
    assert (two.mac, two.bus_info, two.drivers, two.found_by) == (
        None, "0000:01:00.0", ("r8152", "r8153"), "0000:01:00.0",
    )  # fmt: skip
    assert (five.drivers, five.found_on, five.found_by) == (("r8152", "cdc_ncm"), "usb", "r8152 or cdc_ncm on usb")
    # The guess for a NIC that is found by its address is not the name of another NIC.
    assert [i.device for i in (one, two, three, four, five)] == ["eth0", "eth2", "eth1", "eth3", "eth4"]


@pytest.mark.parametrize(("key", "model"), [("title: New", None), ("model: New 1", "New 1")])
def test_the_model_of_a_board_is_known_from_the_catalogue_or_from_the_file(
    tmp_path: Path, key: str, model: str | None
) -> None:
    boards = f"  boards:\n    pi4b: {{title: mine}}\n    new: {{clock_mhz: 1, cores: 1, buses: [usb2], {key}}}\n"
    text = SMALL.replace("pinet:\n", f"pinet:\n{boards}", 1).replace("1, 2,", "1, 2, 3,")
    nodes = lab_of(tmp_path, f"{text}    b: {{board: new, interfaces: {{x: {{nic: rtl8153, port: sw/3}}}}}}\n").nodes
    assert (nodes["a"].board.title, nodes["a"].board.model) == ("mine", "Raspberry Pi 4 Model B")
    assert nodes["b"].board.model == model


def test_the_file_may_add_and_override_hardware(tmp_path: Path) -> None:
    lab = lab_of(
        tmp_path,
        SMALL
        + """\
  boards:
    pi4b: {onboard: house-nic, clock_mhz: 2000}
    mine: {clock_mhz: 1000, cores: 2, buses: [usb2]}
  nics:
    house-nic: {driver: house, bus: soc, speeds_mbps: [1000, 100]}
    rtl8153: {mtu_max: 4000}
""",
    )
    board = lab.nodes["a"].board
    assert (board.clock_mhz, board.cores, board.onboard) == (2000, 4, "house-nic")
    onboard, _, other = lab.nodes["a"].interfaces
    assert (onboard.label, onboard.nic.speeds_mbps, onboard.nic.title) == ("onboard", (100, 1000), "house-nic")
    assert (other.nic.mtu_max, other.nic.driver) == (4000, "r8152")


@pytest.mark.parametrize(
    ("written", "ports"),
    [
        ("p1-p3", ("p1", "p2", "p3")),
        ("p1-3", ("p1", "p2", "p3")),
        ("1-3", ("1", "2", "3")),
        ("p08-p10", ("p08", "p09", "p10")),
        ("1/0/9-1/0/11", ("1/0/9", "1/0/10", "1/0/11")),
        ("[a-1, b/2, 3]", ("a-1", "b/2", "3")),
    ],
)
def test_ports_are_a_list_or_a_range(tmp_path: Path, written: str, ports: tuple[str, ...]) -> None:
    text = SMALL.replace("  nodes:", f"    more: {{backend: fixed, ports: {written}}}\n  nodes:")
    assert lab_of(tmp_path, text).switches["more"].ports == ports


def test_keys_for_anchors_are_allowed_at_the_top(tmp_path: Path) -> None:
    text = "x-nic: &nic {port: sw/1}\n" + SMALL.replace("{port: sw/1}", "*nic")
    assert lab_of(tmp_path, text).nodes["a"].interface("onboard").port == PortRef("sw", "1")


def test_templates_are_kept_and_filled_in_later(virtual: Lab) -> None:
    settings = virtual.switches["sw1"].settings
    assert settings["address"] == "$LG_SWITCH_SW1"
    assert (
        substitute(settings["address"], {"LG_SWITCH_SW1": "ssh://root@127.0.0.1:2222"}) == "ssh://root@127.0.0.1:2222"
    )


def test_base_is_the_folder_of_the_file(tmp_path: Path) -> None:
    assert substitute(Template("$BASE/key"), {}, str(tmp_path / "lab.yaml")) == f"{tmp_path}/key"


def test_text_that_is_not_a_template_is_not_changed() -> None:
    assert substitute("$LG_X and $$", {"LG_X": "no"}) == "$LG_X and $$"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("$LG_MISSING", "!template '$LG_MISSING' needs the variable LG_MISSING, which is not set"),
        ("$HOME", "!template '$HOME' needs the variable HOME, which is not set; known are $BASE and LG_*"),
        ("5$", "!template '5$' has a '$' without a variable name; write '$$' for a dollar sign"),
    ],
)
def test_a_template_that_cannot_be_filled_in_names_what_is_missing(template: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        substitute(Template(template), {"HOME": "/root"})
    assert str(caught.value).startswith(message)


def test_an_entry_may_hold_several_limits_with_one_band(tmp_path: Path) -> None:
    limits = (
        "  limits:\n    - {min: 90%, tolerance: {relative: 3%, absolute: 20 Mbit/s}, marginal: 2%}\n"
        "    - {board: pi4b, direction: rx, retransmits: 0.1%, loss: 0.5%, latency: 5 ms, cpu: 140%}\n"
    )
    found = lab_of(tmp_path, SMALL + limits).limits
    assert [(limit.metric, limit.bound, limit.marginal) for limit in found] == [
        (Metric.GOODPUT, Share(0.9), Share(0.02)),
        (Metric.TOLERANCE, Tolerance(Share(0.03), Bitrate(20e6)), Share(0.02)),
        (Metric.RETRANSMITS, Share(0.001), None),
        (Metric.LOSS, Share(0.005), None),
        (Metric.LATENCY, Duration(0.005), None),
        (Metric.CPU, CpuCost(140.0), None),
    ]
    assert {limit.source for limit in found[2:]} == {f"{tmp_path / 'small.yaml'}:13"}
    assert {limit.scope.direction for limit in found[2:]} == {Direction.RX}


@pytest.mark.parametrize(
    "limit",
    [
        "{board: pi4b, nic: onboard, direction: bidir, min: 938 Mbit/s}",
        "{board: pi4b, nic: onboard, min: 941 Mbit/s}",  # possible in one direction
        "{nic: rtl8153, direction: bidir, min: 941 Mbit/s}",  # possible with jumbo frames
        "{board: pi4b, nic: onboard, topology: 'pairs:2', sum: 1.03 Gbit/s}",
        "{sum: 1.03 Gbit/s}",
        "{sum: 100%, share: 100%, fairness: 1}",
    ],
)
def test_a_limit_that_some_combination_can_meet_is_taken(tmp_path: Path, limit: str) -> None:
    assert lab_of(tmp_path, f"{SMALL}  limits:\n    - {limit}\n").limits


def test_settings_for_judging_are_read(tmp_path: Path) -> None:
    plain = lab_of(tmp_path, SMALL)
    assert (plain.profile, plain.baselines_where) == ("standard", None)
    assert (plain.baselines, plain.calibration) == (tmp_path / "baselines", tmp_path / "small.calibration.yaml")
    keys = "  profile: soak\n  baselines: ../accepted\n  calibration: /var/noise.yaml\n"
    named = lab_of(tmp_path, SMALL + keys)
    assert (named.profile, str(named.baselines_where)) == ("soak", f"{tmp_path / 'small.yaml'}:12")
    assert (named.baselines, named.calibration) == (tmp_path / ".." / "accepted", Path("/var/noise.yaml"))


@pytest.mark.parametrize(
    ("head", "has_coordinator"),
    [
        ("targets: {pi: {resources: {NetworkService: {address: pi, username: pi}}}}", False),
        ("targets: {pi: {resources: [{NetworkService: {address: pi, username: pi}}]}}", False),
        ("targets: {pi: {resources: {RemotePlace: {name: pi}}}}", True),
        ("targets: {pi: {resources: [{cls: RemotePlace, name: pi}]}}", True),
        ("targets: {pi: {}}\noptions: {coordinator_address: bench}", True),
        ("", True),
    ],
)
def test_a_lab_without_remote_places_has_no_coordinator(tmp_path: Path, head: str, has_coordinator: bool) -> None:
    file = tmp_path / "lab.yaml"
    nodes = "nodes: {pi: {board: pi4b, interfaces: {onboard: {port: s/p1}}}}"
    file.write_text(f"{head}\npinet:\n  switches: {{s: {{backend: fixed, ports: [p1]}}}}\n  {nodes}\n")
    assert load(file).has_coordinator is has_coordinator


def test_a_target_that_no_node_uses_is_not_checked(tmp_path: Path) -> None:
    # openwrt-tests: the strategy of a board in QEMU fills in the address.
    path = tmp_path / "lab.yaml"
    text = (
        "targets:\n  pi: {}\n  qemu: {resources: {NetworkService: {address: '', username: root}}}\n"
        "pinet:\n  switches: {s: {backend: fixed, ports: [p1]}}\n"
        "  nodes: {pi: {board: pi4b, interfaces: {onboard: {port: s/p1}}}}\n"
    )
    path.write_text(text)
    assert list(load(path).nodes) == ["pi"]
    path.write_text(text.replace("nodes: {pi:", "nodes: {qemu:"))
    with pytest.raises(
        ConfigError, match=r"lab.yaml:3: targets.qemu.resources.NetworkService.address: expected a host"
    ):
        load(path)
