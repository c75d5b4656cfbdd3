"""Results of A/B comparisons: alternating builds, and one build against accepted baselines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe
from pytest_pinet.measure.packets import Packets
from pytest_pinet.measure.recovery import Recovery
from pytest_pinet.model.figures import Sample
from pytest_pinet.model.judgement import FigureJudgement, MeasurementJudgement
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import result_record
from tests.support.change_session import ONE_TEST, THREE_TESTS, Bench, bench_with, printed

ACCEPTED = ("new.yaml", "accepted")


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        yield found


def test_a_slower_build_fails_only_the_slower_tests_and_names_the_suspected_cause(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    bench.plan('PLAN = Plan(ratio={"ax88179": 0.98})')
    result = bench.run()
    result.assert_outcomes(passed=3, failed=1)
    found = bench.head
    assert (found["verdict"], found["exit"], found["bisect_exit"]) == ("fail", 1, 1)
    first, *rest = found["entries"]
    assert (first["id"], first["direction"]) == ("pi4b:ax88179/pair/tcp-P1-tx", "tx")
    assert first["change"] == pytest.approx(-0.02, abs=0.004)
    assert first["suspect"] == "tcp-segmentation-offload: on -> off"
    assert {entry["verdict"] for entry in rest} == {"pass"}
    printed(
        result,
        "below the limit 931.* Mbit/s",
        "= 1% below good, measured alternately",
        "REGRESSION",
        "slower, certain after * turns: B is * % below A",
        "look first at: tcp-segmentation-offload: on -> off",
        "new must not be merged: 1 of 3 metrics slower, by * % in",
    )
    begin = next(place for place, line in enumerate(result.outlines) if " pinet throughput " in line)
    # Only our warnings: pytest names its own by its installation path.
    ours = list(itertools.takewhile(lambda line: not line.startswith("==="), result.outlines[begin + 1 :]))
    assert len(ours) > 10
    assert all(len(line) <= 80 for line in ours)


def test_a_result_has_both_builds_their_boots_and_the_running_kernel(bench: Bench) -> None:
    bench.plan('PLAN = Plan(ratio={"onboard": 0.95})')
    bench.run()
    (result,) = bench.record["results"]
    change = result["change"]
    assert (change["a"], change["b"], change["tolerance"]) == ("good", "new", 0.01)
    assert change["directions"]["tx"]["a_bps"] == pytest.approx(940e6, rel=0.01)
    assert change["directions"]["tx"]["b_bps"] == pytest.approx(893e6, rel=0.01)
    assert result["directions"]["tx"]["goodput_bps"] == change["directions"]["tx"]["b_bps"]
    assert "".join(boot["side"] for boot in change["turns"]) == bench.boots
    assert all(turn["connections"] for turn in change["turns"])
    assert result["build"]["uname"] == "Linux 6.12.1 aarch64"
    assert [file["name"] for file in (bench.head["a"], bench.head["b"])] == ["good", "new"]
    assert {role: own["end"] for role, own in result["settings"].items()} == {
        "dut": "one:onboard",
        "peer": "two:onboard",
    }
    assert result["settings"]["dut"]["tcp-segmentation-offload"] == "off"
    assert not any(note.startswith("during the comparison") for note in result["notes"])


def test_a_setting_of_the_peer_that_changes_during_the_comparison_is_named(bench: Bench, tmp_path: Path) -> None:
    bench.plan('PLAN = Plan(peer_gro=lambda boot: "on" if boot < 3 else "off")')
    bench.run()
    (result,) = bench.record["results"]
    assert "during the comparison: generic-receive-offload on -> off at two" in result["notes"]
    # `pinet compare` names it for two such runs as well.
    before = json.loads(
        json.dumps(bench.record).replace('"generic-receive-offload": "off"', '"generic-receive-offload": "on"')
    )
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, record in zip(files, (before, bench.record), strict=True):
        file.write_text(json.dumps(record))
    done = CliRunner().invoke(pinet, ["compare", *map(str, files)])
    assert done.exit_code == 0, done.output
    assert "differs: generic-receive-offload on -> off at two" in done.output
    assert "pi4b:onboard/pair/tcp-P1-tx (B)" in done.output


def test_boots_that_differ_too_much_leave_the_comparison_undecided(bench: Bench) -> None:
    bench.plan("PLAN = Plan(boot_noise=0.03)")
    result = bench.run()
    assert result.ret == 1
    assert (bench.head["verdict"], bench.head["exit"], bench.head["bisect_exit"]) == ("inconclusive", 3, 125)
    printed(result, "No decision on new: 1 of 1 metrics are undecided.")


def test_there_are_at_most_as_many_boots_as_allowed(bench: Bench) -> None:
    bench.plan("PLAN = Plan(boot_noise=0.006, seed=3)")
    bench.run("--pinet-boots=6")
    assert bench.boots == "ABBABA"
    assert bench.verdicts == ["inconclusive"]


def test_bidirectional_traffic_and_several_gate_calls_of_one_test(bench: Bench, pytester: pytest.Pytester) -> None:
    both = 'direction="bidir")\n    gate.tcp(link, direction="rx", streams=4)'
    pytester.makepyfile(test_it=ONE_TEST.replace('direction="tx")', both))
    bench.run().assert_outcomes(passed=1)
    ids = {f"{entry['id']} {entry['direction']}" for entry in bench.head["entries"]}
    assert ids == {
        "pi4b:onboard/pair/tcp-P1-bidir tx", "pi4b:onboard/pair/tcp-P1-bidir rx", "pi4b:onboard/pair/tcp-P4-rx rx"
    }  # fmt: skip


def test_a_test_must_make_the_same_gate_calls_in_every_boot(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="import itertools\nN = itertools.count(1)\n" + ONE_TEST.replace(
        'direction="tx"', 'direction="tx", streams=next(N)'
    ))  # fmt: skip
    result = bench.run()
    printed(result, "*to compare builds, a test must make the same gate calls in every boot*")


def test_against_accepted_baselines_a_build_that_does_not_boot_is_a_finding(bench: Bench) -> None:
    bench.plan('PLAN = Plan(start=lambda side, boot: BuildError("new hangs on one", "hang"))')
    bench.run(builds=ACCEPTED).assert_outcomes(failed=1)
    assert bench.boots == "B"
    assert [entry["finding"] for entry in bench.head["entries"]] == ["hang"]
    assert (bench.head["baseline"], bench.head["exit"], bench.head["bisect_exit"]) == ("accepted", 1, 125)


def test_against_accepted_baselines_a_link_that_only_the_new_build_lacks_is_a_finding(
    bench: Bench,
) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link", "x") if side is Side.B else None)')
    result = bench.run(builds=ACCEPTED)
    result.assert_outcomes(failed=1)
    assert bench.boots == "BG"
    printed(result, "no link; with the known-good build, booted right after, the link is")


def test_against_accepted_baselines_a_link_that_both_builds_lack_is_a_lab_error(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link", "x"))')
    bench.run(builds=ACCEPTED).assert_outcomes(errors=1)
    assert bench.boots == "BG"
    assert bench.head["verdict"] == "error"


TWO_PARTS = f"""{ONE_TEST}
@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_packets(link, gate):
    gate.packets(link, "rx")
"""


def test_a_value_that_no_turn_has_is_skipped_and_the_gate_passes(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def excluded(self: Packets, link: Link, watch: object) -> Sample:
        return Sample({"packets": 1.0}, "", excluded="the sender limits: it is slow")

    monkeypatch.setattr(Packets, "once", excluded)
    pytester.makepyfile(test_it=TWO_PARTS)
    result = bench.run("--pinet-profile=fast")
    assert (bench.head["exit"], bench.head["verdict"]) == (0, "pass")
    assert [entry["direction"] for entry in bench.head["entries"]] == ["tx"]
    printed(result, "not measured:", "pi4b:onboard/pair/packets-iperf3-rx-s64-packets", "gave a value of packets: the ")
    printed(result, "new may be merged: the metric is not slower than with good.")


def test_a_boot_within_a_turn_is_no_drop_of_the_link(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"one": 0, "two": 0}

    def booted(self: Packets, link: Link, watch: object) -> Sample:
        if link.dut.session.deployment.running.name == "new":  # type: ignore[union-attr]
            link.ends = (*link.ends,)
            changes["one"] += 3
        return Sample({"packets": 1e5}, "")

    monkeypatch.setattr(Packets, "once", booted)
    monkeypatch.setattr("pytest_pinet.ab.rounds._carrier_changes", lambda end: changes[end.endpoint.node.name])
    pytester.makepyfile(test_it=TWO_PARTS)
    bench.run("--pinet-profile=fast").assert_outcomes(passed=2)
    assert changes["one"] > 0
    assert not any("dropped" in note for one in bench.record["results"] for note in one["notes"])


def test_the_usual_limit_of_a_silence_includes_the_time_without_a_carrier(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flap(self: Recovery, link: Link, watch: object) -> Sample:
        return Sample({"silence": 52.0, "goodput_after": 0.9}, "")

    monkeypatch.setattr(Recovery, "once", flap)
    pytester.makepyfile(test_it=ONE_TEST.replace('gate.tcp(link, direction="tx")', 'gate.recovery(link, down="50 s")'))
    bench.run().assert_outcomes(passed=1)


def test_pings_that_only_the_new_build_loses_fail_with_one_message(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(link: Link, probe: Probe, *_: object) -> ResultRecord:
        of_b = link.dut.session.deployment.running.name == "new"  # type: ignore[union-attr]
        values = {"loss": ("share", 0.1 if of_b else 0.0), "latency": ("s", 0.001)}
        return result_record(
            link.combination,
            "ping",
            MeasurementJudgement(Verdict.PASS, ""),
            started=datetime.now(UTC).isoformat(),
            figures={
                name: FigureJudgement(unit, "down", value, (value,), Verdict.PASS, "")
                for name, (unit, value) in values.items()
            },
        )

    monkeypatch.setattr("pytest_pinet.measure.figures.measure", lost)
    pytester.makepyfile(test_it=ONE_TEST.replace('gate.tcp(link, direction="tx")', 'gate.ping(link, loss="1%")'))
    bench.run().assert_outcomes(failed=1)
    assert bench.boots == "ABBA"
    (result,) = bench.record["results"]
    lines = result["message"].splitlines()
    assert result["verdict"] == "fail"
    assert "the limit was missed in 2 of 2 turns of B, and in 0 of 2 of A" in " ".join(result["message"].split())
    assert [line.split()[0] for line in lines if line.startswith("  ")].count("repeat") == 1
