"""Names the program that configures each NIC, because a test takes the NIC from some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.lab.link.end import READ_TIMEOUT_S
from pytest_pinet.lab.link.manager import Manager, Surroundings, parse, reading
from pytest_pinet.lab.node.management import find_management
from pytest_pinet.model.lab import Node


def check_managers(bench: Bench) -> Sequence[Finding]:
    """Name the network manager of each NIC. Any manager is fine; one that was never tried is unknown."""
    found: dict[str, Mapping[str, Surroundings]] = {}

    def look(node: Node) -> list[Finding]:
        shell = bench.shell(node.name)
        carriers = find_management(shell, bench.session(node).facts).carriers
        text = shell.run(reading([i.device for i in node.interfaces]), READ_TIMEOUT_S).stdout
        found[node.name] = parse(text, carriers)
        return []

    missing = bench.in_parallel(look)
    return [*missing, *judge({node.name: found[node.name] for node in bench.ready if node.name in found})]


def judge(nodes: Mapping[str, Mapping[str, Surroundings]]) -> list[Finding]:
    """Return a finding for each manager, with its NICs."""
    groups: dict[str, list[str]] = {}
    untried = []
    for node, devices in nodes.items():
        for device, around in devices.items():
            manager = "no manager" if around.holding is None else str(around.holding.manager)
            kept = "carries ssh" if around.carries_ssh else "Wi-Fi" if around.wireless else ""
            groups.setdefault(manager, []).append(f"{node} {device}{f' ({kept})' if kept else ''}")
            if around.holding is not None and around.holding.manager is Manager.NETIFD:
                message = f"netifd configures {device}; tests leave it so, which was never tried on a real board"
                untried.append(Finding(Status.UNKNOWN, node, message))
    named = [f"{manager}: {', '.join(nics)}" for manager, nics in groups.items()]
    return [*(Finding(Status.OK, message=message) for message in named), *untried]
