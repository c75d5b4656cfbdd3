"""``python -m benchmarks.virtual_time``: how well traffic repeats on boards whose time counts instructions.

Each type of traffic runs repeatedly on one boot of an emulated board, alternately on the machine as it is and with two
busy loops, so that other load affects all types alike. It prints the coefficient of variation of the goodput in the
board's time, and in the wall time of the peer's clock for the same runs. Needs root, QEMU, and some 10 minutes per NIC.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import TrafficError
from pytest_pinet.lab.access import visit
from pytest_pinet.matrix.expansion import select_combinations
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic

LAB = Path(__file__).parents[1] / "lab" / "emulated.yaml"
BUSY_LOOPS = 2
DATAGRAM = 1400

Rates = dict[str, list[tuple[float, float]]]


def types(seconds: float) -> dict[str, Traffic]:
    """Return the traffic by its name in the table."""

    def tcp(way: Direction, streams: int = 1) -> Traffic:
        return Traffic(way, streams=streams, duration_s=seconds, warmup_s=None)

    def udp(way: Direction, mbps: float) -> Traffic:
        rate = Bitrate.mbps(mbps)
        return Traffic(way, udp=True, bitrate=rate, length=DATAGRAM, duration_s=seconds, warmup_s=None)

    return {
        "TCP, received": tcp(Direction.RX),
        "TCP, received, 4 streams": tcp(Direction.RX, 4),
        "TCP, sent": tcp(Direction.TX),
        "TCP, sent, 4 streams": tcp(Direction.TX, 4),
        "TCP, sent, 16 streams": tcp(Direction.TX, 16),
        "UDP, sent": udp(Direction.TX, 900),
        "UDP, received": udp(Direction.RX, 900),
        "TCP, both ways": tcp(Direction.BIDIR),
    }


def measure(source: Path, nic: str, rounds: int, wanted: Mapping[str, Traffic]) -> dict[bool, Rates]:
    """Measure the rates of each run in board time and wall time, by type of traffic. Key True is the busy machine.

    A run without a result is left out.
    """
    found: dict[bool, Rates] = {False: {}, True: {}}
    with TemporaryDirectory(prefix="virtual-time-") as folder:
        # A copy of the lab file, so that the lab belongs to this run alone.
        file = Path(folder) / source.name
        copyfile(source, file)
        lab = load(file)
        (combination,) = select_combinations(lab, [f"virt:{nic}/pair"])
        with visit(lab, "benchmark", _say, lambda troubles: _say(*troubles)) as here, here.open(combination) as link:
            lasts_s = 2 * rounds * sum(traffic.seconds + 5.0 for traffic in wanted.values())
            with Runs(MeasureContext(link, here.tool, watch=here.watch), lasts_s) as runs:
                for number, name, busy in product(range(rounds), wanted, (False, True)):
                    # Every other round begins with the busy run.
                    busy ^= number % 2 == 1
                    what = f"{nic}, {number + 1} of {rounds}{', busy' if busy else ''}: {name}"
                    try:
                        with busy_loops() if busy else nullcontext(), here.measuring(combination):
                            one = runs.again(wanted[name])
                    except TrafficError as error:
                        _say(f"{what}: {error}")
                        continue
                    for part, rates in rates_of(one, name).items():
                        found[busy].setdefault(part, []).append(rates)
                        _say(f"{what}: " + ", ".join(f"{rate / 1e6:.1f}" for rate in rates) + " Mbit/s")
    return found


def rates_of(one: Connection, name: str) -> dict[str, tuple[float, float]]:
    """Return the goodput of each direction in bit/s, in board time and in wall time."""
    both = len(one.flows) > 1
    return {
        f"{name}, {measured.way}" if both else name: (measured.flow.goodput.bps, by_the_wall(measured.flow))
        for measured in one.flows
    }


def by_the_wall(flow: Flow) -> float:
    """Return the goodput of a flow in bit/s as the peer counted it, at the other end of the same traffic."""
    samples = [sample for sample in flow.other_samples or flow.sender_samples if not sample.warmup]
    seconds = sum(sample.seconds for sample in samples)
    return sum(sample.bytes for sample in samples) * 8 / seconds if seconds else 0.0


@contextmanager
def busy_loops(number: int = BUSY_LOOPS, nice: int = 0) -> Iterator[None]:
    """Keep processors busy, at the usual priority (or at ``nice``) whatever our own is."""
    # Each loop ends with this process, however it ends.
    code = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    loops = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(number)]
    try:
        for loop in loops:
            os.setpriority(os.PRIO_PROCESS, loop.pid, nice)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation."""
    return statistics.stdev(values) / statistics.fmean(values)


def table(nic: str, found: dict[bool, Rates]) -> Iterator[str]:
    """Yield a row per type of traffic: median goodput, its variations (unloaded, busy), shift, wall time variations."""
    for name in found[False]:
        runs = [found[busy].get(name, []) for busy in (False, True)]
        if min(map(len, runs)) < 2:
            yield f"| {nic} | {name} | gives no value | | | | | |"
            continue
        ours, walls = ([[pair[which] for pair in one] for one in runs] for which in (0, 1))
        cells = [f"{statistics.median(ours[0]) / 1e6:.1f}"]
        shift = statistics.median(ours[1]) / statistics.median(ours[0]) - 1
        cells += [f"{variation(one) * 100:.2f} %" for one in ours] + [f"{shift * 100:+.2f} %"]
        cells += [f"{variation(one) * 100:.0f} %" for one in walls]
        yield f"| {nic} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print a row per NIC and type of traffic."""
    parser = argparse.ArgumentParser(prog="benchmarks.virtual_time", description=__doc__)
    parser.add_argument("-n", type=int, default=8, help="runs of each, as the machine is and busy (default: 8)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run, after its warm-up (default: 4)")
    parser.add_argument("--nic", action="append", help="NIC of the board 'virt' (default: e1000e and virtio)")
    parser.add_argument("--only", action="append", default=[], help="type of traffic, as the table calls it")
    parser.add_argument("--lab", type=Path, default=LAB, help="lab file (default: %(default)s)")
    options = parser.parse_args()
    wanted = {
        name: traffic for name, traffic in types(options.seconds).items() if not options.only or name in options.only
    }
    rows: list[str] = []
    for nic in options.nic or ("e1000e", "virtio"):
        rows += table(nic, measure(options.lab, nic, options.n, wanted))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.n} runs of {options.seconds:g} s each; load of the machine's {os.cpu_count()} processors: {load}")
    print("| NIC | traffic | Mbit/s | varies by | busy | busy changes it by | wall's clock varies by | busy |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
