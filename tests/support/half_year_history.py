"""A simulated half year of a test bench: runs in the format of ``results.json``, with planted changes.

``python tests/support/half_year_history.py FOLDER [SEED]`` writes the runs and their history.
"""

from __future__ import annotations

import json
import math
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict
from tests.support.report_records import direction, result, run_record

RUNS = 180
RUNS_OF_A_BUILD = 3
BEGINS = datetime(2026, 5, 20, 1, 0, tzinfo=UTC)
BOARDS = {
    "pi3b": ("onboard",),
    "pi4b": ("onboard", "ax88179", "rtl8153"),
    "cm4": ("onboard", "i226v"),
    "pi5": ("onboard", "rtl8125b"),
}
# The approximate rates of each link in one direction, from the catalogue (bit/s; goodput and physical limit).
RATES = {
    "pi3b:onboard": (94.1e6, 94.148e6),
    "pi4b:onboard": (941.2e6, 941.5e6),
    "pi4b:ax88179": (905e6, 941.5e6),
    "pi4b:rtl8153": (925e6, 941.5e6),
    "cm4:onboard": (940.9e6, 941.5e6),
    "cm4:i226v": (2.34e9, 2.354e9),
    "pi5:onboard": (941.3e6, 941.5e6),
    "pi5:rtl8125b": (2.33e9, 2.354e9),
}
# The driver of each NIC: of onboard NICs by board.
DRIVERS = {
    "pi3b:onboard": "smsc95xx",
    "pi4b:onboard": "bcmgenet",
    "cm4:onboard": "bcmgenet",
    "pi5:onboard": "macb",
    "ax88179": "ax88179_178a",
    "rtl8153": "r8152",
    "i226v": "igc",
    "rtl8125b": "r8169",
}
TRAFFICS = (("tcp-P1", "tx"), ("tcp-P1", "rx"), ("tcp-P10", "tx"))
LAB = """\
pinet:
  name: half-year
  switches: {s: {backend: fixed, ports: p1-p9}}
  nodes:
    one: {board: pi4b, interfaces: {onboard: {port: s/p1}}}
"""
NOISE = 0.004
NOISY = ("pi4b:rtl8153/pair/tcp-P10-tx", 0.06)
DRIFT = ("cm4:onboard/pair/tcp-P1-rx", 30, 165, -0.06)


@dataclass(frozen=True)
class Planted:
    """A planted regression: the metric, its first run, its size, and the kernel that introduced it."""

    figure: str
    at: int
    size: float
    kernel: str


def kernel_of(run: int) -> str:
    """Return the kernel of a run. Every third run has a new one."""
    number = run // RUNS_OF_A_BUILD
    return f"6.12.{20 + number}-v8+g{0xA1C0FFE + number * 7919:07x}"


REGRESSIONS = tuple(
    Planted(figure, at, size, kernel_of(at))
    for figure, at, size in (
        ("pi4b:onboard/pair/tcp-P1-rx", 60, -0.05),
        ("pi5:rtl8125b/pair/tcp-P1-tx", 99, -0.12),
        ("cm4:i226v/pair/tcp-P10-tx", 141, -0.03),
    )
)


def half_year(seed: int = 1, runs: int = RUNS) -> list[RunRecord]:
    """Return the runs of 24 metrics: quiet ones, three with a regression, one with drift and a noisy one."""
    chance = random.Random(seed)
    figures = [(f"{board}:{nic}", *traffic) for board, nics in BOARDS.items() for nic in nics for traffic in TRAFFICS]
    assert len(figures) == 24
    weather = dict.fromkeys(figures, 0.0)
    return [_run(number, figures, weather, chance) for number in range(runs)]


def _run(
    number: int, figures: list[tuple[str, str, str]], weather: dict[tuple[str, str, str], float], chance: random.Random
) -> RunRecord:
    started = BEGINS + timedelta(days=number, minutes=chance.randrange(30))
    results = []
    for minute, key in enumerate(figures):
        one = _result(number, *key, weather, chance)
        results.append(one.replace(started=(started + timedelta(minutes=minute)).isoformat()))
    return run_record(
        results,
        run=started.strftime("%Y%m%d-%H%M%S"),
        lab="half-year",
        started=started.isoformat(),
        finished=(started + timedelta(minutes=30)).isoformat(),
        exitstatus=int(any(one.verdict is Verdict.FAIL for one in results)),
        session=f"{number:032x}",
    )


def _result(
    number: int, device: str, traffic: str, way: str, weather: dict[tuple[str, str, str], float], chance: random.Random
) -> ResultRecord:
    key = (device, traffic, way)
    combination = f"{device}/pair"
    if chance.random() < 0.01:
        one = result(combination, {}, "error", "no answer over ssh from the node\n  -> look at its console", link=None)
    else:
        usual, physical = RATES[device]
        level, limit = _level(number, f"{combination}/{traffic}-{way}"), usual * 0.94
        noise = NOISY[1] if f"{combination}/{traffic}-{way}" == NOISY[0] else NOISE
        # Each day resembles the day before. Sometimes other load disturbs the bench.
        weather[key] = 0.3 * weather[key] + math.sqrt(1 - 0.3**2) * chance.gauss(0, 1)
        dip = -chance.uniform(0.05, 0.3) if chance.random() < 0.005 else 0.0
        goodput = min(usual * math.exp(level + noise * weather[key] + dip), physical)
        verdict = "fail" if goodput < limit else "pass"
        reason = f"{Bitrate(goodput)} is below the limit {Bitrate(limit)}" if verdict == "fail" else ""
        interval = (goodput * (1 - 2 * NOISE), goodput * (1 + 2 * NOISE))
        figure = direction(goodput, limit, verdict, physical, reason=reason, interval_bps=interval)
        one = result(combination, {way: figure}, traffic=traffic).replace(parameters="0123456789ab")
    build = {
        "uname": f"Linux {kernel_of(number)} #1 SMP PREEMPT aarch64",
        "driver": DRIVERS.get(device) or DRIVERS[device.partition(":")[2]],
        "driver_version": kernel_of(number),
        "firmware": None,
    }
    return one.replace(build=build)


def _level(number: int, figure: str) -> float:
    level = math.fsum(math.log1p(one.size) for one in REGRESSIONS if one.figure == figure and number >= one.at)
    drifting, begin, end, size = DRIFT
    if figure == drifting:
        level += math.log1p(size) * min(max((number - begin) / (end - begin), 0.0), 1.0)
    return level


def keep(records: list[RunRecord], url: str, runs: Path | None = None) -> None:
    """Store runs in a history. ``runs`` is the folder of the run folders."""
    from pytest_pinet.history.records import points_of
    from pytest_pinet.history.store import HistoryStore

    store = HistoryStore.open(url, create=True)
    store.add_all(points_of(record, str(runs / record.run) if runs is not None else "") for record in records)
    store.close()


def write(records: list[RunRecord], folder: Path) -> None:
    """Write the run folders below ``folder``, and the history."""
    for record in records:
        (folder / "runs" / record.run).mkdir(parents=True, exist_ok=True)
        (folder / "runs" / record.run / "results.json").write_text(json.dumps(record.dump()), encoding="ascii")
    keep(records, str(folder / "history.db"), folder / "runs")


def acknowledge(metric: str, goodput: str, owner: str, link: str, folder: Path) -> str:
    """Write a lab file with the name of the lab, and acknowledge a loss for another two months. Return the file's name.

    One board is enough: nothing is measured.
    """
    today = datetime.now(UTC).date()
    entry = {
        "id": metric, "owner": owner, "until": str(today + timedelta(days=60)), "link": link, "value": goodput,
        "date": str(today),
    }  # fmt: skip
    (folder / "baselines").mkdir()
    (folder / "baselines" / "acknowledged.yaml").write_text(json.dumps({"acknowledged": [entry]}))
    (folder / "lab.yaml").write_text(LAB)
    return "lab.yaml"


if __name__ == "__main__":
    year = half_year(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    write(year, Path(sys.argv[1]) / ".pinet")
    sys.stdout.write(f"{len(year)} runs in {sys.argv[1]}\n")
