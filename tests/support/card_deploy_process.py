"""A process that deploys builds to a board of card_board, and that tests kill: FOLDER PORT BUILD [BUILD ...].

Before each command on the board it prints a line: the current step, a tab, the command.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import SshError
from pytest_pinet.execution import trace
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed, as_root
from pytest_pinet.lab.deploy.deployment import Deployment
from pytest_pinet.lab.ssh import SshShell
from tests.support.card_board import UP_S, CardBoard, ssh_to

# Between steps the process only reads.
LOOK = "look"
_doing = LOOK


def tell(command: str) -> None:
    print(f"{_doing}\t{' '.join(command.split())}", flush=True)  # noqa: T201


class Steps(trace.Recorder):
    """Stores the title of the current step."""

    def begin(self, title: str) -> trace.Step:
        global _doing
        _doing = title.partition(" (")[0]
        return super().begin(title)

    def end(self, step: trace.Step, error: str = "") -> None:
        global _doing
        _doing = LOOK
        super().end(step, error)


class ToldShell(SshShell):
    """Prints each command before it runs."""

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        tell(command)
        return super().run(command, timeout_s)

    def feed(self, command: str, source: IO[bytes], timeout_s: float) -> Completed:
        tell(command)
        return super().feed(command, source, timeout_s)

    def fetch(self, command: str, timeout_s: float) -> bytes:
        tell(command)
        return super().fetch(command, timeout_s)


class Client:
    """The board, seen from a process other than the one that simulates its hardware."""

    name, model, boots, has_power, record = CardBoard.name, CardBoard.model, True, True, None
    boot_timeout_s = 180.0

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self.shell = ssh_to(folder, port, ToldShell)

    def lock_for_trial(self) -> None:
        """Take no lock: its power can be switched."""

    def warn(self, warning: str) -> None:
        """No test reads the warnings of this process."""

    def driver(self, name: str) -> None:
        return None

    def reset(self) -> None:
        raise AssertionError

    def power_cycle(self) -> None:
        before = self._boot_id()
        (self._folder / "tryboot").unlink(missing_ok=True)
        (self._folder / "requested").write_text("reboot")
        self._await_another(before)

    def reboot(self, command: str) -> None:
        before = self._boot_id()
        self.shell.run(as_root(f"{{ {command}; }} </dev/null >/dev/null 2>&1 &"))
        self._await_another(before)

    def _await_another(self, before: str) -> None:
        if not Deadline(UP_S).wait_until(lambda: self._boot_id() not in ("", before), 0.1):
            raise SshError("it did not boot")

    def _boot_id(self) -> str:
        try:
            shell = ssh_to(self._folder, self._port)
            return shell.run("cat /proc/sys/kernel/random/boot_id", timeout_s=UP_S).stdout.strip()
        except SshError:
            return ""


def main() -> None:
    folder, port, *builds = sys.argv[1:]
    deployment = Deployment(Client(Path(folder), int(port)))
    recorder = Steps()
    recorder.start()
    for path in builds:
        deployment.start(load_build(path))
    with trace.doing("take back all of them"):
        deployment.take_back()


if __name__ == "__main__":
    main()
