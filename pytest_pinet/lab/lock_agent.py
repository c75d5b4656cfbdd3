"""The lock file on a board: the program that reads and writes it, and the fence that compares its owner.

The program has one connection for all requests of a process. The lock survives a reboot. The heartbeat is in /run,
because a write to the card would disturb a measurement, so a reboot removes it. No clocks are compared, since a
Raspberry Pi has no real-time clock.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.errors import LeaseError, SshError
from pytest_pinet.execution.shell import as_root, own_lines, reason, root_cure
from pytest_pinet.lab.labgrid.identity import Holding

FOLDER = "/var/lib/pinet-lease"
RUN = "/run/pinet-lease"
BEAT_FILE = f"{RUN}/beat"
ANSWER_S = 10.0
CONNECT_S = 15.0
# A process that wakes up after so many others were evicted counts as a new one.
GONE_LINES = 50
# Shell functions: `gone OWNER` is whether others have removed the lock of this owner; `held` sets o to the owner.
HELD = """\
gone() {
  for g in $p/gone $r/gone; do
    [ -s $g ] || continue
    while read -r w; do [ "$w" != "$1" ] || return 0; done <$g
  done
  return 1
}
held() {
  for f in $p/lock $r/lock; do
    o=; [ ! -s $f ] || read -r o <$f || :
    [ -z "$o" ] || gone "$o" || return 0
  done
  o=
}
"""
# Reads requests `VERB COUNT OWNER`, and answers each with `is COUNT OWNER`: the present heartbeat and owner.
# A heartbeat starts no process. `ln` creates the lock atomically; the mutex covers the removal of another lock. `sync`
# is outside of the mutex, since it takes long after a deployment. flock of busybox has no time limit (-w).
# All agents read both places of the lock: a card can become read-only while a lock is on it. The file `gone` has the
# owners whose lock was removed by others, or could not be removed: they do not hold it, and never take it again. If the
# card can be written, the file survives a reboot, as the lock does: a suspended process may wake up after one.
AGENT = f"""
umask 022
p={FOLDER} r={RUN}
mkdir -p $p 2>/dev/null && [ -w $p ] && d=$p || d=$r
mkdir -p $r && exec 9>>$r/mutex || exit 1
{HELD}beat() {{ b=; [ ! -e $r/beat ] || read -r b <$r/beat || :; }}
alone() {{
  n=0
  until ! command -v flock >/dev/null || flock -n 9; do
    [ $n -lt 50 ] || return 1
    n=$((n + 1)); sleep 0.1 2>/dev/null || sleep 1
  done
}}
all() {{ ! command -v flock >/dev/null || flock -u 9; }}
forget() {{
  {{ tail -n {GONE_LINES} $d/gone; echo "$words"; }} >$d/gone.$$ 2>/dev/null && mv $d/gone.$$ $d/gone ||
    echo "$words" >>$r/gone
}}
echo ready
while read -r verb count words; do
  held
  case $verb in
  take)
    if [ -z "$o" ] && ! gone "$words" && alone; then
      held
      if [ -z "$o" ]; then
        [ ! -e $d/lock ] || rm -f $d/lock
        printf '%s\\n' "$words" >$d/lock.$$ && ln $d/lock.$$ $d/lock
        rm -f $d/lock.$$; held
      fi
      all; sync
    fi
    [ "$o" != "$words" ] || echo $count >$r/beat
    ;;
  drop | evict)
    if [ "$o" = "$words" ] && alone; then
      held; beat
      if [ "$o" = "$words" ] && {{ [ $verb = drop ] || [ "${{b:--1}}" = "$count" ]; }}; then
        [ $verb = drop ] || forget
        rm -f $p/lock $r/lock || echo "$words" >>$r/gone
        rm -f $r/beat
      fi
      all; sync; held
    fi
    ;;
  esac
  beat
  echo "is ${{b:--}} $o"
done
"""
_REFUSED = re.compile(r"Permission denied|Host key verification|resolve hostname|Bad configuration|identity file")


@dataclass(frozen=True)
class LockState:
    """The owner's line in a lock (empty: no owner), and the count of its heartbeat (None: none since the boot)."""

    owner: str
    count: int | None


class Agent:
    """The agent on one board. It is started when needed, and again after the connection was lost. Thread-safe.

    ``argv`` is the command that runs a command line on the board. ``login`` is the word for ssh (``pi@192.0.2.5``).
    Each answer may take ``patience`` times as long as usual.
    """

    def __init__(self, board: str, argv: Sequence[str], login: str, patience: float = 1.0) -> None:
        self._board = board
        self._argv = [*argv]
        self.login = login
        self._patience = patience
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""

    def request(self, verb: str, count: int = 0, owner: str = "") -> LockState:
        """Send a request: ``look``, ``take``, ``drop``, or ``evict`` an owner whose heartbeat still is ``count``.

        ``count`` is -1 if the owner has no heartbeat. Raises SshError if the board does not answer; LeaseError if it
        refuses the login or root.
        """
        with self._lock:
            fresh = self._process is None or self._process.poll() is not None
            try:
                if fresh:
                    self._start()
                try:
                    return self._exchange(f"{verb} {count} {owner}\n")
                except SshError:
                    if fresh:
                        raise
                # The connection was lost since the last request, such as by a reboot.
                self._end()
                self._start()
                return self._exchange(f"{verb} {count} {owner}\n")
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        self._received = b""
        # A session of its own, so that Ctrl-C does not end the connection before the lock is released.
        self._process = subprocess.Popen(
            [*self._argv, as_root(AGENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        deadline = time.monotonic() + CONNECT_S * self._patience
        # What the login prints comes before.
        while not self._line(deadline).endswith("ready"):
            pass

    def _exchange(self, text: str) -> LockState:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except OSError:
            raise self._error() from None
        deadline = time.monotonic() + ANSWER_S * self._patience
        while not (line := self._line(deadline)).startswith("is "):
            pass
        _, count, owner = line.split(" ", 2)
        return LockState(owner, int(count) if count.isdecimal() else None)

    def _line(self, deadline: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0:
                raise SshError(f"{self._board} does not answer over ssh ({self.login})", self._act)
            if not select.select([self._process.stdout], [], [], left)[0]:
                continue
            data = os.read(self._process.stdout.fileno(), 4096)
            if not data:
                raise self._error()
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace")

    @property
    def _act(self) -> str:
        return f"check that {self._board} has power and a network, and that this works: ssh {self.login}"

    def _error(self) -> SshError | LeaseError:
        assert self._process is not None
        assert self._process.stderr is not None
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
        said = "\n".join(own_lines(self._process.stderr.read().decode("utf-8", "replace")))
        why = reason(said) if said else "the connection was lost"
        if "sudo" in said:
            return LeaseError(f"{self._board} cannot be leased: {said.splitlines()[-1]}", root_cure(self._board))
        if _REFUSED.search(said):
            return LeaseError(f"{self._board} refuses the login ({self.login}): {why}", f"ssh-copy-id {self.login}")
        return SshError(f"{self._board} does not answer over ssh ({self.login}): {why}", self._act)

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    # The rest of a request to a process that has ended.
                    continue
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


REFUSED = 87
_MARK = "pinet-lease: held by"
_HOLDER = re.compile(rf"^{_MARK} ?(.*)$", re.MULTILINE)


def fence(owner: str) -> str:
    """Return the start of a command line that goes on only while this owner's line, or no other, is in the lock.

    An empty lock is one that a crash of the board has lost. It needs no root.
    """
    own = shlex.quote(owner)
    return (
        f'( p={FOLDER} r={RUN}\n{HELD}held; if gone {own} || {{ [ -n "$o" ] && [ "$o" != {own} ]; }};'
        f' then echo {shlex.quote(_MARK)} "$o" >&2; exit 1; fi ) || exit {REFUSED}\n'
    )


def refusal(name: str, returncode: int, error_text: str) -> LeaseError | None:
    """Return the error if the fence has refused a command on the board ``name``; else None."""
    found = _HOLDER.search(error_text) if returncode == REFUSED else None
    if found is None:
        return None
    holding = Holding.of_line(found[1])
    now = f"and is held by {holding}" if holding is not None else "and no user holds it now"
    return LeaseError(
        f"the lock on {name} was lost during the test, {now}: this run changed nothing there any more",
        "run the test again; a machine that was suspended loses its boards",
    )
