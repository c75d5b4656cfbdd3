"""Commands that change a board's files: as root, one at a time, also when whoever asked for one is gone."""

from __future__ import annotations

from pytest_pinet.errors import LabError
from pytest_pinet.lab.deploy.way import FeedingShell
from pytest_pinet.shell import as_root
from pytest_pinet.tuning.files import reason

# Held until the last process of a command has ended: who recovers after a crash waits for what it left running.
LOCK = "/run/pytest-pinet.lock"
LOCK_TIMEOUT_S = 300
# The slowest is an initramfs, or a card that is written.
COPY_TIMEOUT_S = 300.0


def locked(command: str) -> str:
    """The command line, for anybody who may become root, that runs it while no other of ours runs."""
    taken = f"exec 9>>{LOCK} && if command -v flock >/dev/null; then flock -w {LOCK_TIMEOUT_S} 9; fi"
    return as_root(f"{taken} && {{ {command}; }}")


def run_as_root(shell: FeedingShell, command: str, what: str, timeout_s: float = COPY_TIMEOUT_S) -> None:
    """Raises LabError where the command fails, SshError."""
    done = shell.run(locked(command), timeout_s=timeout_s)
    if done.returncode:
        why = reason(done.stderr or done.stdout)
        raise LabError(f"{shell.name} cannot {what}: {why}", f"look at the card of {shell.name}")
