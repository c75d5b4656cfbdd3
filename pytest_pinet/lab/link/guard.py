"""An undo that waits on the node itself: it runs if this run stops renewing it, even if ssh never works again.

The undo is an entry of the node's journal. The next lease of the node runs it, too, whichever comes first.
"""

from __future__ import annotations

import shlex
import threading

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.tuning.journal import JournalEntry

FOLDER = "/run/pytest-pinet/guards"
# Longer than a lost ssh connection that comes back, shorter than a board stays useless to others.
LAPSES_AFTER_S = 600.0
# How many times the undo is renewed before it would run.
RENEWALS = 4
RETRY_S = 30
ANSWER_TIMEOUT_S = 20.0
# The uptime of the node: another clock could be set meanwhile.
_NOW = "read -r up rest </proc/uptime"
_SCRIPT = """\
echo $$ >{path}.pid
while read -r due <{path}; do
    {now}
    left=$((due - ${{up%%.*}}))
    if [ $left -gt 0 ]; then sleep $left; continue; fi
    {{ {undone}; }} && {{ rm -f {path} {path}.*; exit; }}
    sleep {retry}
done
"""


class Guard:
    """Runs the undo of a journal entry on the node when it was not renewed for ``LAPSES_AFTER_S``.

    ``lapsed`` is whether the undo has run, or the node was rebooted.
    """

    def __init__(self, shell: Shell, entry: JournalEntry) -> None:
        self._shell = shell
        self._entry = entry
        self._path = f"{FOLDER}/{entry.name}"
        self._seconds = LAPSES_AFTER_S
        self._stopped = threading.Event()
        self.lapsed = False

    def armed(self) -> str:
        """Return the root command that starts the guard. It outlives the login that started it."""
        path = self._path
        script = _SCRIPT.format(path=path, now=_NOW, undone=self._entry.undone(), retry=RETRY_S)
        own = f"sh {path}.sh"
        service = f"systemd-run --quiet --collect --unit=pinet-{self._entry.name}"
        return (
            f"mkdir -p {FOLDER} && {self._due(path)} && printf %s {shlex.quote(script)} >{path}.sh && "
            # A service of its own, because the end of a login can end all of its processes. A container's init might
            # start it in another network namespace.
            f'{{ {{ [ -d /run/systemd/system ] && [ "$(readlink /proc/1/ns/net)" = "$(readlink /proc/$$/ns/net)" ] &&'
            f" {service} {own}; }}"
            f" || {{ $(command -v setsid) nohup {own} >/dev/null 2>&1 </dev/null & }}; }}"
        )

    def disarmed(self) -> str:
        """Return the root command that ends the guard without its undo."""
        path = self._path
        return (
            f"rm -f {path} {path}.sh; if read -r pid 2>/dev/null <{path}.pid;"
            f" then rm -f {path}.pid; kill -- -$pid 2>/dev/null || :; fi"
        )

    def start_renewing(self) -> None:
        threading.Thread(target=self._renew, name=f"renews {self._entry.what}", daemon=True).start()

    def stop_renewing(self) -> None:
        self._stopped.set()

    def _renew(self) -> None:
        there = f"[ -e {self._path} ] && [ -e {self._entry.path} ]"
        command = as_root(f"{there} && {self._due(f'{self._path}.new')} && mv {self._path}.new {self._path}")
        while not self._stopped.wait(self._seconds / RENEWALS):
            try:
                # Not `run`, which other threads use at the same time.
                done = self._shell.spawn(command).wait(ANSWER_TIMEOUT_S)
            except (SshError, TimeoutError):
                continue
            if done.returncode == 1 and not self._stopped.is_set():
                self.lapsed = True
                return

    def _due(self, path: str) -> str:
        return f"{_NOW} && echo $((${{up%%.*}} + {round(self._seconds)})) >{path}"
