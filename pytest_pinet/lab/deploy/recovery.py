"""The undo of a build's files, at whatever point its deployment stopped: scripts in a journal beside the boot files.

The next lease finds and removes what an interrupted process left.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_pinet.builds.config_txt import TRYBOOT
from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.deploy.board import COPY_TIMEOUT_S, PLACES, SUMS, PartitionAccess, locked
from pytest_pinet.lab.deploy.card import OURS
from pytest_pinet.lab.deploy.known_good import COPY, HEADER, firmware_folder, folder_of
from pytest_pinet.lab.deploy.root_files import config_undo, parked
from pytest_pinet.lab.deploy.trial import PATH, REMOVED
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import MARKER, Build
from pytest_pinet.tuning.journal import replay

# A file of this name becomes tryboot.txt when it is complete.
DRAFT = f"{TRYBOOT}.pytest-pinet.new"
# Clear the request for a trial boot; see ARM in boot.py.
DISARM = "if command -v vcmailbox >/dev/null; then vcmailbox 0x00038064 4 0 0 >/dev/null 2>&1; fi; true"


def journal_of(folder: str) -> str:
    """Return the journal's folder on the boot partition, which survives every boot."""
    return f"{folder}/{OURS}/journal"


def undo_script(folder: str, build: Build) -> str:
    """Return a script that removes all files of a build, at whatever point its deployment stopped."""
    ours = f"{folder}/{folder_of(build)}"
    tryboot = (
        f"cd {folder} && rm -f {DRAFT} {SUMS} && if [ -e {TRYBOOT} ] && grep -qF {shlex.quote(HEADER)}"
        # The request first: with the request, and without the file, the firmware would find nothing to boot.
        f" {TRYBOOT}; then {DISARM}; rm -f {TRYBOOT}; fi"
    )
    return f"{tryboot} && rm -rf {ours} {ours}.new && {root_undo(build)} && sync"


def root_undo(build: Build) -> str:
    """Return a script that removes the build's files on the root file system.

    It does nothing on a machine without these files, such as a TFTP server.
    """
    ours = PurePosixPath(firmware_folder(build)).parent
    steps = [REMOVED, f"rm -rf {ours} {parked(build.key)}", f"{{ rmdir {ours.parent} 2>/dev/null || true; }}"]
    if build.release:
        mark = f"/lib/modules/{build.release}/.{OURS}"
        steps.append(config_undo(build.release))
        steps.append(f'if [ "$(cat {mark} 2>/dev/null)" = {build.key} ]; then rm -rf /lib/modules/{build.release}; fi')
    return " && ".join(steps)


def recover(shell: SshShell, folders: tuple[str, ...]) -> list[str]:
    """Undo what the journals in these folders contain; return what could not be undone. Raises SshError."""
    failed: list[str] = []
    for folder in folders:
        found = shell.run(as_root(f"[ ! -d {folder}/{OURS} ] || echo yes"))
        if found.stdout.strip() != "yes":
            continue
        # The lock waits for commands that a crashed process left running.
        shell.run(locked("true", shell.fence), timeout_s=COPY_TIMEOUT_S)
        failed += replay(shell, journal_of(folder), COPY_TIMEOUT_S).failed
        if not failed:
            shell.run(locked(f"rm -rf {folder}/{OURS}; sync", shell.fence), timeout_s=COPY_TIMEOUT_S)
    return failed


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


def put_back(shell: SshShell, server: PartitionAccess | None = None) -> Leftover:
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
