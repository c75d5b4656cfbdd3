"""Rules, one per function, that find the flow as the cause: TCP itself, lost packets, or a shaper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from pytest_pinet.model.evidence import Cause, Diagnosis, DiagnosisFacts, EndFacts
from pytest_pinet.model.quantities import Bitrate

# A sender that waits for a window for this share of its time would send more with a larger one.
WAITING = 0.5
# For a requested window a smaller share is enough if the goodput is about one window per round trip.
WAITING_REQUESTED = 0.2
# The bounds for "about": the kernel's buffers are up to twice the requested window, and its round trips are a moving
# mean.
WINDOW_LEAST, WINDOW_MOST = 0.5, 2.2
# Share of segments sent again. TCP halves its window for each burst of losses (RFC 5681).
LOST = 0.005
# With a lower share, losses are a cause only if the formula below predicts it.
LOST_LEAST = 0.0005
# Mathis et al. 1997: rate = C * MSS / (RTT * sqrt(p)), C = sqrt(3/2). Cubic is not below it for small windows.
MATHIS = math.sqrt(1.5)
# Timeouts put TCP below the formula, bursts of losses above it: the accepted ratios.
MATHIS_LEAST, MATHIS_MOST = 0.2, 3.0
DATAGRAMS_LOST = 0.005
# The spread of a steady rate: a shaped rate was within 0.1 % over 0.5 s, a rate with 1 % losses varied by 10 %.
STEADY = 0.01
# The spread of a rate that a shaper with a queue holds: TCP halves its window, and the queue runs empty for a moment.
HELD = 0.08
# A queue on the way makes round trips so much longer than the shortest one. Lost packets alone do not.
QUEUED = 2.0
QUEUED_S = 0.0003
# The spread of a queue that is never empty, seen by receivers that read late beside other work (load 8: 0.1 to 0.4 %).
# Late bytes are counted in the next piece, so a whole connection is at most by the second share below the others.
FULL, MISSING = 0.005, 0.01
# The first packets of a connection pass a token bucket at once: 1.3 % of half a second at 100 Mbit/s.
NO_PAUSES = 1.02
# If the traffic used more of a busy CPU, it perhaps needed still more, and other work kept it from it.
LITTLE = 0.5
# A share of the time in which a sender that feeds a queue may wait for a window.
HARDLY_WAITED = 0.05
# No busy processor makes a rate as steady as a shaper does.
SHAPED = 0.002
IDLE = 0.8
WELL_BELOW = 0.95


def requested_window(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if goodput is the requested window per round trip, and the sender waited for the window."""
    if facts.window is None or not facts.rtt_s or facts.share >= WELL_BELOW:
        return None
    rate = facts.window * 8 / facts.rtt_s
    waited = _waited(facts)
    if not WINDOW_LEAST <= facts.goodput.bps / rate <= WINDOW_MOST or (
        waited is not None and waited < WAITING_REQUESTED
    ):
        return None
    text = (
        f"the requested window of {_size(facts.window)} allows only {Bitrate(rate)} with round trips of "
        f"{facts.rtt_s * 1e3:.3g} ms{_waits(facts)}"
    )
    return Diagnosis(Cause.WINDOW, text, {**_window_numbers(facts), "window_over_rtt_bps": rate})


def waited_for_window(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the sender waited most of its time for the receiver's window or its own buffer, requested or not."""
    waited = _waited(facts)
    if waited is None or waited < WAITING:
        return None
    held = facts.goodput.bps * facts.rtt_s / 8 if facts.rtt_s else None
    effective = "" if held is None else f"; {_size(held)} were in flight, in round trips of {_ms(facts.rtt_s)}"
    return Diagnosis(Cause.WINDOW, f"TCP's window is too small{_waits(facts)}{effective}", _window_numbers(facts))


def _waited(facts: DiagnosisFacts) -> float | None:
    receiver, sender = facts.receiver_limited, facts.sender_limited
    return None if receiver is None or sender is None else receiver + sender


def _waits(facts: DiagnosisFacts) -> str:
    receiver, sender = facts.receiver_limited, facts.sender_limited
    if receiver is None or sender is None:
        return ""
    return (
        f"; the sender waited {receiver * 100:.0f} % of its time for the receiver's window and {sender * 100:.0f} % "
        "for its own send buffer"
    )


def _window_numbers(facts: DiagnosisFacts) -> dict[str, float]:
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


def explaining_loss(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if losses predict the rate, and the rate varies as it does with losses."""
    rate = facts.retransmit_rate
    if rate is None or rate < LOST or facts.spread is None or facts.spread <= STEADY:
        return None
    found = loss(facts)
    bound = 0.0 if found is None else found.numbers.get("tcp_bps", 0.0)
    return found if bound > 0 and MATHIS_LEAST <= facts.goodput.bps / bound <= MATHIS_MOST else None


def loss(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if segments were lost and sent again, or if datagrams were lost.

    An overflowing queue loses segments, too, at any rate. But then the rate is steady; see ``shaper``.
    """
    if facts.loss_rate is not None and facts.loss_rate >= DATAGRAMS_LOST:
        text = f"{facts.loss_rate * 100:.2g} % of the datagrams were lost"
        return Diagnosis(Cause.LOSS, text, {"loss_rate": facts.loss_rate})
    rate = facts.retransmit_rate
    if rate is None or rate < LOST_LEAST:
        return None
    numbers = {"retransmit_rate": rate}
    text = f"{rate * 100:.2g} % of the segments were lost and retransmitted"
    if facts.mss is not None and facts.rtt_s:
        bound = facts.streams * MATHIS * facts.mss * 8 / (facts.rtt_s * math.sqrt(rate))
        numbers |= {"rtt_s": facts.rtt_s, "mss": float(facts.mss), "tcp_bps": bound}
        if MATHIS_LEAST <= facts.goodput.bps / bound <= MATHIS_MOST or rate >= LOST:
            return Diagnosis(Cause.LOSS, f"{text}, in round trips of {_ms(facts.rtt_s)}", numbers)
        return None
    return Diagnosis(Cause.LOSS, text, numbers) if rate >= LOST else None


def queue(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if a queue built up before a rate that is held. Lost segments and a full window are then its symptoms.

    The queue of a full wire, of a slow bus or of a busy processor has other rules, which come first.
    """
    rtt, least = facts.rtt_s, facts.rtt_min_s
    if rtt is None or least is None or not is_queued(rtt, least):
        return None
    found = _held(facts, HELD)
    if found is None:
        return None
    text = f"{found.text}; packets waited in its queue: {_ms(rtt)} of round trip, {_ms(least)} without a queue"
    return Diagnosis(Cause.SHAPER, text, {**found.numbers, "rtt_s": rtt, "rtt_min_s": least})


def is_queued(rtt_s: float | None, least_s: float | None) -> bool:
    """Return whether packets waited in a queue: round trips are much longer than the shortest one."""
    return (
        rtt_s is not None and least_s is not None and least_s > 0 and rtt_s >= max(QUEUED * least_s, least_s + QUEUED_S)
    )


def full(facts: DiagnosisFacts, rates: Sequence[Sequence[float]]) -> str:
    """Return the proof that no load of the ends explains the goodput; empty without one.

    ``rates`` has the rates of all pieces of SPREAD_S, by connection. Each sender never waited, and filled a queue.
    """
    middle = median(rate for one in rates for rate in one)
    starved = any(_busy(end) and _of_traffic(end) >= LITTLE for end in facts.ends)
    if starved or _held(facts, FULL) is None or any(fmean(one) < (1 - MISSING) * middle for one in rates):
        return ""
    return (
        f"a queue on the way was never empty ({_ms(facts.rtt_s)} of round trip, {_ms(facts.rtt_min_s)} without it), "
        f"the sender never waited, and its rate was steady within {max(facts.spread or 0.0, 0.001) * 100:.1f} %"
    )


def shaper_beside_work(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if a rate is as steady as only a shaper holds it, while a processor was busy with work of its own."""
    return _held(facts, SHAPED) if any(_busy(end) for end in facts.ends) else None


def shaper(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the rate is steady and below all other limits while both ends are idle: something holds it there."""
    return _held(facts, STEADY)


def _busy(end: EndFacts) -> bool:
    return end.load is not None and end.load.busy >= IDLE


def _of_traffic(end: EndFacts) -> float:
    """Return the share of the busiest CPU that the traffic may need: all but what user processes beside the tool used.

    The time of kernel threads is the traffic's, too: threaded NAPI and the interrupt threads of PREEMPT_RT receive.
    """
    assert end.load is not None
    if end.tool_percent is None:
        return end.load.busy
    return end.load.busy - max(end.load.user - end.tool_percent / 100, 0.0)


def _held(facts: DiagnosisFacts, steady: float) -> Diagnosis | None:
    if facts.spread is None or facts.spread > steady or facts.share >= WELL_BELOW or not facts.ends:
        return None
    known = [end.load.busy for end in facts.ends if end.load is not None]
    busy = [end for end in facts.ends if _busy(end)]
    # A sender that waits for a window may wait for a receiver that gets no processor.
    starved = bool(busy) and (_waited(facts) or 0.0) >= WAITING
    if len(known) < len(facts.ends) or starved or any(_of_traffic(end) >= IDLE for end in busy):
        return None
    spent = f"the busiest CPU was {max(known) * 100:.0f} % busy"
    spent += ", mostly with other work than the traffic" if busy else ""
    text = (
        f"goodput stayed at {facts.goodput} of {facts.wire} (within {max(facts.spread, 0.001) * 100:.1f} %), while "
        f"{spent}: a shaper, or a limit of unknown cause"
    )
    numbers = {
        "limit_bps": facts.wire.bps,
        "spread": facts.spread,
        "busy": max(known),
    }
    return Diagnosis(Cause.SHAPER, text, numbers)
