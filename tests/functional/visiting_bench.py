"""A link of the virtual lab as the commands of pinet open it, and what stands on its peer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gate_bench import GateLab

from pytest_pinet.choosing import chosen
from pytest_pinet.config.labfile import load
from pytest_pinet.lab.link import Link
from pytest_pinet.lab.reduction import Rates, rate_for
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.runs import run_once
from pytest_pinet.standard_traffic import attempt_at
from pytest_pinet.visiting import Visit, visit

# The slowest pair, which costs the machine least; its peer is pi3b-2.
PAIR = "pi3b:onboard/pair"
PEER = "pi3b-2"
# LAN9514 at 100 Mbit/s with TCP timestamps.
GOODPUT = Bitrate(94.15e6)


@contextmanager
def visited(lab: GateLab, name: str = PAIR) -> Iterator[tuple[Visit, Link]]:
    """The lab, and this link of it; nothing may be left."""
    left: list[str] = []
    described = load(lab.file)
    (combination,) = chosen(described, [name])
    with visit(described, "test", lambda _: None, left.extend) as here, here.link(combination) as link:
        yield here, link
    assert left == []


def rates(link: Link, tx: float, rx: float) -> Rates:
    """Those that leave these parts of the goodput of PAIR."""
    return Rates(rate_for(Bitrate(GOODPUT.bps * tx), link.path), rate_for(Bitrate(GOODPUT.bps * rx), link.path))


def goodput(here: Visit, link: Link, way: Direction) -> float:
    """As a part of the goodput of PAIR, of two seconds of traffic."""
    with here.measuring(link.combination):
        one = run_once(link, Traffic(way, duration_s=1.0, warmup_s=1.0), here.tool)
    return attempt_at(one, way).goodput.bps / GOODPUT.bps


def shapers(lab: GateLab, node: str = PEER) -> list[str]:
    """The shaper's devices and hooks on a node that is on, seen from outside."""
    look = "ls -d /sys/class/net/pinet-* 2>/dev/null; tc qdisc show | grep clsact; true"
    return lab.pinet("exec", node, "--", look).splitlines()
