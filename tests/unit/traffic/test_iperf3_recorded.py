"""Every recorded output of three builds gives its value or its error message."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_pinet.errors import LinkError, PinetError, TrafficError, UnsupportedError
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3_command import Version
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole, explain, partial
from tests.support.iperf3_output import parse_client

DATA = Path(__file__).parents[2] / "data" / "iperf3"
BUILDS = ("3.12-debian12", "3.16", "3.21")

# The link was shaped to 100 Mbit/s.
ONE_WAY = (94.0, 95.95)
UDP = (19.95, 20.6)

RX = Traffic(Direction.RX, duration_s=2, warmup_s=0)
FIGURES = {"rev": RX, "revomit": RX, "udprev": replace(RX, udp=True)}
TROUBLE: dict[str, tuple[type[PinetError], str]] = {
    "badcc": (UnsupportedError, "near does not have the requested congestion control"),
    "badopt": (UnsupportedError, "the iperf3 of near refuses (unrecognized option '--nosuch')"),
    "busy": (TrafficError, "the iperf3 server on far is busy with another test"),
    "refused": (TrafficError, "no process listens on far: the connection from near was refused"),
    "unreach": (LinkError, "far cannot be reached from near over the measured link"),
    "cliINT": (TrafficError, "the iperf3 client on near was interrupted"),
    "cliTERM": (TrafficError, "the iperf3 client on near was interrupted"),
    "cliKILL": (TrafficError, "the iperf3 client on near was killed (SIGKILL)"),
    "srvkill": (TrafficError, "the iperf3 server on far ended during the traffic"),
    "srvterm": (TrafficError, "the iperf3 server on far ended during the traffic: it was terminated"),
}
EXCEPTIONS: dict[tuple[str, str], tuple[type[PinetError], str]] = {
    ("3.12-debian12", "revomit"): (TrafficError, "its intervals overlap by 2.0 s (caused by iperf3's omit timer)"),
}
CASES = [(build, case) for build in BUILDS for case in (*FIGURES, *TROUBLE)]


def recorded(build: str, case: str) -> Output:
    stdout, stderr, code = ((DATA / build / f"{case}.{kind}").read_text() for kind in ("json", "err", "rc"))
    return Output(ProcessRole.CLIENT, "near", "far", int(code), stdout, stderr)


def test_every_recorded_file_is_a_case() -> None:
    files = {(f.parent.name, f.stem) for f in DATA.glob("*/*.json") if f.parent.name != "pairs"}
    assert files == set(CASES)


@pytest.mark.parametrize(("build", "case"), [c for c in CASES if c[1] in FIGURES and c not in EXCEPTIONS])
def test_a_good_run_gives_the_receivers_goodput(build: str, case: str) -> None:
    traffic, output = FIGURES[case], recorded(build, case)
    flows = parse_client(output.stdout, output.stderr, output.returncode, traffic)
    assert set(flows) == set(traffic.direction.parts)
    low, high = UDP if traffic.udp else ONE_WAY
    for flow in flows.values():
        assert low <= flow.goodput.bps / 1e6 <= high
        assert flow.seconds == pytest.approx(2, rel=0.05)
        if traffic.udp:
            assert flow.retransmits is None
            assert flow.lost_packets == 0
            assert flow.packets == pytest.approx(3453, rel=0.03)
            assert flow.jitter_ms is not None
        else:
            assert flow.retransmits == 0
            assert flow.lost_packets is flow.packets is flow.jitter_ms is None
            assert sum(s.bps for s in flow.streams) == pytest.approx(flow.goodput.bps, rel=0.01)
            assert len(flow.streams) == traffic.streams


@pytest.mark.parametrize(("build", "case"), [c for c in CASES if c[1] in TROUBLE or c in EXCEPTIONS])
def test_a_bad_run_gives_its_error_and_no_value(build: str, case: str) -> None:
    kind, sentence = EXCEPTIONS.get((build, case)) or TROUBLE[case]
    output = recorded(build, case)
    for direction in Direction:
        traffic = replace(FIGURES.get(case, RX), duration_s=1)
        traffic = traffic if case in FIGURES else replace(traffic, direction=direction)
        with pytest.raises(kind) as caught:
            parse_client(output.stdout, output.stderr, output.returncode, traffic, ("near", "far"))
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value).partition("\n  -> ")[0]
        if isinstance(caught.value, TrafficError):
            assert caught.value.act
            assert "exit status" in caught.value.evidence


@pytest.mark.parametrize("case", TROUBLE)
@pytest.mark.parametrize("build", BUILDS)
def test_no_exit_status_makes_a_failed_run_good(build: str, case: str) -> None:
    # 3.12 exits 0 on every error, 3.21 after a signal.
    output = recorded(build, case)
    with pytest.raises(PinetError):
        parse_client(output.stdout, output.stderr, 0, RX)


@pytest.mark.parametrize("case", FIGURES)
@pytest.mark.parametrize("build", BUILDS)
def test_no_good_output_outweighs_an_exit_status(build: str, case: str) -> None:
    output = recorded(build, case)
    with pytest.raises(TrafficError, match="failed: exit status 1"):
        parse_client(output.stdout, "", 1, FIGURES[case])
    with pytest.raises(TrafficError, match="failed: out of luck"):
        parse_client(output.stdout, f"{LOADER}iperf3: error - out of luck\n{LOCALE}", 1, FIGURES[case])


# What public reports show on standard error of good runs.
LOCALE = "bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n"
LOADER = (
    "ERROR: ld.so: object '/usr/lib/arm-linux-gnueabihf/libarmmem-${PLATFORM}.so' from /etc/ld.so.preload cannot be "
    "preloaded (cannot open shared object file): ignored.\n"
)
SIZE = "warning: UDP block size 1472 exceeds TCP MSS 1448, may result in fragmentation / drops\n"
UNKNOWN = "WARNING: the MSS of this sentence, and its error, connect: Connection refused, are of no concern\n"


@pytest.mark.parametrize(("build", "case"), [c for c in CASES if c[1] in FIGURES and c not in EXCEPTIONS])
@pytest.mark.parametrize("line", [LOCALE, LOADER, SIZE, UNKNOWN, LOADER + LOCALE])
def test_standard_error_of_a_good_run_changes_nothing(build: str, case: str, line: str) -> None:
    output, traffic = recorded(build, case), FIGURES[case]
    assert parse_client(output.stdout, line, 0, traffic) == parse_client(output.stdout, "", 0, traffic)


@pytest.mark.parametrize("case", TROUBLE)
@pytest.mark.parametrize("build", BUILDS)
def test_the_reason_of_a_failed_run_is_no_line_of_the_system(build: str, case: str) -> None:
    output = recorded(build, case)
    noisy = replace(output, stderr=f"{SIZE}{LOADER}{LOCALE}{output.stderr}{LOADER}")
    assert type(explain(noisy)) is type(explain(output))
    assert str(explain(noisy)) == str(explain(output))


PAIRS = sorted(f.name.removesuffix(".client.json") for f in (DATA / "pairs").glob("*.client.json"))


def pair(name: str) -> tuple[str, Output]:
    client, server = ((DATA / "pairs" / f"{name}.{role}.json").read_text() for role in ("client", "server"))
    return client, Output(ProcessRole.SERVER, "far", "near", 0, server)


@pytest.mark.parametrize("name", [p for p in PAIRS if "bidir" in p])
def test_the_servers_intervals_are_those_of_what_the_client_sent(name: str) -> None:
    client, server = pair(name)
    udp, streams = name.startswith("udp"), 1 if name.startswith("udp") else 2
    traffic = Traffic(Direction.BIDIR, udp=udp, streams=streams, duration_s=2, warmup_s=1)
    flows = parse_client(client, "", 0, traffic, ("near", "far"), server)
    for direction in (Direction.TX, Direction.RX):
        flow = flows[direction]
        assert [s.warmup for s in flow.samples[:4]] == [True, True, False, False]
        assert flow.goodput.bps / 1e6 == pytest.approx(20 if udp else 94, rel=0.02)
        assert len(flow.streams) == streams
        end, suffix = json.loads(client)["end"], "" if direction is Direction.TX else "_bidir_reverse"
        assert sum(s.bytes for s in flow.samples) == end[f"sum_received{suffix}"]["bytes"]
        assert flow.retransmits == (None if udp else end[f"sum_sent{suffix}"]["retransmits"])
        assert (flow.packets is not None) == udp


@pytest.mark.parametrize("name", [p for p in PAIRS if p.startswith("rev")])
def test_versions_may_be_mixed_one_way(name: str) -> None:
    client, _ = pair(name)
    flow = parse_client(client, "", 0, Traffic(Direction.TX, duration_s=2, warmup_s=1))[Direction.TX]
    assert len(flow.counted) >= 4
    assert flow.goodput.bps / 1e6 == pytest.approx(95.5, rel=0.003)


def test_the_error_of_a_missing_cpu_names_the_end() -> None:
    # The message of 3.12, from the server before it listens.
    told = "iperf3: error - unable to set CPU affinity: Invalid argument\n"
    found = explain(Output(ProcessRole.SERVER, "pi", "pc", 1, "", told))
    assert isinstance(found, UnsupportedError)
    assert str(found).startswith("pi does not have the CPU that affinity= requests (unable to set CPU affinity")


@pytest.mark.parametrize("build", ["3.12-debian12", "3.16", "3.21"])
@pytest.mark.parametrize("case", ["cliINT", "cliTERM", "srvkill", "srvterm"])
def test_intervals_before_the_failure_are_kept(build: str, case: str) -> None:
    text = (DATA / build / f"{case}.json").read_text()
    expected = [i["sum"]["bytes"] * 8e-6 / i["sum"]["seconds"] for i in json.loads(text)["intervals"]]
    said = partial(text)
    assert expected or not said
    if expected:
        assert said.startswith("sent (Mbit/s) from 0.0 s on, every 1.0 s: ")
        rates = [float(word) for word in said.partition("s: ")[2].split()]
        assert rates == pytest.approx(expected, abs=0.051)


def test_both_directions_are_shown() -> None:
    text = (DATA / "pairs" / "bidir-3.18-3.18.client.json").read_text()
    lines = partial(text).splitlines()
    assert [line.split()[0] for line in lines] == ["sent", "received"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"intervals": 3}',
        '{"intervals": [3, {"sum": 4}, {"sum": {}}, {"sum": {"start": 0, "seconds": 0, "bytes": 1}}]}',
        '{"intervals": [{"sum": {"start": "0", "seconds": 1, "bytes": 1}}]}',
        '{"intervals": [{"sum": {"start": 0, "seconds": 1, "bytes": null}}]}',
        '{"intervals": [{"sum": {"start": -' + "9" * 400 + ', "seconds": 1, "bytes": 1}}]}',
        "[" * 100_000,
    ],
)
def test_odd_text_is_nothing(text: str) -> None:
    assert partial(text) == ""


def test_a_long_run_is_cut_in_its_middle() -> None:
    intervals = [{"sum": {"start": i / 10, "seconds": 0.1, "bytes": 12_000_000, "sender": False}} for i in range(3000)]
    said = partial(json.dumps({"intervals": intervals}))
    assert len(said) < 4100
    assert " ... " in said


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18.44 #1 SMP\n", Version(3, 12)),
        ("iperf 3.9", Version(3, 9)),
        ("iperf 3.17.1 (cJSON 1.7.15)", Version(3, 17, 1)),
        ("iperf 3.16-beta1", Version(3, 16)),
    ],
)
def test_the_version_is_read(text: str, version: Version) -> None:
    assert Version.parse(text) == version
    assert str(version) in text


@pytest.mark.parametrize("text", ["", "iperf version 2.1.8", "sh: iperf3: not found", "3.12", "iperf 3"])
def test_other_texts_are_refused_as_version(text: str) -> None:
    with pytest.raises(ValueError, match="does not name an iperf version"):
        Version.parse(text)


def test_versions_are_numbers_not_text() -> None:
    ascending = [Version.parse(f"iperf {t}") for t in ("3.7", "3.9", "3.12", "3.17", "3.17.1", "3.21", "4.0")]
    assert all(a < b for a, b in pairwise(ascending))
    assert [v.threaded for v in ascending] == [False, False, False, True, True, True, True]
