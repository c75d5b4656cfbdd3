"""The lab file of a bench with a labgrid coordinator, power switches, consoles and a switch."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.config.lab_text import Value, mapping, scalar
from pytest_pinet.init.bench import BenchFacts
from pytest_pinet.init.choices import CLI, FIXED, LINUX, NONE, OUTLET, POE, SERIAL, SNMP
from pytest_pinet.init.desk import DeskNode
from pytest_pinet.init.hardware import FoundHardware
from pytest_pinet.init.lab_lines import hardware_lines, node_lines

SWITCH = "sw1"
_EXAMPLE_SERIAL = "USBSerialPort: {match: {ID_SERIAL_SHORT: P-00-00682}}"
_EXAMPLE_POWER = "NetworkPowerPort: {model: shelly_gen2, host: 'http://192.0.2.20', index: 0}"


def text(name: str, bench: BenchFacts, nodes: Sequence[DeskNode], hardware: FoundHardware, file: str) -> str:
    """Return the text of the lab file."""
    lines = [*_head(bench, nodes, file), *_targets(bench, nodes), "pinet:", f"  name: {name}", ""]
    lines += [*hardware_lines(hardware), *_switch(bench), "", "  nodes:"]
    known = {node.name: node for node in nodes}
    for place, board in bench.boards.items():
        port = f"{SWITCH}/{bench.ports[place]}"
        if place in known:
            lines += node_lines(known[place], port)
        else:
            lines += [
                f"    {place}:",
                f"      board: {board}",
                "      interfaces:",
                "        # To find it by its address, add the `mac:` that `pinet discover` prints.",
                f"        onboard: {mapping({'port': port})}",
            ]
        lines.append("")
    lines += [
        "  # The limits for all tests. Without them, each test has its own limit or an accepted baseline.",
        "  # limits:",
        "  #   - {min: 90%}                  # of the physical limit of the link",
    ]
    return "\n".join(lines) + "\n"


def _head(bench: BenchFacts, nodes: Sequence[DeskNode], file: str) -> list[str]:
    lines = [
        "# A bench with a labgrid coordinator, written by `pinet init --bench`. Change what you like.",
        f"#   pinet check {file}                without the lab",
        f"#   pinet doctor --lab {file}         with the lab",
        "#",
        "# On the machine where the cables of the boards end, labgrid's exporter offers them. Its file, exporter.yaml:",
    ]
    logins = {node.name: node.machine.login for node in nodes}
    for place in bench.boards:
        login = logins.get(place)
        host, user = ("192.0.2.5", "root") if login is None else (login.host, login.user)
        lines.append(f"#   {place}:")
        lines += [f"#     {_EXAMPLE_SERIAL}"] if bench.console == SERIAL else []
        lines += [f"#     {_EXAMPLE_POWER}"] if bench.power == OUTLET else []
        lines.append(f"#     NetworkService: {mapping({'address': host, 'username': user})}")
    lines += [f"#   labgrid-exporter -c {bench.coordinator} exporter.yaml", "#", "# Once, to make the places:"]
    client = f"labgrid-client -x {bench.coordinator}"
    lines += [f"#   {client} -p {one} create && {client} -p {one} add-match '*/{one}/*'" for one in bench.boards]
    return [
        *lines,
        "",
        "options:",
        f"  coordinator_address: {scalar(bench.coordinator)}",
        "",
        "imports:",
        "  - pytest_pinet.lab.drivers",
        "",
    ]


def _targets(bench: BenchFacts, nodes: Sequence[DeskNode]) -> list[str]:
    user = next((node.machine.login.user for node in nodes if node.machine.login is not None), "root")
    lines = ["targets:"]
    for number, place in enumerate(bench.boards):
        lines += [f"  {place}:", "    resources:", f"      RemotePlace: {mapping({'name': place})}"]
        if bench.power == POE:
            port = mapping({"switch": SWITCH, "interface": bench.ports[place]})
            lines.append(f"      EthernetPort: {port}")
        lines += ["    drivers: *drivers"] if number else ["    drivers: &drivers", *_drivers(bench, user)]
    return [*lines, ""]


def _drivers(bench: BenchFacts, user: str) -> list[str]:
    lines = []
    if bench.power == NONE:
        lines.append("      # No power control: a board that hangs needs you to unplug it.")
    else:
        lines.append("      NetworkPowerDriver: {}" if bench.power == OUTLET else "      PoePowerDriver: {}")
    if bench.console == NONE:
        lines.append("      # No console: messages of a kernel that does not boot are lost.")
    else:
        sign = "#" if user == "root" else r"\$"
        lines += [
            "      PiSerialDriver: {}",
            "      # The login on the serial console. The environment variable holds the password.",
            "      PiShellDriver:",
            rf"        prompt: '(?:\x1b\[[?]2004h)?{user}@\S+:.*{sign} '",
            "        login_prompt: ' login: '",
            f"        username: {scalar(user)}",
            '        password: !template "$LG_CONSOLE_PASSWORD"',
        ]
    return [*lines, "      PiSSHDriver: {}                     # or {keyfile: ~/.ssh/lab}", "      PiStrategy: {}"]


def _switch(bench: BenchFacts) -> list[str]:
    about = {
        FIXED: "Not managed: it is used as it is wired, and its counters are not read.",
        SNMP: "`community` reads, `write_community` sets ports; without the latter, the switch is only read.",
        CLI: "Its user and password are in environment variables.",
        LINUX: "A bridge, by commands over ssh. `keyfile:` is the ssh key.",
    }[bench.backend]
    settings: dict[str, Value] = {"backend": bench.backend}
    if bench.address:
        settings["address"] = bench.address
    if bench.family:
        settings["family"] = bench.family
    lines = ["  switches:", f"    # {about}", f"    {SWITCH}:"]
    lines += [f"      {key}: {scalar(str(value))}" for key, value in settings.items()]
    if bench.backend == SNMP:
        lines.append('      community: !template "$LG_SNMP_COMMUNITY"')
        lines.append('      # write_community: !template "$LG_SNMP_WRITE_COMMUNITY"')
    if bench.backend == CLI:
        lines.append('      username: !template "$LG_SWITCH_USER"')
        lines.append('      password: !template "$LG_SWITCH_PASSWORD"')
    return [*lines, f"      ports: [{', '.join(map(scalar, bench.ports.values()))}]"]
