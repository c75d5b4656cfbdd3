"""A guard on the node itself: it undoes all changes of a lease if its run is gone, even if ssh never works again.

The changes are the entries of the node's journal. The next lease of the node undoes them, too, whichever comes first.
"""

from __future__ import annotations

import shlex
import threading

from pytest_pinet.errors import LinkError, SshError
from pytest_pinet.execution.shell import Shell, as_root, reason
from pytest_pinet.tuning import journal

FOLDER = "/run/pytest-pinet/guards"
# Longer than an ssh connection stays lost that comes back, and not so long that others wait for the board in vain.
LAPSES_AFTER_S = 600.0
# How many times the guard is renewed before it would act.
RENEWALS = 4
RETRY_S = 30
ANSWER_TIMEOUT_S = 20.0
# On a slow board, systemd needs several seconds to start it.
START_TIMEOUT_S = 30.0
# The uptime of the node: another clock could be set meanwhile.
_NOW = "read -r up rest </proc/uptime"
# While it undoes, its file has another name, so that no renewal succeeds. A renewal just before that puts it back.
_SCRIPT = """\
echo $$ >{path}.pid
while read -r due 2>/dev/null <{path}; do
    {now}
    left=$((due - ${{up%%.*}}))
    if [ $left -gt 0 ]; then sleep $left; continue; fi
    mv {path} {path}.due || break
    read -r new <{path}.due
    if [ "$new" != "$due" ]; then mv {path}.due {path}; continue; fi
    while [ -e {path}.due ]; do
        ({undone}) >/dev/null 2>&1
        [ -n "$(ls {journal} 2>/dev/null)" ] || break
        sleep {retry}
    done
done
rm -f {path} {path}.*
"""


class Guard:
    """Undoes all entries of the journal on a node when it was not renewed for ``lapses_after_s``.

    ``lapsed`` is whether it has acted, or the node was rebooted.
    """

    def __init__(self, shell: Shell) -> None:
        self.lapses_after_s = LAPSES_AFTER_S
        self.lapsed = False
        self._shell = shell
        self._path = ""
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the guard and renew it from now on. Does nothing if it runs. Raises LinkError, SshError."""
        if self._path and not self.lapsed:
            return
        self._path, self.lapsed = f"{FOLDER}/{journal.new_name()}", False
        done = self._shell.run(as_root(self._started()), START_TIMEOUT_S)
        if done.returncode:
            name = self._shell.name
            raise LinkError(f"{name} cannot start the guard {self._path}: {reason(done.stderr)}", f"look at {name}")
        threading.Thread(target=self._renew, name=f"renews the guard of {self._shell.name}", daemon=True).start()

    def stop(self) -> None:
        """End the guard, unless an entry is left: its undo has failed, and the guard tries it again. Raises SshError.

        The run calls it at the end of its lease.
        """
        self.abandon()
        if self._path:
            self._shell.run(as_root(f'[ -n "$(ls {journal.FOLDER} 2>/dev/null)" ] || {{ {_stopped(self._path)}; }}'))

    def abandon(self) -> None:
        """Stop renewing the guard: it acts, unless the node is rebooted or its next lease begins before."""
        self._ended.set()

    def _started(self) -> str:
        """Return the root command that starts the guard, which outlives the login that started it."""
        path = self._path
        script = _SCRIPT.format(
            path=path, now=_NOW, undone=journal.all_undone(journal.FOLDER), journal=journal.FOLDER, retry=RETRY_S
        )
        own = f"sh {path}.sh"
        service = f"systemd-run --quiet --collect --unit=pinet-{path.rpartition('/')[2]}"
        return (
            # The next user must be able to see the folder, whatever the umask of root is.
            f"(umask 022; mkdir -p {FOLDER}) && {self._due(path)} && printf %s {shlex.quote(script)} >{path}.sh && "
            # A service of its own, because the end of a login can end all of its processes. A container's init might
            # start it in another network namespace.
            f'{{ {{ [ -d /run/systemd/system ] && [ "$(readlink /proc/1/ns/net)" = "$(readlink /proc/$$/ns/net)" ] &&'
            f" {service} {own}; }}"
            f" || {{ $(command -v setsid) nohup {own} >/dev/null 2>&1 </dev/null & }}; }}"
        )

    def _renew(self) -> None:
        path = self._path
        command = as_root(f"[ -e {path} ] && {self._due(f'{path}.new')} && mv {path}.new {path} && [ ! -e {path}.due ]")
        while not self._ended.wait(self.lapses_after_s / RENEWALS):
            try:
                # Not `run`, which other threads use at the same time.
                done = self._shell.spawn(command).wait(ANSWER_TIMEOUT_S)
            except (SshError, TimeoutError):
                continue
            if done.returncode == 1 and not self._ended.is_set():
                self.lapsed = True
                return

    def _due(self, path: str) -> str:
        return f"{_NOW} && echo $((${{up%%.*}} + {round(self.lapses_after_s)})) >{path}"


def stop_all(shell: Shell) -> None:
    """End the guards that earlier leases left, before their changes are undone by this lease. Raises SshError."""
    stop = f"for pid in {FOLDER}/*.pid; do path=${{pid%.pid}}; {_stopped('$path')}; done; rm -f {FOLDER}/*"
    shell.run(f"[ ! -d {FOLDER} ] || {as_root(stop)}")


def _stopped(path: str) -> str:
    """Return the root command that ends the guard with this path, which does not act any more."""
    return (
        f"rm -f {path} {path}.due {path}.sh; if read -r pid 2>/dev/null <{path}.pid;"
        # Where there is no setsid, it leads no process group.
        f" then rm -f {path}.pid; {{ kill -- -$pid || kill $pid; }} 2>/dev/null || :; fi"
    )
