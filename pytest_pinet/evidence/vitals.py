"""Finds out once a second whether the links of a board live, without root and without traffic: counters and carrier.

A shell script at the board prints counters (``command``). What they mean is found here without I/O: a link that sends
nothing while its queue fills, that receives nothing while its peer sends, or whose carrier comes and goes.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.node_state import TROUBLE
from pytest_pinet.model.quantities import Bitrate

# The script prints its samples together, one packet in so many seconds.
BATCH_S = 5
# A link stands if nothing moves for so long.
TX_STANDS_S = 5.0
RX_STANDS_S = 10.0
# The traffic before and during a standstill is counted over this time.
BEFORE_S = 10.0
# The fewest packets that a peer sends while a link receives nothing, and the fewest that the link received before.
LEAST_PACKETS = 5
NOT_READ = "its kernel messages are not read: the ssh user may read neither dmesg nor the journal"

# Prints "boot UPTIME ID", "log yes" or "log no", then samples, each after its own uptime: "12.3 eth0 RX TX CARRIER
# CHANGES TIMEOUTS QUEUE". "-" is what the device does not report. QUEUE is read only while the device sends nothing:
# the bytes in the ring of its driver (BQL) and, every 5 s, the packets in its queueing discipline. After 30 s without a
# packet, both are read every 10 s. With bash, a read with a timeout is the tick, so that no process is started. A line
# of the kernel's log follows the word "kernel".
_SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin
exec 2>/dev/null
trap 'trap - EXIT; kill 0' EXIT
read -r up x </proc/uptime
echo "boot $up "$(@boot)
relay() {
 while read -r l; do
  case $l in
  *[Ww][Aa][Tt][Cc][Hh][Dd][Oo][Gg]*|*stall*|*"timed out"*|*reset*USB*|*BUG*|*Oops*|*WARNING*|*rror:*|*"Unable to"*|\
  *failure*|*AER:*|*ltage*|*overrun*|*dropped*) echo "kernel $l" || exit 0;;
  esac
 done
}
if dmesg >/dev/null && dmesg --help 2>&1 | grep -q -e --follow; then echo "log yes"; dmesg -w </dev/null | relay &
elif [ -n "$(journalctl -qk -n1 -o cat)" ]; then
 echo "log yes"; journalctl -qkf -n1000 -o short-monotonic </dev/null | relay &
else echo "log no"; fi
end=$((${up%%.*} + @seconds))
(read -t 0.01 x)
if [ $? -gt 128 ]; then tick() { read -t 1 x; [ $? -gt 128 ] || exit 0; }; else tick() { sleep 1; }; fi
n=0; lines=
while :; do
 read -r up x </proc/uptime
 [ "${up%%.*}" -lt "$end" ] || exit 0
 i=0
 for d in @devices; do
  s=/sys/class/net/$d i=$((i + 1))
  rx=; tx=; carrier=; changes=; late=-; q=-
  read -r rx <$s/statistics/rx_packets; read -r tx <$s/statistics/tx_packets
  read -r carrier <$s/carrier; read -r changes <$s/carrier_changes
  eval "last=\$tx_$i stood=\${stood_$i:-0}"
  if [ "$tx" = "$last" ]; then stood=$((stood + 1)); else stood=0; fi
  eval "tx_$i=\$tx stood_$i=\$stood"
  look=$((n % 10))
  if [ $look = 0 ] || { [ $stood -gt 0 ] && [ $stood -lt 30 ]; }; then
   for f in $s/queues/tx-*; do
    c=; read -r c <$f/tx_timeout && late=$((${late#-} + c))
    c=; [ $stood = 0 ] || { read -r c <$f/byte_queue_limits/inflight && q=$((${q#-} + c)); }
   done
  fi
  [ $stood -ge 30 ] || look=$((stood % 5))
  if [ $stood -ge 5 ] && [ $look = 0 ]; then
   b=$(tc -s qdisc show dev $d | { while read -r w b p x; do [ "$w" != backlog ] || break; done; echo ${p%p}; })
   [ -z "$b" ] || q=$((${q#-} + b))
  fi
  lines="${lines:+$lines;}$up $d ${rx:--} ${tx:--} ${carrier:--} ${changes:--} $late $q"
 done
 n=$((n + 1))
 if [ $n = 1 ] || [ $((n % @batch)) = 0 ]; then echo "$lines" || exit 0; lines=; fi
 tick
done
"""


def command(devices: Sequence[str], seconds: float, boot: str, batch_s: int = BATCH_S) -> str:
    """Return the command line of the script for these devices; ``boot`` prints what identifies a boot.

    The script ends by itself after ``seconds``, or when its connection ends.
    """
    words = {"boot": boot, "devices": " ".join(map(shlex.quote, devices)), "seconds": f"{seconds:.0f}"}
    words["batch"] = str(batch_s)
    script = _SCRIPT
    for name, text in words.items():
        script = script.replace(f"@{name}", text)
    shell = f"s=sh; command -v bash >/dev/null 2>&1 && s=bash; exec $s -c {shlex.quote(script)}"
    return f"sleep {seconds:.0f} | {{ {shell}; }}"


@dataclass(frozen=True)
class Vitals:
    """One sample of a device. None: the device is gone, or does not report the value."""

    uptime_s: float
    device: str
    rx: int | None
    tx: int | None
    carrier: bool
    changes: int | None
    timeouts: int | None
    queue: int | None


def parse(line: str) -> list[Vitals]:
    """Return the samples of a line of the script; nothing for a line of another form."""
    found = []
    for words in map(str.split, line.split(";")):
        if len(words) != 8 or not re.fullmatch(r"\d{1,10}(\.\d+)?", words[0]):
            return []
        rx, tx, changes, timeouts, queue = (
            int(words[place]) if is_count(words[place]) else None for place in (2, 3, 5, 6, 7)
        )
        found.append(Vitals(float(words[0]), words[1], rx, tx, words[4] == "1", changes, timeouts, queue))
    return found


@dataclass(frozen=True)
class Sign:
    """A sign of trouble of a board; ``at_s`` is the time of the runner.

    ``over``: the trouble of this kind and ``part`` has ended, or it had no duration.
    """

    at_s: float
    kind: str
    text: str
    over: bool = False
    part: str = ""


# The kinds of trouble, worst first, by the words of reports.
KINDS = (REBOOT, STALL, DROP, GONE, MESSAGE, DECAY, SILENCE) = (
    "reboot",
    "stall",
    "link drop",
    "driver restart",
    "kernel message",
    "slow link",
    "silence",
)
_STALLED = re.compile(r"TX stall detected|NETDEV WATCHDOG|transmit queue .*timed out")


def kernel_sign(line: str, at_s: float) -> Sign | None:
    """Return the sign in a line of the kernel's log; None for nearly all lines, and for carrier changes."""
    if not TROUBLE.search(line) or "Link is Down" in line:
        return None
    return Sign(at_s, STALL if _STALLED.search(line) else MESSAGE, line.strip()[:300], over=True)


class LinkWatch:
    """Follows one device of a board. ``name`` is the device's in messages, ``switch`` is where its cable leads."""

    def __init__(self, name: str, switch: str) -> None:
        self.name, self.switch = name, switch
        # The last samples with their time of the runner.
        self.recent: deque[tuple[float, Vitals]] = deque(maxlen=64)
        # When the device last sent, and last received.
        self._sent_s = self._received_s = 0.0
        self._standing: set[str] = set()
        self._down = False
        self._queued: list[float] = []
        self._timeouts: int | None = None

    def packets(self, begin_s: float, end_s: float) -> tuple[int, int]:
        """Return how many packets were received and sent in this time; 0 if it is not known."""
        inside = [one for at, one in self.recent if begin_s <= at <= end_s and one.rx is not None]
        if len(inside) < 2:
            return 0, 0
        first, last = inside[0], inside[-1]
        return (last.rx or 0) - (first.rx or 0), (last.tx or 0) - (first.tx or 0)

    def add(self, at_s: float, now: Vitals, peers: Iterable[LinkWatch]) -> list[Sign]:
        """Add a sample; return what it shows. ``peers`` are the other watched links at the same switch."""
        before = self.recent[-1][1] if self.recent else None
        self.recent.append((at_s, now))
        if before is None or now.rx is None or before.rx is None or now.rx < before.rx:
            self._sent_s = self._received_s = at_s
            self._down, self._timeouts = not now.carrier, now.timeouts
            return [] if before is None else self._gone(at_s, before, now)
        return [*self._carrier(at_s, before, now), *self._timed_out(at_s, now), *self._flow(at_s, before, now, peers)]

    def _gone(self, at_s: float, before: Vitals, now: Vitals) -> list[Sign]:
        if now.rx is None:
            return [self._sign(at_s, GONE, "is gone")] if before.rx is not None else []
        if before.rx is None:
            return [self._sign(at_s, GONE, "is back", over=True)]
        return [self._sign(at_s, GONE, "counts from 0 again: its driver was restarted", over=True)]

    def _sign(self, at_s: float, kind: str, what: str, over: bool = False, part: str = "") -> Sign:
        return Sign(at_s, kind, f"{self.name} {what}", over, f"{self.name} {part}".strip())

    def _carrier(self, at_s: float, before: Vitals, now: Vitals) -> list[Sign]:
        was, self._down = self._down, not now.carrier
        if self._down != was:
            return [self._sign(at_s, DROP, f"{'lost its' if self._down else 'has'} carrier", over=was)]
        if before.changes is not None and now.changes is not None and now.changes >= before.changes + 2:
            return [self._sign(at_s, DROP, "lost its carrier for less than a second", over=True)]
        return []

    def _timed_out(self, at_s: float, now: Vitals) -> list[Sign]:
        """Count the watchdog of the kernel (NETDEV WATCHDOG), which sysfs has for every user."""
        before, self._timeouts = self._timeouts, now.timeouts if now.timeouts is not None else self._timeouts
        if before is None or now.timeouts is None or now.timeouts <= before:
            return []
        return [self._sign(at_s, STALL, "had a transmit queue that timed out", over=True, part="watchdog")]

    def _flow(self, at_s: float, before: Vitals, now: Vitals, peers: Iterable[LinkWatch]) -> list[Sign]:
        signs: list[Sign] = []
        if now.tx != before.tx or self._down:
            signs += self._stand("tx", False, at_s, "sends again")
            self._sent_s, self._queued = at_s, []
        elif now.queue is not None:
            self._queued = [*self._queued, at_s] if now.queue else []
            if at_s - self._sent_s >= TX_STANDS_S and self._queued and at_s - self._queued[0] >= TX_STANDS_S / 2:
                signs += self._stand("tx", True, self._sent_s, f"sends nothing, and {now.queue} wait in its queue")
        if now.rx != before.rx or self._down:
            signs += self._stand("rx", False, at_s, "receives again")
            self._received_s = at_s
        elif at_s - self._received_s >= RX_STANDS_S:
            signs += self._deaf(at_s, peers)
        return signs

    def _deaf(self, at_s: float, peers: Iterable[LinkWatch]) -> list[Sign]:
        """Find a peer that sent to this link before, goes on, and gets no answer any more."""
        since = self._received_s
        received, _ = self.packets(since - BEFORE_S, since)
        for peer in peers:
            _, sent = peer.packets(since - BEFORE_S, since)
            answers, more = peer.packets(since + 1, at_s)
            was_its_peer = received >= LEAST_PACKETS and received / 2 <= sent <= received * 2
            if was_its_peer and more >= LEAST_PACKETS and answers <= more / 2:
                return self._stand("rx", True, since, f"receives nothing, while {peer.name} sends {more} packets")
        return []

    def _stand(self, way: str, stands: bool, at_s: float, what: str) -> list[Sign]:
        if (way in self._standing) is stands:
            return []
        self._standing ^= {way}
        return [self._sign(at_s, STALL, what, over=not stands, part=way)]


# A slow link has less than this share of its usual goodput, in so many connections in a row; the usual goodput is the
# median of the first connections since the boot.
SLOW = 0.5
IN_A_ROW = 2
FIRST = 5


class Goodputs:
    """Follows the goodput of the connections of a board in one direction, since its boot."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._all: list[float] = []
        self._slow = False

    def add(self, at_s: float, bps: float) -> list[Sign]:
        """Add a connection; return whether the link became slow, or is as fast as it was."""
        self._all = [*self._all[:FIRST], *self._all[FIRST:][-IN_A_ROW:], bps]
        if len(self._all) < FIRST + IN_A_ROW:
            return []
        usual = median(self._all[:FIRST])
        low = [one < SLOW * usual for one in self._all[-IN_A_ROW:]]
        was, self._slow = self._slow, low[-1] and (self._slow or all(low))
        if self._slow == was:
            return []
        text = f"{self.name} carries {Bitrate(bps)}; it carried {Bitrate(usual)} after its boot"
        return [Sign(at_s, DECAY, text, over=was, part=self.name)]
