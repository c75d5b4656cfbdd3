"""Whether TCP itself, lost packets or a steady hand set a figure: one rule a function."""

from __future__ import annotations

import math

from pytest_pinet.model.diagnosis import Cause, Diagnosis, Facts
from pytest_pinet.model.quantities import Bitrate

# A sender that waits for a window most of its time would send more with a larger one.
WAITING = 0.5
# Where a small one was asked for, a part of that is enough when the figure is what the window makes of it.
WAITING_ASKED = 0.2
# How near that is to one window in each round trip: the kernel's buffers are up to twice what was asked for, and the
# round trips that it tells are a moving mean.
WINDOW_LEAST, WINDOW_MOST = 0.5, 2.2
# Segments sent again: TCP halves its window for each burst of them (RFC 5681).
LOST = 0.005
# With fewer they are a cause only where the formula below says that they are.
LOST_LEAST = 0.0005
# Mathis et al. 1997: rate = C * MSS / (RTT * sqrt(p)), C = sqrt(3/2); cubic is not below it where windows are small.
MATHIS = math.sqrt(1.5)
# How far TCP may lie below that, by timeouts, and above it, by losses that come in bursts.
MATHIS_LEAST, MATHIS_MOST = 0.2, 3.0
DATAGRAMS_LOST = 0.005
# A rate that does not move: a shaped one was within 0.1 % over 0.5 s, one with losses of 1 % varied by 10 %.
STEADY = 0.01
IDLE = 0.8
WELL_BELOW = 0.95


def asked_window(facts: Facts) -> Diagnosis | None:
    """The figure is what the asked-for window makes of these round trips, and the sender was seen to wait for it."""
    if facts.window is None or not facts.rtt_s or facts.share >= WELL_BELOW:
        return None
    rate = facts.window * 8 / facts.rtt_s
    waited = _waited(facts)
    if not WINDOW_LEAST <= facts.goodput.bps / rate <= WINDOW_MOST or (waited is not None and waited < WAITING_ASKED):
        return None
    text = (
        f"a window of {_size(facts.window)} was asked for, and {_size(facts.window)} in each round trip of "
        f"{facts.rtt_s * 1e3:.3g} ms are {Bitrate(rate)}{_waits(facts)}"
    )
    return Diagnosis(Cause.WINDOW, text, {**_window_numbers(facts), "window_over_rtt_bps": rate})


def waited_for_window(facts: Facts) -> Diagnosis | None:
    """Whoever asked for it: most of its time the sender waited for the receiver's window or for its own buffer."""
    waited = _waited(facts)
    if waited is None or waited < WAITING:
        return None
    held = facts.goodput.bps * facts.rtt_s / 8 if facts.rtt_s else None
    effective = "" if held is None else f"; {_size(held)} were on their way, in round trips of {_ms(facts.rtt_s)}"
    return Diagnosis(Cause.WINDOW, f"TCP's window is too small{_waits(facts)}{effective}", _window_numbers(facts))


def _waited(facts: Facts) -> float | None:
    receiver, sender = facts.receiver_limited, facts.sender_limited
    return None if receiver is None or sender is None else receiver + sender


def _waits(facts: Facts) -> str:
    receiver, sender = facts.receiver_limited, facts.sender_limited
    if receiver is None or sender is None:
        return ""
    return (
        f"; the sender waited {receiver * 100:.0f} % of its time for the receiver's window and {sender * 100:.0f} % "
        "for its own send buffer"
    )


def _window_numbers(facts: Facts) -> dict[str, float]:
    known = {
        "window_bytes": facts.window,
        "rtt_s": facts.rtt_s,
        "receiver_limited": facts.receiver_limited,
        "sender_limited": facts.sender_limited,
    }
    return {name: float(value) for name, value in known.items() if value is not None}


def _size(count: float) -> str:
    return f"{count / 1024:.3g} KiB" if count >= 1024 else f"{count:.0f} bytes"


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1e3:.3g} ms"


def explaining_loss(facts: Facts) -> Diagnosis | None:
    """So many losses that the rate is what TCP makes of them, and it varies as it does then."""
    rate = facts.retransmit_rate
    if rate is None or rate < LOST or facts.spread is None or facts.spread <= STEADY:
        return None
    found = loss(facts)
    bound = 0.0 if found is None else found.numbers.get("tcp_bps", 0.0)
    return found if bound > 0 and MATHIS_LEAST <= facts.goodput.bps / bound <= MATHIS_MOST else None


def loss(facts: Facts) -> Diagnosis | None:
    """Segments were lost and sent again, or datagrams were lost.

    A queue that overflows loses some, too, at whatever rate it is emptied: that rate does not move, see ``shaper``.
    """
    if facts.loss_rate is not None and facts.loss_rate >= DATAGRAMS_LOST:
        text = f"{facts.loss_rate * 100:.2g} % of the datagrams were lost"
        return Diagnosis(Cause.LOSS, text, {"loss_rate": facts.loss_rate})
    rate = facts.retransmit_rate
    if rate is None or rate < LOST_LEAST:
        return None
    numbers = {"retransmit_rate": rate}
    text = f"{rate * 100:.2g} % of the segments were lost and sent again"
    if facts.mss is not None and facts.rtt_s:
        bound = facts.streams * MATHIS * facts.mss * 8 / (facts.rtt_s * math.sqrt(rate))
        numbers |= {"rtt_s": facts.rtt_s, "mss": float(facts.mss), "tcp_bps": bound}
        if MATHIS_LEAST <= facts.goodput.bps / bound <= MATHIS_MOST or rate >= LOST:
            return Diagnosis(Cause.LOSS, f"{text}, in round trips of {_ms(facts.rtt_s)}", numbers)
        return None
    return Diagnosis(Cause.LOSS, text, numbers) if rate >= LOST else None


def shaper(facts: Facts) -> Diagnosis | None:
    """A constant rate below everything else, and both ends idle: somebody holds it there."""
    loads = [end.load for end in facts.ends]
    if facts.spread is None or facts.spread > STEADY or facts.share >= WELL_BELOW or not loads:
        return None
    known = [load.busy for load in loads if load is not None]
    if len(known) < len(loads) or max(known) >= IDLE:
        return None
    text = (
        f"held at a constant {facts.goodput} of {facts.wire} (within {max(facts.spread, 0.001) * 100:.1f} %), while "
        f"the busiest CPU was {max(known) * 100:.0f} % busy: a shaper, or a limit that nothing here explains"
    )
    numbers = {
        "limit_bps": facts.wire.bps,
        "spread": facts.spread,
        "busy": max(known),
    }
    return Diagnosis(Cause.SHAPER, text, numbers)
