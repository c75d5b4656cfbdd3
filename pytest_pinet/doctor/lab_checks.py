"""Checks the parts that must work before the first node is used: coordinator, exporter, free places."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench, ok
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import LeaseError
from pytest_pinet.lab.queue.contention import PLACE_PREFIX
from pytest_pinet.model.lab import Node


class CoordinatorAnswers:
    """Checks that the lab is up and its coordinator answers."""

    name = "coordinator"
    blocks = "no coordinator"

    def run(self, bench: Bench) -> Sequence[Finding]:
        return [Finding(self.name, Status.OK, message=bench.connect())]


class Exporter:
    """Checks that each node has a place, and that exporters offer all resources of the place."""

    name = "exporter"
    blocks = "nothing serves its place"

    def run(self, bench: Bench) -> Sequence[Finding]:
        offered = [
            (exporter, group, entry.cls, name)
            for exporter, groups in bench.coordinator.session.resources.items()
            for group, entries in groups.items()
            for name, entry in entries.items()
            # The resources of a lost exporter stay listed, without parameters.
            if "params" in entry.data and entry.avail
        ]
        return [finding for node in bench.ready for finding in self._look(bench, node, offered)]

    def _look(self, bench: Bench, node: Node, offered: Sequence[tuple[str, str, str, str]]) -> Sequence[Finding]:
        try:
            bench.coordinator.holder(node.place)
        except LeaseError as error:
            return [Finding.of(self.name, error, node.name)]
        client = f"labgrid-client -x {bench.coordinator.address} -p {node.place}"
        matches = bench.coordinator.session.places[node.place].matches
        absent = [str(match) for match in matches if not any(match.ismatch(path) for path in offered)]
        # No exporter serves the machine that pytest runs on.
        if (matches or node.runner) and not absent:
            return ok(self.name, [node])
        if not matches:
            message, act = f"place {node.place} matches no resources", f"{client} add-match EXPORTER/{node.place}/*"
        else:
            message = f"no exporter offers {', '.join(absent)}, which place {node.place} is made of"
            start = f"start labgrid-exporter -c {bench.coordinator.address}"
            act = f"the lab's admin: {start} where {node.name} is connected"
        return [Finding(self.name, Status.WRONG, node.name, message, act)]


class PlacesFree:
    """Checks that no other user holds the nodes. Nodes that others hold are left alone."""

    name = "places free"
    blocks = "its place is not ours"

    def run(self, bench: Bench) -> Sequence[Finding]:
        found = []
        missing = bench.lease(bench.ready)
        for node in bench.ready:
            why = missing.get(node.name)
            if why is None:
                found += ok(self.name, [node])
            elif isinstance(why, LeaseError):
                found.append(Finding.of(self.name, why, node.name))
            else:
                holder = why.holder
                act = (
                    f"ask {holder.user} on {holder.host}, or: labgrid-client -x {bench.coordinator.address} "
                    f"-p {node.place} release --kick"
                )
                found.append(Finding(self.name, Status.WRONG, node.name, f"place {node.place} is held by {why}", act))
        return found + self._domains(bench)

    def _domains(self, bench: Bench) -> list[Finding]:
        """Report contention domains without a place: runs on other hosts cannot see them.

        Whether other hosts measure in this lab is not known here.
        """
        if bench.lab.launcher is not None:
            return []
        known = bench.coordinator.places()
        missing = [domain for domain in bench.lab.domains if PLACE_PREFIX + domain not in known]
        client = f"labgrid-client -x {bench.coordinator.address}"
        return [
            Finding(
                self.name,
                Status.UNKNOWN,
                message=f"contention domain {domain}: only runs on this host wait for each other",
                act=f"if others measure in this lab, too: {client} -p {PLACE_PREFIX}{domain} create",
            )
            for domain in missing
        ]
