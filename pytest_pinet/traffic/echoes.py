"""A stream of pings with the time of each request and of each answer, to find out how long an end is silent.

``ping -D -O`` of iputils prints a line with a time stamp for each answer, and one for each request that has no answer
yet. So its lines show the pauses of the sender, too. It sends 1,000 requests a second while
answers come, and 100 a second while none comes: a silence is known to 10 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pytest_pinet.errors import TrafficError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed, Process, Shell, as_root, last_line
from pytest_pinet.traffic.processes import running
from pytest_pinet.traffic.tool import Watch

INTERVAL_S = 0.001
# A silence is longer than its true length by this much at most, unless the sender paused.
RESOLUTION_S = 0.01
# [1796000384.059358] 64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=0.129 ms
# [1796000385.571114] no answer yet for icmp_seq=1173
_LINE = re.compile(r"\[(\d+\.\d+)\] (?:\d+ bytes from \S+ icmp_seq=\d+ .*time=([\d.]+) ms|(no answer yet) for )")


@dataclass(frozen=True)
class Echo:
    """A line of ping: its time, and the round trip of the answer (s); None for a request without an answer yet."""

    at_s: float
    rtt_s: float | None = None


@dataclass(frozen=True)
class Silence:
    """The longest time without an answer. ``pause_s`` is the longest pause of the sender at its two ends."""

    seconds: float
    pause_s: float


def parse(lines: Iterable[str]) -> list[Echo]:
    """Return the echoes in their order; other lines are skipped."""
    found = filter(None, map(_LINE.match, lines))
    return [Echo(float(one[1]), None if one[3] else float(one[2]) / 1e3) for one in found]


def longest_silence(echoes: Iterable[Echo]) -> Silence | None:
    """Return the longest time between two answers, or from the last answer to the end; None without any answer.

    A pause of the sender in the middle of a silence does not change its length. A pause at one of its ends does.
    """
    best: tuple[float, int, int] | None = None
    every = list(echoes)
    last: int | None = None
    for index, one in enumerate(every):
        if one.rtt_s is None and index < len(every) - 1:
            continue
        if last is not None:
            gap = one.at_s - every[last].at_s
            best = (gap, last, index) if best is None or gap > best[0] else best
        last = index if one.rtt_s is not None else last
    if best is None:
        return None
    seconds, begin, end = best
    pauses = every[begin + 1].at_s - every[begin].at_s, every[end].at_s - every[end - 1].at_s
    return Silence(seconds, max(pauses))


def first_answer_s(echoes: Iterable[Echo], interval_s: float) -> float | None:
    """Return the time from the first request to the first answer; None without any answer."""
    sent_s: float | None = None
    for one in echoes:
        if sent_s is None:
            # The line about a missing answer is printed when the next request is sent.
            sent_s = one.at_s - (interval_s if one.rtt_s is None else one.rtt_s)
        if one.rtt_s is not None:
            return one.at_s - sent_s
    return None


def command(own_address: str, address: str, interval_s: float, lifetime_s: float) -> str:
    """Return the command line. Root may ping at any rate.

    It ends with its login, or after ``lifetime_s``: a signal of the ssh user does not reach a command of root, but the
    end of ``sleep`` does.
    """
    ping = f"LC_ALL=C ping -n -D -O -i {interval_s:g} -I {own_address} {address}"
    return f"sleep {lifetime_s:.0f} | {as_root(f'{ping} </dev/null & p=$!; cat >/dev/null; kill $p; wait $p')}"


def stream(
    shell: Shell, own_address: str, address: str, lifetime_s: float, keep: Callable[[Completed], object]
) -> AbstractContextManager[Process]:
    """Ping ``address`` from ``own_address`` while the context is open; ``keep`` receives the output at its end."""
    return running(shell, command(own_address, address, INTERVAL_S, lifetime_s), "ping", keep)


def await_answers(process: Process, count: int, timeout_s: float, watch: Watch) -> bool:
    """Wait for so many answers of a stream; return whether they came in time. Raises what ``watch`` raises."""
    seen = 0

    def enough() -> bool:
        nonlocal seen
        watch()
        seen += sum(one.rtt_s is not None for one in parse(process.lines()))
        return seen >= count or process.poll() is not None

    return Deadline(timeout_s).wait_until(enough) and seen >= count


def refused(shell: Shell, done: Completed) -> TrafficError:
    """Return the error of a ping that printed no echo."""
    said = last_line(done.stderr, done.stdout) or f"exit status {done.returncode}"
    return TrafficError(
        f"ping on {shell.name} reports no time of any request or answer: {said}",
        f"on {shell.name}: install the package iputils-ping (busybox has no -D and -O), and allow the ssh user sudo",
    )
