"""Answers of a user, and the questions for a bench with a coordinator."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pexpect
import pytest
import yaml

from pytest_pinet.catalogue.load import built_in
from pytest_pinet.config import labfile
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError
from pytest_pinet.init import lab_file
from pytest_pinet.init.answers import BACKENDS, CONSOLES, POWERS, Answers
from pytest_pinet.init.bench import Bench, ask, parse_board, parse_coordinator
from pytest_pinet.init.desk import Desk, Wishes, plan, runner_of_bench
from pytest_pinet.init.hardware import FoundHardware
from pytest_pinet.matrix.expansion import select_combinations
from tests.support.init_machines import direct, machine

PLAN = """
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.desk import Wishes, plan
from tests.support.init_machines import direct, machine

boards = [machine("pi5"), machine("rock5b", "192.0.2.9")]
found = plan(boards, machine("pc", None), Wishes(), Answers(is_terminal=True), direct)
print([(node.name, node.tested.found.device, node.tested.speed_mbps) for node in found.nodes])
"""


def test_questions_have_numbers_defaults_and_a_second_chance() -> None:
    child = pexpect.spawn(sys.executable, ["-c", PLAN], timeout=60, encoding="utf-8", echo=False)
    child.expect_exact("pi5 has several NICs with a link. One of them is tested: its cable ends at the peer.")
    child.expect_exact("eth0 (driver macb, bus_info 1f00100000.ethernet, MAC 2c:cf:67:01:02:03), carries ssh")
    child.expect_exact("NIC of pi5 under test (eth0, enx00e04c010203) [eth0]: ")
    child.sendline("eth9")
    child.expect_exact("accepted: eth0, enx00e04c010203")
    child.expect_exact("[eth0]: ")
    child.sendline("2")
    child.expect_exact("enx00e04c010203 of pi5 can do 2.50 Gbit/s, but its link has 1.00 Gbit/s now.")
    child.expect_exact("[1.00 Gbit/s]: ")
    child.sendline("")
    child.expect_exact("[100.0 Mbit/s]: ")
    child.sendline("2")
    child.expect(pexpect.EOF)
    child.close()

    assert "[('pi5', 'enx00e04c010203', 1000), ('rock-5b', 'end0', None)]" in child.before
    assert child.exitstatus == 0


def test_defaults_are_taken_only_with_yes() -> None:
    with pytest.raises(ConfigError, match="a thing: give it with --thing, or take 'x' with --yes"):
        Answers(is_terminal=False).text("a thing", str, "--thing", "x")
    assert Answers(is_terminal=True, takes_defaults=True).text("a thing", str, "--thing", "x") == "x"
    with pytest.raises(ConfigError, match=r"a thing: give it with --thing$"):
        Answers(is_terminal=True, takes_defaults=True).text("a thing", str, "--thing")
    assert not Answers(is_terminal=False).agrees("Install?")


def test_names_from_a_board_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    Answers(is_terminal=True).say("eth0\x07\n::error::x")
    assert capsys.readouterr().err == "eth0\\x07\n: :error::x\n"


SILENT, YES = Answers(is_terminal=False), Answers(is_terminal=False, takes_defaults=True)
FULL = Bench(
    coordinator="bench.example.org:20408",
    boards={"pi4b-1": "pi4b", "pi5-1": "pi5"},
    power="outlet",
    console="serial",
    backend="snmp",
    address="192.0.2.2",
    ports={"pi4b-1": "gi1/0/1", "pi5-1": "2"},
)


def lab_of(text: str) -> LabOfFile:
    return labfile.resolve(text, "bench.yaml")


def test_options_are_enough_without_a_terminal() -> None:
    text = lab_file.bench_text("bench", ask([], FULL, SILENT), [], FoundHardware(), "bench.yaml")

    lab = lab_of(text)
    assert [(node.name, node.board.name, node.place) for node in lab.nodes.values()] == [
        ("pi4b-1", "pi4b", "pi4b-1"),
        ("pi5-1", "pi5", "pi5-1"),
    ]
    assert [str(one.port) for one in lab.interfaces()] == ["sw1/gi1/0/1", "sw1/2"]
    assert lab.switches["sw1"].settings["address"] == "192.0.2.2"
    assert "labgrid-client -x bench.example.org:20408 -p pi4b-1 create" in text
    assert "#     USBSerialPort: {match: {ID_SERIAL_SHORT: P-00-00682}}" in text


def test_one_board_with_the_runner_as_its_peer_can_be_measured() -> None:
    hardware = FoundHardware()
    desk = Desk("bench", [], hardware, None)
    own = runner_of_bench(machine("pc", None), desk, Wishes(interfaces={"pc": "enp3s0"}), SILENT)
    one = replace(FULL, boards={"pi4-1": "pi4b"}, ports={"pi4-1": "1", "pc": "2"})
    text = lab_file.bench_text("bench", ask([own], one, SILENT), [own], hardware, "bench.yaml")

    lab = lab_of(text)
    assert [(node.name, node.runner) for node in lab.nodes.values()] == [("pi4-1", False), ("pc", True)]
    assert "#   labgrid-client -x bench.example.org:20408 -p pc create\n" in text
    # It has no target, and no exporter serves it.
    targets = text.partition("targets:\n")[2].partition("pinet:\n")[0]
    assert "  pi4-1:\n" in targets
    assert "  pc:\n" not in targets
    assert "#   pc:" not in text
    assert [one.id for one in select_combinations(lab, ())] == ["pi4b:onboard/pair"]


def test_no_board_has_the_name_of_the_runner() -> None:
    desk = Desk("b", [], FoundHardware(), None)
    own = runner_of_bench(machine("pc", None), desk, Wishes(interfaces={"pc": "enp3s0"}), SILENT)
    with pytest.raises(ConfigError, match="'pc' is the name of this machine; choose another name"):
        ask([own], replace(FULL, boards={"pc": "pi4b"}, ports={"pc": "1"}), SILENT)


@pytest.mark.parametrize(
    ("missing", "option"),
    [
        ("coordinator", "--coordinator HOST:PORT, or take '127.0.0.1:20408' with --yes"),
        ("boards", "--board NAME=MODEL"),
        ("power", "--power, or take 'outlet' with --yes"),
        ("console", "--console, or take 'serial' with --yes"),
        ("backend", "--switch, or take 'fixed' with --yes"),
        ("address", "--switch-address ADDRESS"),
        ("ports", "--port pi4b-1=PORT"),
    ],
)
def test_each_missing_value_is_named_with_its_option(
    missing: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LG_COORDINATOR", raising=False)
    empty: dict[str, str] | None = {} if missing in ("boards", "ports") else None

    with pytest.raises(ConfigError) as error:
        ask([], replace(FULL, **{missing: empty}), SILENT)  # type: ignore[arg-type]
    assert error.value.message.endswith(f"give it with {option}")


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("console", CONSOLES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_choice_gives_a_lab_file(power: str, console: str, backend: str) -> None:
    wishes = replace(FULL, power=power, console=console, backend=backend, family="cisco_ios")
    if power == "poe" and backend in ("fixed", "linux"):
        with pytest.raises(ConfigError, match="power 'poe' needs a switch of kind snmp or cli"):
            ask([], wishes, SILENT)
        return
    text = lab_file.bench_text("bench", ask([], wishes, SILENT), [], FoundHardware(), "bench.yaml")

    assert lab_of(text).switches["sw1"].backend == backend
    drivers = yaml.load(text.replace("!template ", ""), yaml.SafeLoader)["targets"]["pi5-1"]["drivers"]
    assert ("NetworkPowerDriver" in drivers, "PoePowerDriver" in drivers) == (power == "outlet", power == "poe")
    assert ("PiSerialDriver" in drivers, "PiShellDriver" in drivers) == (console == "serial", console == "serial")
    assert {"PiSSHDriver", "PiStrategy"} <= drivers.keys()


def test_boards_that_were_looked_at_bring_their_nics() -> None:
    desk = plan([machine("pi4b")], machine("pc", None), Wishes(peer="none"), SILENT, direct)
    wishes = replace(FULL, boards={}, ports={"raspberrypi": "7"})

    text = lab_file.bench_text("bench", ask(desk.nodes, wishes, SILENT), desk.nodes, desk.hardware, "bench.yaml")
    (node,) = lab_of(text).nodes.values()
    assert (node.board.name, str(node.management), node.interfaces[0].mac) == ("pi4b", "same", "dc:a6:32:01:02:03")
    assert "NetworkService: {address: '192.0.2.5', username: pi}" in text
    assert r"prompt: '(?:\x1b\[[?]2004h)?pi@\S+:.*\$ '" in text


@pytest.mark.parametrize(
    ("text", "found"), [("pi4b-1=pi4b", ("pi4b-1", "pi4b")), ("pi5-3", ("pi5-3", "pi5")), ("a=cm4", ("a", "cm4"))]
)
def test_boards(text: str, found: tuple[str, str]) -> None:
    assert parse_board(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x/y=pi4b", "expected a name of letters"),
        ("shelf=pi44", "unknown board 'pi44', did you mean"),
        ("shelf", "write NAME=MODEL, such as shelf=pi4b"),
        ("z=zero2w", "board zero2w has no onboard NIC: give its login"),
    ],
)
def test_wrong_boards(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_board(text)


def test_wrong_values_of_options() -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT such as"):
        parse_coordinator("http://x")
    with pytest.raises(ConfigError, match="--port pi5-1: port 1 is that of another board"):
        ask([], replace(FULL, ports={"pi4b-1": "1", "pi5-1": "1"}), SILENT)
    assert "cisco_ios" in built_in()


def test_ports_of_an_unmanaged_switch_have_defaults(tmp_path: Path) -> None:
    found = ask([], replace(FULL, backend="", power="", console="", ports={}), YES)

    assert (found.power, found.console, found.backend, found.ports) == (
        "outlet",
        "serial",
        "fixed",
        {"pi4b-1": "1", "pi5-1": "2"},
    )
