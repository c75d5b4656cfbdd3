"""``pinet history``, ``compare``, ``summary`` and ``export`` on the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_pinet.model.judgement import EvennessJudgement
from pytest_pinet.model.record.measurement import FlowRecord
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.markdown import MOST_CHARACTERS, summary_markdown, verdict_in_words
from tests.support.change_records import change_run, compared
from tests.support.commands import mistake, run
from tests.support.history_records import FIGURE, day, keep, with_result
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, direction, result, run_record

pytestmark = pytest.mark.usefixtures("here")


def families_of(text: str) -> list[Any]:
    """Parse a text with Prometheus' own OpenMetrics reader."""
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def written(record: RunRecord, name: str = "results.json") -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps(record.dump()))
    return name


def slower(at: int = 20, count: int = 40) -> list[RunRecord]:
    chance = random.Random(1)
    return [
        day(n, (940 if n < at else 890) + chance.gauss(0, 1), uname=f"Linux 6.12.{20 + n // at}-v8+ #1")
        for n in range(count)
    ]


# -- history ----------------------------------------------------------------------------------------------------------


def test_history_shows_trends_by_default() -> None:
    keep(slower())
    lines = run("history").output.splitlines()
    assert lines[0].startswith(f"{FIGURE}  889.5 Mbit/s emulated  pass  2026-10-10  40 runs")
    assert lines[2].startswith("  moved at run night-20-")
    assert lines[-1] == "1 result, 1 with a level change"
    assert run("history", "show", "pi4b:*").output.splitlines() == lines


def test_ids_and_options_select_results() -> None:
    keep([*slower(), *(day(n, combination="cm4:onboard/pair") for n in range(50, 60))])
    assert run("history", "cm4:*").output.splitlines()[-1] == "1 result, 0 with a level change"
    assert run("history", "--changed").output.splitlines()[-1] == "1 result, 1 with a level change"
    assert "moved at" not in run("history", "--matters", "10").output
    assert "moved at" not in run("history", "--last", "15").output


def test_option_json_prints_points_and_changes() -> None:
    keep(slower())
    (trend,) = json.loads(run("history", "--json").output)
    assert len(trend["points"]) == 40
    (change,) = trend["changes"]
    assert change["relative"] == pytest.approx(-0.053, abs=0.002)
    assert change["build_after"]["uname"] == "Linux 6.12.21-v8+ #1"
    assert len(json.loads(run("history", "--runs", "--json", "--last", "3").output)) == 3


def test_option_runs_lists_the_runs() -> None:
    keep(slower(count=3))
    lines = run("history", "--runs").output.splitlines()
    assert [line.partition("  ")[2] for line in lines] == [
        f"2026-09-0{n} 02:00  lab virtual  1 pass" for n in (1, 2, 3)
    ]


def test_an_exported_history_can_be_imported() -> None:
    keep([*slower(), run_record(NIGHT, NIGHT_SKIPPED)])
    assert run("history", "export", "-o", "all.jsonl").exit_code == 0
    done = run("history", "import", "--history", "other.db", "all.jsonl")
    assert done.output == "41 runs read, 41 of them new\n"
    assert run("history", "import", "--history", "other.db", "all.jsonl").output == "41 runs read, 0 of them new\n"
    assert run("history", "export", "--history", "other.db").output == Path("all.jsonl").read_text()


def test_results_of_runs_can_be_imported() -> None:
    files = [written(record, f"runs/{n}/results.json") for n, record in enumerate(slower(count=3))]
    assert run("history", "import", *files).output == "3 runs read, 3 of them new\n"


def test_an_unknown_result_is_a_mistake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    keep(slower(count=1))
    message = mistake(capsys, monkeypatch, "history", "pi4b:onbord/pair/tcp-P1-tx")
    assert "unknown result in this history 'pi4b:onbord/pair/tcp-P1-tx', did you mean" in message
    assert "there is no history x.db; run pytest with a lab" in mistake(
        capsys, monkeypatch, "history", "--history", "x.db"
    )
    assert "missing.json: No such file or directory; expected a results.json, a results.jsonl or" in mistake(
        capsys, monkeypatch, "history", "import", "missing.json", output="0 runs read, 0 of them new\n"
    )


# -- compare ----------------------------------------------------------------------------------------------------------


def two(a: Any, b: Any) -> Result:
    return run("compare", written(a, "a.json"), written(b, "b.json"))


def test_the_exit_code_is_1_if_a_result_is_slower() -> None:
    done = two(day(1, 941), day(2, 880))
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "A: a.json (1 run of 6.12.25-v8+ bcmgenet, emulated)",
        "B: b.json (1 run of 6.12.25-v8+ bcmgenet, emulated)",
        "",
        "metric                                  A             B  change  B is",
        f"{FIGURE}  941.0 Mbit/s  880.0 Mbit/s   -6.5%  SLOWER",
        "    1 against 1 run",
        "",
        "1 metric: 1 slower",
    ]


@pytest.mark.parametrize(
    ("a", "b", "code", "word"),
    [
        (day(1, 941), day(2, 935), 0, "same"),
        (day(1, 800), day(2, 941), 0, "faster"),
        (day(1, 941, interval_bps=[900e6, 980e6]), day(2, 900, interval_bps=[860e6, 940e6]), 3, "INCONCLUSIVE"),
        (day(1, 941), day(2, 500, "invalid"), 3, "MISSING"),
        (day(1, 941), day(2, 941).replace(figures="measured"), 3, "not comparable"),
        (run_record([]), run_record([]), 3, "no metric to compare"),
    ],
)
def test_the_exit_code_is_the_result_of_the_comparison(a: Any, b: Any, code: int, word: str) -> None:
    done = two(a, b)
    assert done.exit_code == code
    assert word in done.output


def test_other_parameters_are_not_comparable() -> None:
    done = two(day(1), with_result(day(2, 800), parameters="other"))
    assert done.exit_code == 3
    assert "measured with different parameters" in done.output


def test_runs_of_the_history_are_compared() -> None:
    keep(slower(count=40))
    assert run("compare", "latest~1", "latest").exit_code == 0
    assert run("compare", "night-3-", "latest").exit_code == 1
    assert run("compare", "night-3-", "latest", "--tolerance", "10").exit_code == 0


def test_builds_are_compared_with_all_their_runs() -> None:
    keep(slower())
    done = run("compare", "6.12.20", "6.12.21")
    assert done.exit_code == 1
    assert "A: 6.12.20 (20 runs of 6.12.20-v8+ bcmgenet, emulated)" in done.output
    assert (
        "slower: -5.3 % (-5.8 to -4.8 %), tolerance 3%; 20 runs against 20; their\n    days may differ by 0.35 %"
        in done.output
    )
    (one,) = json.loads(run("compare", "6.12.20", "6.12.21", "--json").output)
    assert (one["verdict"], one["skipped"]) == ("fail", "")
    assert one["change"] == pytest.approx(-0.053, abs=0.002)


def test_option_k_selects_results() -> None:
    a = written(run_record(NIGHT), "a.json")
    assert run("compare", a, a, "-k", "aqc107").output.splitlines()[-1] == "2 metrics: 2 same"
    assert max(map(len, run("compare", a, a).output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("gone.json", "there is no file 'gone.json'; expected a results.json, a run folder, a run of the history"),
        ("6.99", "has no run and no build '6.99'; expected a results.json"),
        ("latest~7", "has only 2 runs, so there is no 'latest~7'"),
        ("night-", "several runs begin with 'night-'"),
    ],
)
def test_an_unknown_run_is_a_mistake(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str, message: str
) -> None:
    keep(slower(count=2))
    assert message in mistake(capsys, monkeypatch, "compare", what, "latest")


# -- summary ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (run_record(NIGHT), "Throughput fails in 2 of 11 measurements."),
        (run_record(NIGHT[:1]), "Throughput holds: one measurement meets its limit."),
        (run_record(NIGHT[:4]), "Throughput holds: all 4 measurements meet their limits."),
        (run_record(NIGHT[-1:]), "Nothing was measured, so there is no verdict."),
        (run_record([]), "Nothing was measured, so there is no verdict."),
        (run_record(NIGHT[8:10]), "No verdict: nothing failed, but 1 inconclusive, 1 invalid of 2 measurements."),
    ],
)
def test_a_summary_begins_with_the_verdict_in_words(record: Any, words: str) -> None:
    words += " The values are emulated."
    assert verdict_in_words(record) == words
    path = written(record)
    assert run("summary", path, "--format", "md").output.splitlines()[0] == f"## {words}"
    assert run("summary", path).output.splitlines()[0] == words


def test_an_interrupted_run_has_no_verdict() -> None:
    record = run_record(NIGHT[:1], figures="measured", complete=False)
    words = "No verdict: nothing failed, and one measurement meets its limit. The run was interrupted."
    assert verdict_in_words(record) == words


def test_a_markdown_page_lists_failures_first_and_folds_the_rest() -> None:
    text = summary_markdown(run_record(NIGHT, NIGHT_SKIPPED))
    table, _, rest = text.partition("<details>")
    assert table.count("| \u274c FAIL |") == 2
    assert "pass |" not in table
    assert "<summary>cm4:onboard/pair: ERROR</summary>" in rest
    assert "-> check the cable between cm4-1 and port sw1/5" in rest
    assert "<summary>6 that pass</summary>" in rest
    assert "<summary>2 not measured</summary>" in rest
    assert rest.count("<details") + 1 == rest.count("</details>")


def test_a_markdown_page_has_each_failure_of_a_change_and_the_reason_of_undecided_ones_once() -> None:
    ends = [f"{board}:onboard/pair" for board in ("pi4b", "pi5")]
    for relation, blocks in (("slower", 2), ("inconclusive", 1)):
        found = [compared(end, "tx", -0.02, relation).replace(message=f"text of {end}") for end in ends]
        assert summary_markdown(change_run(found)).count("text of ") == blocks


def test_a_markdown_page_shows_the_shares_of_flows() -> None:
    one = result("pi4b:onboard/incast:2", {"rx": direction(941e6, 885e6)})
    flows = [
        FlowRecord(
            **direction(rate).model_dump(), name=name, sender=name[0], receiver="a", direction="rx", fair_bps=rate
        )
        for name, rate in (("b>a", 470e6), ("c>a", 471e6))
    ]
    even = EvennessJudgement(least_share=0.998, least_flow="b>a", jain=1.0, limits=(), verdict=Verdict.PASS, reason="")
    one = one.replace(flows=flows, evenness=even)
    shares = r"<br>2 flows, 470.0 to 471.0 Mbit/s; the worst got 99.8 % of its fair share \(b\>a\), Jain's index 1.000"
    assert shares in summary_markdown(run_record([one]))


def test_markdown_in_messages_is_escaped() -> None:
    one = result(
        "pi4b:onboard/pair", {"tx": direction(7e8, 9e8, "fail")}, message="``` <script> | x\nnext", notes=("a|b",)
    )
    text = summary_markdown(run_record([one.replace(build={"uname": "Linux <b>|6.1|</b> `x`"})]))
    assert "<script>" not in text.partition("```text")[0]
    assert text.count("```") == 2
    assert r"Linux \<b\>\|6.1\|\</b\> \`x\`" in text


def test_a_page_fits_into_a_comment_of_a_merge_request() -> None:
    many = [result(f"pi4b:nic{n}/pair", {"tx": direction(941e6, 885e6)}) for n in range(2000)]
    many += [
        result(f"pi4b:bad{n}/pair", {"tx": direction(700e6, 885e6, "fail")}, message="slow\n" * 20) for n in range(50)
    ]
    text = summary_markdown(run_record(many))
    assert len(text) <= MOST_CHARACTERS
    assert text.count("<details") == text.count("</details>")
    assert text.rstrip().endswith("</sub>")


def test_a_summary_without_a_run_is_a_mistake(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no '.pinet/latest'; expected a results.json or a run folder" in mistake(
        capsys, monkeypatch, "summary"
    )
    Path("empty").mkdir()
    assert "empty has no results.json" in mistake(capsys, monkeypatch, "summary", "empty")


# -- export -----------------------------------------------------------------------------------------------------------


def test_openmetrics_output_can_be_parsed() -> None:
    one = result('pi4b:o"n\\b/pair', {"tx": direction(941e6)})
    text = run("export", written(run_record([*NIGHT, one])), "--format", "openmetrics").output
    families = {family.name: family for family in families_of(text)}
    goodput = families["pinet_goodput_bits_per_second"]
    assert goodput.unit == "bits_per_second"
    by_figure = {sample.labels["figure"]: sample.value for sample in goodput.samples}
    assert by_figure[FIGURE] == 941.3e6
    assert by_figure['pi4b:o"n\\b/pair/tcp-P1-tx'] == 941e6
    assert len(families["pinet_limit_bits_per_second"].samples) < len(by_figure)
    verdicts = [
        s for s in families["pinet_verdict"].samples if s.value == 1 and s.labels["figure"] == "cm4:onboard/pair"
    ]
    assert [sample.labels["pinet_verdict"] for sample in verdicts] == ["error"]
    assert all(sample.labels["emulated"] == "true" for sample in goodput.samples)


def test_a_run_of_the_history_is_exported_by_its_id() -> None:
    keep([run_record(NIGHT), day(1, 941)])
    text = run("export", "night-1", "--format", "openmetrics", "-o", "-").output
    (family,) = [f for f in families_of(text) if f.name == "pinet_goodput_bits_per_second"]
    assert [sample.value for sample in family.samples] == [941e6]


def test_openmetrics_has_each_result_once() -> None:
    again = run_record([NIGHT[3], NIGHT[3]])
    text = run("export", written(again), "--format", "openmetrics").output
    (family,) = [f for f in families_of(text) if f.name == "pinet_goodput_bits_per_second"]
    assert len(family.samples) == 1


@pytest.mark.parametrize("command", [["history"], ["history", "import", "results.json"]])
def test_a_history_that_is_off_is_no_file(
    command: list[str], here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINET_HISTORY", "off")
    (here / "results.json").touch()
    message = mistake(capsys, monkeypatch, *command)
    assert "the history is 'off': runs are not stored; name a history with --history" in message
    assert not (here / "off").exists()
