"""Find the iperf3 of an end and what else a run needs there, once per session."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.errors import TrafficError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.traffic.iperf3_version import Version
from pytest_pinet.traffic.process_guard import ASK_TIMEOUT, TIMEOUTS

# The last two lines are the form of timeout and the congestion controls. Each may be empty.
_ASK = (
    f"iperf3 --version; r=$?; echo; {ASK_TIMEOUT} || echo; "
    "cat /proc/sys/net/ipv4/tcp_available_congestion_control 2>/dev/null || echo; exit $r"
)


@dataclass(frozen=True)
class Tool:
    """The iperf3 of an end, the congestion controls that its kernel has loaded, and its form of ``timeout``."""

    version: Version
    congestion: frozenset[str]
    timeout: str = TIMEOUTS[0]


class Tools:
    """Remembers the iperf3 of each shell's end."""

    def __init__(self) -> None:
        # The key is the shell's id. The value keeps the shell alive, so that no other shell gets this id.
        self._known: dict[int, tuple[Shell, Tool]] = {}

    def of(self, shell: Shell) -> Tool:
        """Return the iperf3 of an end. Raises TrafficError if there is none."""
        if id(shell) not in self._known:
            self._known[id(shell)] = (shell, _ask(shell))
        return self._known[id(shell)][1]

    def forget(self, shell: Shell) -> None:
        """Forget an end that booted something else, so that it is queried again."""
        self._known.pop(id(shell), None)


def _ask(shell: Shell) -> Tool:
    done = shell.run(_ASK)
    try:
        version = Version.parse(done.stdout)
    except ValueError:
        if done.returncode == 127:
            raise TrafficError(
                f"{shell.name} has no iperf3", f"on {shell.name}: install the package iperf3", done.stderr
            ) from None
        raise TrafficError(
            f"'iperf3 --version' on {shell.name} gives no version (exit status {done.returncode})",
            f"install iperf3 3.7 or newer on {shell.name}",
            done.stdout + done.stderr,
        ) from None
    timeout, congestion = ["", "", *done.stdout.splitlines()][-2:]
    return Tool(version, frozenset(congestion.split()), timeout if timeout in TIMEOUTS else "")
