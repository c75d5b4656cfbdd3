"""``pinet losses`` and ``pinet losses acknowledge``: what is open, its owner, the written file, and how a loss ends."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.config.baselines import load_reviewed
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.limits import Metric, Threshold
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.trends import series_with
from tests.support.commands import mistake, run
from tests.support.history_records import BEGINS, FIGURE, day, keep, with_result
from tests.support.two_boards import two_boards

LAB = two_boards("name: virtual")
LINK = "https://lore.kernel.org/r/1"
STEADY = "pi5:onboard/pair/tcp-P1-tx"
TODAY = datetime.now(UTC).date()
KNOWN = ("--owner", "Ann", "--until", str(TODAY + timedelta(days=30)), "--link", LINK)


def slower(at: int = 20, count: int = 40, mbps: float = 890, verdict: str = "pass", **more: Any) -> list[RunRecord]:
    chance = random.Random(1)
    return [
        day(
            n,
            (940 if n < at else mbps) + chance.gauss(0, 1),
            "pass" if n < at else verdict,
            uname=f"Linux 6.12.{20 + n // at}-v8+ #1",
            **more,
        )
        for n in range(count)
    ]


@pytest.fixture(autouse=True)
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a lab file as the default lab."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PINET_HISTORY", raising=False)
    monkeypatch.setenv("PINET_LAB", "lab.yaml")
    Path("lab.yaml").write_text(LAB)
    return tmp_path


@pytest.fixture
def history(bench: Path) -> Path:
    """Return the folder with a history of two metrics, one of which lost 5 %."""
    keep(
        [
            one.replace(results=[*one.results, *two.results])
            for one, two in zip(slower(), slower(at=99, combination="pi5:onboard/pair"), strict=True)
        ]
    )
    return bench


def age(number: int = 20) -> int:
    return (TODAY - (BEGINS.date() + timedelta(days=number))).days


def test_an_open_loss_is_listed_with_size_age_cause_and_owner(history: Path) -> None:
    done = run("losses")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "lab virtual: 1 loss is open",
        "2 results, newest run 2026-10-10",
        f"{FIGURE}  -5.3 % since 2026-09-21 ({age()} days)",
        "  open, no owner",
        "  940.0 -> 890.2 Mbit/s, with kernel 6.12.20-v8+ -> 6.12.21-v8+",
        "  -5.3 % since the best month (2026-09)",
    ]


def test_without_a_loss_the_exit_code_is_0(history: Path) -> None:
    done = run("losses", STEADY)
    assert done.exit_code == 0
    assert done.stdout == "lab virtual: no loss is open\n1 result, newest run 2026-10-10\n"


def test_json_has_the_same_facts(history: Path) -> None:
    run("losses", "acknowledge", FIGURE, *KNOWN)
    done = run("losses", "--json")
    assert done.exit_code == 0
    printed = json.loads(done.stdout)
    assert (printed["lab"], printed["results"], printed["gates"]) == ("virtual", 2, [])
    (found,) = printed["losses"]
    assert found["figure"] == FIGURE
    assert found["state"] == "acknowledged"
    assert found["open"] is False
    assert found["since"] == "2026-09-21T02:00:00+00:00"
    assert found["days"] == age()
    assert found["change"] == pytest.approx(-0.053, abs=0.001)
    assert found["differs"] == ["kernel 6.12.20-v8+ -> 6.12.21-v8+"]
    assert (found["owner"], found["until"], found["link"]) == ("Ann", KNOWN[3], LINK)


def test_acknowledge_writes_the_file_and_the_loss_is_known(history: Path) -> None:
    done = run("losses", "acknowledge", "pi4b:*", *KNOWN)
    assert done.exit_code == 0
    assert done.stdout.startswith("--- baselines/acknowledged.yaml\n+++ baselines/acknowledged.yaml\n")
    assert f"{FIGURE}: -5.3 % since 2026-09-21" in done.stderr
    assert done.stderr.endswith("1 entry written to baselines/acknowledged.yaml: review and commit the file\n")
    (entry,) = load_reviewed(labfile.load("lab.yaml", in_use=False)).acknowledged.values()
    assert (entry.id, entry.owner, entry.link, entry.date) == (FIGURE, "Ann", LINK, TODAY)
    listed = run("losses")
    assert listed.exit_code == 0
    assert "1 loss is acknowledged" in listed.stdout
    assert f"  acknowledged until {KNOWN[3]}, owner Ann\n  {LINK}\n" in listed.stdout


def test_an_acknowledgement_expires(history: Path) -> None:
    run("losses", "acknowledge", FIGURE, *KNOWN)
    file = Path("baselines/acknowledged.yaml")
    file.write_text(file.read_text().replace(str(TODAY), "2026-10-10").replace(KNOWN[3], "2026-10-11"))
    done = run("losses")
    assert done.exit_code == 1
    assert f"  open, owner Ann, acknowledged until 2026-10-11 (expired)\n  {LINK}\n" in done.stdout


def test_other_entries_stay_and_a_second_one_replaces_the_first(history: Path) -> None:
    keep([with_result(one, parameters="x") for one in slower(combination="cm4:onboard/pair")])
    run("losses", "acknowledge", "*", *KNOWN)
    run("losses", "acknowledge", FIGURE, *KNOWN[:1], "Bob", *KNOWN[2:])
    entries = load_reviewed(labfile.load("lab.yaml", in_use=False)).acknowledged
    assert {one.id: one.owner for one in entries.values()} == {FIGURE: "Bob"}


def test_a_dry_run_of_acknowledge_writes_nothing(history: Path) -> None:
    done = run("losses", "acknowledge", FIGURE, *KNOWN, "--dry-run")
    assert "+++ baselines/acknowledged.yaml" in done.stdout
    assert not Path("baselines").exists()


def test_there_is_nothing_to_acknowledge_without_a_loss(history: Path) -> None:
    done = run("losses", "acknowledge", STEADY, *KNOWN)
    assert done.exit_code == 1
    assert done.stderr == f"pinet: nothing to acknowledge: no loss in {STEADY}\n"


def test_accept_makes_the_lower_level_the_new_normal(history: Path) -> None:
    assert run("accept", FIGURE, "--reason", "a fix of a security hole costs 5 %").exit_code == 0
    done = run("losses")
    assert done.exit_code == 0
    assert "no loss is open" in done.stdout
    assert "a fix of a security hole costs 5 %" in Path("baselines/pi4b-onboard.yaml").read_text()


def test_a_lower_level_that_fails_its_baseline_is_accepted_on_request(bench: Path) -> None:
    limit = Threshold(Metric.TOLERANCE, 911.8e6, "3% below the baseline 940.0 Mbit/s", "lab.yaml:7", baseline=940e6)
    keep(slower(verdict="fail", limit=limit))
    refused = run("accept", "--reason", "new normal")
    assert refused.exit_code == 1
    assert "left out: 20 before the present level was first seen, 20 below the baseline" in refused.stderr
    assert "if the lower level is the new normal, accept it with --lower" in refused.stderr
    assert run("accept", "--reason", "new normal", "--lower").exit_code == 0
    assert run("losses").exit_code == 0


def test_a_failed_limit_other_than_the_baseline_is_never_accepted(bench: Path) -> None:
    keep(slower(verdict="fail"))
    assert run("accept", "--reason", "x", "--lower").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [FIGURE, "--owner", " ", *KNOWN[2:]],
            "--owner: expected a text of one line, got ''",
        ),
        (
            [FIGURE, *KNOWN[:3], "next week", *KNOWN[4:]],
            "--until: expected a date such as '2026-11-21', got 'next week'",
        ),
        (
            [FIGURE, *KNOWN[:3], "2026-10-01", *KNOWN[4:]],
            "--until: 2026-10-01 is in the past; expected today or a later day",
        ),
        (
            [FIGURE, *KNOWN[:5], "tracker"],
            "--link: expected a URL such as 'https://lore.kernel.org/r/MESSAGE-ID', got 'tracker'",
        ),
        (
            ["pi4b:onbord/pair/tcp-P1-tx", *KNOWN],
            f"lab virtual: unknown result in its history 'pi4b:onbord/pair/tcp-P1-tx', did you mean '{FIGURE}'?",
        ),
    ],
)
def test_wrong_arguments_are_explained(
    history: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    assert message in mistake(capsys, monkeypatch, "losses", "acknowledge", *arguments)


def test_a_lab_without_results_is_no_success(
    history: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lab.yaml").write_text(LAB.replace("name: virtual", "name: bench"))
    message = mistake(capsys, monkeypatch, "losses")
    assert "has no results of lab bench; it has results of: virtual" in message


def test_a_mistake_in_the_file_is_named_with_its_line(
    history: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("losses", "acknowledge", FIGURE, *KNOWN)
    file = Path("baselines/acknowledged.yaml")
    file.write_text(file.read_text().replace(LINK, "tracker"))
    assert "baselines/acknowledged.yaml:4: acknowledged[0].link: expected a URL" in mistake(
        capsys, monkeypatch, "losses"
    )


def written(record: RunRecord) -> str:
    Path("results.json").write_text(json.dumps(record.dump()))
    return "results.json"


def test_the_summary_of_a_run_that_passes_has_the_losses_of_its_lab(history: Path) -> None:
    path = written(slower()[-1])
    line = f"{FIGURE}: -5.3 % since 2026-09-21 ({age()} days); open, no owner; 940.0 -> 890.2 Mbit/s"
    assert line in run("summary", path).stdout
    lines = run("summary", path, "--format", "md").stdout.splitlines()
    assert lines[0].startswith("## Throughput holds")
    assert "**1 loss is open**" in lines
    assert any(one.startswith("- pi4b:onboard/pair/tcp-P1-tx: -5.3 % since 2026-09-21") for one in lines)


def test_the_summary_has_no_losses_of_another_lab_or_without_a_history(history: Path) -> None:
    path = written(slower()[-1].replace(lab="bench"))
    assert "loss" not in run("summary", path).stdout
    Path(".pinet/history.db").rename("elsewhere.db")
    path = written(slower()[-1])
    assert "loss" not in run("summary", path).stdout
    assert "1 loss is open" in run("summary", path, "--history", "elsewhere.db").stdout


def test_a_broken_file_does_not_end_a_summary(history: Path) -> None:
    Path("baselines").mkdir()
    Path("baselines/acknowledged.yaml").write_text("acknowledged: soon\n")
    done = run("summary", written(slower()[-1]), "--format", "md")
    assert done.exit_code == 0
    assert "losses are not known: baselines/acknowledged.yaml:1" in done.stdout.replace("\\", "")


def test_the_report_knows_what_was_accepted_or_says_that_it_does_not(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("losses", "acknowledge", FIGURE, *KNOWN).exit_code == 0
    done = run("report", "--page")
    assert "acknowledged" in Path("report.html").read_text()
    assert done.stderr == ""
    assert "Made without" not in Path("report.html").read_text()
    monkeypatch.delenv("PINET_LAB")
    done = run("report", "--page")
    assert done.stderr == ("pinet: no lab file, so accepted or acknowledged losses may look open; name it with --lab\n")
    text = Path("report.html").read_text()
    assert LINK not in text
    # Who reads the page does not see the terminal.
    assert "Made without the lab file: accepted or acknowledged losses may look open." in text


def test_a_result_has_its_loss_also_if_the_loss_is_older_than_the_shown_trend(history: Path) -> None:
    """As in Allure: 20 runs since the loss, and only 10 of them in the chart."""
    (result,) = slower()[-1].results
    with HistoryStore.open(str(history / ".pinet/history.db")) as store:
        (series,) = series_with(store, [result], 10, True)
    assert len(series.points) == 11
    assert (series.level.loss is not None, series.changes) == (True, ())
