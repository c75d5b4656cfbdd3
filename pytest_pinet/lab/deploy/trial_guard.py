"""Brings a board without power control back to its known-good build, if a trial hangs or cannot be reached any more.

The guard is a small program that starts before the init program of a trial boot. It holds the hardware watchdog open,
which resets the board if the kernel hangs. It also reboots the board when the heartbeat of its lease stops, for example
because the driver of the NIC does not work, or because the process of the gate was killed. It cannot help before it
runs: a kernel that hangs before it has mounted the root file system stays until a person unplugs the board.
``panic=10``, which every trial has, ends a panic at any time.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.lab.board_lock.agent import BEAT_FILE, FOLDER
from pytest_pinet.tuning.boot_lines import BootLines

# On the root file system itself: nothing else is mounted when it starts.
PATH = "/etc/pytest-pinet-guard"
LOG = "/run/pytest-pinet-guard"
POLL_S = 5
# Longer than any pause of a test.
SILENCE_S = 120
# The heartbeat begins this long after the board answers, at most.
LOGIN_S = 30
_INIT = "init="
_EXEC = re.compile(r'^exec (.+) "\$@"$', re.MULTILINE)


def silence_of(boot_timeout_s: float) -> int:
    """Return after how many seconds without a heartbeat the guard reboots a board that may boot for so long."""
    return max(SILENCE_S, round(boot_timeout_s) + LOGIN_S)


def script(init: str, silence_s: int = SILENCE_S) -> str:
    """Return the guard, which goes on with the program ``init``. It needs no file system except the root."""
    # `command` keeps a shell alive when a redirection fails, such as when systemd holds the watchdog.
    return f"""#!/bin/sh
# pytest-pinet: boots the known-good build again if a build under test hangs or cannot be reached.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
(
    trap '' HUP INT
    still=0 before= dog=
    while :; do
        if [ -z "$dog" ] && [ -c /dev/watchdog ] && command exec 8>/dev/watchdog; then
            dog=yes
        fi 2>/dev/null
        now= lock=
        [ ! -s {FOLDER}/lock ] || lock=yes
        [ ! -e {BEAT_FILE} ] || read -r now <{BEAT_FILE} || :
        if [ "$now" = "$before" ] && [ -n "$lock" ]; then still=$((still + {POLL_S})); else still=0; fi
        before=$now
        if [ $still -ge {silence_s} ]; then
            echo "pytest-pinet: no heartbeat for {silence_s} s: rebooting" >/dev/kmsg
            sync &
            sleep 3
            echo b >/proc/sysrq-trigger
            reboot -f
        elif [ -n "$dog" ]; then
            echo >&8
        fi
        echo "watchdog ${{dog:-none}}" >{LOG} 2>/dev/null
        sleep {POLL_S}
    done
) &
exec {shlex.quote(init)} "$@"
"""


@dataclass(frozen=True)
class TrialGuard:
    """The guard of one board: the program that its kernel starts as init, and whether it has a hardware watchdog."""

    init: str
    watchdog: bool
    silence_s: int = SILENCE_S

    def lines(self, more: BootLines) -> BootLines:
        """Return these lines, and the word that starts the guard."""
        return more.with_parameters([f"{_INIT}{PATH}"])

    def installed(self) -> str:
        """Return the root command that writes the guard."""
        text = shlex.quote(script(self.init, self.silence_s))
        return f"printf %s {text} >{PATH}.new && chmod 755 {PATH}.new && mv {PATH}.new {PATH}"

    def risk(self, node: str) -> str:
        """Return what happens if a build hangs on this board: two sentences for the person who must decide."""
        if self.watchdog:
            return (
                f"{node} has no power control. A watchdog and panic=10 bring its known-good build back, except if the "
                "kernel hangs before it has mounted the root file system: then you must unplug it"
            )
        return (
            f"{node} has neither power control nor a hardware watchdog (/dev/watchdog). panic=10 brings its known-good "
            "build back after a panic, but if the kernel hangs, you must unplug it"
        )


def read_guard(shell: Shell, boot_timeout_s: float) -> TrialGuard:
    """Return the guard for a board. In a trial, the guard that runs names the init program. Raises SshError."""
    last = f"tail -n 1 {PATH} 2>/dev/null"
    done = shell.run(as_root(f"cat /proc/cmdline; [ ! -c /dev/watchdog ] || echo watchdog; {last}; true"))
    words = done.stdout.split()
    # The last word counts.
    inits = [word.removeprefix(_INIT) for word in words if word.startswith(_INIT)]
    init = inits[-1] if inits else "/sbin/init"
    if init == PATH:
        in_trial = _EXEC.search(done.stdout)
        init = shlex.split(in_trial[1])[0] if in_trial is not None else "/sbin/init"
    return TrialGuard(init, "watchdog" in words, silence_of(boot_timeout_s))


# Removes the guard; part of the undo of every build.
REMOVED = f"rm -f {PATH} {PATH}.new"
