"""Traffic other than plain TCP on the default virtual lab: both ways apart, UDP ladders, HTTP, ping, settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gate_bench import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

TEST = """\
import pytest

@pytest.mark.pinet(board="{board}", nic="onboard", topology="{topology}")
def test_it(link, gate):
    found = gate.{call}
    print("FOUND", found)
"""
FAST_ETHERNET = 100e6 * 1448 / 1538


def run(
    new_project: NewProject, call: str, board: str = "pi3b", topology: str = "pair", status: int = 0
) -> tuple[Project, pytest.RunResult, dict[str, Any]]:
    project = new_project({"test_it.py": TEST.format(board=board, topology=topology, call=call)})
    done = project.pytest("-rP")
    (result,) = project.results["results"]
    assert done.ret == status, result["message"]
    return project, done, result


def assert_left_clean(lab: GateLab) -> None:
    assert lab.holders() == []
    for name in ("nginx", "wrk", "iperf3", "ping"):
        assert lab.processes(name) == []


def test_a_capped_peer_and_a_free_device_each_by_a_process_of_its_own(
    new_project: NewProject, gate_lab: GateLab
) -> None:
    call = "tcp(link, 'bidir', streams=2, peer_bitrate='10M', duration=3, min={'tx': '80 Mbit/s', 'rx': '99%'})"
    _, _, result = run(new_project, call)
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
    assert_left_clean(gate_lab)


def test_several_pairs_tell_how_far_apart_they_began(new_project: NewProject, gate_lab: GateLab) -> None:
    _, _, result = run(new_project, "tcp(link, duration=2, min='80 Mbit/s')", topology="pairs:2")
    assert result["start_skew_s"] is not None
    assert len(result["windows"]) >= 1
    assert all(flow["sockets"]["mss"] == 1448 for flow in result["flows"])
    assert_left_clean(gate_lab)


def test_flows_that_began_too_far_apart_are_sent_once_more_and_that_is_told(
    new_project: NewProject, gate_lab: GateLab
) -> None:
    call = "tcp(link, 'bidir', opposed=True, duration=1, min='50 Mbit/s')"
    project = new_project({"test_it.py": TEST.format(board="pi3b", topology="pair", call=call)})
    # No two flows begin at the very same moment.
    project.write("conftest.py", "from pytest_pinet import runs\n\nruns.SKEW_MAX_S = 0.0\n")
    done = project.pytest()
    (result,) = project.results["results"]
    # What was sent before is on the counters of both switch ports, and explained.
    assert done.ret == 0, result["message"]
    assert len(result["directions"]["tx"]["attempts"]) == 1
    assert result["combination"]["traffic"] == "tcp-P1-opposed-bidir"
    assert result["cables"][0]["node"]["tx_bytes"] > 1.5 * 90e6 / 8 * 2
    # What did not count is kept, and its name says so.
    kept = {name.rpartition("/")[2]: project.path / ".pinet" / "latest" / name for name in result["files"]}
    counted, late = (kept[f"{prefix}tx-client.json"].read_text() for prefix in ("", "1-not-counted-"))
    assert json.loads(late)["end"]["sum_received"]["bytes"] > 0
    assert late != counted
    assert_left_clean(gate_lab)


def test_a_ladder_of_rates_ends_where_the_wire_does(new_project: NewProject, gate_lab: GateLab) -> None:
    call = "udp_ladder(link, 'rx', rates=['40M', '120M', '80M', '90M'], duration=1, min='85 Mbit/s')"
    _, done, result = run(new_project, call)
    ladder = result["ladder"]
    assert ladder["knee_bps"] == 90e6
    assert [step["rate_bps"] for step in ladder["steps"]] == [40e6, 80e6, 90e6, 120e6]
    assert [step["held"] for step in ladder["steps"]] == [True, True, True, False]
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(90e6, rel=0.01)
    done.stdout.fnmatch_lines(["FOUND LadderFigures(*knee=Bitrate(bps=90000000.0)*"])
    assert_left_clean(gate_lab)


def test_small_packets_take_what_is_around_them(new_project: NewProject) -> None:
    call = "udp(link, 'rx', bitrate='5M', length=64, duration=1, min='80%')"
    _, _, result = run(new_project, call)
    direction = result["directions"]["rx"]
    # 64 of 64 + 28 + 38 bytes on the wire.
    assert direction["oracle_bps"] == pytest.approx(100e6 * 64 / 130, rel=0.001)
    assert direction["limit_bps"] == pytest.approx(4e6)
    assert direction["goodput_bps"] == pytest.approx(5e6, rel=0.1)


def test_http_fills_the_wire_and_counts_requests(new_project: NewProject, gate_lab: GateLab) -> None:
    call = "http(link, size='100K', connections=8, duration=2, min='80 Mbit/s', requests='100/s')"
    _, done, result = run(new_project, call)
    assert result["id"] == "pi3b:onboard/pair/http-c8-s102400-tx"
    direction = result["directions"]["tx"]
    assert direction["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.05)
    # 100 requests of 102400 bytes are more than 80 Mbit/s.
    assert direction["limit_bps"] == pytest.approx(81.92e6)
    assert "requests='100/s' of the call" in direction["rule"]
    assert result["http"]["requests_per_s"] == pytest.approx(direction["goodput_bps"] / 8 / 102_400)
    assert result["http"]["failed"] == {}
    assert result["versions"]["dut"].startswith("nginx")
    done.stdout.fnmatch_lines(["*1?? requests/s of 102400 bytes on 8 connections*"])
    assert_left_clean(gate_lab)


def test_too_few_requests_fail_the_test(new_project: NewProject, gate_lab: GateLab) -> None:
    # Half of what the peer's wire carries.
    gate_lab.pinet("degrade", "pi3b-2:onboard", "--rate", "0.5", "--direction", "tx")
    try:
        _, done, result = run(new_project, "http(link, 'rx', duration=1, requests='100/s')", status=1)
    finally:
        gate_lab.pinet("restore")
    assert result["verdict"] == "fail"
    assert len(result["directions"]["rx"]["attempts"]) > 1
    done.stdout.fnmatch_lines(["rx 4* Mbit/s is * % below the limit 80.0 Mbit/s*"])
    assert_left_clean(gate_lab)


def test_pings_are_judged_and_have_no_goodput(new_project: NewProject, gate_lab: GateLab) -> None:
    _, done, result = run(new_project, "ping(link, count=5, latency='50 ms', loss='0%')")
    assert result["id"] == "pi3b:onboard/pair/ping-c5-i0.2-s56"
    assert result["directions"] == {}
    assert (result["ping"]["sent"], result["ping"]["received"]) == (5, 5)
    assert 0 < result["ping"]["rtt_min_s"] <= result["ping"]["rtt_mean_s"] <= result["ping"]["rtt_max_s"]
    done.stdout.fnmatch_lines(["*5 of 5 pings came back in * ms*", "1 measured: 1 pass"])
    assert_left_clean(gate_lab)


def test_slow_pings_fail_the_test_after_a_repeat(new_project: NewProject) -> None:
    _, done, result = run(new_project, "ping(link, count=2, latency='0.001 ms')", status=1)
    assert len(result["ping"]["rounds"]) >= 2
    done.stdout.fnmatch_lines(["*round-trip time * is above the limit*"])


def test_an_mss_that_was_not_effective_makes_the_figure_invalid(new_project: NewProject) -> None:
    _, done, result = run(new_project, "tcp(link, mss=8960, duration=1)", status=1)
    assert result["verdict"] == "invalid"
    # The figure is there, and judged by nobody.
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.02)
    assert len(result["directions"]["tx"]["attempts"]) == 1
    done.stdout.fnmatch_lines(["*mss=8960 bytes was asked for, but segments of*"])


def test_a_window_that_was_cut_makes_the_figure_invalid(new_project: NewProject) -> None:
    most = int(Path("/proc/sys/net/core/wmem_max").read_text())
    if most > 2**28:
        pytest.skip("net.core.wmem_max is too large to exceed")
    _, done, result = run(new_project, f"tcp(link, window={most * 5 // 4}, duration=1)", status=1)
    assert result["verdict"] == "invalid"
    assert list(result["directions"]) == ["tx"]
    done.stdout.fnmatch_lines([f"*window={most * 5 // 4} bytes was not effective on*"])


def test_an_effective_window_is_recorded_with_its_buffers(new_project: NewProject) -> None:
    _, _, result = run(new_project, "tcp(link, window='64K', duration=1, min='50 Mbit/s')")
    sockets = result["directions"]["tx"]["sockets"]
    assert (sockets["sndbuf_bytes"], sockets["rcvbuf_bytes"]) == (131_072, 131_072)
    assert sockets["mss"] == 1448


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("tcp(link, 'tx', peer_bitrate='10M')", "*peer_bitrate is for both directions at once, direction='bidir'*"),
        ("http(link, 'bidir')", "*HTTP goes one way; expected 'tx'*"),
        ("http(link, requests='100')", "*requests='100': expected a number for each second, such as '1200/s'*"),
        ("ping(link, min='1 Mbit/s')", "*min= limits no ping; expected loss= or latency=*"),
        ("udp_ladder(link, rates='90M')", "*rates='90M': expected a list of rates*"),
    ],
)
def test_mistakes_are_one_sentence(new_project: NewProject, call: str, told: str) -> None:
    project = new_project({"test_it.py": TEST.format(board="pi3b", topology="pair", call=call)})
    done = project.pytest("--pinet-dry-run")
    assert done.ret == 1
    done.stdout.fnmatch_lines([told])


def test_a_dry_run_tells_the_commands(new_project: NewProject) -> None:
    calls = {
        "http(link)": ["*$ nginx -c nginx.conf", "*$ wrk -t 1 -c 10 *"],
        "ping(link)": ["*$ LC_ALL=C ping -q -c 10 *"],
        "udp_ladder(link, rates=['10M', '20M'])": ["*-b 10000000*", "*-b 20000000*"],
        "tcp(link, 'bidir', peer_bitrate='10M')": ["*iperf3 -c * -R *", "*iperf3 -c * -R * -b 10000000*"],
    }
    for call, lines in calls.items():
        project = new_project({"test_it.py": TEST.format(board="pi3b", topology="pair", call=call)})
        done = project.pytest("--pinet-dry-run")
        assert done.ret == 0
        done.stdout.fnmatch_lines(lines)
