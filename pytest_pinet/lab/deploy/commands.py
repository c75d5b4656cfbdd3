"""Commands that change a board's files: they run as root, one at a time, even after the caller's connection is gone."""

from __future__ import annotations

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.deploy.deploy_target import FeedingShell
from pytest_pinet.tuning.files import reason

# Held until the last process of a command has ended. A recovery after a crash waits for such processes.
LOCK = "/run/pytest-pinet.lock"
LOCK_TIMEOUT_S = 300
# The slowest commands make an initramfs or write a card.
COPY_TIMEOUT_S = 300.0


def locked(command: str) -> str:
    """Return the command line that becomes root and runs the command while holding our lock."""
    taken = f"exec 9>>{LOCK} && if command -v flock >/dev/null; then flock -w {LOCK_TIMEOUT_S} 9; fi"
    return as_root(f"{taken} && {{ {command}; }}")


def run_as_root(shell: FeedingShell, command: str, what: str, timeout_s: float = COPY_TIMEOUT_S) -> None:
    """Run the command as root under the lock. Raises LabError if the command fails, and SshError."""
    done = shell.run(locked(command), timeout_s=timeout_s)
    if done.returncode:
        why = reason(done.stderr or done.stdout)
        raise LabError(f"{shell.name} cannot {what}: {why}", f"look at the card of {shell.name}")
