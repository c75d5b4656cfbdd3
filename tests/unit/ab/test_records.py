"""Messages of A/B comparisons: errors before any board is touched, plans, and the forms of the answer."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from pytest_pinet.history.store import HistoryStore
from pytest_pinet.lab.link.link import Link

# Imported here: pytester removes what its run imports, and SQLAlchemy cannot be imported twice.
from pytest_pinet.measure.figures import Probe
from pytest_pinet.model.judgement import FigureJudgement, MeasurementJudgement
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.page.change import change_section
from pytest_pinet.report.result_record import result_record
from tests.support.change_session import ONE_TEST, Bench, bench_with

TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")

def test_without_a_lab():
    pass
"""


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, TEST) as found:
        yield found


def test_allure_gets_one_result_for_each_test(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.run("--alluredir=res")
    names = sorted(path.name for path in (pytester.path / "res").glob("*-result.json"))
    assert len(names) == 2


def test_the_history_keeps_the_gate_and_allure_asks_the_history_for_losses(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    done = bench.run("--alluredir=res", "--pinet-history=history.db")
    done.stdout.no_fnmatch_line("*losses of the lab*")
    with HistoryStore.open(str(pytester.path / "history.db")) as history:
        ((run,), gates) = history.runs(), history.gates()
    assert gates == [run]
    gate, head = run.change, bench.head
    assert gate is not None
    assert (gate.verdict, gate.turns, gate.sentence) == (head["verdict"], head["turns"], head["sentence"])
    assert [one.figure for one in gate.entries] == [entry["id"] for entry in head["entries"]]
    for one in gate.entries:
        assert one.interval is not None
        assert {turn.side for turn in one.turns if turn.levels_bps} == {"A", "B"}


def test_junit_has_both_sides(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.run("--junitxml=junit.xml")
    text = (pytester.path / "junit.xml").read_text()
    assert text.count("<testcase") == 2
    for name in ("pinet.build_a", "pinet.build_b", "pinet.tx.a_bps", "pinet.tx.change"):
        assert f'name="{name}"' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pinet-against=good.yaml"], "--pinet-against good.yaml: no build is under test"),
        (["--pinet-boots=9"], "--pinet-boots 9: no build is under test"),
        (["--pinet-build=gone.yaml"], "--pinet-build: gone.yaml: *"),
        (["--pinet-build=new.yaml", "--pinet-against=gone.yaml"], "--pinet-against: gone.yaml: *"),
        (["--pinet-build=new.yaml", "--pinet-boots=3"], "--pinet-boots 3: too few boots to compare two builds"),
        (
            ["--pinet-build=new.yaml", "--pinet-against=accepted", "--pinet-boots=8"],
            "--pinet-boots 8: * only once",
        ),
    ],
)
def test_a_mistake_in_the_options_is_reported_before_any_node_is_touched(
    bench: Bench, options: list[str], message: str
) -> None:
    result = bench.run(*options, builds=())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])


def test_the_summary_of_a_run_is_the_answer(bench: Bench) -> None:
    from pytest_pinet.report.markdown import summary_markdown, verdict_in_words

    bench.plan('PLAN = Plan(ratio={"onboard": 0.95})')
    bench.run()
    record = RunRecord.model_validate(bench.record)
    assert verdict_in_words(record).startswith("new must not be merged: 1 of 1 metrics slower, by")
    page = summary_markdown(record)
    assert "## new must not be merged" in page
    assert "look first at: tcp" in page
    assert "net.core.rmem" in page
    assert len(summary_markdown(record, most=300)) <= 300


def test_results_keep_their_schema(bench: Bench) -> None:
    import jsonschema

    from tools.results_schema import results_schema

    bench.plan('PLAN = Plan(ratio={"onboard": 0.95})')
    bench.run()
    jsonschema.validate(bench.record, results_schema())


def test_a_dry_run_says_how_often_boards_are_booted(bench: Bench) -> None:
    result = bench.run("--pinet-dry-run")
    result.stdout.fnmatch_lines(["*A good, B new: 6 to 16 turns on one, each with a boot if the build needs a boot*"])


def test_notes_that_differ_only_in_their_numbers_are_shown_once() -> None:
    from pytest_pinet.report.sentences import folded

    said = "rx: measured in the virtual time of virt-1; by the clock of the other end, goodput is {}"
    notes = ["busy", said.format("691.2 Mbit/s"), said.format("1.02 Gbit/s"), "busy", said.format("740.8 Mbit/s")]
    assert folded(notes) == ["busy", f"{said.format('691.2 Mbit/s')} (and 2 similar)"]


def test_every_report_explains_values_of_a_virtual_clock(bench: Bench, pytester: pytest.Pytester) -> None:
    from pytest_pinet.report.markdown import summary_markdown

    lab = pytester.path / "lab.yaml"
    lab.write_text(lab.read_text().replace("pinet:\n", "pinet:\n  name: tcg\n  launcher: virtual\n", 1))
    lab.write_text(lab.read_text().replace("      board: pi4b\n", "      board: pi4b\n      clock: virtual\n"))
    result = bench.run()
    result.stdout.fnmatch_lines(["values are emulated: lab tcg counts instructions, not seconds: values show the*"])
    record = RunRecord.model_validate(bench.record)
    assert "Values are emulated: lab tcg counts instructions, not seconds: values show" in summary_markdown(record)


REPORTS = """
NIC = {"driver": "r8169", "firmware-version": "rtl8125b-2_0.0.2"}
OLD, NEW_NIC = ({**NIC, "version": version} for version in ("6.12.20", "6.12.25"))
PLAN = Plan(reports=lambda side: {"nics": {"eth0": OLD}} if side is Side.A else {
    "nics": {"eth0": NEW_NIC},
    "changed": ("sysctl net.core.somaxconn: requested '4096', the kernel has '2048'",),
    "not_proved": ("overlay overlays/a.dtbo: the board does not say which file it merged",),
})
"""
NIC = (
    "one:onboard: A: driver r8169, version 6.12.20, firmware rtl8125b-2_0.0.2; "
    "B: driver r8169, version 6.12.25, firmware rtl8125b-2_0.0.2"
)
CHANGED = "B: sysctl net.core.somaxconn: requested '4096', the kernel has '2048'"
NOT_PROVED = "B: overlay overlays/a.dtbo: the board does not say which file it merged"


def test_every_report_says_what_ran_and_what_is_not_proved(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.plan(REPORTS)
    result = bench.run("--verbose")
    (measured,) = bench.record["results"]
    assert measured["ran"]["A"] == {
        "nic": {"driver": "r8169", "version": "6.12.20", "firmware-version": "rtl8125b-2_0.0.2"},
        "changed": [],
        "not_proved": [],
    }
    assert measured["ran"]["B"]["changed"] == [CHANGED.removeprefix("B: ")]
    assert measured["ran"]["B"]["not_proved"] == [NOT_PROVED.removeprefix("B: ")]
    assert CHANGED in measured["notes"]
    assert (bench.head["nics"], bench.head["changed"], bench.head["not_proved"]) == ([NIC], [CHANGED], [NOT_PROVED])
    told = " ".join(result.stdout.str().split())
    for sentence in (f"NIC {NIC}", f"changed by the kernel: {CHANGED}", f"not proved: {NOT_PROVED}"):
        assert sentence in told
    record = RunRecord.model_validate(bench.record)
    page = summary_markdown(record).replace("\\", "")
    assert "<summary>what ran, 1 not proved</summary>" in page
    assert f"- not proved: {NOT_PROVED}" in page
    assert record.change is not None
    found = change_section(record, record.change)
    section = html.unescape(re.sub(r"<wbr>|&nbsp;|\u200b", "", found))
    assert "What ran, 1 not proved" in section
    assert f"not proved: {NOT_PROVED}" in section.replace("\u00a0", " ")


def test_nics_that_say_the_same_in_both_builds_share_a_line(bench: Bench) -> None:
    bench.plan('PLAN = Plan(reports=lambda side: {"nics": {"eth0": {"driver": "bcmgenet", "version": "v2"}}})')
    bench.run()
    assert bench.head["nics"] == ["one:onboard: A and B: driver bcmgenet, version v2"]
    assert (bench.head["changed"], bench.head["not_proved"]) == ([], [])


def test_against_accepted_baselines_the_result_says_what_ran_too(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def came(link: Link, probe: Probe, *_: object) -> ResultRecord:
        judged = MeasurementJudgement(Verdict.PASS, "x")
        figures = {"loss": FigureJudgement("share", "down", 0.0, (0.0,), Verdict.PASS, "")}
        return result_record(link.combination, "ping", judged, started=datetime.now(UTC).isoformat(), figures=figures)

    monkeypatch.setattr("pytest_pinet.measure.figures.measure", came)
    pytester.makepyfile(test_it=ONE_TEST.replace('gate.tcp(link, direction="tx")', 'gate.ping(link, loss="1%")'))
    bench.plan(REPORTS)
    bench.run(builds=("new.yaml", "accepted"))
    (measured,) = bench.record["results"]
    assert list(measured["ran"]) == ["B"]
    assert CHANGED.removeprefix("B: ") in measured["notes"]
    assert bench.head["not_proved"] == [NOT_PROVED]
