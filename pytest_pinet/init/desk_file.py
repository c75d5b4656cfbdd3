"""The lab file of a desk: no coordinator, no power switch, no console, no managed switch."""

from __future__ import annotations

from pytest_pinet.config.lab_text import Value, mapping
from pytest_pinet.init.desk import Desk, DeskNode
from pytest_pinet.init.lab_lines import hardware_lines, node_lines

CABLE = "cable"


def text(desk: Desk, file: str) -> str:
    """Return the text of the lab file."""
    return "\n".join([*_head(file), *_targets(desk), *_pinet(desk)]) + "\n"


def _head(file: str) -> list[str]:
    return [
        "# A bench on a desk, written by `pinet init`. Comments say what was found. Change what you like.",
        f"#   pinet check {file}                without the boards",
        f"#   pinet doctor --lab {file}         with the boards",
        '# The page "Labs" of the documentation explains all keys.',
        "",
        "imports:",
        "  - pytest_pinet.lab.drivers",
        "",
    ]


def _targets(desk: Desk) -> list[str]:
    lines = [
        "# How labgrid reaches each board: by ssh, with ssh's own keys and settings. There is no coordinator, no power",
        "# switch and no serial console; `pinet init --bench` writes a file with all of them.",
        "targets:",
    ]
    for node in desk.nodes:
        login = node.machine.login
        if login is None:
            continue
        service: dict[str, Value] = {"address": login.host, "username": login.user}
        if login.port != 22:
            service["port"] = login.port
        driver = mapping({} if desk.keyfile is None else {"keyfile": desk.keyfile})
        lines += [
            f"  {node.name}:",
            "    resources:",
            f"      NetworkService: {mapping(service)}",
            "    drivers:",
            f"      PiSSHDriver: {driver}",
            "      PiStrategy: {}",
        ]
    return [*lines, ""]


def _pinet(desk: Desk) -> list[str]:
    lines = ["pinet:", f"  name: {desk.name}", "", *hardware_lines(desk.hardware)]
    names = ", ".join(node.name for node in desk.nodes)
    lines += [
        "  # A cable between two machines, or a network that is not managed: it is used as it is wired.",
        "  switches:",
        f"    {CABLE}: {{backend: fixed, ports: [{names}]}}",
        "",
        "  nodes:",
    ]
    for node in desk.nodes:
        lines += [*node_lines(node, port_of(node)), ""]
    return [
        *lines,
        "  # The limits for all tests. Without them, each test has its own limit or an accepted baseline.",
        "  # limits:",
        "  #   - {min: 90%}                  # of the physical limit of the link",
    ]


def port_of(node: DeskNode) -> str:
    """Return the port that the NIC of a node is cabled to: one for each node, with its name."""
    return f"{CABLE}/{node.name}"
