"""Find and remove what an interrupted process left of a build under test."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.deploy.boot import COPY
from pytest_pinet.lab.deploy.boot_file_store import PLACES, PartitionAccess
from pytest_pinet.lab.deploy.boot_undo import DISARM, recover
from pytest_pinet.lab.deploy.card import OURS
from pytest_pinet.lab.deploy.commands import COPY_TIMEOUT_S, locked
from pytest_pinet.lab.deploy.deploy_target import FeedingShell
from pytest_pinet.lab.deploy.root_files import parked
from pytest_pinet.lab.deploy.trial_guard import PATH, REMOVED
from pytest_pinet.model.build import MARKER

_ROOT = (
    f"for m in /lib/modules/*/.{OURS}; do [ ! -e $m ] || rm -rf ${{m%/*}}; done;"
    f" rm -rf {parked('*')} /var/lib/{OURS}; {REMOVED}; sync"
)


@dataclass(frozen=True)
class Leftover:
    """What was found on a board.

    ``build`` is the key of a build that still runs. ``files`` says whether files were found. ``failed`` names what
    could not be removed.
    """

    build: str = ""
    files: bool = False
    failed: tuple[str, ...] = ()

    def sentences(self, node: str) -> list[str]:
        booted = ", and booted the known-good build" if self.build else ""
        how = "partly removed" if self.failed else "removed"
        what = "boot tuning or trial boot" if self.build == COPY.key else "build under test"
        text = f"{how} the {what} that an interrupted run left on {node}{booted}"
        return [text] * bool(self.build or self.files) + [
            f"could not remove {what} from {node}" for what in self.failed
        ]


def put_back(shell: FeedingShell, server: PartitionAccess | None = None) -> Leftover:
    """Remove the files of left-over builds. A build that still runs ends with the next boot. Raises SshError.

    ``server`` is the TFTP server that has the boot files of the board, if it boots from the network.
    """
    on_root = [f"/lib/modules/*/.{OURS}", parked("*"), f"/var/lib/{OURS}", PATH]
    ours = " ".join([*(f"{folder}/{OURS}" for folder in PLACES), *on_root])
    # A boot partition may be readable for root only.
    done = shell.run(
        as_root(
            f"tr ' ' '\\n' < /proc/cmdline | sed -n 's/^{MARKER}=/running /p';"
            f" for f in {ours}; do [ ! -e $f ] || echo files; done; {DISARM}"
        )
    )
    build, files = "", False
    for line in done.stdout.splitlines():
        word, _, key = line.partition(" ")
        build = key if word == "running" else build
        files = files or word == "files"
    failed: list[str] = []
    if files:
        failed = recover(shell, PLACES)
        removed = shell.run(locked(_ROOT, shell.fence), timeout_s=COPY_TIMEOUT_S)
        failed += ["its modules"] if removed.returncode else []
    if server is not None:
        there = " ".join(f"{folder}/{OURS}" for folder in server.folders)
        try:
            found = bool(server.shell.run(f"ls -d {there} 2>/dev/null").stdout.strip())
            failed += recover(server.shell, server.folders) if found else []
        except SshError as error:
            found, failed = True, [*failed, f"the boot files on {server.shell.name} ({error.message})"]
        files = files or found
    return Leftover(build, files, tuple(failed))
