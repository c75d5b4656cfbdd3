"""What the checks share: their findings as text and JSON, the nodes that can still be checked, and all undo steps."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from pytest_pinet.errors import (
    ConfigError,
    ConsoleError,
    LabError,
    LeaseError,
    PinetError,
    SshError,
    UnsupportedError,
    first_line,
)
from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.judge.hardware import identify
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Holding, Identity
from pytest_pinet.lab.link.end import with_devices
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.hardware import FoundBoard
from pytest_pinet.model.lab import Interface, Lab, Node

WIDTH = 80
_NAME_WIDTH = 23
_INDENT = " " * 7


class Status(StrEnum):
    """The result of a check, the least severe first.

    ``unknown`` is neither good nor bad: the lab gives no information about it. ``not checked``: an earlier check that
    this one depends on has failed.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    NOT_CHECKED = "not checked"
    WRONG = "wrong"


# The status of a node is the last of these among its findings.
SEVERITY = tuple(Status)
_MARKS = {Status.OK: "ok", Status.UNKNOWN: "?", Status.NOT_CHECKED: "-", Status.WRONG: "BAD"}


@dataclass(frozen=True)
class Finding:
    """One result of one check: of a node, or (``node`` None) of the lab as a whole.

    ``act`` says who fixes a fault and with which command. ``mistake`` marks an error in what the user wrote. ``shown``:
    the message is printed although nothing is wrong.
    """

    status: Status
    node: str | None = None
    message: str = ""
    act: str = ""
    mistake: bool = False
    shown: bool = False

    @classmethod
    def of(cls, error: Exception, node: str | None = None) -> Finding:
        """Return the finding of an error: wrong, or unknown if the hardware gives no information."""
        if isinstance(error, ConfigError):
            return cls(Status.WRONG, node, str(error), mistake=True)
        if isinstance(error, LabError):
            return cls(Status.WRONG, node, error.message, error.act)
        return cls(Status.UNKNOWN if isinstance(error, UnsupportedError) else Status.WRONG, node, str(error))

    def as_json(self, check: str) -> dict[str, str | None]:
        """Return one entry of ``pinet doctor --json``."""
        entry = {"check": check, "status": str(self.status), "node": self.node}
        return {**entry, "message": self.message, "act": self.act}


def lines(check: str, findings: Sequence[Finding]) -> list[str]:
    """Return the lines of one check, at most 80 columns if the words can be wrapped."""
    names = dict.fromkeys(finding.node for finding in findings)
    worst = {name: max((one.status for one in findings if one.node == name), key=SEVERITY.index) for name in names}
    nodes = {name: status for name, status in worst.items() if name is not None}
    statuses = set(worst.values())
    mark = Status.OK
    if Status.WRONG in statuses:
        mark = Status.WRONG
    elif statuses == {Status.NOT_CHECKED}:
        mark = Status.NOT_CHECKED
    elif Status.UNKNOWN in statuses:
        mark = Status.UNKNOWN
    head = f"{_MARKS[mark]:<5}{check:<{_NAME_WIDTH}}{_summary(nodes, findings)}".rstrip()
    return [*_wrap(head, " " * (5 + _NAME_WIDTH)), *_details(findings, nodes), *_not_checked(findings)]


def _summary(nodes: Mapping[str, Status], findings: Sequence[Finding]) -> str:
    if not nodes:
        prefixes = {Status.OK: "", Status.NOT_CHECKED: "not checked: "}
        return "; ".join(
            prefixes[finding.status] + finding.message for finding in findings if finding.status in prefixes
        )
    counts = Counter(nodes.values())
    messages = {"" if finding.shown else finding.message for finding in findings}
    more = f": {messages.pop()}" if len(messages) == 1 and messages != {""} else ""
    if set(counts) == {Status.OK}:
        return f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}{more}"
    if set(counts) == {Status.NOT_CHECKED}:
        return f"{len(nodes)} {Status.NOT_CHECKED}{more}"
    return ", ".join(f"{counts[status]} {status}" for status in SEVERITY if counts[status])


def _details(findings: Sequence[Finding], nodes: Mapping[str, Status]) -> list[str]:
    found = []
    if nodes:
        # The first line counts nodes, and has no room for what holds for the lab.
        notes = [one.message for one in findings if one.node is None and one.status is Status.OK and one.message]
        found += [line for note in notes for line in _wrap(f"{_INDENT}{note}", _INDENT + "  ")]
    # Nodes with the same message share a line.
    groups = grouped(
        ((one.message, one.act), one.node or "")
        for status in (Status.WRONG, Status.UNKNOWN, Status.OK)
        for one in findings
        if one.status is status and (one.shown or status is not Status.OK)
    )
    for (message, act), names in groups.items():
        named = names == [""] or (len(names) == 1 and names[0] in message)
        found += _wrap(f"{_INDENT}{'' if named else _shared(names, nodes) + ': '}{message}", _INDENT + "  ")
        if act:
            found += _wrap(f"{_INDENT}  -> {act}", _INDENT + "     ")
    return found


def _not_checked(findings: Sequence[Finding]) -> list[str]:
    """Return one line for all findings that were not checked; none if the first line already says it."""
    left = [finding for finding in findings if finding.status is Status.NOT_CHECKED]
    if not left or (len(left) == len(findings) and len({finding.message for finding in left}) == 1):
        return []
    words = ", ".join(f"{finding.node} ({finding.message})" for finding in left)
    return _wrap(f"{_INDENT}{Status.NOT_CHECKED}: {words}", _INDENT + "  ")


def _shared(names: Sequence[str], nodes: Mapping[str, Status]) -> str:
    if len(names) > 1 and len(set(names)) == len(nodes):
        return f"all {len(nodes)}"
    return ", ".join(dict.fromkeys(names))


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


# Returns what is wrong with a node, or unknown. A node without a finding is ok.
NodeCheck = Callable[[Node], Iterable[Finding]]
_THREADS = 16


class Bench:
    """The checks of ``nodes``, with the ``access`` to their lab. ``blocked`` says why a node is not checked further."""

    def __init__(self, lab: Lab, nodes: Sequence[Node], on_wait: Callable[[str], None]) -> None:
        self.lab = lab
        self.nodes = nodes
        self.access = LabAccess(lab, Identity.of_this_process("doctor"), 0.0, on_wait)
        self.blocked: dict[str, str] = {}
        # What each node is, from the ssh check on.
        self.boards: dict[str, FoundBoard] = {}
        # The state of each interface at the time of the link check.
        self.states: dict[Interface, InterfaceState] = {}
        # The deadlines of the nodes that the power check has switched on.
        self.boots: dict[str, Deadline] = {}
        # Errors of consoles that could not be opened before their nodes were powered on.
        self.refused: dict[str, ConsoleError] = {}
        self.undo = UndoStack()
        self._failed_switches: dict[str, PinetError] = {}

    @property
    def ready(self) -> list[Node]:
        """The nodes that are not blocked."""
        return [node for node in self.nodes if node.name not in self.blocked]

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces of the ready nodes, in the order of the lab file. An interface without its NIC is left out."""
        return [interface for node in self.ready for interface in node.interfaces]

    @property
    def coordinator(self) -> Coordinator | None:
        """labgrid's coordinator; None for a lab without one."""
        places = self.access.pool.places
        return places if isinstance(places, Coordinator) else None

    def lease(self, nodes: Iterable[Node]) -> dict[str, Holding | LeaseError | SshError]:
        """Lease the places that are free now. Return the holder, or the error, for each other node."""
        wanted = list(nodes)
        missing = self.access.pool.leases.acquire_free(node.place for node in wanted)
        return {node.name: missing[node.place] for node in wanted if node.place in missing}

    def session(self, node: Node) -> NodeSession:
        """Return the session of a leased node. Raises ConfigError or CoordinatorError if labgrid makes no target."""
        return self.access.pool.session(node)

    def shell(self, node: str) -> Shell:
        """Return a node's ssh shell; valid after the ssh check has passed."""
        return self.session(self.lab.nodes[node]).shell

    def switch(self, name: str) -> ManagedSwitch:
        """Return a switch of the lab. Raises LabError or ConfigError, the same error each time."""
        if name in self._failed_switches:
            raise self._failed_switches[name]
        try:
            switch = self.access.switch(name)
            # Reading the capabilities here detects a switch that does not answer, only once.
            _ = switch.capabilities
        except PinetError as error:
            self._failed_switches[name] = error
            raise
        return switch

    def find_nics(self) -> None:
        """Find the NICs of the nodes in ``boards``. From now on, interfaces have the devices of their NICs.

        An interface whose NIC is not that of the lab file is left out of ``nodes``: all other checks would judge
        another NIC.
        """
        named = {
            node.name: with_devices(node, self.boards[node.name]) for node in self.nodes if node.name in self.boards
        }
        self.lab = replace(self.lab, nodes={name: named.get(name, node) for name, node in self.lab.nodes.items()})
        self.nodes = [self._with_nics(self.lab.nodes[node.name]) for node in self.nodes]

    def _with_nics(self, node: Node) -> Node:
        board = self.boards.get(node.name)
        there = (i for i in node.interfaces if board is None or not identify(node, i, board)[1])
        return replace(node, interfaces=tuple(there))

    def in_parallel(self, look: NodeCheck) -> list[Finding]:
        """Check all ready nodes at once. ``look`` must not use labgrid (one thread). An error is a finding, too."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return [finding for found in pool.map(partial(_guarded, look), self.ready) for finding in found]

    def one_by_one(self, look: NodeCheck) -> list[Finding]:
        """Check all ready nodes one after the other. An error is a finding, too."""
        return [finding for node in self.ready for finding in _guarded(look, node)]

    def close(self) -> list[str]:
        """Restore the lab. Return a message for each thing that could not be restored."""
        # The findings of the checks have what the nodes said until now.
        self.access.take_warnings()
        warnings = []
        try:
            warnings += self.undo.close(self.access.lost(self.nodes))
        except Exception as error:
            warnings.append(f"could not undo all changes: {first_line(error)}")
        finally:
            warnings += self.access.close()
        return warnings


def _guarded(look: NodeCheck, node: Node) -> list[Finding]:
    try:
        return list(look(node))
    except PinetError as error:
        return [Finding.of(error, node.name)]


@contextmanager
def open_bench(
    lab: Lab,
    nodes: Sequence[Node],
    on_wait: Callable[[str], None],
    on_close: Callable[[list[str]], None],
) -> Iterator[Bench]:
    """Open a bench that is always closed again. ``on_close`` gets the messages of things that could not be undone."""
    bench = Bench(lab, nodes, on_wait)
    try:
        yield bench
    finally:
        on_close(bench.close())
