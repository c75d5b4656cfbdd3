"""``python -m benchmarks.observer``: the cost of observing traffic, from paired runs in network namespaces.

It answers two questions: do iperf3 intervals of 0.1 s change the goodput compared with 0.5 s, and do the observers of
both ends? A pair is two runs of the same traffic, one with and one without, in the order A B B A because the machine's
speed drifts. The link is shaped, so that the wire limits the goodput. With ``--unshaped`` the processor limits it,
which needs an otherwise idle machine. Processor time is reported separately. Needs root.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_pinet.evidence.observer import Observer, command
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import iperf3_command
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.local_shell import LocalShell
from tests.support.shaped_link import ShapedLink, shaped_link

CPU_S = 20.0


def goodput(link: ShapedLink, traffic: Traffic, fine: bool, observed: bool) -> float:
    """Return the goodput of one run in bit/s."""
    iperf3_command.FINE_STREAM_SECONDS = 10_000 if fine else 0
    with ExitStack() as stack:
        if observed:
            for shell in (link.dut, link.peer):
                stack.enter_context(Observer(shell, "eth0", "p", traffic.seconds))
        found = Iperf3().measure(TrafficJob(link.dut, link.peer, link.dut_address, link.peer_address, traffic))
        return found.flows[Direction.TX].goodput.bps


def paired(one: Callable[[], float], other: Callable[[], float], pairs: int) -> list[float]:
    """Return the log ratios of ``other`` to ``one``, from pairs in alternating order."""
    found = []
    for number in range(pairs):
        a, b = (one(), other()) if number % 2 == 0 else tuple(reversed((other(), one())))
        found.append(math.log(b / a))
    return found


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median. The median, because other load makes outliers of some pairs."""
    ordered, n = sorted(ratios), len(ratios)
    # The order statistics that enclose the median with at least 95 %: a sign test, without an assumed distribution.
    rank = max((k for k in range(n // 2) if sum(math.comb(n, i) for i in range(k + 1)) * 2 / 2**n <= 0.05), default=0)
    return ordered[rank], ordered[n - 1 - rank]


def report(what: str, ratios: list[float]) -> None:
    """Print the median change and its interval."""
    low, high = interval(ratios)
    n = len(ratios)
    print(
        f"{what:46} median {statistics.median(ratios) * 100:+.3f} % (95 %: {low * 100:+.3f} to {high * 100:+.3f}), "
        f"{n} pairs",
        flush=True,
    )


def iperf3_cpu(link: ShapedLink, streams: int, fine: bool) -> float:
    """Return iperf3's share of a core for slow traffic, in percent, both ends together."""
    iperf3_command.FINE_STREAM_SECONDS = 10_000 if fine else 0
    traffic = Traffic(Direction.TX, duration_s=5.0, warmup_s=0, streams=streams, bitrate=Bitrate.mbps(10))
    found = Iperf3().measure(TrafficJob(link.dut, link.peer, link.dut_address, link.peer_address, traffic))
    return sum(found.cpu_percent.values())


def processor(interpreter: str) -> float:
    """Return the share of a core that an observer of this machine uses, with all its processes."""
    line = command("lo", CPU_S)
    if interpreter == "sh":
        # As on a machine without bash.
        line = line.replace("command -v bash", "command -v no-bash")
    # The times of child processes are known once they have ended.
    before = os.times()
    LocalShell().spawn(line).wait(CPU_S + 5)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent / CPU_S


def main() -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser(prog="benchmarks.observer", description=__doc__)
    parser.add_argument("-n", type=int, default=12, help="pairs of each comparison")
    parser.add_argument("--unshaped", action="store_true", help="also without a shaper: uses all of the machine")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run, after its warm-up")
    options = parser.parse_args()
    with shaped_link("1gbit") as link:
        rates: list[tuple[str | None, int]] = [("300mbit", 1), ("300mbit", 10), ("1gbit", 1)]
        for rate, streams in rates + ([(None, 1), (None, 10)] if options.unshaped else []):
            if rate is None:
                link.unshape()
            else:
                link.shape(rate)
            # A fixed warm-up, because a detected one depends on the intervals.
            traffic = Traffic(Direction.TX, duration_s=options.seconds, warmup_s=1.0, streams=streams)
            where = f"{rate or 'processor-bound'}, {streams} stream(s)"

            def run(fine: bool, observed: bool, traffic: Traffic = traffic) -> Callable[[], float]:
                return lambda: goodput(link, traffic, fine, observed)

            report(f"0.1 s instead of 0.5 s, {where}", paired(run(False, False), run(True, False), options.n))
            report(f"observers, {where}", paired(run(True, False), run(True, True), options.n))
        for streams in (1, 10):
            coarse, fine = (statistics.fmean(iperf3_cpu(link, streams, way) for _ in range(3)) for way in (False, True))
            print(
                f"iperf3 of both ends, {streams} stream(s) of 10 Mbit/s: {coarse:.2f} % of a core with intervals of "
                f"0.5 s, {fine:.2f} % with 0.1 s",
                flush=True,
            )
    for interpreter in ("bash", "sh"):
        print(f"an observer with {interpreter}: {processor(interpreter) * 100:.2f} % of a core", flush=True)


if __name__ == "__main__":
    main()
