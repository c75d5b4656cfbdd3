"""The nodes that this process uses: leased, booted, and kept ready for the next test; and the quarantined nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pytest_pinet.errors import CoordinatorError, LabError, LeaseError, QuarantineError, first_line
from pytest_pinet.execution.trace import doing
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lease import Leases, TrialLocks
from pytest_pinet.lab.node.kinds import session_of
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.places import Places
from pytest_pinet.model.lab import Node

_STEPS = {
    NodeSession.begin_reset_if_due: "shut down",
    NodeSession.reset_if_due: "reset",
    NodeSession.switch_on: "power on",
    NodeSession.log_in: "boot and log in",
}
LONGEST_REASON = 500


class NodePool:
    """Returns nodes that are ready, and keeps them booted until they are given back.

    ``places`` keeps their leases, and ``targets`` makes their labgrid targets; ``close`` closes both.

    If a node cannot be brought up, it is quarantined for the rest of the run. Later requests for it fail at once,
    without waiting for the same deadlines again. ``folder`` is the folder of the run. It gets the records of the
    consoles (``console/NODE.log``) and shares the quarantine among all workers of the run.
    """

    def __init__(
        self,
        places: Places,
        targets: Targets,
        on_wait: Callable[[str], None],
        folder: Path | None = None,
    ) -> None:
        self.places = places
        self._targets = targets
        self._on_wait = on_wait
        self._locks = TrialLocks(places, targets, on_wait)
        self._sessions: dict[str, NodeSession] = {}
        self._consoles = folder / "console" if folder is not None else None
        self._quarantine = Quarantine(folder / "quarantine" if folder is not None else None)
        self.leases = Leases(places, self._give_back, on_wait)
        # Places whose nodes halt: released when the next nodes have power.
        self._halting: set[str] = set()
        self.warnings: list[str] = []

    def get(
        self, nodes: Iterable[Node], timeout_s: float, reset: bool = False, more: Iterable[str] = ()
    ) -> list[NodeSession]:
        """Lease these nodes, all or none, and bring them up. With ``reset`` they are rebooted even if they are up.

        ``more`` names further places to lease, such as the places of uplinks. Raises LabError, or QuarantineError.
        """
        wanted = list(nodes)
        self._check_service(wanted)
        self.leases.resume(wait=True)
        # If a place was lost unnoticed, lease it again; the state of its node is unknown then.
        self.lost(wanted)
        places = [*(node.place for node in wanted), *more]
        self._release_halting(places)
        with doing(f"lease {', '.join(places)}"):
            self.leases.acquire(places, timeout_s)
        # Another worker may have quarantined a node while this process waited for the lease.
        self._check_service(wanted)
        sessions = [self.session(node) for node in wanted]
        for session in sessions:
            # Kernel problems on the console of an idle node, since its last test.
            for finding in session.take_unreported() if session.ready else ():
                self.warnings.append(f"rebooted {finding.node} because of {finding.kind} between two tests {finding}")
                session.require_boot()
            if reset:
                session.require_boot()
        fresh = [session for session in sessions if session.reset_due or not session.ready]
        # Switch all nodes off before the first is switched on again, so that their off times overlap.
        for step in _STEPS:
            if step is NodeSession.log_in:
                self._release_halting(self._halting)
            for session in fresh:
                try:
                    with doing(f"{_STEPS[step]} {session.node.name}"):
                        step(session)
                except (CoordinatorError, LeaseError):
                    # These errors are not caused by the node, so it is not quarantined.
                    raise
                except LabError as error:
                    self._quarantine.add(session.node.name, error.message)
                    self.leases.release([session.node.place])
                    raise
        return sessions

    def _check_service(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            reason = self._quarantine.reason(node.name)
            if reason is not None:
                raise QuarantineError(f"{node.name} is skipped for the rest of this run: {reason}")

    def session(self, node: Node) -> NodeSession:
        """Return the session of a leased node. Raises ConfigError or CoordinatorError if labgrid makes no target."""
        if node.place not in self._sessions:
            session = self._sessions[node.place] = session_of(node, self._targets, self._on_wait, self._locks)
            if session.record is not None:
                session.record.assign(node.name, self._consoles / f"{node.name}.log" if self._consoles else None)
        return self._sessions[node.place]

    @property
    def address(self) -> str:
        """The address of labgrid's coordinator."""
        return self._targets.address

    def lost(self, nodes: Iterable[Node]) -> list[str]:
        """Return the names of the nodes that are no longer leased to us. Their power is not switched."""
        by_place = {node.place: node.name for node in nodes if node.place in self._sessions}
        gone = self.leases.lost(by_place)
        for place in sorted(gone):
            try:
                stays_on = self._sessions[place].abandon()
            except Exception as error:
                self.warnings.append(f"could not end the session of {by_place[place]}: {first_line(error)}")
            else:
                if stays_on:
                    self.warnings.append(f"{by_place[place]} stays switched on: this run has lost its place {place}")
        return sorted(by_place[place] for place in gone)

    def lost_places(self, places: Iterable[str]) -> set[str]:
        """Return the places that are no longer leased to us, among places without a node, such as uplinks."""
        return self.leases.lost(place for place in places if place not in self._sessions)

    def distrust(self, node: Node, reset: bool = False) -> None:
        """Log out of a node that stopped answering. Its next user logs in again, or reboots it (``reset``: a crash)."""
        self._leave([node.place])
        if reset and node.place in self._sessions:
            self._sessions[node.place].require_boot()

    def take_warnings(self) -> list[str]:
        """Return the warnings for the user since the last call, and clear them."""
        warnings, self.warnings = self.warnings, []
        for session in self._sessions.values():
            warnings += session.take_warnings()
        return warnings

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Give back all other nodes. If some are kept for a next test, its nodes boot while the others halt."""
        kept = {node.place for node in nodes}
        leaving = self.leases.held - kept
        self._for_each(NodeSession.begin_leave, self._ours(leaving))
        self._halting = {place for place in leaving if place in self._sessions and self._sessions[place].halts}
        self.leases.release(leaving - self._halting if kept else leaving)

    def _release_halting(self, places: Iterable[str]) -> None:
        """Wait until the nodes that halt at these places have halted, and give them back."""
        self.leases.release(self._halting & set(places))
        self._halting &= self.leases.held

    def _give_back(self, places: Iterable[str]) -> None:
        leaving = list(places)
        self._leave(leaving)
        for session in self._ours(leaving):
            for finding in session.take_unreported():
                self.warnings.append(f"{finding.kind} on {finding.node} after its last test {finding}")
            try:
                session.reboot_at_release()
            except Exception as error:
                self._locks.leave_to_guard(session.node)
                self.warnings.append(f"could not reboot {session.node.name}: {first_line(error)}")
        self._locks.release(leaving)

    def _leave(self, places: Iterable[str]) -> None:
        sessions = self._ours(places)
        for step in (NodeSession.begin_leave, NodeSession.leave):
            self._for_each(step, sessions)

    def _for_each(self, step: Callable[[NodeSession], None], sessions: Iterable[NodeSession]) -> None:
        for session in sessions:
            try:
                step(session)
            except Exception as error:
                warning = f"could not restore the original state of {session.node.name}: {first_line(error)}"
                # Both steps may fail for the same reason.
                self.warnings += [warning] if warning not in self.warnings else []

    def _ours(self, places: Iterable[str]) -> list[NodeSession]:
        """Return the sessions of these places that are still leased to us."""
        sessions = [self._sessions[place] for place in places if place in self._sessions]
        lost = set(self.lost(session.node for session in sessions))
        return [session for session in sessions if session.node.name not in lost]

    def close(self) -> None:
        """End all connections, after the nodes were given back."""
        try:
            self._targets.close()
        finally:
            self._locks.close()
            self.places.close()


class Quarantine:
    """Knows which nodes could not be brought up, and why. The workers of a run share ``folder`` (None: one process)."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._own: dict[str, str] = {}

    def add(self, node: str, reason: str) -> None:
        """Quarantine a node; the first reason stays."""
        reason = reason.strip()[:LONGEST_REASON]
        self._own.setdefault(node, reason)
        if self._folder is None:
            return
        draft = self._folder / f".{node}.{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(reason, encoding="utf-8", errors="replace")
            # The link appears with its full content, because other workers may read it at any time.
            os.link(draft, self._folder / node)
        except OSError:
            # Another worker was first, or the disk is full. If it is full, each worker finds out for itself.
            pass
        finally:
            with suppress(OSError):
                draft.unlink()

    def reason(self, node: str) -> str | None:
        """Return why the node is quarantined, or None if it is not."""
        if node not in self._own and self._folder is not None:
            try:
                self._own[node] = (self._folder / node).read_text(encoding="utf-8")
            except OSError:
                return None
        return self._own.get(node)
