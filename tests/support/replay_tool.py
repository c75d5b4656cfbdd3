"""A traffic tool that sends nothing: it replays samples that stand in a file, at once and always the same.

``install`` registers it as a third-party package would be: a folder with the metadata of an installed package, and this
very file as its module. The processes of a test find the folder through PYTHONPATH, and the file with the recordings,
``replay.yaml``, in their working folder::

    test_name:                        # a glob of the name of the test function, with its parameters
      - connections:                  # one after the other; the last one stands for all that follow
          - {goodput: 94.1}           # Mbit/s; or {tx: 94.1, rx: 90.0}; by default what the test asks for (bitrate)
          - {goodput: 60.0, retransmits: 40, rtt_ms: 0.4, loss: 0.01, stall: [1.0, 0.5], cpu: {dut: 20, peer: 12}}
        of: "*udp-P1-b10M *"          # a glob of "DUT PEER TRAFFIC DIRECTION"; by default all traffic of the test

Others: ``unmet`` (a sentence), ``error`` (a sentence; the tool fails), ``failed`` (requests that were not answered).
"""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from pytest_pinet.errors import TrafficError
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.starts import settle
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import Flow, HttpReport, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import RESPONSE_HEAD, Direction, HttpTraffic, Traffic
from pytest_pinet.traffic.tool import TrafficJob

RECORDINGS = "replay.yaml"
VERSION = "1.0"
INTERVAL_S = 0.25
# Relative deviations of consecutive samples of a steady flow, repeated, because no real link is perfectly even.
RIPPLE = (0.0, 0.0004, -0.0004, 0.0002, -0.0002)
# The rate between two processes of one node.
LOOPBACK_MBPS = 20_000.0


class ReplayTool:
    """Replays the recording of the current test from ``replay.yaml``.

    It does not report when flows began, because real clocks would be known only to some milliseconds.
    """

    def __init__(self, _: Lab) -> None:
        self._recordings: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(RECORDINGS).read_text())
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._test = ""

    def prepare(self, job: TrafficJob) -> None:
        """Do nothing: a node needs no preparation."""

    def measure(self, job: TrafficJob) -> Measurement:
        """Return the next connection of the recording. Raises TrafficError without a recording."""
        traffic, cap_s = job.traffic, job.warmup_cap_s
        if job.before_client is not None:
            job.before_client(job.dut)
        label = f"{job.dut.name} {job.peer.name} {traffic.key} {traffic.direction}"
        one: dict[str, Any] = {"goodput": LOOPBACK_MBPS} if job.dut is job.peer else self._next(label)
        if "error" in one:
            raise TrafficError(one["error"], "look at the recording", "what the tool printed before it failed")
        seconds = traffic.duration_s if isinstance(traffic, HttpTraffic) else traffic.seconds_with(cap_s)
        flows = {way: _flow(way, one, traffic, seconds, cap_s) for way in traffic.direction.parts}
        return Measurement(
            traffic,
            flows,
            raw={"replay.txt": f"{label}: {one}\n"},
            versions={"dut": f"replay {VERSION}", "peer": f"replay {VERSION}"},
            cpu_percent=one.get("cpu", {"dut": 20.0, "peer": 10.0}),
            http=_http(one, flows[traffic.direction], traffic) if isinstance(traffic, HttpTraffic) else None,
            unmet=tuple(filter(None, [one.get("unmet")])),
        )

    def _next(self, label: str) -> dict[str, Any]:
        # After the phases of a test, such as on a second board, the variable is not set.
        self._test = os.environ.get("PYTEST_CURRENT_TEST", self._test)
        test = self._test.rpartition(" (")[0].partition("::")[2]
        for pattern, recordings in self._recordings.items():
            for number, recording in enumerate(recordings if fnmatchcase(test, pattern) else ()):
                if fnmatchcase(label, recording.get("of", "*")):
                    connections = recording["connections"]
                    with self._lock:
                        key = f"{test} {number} {label}"
                        index = self._used[key]
                        self._used[key] += 1
                    return dict(connections[min(index, len(connections) - 1)])
        raise TrafficError(f"{RECORDINGS} has nothing for {test}: {label}", "add a recording")


def _mbps(one: dict[str, Any], way: Direction, traffic: Traffic) -> float:
    goodput = one.get("goodput")
    if isinstance(goodput, dict):
        goodput = goodput[str(way)]
    if goodput is not None:
        return float(goodput)
    offered = traffic.bitrate_of(way)
    if offered is None:
        raise TrafficError(f"the recording has no goodput for {traffic.key}", "add it")
    return offered.bps / 1e6 * traffic.streams


def _flow(way: Direction, one: dict[str, Any], traffic: Traffic, seconds: float, cap_s: float) -> Flow:
    mbps = _mbps(one, way, traffic)
    begin_s, stall_s = one.get("stall", (0.0, 0.0))
    samples: tuple[Sample, ...] = tuple(
        Sample(
            round(number * INTERVAL_S, 3),
            INTERVAL_S,
            0
            if begin_s <= number * INTERVAL_S < begin_s + stall_s
            else round(mbps * 1e6 / 8 * INTERVAL_S * (1 + RIPPLE[number % len(RIPPLE)])),
        )
        for number in range(math.ceil(seconds / INTERVAL_S - 1e-9))
    )
    if isinstance(traffic, HttpTraffic):
        samples = (Sample(0.0, seconds, sum(sample.bytes for sample in samples)),)
    elif traffic.warmup_s is None:
        samples = settle(samples, cap_s)
    else:
        warm_s = traffic.warmup_s
        samples = tuple(Sample(s.start_s, s.seconds, s.bytes, s.start_s < warm_s - INTERVAL_S / 2) for s in samples)
    counted = sum(sample.bytes for sample in samples if not sample.warmup)
    received = counted // (traffic.length or 1448)
    lost = round(received * one.get("loss", 0.0) / (1 - one.get("loss", 0.0)))
    paced = traffic.bitrate is not None
    return Flow(
        way,
        samples,
        retransmits=None if traffic.udp else one.get("retransmits", 0),
        lost_packets=lost if traffic.udp else None,
        packets=received + lost if traffic.udp else None,
        jitter_ms=0.05 if traffic.udp else None,
        streams=tuple(Bitrate(mbps * 1e6 / traffic.streams) for _ in range(traffic.streams)),
        # No traffic runs, so nothing was received outside the recorded time.
        other_samples=(Sample(0.0, seconds, 0),),
        rtt_s=one["rtt_ms"] / 1e3 if "rtt_ms" in one else None,
        events=() if isinstance(traffic, HttpTraffic) else find_events(samples, cap_s, paced=paced),
    )


def _http(one: dict[str, Any], flow: Flow, traffic: HttpTraffic) -> HttpReport:
    (sample,) = flow.samples
    good, failed = sample.bytes // traffic.size, one.get("failed", 0)
    read = float(good * (traffic.size + RESPONSE_HEAD))
    return HttpReport(good + failed, sample.seconds, read, failed, 0, 0, 0, 0, 0.004, 0.01, 0.008)


def install(folder: Path, name: str = "replay", target: str = "pinet_replay:ReplayTool") -> Path:
    """Make a folder for PYTHONPATH with this tool as an installed package that registers it by this name."""
    metadata = folder / f"pinet_{name}-{VERSION}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pinet-{name}\nVersion: {VERSION}\n")
    (metadata / "entry_points.txt").write_text(f"[pytest_pinet.traffic_tools]\n{name} = {target}\n")
    shutil.copyfile(__file__, folder / "pinet_replay.py")
    return folder
