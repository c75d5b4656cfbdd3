"""A trial boot: the guard that ends it on a board without power control, and what came of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_pinet.builds.config_txt import AUTOBOOT
from pytest_pinet.builds.matching import TreeProof, changed_values, mismatches, missing_modules, not_proved
from pytest_pinet.errors import BuildError, BuildMismatch, ConsoleError, LabError, UnsupportedError
from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind
from pytest_pinet.lab.lock_agent import BEAT_FILE, FOLDER
from pytest_pinet.model.build import Build, RunningBuild
from pytest_pinet.tuning.setting import BootLines

# Brings a board without power control back to its known-good build, if a trial hangs or cannot be reached any more.
#
# The guard is a small program that starts before the init program of a trial boot. It holds the hardware watchdog open,
# which resets the board if the kernel hangs. It also reboots the board when the heartbeat of its lease stops, for
# example because the driver of the NIC does not work, or because the process of the gate was killed. It cannot help
# before it runs: a kernel that hangs before it has mounted the root file system stays until a person unplugs the board.
# ``panic=10``, which every trial has, ends a panic at any time.


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


# What came of a trial boot: whether the board runs the build that it was given, or the error of a failed boot.


@dataclass(frozen=True)
class Identification:
    """How a build was started, and what to compare.

    ``booted``: the board was booted with the build. ``tuned``: it was booted with the known-good build and a boot
    tuning. ``before`` has the settings that the build requests, with the values of the known-good build.
    ``compare_trees`` compares the device trees of a build that was booted.
    """

    booted: bool
    tuned: bool
    before: RunningBuild | None
    known_good: RunningBuild | None
    compare_trees: Callable[[], TreeProof]

    def identify(self, board: str, build: Build, running: RunningBuild) -> RunningBuild:
        """Return ``running`` if it is this build, with what is not proved.

        Raises BuildError if a driver is missing, and BuildMismatch.
        """
        missing = missing_modules(build, running)
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise BuildError(f"{' and '.join(missing)} of {build} {verb} not loaded on {board}", "no driver")
        # The mark on the command line may be that of a boot tuning.
        now = running if self.booted or not self.tuned else replace(running, cmdline="")
        found = mismatches(build, now, self.booted, self.before)
        same = self.known_good
        if not found and build.kernel is None and same is not None and running.version != same.version:
            found = [f"the running kernel has version '{running.version}', but the known-good kernel '{same.version}'"]
        trees = TreeProof()
        if not found and self.booted:
            trees = self.compare_trees()
            found = [trees.difference] * bool(trees.difference)
        if found:
            raise BuildMismatch(f"{board} does not run {build}: {'; '.join(found)}")
        return replace(
            running,
            changed=changed_values(build, running, self.before),
            not_proved=(*not_proved(build, running), *trees.not_compared),
        )


_BROKEN = (KernelEventKind.PANIC, KernelEventKind.OOPS)


def healed(what: str, node: str, error: LabError) -> BuildError:
    """Return the error if the known-good build came up after a power cycle. ``error`` is that of the trial boot."""
    kind = "panic" if "panic" in error.message else "hang" if isinstance(error, ConsoleError) else "no login"
    message = f"{what} does not come up on {node}, but the known-good build does: {error.message}"
    return BuildError(message, kind, _without_empty_lines(error.excerpt))


def both_down(what: str, node: str, error: LabError, worse: LabError) -> LabError:
    """Return the lab's error if the known-good build did not come up either (``worse``)."""
    first = f"{node}: {what} did not come up ({error.message})"
    message = f"{first}; the known-good build did not come up either ({worse.message})"
    return type(worse)(message, worse.act).with_excerpt(error.excerpt)


def fallen_back(what: str, node: str, record: ConsoleRecord | None, is_proof: bool) -> BuildError:
    """Return the error for a build that did not come up while the known-good build answers.

    After a panic, the kernel may reboot by itself (panic=10), which starts the known-good build. ``is_proof``: it was
    the first trial boot of this board.
    """
    broken = record.take(_BROKEN) if record is not None else []
    if broken and record is not None:
        message = f"{what} does not come up on {node}, which booted its known-good build after a {broken[0].kind} "
        kind = str(broken[0].kind).rpartition(" ")[2]
        return BuildError(f"{message}{broken[0]}", kind, _without_empty_lines(record.excerpt(broken[0])))
    message = f"{what} does not come up on {node}, which booted its known-good build without an error message"
    message += " (boot loaders before 2021 do not support tryboot)" if is_proof else ""
    return BuildError(message, "fell back", _without_empty_lines(record.tail()) if record is not None else "")


def other_system(node: str, running: RunningBuild) -> UnsupportedError:
    """Return the error for a trial that booted another system of the card; the known-good build runs again."""
    where = f" on partition {running.partition}" if running.partition else ""
    return UnsupportedError(
        f"{node} cannot boot a build for a trial: its firmware booted another system of the card ({running.release}"
        f"{where}): look at {AUTOBOOT} on its partitions"
    )


def _without_empty_lines(excerpt: str) -> str:
    """The wait for a login prompt causes many empty lines."""
    return "\n".join(line for line in excerpt.splitlines() if line.partition(" ")[2].strip())
