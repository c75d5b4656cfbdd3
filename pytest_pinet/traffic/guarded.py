"""What the command lines of all traffic tools share: they begin at a moment, and do not outlive whoever wanted them."""

from __future__ import annotations

import shlex

# How long a server may take until clients can connect, and a client until it has.
CONNECT_TIMEOUT_S = 5.0
# A command outlives its run by this much at most, should the runner be killed and nobody stop it.
LIFETIME_S = 20.0
# What a server prints once clients can connect.
LISTENING = "pinet: listening"
# Forms of ``timeout``, the best first: busybox's knows no --foreground, and -k only since 1.34.
TIMEOUTS = ("timeout --foreground -k 1", "timeout -k 1", "timeout")
# Shell words that print the best one that an end understands; they fail where it has none.
ASK_TIMEOUT = " || ".join(f"{{ {form} 1 true >/dev/null 2>&1 && echo '{form}'; }}" for form in TIMEOUTS)


def begin_at(uptime_s: float | None) -> str:
    """Shell words that wait until the end has been up for so long; none where nothing is to be waited for."""
    if uptime_s is None:
        return ""
    # /proc/uptime has two decimals always; shells know whole numbers only.
    return (
        f'while read -r up x </proc/uptime && [ "${{up%.*}}${{up#*.}}" -lt {round(uptime_s * 100)} ]; '
        "do sleep 0.01 2>/dev/null || :; done; "
    )


def guarded(argv: list[str], timeout: str, lifetime_s: float, meanwhile: str = "") -> str:
    """A command that dies with its shell and, when that is lost, of old age; its exit status is the shell's.

    Where there is no ``timeout``, nothing but the end of the run stops a command that lost its shell.

    The shell stays (no ``exec``), since ssh reports a killed command as 255 and a shell as 128 plus the signal.
    """
    limit = f"{timeout} {lifetime_s:.0f} " if timeout else ""
    command = f"LC_ALL=C {limit}{shlex.join(argv)}"
    return (
        f"{command} & p=$!; trap 'kill $p 2>/dev/null; wait $p' EXIT; trap 'exit 143' HUP INT TERM; "
        f"{meanwhile}wait $p; r=$?; trap - EXIT; exit $r"
    )
