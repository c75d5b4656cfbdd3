"""The answers for a bench with a coordinator, and the lab file that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
