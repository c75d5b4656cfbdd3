"""Shell command lines that begin at a given time and end with their run, for all traffic tools."""

from __future__ import annotations

import shlex

# The longest time until a server accepts connections, and until a client is connected.
CONNECT_TIMEOUT_S = 5.0
# A command outlives its run by this much at most if the runner is killed.
LIFETIME_S = 20.0
# A server prints this line once clients can connect.
LISTENING = "pinet: listening"
# Forms of ``timeout``, the best first: busybox has no --foreground, and has -k only since 1.34.
TIMEOUTS = ("timeout --foreground -k 1", "timeout -k 1", "timeout")
# Shell words that print the best form that an end supports. They fail if it supports none.
ASK_TIMEOUT = " || ".join(f"{{ {form} 1 true >/dev/null 2>&1 && echo '{form}'; }}" for form in TIMEOUTS)


def begin_at(uptime_s: float | None) -> str:
    """Return shell words that wait until the end has this uptime; empty for None."""
    if uptime_s is None:
        return ""
    # /proc/uptime always has two decimals; shells compute only with whole numbers.
    return (
        f'while read -r up x </proc/uptime && [ "${{up%.*}}${{up#*.}}" -lt {round(uptime_s * 100)} ]; '
        "do sleep 0.01 2>/dev/null || :; done; "
    )


def guarded(argv: list[str], timeout: str, lifetime_s: float, meanwhile: str = "") -> str:
    """Return a command line that ends with its shell, or after ``lifetime_s`` if the shell is lost.

    It exits with the status of the command. Without ``timeout``, a command that lost its shell is stopped only by the
    end of the run. The shell stays (no ``exec``): ssh reports a killed command as 255, a shell reports 128 plus the
    signal.
    """
    limit = f"{timeout} {lifetime_s:.0f} " if timeout else ""
    command = f"LC_ALL=C {limit}{shlex.join(argv)}"
    return (
        f"{command} & p=$!; trap 'kill $p 2>/dev/null; wait $p' EXIT; trap 'exit 143' HUP INT TERM; "
        f"{meanwhile}wait $p; r=$?; trap - EXIT; exit $r"
    )
