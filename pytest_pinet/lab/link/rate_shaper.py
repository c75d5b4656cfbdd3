"""A shaper on a device of a node. It makes a link slower, or adds delay and loss, while a context is open.

``clsact`` hooks redirect all packets of the device through an ``ifb`` device with a token bucket or netem, one for each
direction. The root qdisc of the device is not changed. A guard process on the node
holds the shaper. The guard removes it on request, when the runner or its ssh connection dies (its standard input ends),
and after ``at_most_s``. If the guard dies too, the next run finds the leftovers by their name and removes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_pinet.errors import LinkError, UnsupportedError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Process, as_root, last_line
from pytest_pinet.execution.undo import undone
from pytest_pinet.lab.link.end import End, change, missing
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate

# A slow board loads four modules of the kernel first (12 s in QEMU).
READY_TIMEOUT_S = 40.0
# The preference of our filters on a hook: far higher than numbers that people usually choose.
_PREFERENCE = 49000
_READY = "pinet: reduced"
# The guard prints this if the setup failed.
_FAILED = "pinet: no "
_NO_TC, _NO_IFB, _NO_CLSACT, _FILTERED, _REFUSED = "tc", "ifb", "clsact", "hooks", "shaper"
_TBF, _NETEM = "tbf", "netem"
# Of netem: the packets on their way at 10 Gbit/s with 100 ms of delay.
_PACKETS = 100_000
# Not smaller than a GSO packet. A smaller bucket splits every GSO packet in software (measured: 28 % slower).
_SMALLEST_BURST = 80_000
_BURST_S = 0.004
# The sizes of a switch port's queue: 128 kB at 100 Mbit/s, 512 kB at 1 Gbit/s, 2 MB above.
_QUEUES = ((200e6, 128_000), (1e9, 512_000), (float("inf"), 2_000_000))
_ETHERNET_HEADER = 14
_IP_AND_TCP_HEADERS, _TIMESTAMPS = 40, 12

# "tx" and "rx" are seen from the device under test: its tx packets arrive at this device. The names of the ifb devices
# mark the shaper as ours and name the device; their alias says that a clsact qdisc existed before.
_NAMES = (
    "PATH=$PATH:/usr/sbin:/sbin; dev={device}; i=$(cat /sys/class/net/$dev/ifindex) || exit 1;"
    " tx=pinet-tx$i; rx=pinet-rx$i;"
    " filters() {{ tc filter show dev $dev ingress; tc filter show dev $dev egress; }}; "
)
_CLEAN = (
    "clean() {{ [ -e /sys/class/net/$tx ] || [ -e /sys/class/net/$rx ] || return 0;"
    " kept=$(cat /sys/class/net/$tx/ifalias 2>/dev/null);"
    " for hook in ingress egress; do tc filter del dev $dev $hook pref {preference} 2>/dev/null; done;"
    ' [ -n "$kept" ] || [ -n "$(filters 2>/dev/null)" ] || tc qdisc del dev $dev clsact 2>/dev/null;'
    # The ifb devices are removed last, because they show that our shaper was here.
    " for ifb in $rx $tx; do [ ! -e /sys/class/net/$ifb ] || ip link del $ifb || return; done; }}; "
)
_SET_UP = (
    "fail() {{ clean; echo {failed}$1; exit 1; }}; command -v tc >/dev/null || fail {no_tc}; clean || fail {refused};"
    # Without numifbs=0 the module creates two devices of its own.
    " [ -e /sys/module/ifb ] || modprobe -q ifb numifbs=0 2>/dev/null; kept=;"
    ' case $(tc qdisc show dev $dev) in *clsact*) kept=kept; [ -z "$(filters)" ] || fail {filtered};;'
    " *ingress*) fail {filtered};; esac;"
    " for ifb in $tx $rx; do ip link add name $ifb type ifb || fail {no_ifb}; done;"
    ' ip link set dev $tx alias "$kept";'
    ' [ -n "$kept" ] || tc qdisc add dev $dev clsact || fail {no_clsact};'
    " lead() {{ hook=$1; to=$2; shift 2;"
    " ip link set dev $to mtu $(cat /sys/class/net/$dev/mtu) addrgenmode none && ip link set dev $to up || return;"
    ' tc qdisc add dev $to root "$@" || fail $1;'
    " tc filter add dev $dev $hook protocol all pref {preference} u32 match u32 0 0"
    " action mirred egress redirect dev $to; }};"
    " lead ingress $tx {tx} && lead egress $rx {rx} || fail {refused}; "
)


@dataclass(frozen=True)
class Rates:
    """The layer 2 rates of a shaper in both directions, seen from the device under test, as ``tc`` counts bytes."""

    tx: Bitrate
    rx: Bitrate


def rate_for(goodput: Bitrate, path: Path) -> Bitrate:
    """Return the layer 2 rate that TCP over IPv4 needs for this goodput, as ``tc`` counts bytes.

    ``G * (MTU + 14) / (MTU - 40 - 12 with timestamps)``: the Ethernet header counts; preamble, gap and FCS do not.
    """
    payload = path.mtu - _IP_AND_TCP_HEADERS - (_TIMESTAMPS if path.timestamps else 0)
    return Bitrate(goodput.bps * (path.mtu + _ETHERNET_HEADER) / payload)


@contextmanager
def reduced(end: End, rates: Rates, at_most_s: float) -> Iterator[None]:
    """Limit the traffic of this end to ``rates`` for at most ``at_most_s`` seconds; the exit removes the shaper.

    Raises UnsupportedError if the kernel lacks a feature or the device already has filters, LinkError when the node
    refuses or the shaper cannot be removed.
    """
    with _led(end, _bucket(rates.tx), _bucket(rates.rx), at_most_s, "a shaper"):
        yield


@contextmanager
def impaired(end: End, delay_s: float, loss: float, at_most_s: float) -> Iterator[None]:
    """Add ``delay_s`` to each round trip over this end, half of it each way, and lose this share of packets each way.

    Raises the same errors as ``reduced``, and UnsupportedError for a kernel without netem.
    """
    words = f"{_NETEM} limit {_PACKETS} delay {round(delay_s / 2 * 1e6)}us loss {loss * 100:.6f}%"
    with _led(end, words, words, at_most_s, "delay and loss"):
        yield


@contextmanager
def _led(end: End, tx: str, rx: str, at_most_s: float, what: str) -> Iterator[None]:
    """Lead all packets of this end through these queueing disciplines."""
    names = _NAMES.format(device=end.device)
    clean = _CLEAN.format(preference=_PREFERENCE)
    set_up = _SET_UP.format(
        failed=_FAILED, no_tc=_NO_TC, no_ifb=_NO_IFB, no_clsact=_NO_CLSACT, filtered=_FILTERED, refused=_REFUSED,
        preference=_PREFERENCE, tx=tx, rx=rx,
    )  # fmt: skip
    # The guard waits for the end of `sleep`. A signal from us goes to the whole process group, and must not end the
    # cleanup. If the guard is root and we are not, a signal could not reach it anyway.
    guard = f"trap '' TERM INT HUP; {names}{clean}{set_up}echo {_READY}; cat >/dev/null; clean"
    with undone(f"on {end.shell.name}: sudo tc qdisc del dev {end.device} clsact") as undo:
        # Registered before the guard starts, so that an interruption in between leaves nothing behind.
        undo.add(f"the shaper on {end.shell.name} {end.device}", lambda: sweep(end), end.shell.name)
        process = end.shell.spawn(f"sleep {at_most_s:.0f} | {as_root(guard)}")
        undo.add(f"the guard of the shaper on {end.shell.name}", process.stop, end.shell.name)
        _await_ready(end, process, what)
        yield
        if not is_reduced(end):
            raise LinkError(
                f"the shaper on {end} was removed before the measurement ended; its time limit was {at_most_s:.0f} s"
            )


def sweep(end: End) -> None:
    """Remove a shaper that we left on this device; does nothing if there is none. Raises LinkError, SshError."""
    change(end.shell, f"{_NAMES.format(device=end.device)}{_CLEAN.format(preference=_PREFERENCE)}clean")


def is_reduced(end: End) -> bool:
    """Return whether a shaper of ours is on this device."""
    look = f"i=$(cat /sys/class/net/{end.device}/ifindex); ls -d /sys/class/net/pinet-[tr]x$i"
    return bool(end.shell.run(look).stdout.strip())


def _bucket(rate: Bitrate) -> str:
    """Return the words of a token bucket: rate (bit/s), burst and queue (bytes)."""
    queue = next(size for fastest, size in _QUEUES if rate.bps <= fastest)
    burst = max(_SMALLEST_BURST, round(rate.bps / 8 * _BURST_S))
    return f"{_TBF} rate {round(rate.bps)}bit burst {burst} limit {queue}"


def _await_ready(end: End, process: Process, what: str) -> None:
    replies: list[str] = []

    def answered() -> bool:
        replies.extend(line for line in process.lines() if line == _READY or line.startswith(_FAILED))
        return bool(replies) or process.poll() is not None

    if not Deadline(READY_TIMEOUT_S).wait_until(answered):
        raise LinkError(
            f"{end.shell.name} did not answer within {READY_TIMEOUT_S:.0f} s when it should slow down {end.device}",
            f"repeat; if it happens again, check the load of {end.shell.name} and its ssh connection",
        )
    if replies == [_READY]:
        return
    # The script has failed, but `sleep` still runs: stop it.
    done = process.stop()
    why = last_line(done.stderr) or f"exit {done.returncode}"
    lacks = replies[0].removeprefix(_FAILED) if replies else ""
    if lacks == _NO_TC:
        raise missing(end, "tc", "iproute2")
    if lacks == _FILTERED:
        raise UnsupportedError(
            f"{end.device} of {end.shell.name} has traffic filters of its own, which {what} would disturb "
            f"(tc filter show dev {end.device} ingress)"
        )
    if lacks in (_NO_IFB, _NO_CLSACT, _TBF, _NETEM):
        needs = "need" if " and " in what else "needs"
        raise UnsupportedError(f"the kernel of {end.shell.name} has no {lacks}, which {what} {needs}: {why}")
    raise LinkError(f"{end.shell.name} refused {what} on {end.device}: {why}")
