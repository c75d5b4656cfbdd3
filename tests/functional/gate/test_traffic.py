"""Traffic other than plain TCP on the default virtual lab: bidirectional, UDP ladders, HTTP, ping, settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate_project import SCALE, GateLab, NewProject

TEST = """
@pytest.mark.pinet(board="{board}", nic="onboard", topology="{topology}")
def test_{name}(link, gate):
    found = gate.{call}
    print("FOUND", found)
"""
FAST_ETHERNET = 100e6 * 1448 / 1538
MOST_WINDOW = int(Path("/proc/sys/net/core/wmem_max").read_text())
CUT_WINDOW = MOST_WINDOW * 5 // 4
GIGABIT = 1e9 * 1448 / 1538
TOPOLOGIES = {"two_pairs": "pairs:2"}
# On slow links a file takes too long to count whole files.
BOARDS = {"http": "pi4b"}
# All calls, which run in one process.
CALLS = {
    "capped": "tcp(link, 'bidir', streams=2, peer_bitrate='10M', duration=2, min={'tx': '30 Mbit/s', 'rx': '80%'})",
    "two_pairs": "tcp(link, duration=1, min='40 Mbit/s')",
    "ladder": "udp_ladder(link, 'rx', rates=['20M', '300M', '60M', '40M'], duration=1, min='30 Mbit/s')",
    "small_packets": "udp(link, 'rx', bitrate='5M', length=64, duration=1, min='50%')",
    "http": "http(link, size='100K', connections=8, duration=2, min='400 Mbit/s', requests='500/s')",
    "pings": "ping(link, count=5, latency='2 s', loss='0%')",
    "slow_pings": "ping(link, count=2, latency='0.001 ms')",
    "mss": "tcp(link, mss=8960, duration=1)",
    "cut_window": f"tcp(link, window={CUT_WINDOW}, duration=1)",
    "window": "tcp(link, window='64K', duration=1, min='30 Mbit/s')",
}
MISTAKES = {
    "tcp(link, 'tx', peer_bitrate='10M')": "*peer_bitrate needs both directions at once (direction='bidir')*",
    "http(link, 'bidir')": "*HTTP has one direction; expected 'tx'*",
    "http(link, requests='100')": "*requests='100': expected a number for each second, such as '1200/s'*",
    "ping(link, min='1 Mbit/s')": "*ping: it has no limit min=; expected loss=, latency=, tolerance=*",
    "udp_ladder(link, rates='90M')": "*rates='90M': expected a list of rates*",
}
COMMANDS = {
    "http(link)": ["*$ nginx -c nginx.conf", "*$ wrk -t 1 -c 10 *"],
    "ping(link)": ["*ping-c10-i0.2-s56, 3 times 2 s*"],
    "udp_ladder(link, rates=['10M', '20M'])": ["*-b 10000000*", "*-b 20000000*"],
    "tcp(link, 'bidir', peer_bitrate='10M')": ["*iperf3 -c * -R *", "*iperf3 -c * -R * -b 10000000*"],
}


def text(calls: Mapping[str, str]) -> str:
    """Return a test file with one test per call, named after it."""
    tests = (
        TEST.format(name=n, board=BOARDS.get(n, "pi3b"), topology=TOPOLOGIES.get(n, "pair"), call=call)
        for n, call in calls.items()
    )
    return "import pytest\n" + "".join(tests)


@dataclass(frozen=True)
class Run:
    """The output and results of one run with all calls."""

    output: pytest.RunResult
    results: dict[str, dict[str, Any]]

    def passed(self, name: str) -> dict[str, Any]:
        result = self.results[name]
        assert result["verdict"] in ("pass", "marginal"), result["message"]
        return result


@pytest.fixture(scope="module")
def run(new_project: NewProject) -> Run:
    project = new_project({"test_it.py": text(CALLS)})
    output = project.pytest("-rP", timeout_s=400)
    found = project.results["results"]
    return Run(output, {result["test"].partition("::test_")[2].partition("[")[0]: result for result in found})


def left_of(lab: GateLab) -> list[str]:
    """Return the acquired places and the running tools."""
    return lab.holders() + [name for name in ("nginx", "wrk", "iperf3", "ping") if lab.processes(name)]


@pytest.mark.slow
def test_nothing_is_left_of_any_tool(run: Run, gate_lab: GateLab) -> None:
    assert left_of(gate_lab) == []


@pytest.mark.slow
def test_a_capped_peer_and_a_free_device_each_by_a_process_of_its_own(run: Run) -> None:
    result = run.passed("capped")
    assert result["id"] == "pi3b:onboard/pair/tcp-P2-pb10M-bidir"
    # 80 % of the sent rate, not of the wire.
    assert result["directions"]["rx"]["limit"]["number"] == pytest.approx(0.8 * 20e6)
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(20e6, rel=0.2)
    assert result["directions"]["tx"]["goodput_bps"] > 2 * result["directions"]["rx"]["goodput_bps"]
    assert result["windows"][0]["seconds"] > 0
    assert result["start_skew_s"] is not None
    sure_s = result["start_skew_s"] + result["start_skew_within_s"]
    assert sure_s <= 0.05 or any("ms apart" in note for note in result["notes"])
    assert {"tx-start.txt", "rx-start.txt"} <= {name.rpartition("/")[2] for name in result["files"]}


@pytest.mark.slow
def test_several_pairs_tell_how_far_apart_they_began(run: Run) -> None:
    result = run.passed("two_pairs")
    assert result["start_skew_s"] is not None
    assert len(result["windows"]) >= 1
    assert all(flow["sockets"]["mss"] == 1448 for flow in result["flows"])


@pytest.mark.slow
def test_flows_that_began_too_far_apart_are_sent_once_more_and_that_is_told(
    new_project: NewProject, gate_lab: GateLab
) -> None:
    project = new_project({"test_it.py": text({"it": "tcp(link, 'bidir', opposed=True, duration=1, min='30 Mbit/s')"})})
    # No two flows begin at exactly the same moment.
    project.write("conftest.py", "from pytest_pinet.measure import traffic_runner\n\ntraffic_runner.SKEW_MAX_S = 0.0\n")
    done = project.pytest()
    (result,) = project.results["results"]
    # The counters of both switch ports include the earlier traffic, and the message explains it.
    assert done.ret == 0, result["message"]
    assert result["combination"]["traffic"] == "tcp-P1-opposed-bidir"
    counted_bytes = SCALE * sum(
        sample["bytes"] for one in result["directions"]["tx"]["connections"] for sample in one["samples"]
    )
    assert result["cables"][0]["node"]["tx_bytes"] > 1.3 * counted_bytes
    # Files of connections that did not count are kept, with names that say so.
    kept = {name.rpartition("/")[2]: project.path / ".pinet" / "latest" / name for name in result["files"]}
    # One per attempt. There are several if their values differ much.
    assert sum(name.endswith("not-counted-tx-client.json") for name in kept) == len(
        result["directions"]["tx"]["connections"]
    )
    counted, late = (kept[f"{prefix}tx-client.json"].read_text() for prefix in ("", "1-not-counted-"))
    assert json.loads(late)["end"]["sum_received"]["bytes"] > 0
    assert late != counted
    assert left_of(gate_lab) == []


@pytest.mark.slow
def test_a_ladder_of_rates_ends_where_the_wire_does(run: Run) -> None:
    result = run.passed("ladder")
    ladder = result["ladder"]
    assert ladder["knee_bps"] == 60e6
    assert [step["rate_bps"] for step in ladder["steps"]] == [20e6, 40e6, 60e6, 300e6]
    assert [step["held"] for step in ladder["steps"]] == [True, True, True, False]
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(60e6, rel=0.1)
    run.output.stdout.fnmatch_lines(["FOUND LadderResult(*knee=Bitrate(bps=60000000.0)*"])


@pytest.mark.slow
def test_small_packets_take_what_is_around_them(run: Run) -> None:
    result = run.passed("small_packets")
    direction = result["directions"]["rx"]
    # 64 of 64 + 28 + 38 bytes on the wire.
    assert direction["oracle_bps"] == pytest.approx(100e6 * 64 / 130, rel=0.001)
    assert direction["limit"]["number"] == pytest.approx(2.5e6)
    assert direction["goodput_bps"] == pytest.approx(5e6, rel=0.2)


@pytest.mark.slow
def test_http_counts_requests(run: Run) -> None:
    result = run.passed("http")
    assert result["id"] == "pi4b:onboard/pair/http-c8-s102400-tx"
    direction = result["directions"]["tx"]
    # 500 requests of 102400 bytes are more than 400 Mbit/s.
    assert direction["limit"]["number"] == pytest.approx(409.6e6)
    assert "requests='500/s' of the call" in direction["limit"]["source"]
    assert direction["limit"]["number"] < direction["goodput_bps"] < 1.005 * GIGABIT
    assert result["http"]["requests_per_s"] == pytest.approx(direction["goodput_bps"] / 8 / 102_400)
    assert result["http"]["failed"] == {}
    assert result["versions"]["dut"].startswith("nginx")
    run.output.stdout.fnmatch_lines(["* requests/s of 102400 bytes on 8 connections*"])


@pytest.mark.slow
def test_pings_are_judged_and_have_no_goodput(run: Run) -> None:
    result = run.passed("pings")
    assert result["id"] == "pi3b:onboard/pair/ping-c5-i0.2-s56"
    assert result["directions"] == {}
    figures = result["figures"]
    # No loss takes three clean series.
    assert figures["loss"]["values"] == [0.0, 0.0, 0.0]
    assert 0 < figures["rtt_min"]["value"] <= figures["latency"]["value"] <= figures["rtt_max"]["value"]
    run.output.stdout.fnmatch_lines(["*loss 0% (limit 0%), latency * (limit 2 s)*"])


@pytest.mark.slow
def test_slow_pings_fail_the_test_after_a_repeat(run: Run) -> None:
    result = run.results["slow_pings"]
    assert result["verdict"] == "fail"
    assert len(result["figures"]["latency"]["values"]) >= 2
    assert "above the limit" in result["message"]


@pytest.mark.slow
def test_an_mss_that_was_not_effective_makes_the_figure_invalid(run: Run) -> None:
    result = run.results["mss"]
    assert result["verdict"] == "invalid"
    # The value exists, but no rule judges it.
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.3)
    assert len(result["directions"]["tx"]["connections"]) == 1
    run.output.stdout.fnmatch_lines(["*mss=8960 bytes was requested, but segments of*"])


@pytest.mark.slow
def test_a_window_that_was_cut_makes_the_figure_invalid(run: Run) -> None:
    if MOST_WINDOW > 2**28:
        pytest.skip("net.core.wmem_max is too large to exceed")
    result = run.results["cut_window"]
    assert result["verdict"] == "invalid"
    assert list(result["directions"]) == ["tx"]
    run.output.stdout.fnmatch_lines([f"*window={CUT_WINDOW} bytes was not effective on*"])


@pytest.mark.slow
def test_an_effective_window_is_recorded_with_its_buffers(run: Run) -> None:
    result = run.passed("window")
    sockets = result["directions"]["tx"]["sockets"]
    assert (sockets["sndbuf_bytes"], sockets["rcvbuf_bytes"]) == (131_072, 131_072)
    assert sockets["mss"] == 1448


def dry_run(new_project: NewProject, calls: Mapping[str, object]) -> pytest.RunResult:
    project = new_project({"test_it.py": text({f"it{n}": call for n, call in enumerate(calls)})})
    return project.pytest("--pinet-dry-run")


def test_mistakes_are_one_sentence_each(new_project: NewProject) -> None:
    done = dry_run(new_project, MISTAKES)
    assert done.ret == 1
    for told in MISTAKES.values():
        done.stdout.fnmatch_lines([told])


def test_a_dry_run_tells_the_commands(new_project: NewProject) -> None:
    done = dry_run(new_project, COMMANDS)
    assert done.ret == 0
    for lines in COMMANDS.values():
        done.stdout.fnmatch_lines(lines)
