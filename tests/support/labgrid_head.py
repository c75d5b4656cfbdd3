"""Small lab files of nodes that a launcher serves, with console, power and ssh; and their labgrid part alone."""

from __future__ import annotations

from collections.abc import Mapping

_HEAD = """\
options: {coordinator_address: !template "$LG_COORDINATOR"}
imports: [pytest_pinet.lab.drivers]
targets:
"""
_DRIVERS = """\
    drivers: &drivers
      NetworkPowerDriver: {}
      PiSerialDriver: {}
      PiShellDriver:
        prompt: '(?:\\x1b\\[[?]2004h)?root@\\S+:.*# '
        login_prompt: ' login: '
        username: root
        password: !template "$LG_CONSOLE_PASSWORD"
      PiSSHDriver: {keyfile: !template "$LG_KEYFILE"}
      PiStrategy: {}
"""


def labgrid_head(first: str, *others: str) -> str:
    """Return the part of a lab file above ``pinet:`` for these nodes."""
    targets = [f"  {first}:\n    resources: {{RemotePlace: {{name: {first}}}}}\n{_DRIVERS}"]
    targets += [f"  {one}:\n    resources: {{RemotePlace: {{name: {one}}}}}\n    drivers: *drivers\n" for one in others]
    return _HEAD + "".join(targets)


def lab_with_peer(
    name: str, boards: Mapping[str, str], nic: tuple[str, str], speed_mbps: int, nodes: Mapping[str, str]
) -> str:
    """Return the lab file of boards and the node ``peer``, all on one switch.

    ``nic`` is the name of a NIC and its driver and bus. Values are flow mappings without braces; PORT in a node stands
    for its switch port.
    """
    speeds = f"speeds_mbps: [{speed_mbps}]"
    ports = [f"sw1/p{number}" for number, _ in enumerate((*nodes, "peer"), 1)]
    lines = [
        "pinet:",
        f"  name: {name}",
        "  launcher: virtual",
        "  boards:",
        *(f"    {board}: {{{keys}}}" for board, keys in boards.items()),
        "    peer: {clock_mhz: 1000, cores: 1, buses: [pcie3x1]}",
        "  nics:",
        f"    {nic[0]}: {{{nic[1]}, {speeds}}}",
        f"    veth: {{driver: veth, bus: pcie3x1, {speeds}}}",
        "  switches:",
        "    sw1:",
        "      backend: linux",
        '      address: !template "$LG_SWITCH_SW1"',
        '      keyfile: !template "$LG_KEYFILE"',
        f"      ports: p1-p{len(ports)}",
        "  nodes:",
        *(f"    {node}: {{{nodes[node].replace('PORT', port)}}}" for node, port in zip(nodes, ports, strict=False)),
        f"    peer: {{board: peer, boot_timeout: 30 s, interfaces: {{pcie: {{nic: veth, port: {ports[-1]}}}}}}}",
    ]
    return labgrid_head(*nodes, "peer") + "\n".join(lines) + "\n"
