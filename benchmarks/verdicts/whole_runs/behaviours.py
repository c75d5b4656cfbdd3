"""The kinds of links: the kinds of the table of issue 39, and kinds of our own, of what real Pi links do.

None of them was tuned to a rule of the judge. Facts are of ``/work/shared/facts`` (issue threads of raspberrypi/linux
and others), by the file and the row.
"""

from __future__ import annotations

import math
import random

from benchmarks.verdicts.whole_runs.board import COOL, Behaviour, Kind, Moment


def low(name: str, share: float, by: float, at: str) -> Behaviour:
    """Return a behaviour: a ``share`` of the days, boots, link-ups or connections is lower ``by``."""

    def factor(moment: Moment) -> float:
        scope = getattr(moment, at)
        return 1 - by if scope.once(name, lambda source: source.random() < share) else 1.0

    return factor


def differing(sd: float, at: str) -> Behaviour:
    """Return a behaviour: days, boots, link-ups or connections differ by ``sd`` (relative standard deviation)."""

    def factor(moment: Moment) -> float:
        return math.exp(getattr(moment, at).once(f"level {at}", lambda source: source.gauss(0, sd)))

    return factor


def all_of(*behaviours: Behaviour) -> Behaviour:
    """Return the product of behaviours."""

    def factor(moment: Moment) -> float:
        return math.prod(one(moment) for one in behaviours)

    return factor


def _first_low(at: Moment) -> float:
    """The first connection after a boot is 4 % lower than the others."""
    first = at.boot.drawn.setdefault("first", at.connection)
    return 0.96 if first is at.connection else 1.0


def _fading(at: Moment) -> float:
    """6 % lower after a boot, fading in 20 s."""
    return 1 - 0.06 * max(0.0, 1 - at.age_s / 20.0)


def _throttling(at: Moment) -> float:
    """The board throttles by 8 % after 40 s of traffic in a boot."""
    return 0.92 if at.traffic_s >= 40.0 else 1.0


def _drifting(at: Moment) -> float:
    """The rate rises or falls by 0.1 % in each second of a boot."""
    pace = at.boot.once("pace", lambda source: source.choice((-0.001, 0.001)))
    return math.exp(pace * at.age_s)


def _hot(at: Moment) -> float:
    """0.1 % slower for each K that the boot left the board hotter."""
    return 1 - 0.001 * at.hot


def _four_ports(at: Moment) -> float:
    """The flow's hash chooses one of four queues; their values are 3 % apart."""
    return (1.0, 0.97, 0.94, 0.91)[hash_of(at.port) % 4]


def hash_of(port: int) -> int:
    """Return the hash of a flow with this source port, the rest of the flow is the same for all."""
    return random.Random(port).getrandbits(16)


def _within_start(at: Moment) -> float:
    """A start of 4 to 8 s rises evenly from 30 %: a connection of 3 s lies wholly in it."""
    length = at.connection.once("start", lambda source: source.uniform(4.0, 8.0))
    begun = at.connection.once("begun", lambda _: at.traffic_s)
    return min(1.0, 0.3 + 0.7 * (at.traffic_s - begun) / length)


def _steady(_: Moment) -> float:
    return 1.0


# What must stay as fast as it is: 3 s for a pass, 9 s for a fail, at most 6 turns for a build that is 10 % slower.
STEADY: dict[str, Kind] = {"steady": Kind(_steady)}
TABLE: dict[str, Kind] = {
    "first connection 4 % low": Kind(_first_low),
    "6 % low after a boot, fading in 20 s": Kind(_fading),
    "throttles by 8 % after 40 s": Kind(_throttling),
    "drift of 0.1 % a second": Kind(_drifting),
    "one boot in five 10 % low": Kind(low("low", 0.2, 0.10, "boot")),
    "one day in five 5 % low": Kind(low("low", 0.2, 0.05, "day")),
    "days differ by 1 %": Kind(differing(0.01, "day")),
    "days differ by 1.3 %": Kind(differing(0.013, "day")),
    "days differ by 1.6 %": Kind(differing(0.016, "day")),
    "days differ by 2 %": Kind(differing(0.02, "day")),
    "builds: a tenth of the boots 15 % low": Kind(low("low", 0.1, 0.15, "boot")),
    "builds: a fifth of the boots 10 % low": Kind(low("low", 0.2, 0.10, "boot")),
    "builds: B hotter for 20 s after its boot": Kind(_hot, hot_boots=(5.0, 25.0)),
    "compare: four values by the port's hash": Kind(_four_ports),
    "wholly within its start": Kind(_within_start),
}


def _eee(at: Moment) -> float:
    """EEE takes bandwidth only in the first 4 s after a link-up."""
    return 0.93 if at.link_age_s < 4.0 + at.boot.once("late", lambda source: source.uniform(1.0, 3.0)) else 1.0


def _uptime(at: Moment) -> float:
    """The rate decays by 1 % in each hour of the boot."""
    return math.exp(-0.01 * at.age_s / 3600)


def _soft_limit(at: Moment) -> float:
    """Above a temperature of the board, its clock, and a CPU-bound NIC with it, is 5 % slower."""
    return 0.95 if at.celsius > COOL + 9.0 else 1.0


def _first_high(at: Moment) -> float:
    """The first connection of a link-up is 3 % faster: rings and caches are fresh, no queue has filled yet."""
    return 1.0 if at.number == 1 else 0.97


def _slow_queue(at: Moment) -> float:
    """One of five transmit queues is 12 % slower; the flow's hash chooses."""
    return 0.88 if hash_of(at.port) % 5 == 0 else 1.0


def _slow_second(at: Moment) -> float:
    """After 30 s of traffic in a boot the rate is 4 % lower."""
    return 0.96 if at.traffic_s >= 30.0 else 1.0


def _sinking_room(at: Moment) -> float:
    """The room becomes warmer or cooler: the level moves by 0.5 % in ten minutes, in all boots of a day."""
    begin = at.day.once("begin", lambda _: at.now_s)
    pace = at.day.once("pace", lambda source: source.gauss(0, 0.005 / 600))
    return math.exp(pace * (at.now_s - begin))


OWN: dict[str, Kind] = {
    # pi-networking.md, 4, row 4 (PR 7251): "EEE lost bandwidth only in the first seconds: -O 5 hides it".
    "EEE: 7 % low in the first seconds of a link-up": Kind(_eee),
    # pi-networking.md, 4, row 20 (r8169 2276 -> 266 after hours); regressions-and-labs.md, 3 (RPL#4552).
    "decays by 1 % an hour of uptime, no reboots": Kind(_uptime, reboots=False),
    # pi-networking.md, 6: "3B+ soft limit 60 C (1.4 -> 1.2 GHz)"; throttling at 80 to 85 C.
    "soft temperature limit: 5 % slower when warm": Kind(_soft_limit),
    # pi-networking.md, 4, row 11 (RPL#2996): pause is negotiated at each link-up, or not.
    "three link-ups in ten 4 % low": Kind(low("low", 0.3, 0.04, "link_up")),
    # measuring.md, 2.5: token buckets and senders let a burst pass first.
    "first connection of a link-up 3 % high": Kind(_first_high),
    # pi-networking.md, 6: genet has 5 transmit queues; "GICv2 = one CPU", 20 to 30 % if process and IRQ share it (#40).
    "one of five queues 12 % slow, by the port's hash": Kind(_slow_queue),
    # pi-networking.md, 5, point 9 (30 GB or 30 min: thermal), 7568: a gate that is not the first test of its run.
    "4 % lower after 30 s of traffic, other tests first in half of the runs": Kind(_slow_second, before=12),
    # regressions-and-labs.md, 3, row 9 (RPL#3850: 1 to 3 of 10 boots) and pi-networking.md, 4, row 7 (1 of 7 boots).
    "one boot in seven 20 % low": Kind(low("low", 1 / 7, 0.20, "boot")),
    # measuring.md, 2.7: 3B+ 224 to 300 Mbit/s over USB 2, the phase of the link-up decides; CM4 RX 747 to 841.
    "link-ups differ by 1 %": Kind(differing(0.01, "link_up")),
    # measuring.md, 0, point 4: the lab drifts between sessions by 2 %; here the drift goes on within the day.
    "a room that warms, boots differ by 0.3 %": Kind(all_of(_sinking_room, differing(0.003, "boot"))),
}
KINDS = {**STEADY, **TABLE, **OWN}
