"""How far two boots of the same kernel differ if anything beside the code of the packet's path differs.

A boot repeats to the last digit. But with any other binary, or with another word on the command line, memory lies
elsewhere and each timer comes at another moment. Fixed packets hardly notice it. TCP does, because acknowledgements and
interrupts then meet other packets. A driver that moderates its interrupts by the traffic (e1000e) notices it as well.
"""

from __future__ import annotations

from collections.abc import Mapping

# The range of instructions for each packet and of goodput, whichever is larger, as a share, by driver and window.
# Measured on 2026-11-24: Debian's kernel 6.1.192-2 in QEMU 7.2.22, seven boots with command lines that differ in a word
# without meaning (pinet.same=, pinet.same=x, pinet.same=xx and so on).
_MEASURED: Mapping[str, Mapping[str, float]] = {
    "e1000e": {
        "pktgen-60-tx": 0.008,
        "pktgen-60-rx": 0.010,
        "pktgen-1514-tx": 0.013,
        "pktgen-1514-rx": 0.053,
        "tcp-tx": 0.128,
        "tcp-rx": 0.107,
        "request-tx": 0.021,
    },
    "macb": {
        "pktgen-60-tx": 0.003,
        "pktgen-60-rx": 0.001,
        "pktgen-1514-tx": 0.001,
        "pktgen-1514-rx": 0.002,
        "tcp-tx": 0.039,
        "tcp-rx": 0.083,
        "request-tx": 0.010,
    },
    "virtio_net": {
        "pktgen-60-tx": 0.007,
        "pktgen-60-rx": 0.004,
        "pktgen-1514-tx": 0.004,
        "pktgen-1514-rx": 0.003,
        "tcp-tx": 0.016,
        "tcp-rx": 0.030,
        "request-tx": 0.002,
    },
}
# Seven boots do not show the whole range.
_ROOM = 1.5
# No tolerance is smaller.
LEAST = 0.01


def tolerance_of(driver: str, window: str) -> float:
    """Return the share by which a window of an unchanged build may differ.

    A driver or a window that was not measured has the largest range of all.
    """
    known = _MEASURED.get(driver, {})
    # Our own sender sends the same frames as pktgen.
    name = window.replace("sender-", "pktgen-", 1)
    if name in known:
        return max(LEAST, round(known[name] * _ROOM, 3))
    others = [one[name] for one in _MEASURED.values() if name in one]
    widest = max(others or [share for one in _MEASURED.values() for share in one.values()])
    return max(LEAST, round(widest * _ROOM, 3))
