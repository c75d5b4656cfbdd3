"""The undo of a build's files, at whatever point its deployment stopped: scripts in a journal beside the boot files."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from pytest_pinet.builds.config_txt import TRYBOOT
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.deploy.card import OURS
from pytest_pinet.lab.deploy.commands import COPY_TIMEOUT_S, SUMS, locked
from pytest_pinet.lab.deploy.deploy_target import FeedingShell
from pytest_pinet.lab.deploy.known_good import HEADER, firmware_folder, folder_of
from pytest_pinet.lab.deploy.root_files import config_undo, parked
from pytest_pinet.lab.deploy.trial_guard import REMOVED
from pytest_pinet.model.build import Build
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


def recover(shell: FeedingShell, folders: tuple[str, ...]) -> list[str]:
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
