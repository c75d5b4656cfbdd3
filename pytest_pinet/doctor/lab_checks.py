"""Checks the parts that must work before the first node is used: coordinator, exporter, free places."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import LeaseError
from pytest_pinet.lab.queue.contention import PLACE_PREFIX
from pytest_pinet.model.lab import Node


def check_coordinator(bench: Bench) -> Sequence[Finding]:
    """Check that the lab is up and its coordinator answers."""
    return [Finding(Status.OK, message=bench.connect())]


def check_exporters(bench: Bench) -> Sequence[Finding]:
    """Check that each node has a place, and that exporters offer all resources of the place."""
    session, address = bench.coordinator.session, bench.coordinator.address
    offered = [
        (exporter, group, entry.cls, name)
        for exporter, groups in session.resources.items()
        for group, entries in groups.items()
        for name, entry in entries.items()
        # The resources of a lost exporter stay listed, without parameters.
        if "params" in entry.data and entry.avail
    ]

    def look(node: Node) -> list[Finding]:
        # Raises LeaseError if there is no such place.
        bench.coordinator.holder(node.place)
        matches = session.places[node.place].matches
        absent = [str(match) for match in matches if not any(match.ismatch(path) for path in offered)]
        # No exporter serves the machine that pytest runs on.
        if (matches or node.runner) and not absent:
            return []
        if not matches:
            message = f"place {node.place} matches no resources"
            act = f"labgrid-client -x {address} -p {node.place} add-match EXPORTER/{node.place}/*"
        else:
            message = f"no exporter offers {', '.join(absent)}, which place {node.place} needs"
            act = (
                f"the lab's admin: start labgrid-exporter -c {address} on the machine that {node.name} is connected to"
            )
        return [Finding(Status.WRONG, node.name, message, act)]

    return bench.one_by_one(look)


def check_places(bench: Bench) -> Sequence[Finding]:
    """Check that no other user holds the nodes, and lease them. Nodes that others hold are not touched."""
    client = f"labgrid-client -x {bench.coordinator.address}"
    missing = bench.lease(bench.ready)

    def look(node: Node) -> list[Finding]:
        why = missing.get(node.name)
        if why is None:
            return []
        if isinstance(why, LeaseError):
            raise why
        act = f"ask {why.holder.user} on {why.holder.host}, or: {client} -p {node.place} release --kick"
        return [Finding(Status.WRONG, node.name, f"place {node.place} is held by {why}", act)]

    found = bench.one_by_one(look)
    if bench.lab.launcher is not None:
        return found
    # Runs on other hosts cannot see a contention domain without a place. Whether other hosts measure in this lab is not
    # known here.
    known = bench.coordinator.places()
    for domain in (one for one in bench.lab.domains if PLACE_PREFIX + one not in known):
        message = f"contention domain {domain} has no place, so only runs on this host wait for each other"
        act = f"if other hosts measure in this lab, too: {client} -p {PLACE_PREFIX}{domain} create"
        found.append(Finding(Status.UNKNOWN, message=message, act=act))
    return found
