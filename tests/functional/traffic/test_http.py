"""Real nginx and wrk on loopback: results, and no processes or files left in any case."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import Direction, HttpTraffic, Traffic
from pytest_pinet.traffic.http import Http
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.iperf3_ends import group_members
from tests.support.local_shell import LocalShell, RecordingShell
from tests.support.waiting import wait_until

DUT, PEER = "127.0.3.1", "127.0.3.2"
SHORT = HttpTraffic(Direction.TX, streams=4, duration_s=1, size=20_000)
# In memory, so that nothing is written to an SD card.
SHM = Path("/dev/shm")

pytestmark = [
    pytest.mark.skipif(
        not (shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") and shutil.which("wrk")),
        reason="needs nginx and wrk (tools/system-packages)",
    ),
]


class Ends:
    def __init__(self) -> None:
        self.dut, self.peer = RecordingShell("dut-1"), RecordingShell("peer-1")

    def measure(self, traffic: Traffic = SHORT, watch: Callable[[], None] | None = None, **more: object) -> Measurement:
        ports = more.get("ports")
        http = Http(ports) if isinstance(ports, list) else Http()
        return http.measure(TrafficJob(self.dut, self.peer, DUT, PEER, traffic, watch=watch))

    def left_behind(self) -> list[int]:
        return [pid for end in (self.dut, self.peer) for p in end.spawned for pid in group_members(p.pid)]


@pytest.fixture
def ends() -> Iterator[Ends]:
    before = set(SHM.glob("pinet-http-*"))
    ends = Ends()
    yield ends
    # The server's second shell checks once per second.
    wait_until("all processes to end", lambda: not ends.left_behind(), timeout_s=30)
    wait_until("its folder to go", lambda: set(SHM.glob("pinet-http-*")) <= before, timeout_s=30)


def test_goodput_is_the_payload_of_all_answers(ends: Ends) -> None:
    found = ends.measure()
    assert found.http is not None
    assert found.http.troubles == {}
    assert found.http.good > 100
    flow = found.flows[Direction.TX]
    assert sum(sample.bytes for sample in flow.samples) == found.http.good * SHORT.size
    assert flow.seconds == pytest.approx(1.0, rel=0.5)
    assert flow.goodput.bps == pytest.approx(found.http.rate * SHORT.size * 8)
    # Response headers: some 250 bytes each.
    assert 0 < flow.head_bytes < 0.05 * sum(sample.bytes for sample in flow.samples)
    assert flow.sockets is not None
    assert flow.sockets.connections == 4
    assert found.versions["dut"].startswith("nginx")
    assert found.versions["peer"].startswith("wrk")
    assert "requests in" in found.raw["wrk.txt"]


def test_a_line_of_the_loader_is_no_version(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent/libarmmem.so")
    found = ends.measure()
    assert found.versions["dut"].startswith("nginx/")
    assert found.versions["peer"].startswith("wrk ")
    assert "cannot be preloaded" in found.raw["client.err"]


def test_the_peer_serves_what_the_device_under_test_receives(ends: Ends) -> None:
    found = ends.measure(SHORT.towards(Direction.RX))
    assert list(found.flows) == [Direction.RX]
    assert found.versions["peer"].startswith("nginx")
    # One command checks the programs, one starts the server.
    assert len(ends.peer.spawned) >= 2


def test_a_login_with_private_files_can_serve(ends: Ends) -> None:
    # The workers of root's nginx run as another user.
    before = os.umask(0o077)
    try:
        found = ends.measure()
    finally:
        os.umask(before)
    assert found.http is not None
    assert found.http.troubles == {}


def test_a_port_that_is_taken_is_left_for_another(ends: Ends) -> None:
    with socket.create_server((DUT, 0)) as taken, socket.socket() as free:
        free.bind((DUT, 0))
        ports = [taken.getsockname()[1], free.getsockname()[1]]
        free.close()
        for _ in range(2):
            assert ends.measure(ports=ports).http is not None
        with pytest.raises(TrafficError, match=f"all of the ports \\[{ports[0]}\\] are in use on dut-1"):
            ends.measure(ports=ports[:1])


def test_the_error_of_an_end_without_a_tool_names_the_package() -> None:
    bare = LocalShell("pi-1", env={"PATH": "/nonexistent"})
    # The script also searches /usr/sbin.
    missing = "wrk" if Path("/usr/sbin/nginx").exists() else "nginx"
    with pytest.raises(TrafficError, match=f"pi-1 has no {missing}\n  -> on pi-1: install the package {missing}"):
        Http().measure(TrafficJob(bare, bare, DUT, PEER, SHORT))


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        (SHORT.towards(Direction.BIDIR), "direction='bidir': HTTP has one direction; expected 'tx'"),
        (HttpTraffic(Direction.TX, size=10**9), "size=1000000000: expected 1 to 67108864"),
        (HttpTraffic(Direction.TX, streams=0), "connections=0: expected 1 to 10000"),
    ],
)
def test_senseless_traffic_is_refused_before_anything_runs(ends: Ends, traffic: Traffic, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ends.measure(traffic)
    assert ends.dut.spawned == []


def test_a_killed_server_is_reported(ends: Ends) -> None:
    def kill_all() -> None:
        for pid in group_members(ends.dut.spawned[-1].pid, "nginx"):
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(TrafficError, match="the nginx on dut-1 ended during the traffic"):
        ends.measure(HttpTraffic(Direction.TX, streams=2, duration_s=2, size=1000), watch=once(kill_all))


@pytest.mark.parametrize("role", ["dut", "peer"])
def test_killed_processes_leave_nothing_behind(ends: Ends, role: str) -> None:
    """Kill the shell that would clean up."""
    end: RecordingShell = getattr(ends, role)
    kill = once(lambda: os.kill(end.spawned[-1].pid, signal.SIGKILL))
    with pytest.raises(TrafficError):
        ends.measure(HttpTraffic(Direction.TX, streams=2, duration_s=3, size=1000), watch=kill)


def test_whoever_watches_ends_it(ends: Ends) -> None:
    class Panic(Exception):
        pass

    def panic() -> None:
        raise Panic

    with pytest.raises(Panic):
        ends.measure(HttpTraffic(Direction.TX, streams=2, duration_s=20, size=1000), watch=once(panic))


def once(action: Callable[[], object], after_s: float = 0.5) -> Callable[[], None]:
    """Return a callback that acts once, ``after_s`` after its first call."""
    begun: list[float] = []
    done: list[bool] = []

    def watch() -> None:
        begun.append(time.monotonic())
        if not done and begun[-1] - begun[0] > after_s:
            done.append(True)
            action()

    return watch
