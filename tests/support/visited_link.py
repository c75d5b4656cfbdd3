"""A link of the virtual lab, opened as the commands of pinet open it, and the shapers on its peer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_pinet.config.labfile import load
from pytest_pinet.lab.access import LabAccess, visit
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import Rates, rate_for
from pytest_pinet.matrix.expansion import select_combinations
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support.gate_project import GateLab

# The slowest pair, which loads this machine least. Its peer is pi3b-2.
PAIR = "pi3b:onboard/pair"
PEER = "pi3b-2"
# LAN9514 at 100 Mbit/s with TCP timestamps.
GOODPUT = Bitrate(94.15e6)


@contextmanager
def visited(lab: GateLab, name: str = PAIR, *, after_kill: bool = False) -> Iterator[tuple[LabAccess, Link]]:
    """Open the lab and this link of it. No warnings may be left, except after a kill what the visit has undone."""
    left: list[str] = []
    described = load(lab.file)
    (combination,) = select_combinations(described, [name])
    with visit(described, "test", lambda _: None, left.extend) as here, here.open(combination) as link:
        yield here, link
    undone = [one for one in left if one.startswith("undid ") and "which an interrupted run left on" in one]
    assert left == (undone if after_kill else [])


def rates(link: Link, tx: float, rx: float) -> Rates:
    """Return the shaper rates that leave these shares of the goodput of PAIR."""
    return Rates(rate_for(Bitrate(GOODPUT.bps * tx), link.path), rate_for(Bitrate(GOODPUT.bps * rx), link.path))


def goodput(here: LabAccess, link: Link, way: Direction) -> float:
    """Measure two seconds of traffic. Return the goodput as a share of the goodput of PAIR."""
    traffic = Traffic(way, duration_s=1.0, warmup_s=1.0)
    with here.measuring(link.combination), Runs(MeasureContext(link, here.tool), traffic.seconds) as runs:
        one = runs.again(traffic)
    return one.towards(way).goodput.bps / GOODPUT.bps


def shapers(lab: GateLab, node: str = PEER) -> list[str]:
    """Return the shaper's devices and hooks on a powered node, seen from outside."""
    look = "ls -d /sys/class/net/pinet-* 2>/dev/null; tc qdisc show | grep clsact; true"
    return lab.execute(node, look).splitlines()
