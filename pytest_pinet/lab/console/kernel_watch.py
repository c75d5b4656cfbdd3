"""Watch the consoles while a test runs, and raise an error as soon as a kernel breaks, whatever the test waits for."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

from pytest_pinet.errors import InvalidMeasurement, KernelError, LabError, PinetError
from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind, KernelFinding

_POWER = "check the power supply of {node} and its cable: a board throttles below 4.63 V"
_PEER = "the kernel of a peer is not under test: repair {node} or the kernel that it boots itself, then repeat"


class KernelWatch:
    """Watches the consoles of the nodes of one test while its link is open.

    A kernel failure on a node in ``under_test`` is a KernelError, which fails the test. On another node it is a
    LabError, since that kernel is not under test. Under-voltage on any node is an InvalidMeasurement. Thread-safe.
    ``logs`` are the logs of the nodes without a console.
    """

    def __init__(
        self, records: Mapping[str, ConsoleRecord], under_test: Collection[str], logs: Iterable[SshKernelLog] = ()
    ) -> None:
        self._logs = {log.record.node: log for log in logs}
        self._records = {**records, **{node: log.record for node, log in self._logs.items()}}
        self._under_test = frozenset(under_test)
        self._lock = threading.Lock()
        self._armed = True
        self._began = datetime.now(UTC)
        self._reported: set[str] = set()
        self._error: PinetError | None = None
        # Nodes whose kernel broke; they must be rebooted.
        self.broken: set[str] = set()
        for record in self._records.values():
            # Every boot prints the RESTART line, and may cause a short under-voltage. `_look` finds an under-voltage
            # that lasts.
            record.take((KernelEventKind.RESTART, KernelEventKind.UNDER_VOLTAGE))

    def look(self) -> None:
        """Read the kernel messages of the nodes without a console. Raises SshError."""
        for log in self._logs.values():
            log.look()

    def restarted(self, node: str, shell: Shell | None) -> None:
        """Go on to watch a node that we booted. ``shell`` is None if it did not come up."""
        self._armed = True
        if isinstance(self._error, InvalidMeasurement):
            # It has ended what was measured before the boot.
            self._error = None
            self._reported.clear()
        self._records[node].take((KernelEventKind.RESTART, KernelEventKind.UNDER_VOLTAGE))
        if shell is None:
            self._logs.pop(node, None)
            return
        if node in self._logs:
            self._logs[node].restarted(shell)

    def check(self) -> None:
        """Raise the error of a finding. Later calls raise the first error again, because the test must not go on."""
        error = self._look() or self._error
        if error is not None:
            raise error

    def interrupt(self) -> None:
        """Raise each error only once, because the cleanup must still run commands on the nodes."""
        if self._armed:
            self.last_look()

    def disarm(self) -> None:
        """Make ``interrupt`` do nothing from now on, because the changes on the nodes are about to be undone."""
        self._armed = False

    def last_look(self) -> None:
        """Raise an error that was found but not raised before."""
        error = self._look()
        if error is not None:
            raise error

    def _look(self) -> PinetError | None:
        if not any(record.findings or record.under_voltage for record in self._records.values()):
            return None
        with self._lock:
            found: list[tuple[KernelFinding, ConsoleRecord]] = []
            for node, record in self._records.items():
                # Only the first finding of a node is reported; its excerpt shows what followed.
                fresh = record.take() or ([record.under_voltage] if record.under_voltage else [])
                if any(finding.kind.blames_kernel for finding in fresh):
                    self.broken.add(node)
                if fresh and node not in self._reported:
                    self._reported.add(node)
                    found.append((fresh[0], record))
            if not found:
                return None
            first, record = min(found, key=lambda pair: pair[0].line.time)
            error = _error_of(first, record, first.node in self._under_test, first.line.time < self._began)
            self._error = self._error or error
            return error


def _error_of(finding: KernelFinding, record: ConsoleRecord, under_test: bool, before: bool) -> PinetError:
    who = f"{finding.node} ({'device under test' if under_test else 'peer'})"
    if finding.kind is KernelEventKind.RESTART:
        # The cause is a hang ended by the hardware watchdog, or a supply that broke down. Neither prints a message.
        message = f"{who} restarted by itself {finding}"
    elif before and finding.kind is KernelEventKind.UNDER_VOLTAGE:
        message = f"{finding.kind} on {who} since before the test, reported {finding}"
    else:
        message = f"{finding.kind} on {who} {finding}"
    error: PinetError
    if not finding.kind.blames_kernel:
        error = InvalidMeasurement(message, _POWER.format(node=finding.node))
    elif under_test:
        error = KernelError(message, node=finding.node)
    else:
        error = LabError(message, _PEER.format(node=finding.node))
    return error.with_excerpt(record.excerpt(finding))


# The log's own time stamps select the new lines: no change of a clock affects them.
_SINCE = r"""awk -v t=%s '{ s = $0; sub(/^[^[]*\[ */, "", s); if (s + 0 > t + 0) print }'"""
_LAST = r"""sed -n 's/^[^[]*\[ *\([0-9.]*\)\].*/\1/p' | tail -n 1"""


class SshKernelLog:
    """The kernel messages of ``node`` since this object was made, as a record of a console has them.

    A kernel that dies is not seen, since it does not answer over ssh. The constructor raises SshError.
    """

    def __init__(self, node: str, shell: Shell) -> None:
        self.record = ConsoleRecord(node)
        self._shell = shell
        self._since = self._read(_LAST).strip() or "0"

    def restarted(self, shell: Shell) -> None:
        """Look at the log of another boot from now on."""
        self._shell, self._since = shell, "0"

    def look(self) -> None:
        """Add the messages since the last look. Raises SshError."""
        new = self._read(_SINCE % self._since)
        if new:
            self.record.feed(new.encode())
            self._since = self._read(_LAST).strip() or self._since

    def _read(self, selected: str) -> str:
        # On Debian only root can read the log.
        return self._shell.run(as_root(f"dmesg | {selected}")).stdout
