"""Run a program that serves at one end and another that asks at the other end, each for one fresh connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pytest_pinet.errors import CapabilityError, TrafficError
from pytest_pinet.execution.shell import Completed, Process, Shell, last_line
from pytest_pinet.traffic.processes import (
    ASK_TIMEOUT,
    CONNECT_TIMEOUT_S,
    LIFETIME_S,
    LISTENING,
    PORTS,
    TIMEOUTS,
    PortTaken,
    await_listening,
    guarded,
    is_listening,
    on_a_free_port,
    running,
    sign_of_life,
)

# By program: its package of Debian, and shell words that print its version.
PROGRAMS = {
    "iperf3": ("iperf3", "iperf3 --version"),
    "sockperf": ("sockperf", r"sockperf --version | sed -n 's/.*version #*\([0-9][0-9.]*\).*/sockperf \1/p'"),
    "wrk": ("wrk", "wrk -v"),
    "nginx": ("nginx-light", "nginx -v"),
}
# Every test needs iperf3. Without one of these, the tests of some metrics are skipped.
OF_METRICS = ("sockperf", "wrk", "nginx")
# A server that cannot bind says so in different words.
_TAKEN = "address already in use"


# The command lines of a server and of its client, for this port.
Commands = Callable[[int], tuple[Sequence[str], Sequence[str]]]


def missing(shell: Shell) -> list[str]:
    """Return the programs of metrics that a node does not have. Raises SshError."""
    lacks = f'for p in {" ".join(OF_METRICS)}; do [ -x "$(command -v $p)" ] || echo $p; done'
    return shell.run(f"PATH=$PATH:/usr/sbin:/sbin; {lacks}").stdout.split()


def packages(programs: Iterable[str]) -> str:
    """Return the packages of Debian that have these programs."""
    return " ".join(PROGRAMS[one][0] for one in programs)


def without(node: str, programs: Sequence[str]) -> str:
    """Return the sentence that a node has not these programs, with the command that installs them."""
    return f"{node} has no {' and no '.join(programs)}; on {node}: sudo apt-get install {packages(programs)}"


def is_without(reason: str) -> bool:
    """Return whether a test was skipped for this reason: a node has not a program."""
    return re.match(r"\S+ has no \w+.*; on \S+: sudo apt-get install ", reason) is not None


@dataclass(frozen=True)
class ToolOfEnd:
    """A program on an end: its version as it prints it, and the form of ``timeout`` there (empty: it has none)."""

    shell: Shell
    version: str
    timeout: str


def tool_of(shell: Shell, program: str) -> ToolOfEnd:
    """Return the program of an end.

    If the end does not have it, raises TrafficError for iperf3, and CapabilityError, which skips the test, for a
    program of some metrics. Both name the command that installs its package.
    """
    package, version = PROGRAMS[program]
    have = f'[ -x "$(command -v {program})" ] && {{ {version}; }} 2>&1 | head -n 1 || echo'
    asked = f"PATH=$PATH:/usr/sbin:/sbin; {have}; {ASK_TIMEOUT} || echo"
    lines = [*shell.run(asked).stdout.splitlines(), "", ""]
    if not lines[0].strip():
        if program in OF_METRICS:
            raise CapabilityError(without(shell.name, [program]))
        act = f"on {shell.name}: install the package {package} (apt-get install {package})"
        raise TrafficError(f"{shell.name} has no {program}", act)
    return ToolOfEnd(shell, lines[0].strip(), lines[1] if lines[1] in TIMEOUTS else "")


@dataclass
class Exchange:
    """A server, and the process of its ``client``. ``done`` and ``text`` are known when both have ended."""

    client: Process
    _ended: list[tuple[list[str], Completed]]

    @property
    def done(self) -> Completed:
        """The end of the client."""
        return self._ended[0][1]

    @property
    def text(self) -> str:
        """Command line and output, of the client first."""
        return "".join(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}" for argv, done in self._ended)


@contextmanager
def exchanging(
    server: ToolOfEnd, client: ToolOfEnd, commands: Commands, seconds: float, udp: bool = False
) -> Iterator[Exchange]:
    """Run the server and the client of ``commands`` (of a free port) until the context is left, whatever happens.

    ``seconds`` is how long the client takes. Raises LabError.
    """
    ended: list[tuple[list[str], Completed]] = []
    with ExitStack() as stack:

        def start(port: int) -> Process:
            serve, ask = (list(argv) for argv in commands(port))
            ended.clear()
            # A server of UDP has a line in /proc/net/udp, and no state.
            listens = f"grep -qi ':{port:04X} 0*:0000 07' /proc/net/udp /proc/net/udp6" if udp else is_listening(port)
            lives = "kill -0 $p 2>/dev/null"
            ready = (
                f"n=0; while {lives} && [ $n -lt 500 ] && ! {listens} 2>/dev/null; do n=$((n+1)); sleep 0.02; done; "
                f"{lives} && {listens} 2>/dev/null && echo '{LISTENING}'; "
            )
            with ExitStack() as opened:

                def begin(end: ToolOfEnd, argv: list[str], life_s: float, meanwhile: str = "") -> Process:
                    command = guarded(argv, end.timeout, life_s, meanwhile)
                    until = running(end.shell, command, argv[0], lambda done: ended.append((argv, done)))
                    return opened.enter_context(until)

                serving = begin(server, serve, seconds + LIFETIME_S + CONNECT_TIMEOUT_S, ready)
                if not await_listening(serving, server.shell, serve[0], port):
                    said = serving.wait(1.0)
                    if _TAKEN in (said.stdout + said.stderr).lower():
                        raise PortTaken
                    raise _failed(serve[0], server.shell, said)
                asking = begin(client, ask, seconds + LIFETIME_S)
                stack.push(opened.pop_all())
            return asking

        yield Exchange(on_a_free_port(PORTS, server.shell, start), ended)


def unreadable(program: str, shell: Shell, done: Completed, why: str) -> TrafficError:
    """Return the error for output without a value; raises SshError instead if the end does not answer any more."""
    sign_of_life(shell, f"at the end of {program}")
    return _failed(program, shell, done, f" ({why})")


def _failed(program: str, shell: Shell, done: Completed, why: str = "") -> TrafficError:
    said = last_line(done.stderr, done.stdout)
    return TrafficError(
        f"{program} on {shell.name} failed: {said or f'exit status {done.returncode}'}{why}",
        f"look at {program} of {shell.name}, and at the addresses and the firewall of the link",
        done.stdout + done.stderr,
    )
