"""Login over the serial console: labgrid's ShellDriver without its waits, and without hiding kernel messages."""

from __future__ import annotations

import time

import attr
from labgrid.factory import target_factory
from pexpect import TIMEOUT

from pytest_pinet.errors import ConsoleError
from pytest_pinet.lab.labgrid_private import ShellDriverWithHooks

# "---[ end Kernel panic ..." may be in the buffer from an earlier boot, so it does not count.
PANIC = r"(?<!end )Kernel panic - not syncing[^\r\n]*[\r\n]"
FIRST_SILENCE_S = 0.2
LONGEST_SILENCE_S = 2.0
# After a wrong password, login sleeps for two or three seconds (pam_faildelay).
REPLY_SILENCE_S = 5.0


class LoginRefused(ConsoleError):
    """The node answers on its console, but refuses the login."""


class BootPanic(ConsoleError):
    """The kernel panicked before it showed a login prompt; a power cycle may help."""


class EchoedAnswers:
    """Tells output of a booting board from answers to our newlines, such as a prompt that we do not know."""

    def __init__(self) -> None:
        # Whether we sent a newline since the last output.
        self.expected = False
        self._usual: bytes | None = None

    def explain(self, output: bytes, before: bytes) -> bool:
        """Return whether the new part of ``output`` is blank, or only answers a newline as the last answer did."""
        fresh = (output[len(before) :] if output.startswith(before) else output).strip()
        expected, self.expected = self.expected, False
        if not fresh:
            return True
        if expected and self._usual is None:
            self._usual = fresh
        return expected and fresh == self._usual


@target_factory.reg_driver
@attr.s(eq=False)
class PiShellDriver(ShellDriverWithHooks):
    """A ShellDriver that checks an idle console at once, and logs out if it logged in.

    Activation raises ConsoleError when the console refuses the login, and BootPanic (a ConsoleError) when the kernel
    panics.

    Binds to:
        console (ConsoleProtocol)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as ShellDriver; ``login_timeout`` is the deadline for the whole login
    """

    _logged_in = False
    # A console that prints something else than answers to us gets this time for the login.
    boot_timeout_s = 0.0

    def abandon(self) -> None:
        """Leave the console without logging out, because another run may use it by now."""
        self._logged_in = False

    def find_prompt(self) -> bool:
        started = time.monotonic()
        allowed_s = float(self.login_timeout)
        silence = FIRST_SILENCE_S
        last_before = b""
        sent_name = tried = False
        answers = EchoedAnswers()
        while (left_s := started + allowed_s - time.monotonic()) > 0:
            index, before, match, _ = self.console.expect(
                [self.prompt, self.login_prompt, "Password: ", "Login incorrect", PANIC, TIMEOUT],
                timeout=min(silence, left_s),
            )
            if index == 0:
                return self._logged_in
            if index == 1:
                self.console.sendline(self.username)
                self._logged_in = sent_name = True
                # Send no newline meanwhile: login would take it for an empty password.
                silence = REPLY_SILENCE_S
            elif index == 2:
                # If we did not send our user name, the prompt belongs to another user name, or to an empty one after
                # our own newline.
                self.console.sendline((self.password or "") if sent_name else "")
                sent_name, tried = False, sent_name
                silence = REPLY_SILENCE_S
            elif index == 3:
                if not tried:
                    continue
                self._logged_in = False
                raise LoginRefused(
                    f"{self.target.name}: the console refused the login of user {self.username!r}",
                    "correct username and password of the shell driver in the lab file",
                )
            elif index == 4:
                self._logged_in = False
                line = match.group().decode("utf-8", "replace").strip()
                raise BootPanic(f"{self.target.name} panicked before it showed a login prompt: {line}")
            elif before == last_before:
                # No new output, so the console is idle: a newline makes it print its prompt.
                self.console.sendline("")
                answers.expected = True
                silence = min(2 * silence, LONGEST_SILENCE_S)
            elif not answers.explain(before, last_before) and not self._logged_in:
                # The board still boots.
                allowed_s = max(allowed_s, self.boot_timeout_s)
            last_before = before
        seen = bytes(last_before or b"").decode("utf-8", "replace").strip().splitlines()
        last = f"; last seen: {seen[-1][:70]!r}" if seen else "; it printed nothing"
        raise TIMEOUT(f"the login did not succeed within {allowed_s:.0f} s{last}")

    def on_deactivate(self) -> None:
        if self._logged_in and self.at_prompt:
            self._logged_in = False
            self.console.sendline("exit")
        super().on_deactivate()
