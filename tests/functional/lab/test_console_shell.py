"""Commands over a serial console: real shells on a terminal, with kernel messages in between."""

from __future__ import annotations

import os
import pty
import random
import select
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pexpect import TIMEOUT

from pytest_pinet.errors import LabError, SshError
from pytest_pinet.execution.shell import Process, own_lines
from pytest_pinet.lab.node.console_shell import CHUNK, ConsoleShell

SHELLS = {
    "bash": ["bash", "--norc", "-i"],
    "dash": ["dash", "-i"],
    "busybox": ["busybox", "sh", "-i"],
}
MESSAGE = b"[  812.431337] usb 1-1.2: new high-speed USB device number 5 using dwc_otg\r\n"


class TerminalLine:
    """A terminal with an interactive shell. ``noise`` counts the kernel messages that still appear in its output."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execvp(argv[0], argv)
        self.noise = 0
        self._counted = 0

    def send(self, data: bytes) -> None:
        os.write(self._fd, data)

    def take(self, size: int, timeout_s: float, max_size: int | None) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], timeout_s)
        if not ready:
            raise TIMEOUT("nothing")
        data = os.read(self._fd, 300)
        self._counted += 1
        # The output of a command comes after the echo of its line.
        if self.noise and b"H4sI" in data:
            self.noise -= 1
            middle = data.index(b"H4sI") + 10
            data = data[:middle] + MESSAGE + data[middle:]
        return data

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture(params=list(SHELLS))
def line(request: pytest.FixtureRequest) -> Iterator[TerminalLine]:
    argv = SHELLS[request.param]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    found = TerminalLine(argv)
    yield found
    found.close()


@pytest.fixture
def shell(line: TerminalLine) -> ConsoleShell:
    return ConsoleShell("pi", line)


def left(shell: ConsoleShell) -> list[str]:
    return shell.exchange(f"ls /tmp/pinet-console-{os.getpid()} 2>/dev/null", 10)[1].decode().split()


def test_output_errors_and_status_arrive_apart(shell: ConsoleShell) -> None:
    done = shell.run("echo out; echo wrong >&2; printf 'no newline'; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\nno newline", "wrong\n")
    assert left(shell) == []


def test_long_scripts_with_quotes_and_lines_arrive_as_they_are(shell: ConsoleShell) -> None:
    letters = "".join(f"'{number}' $HOME \\ \"x\"\n" for number in range(3 * CHUNK))
    done = shell.run(f"cat <<'END'\n{letters}END\necho done | cat")
    assert done.stdout == f"{letters}done\n"


def test_bytes_that_a_terminal_would_change_arrive(shell: ConsoleShell) -> None:
    assert shell.fetch("printf '\\001\\003\\004\\012\\015\\377'", 10) == bytes([1, 3, 4, 10, 13, 255])


def test_a_line_of_the_loader_for_each_program_does_no_harm(shell: ConsoleShell) -> None:
    shell.exchange("LD_PRELOAD=/nonexistent/libarmmem.so; export LD_PRELOAD", 10)
    done = shell.run("seq 3; exit 4")
    assert (done.returncode, done.stdout, own_lines(done.stderr)) == (4, "1\n2\n3\n", [])
    assert "cannot be preloaded" in done.stderr
    assert left(shell) == []


def test_kernel_messages_in_the_output_do_no_harm(line: TerminalLine, shell: ConsoleShell) -> None:
    line.noise = 2
    assert shell.run("seq 200").stdout == "".join(f"{number}\n" for number in range(1, 201))
    assert line.noise == 0


def test_a_console_that_never_delivers_is_reported(line: TerminalLine, shell: ConsoleShell) -> None:
    line.noise = 10_000
    with pytest.raises(SshError, match=r"does not receive commands|does not arrive undamaged"):
        shell.run("seq 200")


def test_a_command_that_hangs_is_ended_and_the_next_one_runs(shell: ConsoleShell) -> None:
    with pytest.raises(SshError, match=r"pi did not answer on its serial console within 1 s"):
        shell.run("sleep 1000", timeout_s=1)
    assert shell.run("echo again").stdout == "again\n"


def first_lines(process: Process) -> list[str]:
    deadline = time.monotonic() + 20
    while not (lines := process.lines()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return lines


def test_a_process_runs_beside_other_commands(shell: ConsoleShell, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = shell.spawn(f"echo begun; while [ ! -e {go} ]; do sleep 0.1; done; echo over; echo trouble >&2; exit 3")
    assert process.poll() is None
    assert shell.run("echo beside").stdout == "beside\n"
    assert first_lines(process) == ["begun"]
    assert process.poll() is None
    go.touch()
    done = process.wait(20)
    assert (done.returncode, done.stdout, done.stderr) == (3, "begun\nover\n", "trouble\n")
    assert process.lines() == ["over"]
    assert left(shell) == []


def test_stop_ends_all_processes_of_a_command(shell: ConsoleShell) -> None:
    process = shell.spawn("echo $$; sleep 4242 & sleep 4242")
    lines = first_lines(process)
    done = process.stop()
    assert done.returncode != 0
    assert process.poll() is not None
    assert not Path(f"/proc/{lines[0]}").exists()
    sleeping = shell.run(r"grep -slz '^4242$' /proc/[0-9]*/cmdline").stdout
    assert sleeping == ""
    assert left(shell) == []


def test_commands_of_several_threads_do_not_mix(shell: ConsoleShell) -> None:
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        found[number] = shell.run(f"seq {number} {number + 50}").stdout

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {n: "".join(f"{k}\n" for k in range(n, n + 51)) for n in range(4)}


def test_a_small_file_arrives_as_it_is(line: TerminalLine, shell: ConsoleShell, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(15_000)
    (tmp_path / "module.ko").write_bytes(data)
    line.noise = 1
    with (tmp_path / "module.ko").open("rb") as stream:
        done = shell.feed(f"cat >{tmp_path}/there; cat {tmp_path}/none", stream, 30)
    assert (done.returncode, done.stdout) == (1, "")
    assert (tmp_path / "there").read_bytes() == data
    assert shell.fetch(f"cat {tmp_path}/there", 30) == data
    assert left(shell) == []


def test_large_files_are_refused_before_they_are_sent(shell: ConsoleShell, tmp_path: Path) -> None:
    source = tmp_path / "Image"
    source.write_bytes(random.Random(1).randbytes(600_000))
    why = "pi is reached by its serial console .* too slow for a file of 0.6 MB: it takes about 3 minutes"
    with source.open("rb") as stream, pytest.raises(LabError, match=why):
        shell.feed("cat", stream, 10)
    with pytest.raises(LabError, match=why):
        shell.fetch(f"cat {source}", 10)
    assert left(shell) == []


def test_an_abort_of_the_run_ends_the_wait(shell: ConsoleShell) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    # Ctrl-C would end a shell that is still starting.
    shell.run("true")
    shell.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        shell.run("sleep 1000", timeout_s=60)
    shell.watch = lambda: None
    # The changes on the node must be undone now.
    assert shell.run("echo undone").stdout == "undone\n"
