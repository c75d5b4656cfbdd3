"""What all traffic tools do with processes on the ends: guard, start, await and stop them, and try another port."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pytest_pinet.errors import LabError, PinetError, SshError, ToolError, TrafficError
from pytest_pinet.evidence.collecting import once_after
from pytest_pinet.evidence.sockets import ask_sockets, parse_sockets
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed, Process, Shell
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic.tool import Progress, Watch

T = TypeVar("T")
# Below the ephemeral ports of the kernel (from 32768).
PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 5
# The longest time until a server accepts connections, and until a client is connected.
CONNECT_TIMEOUT_S = 5.0
# A command outlives its run by this much at most if the runner is killed.
LIFETIME_S = 20.0
# How much longer than its traffic a run may take.
GRACE_S = 15.0
POLL_S = 0.02
PROGRESS_S = 0.5
# Ends are checked for a sign of life this often during the traffic, and this long after its planned end.
SIGN_OF_LIFE_S = 5.0
OVERTIME_S = 2.0
ANSWER_S = 3.0
# A server prints this line once clients can connect.
LISTENING = "pinet: listening"
# Between these lines, a command prints what its end read after its process ended. Its report follows.
ENDED = "pinet: ended"
REPORT = "pinet: report"
# Forms of ``timeout``, the best first: busybox has no --foreground, and has -k only since 1.34.
TIMEOUTS = ("timeout --foreground -k 1", "timeout -k 1", "timeout")
# Shell words that print the best form that an end supports. They fail if it supports none.
ASK_TIMEOUT = " || ".join(f"{{ {form} 1 true >/dev/null 2>&1 && echo '{form}'; }}" for form in TIMEOUTS)


class PortTaken(Exception):
    """Another program listens on the port. `on_a_free_port` then tries another one; this error is never shown."""


class PerEnd(Generic[T]):
    """Remembers what ``read`` returned for each end, so that an end is queried only once."""

    def __init__(self, read: Callable[[Shell], T]) -> None:
        self._read = read
        # The key is the shell's id. The value keeps the shell alive, so that no other shell gets this id.
        self._known: dict[int, tuple[Shell, T]] = {}

    def of(self, shell: Shell) -> T:
        if id(shell) not in self._known:
            self._known[id(shell)] = (shell, self._read(shell))
        return self._known[id(shell)][1]


def on_a_free_port(ports: Sequence[int], server: Shell, run: Callable[[int], T], first: int | None = None) -> T:
    """Return the result of ``run`` on a random one of the ports, or on the first free one from ``first`` on.

    Raises ToolError if several ports are taken.
    """
    most = min(PORT_ATTEMPTS, len(ports))
    # Not the shared generator: a test that seeds it would give all workers the same ports.
    attempts = random.SystemRandom().sample(ports, most)
    if first is not None:
        attempts = [ports[(first + more) % len(ports)] for more in range(most)]
    for port in attempts:
        try:
            return run(port)
        except PortTaken:
            continue
    raise ToolError(
        f"all of the ports {attempts} are in use on {server.name}",
        f"look for programs that listen on {server.name}",
    )


def begin_at(uptime_s: float | None) -> str:
    """Return shell words that wait until the end has this uptime; empty for None."""
    if uptime_s is None:
        return ""
    # /proc/uptime always has two decimals; shells compute only with whole numbers.
    return (
        f'while read -r up x </proc/uptime && [ "${{up%.*}}${{up#*.}}" -lt {round(uptime_s * 100)} ]; '
        "do sleep 0.01 2>/dev/null || :; done; "
    )


def is_listening(port: int) -> str:
    """Return a shell command that succeeds once a server listens on this TCP port."""
    # A line of /proc/net/tcp: local address:port, remote address:0, 0A = LISTEN. Addresses have 8 or 32 digits.
    return f"grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null"


def guarded(argv: list[str], timeout: str, lifetime_s: float, meanwhile: str = "", at_end: str = "") -> str:
    """Return a command line that ends with its shell, or after ``lifetime_s`` if the shell is lost.

    It exits with the status of the command. Without ``timeout``, a command that lost its shell is stopped only by the
    end of the run. The shell stays (no ``exec``): ssh reports a killed command as 255, a shell reports 128 plus the
    signal. With the shell words ``at_end``, the output of the command is held back until these words have run after its
    end. They print between the lines ENDED and REPORT.
    """
    limit = f"{timeout} {lifetime_s:.0f} " if timeout else ""
    command = f"LC_ALL=C {limit}{shlex.join(argv)}"
    hold, to, show = "", "", ""
    if at_end:
        # A file without a name, so that nothing is left.
        hold, to, show = 'o=$(mktemp) && exec 5>"$o" 6<"$o" && rm -f "$o" || exit 1; ', " >&5", "; cat <&6"
    return (
        f"{hold}{command}{to} & p=$!; trap 'kill $p 2>/dev/null; wait $p{show}' EXIT; trap 'exit 143' HUP INT TERM; "
        f"{meanwhile}wait $p; r=$?; trap - EXIT; "
        + (f"echo '{ENDED}'; ({at_end}) 2>/dev/null; echo '{REPORT}'{show}; " if at_end else "")
        + "exit $r"
    )


@contextmanager
def running(shell: Shell, command: str, program: str, keep: Callable[[Completed], object]) -> Iterator[Process]:
    """Run a command, and stop it, here and on its end, on every exit from the block. ``keep`` receives its output.

    A failed stop never hides an earlier error.
    """
    process = shell.spawn(command)
    try:
        yield process
    except BaseException as error:
        try:
            keep(process.stop())
        except PinetError as trouble:
            error.add_note(f"{program} on {shell.name} could not be stopped: {trouble}")
        raise
    keep(process.stop())


def await_listening(server: Process, shell: Shell, program: str, port: int, binding_s: float = 0.0) -> bool:
    """Wait until clients can connect, ``binding_s`` longer for a server that retries to bind.

    Return False if the server ended instead. Raises TrafficError, SshError.
    """
    timeout_s = CONNECT_TIMEOUT_S + binding_s
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended = server.poll() is not None
        if LISTENING in server.lines():
            return True
        if ended:
            return False
        time.sleep(POLL_S / 4)
    sign_of_life(shell, "before the traffic")
    raise TrafficError(
        f"the {program} on {shell.name} runs, but does not listen on port {port} after {timeout_s:g} s",
        f"look at the load of {shell.name}",
        server.stop().stdout,
    )


def await_traffic(
    ended: Callable[[], bool],
    ends: Sequence[Shell],
    seconds: float,
    hanging: Callable[[float], TrafficError],
    *,
    grace_s: float = GRACE_S,
    on_progress: Progress | None = None,
    watch: Watch | None = None,
    quiet: bool = False,
) -> None:
    """Wait until traffic of ``seconds`` has ``ended``.

    With ``quiet`` no end is checked before it is overdue. Raises SshError with the name of an end that does not answer
    any more (within 20 s of its freezing), and ``hanging`` (of the overdue seconds) if all ends answer.
    """
    start = time.monotonic()
    overdue = start + seconds + grace_s
    next_sign = overdue if quiet else _next_sign(start, start + seconds)
    next_progress = start + PROGRESS_S
    while not ended():
        if watch is not None:
            watch()
        now = time.monotonic()
        if now >= min(next_sign, overdue):
            for shell in ends:
                sign_of_life(shell, f"{now - start:.0f} s after the start of {seconds:.0f} s of traffic")
            next_sign = _next_sign(time.monotonic(), start + seconds)
        if now >= overdue:
            raise hanging(now - start - seconds)
        if on_progress is not None and now >= next_progress:
            on_progress(min(now - start, seconds))
            next_progress = now + PROGRESS_S
        time.sleep(POLL_S)


def _next_sign(now: float, traffic_end: float) -> float:
    """Return the time of the next check: every few seconds, not in a shorter run, and not just when traffic ends."""
    due = now + SIGN_OF_LIFE_S
    return due if due < traffic_end or now >= traffic_end else traffic_end + OVERTIME_S


def run_watched(
    shell: Shell, command: str, program: str, seconds: float, watch: Watch | None, grace_s: float, quiet: bool = False
) -> Completed:
    """Run a command to its end, which takes ``seconds``. Raises TrafficError after ``grace_s`` more, SshError."""
    ended: list[Completed] = []
    with running(shell, command, program, ended.append) as process:
        await_traffic(
            lambda: process.poll() is not None,
            (shell,),
            seconds,
            lambda late_s: overdue(program, shell, seconds + late_s),
            grace_s=grace_s,
            watch=watch,
            quiet=quiet,
        )
    return ended[0]


def overdue(program: str, shell: Shell, seconds: float) -> TrafficError:
    """Return the error of a program that does not end."""
    text = f"{program} on {shell.name} still runs after {seconds:.0f} s"
    return TrafficError(text, f"look at the load of {shell.name}")


def await_end(process: Process, timeout_s: float) -> bool:
    """Wait for the end of the process. Return whether it ended within the time."""
    return Deadline(timeout_s).wait_until(lambda: process.poll() is not None, POLL_S / 4)


def sign_of_life(shell: Shell, when: str) -> None:
    """Raise SshError if the end does not answer."""
    try:
        shell.run("true", timeout_s=ANSWER_S)
    except LabError as error:
        raise SshError(
            f"{shell.name} does not answer any more, {when} ({error.message})",
            f"look at the console of {shell.name}; power-cycle it if it hangs",
        ) from error


@dataclass
class MidRunProbe:
    """Reads the sockets at both ends of each flow once, ``after_s`` into the traffic. ``look`` is called throughout.

    The read delays a slow receiver, which then counts some bytes late. So the read must not fall on the begin or end of
    the counted time. ``ends`` are the sender and the receiver of each direction. A run that ends earlier leaves nothing
    to ``add``.
    """

    ends: Mapping[Direction, tuple[Shell, Shell]]
    port: int
    streams: int
    after_s: float
    watch: Watch | None = None

    def __post_init__(self) -> None:
        self._said: dict[int, str] = {}
        self.look = once_after(self.after_s, self._read, self.watch)

    def _read(self) -> None:
        shells = {id(shell): shell for pair in self.ends.values() for shell in pair}
        self._said = {key: ask_sockets(shell, self.port) for key, shell in shells.items()}

    @property
    def raw(self) -> dict[str, str]:
        """The output of ``ss`` by file name, of the sender and the receiver of the first direction."""
        shells = next(iter(self.ends.values()), ())
        said = zip(("sender", "receiver"), (self._said.get(id(shell), "") for shell in shells), strict=False)
        return {f"{role}-sockets.txt": text for role, text in said if text}

    def add(self, flows: Mapping[Direction, Flow]) -> dict[Direction, Flow]:
        """Return the flows with the values from the kernels of their ends."""
        found = dict(flows)
        for way, (sender, receiver) in self.ends.items():
            if way in found and self._said:
                found[way] = replace(
                    found[way],
                    sockets=parse_sockets(self._said[id(sender)], self.streams),
                    far_sockets=parse_sockets(self._said[id(receiver)], self.streams, receiving=True),
                )
        return found
