import re
from itertools import pairwise

import pytest

from pytest_pinet.report.export.cases import ktap
from tests.support.exact_records import records, run_of
from tests.support.export_runs import ALTERNATED, PLAIN, RUNS


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
