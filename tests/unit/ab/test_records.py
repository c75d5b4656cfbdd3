"""Messages of A/B comparisons: errors before any board is touched, plans, and the forms of the answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_pinet.model.record.run import RunRecord
from tests.support.change_session import Bench, bench_with

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


def test_junit_has_both_sides(bench: Bench, pytester: pytest.Pytester) -> None:
    bench.run("--junitxml=junit.xml")
    text = (pytester.path / "junit.xml").read_text()
    assert text.count("<testcase") == 2
    for name in ("pinet.build_a", "pinet.build_b", "pinet.tx.a_bps", "pinet.tx.change"):
        assert f'name="{name}"' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pinet-baseline=good.yaml"], "--pinet-baseline good.yaml: no build is under test"),
        (["--pinet-boots=9"], "--pinet-boots 9: no build is under test"),
        (["--pinet-build=gone.yaml"], "--pinet-build: gone.yaml: *"),
        (["--pinet-build=new.yaml", "--pinet-baseline=gone.yaml"], "--pinet-baseline: gone.yaml: *"),
        (["--pinet-build=new.yaml", "--pinet-boots=3"], "--pinet-boots 3: too few boots to compare two builds"),
        (
            ["--pinet-build=new.yaml", "--pinet-baseline=accepted", "--pinet-boots=8"],
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
    assert "look first at tcp" in page
    assert "net.core.rmem" in page
    assert len(summary_markdown(record, most=300)) <= 300


def test_results_keep_their_schema(bench: Bench) -> None:
    import jsonschema

    from pytest_pinet.report.schema import results_schema

    bench.plan('PLAN = Plan(ratio={"onboard": 0.95})')
    bench.run()
    jsonschema.validate(bench.record, results_schema())


def test_a_dry_run_says_how_often_boards_are_booted(bench: Bench) -> None:
    result = bench.run("--pinet-dry-run")
    result.stdout.fnmatch_lines(["*A good, B new: 4 to 16 turns on one, each with a boot if the build needs a boot*"])


def test_notes_that_differ_only_in_their_numbers_are_shown_once() -> None:
    from pytest_pinet.ab.records import folded

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
