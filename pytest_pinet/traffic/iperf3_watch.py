"""Wait for a run, and detect an end that died or froze."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_pinet.errors import LabError, SshError, TrafficError
from pytest_pinet.execution.shell import Process, Shell
from pytest_pinet.traffic.process_guard import CONNECT_TIMEOUT_S, LISTENING
from pytest_pinet.traffic.tool import Progress, Watch

POLL_S = 0.02
PROGRESS_S = 0.5
# How long the client may go on after its server ended; it notices a closed connection at once.
ORPHAN_S = 1.5
# Ends are checked for a sign of life this often during the traffic, and this long after its planned end.
SIGN_OF_LIFE_S = 5.0
OVERTIME_S = 2.0
ANSWER_S = 3.0


@dataclass(frozen=True)
class Iperf3Process:
    """A process of iperf3 and the end that it runs on."""

    process: Process
    shell: Shell


def await_listening(server: Iperf3Process, port: int) -> bool:
    """Wait until clients can connect. Return False if the server ended instead. Raises TrafficError."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while time.monotonic() < deadline:
        ended = server.process.poll() is not None
        if LISTENING in server.process.lines():
            return True
        if ended:
            return False
        time.sleep(POLL_S / 4)
    sign_of_life(server.shell, "before the traffic")
    raise TrafficError(
        f"the iperf3 server on {server.shell.name} runs, but does not listen on port {port} "
        f"after {CONNECT_TIMEOUT_S:g} s",
        f"look at the load of {server.shell.name}",
        server.process.stop().stdout,
    )


def await_client(
    client: Iperf3Process,
    server: Iperf3Process,
    port: int,
    seconds: float,
    grace_s: float,
    on_progress: Progress | None = None,
    watch: Watch | None = None,
    quiet: bool = False,
) -> None:
    """Wait for the end of the client, or for an early end of the server.

    ``on_progress`` receives the seconds of traffic so far, twice a second. ``watch`` is called throughout and can end
    the wait by raising. With ``quiet`` no end is checked before it is overdue. Raises SshError with the name of an end
    that does not answer any more (within 20 s of its freezing), TrafficError if both answer but iperf3 hangs.
    """
    start = time.monotonic()
    overdue = start + seconds + grace_s
    next_sign = overdue if quiet else _next_sign(start, start + seconds)
    next_progress = start + PROGRESS_S
    orphan_since: float | None = None
    while client.process.poll() is None:
        if watch is not None:
            watch()
        now = time.monotonic()
        if server.process.poll() is not None:
            orphan_since = now if orphan_since is None else orphan_since
            if now > orphan_since + ORPHAN_S:
                return
        if now >= min(next_sign, overdue):
            when = f"{now - start:.0f} s after the start of {seconds:.0f} s of traffic"
            sign_of_life(client.shell, when)
            sign_of_life(server.shell, when)
            next_sign = _next_sign(time.monotonic(), start + seconds)
        if now >= overdue:
            raise _hanging(client, server, port, now - start - seconds)
        if on_progress is not None and now >= next_progress:
            on_progress(min(now - start, seconds))
            next_progress = now + PROGRESS_S
        time.sleep(POLL_S)


def await_end(process: Process, timeout_s: float) -> bool:
    """Wait for the end of the process. Return whether it ended within the time."""
    deadline = time.monotonic() + timeout_s
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S / 4)
    return True


def _next_sign(now: float, traffic_end: float) -> float:
    """Return the time of the next check: every few seconds, not in a shorter run, and not just when traffic ends."""
    due = now + SIGN_OF_LIFE_S
    return due if due < traffic_end or now >= traffic_end else traffic_end + OVERTIME_S


def sign_of_life(shell: Shell, when: str) -> None:
    """Raise SshError if the end does not answer."""
    try:
        shell.run("true", timeout_s=ANSWER_S)
    except LabError as error:
        raise SshError(
            f"{shell.name} does not answer any more, {when} ({error.message})",
            f"look at the console of {shell.name}; power-cycle it if it hangs",
        ) from error


def _hanging(client: Iperf3Process, server: Iperf3Process, port: int, late_s: float) -> TrafficError:
    ends = f"the client on {client.shell.name} and the server on {server.shell.name}"
    states = [_state(client, "-c", port), _state(server, "-s", port)]
    return TrafficError(
        f"iperf3 still runs {late_s:.0f} s after the traffic should have ended, though both ends answer "
        f"({ends}; {'; '.join(states)})",
        "look for a stopped or starved iperf3, and for a link that went down during the traffic",
    )


def _state(running: Iperf3Process, option: str, port: int) -> str:
    # Find our iperf3, not another one on this end. Uses /proc, since ps may be missing.
    look = (
        'for p in /proc/[0-9]*; do read -r name 2>/dev/null <$p/comm && [ "$name" = iperf3 ] || continue; '
        f"tr '\\0' ' ' <$p/cmdline | grep -q -- ' {option} .* -p {port} ' && grep ^State: $p/status; done; true"
    )
    try:
        found = running.shell.run(look, timeout_s=ANSWER_S).stdout.split("\n")[0]
    except LabError as error:
        return f"{running.shell.name}: {error.message}"
    return f"{running.shell.name}: {' '.join(found.split()) or 'no such process'}"
