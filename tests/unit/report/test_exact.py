"""What reports say of an exact gate: terminal, failure, Markdown, page, JUnit, Allure and results.json."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from pytest_pinet.cli import run as main
from pytest_pinet.history.history import keep_run, lines_of, open_history
from pytest_pinet.history.points import PointList, Trend
from pytest_pinet.history.records import points_of
from pytest_pinet.history.text import figure_lines, gate_lines
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord, SkippedRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.allure.content import attachments, description_html, parameters, title
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.run_files import write_run_files
from pytest_pinet.report.change_table import change_lines, emulated_words
from pytest_pinet.report.exact_text import board_text, exact_label, function_lines, function_rows, shift_text, window_of
from pytest_pinet.report.export.annotations import github
from pytest_pinet.report.export.cases import ktap, lava
from pytest_pinet.report.export.kcidb import kcidb
from pytest_pinet.report.export.openmetrics import openmetrics
from pytest_pinet.report.failure import failure_text
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.page.change import change_section
from pytest_pinet.report.page.page import page
from pytest_pinet.report.run_folder import json_text
from pytest_pinet.report.trends import RunFacts, all_series, series_with
from tests.support.exact_boots import IDENTITY, RECEIVE, boot, window, with_module
from tests.support.exact_records import of_boots, records, run_of
from tools.results_schema import SCHEMA_FILE

NOPS, SLOW = records("nops"), records("slow")


def test_the_part_of_a_change_that_is_not_judged_is_named() -> None:
    assert [shift_text(one.exact) for one in NOPS if one.exact is not None] == [
        "",
        "+36.00 of the change is in functions that differ between any two binaries (allocators, scheduler, timers). "
        "This part is not judged.",
    ]


WAITING = ((151.0, 5297.0), (141.0, 5000.0))


def terminal(results: list[ResultRecord], name: str) -> list[str]:
    run = run_of(results, name)
    assert run.change is not None
    return change_lines(run.change, results=run.results)


class TestTerminal:
    def test_a_change_below_the_limits_is_listed(self) -> None:
        assert terminal(NOPS, "nops")[2:] == [
            "",
            "instructions per packet or answer; rates in virtual time (/s: answers):",
            "",
            "macb         A instr.  B instr.  change     B rate  change  outcome",
            "frame-60-rx   4752.00   4792.00  +0.84%   5296 pps  -0.02%  unchanged",
            "frame-60-tx   2330.00   2330.00  +0.00%  13690 pps  +0.00%  unchanged",
            "",
            "functions of macb that changed (instructions per packet or answer):",
            "function       in                A       B  change",
            "gem_rx [macb]  frame-60-rx  151.00  155.00   +4.00",
            "    drivers/net/ethernet/cadence/macb_main.c:1302",
            "___slab_alloc  frame-60-rx   40.00   76.00  +36.00",
            "    shifts with any binary: not judged by itself",
            "",
            "macb: virt with gem, QEMU 7.2.22 (emulated, exact)",
            "time of the boots: macb A 42.0 s, B 42.0 s",
            "",
            "2 unchanged; 2 boots",
            "nops may be merged: none of 2 metrics is slower than with the stock kernel;",
            "  first of 2 functions that changed: gem_rx [macb] 151.00 -> 155.00 (+4.00).",
        ]

    def test_a_regression_names_the_function(self) -> None:
        lines = terminal(SLOW, "slow")
        assert lines[0] == "A: the stock kernel of the exact boards"
        assert "frame-60-rx   4752.00   5233.00  +10.12%   4890 pps  -7.68%  REGRESSION" in lines
        assert lines[-3:] == [
            "slow must not be merged: 1 of 2 metrics slower, by 7.7 % in macb frame-60-rx,",
            "  against the stock kernel; largest growth: gem_rx [macb] 151.00 -> 631.00",
            "  (+480.00).",
        ]

    @pytest.mark.parametrize("results", [NOPS, SLOW])
    def test_lines_fit_80_columns(self, results: list[ResultRecord]) -> None:
        assert max(map(len, terminal(results, "a build with quite a long name"))) <= 80

    def test_values_are_marked(self) -> None:
        assert emulated_words(run_of(NOPS, "nops")).startswith("values are emulated, exact: instructions of a virtual")

    def test_an_equal_kernel_has_no_list_of_functions(self) -> None:
        lines = terminal(records("good"), "good")
        assert lines[-1] == "good may be merged: none of 2 metrics is slower than with the stock kernel."
        assert not any(line.startswith("function") for line in lines)

    def test_missing_functions_have_a_reason(self) -> None:
        without = "there is no C compiler; install gcc"
        identity = replace(IDENTITY, plugin_api=None, no_functions=without)
        plain = boot(replace(window(RECEIVE), instructions=None, functions={}), identity=identity)
        lines = terminal(of_boots(plain, plain, "same"), "same")
        assert "frame-60-rx         -         -       -  5297 pps  +0.00%  unchanged" in lines
        assert f"functions were not counted: {without}" in lines


def test_fewer_instructions_are_no_growth() -> None:
    """A function that waits executes less, and the window takes longer."""
    a, b = (boot(window({**RECEIVE, "gem_rx [macb]": own}, "pktgen", rate=rate)) for own, rate in WAITING)
    sentence = " ".join(" ".join(terminal(of_boots(a, b, "waiting"), "waiting")[-2:]).split())
    assert sentence.endswith("; the only function that changed: gem_rx [macb] 151.00 -> 141.00 (-10.00).")


def test_a_failure_shows_the_functions_of_its_window() -> None:
    failed = next(one for one in SLOW if one.verdict == "fail").replace(rerun="pytest test_x.py")
    assert failure_text(failed).splitlines() == [
        "macb frame-60-rx: gem_rx [macb] 151.00 -> 631.00 instructions per packet",
        "    (+480.00); sum 4752.00 -> 5233.00 (+481.00); goodput -7.68 %: instructions",
        "    grow by more than 1% and 20 instructions (default)",
        "  function          in                A       B   change",
        "  gem_rx [macb]     frame-60-rx  151.00  631.00  +480.00",
        "      drivers/net/ethernet/cadence/macb_main.c:1302",
        "  macb_poll [macb]  frame-60-rx   60.00   61.00    +1.00",
        "  rate       5297 pps -> 4890 pps (virtual time)",
        "  board      virt with gem, QEMU 7.2.22 (emulated, exact)",
        "  repeat     pytest test_x.py",
    ]


def test_at_most_ten_functions_are_named_and_the_others_are_counted() -> None:
    many = {f"macb_part_{number} [macb]": 10.0 + number for number in range(15)}
    identity = replace(IDENTITY, modules={"macb": "new"})
    found = of_boots(boot(window(RECEIVE)), boot(window({**RECEIVE, **many}), identity=identity), "parts")
    rows = function_rows(found)
    lines = function_lines(rows)
    assert len(rows) == 15
    assert lines[1].split() == ["macb_part_14", "[macb]", "frame-60-rx", "0.00", "24.00", "+24.00"]
    assert lines[-1] == "and 5 more functions, in results.json"
    assert len(lines) == 12


def test_a_long_name_has_a_line_of_its_own() -> None:
    name = "a_function_whose_name_is_so_long_that_no_table_of_a_terminal_can_hold_it [macb]"
    found = of_boots(boot(window(RECEIVE)), boot(window({**RECEIVE, name: 12.0, "skb_put": 3.0})), "long")
    lines = function_lines(function_rows(found), indent="  ")
    assert lines[1].startswith("  a_function_whose_name_is_so_long")
    assert lines[1].endswith("can_hold_it [macb]")
    assert lines[2].split() == ["frame-60-rx", "0.00", "12.00", "+12.00"]
    assert max(map(len, lines)) <= 80


def called_more_often(changed: str = "gem_poll.isra.0") -> list[ResultRecord]:
    """Return results of a build that changed one function, which calls another one more often."""
    same = {"gem_poll [macb]": 60.0, "gem_read [macb]": 40.0, "skb_put": 2000.0}
    longer = {"gem_poll [macb]": 90.0, "gem_read [macb]": 90.0, "skb_put": 2000.0}
    a, b = boot(window(same)), boot(window(longer), identity=with_module("macb"))
    return of_boots(a, b, "polls", code={"macb": [changed]})


def test_a_function_with_the_same_code_is_behind_those_that_the_build_changed() -> None:
    found = called_more_often()
    assert function_lines(function_rows(found))[1:] == [
        "gem_poll [macb]  frame-60-rx  60.00  90.00  +30.00",
        "gem_read [macb]  frame-60-rx  40.00  90.00  +50.00",
        "    same code",
    ]
    sentence = " ".join(" ".join(terminal(found, "polls")[-3:]).split())
    assert sentence.endswith("largest growth: gem_poll [macb] 60.00 -> 90.00 (+30.00).")
    assert "frame-60-rx: gem_poll [macb] 60.00 -> 90.00 instructions per packet (+30.00)" in found[0].message


def test_the_largest_growth_is_named_if_no_changed_function_grew() -> None:
    found = called_more_often("gem_open")
    assert [row.record.name for row in function_rows(found)] == ["gem_read", "gem_poll"]
    assert "frame-60-rx: gem_read [macb] 40.00 -> 90.00" in found[0].message


def test_a_driver_that_is_built_in_is_named_below_its_function() -> None:
    identity = replace(IDENTITY, modules={})
    same, longer = ({"gem_rx": 151.0 + more, "skb_put": 4000.0} for more in (0.0, 4.0))
    found = of_boots(boot(window(same), identity=identity), boot(window(longer), identity=identity), "built in")
    assert function_lines(function_rows(found))[1:] == [
        "gem_rx    frame-60-rx  151.00  155.00   +4.00",
        "    drivers/net/ethernet/cadence/macb_main.c:1302; driver under test, built in",
    ]


def test_the_driver_is_before_larger_changes_of_the_rest_of_another_kernel() -> None:
    a = replace(IDENTITY, modules={})
    same, longer = {"gem_rx": 151.0, "skb_put": 9000.0}, {"gem_rx": 155.0, "skb_put": 9015.0}
    found = of_boots(boot(window(same), identity=a), boot(window(longer), identity=replace(a, image="new")), "new")
    assert [row.record.name for row in function_rows(found)] == ["gem_rx", "skb_put"]
    sentence = " ".join(" ".join(terminal(found, "new")[-3:]).split())
    assert sentence.endswith("first of 2 functions that changed: gem_rx 151.00 -> 155.00 (+4.00).")


def test_of_several_nics_the_one_whose_driver_changed_is_named() -> None:
    a = replace(IDENTITY, modules={})
    other = replace(a, board="genet", driver="bcmgenet", driver_functions="bcmgenet_")
    same, longer = {"gem_rx": 151.0, "skb_put": 9000.0}, {"gem_rx": 155.0, "skb_put": 9015.0}
    found = []
    for identity, before, after in ((other, same, longer), (a, {"gem_rx": 151.0}, {"gem_rx": 155.0})):
        b = replace(identity, image="new")
        found += of_boots(boot(window(before), identity=identity), boot(window(after), identity=b), "new")
    sentence = " ".join(" ".join(terminal(found, "new")[-3:]).split())
    assert "functions that changed: gem_rx 151.00 -> 155.00 (+4.00)." in sentence


def test_functions_at_full_load_are_listed_only_where_the_window_is_slower() -> None:
    a = boot(window(RECEIVE, "pktgen"))
    batched = of_boots(a, boot(window({**RECEIVE, "gem_rx [macb]": 155.0}, "pktgen")), "batched")
    assert function_rows(batched) == []
    (slower,) = function_rows(of_boots(a, boot(window({**RECEIVE, "gem_rx [macb]": 951.0}, "pktgen")), "slower"))
    assert (slower.window, slower.record.change) == ("pktgen-60-rx", 800.0)


def test_functions_of_a_failing_window_are_before_larger_and_smaller_ones_of_passing_windows() -> None:
    sent, sent_more = ({"macb_start_xmit [macb]": 320.0 + more, "skb_put": 3000.0} for more in (0.0, 4.0))
    received, received_more = RECEIVE, {**RECEIVE, "gem_rx [macb]": 631.0}
    a = boot(window(sent, direction=Direction.TX), window(received, "pktgen"))
    windows = window(sent_more, direction=Direction.TX), window(received_more, "pktgen")
    rows = function_rows(of_boots(a, boot(*windows, identity=with_module("macb")), "slower"))
    assert [(row.window, row.record.change) for row in rows] == [("pktgen-60-rx", 480.0), ("frame-60-tx", 4.0)]


def test_a_function_that_changed_only_in_batches_is_behind_the_one_that_changed_one_by_one() -> None:
    polled = {"gem_poll [macb]": 438.0, **RECEIVE}
    longer = {**polled, "gem_rx [macb]": RECEIVE["gem_rx [macb]"] + 4}
    a = boot(window(polled), window(polled, "pktgen"))
    # Smaller batches: the poll runs more often for each frame.
    windows = window(longer), window({**longer, "gem_poll [macb]": 939.0}, "pktgen")
    rows = function_rows(of_boots(a, boot(*windows, identity=with_module("macb")), "slower"))
    assert [(row.record.name, row.window) for row in rows] == [("gem_rx", "frame-60-rx"), ("gem_poll", "pktgen-60-rx")]


def test_markdown_has_both_tables() -> None:
    text = summary_markdown(run_of(SLOW, "slow"))
    assert "The values are emulated, exact." in text.splitlines()[0]
    assert "| macb frame-60-rx | 4752.00 | 5233.00 | +10.12 % | 4890 pps | -7.68 % | \u274c regression |" in text
    assert "| macb frame-60-tx | 2330.00 | 2334.00 | +0.17 % | 13690 pps | +0.00 % | \u2705 unchanged |" in text
    first = next(line for line in text.splitlines() if line.startswith("| gem"))
    source = r"drivers/net/ethernet/cadence/macb\_main.c:1302"
    assert first == rf"| gem\_rx \[macb\] | frame-60-rx | 151.00 | 631.00 | \+480.00 | {source} |"


def test_the_page_has_a_bar_for_each_function_and_the_rates() -> None:
    skipped = SkippedRecord(id="test_exact[igb]", reason="build slow has no driver igb")
    run = run_of(SLOW, "slow").replace(finished="2026-11-24T12:01:15+00:00", skipped=(skipped,))
    assert run.change is not None
    section = change_section(run, run.change)
    assert section.count('<rect class="f-bad"') == 3
    text = section.replace("\u00a0", " ")
    assert "on exact boards, 2026-11-24 12:00 UTC, 75 s, 2 boots" in text
    assert "time of the boots: macb A 42.0 s, B 42.0 s" in text
    assert "test_exact[igb]: build slow has no driver igb" in text
    assert '<td class="number">4890 pps</td><td class="number">-7.68\u00a0%</td>' in section
    assert "drivers/net/ethernet/cadence/macb_main.c:1302" in section


def test_gates_of_several_builds_are_apart_on_the_page_each_with_its_instructions(tmp_path: Path) -> None:
    """No chart joins the builds of different gates, and no goodput stands where instructions were judged."""
    url = str(tmp_path / "h.db")
    for number, name in enumerate(("nops", "slow", "good")):
        run = run_of(records(name), name)
        assert keep_run(url, run.replace(run=f"2026112{number}-120000"), tmp_path) is None
    with open_history(url) as store:
        series, gates = all_series(store, 60), store.gates(10)
    assert series == []
    text = page(series, datetime(2026, 11, 25, tzinfo=UTC), gates=gates)
    assert "  exact:macb/pair/qemu=7.2.22/frame-60-rx  4752.00 -> 5233.00 instructions  regression" in gate_lines(
        gates[1]
    )
    titles = re.findall("gate of (?:nops|slow|good) against stock kernel: [a-z]+", text)
    assert sorted(set(titles)) == [
        "gate of good against stock kernel: pass",
        "gate of nops against stock kernel: pass",
        "gate of slow against stock kernel: regression",
    ]
    of_slow = text.partition("gate of slow against stock kernel: regression</span>")[2].partition("</details>")[0]
    row = of_slow.partition("macb frame-60-rx</th>")[2].partition("</tr>")[0]
    assert re.findall(r'<td class="number">([^<]*)<', row) == ["4752.00", "5233.00", "+10.12\u00a0%", "-7.68\u00a0%"]
    assert "Trends" not in text
    assert "it/s" not in text.partition("<main>")[2].partition("</main>")[0]


def test_a_page_about_an_exact_gate_has_the_gates_of_this_build_alone(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    for number, name in enumerate(("slow", "nops", "slow")):
        run = run_of(records(name), name).replace(
            run=f"2026112{number}-120000", started=f"2026-11-2{number}T12:00:00", finished=f"2026-11-2{number}T12:00:31"
        )
        assert keep_run(url, run, tmp_path) is None
    with open_history(url) as store:
        gates = store.gates(10)
    text = page((), datetime(2026, 11, 25, tzinfo=UTC), run, gates=gates)
    assert "<title>Exact gate of slow</title>" in text
    assert ">Earlier gates of slow</h2>" in text
    assert "2026-11-20 12:00 gate of slow against stock kernel: regression" in text
    assert "gate of nops" not in text
    assert "2026-11-20 12:00 UTC, 31\u00a0s, 2 boots" in text
    assert "none of 2 metrics" not in text
    assert "it/s" not in text.partition("<main>")[2].partition("</main>")[0]


def test_junit_has_instructions_and_functions() -> None:
    found = dict(junit_properties(SLOW))
    assert found["pinet.tuning"] == "qemu=7.2.22"
    assert (found["pinet.rx.instructions_a"], found["pinet.rx.instructions_b"]) == (4752.0, 5233.0)
    assert (found["pinet.rx.packets_per_second_a"], found["pinet.rx.packets_per_second_b"]) == (5297.0, 4890.0)
    assert found["pinet.rx.functions"] == "gem_rx [macb] 151.00 -> 631.00; macb_poll [macb] 60.00 -> 61.00"
    assert not [name for name in found if name.endswith("_bps")]
    assert "pinet.rx.retransmits" not in found


def test_exports_of_verdicts_have_instructions_and_no_rate_in_bits() -> None:
    run = run_of(SLOW, "slow")
    texts = [export(run, {}) for export in (ktap, lava, github)]
    texts.append(kcidb(run, {"git_commit": "0e44d9fed54654d05b4c841b78fb077dac90c249"}))
    for text in texts:
        assert "bit/s" not in text
        assert "_bps" not in text
    assert "UNITS=instructions MEASUREMENT=5233.00>" in texts[1]
    numbers = [one["number"] for one in json.loads(texts[3])["tests"]]
    assert [(one["value"], one["unit"]) for one in numbers] == [(2334.0, "instructions"), (5233.0, "instructions")]


def test_files_of_a_run_for_allure_have_instructions_and_no_rate_in_bits(tmp_path: Path) -> None:
    run = run_of(SLOW, "slow")
    write_run_files(tmp_path, run, RunFacts("x", "6.1"), {})
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert not [name for name, text in texts.items() if "bit/s" in text or "_bps" in text]
    (values,) = (json.loads(text) for name, text in texts.items() if name.endswith("-perf.json"))
    assert [(one["value"], one["unit"], one["better"]) for one in values] == [
        (2334.0, "instructions per packet", "lower"),
        (5233.0, "instructions per packet", "lower"),
    ]
    (table,) = (text for name, text in texts.items() if name.endswith(".csv"))
    assert table.splitlines()[2].startswith(
        "exact:macb/pair/qemu=7.2.22/frame-60-rx,fail,packet,4752.0,5233.0,5297.0,4"
    )
    subject = Subject(CombinationId("exact", "macb", "pair"), "test_exact", {}, "test_exact.py")
    assert ("change frame-60-rx", "+10.12% instructions", True) in parameters(subject, SLOW)


def test_runs_of_exact_gates_are_not_compared_by_goodput(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(tmp_path / f"{name}.json") for name in ("nops", "slow")]
    for path, name in zip(paths, ("nops", "slow"), strict=True):
        Path(path).write_text(json_text(run_of(records(name), name)))
    assert main(["compare", *paths]) == 4
    assert (
        "nops.json has values of exact gates, each of which compares two builds by itself: " in capsys.readouterr().err
    )


def test_allure_has_the_functions_as_a_table() -> None:
    html = description_html(SLOW, ())
    assert "<td>frame-60-rx</td><td>4752.00</td><td>5233.00</td><td>+10.12%</td><td>fail</td>" in html
    assert "goodput</th>" not in html
    # The values of a build that is gated belong to no trend.
    assert series_with(None, SLOW, 60, True) == []
    assert "5297 pps -&gt; 4890 pps in virtual time" in html
    assert "gem_rx [macb] frame-60-rx 151.00 631.00 +480.00: drivers/net/ethernet/cadence/macb_main.c:1302" in html
    (_, kind, content) = next(one for one in attachments(SLOW, (), None, {}) if one[0].endswith("/frame-60-rx"))
    assert kind == "text/csv"
    assert content.decode().splitlines()[:2] == [
        "function,module,A,B,change,comparison,source",
        "gem_rx,macb,151.0,631.0,480.0,changed module,drivers/net/ethernet/cadence/macb_main.c:1302",
    ]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        ("nops", "exact:macb/pair · 2 unchanged"),
        ("slow", "exact:macb/pair · frame-60-rx +10.12% instructions · 1 unchanged · fail"),
    ],
)
def test_the_title_in_allure_has_the_windows_that_changed(build: str, text: str) -> None:
    subject = Subject(CombinationId("exact", "macb", "pair"), "test_exact", {}, "test_exact.py")
    assert title(subject, records(build)) == text


@pytest.mark.parametrize(
    ("traffic", "octets", "packets", "text"),
    [
        ("frame", 60, 256, "256 pps"),
        ("sender", 1514, 2500, "2500 pps"),
        ("request", 64, 64, "64 /s"),
        ("tcp", 9_000_000, 6216, "72.0 Mbit/s"),
        ("replug", 64, 1, "1000.000 ms"),
    ],
)
def test_each_traffic_has_its_own_rate(traffic: str, octets: int, packets: int, text: str) -> None:
    """Each in one virtual second."""
    same = boot(window({"skb_put": 20.0}, traffic, octets=octets, packets=packets, rate=packets))
    (line,) = (line for line in terminal(of_boots(same, same, "same"), "same") if line.startswith(traffic))
    assert f"  {text}  +0.00%  unchanged" in line


def test_the_table_of_the_longest_names_and_values_fits_80_columns() -> None:
    one = window({"skb_put": 12345.67}, "pktgen", Direction.TX, 1514, 2500, 62_500.0)
    other = window({"skb_put": 307154.31}, "bulk", Direction.TX, 16384, 16, 12.0)
    tcp = window({"skb_put": 10000.0}, "tcp", Direction.TX, 9_000_000, 6216, 9000.0)
    slow = [replace(each, virtual_ns=each.virtual_ns * 3) for each in (one, other, tcp)]
    lines = terminal(of_boots(boot(one, other, tcp), boot(*slow), "slow"), "slow")
    assert "pktgen-1514-tx   12345.67   12345.67  +0.00%    20833 pps  -66.67%  REGRESSION" in lines
    assert max(map(len, lines)) <= 80


def test_the_history_keeps_the_values_of_the_build_and_exports_have_them(tmp_path: Path) -> None:
    assert keep_run(str(tmp_path / "h.db"), run_of(SLOW, "slow"), tmp_path) is None
    with open_history(str(tmp_path / "h.db")) as store:
        ((_, unsorted),) = store.everything()
    points = sorted(unsorted, key=lambda point: point.figure, reverse=True)
    shown = [figure_lines(Trend(one.figure, one.lab, PointList([one, one]))) for one in points]
    assert [lines[0].split("  ")[1] for lines in shown] == [
        "2334.00 instructions emulated",
        "5233.00 instructions emulated",
    ]
    # Each value belongs to a gated build: there is no course, and no rate beside it.
    assert all(len(lines) == 1 for lines in shown)
    assert {(one.value, one.interval, one.limit) for one in points} == {(None,) * 3}
    assert [(one.figure.rpartition("/")[2], one.instructions, str(one.verdict)) for one in points] == [
        ("frame-60-tx", 2334.0, "pass"),
        ("frame-60-rx", 5233.0, "fail"),
    ]
    assert [one.packets_per_second for one in points] == pytest.approx([13690.0, 4890.0])
    for name, value in (("instructions_per_packet", 2334.0), ("packets_per_second", 13690.0)):
        gauge = next(line for line in openmetrics(points).splitlines() if line.startswith(f"pinet_{name}{{"))
        assert 'figure="exact:macb/pair/qemu=7.2.22/frame-60-tx"' in gauge
        assert float(gauge.rpartition(" ")[2]) == pytest.approx(value)
    assert not [line for line in openmetrics(points).splitlines() if line.startswith("pinet_goodput_bits")]
    _, _, again, *_ = lines_of([(run, own) for run, own in [points_of(run_of(SLOW, "slow"))]])
    assert json.loads(again)["point"]["instructions"] == 2334.0
    assert json.loads(again)["point"]["packets_per_second"] == pytest.approx(13690.0)


def test_values_of_a_kernel_with_other_pages_are_another_metric() -> None:
    a, b = (
        boot(window(RECEIVE), identity=replace(IDENTITY, image=image, pages_kib=16, machine="virt-a76"))
        for image in ("old", "new")
    )
    (found,) = of_boots(a, b, "large pages")
    assert found.id == "exact:macb/pair/qemu=7.2.22+pages=16k/frame-60-rx"
    assert exact_label(found.id) == "macb frame-60-rx"
    assert window_of(found.combination.id) == ""
    assert found.exact is not None
    assert board_text(found.exact) == "virt-a76 with gem, QEMU 7.2.22 (emulated, exact)"


def test_results_json_follows_the_schema_and_is_read_again(tmp_path: Path) -> None:
    run = run_of(SLOW, "slow")
    content = json.loads(json_text(run))
    jsonschema.validate(content, json.loads(SCHEMA_FILE.read_text()))
    rx = next(one for one in content["results"] if one["id"].endswith("-rx"))
    assert rx["id"] == "exact:macb/pair/qemu=7.2.22/frame-60-rx"
    change = rx["change"]["directions"]["rx"]
    assert change["interval"] == [change["change"], change["change"]]
    assert rx["exact"]["functions"][0]["name"] == "gem_rx"
    assert rx["exact"]["more"] == 0
    assert type(run).model_validate(content) == run
