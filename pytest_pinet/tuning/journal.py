"""What takes settings back, kept on the node itself while they are changed, so that a crash of ours does not lose it.

Each entry is a shell script, written before its change and removed after its undo, in a folder that a boot empties as
it empties the settings. Whoever leases the node next runs what is left.
"""

from __future__ import annotations

import itertools
import shlex
import time
from dataclasses import dataclass

from pytest_pinet.shell import Shell, as_root
from pytest_pinet.tuning.files import reason

FOLDER = "/run/pytest-pinet/tunings"
REPLAY_TIMEOUT_S = 30.0
_DONE, _FAILED = "done", "failed"
_numbers = itertools.count()


@dataclass(frozen=True)
class Entry:
    """One change: ``what`` names it (``mtu of pi4b-1:usb``), ``script`` takes it back."""

    name: str
    what: str
    script: str
    folder: str = FOLDER

    @classmethod
    def new(cls, what: str, script: str, folder: str = FOLDER) -> Entry:
        """Behind all others: names sort by time."""
        return cls(f"{time.time_ns() // 1000:017d}-{next(_numbers):04d}", what, script, folder)

    @property
    def _path(self) -> str:
        return f"{self.folder}/{self.name}"

    def kept(self) -> str:
        """The command, for root, that writes it; complete or not at all."""
        lines = f"# {self.what}\n{self.script}\n"
        path = self._path
        # Whoever logs in next may read what there is, whatever root's umask says.
        made = f"{{ [ -d {self.folder} ] || (umask 022; mkdir -p {self.folder}); }}"
        return f"{made} && printf %s {shlex.quote(lines)} > {path}.new && mv {path}.new {path}"

    def undone(self) -> str:
        """The command, for root, that takes the change back and forgets it; one that fails stays.

        Without an entry there was no change: whoever was interrupted had only begun.
        """
        return f"[ ! -e {self._path} ] || {{ sh {self._path} && rm -f {self._path}; }}"

    def forgotten(self) -> str:
        return f"rm -f {self._path}"


@dataclass(frozen=True)
class Replayed:
    """What was left on a node: what could be put back, and what could not and why."""

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def replay(shell: Shell, folder: str = FOLDER) -> Replayed:
    """Take back what a crashed process left, the latest change first. Raises SshError.

    An entry that fails stays: a boot cures what is left.
    """
    listing = shell.run(f"ls {folder} 2>/dev/null")
    if not listing.stdout.strip():
        return Replayed()
    done = shell.run(
        as_root(
            f"LC_ALL=C; export LC_ALL; cd {folder} || exit; rm -f ./*.new; for f in $(ls -r); do"
            ' what=$(head -n 1 "$f"); if error=$(sh "./$f" 2>&1 </dev/null); then rm -f "$f"; error=; word=done;'
            ' else word=failed; fi; echo "$word $what: $(echo $error)"; done'
        ),
        timeout_s=REPLAY_TIMEOUT_S,
    )
    if done.returncode:
        return Replayed(failed=(f"what {folder} has ({reason(done.stderr)})",))
    found: dict[str, list[str]] = {_DONE: [], _FAILED: []}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" # ")
        what, _, error = rest.rpartition(": ") if word == _DONE else rest.partition(": ")
        if word in found:
            found[word].append(what if word == _DONE else f"{what} ({reason(error)})")
    return Replayed(tuple(found[_DONE]), tuple(found[_FAILED]))
