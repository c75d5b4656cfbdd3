"""A shaper on a node's device that makes a link slower by a known amount, for as long as somebody holds it.

Everything that passes the device is redirected through an ``ifb`` device with a token bucket, one for each way, by the
``clsact`` hooks: the device's own root qdisc stays as it is (facts/switches-and-links.md 5.3). A guard on the node
holds it and takes it away when it is told to, when the runner or its ssh connection dies (its standard input ends), and
after ``at_most_s``. What even a dead guard leaves behind bears its name, and is removed by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_pinet.errors import LinkError, UnsupportedError
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.end import End, change, missing
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.shell import Process, as_root

READY_TIMEOUT_S = 10.0
# The first of our filters on a hook, far behind what anybody numbers by hand.
_PREFERENCE = 49000
_READY = "pinet: reduced"
# What it says instead.
_FAILED = "pinet: no "
_NO_TC, _NO_IFB, _NO_CLSACT, _FILTERED, _REFUSED = "tc", "ifb", "clsact", "hooks", "shaper"
# Not less than a GSO packet, or the bucket splits every one of them in software (28 % slower, facts 5.1).
_SMALLEST_BURST = 80_000
_BURST_S = 0.004
# As long as a switch port's queue: 128 kB at 100 Mbit/s, 512 kB at 1 Gbit/s, 2 MB above.
_QUEUES = ((200e6, 128_000), (1e9, 512_000), (float("inf"), 2_000_000))
_ETHERNET_HEADER = 14
_IP_AND_TCP_HEADERS, _TIMESTAMPS = 40, 12

# "tx" and "rx" are those of the device under test: tx is what arrives here. The names of the ifb devices tell what we
# made, and for which device; their alias tells that there was a clsact qdisc before.
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
    # The mark goes last.
    " for ifb in $rx $tx; do [ ! -e /sys/class/net/$ifb ] || ip link del $ifb || return; done; }}; "
)
_SET_UP = (
    "fail() {{ clean; echo {failed}$1; exit 1; }}; command -v tc >/dev/null || fail {no_tc}; clean || fail {refused};"
    # What is loaded by itself comes with two devices that nobody asked for.
    " [ -e /sys/module/ifb ] || modprobe -q ifb numifbs=0 2>/dev/null; kept=;"
    ' case $(tc qdisc show dev $dev) in *clsact*) kept=kept; [ -z "$(filters)" ] || fail {filtered};;'
    " *ingress*) fail {filtered};; esac;"
    " for ifb in $tx $rx; do ip link add name $ifb type ifb || fail {no_ifb}; done;"
    ' ip link set dev $tx alias "$kept";'
    ' [ -n "$kept" ] || tc qdisc add dev $dev clsact || fail {no_clsact};'
    " lead() {{ ip link set dev $2 mtu $(cat /sys/class/net/$dev/mtu) addrgenmode none && ip link set dev $2 up"
    " && tc qdisc add dev $2 root tbf rate $3bit burst $4 limit $5"
    " && tc filter add dev $dev $1 protocol all pref {preference} u32 match u32 0 0"
    " action mirred egress redirect dev $2; }};"
    " lead ingress $tx {tx} && lead egress $rx {rx} || fail {refused}; "
)


@dataclass(frozen=True)
class Rates:
    """What a shaper lets through in each direction, seen from the device under test, as ``tc`` counts it (layer 2)."""

    tx: Bitrate
    rx: Bitrate


def rate_for(goodput: Bitrate, path: Path) -> Bitrate:
    """The layer 2 rate that TCP over IPv4 needs for this goodput, as ``tc`` counts it.

    ``G * (MTU + 14) / (MTU - 40 - 12 with timestamps)``: the Ethernet header counts, preamble, gap and FCS do not
    (facts/measuring.md 2.6).
    """
    payload = path.mtu - _IP_AND_TCP_HEADERS - (_TIMESTAMPS if path.timestamps else 0)
    return Bitrate(goodput.bps * (path.mtu + _ETHERNET_HEADER) / payload)


@contextmanager
def reduced(end: End, rates: Rates, at_most_s: float) -> Iterator[None]:
    """Let no more than ``rates`` pass this end, for at most ``at_most_s`` seconds; taken away at the end.

    Raises UnsupportedError where the kernel cannot do it or somebody else filters on the device, LinkError when the
    node refuses or the shaper cannot be taken away.
    """
    names = _NAMES.format(device=end.device)
    clean = _CLEAN.format(preference=_PREFERENCE)
    set_up = _SET_UP.format(
        failed=_FAILED, no_tc=_NO_TC, no_ifb=_NO_IFB, no_clsact=_NO_CLSACT, filtered=_FILTERED, refused=_REFUSED,
        preference=_PREFERENCE, tx=_bucket(rates.tx), rx=_bucket(rates.rx),
    )  # fmt: skip
    # The end of `sleep` is what the guard waits for. Signals of our own go to its whole group, and must not end what
    # cleans up; and where it is root and we are not, they could not reach it.
    guard = f"trap '' TERM INT HUP; {names}{clean}{set_up}echo {_READY}; cat >/dev/null; clean"
    undo = UndoStack()
    # Before the guard is there, so that an interruption in between leaves nothing.
    undo.add(f"the shaper on {end.shell.name} {end.device}", lambda: sweep(end), end.shell.name)
    try:
        process = end.shell.spawn(f"sleep {at_most_s:.0f} | {as_root(guard)}")
        undo.add(f"the guard of the shaper on {end.shell.name}", process.stop, end.shell.name)
        _await_ready(end, process)
        yield
        if not is_reduced(end):
            raise LinkError(f"the shaper on {end} went away while it was needed, after {at_most_s:.0f} s at most")
    except BaseException as error:
        for failure in undo.close():
            error.add_note(failure)
        raise
    failures = undo.close()
    if failures:
        raise LinkError("; ".join(failures), f"on {end.shell.name}: sudo tc qdisc del dev {end.device} clsact")


def sweep(end: End) -> None:
    """Take away what a shaper of ours left on this device; harmless where there is none. Raises LinkError, SshError."""
    change(end.shell, f"{_NAMES.format(device=end.device)}{_CLEAN.format(preference=_PREFERENCE)}clean")


def is_reduced(end: End) -> bool:
    """Whether a shaper of ours is on this device."""
    look = f"i=$(cat /sys/class/net/{end.device}/ifindex); ls -d /sys/class/net/pinet-[tr]x$i"
    return bool(end.shell.run(look).stdout.strip())


def _bucket(rate: Bitrate) -> str:
    """Rate (bit/s), burst and queue (bytes) of a token bucket."""
    queue = next(size for fastest, size in _QUEUES if rate.bps <= fastest)
    return f"{round(rate.bps)} {max(_SMALLEST_BURST, round(rate.bps / 8 * _BURST_S))} {queue}"


def _await_ready(end: End, process: Process) -> None:
    told: list[str] = []

    def answered() -> bool:
        told.extend(line for line in process.lines() if line == _READY or line.startswith(_FAILED))
        return bool(told) or process.poll() is not None

    if not Deadline(READY_TIMEOUT_S).wait_until(answered):
        raise LinkError(f"{end.shell.name} did not set up a shaper on {end.device} within {READY_TIMEOUT_S:.0f} s")
    if told == [_READY]:
        return
    # The rest of it waits for its end.
    done = process.stop()
    why = next(iter(done.stderr.strip().splitlines()), f"exit {done.returncode}")
    lacks = told[0].removeprefix(_FAILED) if told else ""
    if lacks == _NO_TC:
        raise missing(end, "tc", "iproute2")
    if lacks == _FILTERED:
        raise UnsupportedError(
            f"{end.device} of {end.shell.name} has traffic filters of its own, which a shaper would get in the way of "
            f"(tc filter show dev {end.device} ingress)"
        )
    if lacks in (_NO_IFB, _NO_CLSACT):
        raise UnsupportedError(f"the kernel of {end.shell.name} has no {lacks}, which a shaper needs: {why}")
    raise LinkError(f"{end.shell.name} refused a shaper on {end.device}: {why}")
