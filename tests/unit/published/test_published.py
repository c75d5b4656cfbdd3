"""The results that correspond to published values, and the table of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_pinet.catalogue.published import PublishedFigure, least, published
from pytest_pinet.cli import pinet
from pytest_pinet.model.record.measurement import HttpRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.published.table import OFF, OK, Sent, numbers_of, page, results_of, rows, summary, table
from pytest_pinet.report.text_wrap import WIDTH
from tests.support.report_records import direction

FIGURES = published()
NO_STAMPS = "1000 Mbit/s link, MTU 1500, no TCP timestamps"
STAMPS = "1000 Mbit/s link, MTU 1500, TCP timestamps"
S1 = {"kernel": "pci=pcie_bus_perf", "rps": "all", "timestamps": "off"}


def result(
    board: str = "pi4b",
    nic: str = "ax88179",
    traffic: str = "tcp-P10",
    topology: str = "pair",
    oracle: str = NO_STAMPS,
    mtu: int = 1500,
    speed: int = 1000,
    tunings: dict[str, str] | None = None,
    outcomes: dict[str, str] | None = None,
    flows: tuple[float, ...] = (),
    verdict: str = "pass",
    **mbps: float,
) -> ResultRecord:
    """Return a result. ``mbps`` is by direction."""
    held = outcomes or {}
    empty = {"end": "", "before": "", "found": "", "why": ""}
    return record(
        {
            "verdict": verdict,
            "combination": {"id": "", "board": board, "nic": nic, "topology": topology, "traffic": traffic},
            "link": f"{speed} Mbit/s full duplex, MTU {mtu}",
            "directions": {
                way: direction(value * 1e6, verdict=verdict).replace(oracle=oracle) for way, value in mbps.items()
            },
            "flows": [
                {**direction(value * 1e6).dump(), "name": "", "sender": "", "receiver": "", "direction": None,
                 "fair_bps": value * 1e6}
                for value in flows
            ],
            "tunings": [
                {**empty, "name": name, "asked": value, "outcome": held.get(name, "applied")}
                for name, value in (S1 if tunings is None else tunings).items()
            ],
        }
    )  # fmt: skip


def record(fields: dict[str, Any]) -> ResultRecord:
    return ResultRecord.model_validate({"id": "", **fields})


def run_record(*results: ResultRecord) -> RunRecord:
    started = "2026-11-22T03:00:00+00:00"
    return RunRecord(schema_version=1, run="", figures="emulated", started=started, lab="published", results=results)


def row_of(id_: str, *results: ResultRecord, emulated: bool = True) -> Any:
    (found,) = rows([FIGURES[id_]], results, emulated)
    return found


def test_every_published_value_is_loaded() -> None:
    assert len(FIGURES) == 60
    assert all(figure.mbps for figure in FIGURES.values())
    assert FIGURES["s1-ax-1500-throt-tx"].peer_cap_mbps == 400
    assert FIGURES["s1-ax-1500-oneway-tx"].timestamps is False
    assert FIGURES["s0-onboard-pi4"].at_least


@pytest.mark.parametrize(
    ("key", "numbers", "flags"),
    [
        ("tcp-P10-pb40M-bidir", {"P": 10, "pb": 40}, {"bidir"}),
        ("tcp-P1-w65536-M1460", {"P": 1, "w": 65536, "M": 1460}, set()),
        ("tcp-P10-opposed-cubic-bidir", {"P": 10}, {"opposed", "cubic", "bidir"}),
        ("http-c10-s6600", {}, {"c10", "s6600"}),
    ],
)
def test_the_traffic_of_an_id_is_parsed(key: str, numbers: dict[str, float], flags: set[str]) -> None:
    sent = Sent.read(key)
    assert (dict(sent.numbers), set(sent.flags)) == (numbers, flags)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"board": "pi5"}, "another board"),
        ({"nic": "rtl8153"}, "another NIC"),
        ({"traffic": "tcp-P1"}, "one stream"),
        ({"traffic": "tcp-P10-bidir"}, "both ways"),
        ({"traffic": "tcp-P10-b40M"}, "capped"),
        ({"traffic": "udp-P10"}, "UDP"),
        ({"topology": "pairs:2"}, "two pairs"),
        ({"oracle": STAMPS}, "with timestamps"),
        ({"mtu": 9000}, "jumbo frames"),
        ({"tunings": {**S1, "arm_freq": "2000"}}, "overclocked"),
    ],
)
def test_a_result_under_other_conditions_does_not_match(other: dict[str, Any], why: str) -> None:
    figure = FIGURES["s1-ax-1500-oneway-tx"]
    assert results_of(figure, [result(tx=730)])
    assert not results_of(figure, [result(tx=730, **other)]), why


def test_a_requested_clock_without_effect_does_not_match() -> None:
    faster = {**S1, "arm_freq": "2000"}
    figure = FIGURES["s1-ax-2000-oneway-tx"]
    assert results_of(figure, [result(tx=830, tunings=faster)])
    assert not results_of(figure, [result(tx=730, tunings=faster, outcomes={"arm_freq": "rejected"})])
    assert not results_of(figure, [result(tx=730)])


def test_payload_and_mtu_distinguish_the_10g_values() -> None:
    def card(mtu: int, tunings: dict[str, str]) -> ResultRecord:
        return result("cm4", "aqc107", "tcp-P1", oracle=STAMPS, speed=10_000, mtu=mtu, tunings=tunings, tx=3000)

    large = {"kernel": "pci=pcie_bus_perf"}
    tried = [card(1500, {}), card(1500, large), card(9000, {**large, "mtu": "9000"})]
    for index, id_ in enumerate(("s3-asus-stock", "s3-asus-mps", "s3-asus-jumbo")):
        assert results_of(FIGURES[id_], tried) == [tried[index]]


def test_the_cap_of_a_peer_is_the_sum_of_its_streams() -> None:
    capped = result(traffic="tcp-P10-pb40M-bidir", tx=480, rx=400)
    assert results_of(FIGURES["s1-ax-1500-throt-tx"], [capped]) == [capped]
    assert not results_of(FIGURES["s1-ax-1500-bidir-tx"], [capped])
    assert not results_of(FIGURES["s1-ax-1500-throt-tx"], [result(traffic="tcp-P10-pb60M-bidir", tx=480, rx=600)])


def test_all_pairs_are_compared_and_the_slowest_sender_of_an_incast() -> None:
    cell = result("pi4b", "onboard", "tcp-P1-w65536-M1460", "pairs:2", STAMPS, tunings={}, tx=1870, flows=(935, 936))
    assert numbers_of(FIGURES["s2-1"], cell) == pytest.approx((935, 936))
    assert row_of("s2-1", cell).difference == pytest.approx(935 / 911 - 1)
    incast = result("pi3b", "onboard", "tcp-P1", "incast:5", STAMPS, tunings={}, rx=94.1, flows=(18, 19, 19, 19, 19))
    assert numbers_of(FIGURES["s4-worst"], incast) == pytest.approx((18,)), "a mean hides who starves"
    pairs = result("pi3b", "onboard", "tcp-P1", "pairs:3", STAMPS, tunings={}, tx=282, flows=(94.1, 93.8, 94.1))
    assert numbers_of(FIGURES["s4-best"], pairs) == pytest.approx((93.8,))


def test_interrupt_settings_distinguish_the_values_of_one_nic() -> None:
    def both(*names: str, **outcomes: str) -> ResultRecord:
        tunings = dict.fromkeys(names, "1")
        return result("pi4b", "onboard", "tcp-P1-bidir", tunings=tunings, outcomes=outcomes, tx=860, rx=610)

    tried = [both(), both("irq"), both("irq", "rps", "xps")]
    for index, id_ in enumerate(("p-pi4b-genet-5", "p-pi4b-genet-6", "p-pi4b-genet-7")):
        assert results_of(FIGURES[id_], [*tried, both("irq", "rps")]) == [tried[index]]
        assert not results_of(FIGURES[id_], [both("irq", "rps", "xps", xps="unsupported")])


def test_both_directions_are_compared() -> None:
    figure = FIGURES["p-pi4b-genet-6"]
    found = result("pi4b", "onboard", "tcp-P1-bidir", tunings={"irq": "1"}, tx=860, rx=500)
    assert numbers_of(figure, found) == pytest.approx((860, 500))
    row = row_of(figure.id, found, emulated=False)
    assert (row.difference, row.verdict) == (pytest.approx(500 / 613 - 1), OFF)


def test_a_switch_of_100_mbit_does_not_match() -> None:
    slow = result(
        "pi3b", "onboard", "tcp-P1-w65536-M1460", "pairs:2", STAMPS, speed=100, tunings={}, flows=(94, 94), tx=188
    )
    assert not results_of(FIGURES["s2-1"], [slow])


@pytest.mark.parametrize(
    ("id_", "mbps", "difference", "verdict"),
    [
        ("s1-ax-1500-oneway-tx", 730, 730 / 736 - 1, OK),
        ("s1-ax-1500-oneway-tx", 700, 700 / 736 - 1, OFF),
    ],
)
def test_one_way_values_are_ok_within_3_percent(id_: str, mbps: float, difference: float, verdict: str) -> None:
    row = row_of(id_, result(tx=mbps))
    assert (row.difference, row.verdict) == (pytest.approx(difference), verdict)


def test_bidirectional_values_are_ok_within_10_percent() -> None:
    assert row_of("s1-ax-1500-bidir-tx", result(traffic="tcp-P10-opposed-bidir", tx=150, rx=900)).verdict == OK
    assert row_of("s1-ax-1500-bidir-tx", result(traffic="tcp-P10-opposed-bidir", tx=140, rx=900)).verdict == OFF


def test_a_value_above_a_lower_bound_or_in_a_range_does_not_differ() -> None:
    onboard = result("pi4b", "onboard", "tcp-P1", oracle=STAMPS, tunings={}, tx=941)
    assert row_of("s0-onboard-pi4", onboard).difference == 0
    assert row_of("p-pi4b-genet-4", onboard).difference == pytest.approx(941 / 949 - 1)


def test_an_invalid_result_shows_its_values_and_the_reason() -> None:
    cell = result(
        "pi4b",
        "onboard",
        "tcp-P1-w65536-M8960",
        "pairs:2",
        STAMPS,
        tunings={},
        verdict="invalid",
        tx=1870,
        flows=(935, 936),
    )
    reason = "1.87 Gbit/s is invalid: mss=8960 bytes was requested; and so on"
    cell = cell.replace(directions={"tx": cell.directions["tx"].replace(reason=reason)})
    row = row_of("s2-3", cell)
    assert (row.verdict, row.found, row.difference) == ("invalid", pytest.approx((935, 936)), None)
    assert row.why == "mss=8960 bytes was requested"


def test_a_result_with_values_and_few_tunings_is_preferred() -> None:
    plain = result("cm4", "onboard", "tcp-P1", oracle=STAMPS, tunings={}, tx=941)
    tuned = result("cm4", "onboard", "tcp-P1", oracle=STAMPS, tunings={"rps": "all"}, tx=930)
    broken = result("cm4", "onboard", "tcp-P1", oracle=STAMPS, tunings={}, verdict="error")
    assert results_of(FIGURES["s3-onboard"], [plain, broken, tuned])[-1] is plain


def test_http_counts_whole_responses() -> None:
    figure = FIGURES["s0-http-onboard"]
    assert figure.file_bytes == 6352
    served = result("pi2b", "onboard", "http-c10-s6352", oracle=STAMPS, tunings={}, speed=100, tx=90.6)
    http = HttpRecord(size_bytes=6352, connections=10, requests_per_s=1783.0, failed={}, rounds=())
    served = served.replace(http=http)
    assert numbers_of(figure, served) == pytest.approx((94.1,), abs=0.1)
    assert row_of("s0-http-onboard", served).verdict == OK
    assert row_of("s0-http-onboard", served).why == "1783 requests/s, published: 1800"
    with pytest.raises(ValueError, match="s4-best is not a value of HTTP"):
        _ = FIGURES["s4-best"].file_bytes


def test_a_value_that_is_not_emulated_has_its_reason() -> None:
    figure = "p-pi4b-genet-6"
    assert row_of(figure).verdict == "not emulated"
    assert "not modelled" in row_of(figure).why
    assert row_of(figure, emulated=False).verdict == "not measured"


def test_a_limit_is_the_published_value_less_a_margin() -> None:
    assert least("s0-usbgig-pi3") == "304.9 Mbit/s"
    assert least("s1-ax-1500-bidir-tx") == "138.5 Mbit/s"
    assert least("s2-1", "s2-3") == "860.7 Mbit/s"
    assert least("s1-ax-1500-throt-rx") == "340.0 Mbit/s", "a peer sends no more than its cap, whatever was published"


def test_the_table_fits_80_columns_and_has_every_value() -> None:
    found = rows(
        FIGURES.values(), [result(tx=730), result(traffic="tcp-P10-pb40M-bidir", tx=480, rx=400)], emulated=True
    )
    lines = table(found, emulated=True)
    assert max(map(len, lines)) <= WIDTH
    assert all(any(line.startswith(f"{id_} ") for line in lines) for id_ in FIGURES)
    (doubted,) = (line for line in lines if line.startswith("s1-ax-1500-throt-rx "))
    assert " off [" in doubted
    assert any("above the stated cap of 10 x 40 Mbit/s" in line for line in lines)
    assert not next(row for row in found if row.figure.id == "s1-ax-1500-throt-rx").surprising
    assert summary(found).startswith("60 published values: ")


def test_emulated_values_are_marked() -> None:
    figures: list[PublishedFigure] = [FIGURES["s0-wifi-pi3"]]
    run = run_record()
    text = page(rows(figures, [], emulated=True), [run])
    assert "emulated" in text
    assert "measured on hardware" not in text
    assert "measured on hardware" in page(rows(figures, [], emulated=False), [run.replace(figures="measured")])


def write(path: Path, *results: ResultRecord, **other: str) -> str:
    path.write_text(json.dumps(run_record(*results).replace(**other).dump()))
    return str(path)


def test_the_command_prints_and_writes_the_table_and_fails_if_a_value_is_off(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good.json", result(tx=735)), write(tmp_path / "bad.json", result(tx=600))
    done = CliRunner().invoke(pinet, ["compare", "published", good, "-o", str(tmp_path / "page.md")])
    assert done.exit_code == 0, done.output
    assert "s1-ax-1500-oneway-tx         736       735      -0.1 %  ok" in done.output
    assert "s1-ax-1500-oneway-tx         736       735      -0.1 %  ok" in (tmp_path / "page.md").read_text()
    assert CliRunner().invoke(pinet, ["compare", "published", good, bad]).exit_code == 1
    assert CliRunner().invoke(pinet, ["compare", "published", bad, good]).exit_code == 0


def test_of_several_runs_the_latest_counts(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    write(new, result(tx=735), started="2026-11-23T03:00:00+00:00")
    write(old, result(tx=600))
    assert CliRunner().invoke(pinet, ["compare", "published", str(new), str(old)]).exit_code == 0


def test_option_complete_fails_if_a_value_was_not_measured(tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", result(tx=735))
    assert CliRunner().invoke(pinet, ["compare", "published", good]).exit_code == 0
    assert CliRunner().invoke(pinet, ["compare", "published", good, "--complete"]).exit_code == 1
    assert row_of("s0-wifi-pi3").missing
    assert not row_of("p-pi4b-genet-6").missing, "not emulated"
    assert not row_of("s2-3").missing, "its source is doubted"


def test_the_page_fits_80_columns() -> None:
    run = run_record()
    text = page(rows(FIGURES.values(), [], emulated=True), [run, run])
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_command_refuses_a_folder_without_a_run(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    lost = CliRunner().invoke(pinet, ["compare", "published", str(tmp_path / "none.json")])
    other = CliRunner().invoke(pinet, ["compare", "published", str(tmp_path / "other.json")])
    assert "expected a results.json" in str(lost.exception)
    assert "is no results.json of pytest-pinet" in str(other.exception)
    both = [write(tmp_path / "a.json"), write(tmp_path / "b.json", figures="measured")]
    assert "runs of one lab" in str(CliRunner().invoke(pinet, ["compare", "published", *both]).exception)
    labs = [write(tmp_path / "a.json"), write(tmp_path / "c.json", lab="bench")]
    done = CliRunner().invoke(pinet, ["compare", "published", *labs])
    assert "several labs (bench and published)" in str(done.exception)


def test_a_suite_that_requests_a_higher_clock_requests_the_voltage_of_its_source(pytestconfig: pytest.Config) -> None:
    from pytest_pinet.suites import conftest

    # pytest calls this hook only for a conftest that it collected.
    conftest.pytest_configure(pytestconfig)
    from pytest_pinet.suites import test_ten_gig, test_usb3_adapters

    tunings = [value for suite in (test_ten_gig, test_usb3_adapters) for value in vars(suite).values()]
    clocks = [one for one in tunings if isinstance(one, dict) and "arm_freq" in one]
    assert [(one["arm_freq"], one.get("over_voltage")) for one in clocks] == [(2000, 6), (2000, 6)]
