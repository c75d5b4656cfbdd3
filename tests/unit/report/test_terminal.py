import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.model.record.result import ResultRecord, SkippedRecord
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.terminal import WORDS, count_line, summary_table
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, direction, result

NIGHT_TABLE = """\
combination                           dir  Mbit/s  limit  of max  verdict
pi4b:onboard/pair                     rx    700.2  885.0   74.4%  FAIL
cm4:aqc107/pair tcp-P4-w262144-M1460  tx     3020   3400   32.1%  FAIL
cm4:onboard/pair                      -         -      -       -  ERROR
    no carrier on eth0 of cm4-1 after 20 s: switch port sw1/5 is
    administratively up and reports no link.
pi5:onboard/pair                      tx    951.0  885.0  101.0%  INVALID
    951.0 Mbit/s is above the physical limit 941.5 Mbit/s (1000 Mbit/s link, MTU
    1500, TCP timestamps): a measurement error
pi5:rtl8125b/pair                     rx     2210   2200   93.9%  INCONCLUSIVE
    five repeats spread by 3.1 %, the limit is 0.5 % away
pi3b:rtl8153/pair                     tx    321.4  300.0   75.4%  marginal
pi4b:ax88179/pair tcp-P10             tx    941.5  700.0  100.0%  improved
cm4:aqc107/pair tcp-P4-w262144-M8960  tx     3590   3400   38.1%  pass
pi4b:onboard/pair tcp-P1-bidir        rx    939.8  885.0   99.8%  pass
pi3b:onboard/pair                     tx     94.1   88.5   99.9%  pass
pi4b:onboard/pair tcp-P1-bidir        tx    941.2  885.0  100.0%  pass
pi4b:onboard/pair                     tx    941.3  885.0  100.0%  pass
pi5:i226v/pair                        tx     2340   none   99.4%  pass

not measured:
  pi3b:rtl8125b/pair
    no NIC 'rtl8125b' in a pi3b of lab virtual (have: onboard, rtl8153)
  pi4b:rtl8125b/pair
    no NIC 'rtl8125b' in a pi4b of lab virtual (have: onboard, ax88179)

11 measured: 5 pass, 1 improved, 1 marginal, 1 inconclusive, 1 invalid, 2 fail;
  3 not measured: 2 skipped, 1 error
run folder: .pinet/runs/20261121-000102
json: build/pinet.json
"""

verdicts = st.sampled_from([v.value for v in Verdict])
figures = st.floats(min_value=0, max_value=1e300)


def directions() -> st.SearchStrategy[Any]:
    one = st.builds(
        lambda goodput, limit, verdict, oracle, reason: direction(goodput, limit, verdict, oracle, reason=reason),
        figures,
        st.none() | figures,
        verdicts,
        figures,
        st.text(),
    )
    return st.dictionaries(st.sampled_from(["tx", "rx"]), one)


def results() -> st.SearchStrategy[ResultRecord]:
    return st.builds(
        lambda combination, parts, verdict, message, traffic, test: result(
            combination, parts, verdict, message, traffic, test
        ),
        st.text() | st.from_regex(r"[a-z0-9]{1,60}:[a-z0-9]{1,40}/pair", fullmatch=True),
        directions(),
        verdicts,
        st.text(),
        st.sampled_from(["tcp-P1", "udp-P10-b1000M-bidir"]),
        st.text(),
    )


class TestTable:
    def test_a_night_in_the_lab(self) -> None:
        lines = summary_table(
            NIGHT, NIGHT_SKIPPED, run_folder=".pinet/runs/20261121-000102", json_path="build/pinet.json"
        )

        assert "\n".join(lines) + "\n" == NIGHT_TABLE

    @settings(max_examples=50, deadline=None)
    @given(st.lists(results(), max_size=5), st.lists(st.tuples(st.text(), st.text()), max_size=4))
    def test_is_never_wider_than_80_columns_nor_anything_but_ascii(
        self, records: list[ResultRecord], skips: list[tuple[str, str]]
    ) -> None:
        lines = summary_table(records, [SkippedRecord(id=one, reason=reason) for one, reason in skips])

        assert all(len(line) <= 80 for line in lines)
        assert all(re.fullmatch("[ -~]*", line) for line in lines)

    @settings(deadline=None)
    @given(st.lists(st.from_regex(r"pi[45]:[ab]{1,60}/[ab]{1,10}", fullmatch=True), unique=True, min_size=1))
    def test_no_two_combinations_look_alike(self, ids: list[str]) -> None:
        table = summary_table([result(one, {"tx": direction(9e8)}) for one in ids], [])
        names = [line.split("  ")[0] for line in table[1 : table.index("")] if not line.startswith(" ")]

        assert len(set(names)) == len(names) == len(ids)

    def test_colours_only_add_to_the_words(self) -> None:
        plain = summary_table(NIGHT, NIGHT_SKIPPED)
        colored = summary_table(NIGHT, NIGHT_SKIPPED, color=True)

        assert "\x1b[1;31mFAIL\x1b[0m" in colored[1]
        assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in colored] == plain

    def test_each_verdict_has_a_word_and_what_is_not_good_shouts(self) -> None:
        assert set(WORDS) == set(Verdict)
        assert {v for v in Verdict if WORDS[v].isupper()} == {
            Verdict.FAIL,
            Verdict.ERROR,
            Verdict.INVALID,
            Verdict.INCONCLUSIVE,
        }

    def test_the_same_combination_in_two_tests_shows_the_test_names(self) -> None:
        one = result("pi5:onboard/pair", {"tx": direction(9e8)}, test="test_bulk")
        two = result("pi5:onboard/pair", {"tx": direction(9e8)}, test="test_soak")

        table = summary_table([one, two], [])

        assert [line.split("  ")[0] for line in table[1:3]] == [
            "pi5:onboard/pair test_bulk",
            "pi5:onboard/pair test_soak",
        ]

    def test_the_same_measurement_twice_in_one_test_is_numbered(self) -> None:
        again = result("pi5:onboard/pair", {"tx": direction(9e8)}, test="test_it")

        table = summary_table([again, again], [])

        assert [line.split("  ")[0] for line in table[1:3]] == [
            "pi5:onboard/pair test_it #1",
            "pi5:onboard/pair test_it #2",
        ]

    def test_tx_and_rx_of_one_combination_keep_its_plain_id(self) -> None:
        one = result("pi5:onboard/pair", {"tx": direction(9e8)})
        two = result("pi5:onboard/pair", {"rx": direction(9e8)})

        assert all(line.startswith("pi5:onboard/pair  ") for line in summary_table([one, two], [])[1:3])

    def test_a_test_that_broke_after_a_measurement_has_a_row_of_its_own(self) -> None:
        broken = result("pi5:onboard/pair", {"tx": direction(9e8)}, "error", "pi5-1 went silent. It was warm.")

        table = summary_table([broken], [])

        assert table[1:4] == [
            "pi5:onboard/pair  -         -      -       -  ERROR",
            "    pi5-1 went silent.",
            "pi5:onboard/pair  tx    900.0   none   95.6%  pass",
        ]

    def test_what_a_reader_must_know_stands_below_what_is_not_good(self) -> None:
        notes = ("limited by the processor of the dut: its iperf3 used 99 % of a core",)
        slow = result("pi3b:onboard/pair", {"tx": direction(9e7, 9e8, "fail"), "rx": direction(9e8)}, notes=notes)
        odd = result("pi4b:onboard/pair", {"tx": direction(2e9, verdict="invalid", reason="too much")}, notes=notes)

        table = summary_table([slow, odd], [])

        assert table[1:7] == [
            "pi3b:onboard/pair  tx     90.0  900.0    9.6%  FAIL",
            "    limited by the processor of the dut: its iperf3 used 99 % of a core",
            "pi4b:onboard/pair  tx     2000   none  212.4%  INVALID",
            "    too much",
            "    limited by the processor of the dut: its iperf3 used 99 % of a core",
            "pi3b:onboard/pair  rx    900.0   none   95.6%  pass",
        ]

    def test_the_change_against_the_baseline_and_the_spread_of_the_connections_have_columns(self) -> None:
        baseline = {
            "figure_bps": 941e6, "runs": 5, "date": "2026-11-01", "builds": (), "difference": -0.104,
            "interval": (-0.11, -0.09), "verdict": "fail", "text": "10.4 % slower",
        }  # fmt: skip
        seen = [
            {"fresh": "connection", "goodput_bps": bps, "seconds": 2.0, "excluded": "dropped" if bps < 1e8 else ""}
            for bps in (842e6, 5e6, 844e6, 843e6)
        ]
        slow = result("pi4b:onboard/pair", {"tx": direction(843e6, 913e6, "fail", baseline=baseline, connections=seen)})
        good = result("pi5:onboard/pair", {"tx": direction(941e6, 913e6)})

        assert summary_table([slow, good], [])[:3] == [
            "combination        dir  Mbit/s  limit  of max  change  spread  verdict",
            "pi4b:onboard/pair  tx    843.0  913.0   89.5%  -10.4%    0.2%  FAIL",
            "pi5:onboard/pair   tx    941.0  913.0   99.9%       -       -  pass",
        ]

    def test_all_columns_fit_beside_the_longest_verdict(self) -> None:
        baseline = {
            "figure_bps": 941e6, "runs": 5, "date": "2026-11-01", "builds": (), "difference": -0.104,
            "interval": None, "verdict": "inconclusive", "text": "",
        }  # fmt: skip
        seen = [{"fresh": "connection", "goodput_bps": bps, "seconds": 2.0} for bps in (5.3e9, 2.34e9)]
        long = result(
            "cm4:rtl8125b-on-riser/direct-crossover",
            {"tx": direction(2.34e9, 2.3e9, "inconclusive", baseline=baseline, connections=seen, reason="noise")},
        )

        # A long name is whole on a line of its own.
        assert summary_table([long], [])[:4] == [
            "combination  dir  Gbit/s  limit  of max  change  spread  verdict",
            "cm4:rtl8125b-on-riser/direct-crossover",
            "             tx     2.34   2.30  248.5%  -10.4%  126.5%  INCONCLUSIVE",
            "    noise",
        ]

    @pytest.mark.parametrize(
        ("rates", "head", "cells"),
        [
            ((94.1e6, 2.343e9), "Mbit/s", ["2343", "94.1"]),
            ((2.343e9, 9.41e9), "Gbit/s", ["2.34", "9.41"]),
            ((94.1e3, 0.0), "kbit/s", ["0.00", "94.1"]),
            ((9.996e3, 512e3), "kbit/s", ["10.0", "512.0"]),
            # No unit suits both: each rate has its own.
            ((94.1e3, 2.343e9), "goodput", ["2.34 Gbit/s", "94.1 kbit/s"]),
            ((480.0, 94.1e6), "goodput", ["480 bit/s", "94.1 Mbit/s"]),
        ],
    )
    def test_the_rates_of_a_table_share_a_unit_of_their_size(
        self, rates: tuple[float, ...], head: str, cells: list[str]
    ) -> None:
        results = [result(f"pi4b:nic{number}/pair", {"tx": direction(bps)}) for number, bps in enumerate(rates)]

        first, *lines = summary_table(results, [])

        assert first.split()[2] == head
        assert sorted(" ".join(line.partition(" tx ")[2].partition("none")[0].split()) for line in lines[:2]) == cells

    def test_skips_for_one_reason_share_it(self) -> None:
        reason = "no node 'pi6'"
        table = summary_table([], [SkippedRecord(id=f"pi6:{nic}/pair", reason=reason) for nic in "ab"])

        assert table == [
            "not measured:",
            "  pi6:a/pair, pi6:b/pair",
            "    no node 'pi6'",
            "",
            "0 measured; 2 not measured: 2 skipped",
            "NOTHING WAS MEASURED: every test was skipped, for the one reason above.",
            "pytest counts this as a success; with --pinet-require 1 such a run fails.",
        ]

    def test_a_run_that_measured_nothing_says_so_for_several_reasons_too(self) -> None:
        skips = [SkippedRecord(id=f"pi6:{word}/pair", reason=f"no {word}") for word in "ab"]
        off = [result("pi4b:onboard/pair", {}, "skipped", "no PoE")]
        nothing = "NOTHING WAS MEASURED: every test was skipped, for the reasons above."
        assert nothing in summary_table([], skips)
        assert nothing in summary_table(off, skips)
        done = [result("pi4b:onboard/pair", {"tx": direction(9e8)})]
        assert not any("NOTHING" in line for line in [*summary_table(done, skips), *summary_table([], [])])

    def test_a_long_path_is_kept_whole_since_it_is_copied(self) -> None:
        path = "/srv/" + "x" * 100

        assert summary_table([], [], run_folder=path)[-1] == f"run folder: {path}"


class TestCountLine:
    def test_says_in_words_what_was_measured_and_what_was_not(self) -> None:
        good = [result(f"pi{n}:onboard/pair", {"tx": direction(9e8)}) for n in range(10)]
        bad = [result(f"pi{n}:x/pair", {"tx": direction(1e8, 2e8, "fail")}) for n in range(2)]

        assert count_line(good + bad, [SkippedRecord(id="a", reason="b")]) == (
            "12 measured: 10 pass, 2 fail; 1 not measured: 1 skipped"
        )

    def test_a_lab_error_was_not_measured(self) -> None:
        assert count_line([result("a:b/pair", {}, "error", "off")], []) == "0 measured; 1 not measured: 1 error"

    def test_nothing_at_all(self) -> None:
        assert count_line([], []) == "0 measured"


def test_a_setting_that_does_not_hold_is_reported_once_even_if_its_values_are_good() -> None:
    gone = Tuned("pi4b-1:usb", "xps", "all", "", "", SettingOutcome.UNSUPPORTED, "eth1 has one transmit queue")
    tunings = (gone,)
    tuned = [
        result("pi4b:ax88179/pair/xps=all", {way: direction(9e8)}).replace(tunings=tunings) for way in ("tx", "rx")
    ]
    text = " ".join(" ".join(summary_table(tuned, [])).split())
    assert text.count("tuning xps=all of pi4b-1:usb: unsupported: eth1 has one transmit queue") == 1
