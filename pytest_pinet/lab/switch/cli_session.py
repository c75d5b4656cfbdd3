"""A session on the command line of a switch, through netmiko. It stays open, and is opened again once when it drops.

netmiko knows the login, the prompt and how to turn paging off, for each family. Our own loop sends the commands over
netmiko's channel, because netmiko's loop waits its whole timeout for a switch that hung up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pytest_pinet.errors import ConfigError, SwitchError, Where, first_line
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.names import quoted
from pytest_pinet.lab.switch.cli_family import Family

_POLL_S = 0.01
# A prompt counts if no data follows it for this time. A repainted line or the end of a packet can look like a prompt.
_SETTLED_S = 0.03
_SHOWN = 200
T = TypeVar("T")


class RefusedError(SwitchError):
    """The switch understood the input as a command and refused it."""


class _DroppedError(Exception):
    """The switch ended the session."""


class CliSession:
    """A command line session. ``login`` holds netmiko's host, port, username, password, secret and key_file."""

    def __init__(self, name: str, family: Family, login: Mapping[str, Any], timeout_s: float, where: Where) -> None:
        self._name = name
        self._family = family
        self._login = dict(login)
        self._timeout_s = timeout_s
        self._where = where
        self._at = f"{login['host']}:{login['port']}"
        self._connection: Any = None
        self._prompt = re.compile("")

    def open(self) -> None:
        """Log in and find the prompt. Raises SwitchError."""
        netmiko = _netmiko(self._name, self._where)
        timeout = self._timeout_s
        try:
            connection = netmiko.ConnectHandler(
                device_type=self._family.device_type,
                use_keys=self._login["key_file"] is not None,
                conn_timeout=timeout,
                auth_timeout=timeout,
                banner_timeout=timeout,
                read_timeout_override=timeout,
                **self._login,
            )
            self._connection = connection
            connection.enable()
        except netmiko.NetmikoAuthenticationException:
            self.close()
            raise SwitchError(
                f"switch {self._name} at {self._at} refused the login of user {self._login['username']!r}",
                f"correct the user, password or keyfile of the switch in {self._where}",
            ) from None
        except netmiko.NetmikoTimeoutException as error:
            self.close()
            raise SwitchError(
                f"switch {self._name} at {self._at} cannot be reached within {timeout:.0f} s: {first_line(error)}",
                "the lab's admin: check its power, the cable of its management port, and its ssh server",
            ) from None
        except Exception as error:
            # netmiko and paramiko raise many kinds: ReadTimeout, SSHException, OSError, ValueError (no enable mode).
            self.close()
            raise SwitchError(
                f"switch {self._name} at {self._at} did not show the prompt of a {self._family.title}: "
                f"{first_line(error)}",
                f"check `family:` and `secret:` of the switch in {self._where}",
            ) from None
        base = str(connection.base_prompt).strip()
        self._prompt = re.compile(rf"(?:\A|[\r\n]){re.escape(base)}(?:[^\r\n]*[#>])?\s*\Z")

    def ask(self, command: str) -> str:
        """Return the answer to a command that changes nothing. Raises SwitchError; RefusedError for a refusal."""
        return self._with_one_retry(lambda: self._send(command))

    def change(self, commands: Iterable[str]) -> None:
        """Send commands that set something; all of them again if the session drops in between. Raises SwitchError."""
        wanted = list(commands)
        if not wanted:
            return

        def send() -> None:
            try:
                for command in wanted:
                    self._send(command)
            except SwitchError:
                # The session is in some configuration mode now. Do not continue from there.
                self.close()
                raise

        self._with_one_retry(send)

    def close(self) -> None:
        """Log out; does nothing when the session is gone. The configuration is not saved (see ``cli``)."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if _gone(connection):
            connection.paramiko_cleanup()
        else:
            connection.disconnect()

    def _with_one_retry(self, work: Callable[[], T]) -> T:
        """Call ``work``, and once more in a new session if the switch ended the session."""
        for again in (True, False):
            try:
                if self._connection is None:
                    self.open()
                return work()
            except _DroppedError as error:
                self.close()
                if not again:
                    raise SwitchError(
                        f"switch {self._name} at {self._at} ended the session twice, the second time after "
                        f"{quoted(str(error))}",
                        "the lab's admin: look at the switch; it may have reached its maximum number of sessions",
                    ) from None
        raise AssertionError("unreachable")

    def _send(self, command: str) -> str:
        """Send one command; return its answer, without echo and prompt."""
        answer = self._exchange(command)
        refusal = self._family.refusal(answer)
        if refusal is not None:
            raise RefusedError(
                f"switch {self._name} refused {quoted(command)}: {quoted(refusal)}",
                "the lab's admin: check that `family:` is right, and that this user may run this command",
            )
        return answer

    def _exchange(self, command: str) -> str:
        connection = self._connection
        deadline = Deadline(self._timeout_s)
        text = ""
        try:
            if _gone(connection):
                raise _DroppedError(command)
            connection.read_channel()  # output that arrived since the last prompt
            connection.write_channel(connection.normalize_cmd(command))
            # TP-Link wraps long lines, so for it netmiko does not look for the echo.
            echoed = connection.global_cmd_verify is False
            settled = None
            while True:
                fresh = connection.read_channel()
                text += fresh
                if not echoed and command in text:
                    echoed, text = True, text.split(command, 1)[1]
                if fresh or not (echoed and self._prompt.search(text)):
                    settled = None
                elif settled is None:
                    settled = Deadline(_SETTLED_S)
                elif settled.expired:
                    return self._stripped(command, text)
                if not fresh and _gone(connection):
                    raise _DroppedError(command)
                if deadline.expired:
                    break
                time.sleep(_POLL_S)
        except (OSError, EOFError):
            raise _DroppedError(command) from None
        self.close()
        raise SwitchError(
            f"switch {self._name} did not finish its answer to {quoted(command)} within {self._timeout_s:.0f} s; "
            f"the answer so far ends with {quoted(text[-_SHOWN:].strip())}",
            "the lab's admin: look at the switch; a slow switch may need a longer `timeout:`",
        )

    def _stripped(self, command: str, text: str) -> str:
        lines = self._prompt.sub("", text).replace("\r", "\n").split("\n")
        # Remove the rest of the echo and its repetitions: RouterOS paints the line again when it is complete.
        while lines and (not lines[0].strip() or lines[0].rstrip().endswith(command)):
            lines.pop(0)
        return "\n".join(lines)


def _gone(connection: Any) -> bool:
    channel = connection.remote_conn
    return channel is None or channel.closed or (channel.eof_received and not channel.recv_ready())


def _netmiko(name: str, where: Where) -> Any:
    """Import netmiko only for switches that need it: the import takes 0.7 s and 44 MB."""
    try:
        import netmiko
    except ImportError:
        message = f"switch {name!r} with backend 'cli' needs netmiko: pip install 'pytest-pinet[cli]'"
        raise ConfigError(message, where) from None
    return netmiko
