"""The kernel log of a node without a serial console: read over ssh, before and after its use."""

from __future__ import annotations

from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.lab.console.record import ConsoleRecord

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

    def look(self) -> None:
        """Add the messages since the last look. Raises SshError."""
        new = self._read(_SINCE % self._since)
        if new:
            self.record.feed(new.encode())
            self._since = self._read(_LAST).strip() or self._since

    def _read(self, selected: str) -> str:
        # On Debian only root can read the log.
        return self._shell.run(as_root(f"dmesg | {selected}")).stdout
