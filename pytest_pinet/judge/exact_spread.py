"""How far two boots of the same kernel differ if anything beside the code of the packet's path differs.

A boot repeats to the last digit. But with any other binary, or with another word on the command line, memory lies
elsewhere and each timer comes at another moment. TCP notices it, because acknowledgements and interrupts then meet
other packets. A driver that receives at full load may fall into another rhythm: half of the interrupts for each packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.model.exact import ExactWindow, Function, is_one_by_one


@dataclass(frozen=True)
class ExactSpread:
    """Shares by which a window of an unchanged kernel differs: instructions for each packet, and goodput."""

    instructions: float
    goodput: float


# By driver and window: the largest difference of two boots in the same rhythm, with Debian's kernel 6.1.192-2 in QEMU
# 7.2.22 (igb: 10.0.2). On 2026-11-28, `python -m benchmarks.exact_spread`: nine boots of each NIC (virtio-net: six),
# one with a driver that was built again, the others with other words on the command line. On 2026-11-24, with another
# version of the traffic: fourteen boots. The larger value counts. Events: three to five boots on 2026-11-27.
_MEASURED: Mapping[str, Mapping[str, ExactSpread]] = {
    "e1000e": {
        "pktgen-60-tx": ExactSpread(0.071, 0.073),
        "pktgen-60-rx": ExactSpread(0.010, 0.009),
        "pktgen-1514-tx": ExactSpread(0.057, 0.058),
        "pktgen-1514-rx": ExactSpread(0.053, 0.051),
        "tcp-tx": ExactSpread(0.068, 0.064),
        "tcp-rx": ExactSpread(0.032, 0.031),
        "request-tx": ExactSpread(0.005, 0.004),
        "bulk-tx": ExactSpread(0.003, 0.004),
        "replug-tx": ExactSpread(0.005, 0.001),
    },
    "macb": {
        "pktgen-60-tx": ExactSpread(0.005, 0.002),
        "pktgen-60-rx": ExactSpread(0.021, 0.021),
        "pktgen-1514-tx": ExactSpread(0.004, 0.003),
        "pktgen-1514-rx": ExactSpread(0.029, 0.029),
        "tcp-tx": ExactSpread(0.045, 0.043),
        "tcp-rx": ExactSpread(0.083, 0.077),
        "request-tx": ExactSpread(0.009, 0.007),
        "bulk-tx": ExactSpread(0.007, 0.011),
    },
    "virtio_net": {
        "pktgen-60-tx": ExactSpread(0.008, 0.003),
        "pktgen-60-rx": ExactSpread(0.004, 0.002),
        "pktgen-1514-tx": ExactSpread(0.009, 0.004),
        "pktgen-1514-rx": ExactSpread(0.003, 0.002),
        "tcp-tx": ExactSpread(0.021, 0.021),
        "tcp-rx": ExactSpread(0.031, 0.030),
        "request-tx": ExactSpread(0.003, 0.003),
        "bulk-tx": ExactSpread(0.007, 0.006),
        "link-tx": ExactSpread(0.007, 0.044),
        "replug-tx": ExactSpread(0.008, 0.001),
    },
    # In one of seven boots, TCP waited for a timer.
    "igb": {
        "pktgen-60-tx": ExactSpread(0.005, 0.006),
        "pktgen-60-rx": ExactSpread(0.021, 0.022),
        "pktgen-1514-tx": ExactSpread(0.021, 0.009),
        "pktgen-1514-rx": ExactSpread(0.004, 0.003),
        "tcp-tx": ExactSpread(0.029, 0.360),
        "tcp-rx": ExactSpread(0.024, 0.351),
        "request-tx": ExactSpread(0.005, 0.003),
        "bulk-tx": ExactSpread(0.007, 0.007),
    },
}
# The largest difference of two boots of which one is in another rhythm (macb and e1000e, received frames and TCP).
_OTHER_RHYTHM = ExactSpread(0.13, 0.12)
# The same with two processors, where some windows differ more: e1000e on 2026-11-28, used for every driver. Five boots
# with all interrupts on the first processor, and two each with interrupts or received packets on the second one.
_TWO_PROCESSORS = {
    "pktgen-60-tx": ExactSpread(0.053, 0.049),
    "pktgen-60-rx": ExactSpread(0.033, 0.054),
    "request-tx": ExactSpread(0.013, 0.013),
    "bulk-tx": ExactSpread(0.019, 0.006),
}
_TWO_PROCESSORS_OTHER_RHYTHM = ExactSpread(0.249, 0.197)
# Seven boots do not show the whole range.
_ROOM = 1.5
# No tolerance is smaller.
LEAST = 0.01
# Each interrupt runs this function once, with the same number of instructions.
_INTERRUPT = Function("", "gic_handle_irq")
# A larger change of the interrupts for each packet is another rhythm. TCP in the same rhythm differs by 5 %.
_SAME_RHYTHM = 0.2


def tolerance_of(driver: str, window: str, same_rhythm: bool = True, processors: int = 1) -> ExactSpread:
    """Return the shares by which a window of an unchanged build may differ.

    Frames that come one by one differ by at most 0.7 %, less than the least tolerance.

    A driver or a window at full load that was not measured has the largest difference of all.
    """
    if is_one_by_one(window):
        return ExactSpread(LEAST, LEAST)
    # Our own sender sends the same frames as pktgen.
    name = window.replace("sender-", "pktgen-", 1)
    known = _MEASURED.get(driver, {})
    every = [one for of_driver in _MEASURED.values() for one in of_driver.values()]
    found = [known[name]] if name in known else [one[name] for one in _MEASURED.values() if name in one] or every
    found = found if same_rhythm else [*found, _OTHER_RHYTHM]
    if processors > 1:
        found = [*found, *([_TWO_PROCESSORS[name]] if name in _TWO_PROCESSORS else [])]
        found = found if same_rhythm else [*found, _TWO_PROCESSORS_OTHER_RHYTHM]
    return ExactSpread(
        max(LEAST, round(max(one.instructions for one in found) * _ROOM, 3)),
        max(LEAST, round(max(one.goodput for one in found) * _ROOM, 3)),
    )


def change_of_rhythm(a: ExactWindow, b: ExactWindow) -> float | None:
    """Return the relative change of the interrupts for each packet if B is in another rhythm than A, else None."""
    before, after = (window.functions.get(_INTERRUPT, 0) / window.packets for window in (a, b))
    if not before or not after:
        return None
    change = after / before - 1
    return change if not 1 / (1 + _SAME_RHYTHM) <= 1 + change <= 1 + _SAME_RHYTHM else None
