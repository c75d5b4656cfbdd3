"""Rules, one per function, that find an end as the cause: its processor, its power, its capacity."""

from __future__ import annotations

from pytest_pinet.model.diagnosis import Cause, Diagnosis, DiagnosisFacts, EndFacts
from pytest_pinet.model.evidence import ProcessorLoad

# The load of one CPU, never the mean: one saturated core of four would read 25 %.
BUSY = 0.95
# From this share on, a saturated core is reported as busy with interrupts: the kernel's receive path is the limit.
MOSTLY_INTERRUPTS = 0.5
# The traffic tool has at most one thread per stream; a thread can use at most one core.
TOOL_PERCENT = 97.0
# Without reports of the firmware: a clock below its maximum on a hot board (throttling starts at 80 C).
CLOCK_KEPT = 0.95
HOT_C = 80.0
# An end that reaches this share of its loopback goodput is at its limit.
CEILING = 0.9


def power(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the firmware throttled, or if a hot board ran below its maximum clock."""
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


def receive_path(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if one CPU was saturated, mostly by interrupts and softirqs; this also causes losses."""
    found = processor(facts)
    share = 0.0 if found is None else found.numbers.get("irq", 0.0) + found.numbers.get("softirq", 0.0)
    return found if share >= MOSTLY_INTERRUPTS else None


def processor(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if one CPU was saturated; the device under test is named before a peer."""
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


def _tool(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the tool's single thread used a whole core; one stream has one thread."""
    if facts.streams > 1 or facts.both is not None:
        return None
    known = [(end.tool_percent, end) for end in facts.ends if end.tool_percent is not None]
    percent, end = max(known, key=lambda entry: (entry[0], entry[1].under_test), default=(0.0, None))
    if end is None or percent < TOOL_PERCENT:
        return None
    who = end.name if end.under_test else f"the peer {end.name}"
    text = f"the traffic tool used {percent:.0f} % of a core on {who}, and it has one thread"
    return Diagnosis(Cause.CPU if end.under_test else Cause.PEER, text, {"tool_percent": percent})


def ceiling(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if a peer moves no more between two of its own processes."""
    peers: list[EndFacts] = [end for end in facts.ends if not end.under_test and end.ceiling is not None]
    for end in peers:
        if end.ceiling is not None and facts.goodput.bps >= CEILING * end.ceiling.bps:
            text = f"the peer {end.name} reaches only {end.ceiling} over its own loopback"
            return Diagnosis(Cause.PEER, text, {"ceiling_bps": end.ceiling.bps})
    return None
