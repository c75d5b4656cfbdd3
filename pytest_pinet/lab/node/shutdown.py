"""The shutdown of a node before its power is cut: a cut while the card is written can destroy its file system."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_pinet.errors import LabError, ShutdownError, SshError, first_line
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell, as_root, last_line, root_cure
from pytest_pinet.execution.trace import doing
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind, recognise
from pytest_pinet.lab.ssh import SshShell

if TYPE_CHECKING:
    from pytest_pinet.lab.labgrid.strategy import PiStrategy

# A session of Raspberry Pi OS may take 2 min to stop (pi-gen issue 836).
SHUTDOWN_S = 150.0
GONE_POLL_S, GONE_TIMEOUT_S = 0.3, 3.0
BEFORE_TIMEOUT_S = 30.0
BOOT_ID = "cat /proc/sys/kernel/random/boot_id && sed 's/.*) //' /proc/1/stat | cut -d' ' -f20"
# In the background, because `sync` may take long, and the answer must leave before the connection ends. sudo ends what
# it started on a terminal (HUP).
COMMAND = (
    "command -v poweroff >/dev/null || { echo there is no poweroff command >&2; exit 127; };"
    " { trap '' HUP; sync; sleep 0.3 || sleep 1; poweroff; } </dev/null >/dev/null 2>&1 &"
)
# kernel/reboot.c. The priority of the message is the highest, so that every console shows it.
HALTED = re.compile(r"reboot: (?:Power down|System halted)")
# A system that answers takes much less. `sync` runs in the background.
ANSWER_TIMEOUT_S = 10.0
# The card may still be busy with the last write when the kernel ends: an SD card for 500 ms at most.
REST_S = 0.5
# If the console does not show the halt: a node has halted if it neither answers ssh nor prints anything for so long.
SILENT_S = 20.0
PROBE_S, PROBE_TIMEOUT_S = 1.0, 3.0
POLL_S = 0.1

Run = Callable[[str], tuple[int, str]]


class Shutdown:
    """The shutdown of one node: ``begin`` requests it and ``finish`` waits for the halt.

    ``begun`` says that the node was requested to halt. ``strategy`` is the PiStrategy of the node, ``connect`` returns
    a shell over a new ssh connection, and ``warn`` takes a sentence for the user.
    """

    def __init__(
        self, node: str, strategy: PiStrategy, connect: Callable[[], SshShell], warn: Callable[[str], None]
    ) -> None:
        self._node = node
        self._strategy = strategy
        self._connect = connect
        self._warn = warn
        self._deadline: Deadline | None = None
        self._shell: SshShell | None = None
        self._mark = 0
        self._silent_since: float | None = None
        self._next_probe = 0.0
        self._halted_at: datetime | None = None
        self._broken = ""
        # The ways that gave no answer since the last boot, so that they need not be tried again.
        self._silent: set[str] = set()

    @property
    def begun(self) -> bool:
        return self._deadline is not None

    @property
    def _record(self) -> ConsoleRecord | None:
        return self._strategy.record

    def is_silent(self, *ways: str) -> None:
        """Note that these ways, "console" or "ssh", give no answer."""
        self._silent.update(ways)

    def begin(self, shell: SshShell | None, patience_s: float) -> None:
        """Request the halt over ssh, or on the console, where the login may take ``patience_s``.

        A node that gives no answer in any way hangs, and ``begun`` stays false. Raises ShutdownError if the node
        answers, but refuses the request.
        """
        from pytest_pinet.lab.console.drivers import LoginRefused
        from pytest_pinet.lab.labgrid.strategy import SshRefused

        if self.begun or (self._record is not None and self._record.panicked):
            return
        refused: LabError | None = None
        with doing(f"shut down {self._node}"):
            for way, run in self._ways(shell, patience_s):
                self._mark = self._record.number if self._record is not None else 0
                try:
                    status, said = run(as_root(COMMAND))
                except LabError as error:
                    if isinstance(error, LoginRefused | SshRefused):
                        # It does not hang.
                        refused = error
                    self._silent.add(way)
                    continue
                if status:
                    why = said.strip().splitlines()[-1:] or [f"exit status {status}"]
                    message = f"{self._node} cannot be shut down, so its power was not cut: {why[0]}"
                    raise ShutdownError(message, root_cure(self._node))
                self._deadline = Deadline(SHUTDOWN_S)
                return
        if refused is not None:
            raise ShutdownError(
                f"{self._node} runs, but pinet cannot log in to shut it down, so its power was not cut: "
                f"{refused.message}",
                refused.act,
            )

    def _ways(self, shell: SshShell | None, patience_s: float) -> Iterator[tuple[str, Run]]:
        if shell is not None:
            self._shell = shell
            yield "shell", self._by_ssh
        if self._strategy.has_login and "console" not in self._silent:
            yield "console", lambda command: self._by_console(command, patience_s)
        if "ssh" not in self._silent and shell is None:
            yield "ssh", self._by_new_ssh

    def _by_ssh(self, command: str) -> tuple[int, str]:
        assert self._shell is not None
        done = self._shell.run(command, ANSWER_TIMEOUT_S)
        return done.returncode, last_line(done.stderr, done.stdout)

    def _by_console(self, command: str, patience_s: float) -> tuple[int, str]:
        try:
            self._strategy.log_in(patience_s)
            return self._strategy.run_on_console(command, ANSWER_TIMEOUT_S)
        except LabError:
            raise
        except Exception as error:
            raise LabError(f"no answer on the console: {first_line(error)}") from error

    def _by_new_ssh(self, command: str) -> tuple[int, str]:
        try:
            self._shell = self._connect()
        except LabError:
            raise
        except Exception as error:
            raise LabError(f"no answer over ssh: {first_line(error)}") from error
        with suppress(LabError):
            # To see the halt; the login on the console has failed.
            self._strategy.open_console()
        return self._by_ssh(command)

    def finish(self) -> None:
        """Wait for the halt, at most SHUTDOWN_S. A node that does not halt in time hangs, which is a warning."""
        if self._deadline is None:
            return
        deadline = self._deadline
        if self._record is None and deadline.remaining_s < SILENT_S + PROBE_TIMEOUT_S:
            # The wait may begin long after the request, and without a console, silence is only seen while we wait.
            deadline = Deadline(SILENT_S + PROBE_TIMEOUT_S)
        with doing(f"wait for the halt of {self._node}"):
            over = deadline.wait_until(self._is_over, POLL_S)
            if self._halted_at is not None:
                passed_s = (datetime.now(UTC) - self._halted_at).total_seconds()
                time.sleep(min(REST_S, max(0.0, REST_S - passed_s)))
        record = self._record
        if self._broken:
            self._warn(f"{self._node} {self._broken} while it shut down, so its power was cut")
        elif not over:
            last = record.tail(1) if record is not None else ""
            said = f", its console said last: {last}" if last else ""
            self._warn(f"{self._node} did not halt within {SHUTDOWN_S:.0f} s, so its power was cut{said}")
        if record is not None:
            # Kernel problems of a system that ends are not problems of the next test.
            record.take(since=self._mark)

    def clear(self) -> None:
        """Forget the shutdown after the power was cut, or after the node came up."""
        self._deadline = self._shell = self._silent_since = self._halted_at = None
        self._broken = ""
        self._silent.clear()

    def _is_over(self) -> bool:
        record = self._record
        if record is not None:
            for line in record.lines_since(self._mark):
                kind = recognise(line.text)
                if kind in (KernelEventKind.PANIC, KernelEventKind.RESTART):
                    self._broken = "panicked" if kind is KernelEventKind.PANIC else "restarted"
                    return True
                if HALTED.search(line.text):
                    self._halted_at = line.time
                    return True
        now = time.monotonic()
        if record is not None and "console" not in self._silent and record.quiet_s < SILENT_S / 2:
            self._silent_since = None
            return False
        if now >= self._next_probe:
            answers = self._answers()
            now = time.monotonic()
            self._next_probe = now + PROBE_S
            if answers:
                self._silent_since = None
            elif self._silent_since is None:
                self._silent_since = now
        quiet_s = record.quiet_s if record is not None else SILENT_S
        return self._silent_since is not None and min(now - self._silent_since, quiet_s) >= SILENT_S

    def _answers(self) -> bool:
        if self._shell is None:
            return False
        try:
            self._shell.run("true", PROBE_TIMEOUT_S)
        except SshError:
            return False
        return True


def boot_id(shell: Shell) -> str | None:
    """Return the id of the boot that answers, or None if there is no answer.

    A board in a container has the boot id of its host. Its first process has its own start time.
    """
    try:
        return shell.run(BOOT_ID, timeout_s=GONE_TIMEOUT_S).stdout.strip() or None
    except SshError:
        return None
