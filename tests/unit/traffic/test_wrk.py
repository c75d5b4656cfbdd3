"""wrk's command line, and its recorded output (4.1.0) with nginx and without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.model.traffic import Direction, HttpTraffic
from pytest_pinet.traffic.http import HttpRun, parse_wrk, wrk_argv
from tests.support.local_shell import LocalShell

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
    for command in (run.client_command, run.server_command):
        (line,) = (one for one in command.splitlines() if "ulimit" in one)
        start = line.index("ulimit")
        raised = shell.run(
            f"ulimit -S -n 256; {line[start:].partition(';')[0]}; ulimit -n; ulimit -H -n"
        ).stdout.split()
        assert raised[0] == raised[1]
