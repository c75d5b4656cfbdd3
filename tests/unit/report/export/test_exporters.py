"""The exporters: cases, KTAP, LAVA, NIPA, annotations, OpenMetrics and KCIDB."""

from __future__ import annotations

import json
import re
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from kcidb_io import schema
from prometheus_client.parser import text_string_to_metric_families

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.build import BuildSource
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.export.annotations import MOST, github, gitlab_annotations
from pytest_pinet.report.export.cases import cases_of, ktap, lava, nipa, plain_name, settings_of
from pytest_pinet.report.export.kcidb import kcidb
from pytest_pinet.report.export.openmetrics import openmetrics, prometheus
from tests.support.exact_records import records, run_of
from tests.support.export_runs import ALTERNATED, EXACT, PLAIN, RUNS, points
from tests.support.report_records import direction, result, run_record

# The path of KCIDB's format, version 5.3.
PATH = re.compile(r"([\w-]+(\.[\w-]+)*)?", re.ASCII)


@pytest.mark.parametrize("kind", RUNS)
def test_names_are_unique_and_plain(kind: str) -> None:
    names = [case.name for case in cases_of(RUNS[kind])]
    assert len({*names}) == len(names)
    assert all(PATH.fullmatch(name) for name in names)


def test_names_of_ids() -> None:
    assert plain_name("pi4b:onboard/incast:2/rps=all+mtu=9000/tcp-P1-tx") == (
        "pi4b.onboard.incast-2.rps-all-mtu-9000.tcp-P1-tx"
    )
    assert [case.name for case in cases_of(EXACT)] == [
        "exact.macb.pair.qemu-7-2-22.frame-60-tx",
        "exact.macb.pair.qemu-7-2-22.frame-60-rx",
    ]


def test_directions_at_once_are_two_metrics_and_a_repetition_is_numbered() -> None:
    labels = [case.label for case in cases_of(PLAIN) if case.group == "pi4b.onboard.pair"]
    assert labels == ["tcp-P1-bidir-tx", "tcp-P1-bidir-rx", "tcp-P1-tx", "tcp-P1-rx", "tcp-P1-tx-2"]


def test_an_error_has_the_name_of_its_combination() -> None:
    (case,) = [case for case in cases_of(PLAIN) if case.group == "cm4.onboard.pair"]
    assert (case.name, case.verdict) == ("cm4.onboard.pair.measurement", "error")
    assert case.text.startswith("no carrier on eth0 of cm4-1")


def test_a_gate_of_a_build_gives_its_outcomes() -> None:
    found = {case.name: (str(case.verdict), case.text) for case in cases_of(ALTERNATED)}
    assert found["pi4b.onboard.pair.tcp-P1-tx"] == ("fail", "slower, certain after 7 turns: B is -2.10 %")
    assert found["pi5.onboard.pair.tcp-P1-rx"][0] == "improved"
    assert found["cm4.onboard.pair.tcp-P1-tx"][0] == "inconclusive"
    assert found["pi3b.onboard.pair.measurement"] == ("fail", "panic: panic on pi4b-1 with new: Kernel panic")


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="--set: unknown setting of kcidb 'git_comit', did you mean 'git_commit'"):
        settings_of("kcidb", {"git_comit": "x"}, "git_commit", "origin")


def test_an_alternated_run() -> None:
    assert ktap(ALTERNATED, {}).splitlines()[:14] == [
        "TAP version 13",
        "1..4",
        "# selftests: pinet: pi4b.onboard.pair",
        "# TAP version 13",
        "# 1..2",
        "# # tcp-P1-tx goodput 921.2 Mbit/s, limit 931.6 Mbit/s fail, slower, certain after 7 turns: B is -2.10 %",
        "# not ok 1 tcp-P1-tx # time=7500ms goodput=0.9212Gbit/s",
        "# # tcp-P1-rx goodput 941.0 Mbit/s, limit 931.6 Mbit/s pass, not slower, certain after 7 turns: B is +0.00 %",
        "# ok 2 tcp-P1-rx # time=7500ms goodput=0.9410Gbit/s",
        "# # Totals: pass:1 fail:1 xfail:0 xpass:0 skip:0 error:0",
        "not ok 1 selftests: pinet: pi4b.onboard.pair # exit=1",
        "# selftests: pinet: pi5.onboard.pair",
        "# TAP version 13",
        "# 1..1",
    ]


def test_a_metric_without_a_decision_is_an_error_or_if_wanted_a_skip() -> None:
    assert "# not ok 1 tcp-P1-tx # ERROR time=7500ms goodput=0.9335Gbit/s" in ktap(ALTERNATED, {}).splitlines()
    skips = ktap(ALTERNATED, {"undecided": "skip"}).splitlines()
    assert "# ok 1 tcp-P1-tx # SKIP time=7500ms goodput=0.9335Gbit/s" in skips
    assert "ok 3 selftests: pinet: cm4.onboard.pair # SKIP" in skips
    assert [line for line in skips if line.startswith("not ok")] == [
        "not ok 1 selftests: pinet: pi4b.onboard.pair # exit=1",
        "not ok 4 selftests: pinet: pi3b.onboard.pair # exit=1",
    ]


@pytest.mark.parametrize("kind", RUNS)
def test_plans_and_numbers_agree(kind: str) -> None:
    lines = ktap(RUNS[kind], {}).splitlines()
    top = [line for line in lines if re.match(r"(not )?ok ", line)]
    assert lines[1] == f"1..{len(top)}"
    assert [int(line.split("ok ")[1].split()[0]) for line in top] == [*range(1, len(top) + 1)]
    plans = [int(line.removeprefix("# 1..")) for line in lines if line.startswith("# 1..")]
    assert sum(plans) == sum(bool(re.match(r"# (not )?ok ", line)) for line in lines)


def test_no_text_of_a_board_looks_like_a_result() -> None:
    (line,) = [line for line in ktap(PLAIN, {}).splitlines() if "::error" in line]
    assert line.startswith("# # tcp-P1-rx goodput 900.0 Mbit/s, limit 1.00 Gbit/s fail, - (FAIL) FAIL SKIP")
    assert not re.search(r"\[FAIL\]|FAIL:|SKIP:|.#.*# SKIP", line)


def test_an_exact_gate_has_instructions_and_no_goodput() -> None:
    lines = ktap(run_of(records("slow"), "slow"), {}).splitlines()
    assert not any("goodput=" in line or "it/s" in line for line in lines)
    text, status = next((a, b) for a, b in pairwise(lines) if a.startswith("# # frame-60-rx"))
    assert "4752.00 -> 5233.00 instructions per packet, 4890 pps in virtual time fail" in text
    assert status.endswith(" instructions=5233.00")


def test_each_metric_is_a_signal() -> None:
    assert lava(ALTERNATED, {}).splitlines() == [
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi4b.onboard.pair.tcp-P1-tx RESULT=fail UNITS=Gbit/s MEASUREMENT=0.921239>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi4b.onboard.pair.tcp-P1-rx RESULT=pass UNITS=Gbit/s MEASUREMENT=0.941000>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi5.onboard.pair.tcp-P1-rx RESULT=pass UNITS=Gbit/s MEASUREMENT=0.969230>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=cm4.onboard.pair.tcp-P1-tx RESULT=unknown UNITS=Gbit/s "
        "MEASUREMENT=0.933472>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi3b.onboard.pair.measurement RESULT=fail>",
    ]


def test_each_word_has_one_equals_sign() -> None:
    for run in RUNS.values():
        for line in lava(run, {}).splitlines():
            words = line.removesuffix(">").split()[1:]
            assert all(word.count("=") == 1 for word in words)


BRANCH = {"branch": "net-next-2026-11-23--12-00"}


def test_an_alternated_run_nipa() -> None:
    found = json.loads(nipa(ALTERNATED, BRANCH | {"link": "https://ci.example.org/9"}))
    first, *_ = found["results"]
    assert (found["executor"], found["branch"]) == ("pinet-virtual", BRANCH["branch"])
    assert (found["start"], found["end"]) == ("2026-11-21 00:01:02+00:00", "2026-11-21 00:02:03+00:00")
    assert found["device"] == dict.fromkeys(["cm4:onboard", "pi3b:onboard", "pi4b:onboard", "pi5:onboard"], "bcmgenet")
    assert first == {
        "test": "pi4b-onboard-pair",
        "group": "selftests-pinet",
        "result": "fail",
        "time": 15.0,
        "link": "https://ci.example.org/9",
        "results": [
            {"test": "tcp-P1-tx", "result": "fail", "time": 8},
            {"test": "tcp-P1-rx", "result": "pass", "time": 8},
        ],
    }
    assert [one["result"] for one in found["results"]] == ["fail", "pass", "warn", "fail"]


@pytest.mark.parametrize("kind", RUNS)
def test_names_and_results_that_nipa_knows(kind: str) -> None:
    found = json.loads(nipa(RUNS[kind], BRANCH))
    assert datetime.fromisoformat(found["start"]).tzinfo is not None
    for test in found["results"]:
        assert test["result"] in ("pass", "skip", "warn", "fail")
        names = [one["test"] for one in test["results"]]
        assert len({*names}) == len(names)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "nipa needs branch; pass --set branch=net-next-2026-11-23--12-00"),
        (
            {"branch": "net"},
            "--set branch: 'net' does not end in a time; expected net-next-2026-11-23--12-00",
        ),
    ],
)
def test_a_branch_is_necessary(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        nipa(PLAIN, settings)
    assert str(raised.value) == message


LINK = "https://gitlab.example/group/linux/-/jobs/7/artifacts/file/pinet-report.html"


def labels(run: RunRecord) -> list[str]:
    found: dict[str, Any] = json.loads(gitlab_annotations(run, {"link": LINK}))
    (links,) = found.values()
    # GitLab refuses other keys (app/validators/json_schemas/ci_job_annotation_data.json).
    assert all(one == {"external_link": {"label": one["external_link"]["label"], "url": LINK}} for one in links)
    return [one["external_link"]["label"] for one in links]


def test_the_answer_comes_first_then_the_worst() -> None:
    assert ALTERNATED.change is not None
    assert labels(ALTERNATED) == [
        ALTERNATED.change.sentence,
        "fail: pi4b.onboard.pair.tcp-P1-tx: slower, certain after 7 turns: B is -2.10 %",
        "fail: pi3b.onboard.pair.measurement: panic: panic on pi4b-1 with new: Kernel panic",
        "inconclusive: cm4.onboard.pair.tcp-P1-tx: inconclusive, certain after 7 turns: B is -0.80 %",
        "improved: pi5.onboard.pair.tcp-P1-rx: faster, certain after 7 turns: B is +3.00 %",
    ]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_label_is_one_short_line(run: RunRecord) -> None:
    assert all("\n" not in label and 0 < len(label) <= 200 for label in labels(run))


def test_a_run_without_a_gate_has_no_answer() -> None:
    assert labels(PLAIN)[0] == "report of all metrics"


def test_more_than_a_page_shows_are_counted() -> None:
    many = run_record([result(f"pi4b:nic{n}/pair", {"tx": direction(1e8, 9e8, "fail")}) for n in range(25)])
    found = labels(many)
    assert len(found) == 1 + MOST
    assert found[-1] == "and 16 more"


def test_without_an_address_there_is_nothing_to_link_to() -> None:
    with pytest.raises(ConfigError, match=r"gitlab-annotations needs link; pass --set link=URL"):
        gitlab_annotations(PLAIN, {})


def test_an_alternated_run_annotations() -> None:
    assert github(ALTERNATED, {}).splitlines() == [
        "::error title=pi4b.onboard.pair.tcp-P1-tx::slower, certain after 7 turns: B is -2.10 %25",
        "::error title=pi3b.onboard.pair.measurement::panic: panic on pi4b-1 with new: Kernel panic",
        "::warning title=cm4.onboard.pair.tcp-P1-tx::inconclusive: inconclusive, certain after 7 turns: B is -0.80 %25",
        "::notice title=pi5.onboard.pair.tcp-P1-rx::faster, certain after 7 turns: B is +3.00 %25",
    ]


def test_a_function_of_an_exact_gate_is_shown_at_its_line() -> None:
    first, *_ = github(EXACT, {}).splitlines()
    assert first.startswith("::error file=drivers/net/ethernet/cadence/macb_main.c,line=1302,title=exact.macb.pair.")


def test_a_text_stays_on_one_line_and_begins_no_command() -> None:
    (line,) = [line for line in github(PLAIN, {}).splitlines() if "rps-all" in line]
    assert line.startswith("::error title=pi4b.onboard.incast-2.rps-all-mtu-9000.tcp-P1-rx::# [FAIL]")
    assert "%250A" in line


def test_more_than_github_shows_are_counted() -> None:
    many = run_record([result(f"pi4b:nic{n}/pair", {"tx": direction(1e8, 9e8, "fail")}) for n in range(25)])
    lines = github(many, {}).splitlines()
    assert len(lines) == MOST
    assert lines[-1] == "::error title=pinet::and 16 more; all are in the summary of this job"


@pytest.mark.parametrize("kind", RUNS)
def test_prometheus_parser_reads_it(kind: str) -> None:
    text = prometheus(points(RUNS[kind]))
    families = [*text_string_to_metric_families(text)]
    assert {family.type for family in families} == {"gauge"}
    assert all(sample.timestamp is None for family in families for sample in family.samples)


def test_the_samples_are_those_of_openmetrics() -> None:
    texts = [form(points(PLAIN)).splitlines() for form in (prometheus, openmetrics)]
    found, other = ([line for line in text if line[0] != "#"] for text in texts)
    assert found == other


def test_no_type_and_line_that_the_pushgateway_refuses() -> None:
    text = prometheus(points(PLAIN))
    assert "# TYPE pinet_build_info gauge\n" in text
    assert not [word for word in ("stateset", "# UNIT", "# EOF") if word in text]


COMMIT = "0e44d9fed54654d05b4c841b78fb077dac90c249"
SOURCE = {
    "git_commit": COMMIT,
    "git_url": "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git",
    "git_branch": "master",
    "tree": "mainline",
}


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("settings", [SOURCE, {"git_commit": COMMIT}, {"build": "maestro:1f2e"}], ids=len)
def test_kcidb_io_accepts_it(kind: str, settings: dict[str, str]) -> None:
    found = json.loads(kcidb(RUNS[kind], settings))
    schema.V5_3.validate(found)
    assert schema.V5_3.count(found) == len(found["tests"]) + (0 if "build" in settings else 2)
    builds = {one["id"] for one in found.get("builds", ())} | {settings.get("build")}
    assert {one["build_id"] for one in found["tests"]} <= builds
    assert {one["checkout_id"] for one in found.get("builds", ())} == {one["id"] for one in found.get("checkouts", ())}
    assert len({one["id"] for one in found["tests"]}) == len(found["tests"])


def test_statuses() -> None:
    tests = json.loads(kcidb(ALTERNATED, SOURCE))["tests"]
    assert [(one["path"], one["status"]) for one in tests] == [
        ("pinet.pi4b.onboard.pair.tcp-P1-tx", "FAIL"),
        ("pinet.pi4b.onboard.pair.tcp-P1-rx", "PASS"),
        ("pinet.pi5.onboard.pair.tcp-P1-rx", "PASS"),
        ("pinet.cm4.onboard.pair.tcp-P1-tx", "ERROR"),
        ("pinet.pi3b.onboard.pair", "FAIL"),
    ]
    night = {one["path"]: one["status"] for one in json.loads(kcidb(PLAIN, SOURCE))["tests"]}
    # No limit, and an error of the lab.
    assert night["pinet.pi5.i226v.pair.tcp-P1-tx"] == "DONE"
    assert night["pinet.cm4.onboard.pair"] == "MISS"


def test_the_number_is_also_where_the_dashboard_shows_it() -> None:
    first, *_ = json.loads(kcidb(ALTERNATED, SOURCE | {"link": "https://ci.example.org/9"}))["tests"]
    assert first["number"] == {"value": pytest.approx(921.239e6), "unit": "bit/s", "prefix": "metric"}
    assert first["log_excerpt"].splitlines() == [
        "pi4b:onboard/pair/tcp-P1-tx: fail, goodput 921.2 Mbit/s, limit 931.6 Mbit/s",
        "slower, certain after 7 turns: B is -2.10 %",
    ]
    assert first["log_url"] == "https://ci.example.org/9"
    assert first["environment"]["misc"]["platform"] == "bcm2711-rpi-4-b"
    (_, rx) = json.loads(kcidb(EXACT, SOURCE))["tests"]
    assert rx["misc"]["figures"] == "emulated"
    assert rx["misc"]["instructions_per_packet"]["b"] == 5233.0
    assert rx["misc"]["packets_per_second"] == pytest.approx({"a": 5297.0, "b": 4890.0})


def test_the_commit_of_the_build_under_test_needs_no_setting() -> None:
    head = ALTERNATED.change
    assert head is not None
    source = BuildSource(
        made_by="TuxMake 1.45", place="build", tree=SOURCE["git_url"], branch="master", commit=COMMIT,
        describe="v6.12-1-g0e44d9f", compiler="aarch64-linux-gnu-gcc 12.2", config="config",
    )  # fmt: skip
    run = ALTERNATED.replace(change=head.replace(b=head.b.replace(source=source)))
    found = json.loads(kcidb(run, {}))
    schema.V5_3.validate(found)
    (checkout,), (build,) = found["checkouts"], found["builds"]
    assert checkout["git_commit_hash"] == COMMIT
    assert checkout["git_repository_url"] == SOURCE["git_url"]
    assert checkout["git_commit_name"] == "v6.12-1-g0e44d9f"
    assert build["compiler"] == "aarch64-linux-gnu-gcc 12.2"
    assert json.loads(kcidb(run, {"git_commit": "1" * 40}))["checkouts"][0]["git_commit_hash"] == "1" * 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, f"kcidb needs git_commit; pass --set git_commit={COMMIT}"),
        ({"git_commit": "0e44d9f"}, "--set git_commit: '0e44d9f' is no whole hash; expected 40 hexadecimal digits"),
        (
            SOURCE | {"git_url": "git://git.kernel.org/linux.git"},
            "--set git_url: 'git://git.kernel.org/linux.git' is no https URL; KCIDB accepts no other",
        ),
        ({"build": "1f2e"}, "--set build: '1f2e' is no id of a build; expected ORIGIN:ID, such as maestro:1f2e"),
        (
            {"origin": "My Lab"},
            "--set origin: 'My Lab' has other characters than a-z, 0-9 and _; expected pinet",
        ),
    ],
)
def test_what_kcidb_would_refuse(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        kcidb(PLAIN, settings)
    assert str(raised.value) == message
