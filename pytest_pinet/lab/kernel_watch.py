"""Turns what consoles say while a test runs into the error that it is, at once, whatever the test waits for."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from pytest_pinet.errors import InvalidMeasurement, KernelError, LabError, PinetError
from pytest_pinet.lab.console_record import ConsoleRecord, Finding
from pytest_pinet.lab.kernel_log import Kind

_POWER = "check the power supply of {node} and its cable: a board throttles below 4.63 V"
_PEER = "its kernel is not under test: mend {node} or its build, then repeat"


class KernelWatch:
    """Looks at the consoles of the nodes of one test, from its link on.

    A finding on a node ``under_test`` is a KernelError, which fails the test; on another node a LabError, since that
    kernel is not what is tested; an under-voltage on any is an InvalidMeasurement. May be asked by several threads.
    """

    def __init__(self, records: Mapping[str, ConsoleRecord], under_test: Collection[str]) -> None:
        self._records = dict(records)
        self._under_test = frozenset(under_test)
        self._lock = threading.Lock()
        self._armed = True
        self._began = datetime.now(UTC)
        self._told: set[str] = set()
        self._error: PinetError | None = None
        # Nodes whose kernel broke: they must be booted anew.
        self.broken: set[str] = set()
        for record in self._records.values():
            # A boot begins with one line, and may dip the supply for a moment; what lasts is asked for below.
            record.take((Kind.RESTART, Kind.UNDER_VOLTAGE))

    def check(self) -> None:
        """Raise what was found, again if need be: nobody can go on after it."""
        error = self._look() or self._error
        if error is not None:
            raise error

    def interrupt(self) -> None:
        """Raise what is found, but only once: to clean up, commands must run on what is left of the nodes."""
        if self._armed:
            self.last_look()

    def disarm(self) -> None:
        """From now on ``interrupt`` does nothing: what was changed on the nodes is about to be undone."""
        self._armed = False

    def last_look(self) -> None:
        """Raise what is found and was not raised before."""
        error = self._look()
        if error is not None:
            raise error

    def _look(self) -> PinetError | None:
        """The error for what was not found before, if there is something."""
        if not any(record.findings or record.under_voltage for record in self._records.values()):
            return None
        with self._lock:
            found: list[tuple[Finding, ConsoleRecord]] = []
            for node, record in self._records.items():
                # What follows the first is told by the lines around it.
                fresh = record.take() or ([record.under_voltage] if record.under_voltage else [])
                if any(finding.kind.blames_kernel for finding in fresh):
                    self.broken.add(node)
                if fresh and node not in self._told:
                    self._told.add(node)
                    found.append((fresh[0], record))
            if not found:
                return None
            first, record = min(found, key=lambda pair: pair[0].line.time)
            error = _error_of(first, record, first.node in self._under_test, first.line.time < self._began)
            self._error = self._error or error
            return error


def _error_of(finding: Finding, record: ConsoleRecord, under_test: bool, before: bool) -> PinetError:
    who = f"{finding.node} ({'device under test' if under_test else 'peer'})"
    if finding.kind is Kind.RESTART:
        # The kernel hung until the hardware watchdog took it, or the supply broke down: neither leaves a word.
        message = f"{who} restarted by itself {finding}"
    elif before and finding.kind is Kind.UNDER_VOLTAGE:
        message = f"{finding.kind} on {who} that lasts {finding}"
    else:
        message = f"{finding.kind} on {who} {finding}"
    error: PinetError
    if not finding.kind.blames_kernel:
        error = InvalidMeasurement(f"{message}\n  -> {_POWER.format(node=finding.node)}")
    elif under_test:
        error = KernelError(message)
    else:
        error = LabError(message, _PEER.format(node=finding.node))
    error.excerpt = record.excerpt(finding)
    return error
