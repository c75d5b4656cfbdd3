"""Login over the serial console: labgrid's ShellDriver without its waits and without its side effect.

labgrid's own waits two seconds of silence before it presses Enter, and sets the kernel's console log level to 1 after
each login, which nobody undoes and which would hide the messages that a gate must see.
"""

from __future__ import annotations

import attr
from labgrid.driver import ShellDriver
from labgrid.factory import target_factory
from labgrid.step import step
from labgrid.util import Timeout
from pexpect import TIMEOUT

from pytest_pinet.errors import ConsoleError

# The end of a panic ("---[ end Kernel panic ...") may be what an earlier boot left in the buffer.
PANIC = r"(?<!end )Kernel panic - not syncing[^\r\n]*[\r\n]"
FIRST_SILENCE_S = 0.2
LONGEST_SILENCE_S = 2.0
# After a wrong password login sleeps for two or three seconds (pam_faildelay).
REPLY_SILENCE_S = 5.0


class BootPanic(ConsoleError):
    """The kernel panicked while somebody waited for its login prompt; a power cycle may help."""


@target_factory.reg_driver
@attr.s(eq=False)
class PiShellDriver(ShellDriver):  # type: ignore[misc]  # labgrid is not typed
    """ShellDriver that asks an idle console at once and logs out when it logged in.

    Activation raises ConsoleError when the console refuses the login, BootPanic (one, too) when the kernel panics.

    Binds to:
        console (ConsoleProtocol)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as ShellDriver; ``login_timeout`` is the deadline for the whole login
    """

    _logged_in = False

    def abandon(self) -> None:
        """Let go of the console without logging out: by now somebody else may type there."""
        self._logged_in = False

    @step()  # type: ignore[untyped-decorator]
    def _await_login(self) -> None:
        deadline = Timeout(float(self.login_timeout))
        silence = FIRST_SILENCE_S
        last_before = b""
        asked = tried = False
        while not deadline.expired:
            index, before, match, _ = self.console.expect(
                [self.prompt, self.login_prompt, "Password: ", "Login incorrect", PANIC, TIMEOUT],
                timeout=min(silence, deadline.remaining),
            )
            if index == 0:
                self._status = 1
                break
            if index == 1:
                self.console.sendline(self.username)
                self._logged_in = asked = True
                # No newline meanwhile: it would be taken for an empty password.
                silence = REPLY_SILENCE_S
            elif index == 2:
                # Without our user name it is the password of whom somebody else typed, or of nobody (our own newline).
                self.console.sendline((self.password or "") if asked else "")
                asked, tried = False, asked
                silence = REPLY_SILENCE_S
            elif index == 3:
                if not tried:
                    continue
                self._logged_in = False
                raise ConsoleError(
                    f"{self.target.name}: the console refused user {self.username!r} and its password",
                    "correct username and password of the shell driver in the lab file",
                )
            elif index == 4:
                self._logged_in = False
                line = match.group().decode("utf-8", "replace").strip()
                raise BootPanic(f"{self.target.name} panicked before it showed a login prompt: {line}")
            elif before == last_before:
                # Nothing new: the console is idle, so a newline brings up whatever prompt it shows.
                self.console.sendline("")
                silence = min(2 * silence, LONGEST_SILENCE_S)
            last_before = before
        else:
            seen = bytes(last_before or b"").decode("utf-8", "replace").strip().splitlines()
            last = f"; last seen: {seen[-1][:70]!r}" if seen else "; it printed nothing"
            raise TIMEOUT(f"no login prompt within {self.login_timeout} s{last}")
        if self._logged_in:
            self._check_prompt()

    def on_deactivate(self) -> None:
        if self._logged_in and self._status == 1:
            self._logged_in = False
            self.console.sendline("exit")
        super().on_deactivate()
