"""Whether an end set a figure, by its processor, its power or what it can do at all: one rule a function."""

from __future__ import annotations

from pytest_pinet.model.diagnosis import Cause, Diagnosis, EndFacts, Facts
from pytest_pinet.model.evidence import ProcessorLoad

# Of one CPU, never of their mean: one core of four that is at its end reads 25 % there.
BUSY = 0.95
# From here on a core is said to be busy with interrupts: it is the kernel's receive path that is at its end.
MOSTLY_INTERRUPTS = 0.5
# The traffic tool has one thread for each stream at most; of one that uses all of a core no more can be had.
TOOL_PERCENT = 97.0
# Where the firmware says nothing: a clock that is lower than asked for, on a board that is hot (throttling from 80 C).
CLOCK_KEPT = 0.95
HOT_C = 80.0
# An end that reaches this part of what it moves over its own loopback is at its end.
CEILING = 0.9


def power(facts: Facts) -> Diagnosis | None:
    """The firmware throttled, or a hot board ran slower than it may."""
    for end in facts.ends:
        heat = end.heat
        numbers: dict[str, float] = {}
        if heat is not None and heat.clock_mhz is not None:
            numbers["clock_mhz"] = heat.clock_mhz
        if heat is not None and heat.temperature_c is not None:
            numbers["temperature_c"] = heat.temperature_c
        if end.throttled:
            seen = "".join([f" at {numbers['temperature_c']:.0f} C" if "temperature_c" in numbers else ""])
            text = f"{end.name} had {' and '.join(end.throttled)} during the traffic{seen}"
            return Diagnosis(Cause.POWER, text, numbers)
        if heat is None or heat.temperature_c is None or heat.clock_mhz is None or heat.clock_max_mhz is None:
            continue
        if heat.temperature_c >= HOT_C and heat.clock_mhz <= CLOCK_KEPT * heat.clock_max_mhz:
            text = (
                f"{end.name} was at {heat.temperature_c:.0f} C and ran at {heat.clock_mhz:.0f} of "
                f"{heat.clock_max_mhz:.0f} MHz"
            )
            return Diagnosis(Cause.POWER, text, {**numbers, "clock_max_mhz": heat.clock_max_mhz})
    return None


def receive_path(facts: Facts) -> Diagnosis | None:
    """One CPU had no time left, and most of it went into interrupts and softirqs: of that come losses, too."""
    found = processor(facts)
    share = 0.0 if found is None else found.numbers.get("irq", 0.0) + found.numbers.get("softirq", 0.0)
    return found if share >= MOSTLY_INTERRUPTS else None


def processor(facts: Facts) -> Diagnosis | None:
    """One CPU had no time left; that of the device under test is named before that of a peer."""
    if facts.one_machine:
        loads = [end.load for end in facts.ends if end.load is not None]
        busiest = max(loads, key=lambda load: load.busy, default=None)
        names = " and ".join(end.name for end in facts.ends)
        return None if busiest is None or busiest.busy < BUSY else _busy(busiest, f"the machine that carries {names}")
    for end in sorted(facts.ends, key=lambda end: not end.under_test):
        if end.load is not None and end.load.busy >= BUSY:
            found = _busy(end.load, end.name if end.under_test else f"the peer {end.name}")
            return found if end.under_test else Diagnosis(Cause.PEER, found.text, found.numbers)
    return _tool(facts)


def _busy(load: ProcessorLoad, where: str) -> Diagnosis:
    share = load.interrupts
    text = f"CPU {load.cpu} of {where} was {load.busy * 100:.0f} % busy, {share * 100:.0f} % in interrupts and softirqs"
    numbers = {"cpu": float(load.cpu), "busy": load.busy, "irq": load.irq, "softirq": load.softirq}
    return Diagnosis(Cause.IRQ if share >= MOSTLY_INTERRUPTS else Cause.CPU, text, numbers)


def _tool(facts: Facts) -> Diagnosis | None:
    """One stream has one thread, which has no more than one core, wherever that runs."""
    if facts.streams > 1 or facts.both is not None:
        return None
    known = [(end.tool_percent, end) for end in facts.ends if end.tool_percent is not None]
    percent, end = max(known, key=lambda entry: (entry[0], entry[1].under_test), default=(0.0, None))
    if end is None or percent < TOOL_PERCENT:
        return None
    who = end.name if end.under_test else f"the peer {end.name}"
    text = f"the traffic tool used {percent:.0f} % of a core on {who}, and it has one thread"
    return Diagnosis(Cause.CPU if end.under_test else Cause.PEER, text, {"tool_percent": percent})


def ceiling(facts: Facts) -> Diagnosis | None:
    """A peer does no better between two of its own processes."""
    peers: list[EndFacts] = [end for end in facts.ends if not end.under_test and end.ceiling is not None]
    for end in peers:
        if end.ceiling is not None and facts.goodput.bps >= CEILING * end.ceiling.bps:
            text = f"the peer {end.name} itself moves no more than {end.ceiling} over its own loopback"
            return Diagnosis(Cause.PEER, text, {"ceiling_bps": end.ceiling.bps})
    return None
