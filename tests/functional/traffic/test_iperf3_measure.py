"""Real iperf3 over loopback, with this machine as both ends.

The bitrates are far below the machine's capacity, so that these tests may run in parallel with others. Exact values
from recorded outputs are tested in tests/unit/traffic/test_iperf3_recorded.py; here limits allow for a busy machine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_pinet.errors import (
    LinkError,
    SshError,
    TrafficError,
)
from pytest_pinet.execution.shell import Completed
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic import processes
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.iperf3_ends import DUT, PEER, TCP, Ends, group_members
from tests.support.local_shell import RecordingShell
from tests.support.waiting import wait_until

# Interrupted traffic must end in a fraction of this time.
LONG_S = 60
# A busy machine delays the end of traffic of a second. Twice or half of a rate, as of other streams, is wrong.
ROOM = 0.4


def signal_once(ends: Ends, name: str, number: int, after_s: float = 0.4) -> Callable[[float], None]:
    """Return a progress callback that signals this end's iperf3."""
    done: list[int] = []

    def act(elapsed_s: float) -> None:
        if elapsed_s >= after_s and not done:
            done.extend(ends.iperf3(name))
            assert len(done) == 1
            os.kill(done[0], number)

    return act


@pytest.mark.parametrize(("direction", "streams"), [(Direction.TX, 1), (Direction.RX, 2), (Direction.BIDIR, 2)])
def test_tcp(ends: Ends, direction: Direction, streams: int) -> None:
    measurement = ends.measure(replace(TCP, direction=direction, streams=streams))
    assert set(measurement.flows) == set(direction.parts)
    for flow in measurement.flows.values():
        assert flow.goodput.bps == pytest.approx(20e6 * streams, rel=ROOM)
        assert len(flow.streams) == streams
        assert sum(s.bps for s in flow.streams) == pytest.approx(flow.goodput.bps, rel=0.01)
        assert flow.retransmits is not None
        assert len(flow.samples) >= 2
        # The sender's own data.
        assert sum(s.bytes for s in flow.sender_samples) == pytest.approx(streams * 20e6 / 8, rel=ROOM)
        assert flow.rtt_s is not None
        assert 0 < flow.rtt_s < 1
        assert flow.sockets is not None
        assert flow.sockets.connections == streams
        assert flow.sockets.mss > 1000
    assert measurement.versions == {"dut": measurement.versions["dut"], "peer": measurement.versions["dut"]}
    assert measurement.cpu_percent.keys() == {"dut", "peer"}
    assert measurement.notes == ()


@pytest.mark.parametrize(("direction", "ours"), [(Direction.TX, "peer"), (Direction.RX, "dut")])
def test_an_end_reads_after_the_traffic_and_before_its_report(ends: Ends, direction: Direction, ours: str) -> None:
    # This end is the client. The server reads, too, and its report is not mixed up with what was read.
    words = {name: f"echo {name}; pgrep -c -s 0 iperf3; echo trouble >&2" for name in ends.spawned}
    measurement = ends.measure(replace(TCP, direction=direction), at_end=words)
    assert measurement.at_end == {"dut": "dut-1\n0\n", "peer": "peer-1\n0\n"}
    assert measurement.flows[direction].goodput.bps == pytest.approx(20e6, rel=ROOM)
    (text,) = (text for one in ends.spawned[f"{ours}-1"] if '"intervals"' in (text := one.wait(60).stdout))
    assert text.index("pinet: report\n{") > text.index(f"pinet: ended\n{ours}-1\n")


@pytest.mark.parametrize("slow", ["dut-1", "peer-1"])
def test_an_end_that_reads_slowly_after_the_traffic_is_waited_for(ends: Ends, slow: str) -> None:
    words = {name: f"sleep {2.5 if name == slow else 0}; echo {name}" for name in ends.spawned}
    measurement = ends.measure(TCP, at_end=words)
    assert measurement.at_end == {"dut": "dut-1\n", "peer": "peer-1\n"}
    assert measurement.flows[Direction.TX].goodput.bps == pytest.approx(20e6, rel=ROOM)


@pytest.mark.parametrize("direction", list(Direction))
def test_udp(ends: Ends, direction: Direction) -> None:
    measurement = ends.measure(replace(TCP, direction=direction, udp=True, length=1400))
    for flow in measurement.flows.values():
        assert flow.goodput.bps == pytest.approx(20e6, rel=ROOM)
        assert flow.packets is not None
        assert flow.lost_packets is not None
        assert (flow.packets - flow.lost_packets) * 1400 * 8 / flow.seconds == pytest.approx(flow.goodput.bps, rel=0.1)
        assert flow.retransmits is None
        # UDP has no socket data.
        assert flow.sockets is None
        assert flow.rtt_s is None
        assert flow.sender_samples


def test_a_warning_of_iperf3_or_of_the_system_fails_no_run(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent/libarmmem.so")
    # More than the MSS of the control connection, of which iperf3 warns.
    length = 65_500
    measurement = ends.measure(replace(TCP, udp=True, length=length))
    assert measurement.flows[Direction.TX].goodput.bps == pytest.approx(20e6, rel=ROOM)
    assert f"UDP block size {length} exceeds TCP MSS" in measurement.raw["client.err"]
    assert "cannot be preloaded" in measurement.raw["server.err"]


def test_raw_outputs_and_commands_are_kept_and_progress_is_reported(ends: Ends) -> None:
    told: list[float] = []
    raw = ends.measure(replace(TCP, duration_s=2), told.append).raw
    processes = {f"{end}.{kind}" for end in ("client", "server") for kind in ("cmd", "json", "err")}
    # The raw files include the output of ``ss`` during traffic.
    assert set(raw) == processes | {"sender-sockets.txt", "receiver-sockets.txt"}
    client, server = json.loads(raw["client.json"]), json.loads(raw["server.json"])
    assert client["start"]["cookie"] == server["start"]["cookie"]
    assert client["end"]["sender_tcp_congestion"] == "cubic"
    assert f"iperf3 -c {DUT}" in raw["client.cmd"]
    assert raw["client.err"] == raw["server.err"] == ""
    # Twice per second if the machine is not busy.
    assert 1 <= len(set(told)) <= 5
    assert told == sorted(told)


def test_the_sender_gets_the_settings_although_the_receiver_asks(ends: Ends) -> None:
    traffic = replace(TCP, congestion="reno", window=65536, mss=1000)
    server = json.loads(ends.measure(traffic).raw["server.json"])
    assert server["end"]["sender_tcp_congestion"] == "reno"
    assert server["start"]["sndbuf_actual"] == 2 * 65536
    assert server["intervals"][0]["sum"]["sender"] is True


def test_the_warmup_is_flagged_and_traffic_takes_both(ends: Ends) -> None:
    flow = ends.measure(replace(TCP, warmup_s=1)).flows[Direction.TX]
    warmups = [s.warmup for s in flow.samples]
    # The warm-up samples come first, then the counted ones.
    assert warmups == sorted(warmups, reverse=True)
    counted_s = sum(s.seconds for s in flow.samples if not s.warmup)
    assert flow.seconds == pytest.approx(counted_s)
    assert flow.seconds == pytest.approx(1, abs=ROOM)
    assert sum(s.seconds for s in flow.samples) == pytest.approx(2, abs=ROOM)


def test_a_detected_warmup_is_short_and_the_counted_time_is_as_requested(ends: Ends) -> None:
    measurement = ends.measure(replace(TCP, direction=Direction.BIDIR, warmup_s=None))
    assert "-t 2 " in measurement.raw["client.cmd"]
    assert len(measurement.flows) == 2
    for flow in measurement.flows.values():
        assert flow.seconds >= 0.95
        assert sum(s.seconds for s in flow.samples) == pytest.approx(2, abs=ROOM)
        assert flow.goodput.bps == pytest.approx(20e6, rel=ROOM)


def test_two_at_once_do_not_meet(ends: Ends) -> None:
    iperf3, found = Iperf3(), {}
    # Rates so different that noise cannot confuse them.
    rates = (5e6, 10e6, 20e6)

    def run(rate: float) -> None:
        traffic = replace(TCP, bitrate=Bitrate(rate))
        found[rate] = (
            iperf3.measure(TrafficJob(ends.dut, ends.peer, DUT, PEER, traffic)).flows[Direction.TX].goodput.bps
        )

    threads = [threading.Thread(target=run, args=(rate,)) for rate in rates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[rate] for rate in rates] == pytest.approx(rates, rel=ROOM)


def test_a_taken_port_is_left_alone(ends: Ends) -> None:
    with socket.socket() as stranger, socket.socket() as other:
        stranger.bind((DUT, 0))
        stranger.listen()
        taken = stranger.getsockname()[1]
        other.bind((DUT, 0))
        free = other.getsockname()[1]
        other.close()
        assert f" -p {free} " in ends.measure(TCP, ports=[taken, free]).raw["client.cmd"]
        with pytest.raises(TrafficError, match=rf"all of the ports \[{taken}\] are in use on dut-1"):
            ends.measure(TCP, ports=[taken])


@pytest.mark.parametrize("direction", [Direction.TX, Direction.RX])
def test_an_address_that_is_not_there_names_the_end(ends: Ends, direction: Direction) -> None:
    traffic = replace(TCP, direction=direction)
    with pytest.raises(LinkError, match="peer-1 does not have the address that its iperf3 must use"):
        ends.measure(traffic, peer_address="192.0.2.1")
    with pytest.raises(LinkError, match="dut-1 does not have the address that its iperf3 must use"):
        ends.measure(traffic, dut_address="192.0.2.1")


@pytest.mark.parametrize(
    ("direction", "name", "role"),
    [(Direction.TX, "dut-1", "server"), (Direction.RX, "peer-1", "server"), (Direction.RX, "dut-1", "client")],
)
def test_a_killed_end_is_named_at_once(ends: Ends, direction: Direction, name: str, role: str) -> None:
    start = time.monotonic()
    with pytest.raises(TrafficError, match=rf"the iperf3 {role} on {name} was killed \(SIGKILL\)") as caught:
        ends.measure(replace(TCP, direction=direction, duration_s=LONG_S), signal_once(ends, name, 9))
    assert time.monotonic() - start < LONG_S / 2
    assert "exit status 137" in caught.value.evidence


@pytest.mark.parametrize("name", ["dut-1", "peer-1"])
def test_a_terminated_end_is_named(ends: Ends, name: str) -> None:
    # 3.12 exits 0 here, with a sum of 150 % of the link.
    with pytest.raises(
        TrafficError, match=rf"on {name} (was interrupted|ended during the traffic: it was terminated|was killed)"
    ):
        ends.measure(replace(TCP, duration_s=LONG_S), signal_once(ends, name, 15))


@pytest.mark.parametrize("name", ["dut-1", "peer-1"])
def test_a_stopped_iperf3_is_reported_within_its_grace(ends: Ends, name: str) -> None:
    with pytest.raises(TrafficError) as caught:
        ends.measure(replace(TCP, duration_s=2), signal_once(ends, name, 19), grace_s=1)
    assert "iperf3 still runs 1 s after the traffic should have ended, though both ends answer" in str(caught.value)
    assert f"{name}: State: T (stopped)" in str(caught.value)


class _Freezing(RecordingShell):
    """An end that stops answering after its first process, like a node that hangs."""

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return super().run(f"sleep 60; {command}" if self.spawned else command, timeout_s)


@pytest.mark.parametrize("name", ["dut-1", "peer-1"])
def test_a_frozen_end_is_named(ends: Ends, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SIGN_OF_LIFE_S", 0.5)
    monkeypatch.setattr(processes, "ANSWER_S", 0.5)
    frozen = _Freezing(name)
    ends.dut, ends.peer = (frozen, ends.peer) if name == "dut-1" else (ends.dut, frozen)
    start = time.monotonic()
    with pytest.raises(
        SshError, match=rf"{name} does not answer any more, \d+ s after the start of {LONG_S} s of traffic"
    ) as caught:
        ends.measure(replace(TCP, duration_s=LONG_S))
    # We stopped both processes. They reported the traffic until then.
    assert "received (Mbit/s) from 0.0 s on, every 0.1 s: " in "".join(caught.value.__notes__)
    assert time.monotonic() - start < LONG_S / 2


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_nothing_behind(ends: Ends, interruption: type[BaseException]) -> None:
    def interrupt(elapsed_s: float) -> None:
        assert ends.iperf3("dut-1")
        assert ends.iperf3("peer-1")
        raise interruption

    start = time.monotonic()
    with pytest.raises(interruption):
        ends.measure(replace(TCP, duration_s=LONG_S), interrupt)
    assert time.monotonic() - start < LONG_S / 2
    assert ends.left_behind() == []


SCRIPT = f"""
import sys
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.local_shell import LocalShell

class Telling(LocalShell):
    def spawn(self, command):
        process = super().spawn(command)
        print(process.pid, flush=True)
        return process

traffic = Traffic(Direction.TX, duration_s=float(sys.argv[1]), warmup_s=0, bitrate=Bitrate(20e6))
ends = Telling("a"), Telling("b"), "{DUT}", "{PEER}"
Iperf3().measure(TrafficJob(*ends, traffic, on_progress=lambda s: print("traffic", flush=True)))
"""


@pytest.mark.parametrize(("number", "traffic_s"), [(signal.SIGINT, LONG_S), (signal.SIGKILL, 2)])
def test_a_runner_that_is_killed_leaves_nothing_behind(number: int, traffic_s: int) -> None:
    # SIGKILL allows no clean-up: traffic ends by itself, and a hanging process after its lifetime.
    argv = [sys.executable, "-c", SCRIPT, str(traffic_s)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        groups = []
        while (line := runner.stdout.readline()) != b"traffic\n":
            groups.append(int(line))
        # Version queries, iperf3, and for short traffic socket queries.
        assert len(groups) >= 4
        assert any(group_members(group, "iperf3") for group in groups)
        runner.send_signal(number)
        runner.communicate(timeout=LONG_S / 2)
    wait_until("all processes to end", lambda: not any(map(group_members, groups)), timeout_s=LONG_S / 2)
