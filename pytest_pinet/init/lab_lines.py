"""The lines of a lab file that desk and bench share: boards, NICs and nodes, with what was found as comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.config.lab_text import Value, mapping
from pytest_pinet.init.desk import DeskNode
from pytest_pinet.init.hardware import FoundHardware, TestedNic
from pytest_pinet.init.machine import Machine, NicFacts
from pytest_pinet.model.hardware import Board, FoundNic, Nic
from pytest_pinet.model.management import Management, ManagementMode
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.report.text_wrap import wrap

_WIDTH = 112


def comment(text: str, indent: str) -> list[str]:
    """Return a text as comment lines."""
    return [f"{indent}# {line}" for line in wrap(text, width=_WIDTH - len(indent))]


def hardware_lines(hardware: FoundHardware) -> list[str]:
    """Return the sections ``boards`` and ``nics`` with what the catalogue lacks."""
    lines: list[str] = []
    if hardware.boards:
        lines += ["  boards:"]
        for board in hardware.boards.values():
            lines += comment(f"{hardware.sources[board.name]}", "    ")
            lines.append(f"    {board.name}: {mapping(_board(board))}")
        lines.append("")
    if hardware.nics:
        lines += [
            "  # The catalogue lacks these NICs. Chip, driver and speeds are as the kernel reports them.",
            "  nics:",
        ]
        for nic in hardware.nics.values():
            lines += comment(hardware.sources[nic.name], "    ")
            lines.append(f"    {nic.name}: {mapping(_nic(nic))}")
        lines.append("")
    return lines


def _board(board: Board) -> dict[str, Value]:
    found: dict[str, Value] = {"title": board.title, "clock_mhz": board.clock_mhz, "cores": board.cores}
    found["buses"] = [str(bus) for bus in board.buses]
    if board.onboard is not None:
        found["onboard"] = board.onboard
    if board.model is not None:
        found["model"] = board.model
    return found


def _nic(nic: Nic) -> dict[str, Value]:
    found: dict[str, Value] = {"title": nic.title, "chip": nic.chip, "driver": nic.driver, "bus": str(nic.bus)}
    return found | {"speeds_mbps": list(nic.speeds_mbps), "mtu_max": nic.mtu_max}


def node_lines(node: DeskNode, port: str, keys: Sequence[str] = ()) -> list[str]:
    """Return a node with its NIC under test. ``keys`` are more lines of the node, without indentation."""
    machine, tested = node.machine, node.tested
    lines = [*_machine_comments(machine), f"    {node.name}:", f"      board: {node.board}"]
    if machine.login is None:
        lines.append("      runner: true")
    lines += [f"      {key}" for key in keys]
    if node.management is not None:
        lines += comment(_way(machine, node.management), "      ")
        lines.append(f"      management: {node.management}")
    lines.append("      interfaces:")
    lines += comment(_nic_words(machine, tested.found), "        ")
    if tested.speed_mbps is not None:
        lines.append(f"        # rated for {Bitrate.mbps(tested.nic.speed_mbps)}, but the link has less")
    lines.append(f"        {tested.key}: {mapping(_interface(node, tested, port))}")
    for other in node.others:
        lines += comment(f"not tested: {_nic_words(machine, other)}", "        ")
    return lines


def _interface(node: DeskNode, tested: TestedNic, port: str) -> dict[str, Value]:
    keys: dict[str, Value] = {"nic": tested.nic.name} if tested.is_named else {}
    keys["port"] = port
    nic = tested.found
    # The address of a device of software changes at each boot.
    mac = nic.permanent_mac or (nic.mac if nic.bus is not None else None)
    if node.machine.login is not None and mac is not None:
        keys["mac"] = mac
    else:
        keys["device"] = nic.device
    if tested.drivers:
        keys["driver"] = tested.drivers[0]
    if tested.speed_mbps is not None:
        keys["speed"] = str(Bitrate.mbps(tested.speed_mbps))
    return keys


def _machine_comments(machine: Machine) -> Iterable[str]:
    kind = machine.board.model or "no device tree, so the model is unknown"
    who = "The machine that runs pytest" if machine.login is None else f"{machine.login}: {kind}"
    system = f"{machine.system or 'unknown system'}, Linux {machine.kernel} ({machine.architecture})"
    root = "has root rights" if machine.no_root is None else f"has no root rights ({machine.no_root})"
    tool = f"iperf3 {machine.iperf3}" if machine.iperf3 is not None else "no iperf3"
    return comment(f"{who}; {system}; user {machine.user} {root}; {tool}", "    ")


def _way(machine: Machine, management: Management) -> str:
    device = machine.management.device
    if not device:
        return "ssh comes in by a relay, not by a NIC of the board"
    cost = "" if management.mode is ManagementMode.SEPARATE else f": {management.cost}"
    return f"ssh comes in by {device}{cost}"


def _nic_words(machine: Machine, nic: FoundNic) -> str:
    facts = machine.facts.get(nic.device, NicFacts())
    place = nic.bus_info or nic.bus or "no bus"
    link = "Wi-Fi" if facts.wireless else "no link" if not facts.carrier else "link of unknown speed"
    if facts.carrier and facts.linked_mbps is not None and not facts.wireless:
        link = f"link {Bitrate.mbps(facts.linked_mbps)}"
    words = [f"driver {nic.driver or 'unknown'}", place, f"MAC {nic.permanent_mac or nic.mac}", link]
    return f"{nic.device}: {', '.join([*words, *machine.addresses.get(nic.device, ())])}"
