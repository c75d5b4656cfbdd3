"""A journal of undo scripts on the node, so that a crash of our process does not lose them.

Each entry is a shell script. It is written before its change and removed after its undo. A boot resets the settings
and also empties the journal's folder. The next lease of the node runs the remaining scripts.
"""

from __future__ import annotations

import itertools
import shlex
import time
from dataclasses import dataclass

from pytest_pinet.execution.shell import Shell, as_root, reason

FOLDER = "/run/pytest-pinet/tunings"
REPLAY_TIMEOUT_S = 30.0
_DONE, _FAILED = "done", "failed"
_numbers = itertools.count()


@dataclass(frozen=True)
class JournalEntry:
    """The undo of one change. ``what`` names the change (``mtu of pi4b-1:usb``), ``script`` undoes it."""

    name: str
    what: str
    script: str
    folder: str = FOLDER

    @classmethod
    def new(cls, what: str, script: str, folder: str = FOLDER) -> JournalEntry:
        """Return an entry whose name sorts after all earlier entries."""
        return cls(new_name(), what, script, folder)

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    def kept(self) -> str:
        """Return the root command that writes the entry atomically."""
        lines = f"# {self.what}\n{self.script}\n"
        path = self.path
        # The next user must be able to read the entries, whatever the umask of root is.
        made = f"{{ [ -d {self.folder} ] || (umask 022; mkdir -p {self.folder}); }}"
        return f"{made} && printf %s {shlex.quote(lines)} > {path}.new && mv {path}.new {path}"

    def undone(self) -> str:
        """Return the root command that undoes the change and removes the entry. If the undo fails, the entry stays.

        A missing entry means that there was no change: the process was interrupted before it.
        """
        return f"[ ! -e {self.path} ] || {{ sh {self.path} && rm -f {self.path}; }}"

    def forgotten(self) -> str:
        return f"rm -f {self.path}"


def new_name() -> str:
    """Return a name that sorts after all earlier names."""
    return f"{time.time_ns() // 1000:017d}-{next(_numbers):04d}"


def all_undone(folder: str) -> str:
    """Return the root command that undoes all entries in the folder, the latest first.

    It prints a line for each entry. The entry of an undo that fails stays.
    """
    return (
        f"LC_ALL=C; export LC_ALL; cd {folder} || exit; rm -f ./*.new; for f in $(ls -r); do"
        ' what=$(head -n 1 "$f"); if error=$(sh "./$f" 2>&1 </dev/null); then rm -f "$f"; error=; word=done;'
        ' else word=failed; fi; echo "$word $what: $(echo $error)"; done'
    )


@dataclass(frozen=True)
class Replayed:
    """The changes that were left on a node: those restored, and those not restored with the reason."""

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def replay(shell: Shell, folder: str = FOLDER, timeout_s: float = REPLAY_TIMEOUT_S) -> Replayed:
    """Undo the changes that a crashed process left, the latest first. Raises SshError.

    The entry of an undo that fails stays in the journal. A boot then resets the setting.
    """
    # A boot partition may be readable for root only.
    listing = shell.run(f"ls {folder} 2>/dev/null || {as_root(f'ls {folder} 2>/dev/null')}")
    if not listing.stdout.strip():
        return Replayed()
    done = shell.run(as_root(all_undone(folder)), timeout_s=timeout_s)
    if done.returncode:
        return Replayed(failed=(f"the entries of {folder} ({reason(done.stderr)})",))
    found: dict[str, list[str]] = {_DONE: [], _FAILED: []}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" # ")
        what, _, error = rest.rpartition(": ") if word == _DONE else rest.partition(": ")
        if word in found:
            found[word].append(what if word == _DONE else f"{what} ({reason(error)})")
    return Replayed(tuple(found[_DONE]), tuple(found[_FAILED]))
