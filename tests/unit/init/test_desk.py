"""NICs, peer and speeds of a desk, and the lab file that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.init import lab_file
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.desk import Wishes, plan
from pytest_pinet.init.machine import Login, Machine, NicFacts, Route
from pytest_pinet.judge.hardware import compare_board, identify
from pytest_pinet.lab.link.link import addresses
from pytest_pinet.model.combination import Combination, Endpoint
from tests.support.init_machines import direct, machine

SILENT, YES = Answers(is_terminal=False), Answers(is_terminal=False, takes_defaults=True)
PC = machine("pc", None)


def lab(
    folder: Path, *machines: Machine, answers: Answers = SILENT, runner: Machine = PC, **wishes: object
) -> LabOfFile:
    """Return the lab of the file that is written for these machines. The file must fit what was found."""
    made = plan(machines, runner, Wishes(**wishes), answers, direct)  # type: ignore[arg-type]
    found = lab_file.write(str(folder / "desk.yaml"), lab_file.desk_text(made, "desk.yaml"))
    for node in made.nodes:
        for interface in found.nodes[node.name].interfaces:
            assert identify(found.nodes[node.name], interface, node.machine.board)[1] == []
        assert compare_board(found.nodes[node.name], node.machine.board.model) == []
    return found


def text_of(folder: Path) -> str:
    return (folder / "desk.yaml").read_text()


def test_one_pi_and_this_machine_over_the_home_network(tmp_path: Path) -> None:
    found = lab(tmp_path, machine("pi4b"))

    pi, pc = found.nodes["raspberrypi"], found.nodes["pc"]
    assert (pi.board.name, str(pi.management), pi.runner) == ("pi4b", "same", False)
    (nic,) = pi.interfaces
    assert (nic.name, nic.nic.name, nic.mac, nic.speed_mbps) == ("onboard", "genet", "dc:a6:32:01:02:03", 1000)
    (lan,) = pc.interfaces
    assert (pc.runner, pc.management, lan.name, lan.device) == (True, None, "lan", "enp3s0")
    assert (lan.nic.driver, lan.nic.speeds_mbps) == ("r8169", (10, 100, 1000))
    assert {str(one.port) for one in found.interfaces()} == {"cable/raspberrypi", "cable/pc"}
    text = text_of(tmp_path)
    assert "Raspberry Pi 4 Model B Rev 1.4" in text
    assert "NetworkService: {address: '192.0.2.5', username: pi}" in text
    assert "PiSSHDriver: {}" in text
    assert "# not tested: wlan0: driver brcmfmac" in text
    assert "coordinator_address" not in text
    assert "RemotePlace" not in text


def test_a_pi_reached_by_wifi_is_tested_by_its_cable(tmp_path: Path) -> None:
    found = lab(tmp_path, machine("pi3b+"))

    pi = found.nodes["pi3"]
    assert (pi.board.name, str(pi.management)) == ("pi3b+", "wifi")
    assert [(one.name, one.nic.name, str(one.bus)) for one in pi.interfaces] == [("onboard", "lan7515", "usb2")]
    assert "# not tested: eth1: driver ax88179_178a" in text_of(tmp_path)


def test_a_nic_that_the_catalogue_lacks_gets_an_entry(tmp_path: Path) -> None:
    found = lab(tmp_path, machine("pi5"), answers=YES, interfaces={"pi5": "enx00e04c010203"})

    (nic,) = found.nodes["pi5"].interfaces
    assert (nic.name, nic.nic.name, nic.nic.chip) == ("usb", "r8152-0bda-8156", "usb 0bda:8156")
    assert (nic.nic.title, str(nic.bus), nic.nic.speeds_mbps) == (
        "USB 10/100/1G/2.5G LAN",
        "usb3",
        (10, 100, 1000, 2500),
    )
    assert str(found.nodes["pi5"].management) == "separate"
    # The switch of the home network has 1 Gbit/s.
    assert nic.speed_mbps == 1000


def test_a_chip_is_known_by_its_number_and_not_by_its_driver(tmp_path: Path) -> None:
    board = machine("pi5")
    known = replace(board.facts["enx00e04c010203"], chip_id="usb:0bda:8153", speeds_mbps=(10, 100, 1000))
    board = replace(board, facts={**board.facts, "enx00e04c010203": known})

    (nic,) = lab(tmp_path, board, answers=YES, interfaces={"": "enx00e04c010203"}).nodes["pi5"].interfaces
    assert nic.nic.name == "rtl8153"
    assert "r8152" not in text_of(tmp_path).partition("nodes:")[0]


def test_of_several_linked_nics_one_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"NIC of pi5 under test \(eth0, enx00e04c010203\): give it with --interface"):
        lab(tmp_path, machine("pi5"))
    # The default is the NIC that carries ssh.
    (nic,) = lab(tmp_path, machine("pi5"), answers=YES).nodes["pi5"].interfaces
    assert nic.nic.name == "macb"


def test_a_board_that_the_catalogue_lacks_gets_an_entry(tmp_path: Path) -> None:
    found = lab(tmp_path, machine("rock5b"), answers=YES)

    node = found.nodes["rock-5b"]
    assert (node.board.cores, node.board.clock_mhz) == (8, 2400)
    assert node.board.model == 'Radxa ROCK 5 Model B: it\'s "new"'
    (nic,) = node.interfaces
    # The chip is that of a catalogue entry, whose driver is another one.
    assert (nic.nic.name, nic.drivers, nic.speed_mbps) == ("rtl8125", ("r8125",), 100)


def test_a_link_below_the_rated_speed_is_a_question(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected link speed of end0 of rock-5b .*: give it with --speed, or take"):
        lab(tmp_path, machine("rock5b"))
    (nic,) = lab(tmp_path, machine("rock5b"), speed_mbps=1000).nodes["rock-5b"].interfaces
    assert nic.speed_mbps == 1000


def test_two_boards_are_tested_against_each_other(tmp_path: Path) -> None:
    found = lab(tmp_path, machine("pi4b"), machine("pi4b", "192.0.2.6"))

    assert list(found.nodes) == ["raspberrypi", "raspberrypi-2"]
    assert not any(node.runner for node in found.nodes.values())


def test_two_boards_and_this_machine(tmp_path: Path) -> None:
    found = lab(tmp_path, machine("pi4b"), machine("pi5", "192.0.2.6"), answers=YES, peer="runner")

    assert list(found.nodes) == ["raspberrypi", "pi5", "pc"]


@pytest.mark.parametrize(
    ("host", "name"),
    [("123", "pi-123"), ("no", "pi-no"), ("2026-01-02", "pi-2026-01-02"), ("0x10", "pi-0x10"), ("4b-1", "4b-1")],
)
def test_a_host_name_that_yaml_reads_as_no_text_gets_a_word_in_front(tmp_path: Path, host: str, name: str) -> None:
    found = lab(tmp_path, replace(machine("pi4b"), host=host))
    assert set(found.nodes) == {name, "pc"}


def test_two_desks_with_equal_names_have_different_test_addresses(tmp_path: Path) -> None:
    """All new boards are called raspberrypi, and two desks may be in one network."""
    found = []
    for number, address in enumerate(("192.0.2.5", "192.0.2.6")):
        (tmp_path / str(number)).mkdir()
        nodes = lab(tmp_path / str(number), machine("pi4b", address)).nodes
        ends = [Endpoint(node, node.interfaces[0]) for node in nodes.values()]
        assert list(map(str, ends)) == ["raspberrypi:onboard", "pc:lan"]
        found.append({end.network for end in addresses(Combination.pair(*ends))})
    assert found[0].isdisjoint(found[1])


def test_one_board_under_two_addresses_is_named() -> None:
    again = replace(machine("pi4b"), login=Login("pi", "raspberrypi.local", 22, "192.0.2.5"))

    with pytest.raises(ConfigError, match=r"pi@192.0.2.5 and pi@raspberrypi.local are the same board: both have eth0"):
        plan([machine("pi4b"), again], PC, Wishes(), SILENT, direct)


def test_equal_nics_share_an_entry(tmp_path: Path) -> None:
    boards = [machine("pi5"), replace(machine("pi5", "192.0.2.6"), host="other")]
    found = lab(tmp_path, *boards, answers=YES, interfaces=dict.fromkeys(("pi5", "other"), "enx00e04c010203"))

    assert {one.nic.name for one in found.interfaces()} == {"r8152-0bda-8156"}


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (Route("wlp2s0", None), "this machine reaches raspberrypi by wlp2s0, which is Wi-Fi"),
        (Route("enp3s0", "192.0.2.254"), "this machine reaches raspberrypi over the router 192.0.2.254"),
        (None, "this machine has no wired connection to eth0 of raspberrypi"),
        (Route("lo", None), "this machine has no wired connection to eth0 of raspberrypi"),
    ],
)
def test_a_peer_that_cannot_be_reached_directly_is_refused(route: Route | None, message: str) -> None:
    with pytest.raises(LabError, match=message) as error:
        plan([machine("pi4b")], PC, Wishes(), SILENT, lambda _: route)

    assert "connect both by a cable or to one switch" in error.value.act


def test_a_cable_beside_the_way_of_ssh_is_found() -> None:
    """Ssh comes in by Wi-Fi, over enp3s0 of this machine. The cable has no address, so it ends at the other NIC."""
    board = replace(machine("pi3b+"), addresses={})

    found = plan([board], PC, Wishes(), YES, direct)
    assert found.nodes[1].tested.found.device == "enp4s0"
    with pytest.raises(ConfigError, match=r"whose cable ends at eth0 of pi3 .*--interface pc=DEVICE"):
        plan([board], PC, Wishes(), SILENT, direct)


def test_a_board_without_a_cable_is_named() -> None:
    board = machine("pi3b+")
    board = replace(board, facts={**board.facts, "eth0": NicFacts()})

    with pytest.raises(LabError, match=r"pi@192.0.2.5 has no wired NIC with a link \(its network devices: eth0, eth1,"):
        plan([board], PC, Wishes(), SILENT, direct)


@pytest.mark.parametrize(
    ("interfaces", "message"),
    [
        ({"": "eth7"}, "--interface: unknown network device 'eth7'"),
        ({"": "wlan0"}, "--interface: wlan0 of pi3 is Wi-Fi"),
        ({"pi9": "eth0"}, "--interface: unknown node 'pi9', did you mean 'pi3'"),
    ],
)
def test_wrong_interfaces_are_named(interfaces: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan([machine("pi3b+")], PC, Wishes(interfaces=interfaces), SILENT, direct)


def test_an_unknown_speed_is_a_question(tmp_path: Path) -> None:
    board = machine("rock5b")
    board = replace(board, facts={"end0": NicFacts(carrier=True)})

    with pytest.raises(ConfigError, match="link speed of end0 of rock-5b: give it with --speed"):
        lab(tmp_path, board)
    (nic,) = lab(tmp_path, board, speed_mbps=10000).nodes["rock-5b"].interfaces
    assert (nic.nic.speeds_mbps, nic.nic.name) == ((10000,), "r8125")


def test_what_is_missing_is_named_with_its_command() -> None:
    board = replace(machine("pi4b"), no_root="sudo: a password is required", no_iperf3="192.0.2.5 has no iperf3")
    found = plan([board], replace(PC, no_root="sudo: a password is required"), Wishes(), SILENT, direct)

    first, cure, second, install, third, own = lab_file.to_do(found)
    assert first == "raspberrypi: user pi has no root rights (sudo: a password is required)"
    assert "do_sudo_pass 1" in cure
    assert second == "raspberrypi: 192.0.2.5 has no iperf3"
    assert install.startswith("  -> ssh -t pi@192.0.2.5 'sudo apt-get install -y iperf3'")
    assert third.startswith("this machine: user me has no root rights")
    assert own.startswith("  -> start pytest as root")


def test_programs_of_some_metrics_are_named_with_the_command_that_installs_them() -> None:
    board = replace(machine("pi4b"), lacks=("sockperf", "nginx"))
    other = replace(PC, lacks=("wrk",), installer="dnf install -y iperf3")
    what, install, more, by_hand = lab_file.to_do(plan([board], other, Wishes(), SILENT, direct))

    assert what == "raspberrypi: these programs are missing, so tests of some metrics are skipped: sockperf, nginx"
    assert install == "  -> ssh -t pi@192.0.2.5 'sudo apt-get install -y sockperf nginx-light'"
    assert more == "this machine: these programs are missing, so tests of some metrics are skipped: wrk"
    # How other distributions name the packages is not known.
    assert by_hand == "  -> install wrk"


def test_an_existing_file_is_never_changed(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text("mine")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere.yaml")

    nodes = "{a: {board: pi5, interfaces: {onboard: {port: s/p}}}}"
    text = f"pinet: {{switches: {{s: {{backend: fixed, ports: [p]}}}}, nodes: {nodes}}}"
    for name in ("desk.yaml", "link.yaml"):
        with pytest.raises(ConfigError, match="exists already, and is not changed"):
            lab_file.check_free(str(tmp_path / name))
        with pytest.raises(ConfigError, match="exists already, and is not changed"):
            lab_file.write(str(tmp_path / name), text)
    assert file.read_text() == "mine"
    assert not (tmp_path / "nowhere.yaml").exists()
    with pytest.raises(ConfigError, match="there is no folder"):
        lab_file.check_free(str(tmp_path / "no" / "desk.yaml"))
