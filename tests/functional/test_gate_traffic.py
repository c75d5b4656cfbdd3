"""Traffic other than plain TCP on the default virtual lab: both ways apart, UDP ladders, HTTP, ping, settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gate_bench import GateLab, NewProject

pytestmark = pytest.mark.slow

TEST = """
@pytest.mark.pinet(board="pi3b", nic="onboard", topology="{topology}")
def test_{name}(link, gate):
    found = gate.{call}
    print("FOUND", found)
"""
FAST_ETHERNET = 100e6 * 1448 / 1538
MOST_WINDOW = int(Path("/proc/sys/net/core/wmem_max").read_text())
CUT_WINDOW = MOST_WINDOW * 5 // 4
TOPOLOGIES = {"two_pairs": "pairs:2"}
# All of them in one run.
CALLS = {
    "capped": "tcp(link, 'bidir', streams=2, peer_bitrate='10M', duration=3, min={'tx': '80 Mbit/s', 'rx': '99%'})",
    "two_pairs": "tcp(link, duration=2, min='80 Mbit/s')",
    "ladder": "udp_ladder(link, 'rx', rates=['40M', '120M', '80M', '90M'], duration=1, min='85 Mbit/s')",
    "small_packets": "udp(link, 'rx', bitrate='5M', length=64, duration=1, min='80%')",
    "http": "http(link, size='100K', connections=8, duration=2, min='80 Mbit/s', requests='100/s')",
    "pings": "ping(link, count=5, latency='50 ms', loss='0%')",
    "slow_pings": "ping(link, count=2, latency='0.001 ms')",
    "mss": "tcp(link, mss=8960, duration=1)",
    "cut_window": f"tcp(link, window={CUT_WINDOW}, duration=1)",
    "window": "tcp(link, window='64K', duration=1, min='50 Mbit/s')",
}
MISTAKES = {
    "tcp(link, 'tx', peer_bitrate='10M')": "*peer_bitrate is for both directions at once, direction='bidir'*",
    "http(link, 'bidir')": "*HTTP goes one way; expected 'tx'*",
    "http(link, requests='100')": "*requests='100': expected a number for each second, such as '1200/s'*",
    "ping(link, min='1 Mbit/s')": "*min= limits no ping; expected loss= or latency=*",
    "udp_ladder(link, rates='90M')": "*rates='90M': expected a list of rates*",
}
COMMANDS = {
    "http(link)": ["*$ nginx -c nginx.conf", "*$ wrk -t 1 -c 10 *"],
    "ping(link)": ["*$ LC_ALL=C ping -q -c 10 *"],
    "udp_ladder(link, rates=['10M', '20M'])": ["*-b 10000000*", "*-b 20000000*"],
    "tcp(link, 'bidir', peer_bitrate='10M')": ["*iperf3 -c * -R *", "*iperf3 -c * -R * -b 10000000*"],
}


def text(calls: Mapping[str, str]) -> str:
    """A file with a test for each call, by its name."""
    tests = (TEST.format(name=n, topology=TOPOLOGIES.get(n, "pair"), call=call) for n, call in calls.items())
    return "import pytest\n" + "".join(tests)


@dataclass(frozen=True)
class Run:
    """What one run with all calls printed and measured."""

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
    """Places that are held, and tools that run."""
    return lab.holders() + [name for name in ("nginx", "wrk", "iperf3", "ping") if lab.processes(name)]


def test_nothing_is_left_of_any_tool(run: Run, gate_lab: GateLab) -> None:
    assert left_of(gate_lab) == []


def test_a_capped_peer_and_a_free_device_each_by_a_process_of_its_own(run: Run) -> None:
    result = run.passed("capped")
    assert result["id"] == "pi3b:onboard/pair/tcp-P2-pb10M-bidir"
    # 99% of what was sent, not of the wire.
    assert result["directions"]["rx"]["limit_bps"] == pytest.approx(0.99 * 20e6)
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(20e6, rel=0.05)
    assert result["directions"]["tx"]["goodput_bps"] > 80e6
    (window,) = result["windows"][:1]
    assert window["seconds"] == pytest.approx(3.0, abs=1.1)
    assert result["start_skew_s"] is not None
    sure_s = result["start_skew_s"] + result["start_skew_within_s"]
    assert sure_s <= 0.05 or any("ms apart" in note for note in result["notes"])
    assert {"tx-start.txt", "rx-start.txt"} <= {name.rpartition("/")[2] for name in result["files"]}


def test_several_pairs_tell_how_far_apart_they_began(run: Run) -> None:
    result = run.passed("two_pairs")
    assert result["start_skew_s"] is not None
    assert len(result["windows"]) >= 1
    assert all(flow["sockets"]["mss"] == 1448 for flow in result["flows"])


def test_flows_that_began_too_far_apart_are_sent_once_more_and_that_is_told(
    new_project: NewProject, gate_lab: GateLab
) -> None:
    project = new_project({"test_it.py": text({"it": "tcp(link, 'bidir', opposed=True, duration=1, min='50 Mbit/s')"})})
    # No two flows begin at the very same moment.
    project.write("conftest.py", "from pytest_pinet import runs\n\nruns.SKEW_MAX_S = 0.0\n")
    done = project.pytest()
    (result,) = project.results["results"]
    # What was sent before is on the counters of both switch ports, and explained.
    assert done.ret == 0, result["message"]
    assert result["combination"]["traffic"] == "tcp-P1-opposed-bidir"
    assert result["cables"][0]["node"]["tx_bytes"] > 1.5 * 90e6 / 8 * 2
    # What did not count is kept, and its name says so.
    kept = {name.rpartition("/")[2]: project.path / ".pinet" / "latest" / name for name in result["files"]}
    # As often as there were attempts, which are more than one where their figures lie far apart.
    assert sum(name.endswith("not-counted-tx-client.json") for name in kept) == len(
        result["directions"]["tx"]["attempts"]
    )
    counted, late = (kept[f"{prefix}tx-client.json"].read_text() for prefix in ("", "1-not-counted-"))
    assert json.loads(late)["end"]["sum_received"]["bytes"] > 0
    assert late != counted
    assert left_of(gate_lab) == []


def test_a_ladder_of_rates_ends_where_the_wire_does(run: Run) -> None:
    result = run.passed("ladder")
    ladder = result["ladder"]
    assert ladder["knee_bps"] == 90e6
    assert [step["rate_bps"] for step in ladder["steps"]] == [40e6, 80e6, 90e6, 120e6]
    assert [step["held"] for step in ladder["steps"]] == [True, True, True, False]
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(90e6, rel=0.01)
    run.output.stdout.fnmatch_lines(["FOUND LadderFigures(*knee=Bitrate(bps=90000000.0)*"])


def test_small_packets_take_what_is_around_them(run: Run) -> None:
    result = run.passed("small_packets")
    direction = result["directions"]["rx"]
    # 64 of 64 + 28 + 38 bytes on the wire.
    assert direction["oracle_bps"] == pytest.approx(100e6 * 64 / 130, rel=0.001)
    assert direction["limit_bps"] == pytest.approx(4e6)
    assert direction["goodput_bps"] == pytest.approx(5e6, rel=0.1)


def test_http_fills_the_wire_and_counts_requests(run: Run) -> None:
    result = run.passed("http")
    assert result["id"] == "pi3b:onboard/pair/http-c8-s102400-tx"
    direction = result["directions"]["tx"]
    assert direction["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.05)
    # 100 requests of 102400 bytes are more than 80 Mbit/s.
    assert direction["limit_bps"] == pytest.approx(81.92e6)
    assert "requests='100/s' of the call" in direction["rule"]
    assert result["http"]["requests_per_s"] == pytest.approx(direction["goodput_bps"] / 8 / 102_400)
    assert result["http"]["failed"] == {}
    assert result["versions"]["dut"].startswith("nginx")
    run.output.stdout.fnmatch_lines(["*1?? requests/s of 102400 bytes on 8 connections*"])


def test_too_few_requests_fail_the_test(new_project: NewProject, gate_lab: GateLab) -> None:
    # Half of what the peer's wire carries.
    project = new_project({"test_it.py": text({"it": "http(link, 'rx', duration=1, requests='100/s')"})})
    gate_lab.pinet("degrade", "pi3b-2:onboard", "--rate", "0.5", "--direction", "tx")
    try:
        done = project.pytest()
    finally:
        gate_lab.pinet("restore")
    (result,) = project.results["results"]
    assert (done.ret, result["verdict"]) == (1, "fail")
    assert len(result["directions"]["rx"]["attempts"]) > 1
    done.stdout.fnmatch_lines(["rx 4* Mbit/s is * % below the limit 80.0 Mbit/s*"])
    assert left_of(gate_lab) == []


def test_pings_are_judged_and_have_no_goodput(run: Run) -> None:
    result = run.passed("pings")
    assert result["id"] == "pi3b:onboard/pair/ping-c5-i0.2-s56"
    assert result["directions"] == {}
    assert (result["ping"]["sent"], result["ping"]["received"]) == (5, 5)
    assert 0 < result["ping"]["rtt_min_s"] <= result["ping"]["rtt_mean_s"] <= result["ping"]["rtt_max_s"]
    run.output.stdout.fnmatch_lines(["*5 of 5 pings came back in * ms*"])


def test_slow_pings_fail_the_test_after_a_repeat(run: Run) -> None:
    result = run.results["slow_pings"]
    assert result["verdict"] == "fail"
    assert len(result["ping"]["rounds"]) >= 2
    run.output.stdout.fnmatch_lines(["*round-trip time * is above the limit*"])


def test_an_mss_that_was_not_effective_makes_the_figure_invalid(run: Run) -> None:
    result = run.results["mss"]
    assert result["verdict"] == "invalid"
    # The figure is there, and judged by nobody.
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.02)
    assert len(result["directions"]["tx"]["attempts"]) == 1
    run.output.stdout.fnmatch_lines(["*mss=8960 bytes was asked for, but segments of*"])


def test_a_window_that_was_cut_makes_the_figure_invalid(run: Run) -> None:
    if MOST_WINDOW > 2**28:
        pytest.skip("net.core.wmem_max is too large to exceed")
    result = run.results["cut_window"]
    assert result["verdict"] == "invalid"
    assert list(result["directions"]) == ["tx"]
    run.output.stdout.fnmatch_lines([f"*window={CUT_WINDOW} bytes was not effective on*"])


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
