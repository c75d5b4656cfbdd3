from pytest_pinet.report.export.annotations import MOST, github
from tests.support.export_runs import ALTERNATED, EXACT, PLAIN
from tests.support.report_records import direction, result, run_record


def test_an_alternated_run() -> None:
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
