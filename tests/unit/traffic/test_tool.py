"""Traffic tools are entry points: our own, other packages', and the errors of unusable ones."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError, KernelError, TrafficError
from pytest_pinet.measure.ping import Pings
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Direction, HttpTraffic, Ping, PingReport
from pytest_pinet.traffic.http import Http, HttpRun, parse_wrk, wrk_argv
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.ping import argv, measure, parse, validate
from pytest_pinet.traffic.tool import make_tool
from tests.support import replay_tool
from tests.support.local_shell import LocalShell

LAB = Lab("bench", "bench.yaml", {}, {})
MODULE = """
import no_such_module_at_all
"""
OTHERS = """
text = "no tool"
class Half:
    def __init__(self, lab): pass
    def prepare(self, job): pass
def broken(lab): raise RuntimeError("no licence")
def no_argument(): pass
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of installed packages on Python's path."""
    (tmp_path / "tools_no_import.py").write_text(MODULE)
    (tmp_path / "tools_others.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_our_own_tools_are_registered_as_any_other() -> None:
    assert isinstance(make_tool("iperf3", LAB), Iperf3)
    assert isinstance(make_tool("wrk", LAB), Http)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("tools_no_import:Tool", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("tools_others:Missing", "cannot be imported: AttributeError: module 'tools_others' has no attribute 'Mis"),
        ("tools_others:text", "is not callable; expected a callable that takes the lab and returns a traffic tool"),
        ("tools_others:broken", "cannot be made: RuntimeError: no licence"),
        ("tools_others:no_argument", "cannot be made: TypeError: no_argument() takes 0 positional arguments but 1 was"),
        ("tools_others:Half", "is not a traffic tool: Half has no method 'measure'"),
    ],
)
def test_a_tool_that_cannot_be_used_is_one_sentence(installed: Path, target: str, says: str) -> None:
    replay_tool.install(installed, "odd", target)
    with pytest.raises(ConfigError) as caught:
        make_tool("odd", LAB)
    assert str(caught.value).startswith(f"traffic tool 'odd' of package pinet-odd 1.0 {says}")
    assert "\n" not in str(caught.value)


def test_the_error_of_an_unknown_name_suggests_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"^unknown traffic tool 'ipref3', did you mean 'iperf3'\?"):
        make_tool("ipref3", LAB)


def test_a_name_that_two_packages_register_is_refused(installed: Path) -> None:
    replay_tool.install(installed, "iperf3", "tools_others:Half")
    with pytest.raises(ConfigError, match=r"^traffic tool 'iperf3' is in package pinet-iperf3 1\.0 and in package pyt"):
        make_tool("iperf3", LAB)


DATA = Path(__file__).parents[2] / "data" / "wrk"


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def test_a_good_run_is_read_exactly() -> None:
    found = parse_wrk(recorded("good"))
    assert found.requests == found.good == 38490
    # wrk prints "2.01s": its rate has more digits.
    assert found.seconds == pytest.approx(38490 / 19177.35)
    assert found.rate == pytest.approx(19177.35)
    assert found.read_bytes == pytest.approx(3.59 * 2**30)
    assert found.latency_mean_s == pytest.approx(689.04e-6)
    assert found.latency_max_s == pytest.approx(16.72e-3)
    assert found.latency_p99_s == pytest.approx(5.74e-3)
    assert found.troubles == {}


def test_answers_other_than_2xx_are_not_counted() -> None:
    found = parse_wrk(recorded("not-found"))
    assert (found.requests, found.good) == (28438, 0)
    assert found.rate == 0
    assert found.troubles == {"not answered with 2xx": 28438}


def test_errors_of_sockets_are_counted_by_kind() -> None:
    assert parse_wrk(recorded("server-died")).troubles == {"failed to read": 8, "failed to write": 94173}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (recorded("refused"), "it has no line N requests in"),
        ("", "it has no line N requests in"),
        ("  5 requests in 1.00s, 1.00MB read\n", "it has no line Requests/sec"),
        ("  0 requests in 1.00s, 0.00B read\nRequests/sec:      0.00\n", "no request was answered"),
    ],
)
def test_output_without_a_run_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_wrk(text)


@pytest.mark.parametrize(("connections", "cores", "threads"), [(10, 4, "4"), (2, 4, "2"), (1, 0, "1")])
def test_each_thread_has_a_connection_and_a_core(connections: int, cores: int, threads: str) -> None:
    words = wrk_argv(HttpTraffic(Direction.TX, streams=connections, duration_s=3), "http://10.0.0.1:80/data", cores)
    assert words[:7] == ["wrk", "-t", threads, "-c", str(connections), "-d", "3s"]
    # A request may take as long as the run: a slow link is no error.
    assert words[words.index("--timeout") + 1] == "8s"


def test_both_ends_may_open_as_many_files_as_they_are_allowed() -> None:
    shell = LocalShell()
    run = HttpRun(HttpTraffic(Direction.TX, streams=5000), "10.0.0.1", 20_000, shell, shell, 4, "")
    for program in (run.client_command, run.server_command):
        (line,) = (one for one in program.splitlines() if "ulimit" in one)
        start = line.index("ulimit")
        raised = shell.run(
            f"ulimit -S -n 256; {line[start:].partition(';')[0]}; ulimit -n; ulimit -H -n"
        ).stdout.split()
        assert raised[0] == raised[1]


PING_DATA = Path(__file__).parents[2] / "data" / "ping"


def recorded_ping(name: str) -> PingReport:
    return parse((PING_DATA / f"{name}.txt").read_text())


def test_iputils_tells_four_times() -> None:
    found = recorded_ping("iputils")
    assert (found.sent, found.received) == (3, 3)
    assert (found.min_s, found.mean_s, found.max_s, found.mdev_s) == pytest.approx((19e-6, 24e-6, 27e-6, 3e-6))


def test_busybox_reports_no_deviation() -> None:
    found = recorded_ping("busybox")
    assert (found.sent, found.received) == (2, 2)
    assert (found.min_s, found.mean_s, found.max_s) == pytest.approx((27e-6, 36e-6, 46e-6))
    assert found.mdev_s is None


@pytest.mark.parametrize(("name", "sent"), [("iputils-unreachable", 1), ("busybox-unanswered", 2)])
def test_without_answers_there_are_no_times(name: str, sent: int) -> None:
    found = recorded_ping(name)
    assert found == PingReport(sent, 0)
    assert found.loss == 1


def test_loss_is_relative_to_the_sent_packets() -> None:
    found = recorded_ping("iputils-lossy")
    assert found.sent > found.received > 0
    assert found.loss == pytest.approx(1 - found.received / found.sent)
    assert found.mean_s is not None


def test_text_without_counts_is_refused() -> None:
    with pytest.raises(ValueError, match="packets transmitted"):
        parse("ping: connect: Network is unreachable")


def test_answers_without_times_are_refused() -> None:
    with pytest.raises(ValueError, match="min/avg/max"):
        parse("2 packets transmitted, 2 received, 0% packet loss, time 1ms\n")


def test_the_command_is_one_that_both_take() -> None:
    line = " ".join(argv(Ping(10, 0.2, 1400), "10.0.0.1", "10.0.0.2"))
    assert line == "ping -q -c 10 -i 0.2 -s 1400 -W 2 -I 10.0.0.1 10.0.0.2"


@pytest.mark.parametrize(
    ("ping", "message"),
    [
        (Ping(count=0), "count=0: expected 1 to 100000"),
        (Ping(size=70_000), "size=70000: expected 16 to 65507 bytes"),
        (Ping(size=8), "size=8: expected 16 to 65507 bytes"),
        (Ping(size="56"), "size='56': expected 16 to 65507 bytes"),  # type: ignore[arg-type]  # as a test may write it
        (Ping(interval_s=0.0), "interval=0 s: expected 0.002 to 60 s"),
    ],
)
def test_senseless_values_are_refused(ping: Ping, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        validate(ping)


def test_the_runner_answers_itself() -> None:
    report, text = measure(LocalShell("pi-1"), Ping(3, 0.05), "127.0.0.1", "127.0.0.1", "pi-2:onboard")
    assert (report.sent, report.received) == (3, 3)
    assert report.mean_s is not None
    assert 0 < report.mean_s < 0.1
    assert "3 packets transmitted" in text


def test_the_error_of_an_end_without_ping_names_the_package() -> None:
    shell = LocalShell("pi-1", env={"PATH": "/nonexistent"})
    with pytest.raises(TrafficError, match="pi-1 has no ping\n  -> on pi-1: install the package iputils-ping"):
        measure(shell, Ping(1), "127.0.0.1", "127.0.0.1", "pi-2:onboard")


def test_no_ping_is_left_behind_when_the_wait_for_it_ends(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    (tmp_path / "ping").write_text(f"#!/bin/sh\necho $$ >{told}.new; mv {told}.new {told}; exec sleep 60\n")
    (tmp_path / "ping").chmod(0o755)

    def panicked() -> None:
        if told.exists():
            raise KernelError("pi-1 panicked")

    shell = LocalShell("pi-1", env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with pytest.raises(KernelError):
        measure(shell, Ping(100), "127.0.0.1", "127.0.0.1", "pi-2:onboard", panicked)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_pings_by_a_slow_clock_may_take_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ping").write_text(
        '#!/bin/sh\nsleep 2\necho "1 packets transmitted, 1 received"; echo "min/avg/max = 1/1/1 ms"\n'
    )
    (tmp_path / "ping").chmod(0o755)
    monkeypatch.setattr("pytest_pinet.traffic.ping.GRACE_S", 0.0)
    monkeypatch.setattr("pytest_pinet.traffic.ping.PATIENCE_S", 0)
    shell = LocalShell("pi-1", env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with pytest.raises(TrafficError, match="ping on pi-1 still runs after 0 s"):
        measure(shell, Ping(1, 0.2), "127.0.0.1", "127.0.0.1", "pi-2:onboard")
    report, _ = measure(shell, Ping(1, 0.2), "127.0.0.1", "127.0.0.1", "pi-2:onboard", patience=1000)
    assert report.received == 1


def test_silence_is_the_links_trouble() -> None:
    # 192.0.2.0/24 is for documentation (RFC 5737): no interface has the source address.
    with pytest.raises(TrafficError, match=r"ping on pi-1 failed|no answer from pi-2:onboard"):
        measure(LocalShell("pi-1"), Ping(1), "192.0.2.1", "192.0.2.2", "pi-2:onboard")


def test_the_key_names_what_was_sent() -> None:
    assert Pings().key == "ping-c10-i0.2-s56"
    assert Pings(Ping(interval_s=1)).seconds == 10
