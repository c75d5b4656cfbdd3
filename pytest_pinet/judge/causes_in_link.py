"""Rules, one per function, that find the link or one of its ends as the cause."""

from __future__ import annotations

from pytest_pinet.judge.circumstances import OTHERS, STOLEN
from pytest_pinet.model.evidence import Cause, Diagnosis, DiagnosisFacts, EndFacts, ProcessorLoad
from pytest_pinet.model.hardware import BUS_CAPACITY, Bus

# Share of the physical limit: timers and other packets on the link take the rest.
LINE_RATE = 0.99
# With both directions at once, one acknowledgement for every second segment leaves 915 of 938 Mbit/s (facts 0).
LINE_RATE_BOTH = 0.97
# A link that is slower than its NICs is reported from a lower share on, since it is unexpected.
SLOW_LINK = 0.95
# A paced sender is exact within this share; S1 read 403 to 408 of 400 Mbit/s.
PACING = 0.03
# USB 2 carries at most 426 Mbit/s of bulk data. NICs on USB 2 were measured with 224 (LAN7515) to 321 (AX88179), S0.
USB2_LEAST = 0.5
USB2_MBPS = 480
# An AX88179 on USB 3 moved 1065 Mbit/s in both directions together, 1149 at 2 GHz, and 949 in one direction alone (S1).
USB_SHARED_LEAST, USB_SHARED_MOST = 0.8, 1.25
# How far goodput may lie outside of the model of PCIe packets, which is accurate to 4 % (S3, I340).
PCIE_MODEL = 0.05
# The load of one CPU, never the mean: one saturated core of four would read 25 %.
BUSY = 0.95
# Other work can only be the cause if a CPU had little time left.
NEARLY_BUSY = 0.8
# From this share on, a saturated core is reported as busy with interrupts: the kernel's receive path is the limit.
MOSTLY_INTERRUPTS = 0.5
# The traffic tool has at most one thread per stream; a thread can use at most one core.
TOOL_PERCENT = 97.0
# Without reports of the firmware: a clock below its maximum on a hot board (throttling starts at 80 C).
CLOCK_KEPT = 0.95
HOT_C = 80.0
# An end that reaches this share of its loopback goodput is at its limit.
CEILING = 0.9


def sender_capped(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the sender reached its rate limit, and this is less than the link carries."""
    offered = facts.offered
    if offered is None or offered.bps >= LINE_RATE * facts.wire.bps:
        return None
    if abs(facts.goodput.bps - offered.bps) > PACING * offered.bps:
        return None
    text = f"the rate limit of the sender {facts.sender} is {offered}"
    return Diagnosis(Cause.SENDER, text, {"offered_bps": offered.bps})


def slow_link(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the link is full, and slower than one of its NICs."""
    known = [end for end in facts.ends if end.negotiated_mbps is not None and end.rated_mbps is not None]
    if facts.share < SLOW_LINK or not known:
        return None
    slowest = min(known, key=lambda end: (end.negotiated_mbps or 0, end.negotiated_mbps == end.rated_mbps))
    speed, rated = slowest.negotiated_mbps or 0, slowest.rated_mbps or 0
    numbers = {"limit_bps": facts.wire.bps, "link_mbps": float(speed)}
    reached = f"{facts.goodput} of the {facts.wire} that this link carries"
    if speed < rated:
        text = f"the link of {slowest.name} runs at {speed} Mbit/s, though its NIC supports {rated}: {reached}"
        return Diagnosis(Cause.LINK, text, {**numbers, "rated_mbps": float(rated)})
    tested = max((end.rated_mbps or 0 for end in known if end.under_test), default=0)
    if slowest.under_test or speed >= tested:
        return None
    text = f"the peer {slowest.name} has a link of {speed} Mbit/s, but the NIC under test supports {tested}: {reached}"
    return Diagnosis(Cause.PEER, text, {**numbers, "rated_mbps": float(tested)})


def half_duplex(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the link is half duplex: both directions share the wire and collide."""
    half = next((end for end in facts.ends if end.duplex == "half"), None)
    if half is None or facts.share >= LINE_RATE or (facts.both or facts.goodput) > facts.wire:
        # Both directions of a half-duplex link share its wire. Class drivers of USB call every link half duplex.
        return None
    text = f"the link of {half.name} runs in half duplex at {half.negotiated_mbps or '?'} Mbit/s"
    return Diagnosis(Cause.LINK, text, {"limit_bps": facts.wire.bps})


def line_rate(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the wire is full."""
    if facts.share < (LINE_RATE if facts.both is None else LINE_RATE_BOTH):
        return None
    text = f"the link is full: {facts.goodput} of {facts.wire} ({facts.because})"
    return Diagnosis(Cause.LINE_RATE, text, {"limit_bps": facts.wire.bps})


def usb_bus(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if a NIC on USB 2 gets in both directions together what this bus was measured to carry."""
    slow = [end for end in facts.ends if _on_usb2(end)]
    most = BUS_CAPACITY[Bus.USB2]
    total = facts.both or facts.goodput
    if not slow or most is None or facts.wire <= most or not USB2_LEAST <= total.bps / most.bps <= 1:
        return None
    end = max(slow, key=lambda one: one.under_test)
    found = "enumerated at" if end.usb_mbps is not None else "nominal"
    together = f"both directions together {total}" if facts.both is not None else f"{total}"
    text = (
        f"both directions share the USB 2 bus of {end.name} ({found} {USB2_MBPS} Mbit/s): {together} of the "
        f"{most} that the bus can carry"
    )
    numbers = {"total_bps": total.bps, "bus_bps": most.bps}
    return Diagnosis(Cause.USB, text, numbers)


def usb_adapter(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if both directions of a USB NIC together get hardly more than one direction alone could."""
    adapters = [end for end in facts.ends if end.usb_mbps is not None or end.bus in (Bus.USB2, Bus.USB3)]
    if facts.both is None or not adapters:
        return None
    if not USB_SHARED_LEAST <= facts.both.bps / facts.wire.bps <= USB_SHARED_MOST:
        return None
    end = max(adapters, key=lambda one: one.under_test)
    text = (
        f"both directions share the bus and the driver of the USB NIC {end.name}: together {facts.both}, "
        f"while one direction alone can have {facts.wire}"
    )
    numbers = {"total_bps": facts.both.bps, "limit_bps": facts.wire.bps}
    return Diagnosis(Cause.USB, text, numbers)


def _on_usb2(end: EndFacts) -> bool:
    # The measured signal rate overrides the lab file.
    return end.usb_mbps == USB2_MBPS if end.usb_mbps is not None else end.bus is Bus.USB2


def pcie_bus(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if the packets of a PCIe link allow less than the wire, and goodput reached this rate."""
    for end in facts.ends:
        if end.pcie_leaves is None or end.pcie is None:
            continue
        least, most = end.pcie_leaves
        if least >= facts.wire:
            continue
        if not (1 - PCIE_MODEL) * least.bps <= facts.goodput.bps <= (1 + PCIE_MODEL) * most.bps:
            continue
        payload = "" if end.pcie.payload is None else f" with payloads of {end.pcie.payload} bytes"
        text = f"the PCIe link of {end.name} ({end.pcie}){payload} allows {least} to {most}"
        numbers = {"least_bps": least.bps, "most_bps": most.bps, "gtps": end.pcie.gtps, "lanes": float(end.pcie.lanes)}
        return Diagnosis(Cause.PCIE, text, numbers)
    return None


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


def other_work(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if other programs, a hypervisor or a quota took processor time, and a processor was nearly busy."""
    for end in facts.ends:
        if end.load is None or end.load.busy < NEARLY_BUSY:
            continue
        where = f"the machine that carries {end.name}" if facts.one_machine else end.name
        if end.others is not None and end.others.share > OTHERS:
            named = ", ".join(f"{one.name} (pid {one.pid})" for one in end.others.programs)
            text = f"other programs took {end.others.share * 100:.0f} % of a CPU of {where} ({named})"
            return Diagnosis(Cause.OTHERS, text, {"others": end.others.share, "busy": end.load.busy})
        if end.stolen is not None and end.stolen > STOLEN:
            text = f"a hypervisor or a quota took {end.stolen * 100:.0f} % of a CPU of {where}"
            return Diagnosis(Cause.OTHERS, text, {"stolen": end.stolen, "busy": end.load.busy})
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
    text = f"the traffic tool used {percent:.0f} % of a core on {who}, and has only one thread"
    return Diagnosis(Cause.CPU if end.under_test else Cause.PEER, text, {"tool_percent": percent})


def ceiling(facts: DiagnosisFacts) -> Diagnosis | None:
    """Match if a peer moves no more between two of its own processes."""
    peers: list[EndFacts] = [end for end in facts.ends if not end.under_test and end.ceiling is not None]
    for end in peers:
        if end.ceiling is not None and facts.goodput.bps >= CEILING * end.ceiling.bps:
            text = f"the peer {end.name} reaches only {end.ceiling} over its own loopback"
            return Diagnosis(Cause.PEER, text, {"ceiling_bps": end.ceiling.bps})
    return None
