"""Edit the boot files of a Raspberry Pi (config.txt, cmdline.txt), and restore the originals.

The originals are kept in the same folder of the boot partition, because only that partition survives the reboot.
If a process crashes, the next process that logs in finds the originals and restores them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.tuning.files import reason
from pytest_pinet.tuning.setting import NoKnob

# Raspberry Pi OS Bookworm and later keep both files in the first folder. The second then holds a note of the move.
FOLDERS = ("/boot/firmware", "/boot")
CONFIG, CMDLINE = "config.txt", "cmdline.txt"
# Suffix of the copy of each original file.
KEPT = ".pytest-pinet"
# Suffix of a file that is still being written.
_NEW = f"{KEPT}.new"
_HEADER = "# By pytest-pinet, for a test: the original is the file *.pytest-pinet"
_END = "=====8<====="
# Copies both originals, once. An empty copy means that the file did not exist.
_ASIDE = (
    f"aside() {{ [ -e $1{KEPT} ] || {{ {{ [ ! -e $1 ] || cat $1; }} > $1{_NEW} && sync && mv $1{_NEW} $1{KEPT}; }}; }}"
    f" && aside {CMDLINE} && aside {CONFIG}"
)
# An SD card can be slow.
WRITE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class BootFiles:
    """The contents of both files of one folder."""

    folder: str
    config: str
    cmdline: str

    def with_config(self, *lines: str) -> BootFiles:
        """Return files with ``lines`` at the end of config.txt, for every board. The last line of a setting counts."""
        start = self.config if not self.config or self.config.endswith("\n") else f"{self.config}\n"
        header = "" if _HEADER in start else f"\n{_HEADER}\n[all]\n"
        return replace(self, config=start + header + "".join(f"{line}\n" for line in lines))

    def with_parameters(self, parameters: Sequence[str]) -> BootFiles:
        """Return files with ``parameters`` on the first line of cmdline.txt. The firmware reads only this line."""
        first, _, rest = self.cmdline.partition("\n")
        words = first.split()
        line = " ".join([first.rstrip(), *(word for word in parameters if word not in words)]).strip()
        return replace(self, cmdline=f"{line}\n{rest}")


def read_original(shell: Shell, folders: Sequence[str] = FOLDERS) -> BootFiles:
    """Return the original files, without our changes. Raises NoKnob if the node has no such files, SshError."""
    refused = ""
    for folder in folders:
        done = shell.run(
            as_root(
                f"cd {folder} 2>/dev/null && [ -f {CONFIG} ] && for f in {CONFIG} {CMDLINE}; do"
                f' if [ -f "$f{KEPT}" ]; then cat "$f{KEPT}"; else cat "$f" 2>/dev/null; fi; echo "{_END}"; done'
            )
        )
        parts = done.stdout.split(f"{_END}\n")
        if done.returncode == 0 and len(parts) > 1:
            return BootFiles(folder, parts[0], parts[1])
        refused = refused or done.stderr.strip()
    if refused:
        raise NoKnob(f"{shell.name} does not allow reading its boot files: {reason(refused)}")
    raise NoKnob(
        f"{shell.name} has no {CONFIG} in {' or '.join(folders)}: it is not booted by the firmware of a Raspberry Pi"
    )


def write(shell: Shell, files: BootFiles) -> None:
    """Save the originals, then replace each file atomically.

    Raises LabError, SshError.
    """
    steps = [f"cd {files.folder}", _ASIDE]
    for name, content in ((CONFIG, files.config), (CMDLINE, files.cmdline)):
        if content:
            steps.append(f"printf %s {shlex.quote(content)} > {name}{_NEW} && sync && mv {name}{_NEW} {name}")
    done = shell.run(as_root(" && ".join([*steps, "sync"])), timeout_s=WRITE_TIMEOUT_S)
    if done.returncode:
        put_back(shell, (files.folder,))
        why = reason(done.stderr)
        raise LabError(
            f"{shell.name} cannot change {files.folder}/{CONFIG}: {why}", f"look at the card of {shell.name}"
        )


def left_behind(shell: Shell, folders: Sequence[str] = FOLDERS) -> str | None:
    """Return the folder of boot files that were changed and not restored, or None. Raises SshError."""
    kept = [f"{folder}/{name}{KEPT}" for folder in folders for name in (CONFIG, CMDLINE)]
    tests = "; ".join(f"[ ! -e {path} ] || dirname {path}" for path in kept)
    return next(iter(shell.run(as_root(tests)).stdout.split()), None)


def put_back(shell: Shell, folders: Sequence[str] = FOLDERS) -> bool:
    """Restore both original files. Return whether there was anything to restore. Raises LabError, SshError."""
    folder = left_behind(shell, folders)
    if folder is None:
        return False
    steps = [
        f"{{ [ ! -e {name}{KEPT} ] || if [ -s {name}{KEPT} ]; then mv {name}{KEPT} {name};"
        f" else rm -f {name} {name}{KEPT}; fi; }}"
        for name in (CMDLINE, CONFIG)
    ]
    done = shell.run(
        as_root(" && ".join([f"cd {folder}", f"rm -f {CONFIG}{_NEW} {CMDLINE}{_NEW}", *steps, "sync"])),
        timeout_s=WRITE_TIMEOUT_S,
    )
    if done.returncode:
        raise LabError(
            f"{shell.name} cannot restore {folder}/{CONFIG}: {reason(done.stderr)}",
            f"on {shell.name}: mv {folder}/{CONFIG}{KEPT} {folder}/{CONFIG}, the same for {CMDLINE}; then reboot",
        )
    return True
