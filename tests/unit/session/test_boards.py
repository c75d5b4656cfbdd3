"""Boards in doubt: the memory of the history, and a second board."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labfile import load
from pytest_pinet.doctor import examine
from pytest_pinet.doctor.bench import Status
from pytest_pinet.errors import LinkError
from pytest_pinet.history.history import keep_run, open_history
from pytest_pinet.history.points import OutOfService
from pytest_pinet.history.results_file import results_in
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_pool import Quarantine
from pytest_pinet.matrix.endpoints import EndpointSelector
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.record.result import ResultRecord, SecondBoardRecord
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.run_folder import RunFolder
from pytest_pinet.report.terminal import count_line
from pytest_pinet.session.boards import HOLDS, QUARANTINE, BoardMemory, compared, confirm, on_another_board
from pytest_pinet.session.run_recorder import RunRecorder
from tests.support.history_records import day, kept, with_result
from tests.support.report_records import direction, result

LAB = "bench"


def run(url: str | None, folder: Path, *broken: str) -> Quarantine:
    """Make a run in which these nodes do not come up. Return its quarantine."""
    boards = BoardMemory(url, LAB, folder)
    boards.recall()
    quarantine = Quarantine(folder / QUARANTINE)
    for node in broken:
        quarantine.add(node, f"{node} does not boot")
    assert boards.remember(folder.name, ()) == []
    return Quarantine(folder / QUARANTINE)


def test_another_run_skips_the_board_and_says_why(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    assert run(url, tmp_path / "one", "pi4b-2").reason("pi4b-1") is None
    reason = run(url, tmp_path / "two").reason("pi4b-2") or ""
    assert reason.startswith("out of service since ")
    assert reason.endswith("(run one): pi4b-2 does not boot; when it is well, 'pinet doctor --clear' puts it back")
    # A run that skips a board remembers nothing new of it.
    with open_history(url) as store:
        assert [board.run for board in store.remembered(OutOfService, LAB)] == ["one"]


def test_the_doctor_shows_and_clears_boards_of_its_lab(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    run(url, tmp_path / "one", "pi4b-2", "pi4b-3")
    found = examine.remembered_boards(url, LAB, {"pi4b-1", "pi4b-2"})
    assert [(one.node, one.status) for one in found] == [("pi4b-2", Status.WRONG)]
    assert examine.remembered_boards(url, "other lab", {"pi4b-2"}) == []
    assert examine.clear_boards(url, LAB, {"pi4b-1", "pi4b-2"}) == ["pi4b-2 is back in service"]
    assert run(url, tmp_path / "two").reason("pi4b-2") is None
    assert run(url, tmp_path / "three").reason("pi4b-3") is not None


def test_after_a_day_a_run_tries_the_board_again(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    old = OutOfService("pi4b-2", datetime.now(UTC) - HOLDS - timedelta(minutes=1), "old", "no login")
    with open_history(url, create=True) as store:
        store.remember(LAB, [old])
    assert run(url, tmp_path / "one").reason("pi4b-2") is None
    run(url, tmp_path / "two", "pi4b-2")
    assert run(url, tmp_path / "three").reason("pi4b-2") is not None


@pytest.mark.parametrize("url", [None, "off"])
def test_without_a_history_a_run_remembers_nothing(url: str | None, tmp_path: Path) -> None:
    assert run(url, tmp_path / "one", "pi4b-2").reason("pi4b-2") == "pi4b-2 does not boot"
    assert run(url, tmp_path / "two").reason("pi4b-2") is None
    assert examine.remembered_boards("off", LAB, {"pi4b-2"}) == []


def test_a_history_that_cannot_be_read_is_no_trouble_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_text("no database", encoding="utf-8")
    boards = BoardMemory(str(tmp_path / "h.db"), LAB, tmp_path / "one")
    boards.recall()
    Quarantine(tmp_path / "one" / QUARANTINE).add("pi4b-2", "no login")
    (message,) = boards.remember("one", ())
    assert message.startswith("boards out of service or suspected are not remembered: history ")


def failed_run(
    url: str, folder: Path, number: int, second: str = "", verdict: str = "fail", dropped: bool = False
) -> ResultRecord:
    """Make a run of pi4b-2 as a runner does. ``second`` is the verdict of a second board. Return its kept result.

    ``dropped``: its link dropped, so that it has no value.
    """
    boards = BoardMemory(url, LAB, folder)
    boards.recall()
    run = with_result(day(number, verdict=verdict), settings={"dut": {"end": "pi4b-2:onboard"}})
    (result,) = run.results
    other = SecondBoardRecord(end="pi4b-1:onboard", verdict=Verdict(second)) if second else None
    where = result.combination.replace(dut="pi4b-2:onboard")
    if dropped:
        result = result.replace(id=where.id, directions={})
    result = boards.noted(result.replace(combination=where, second_board=other))
    assert keep_run(url, run.replace(lab=LAB, results=(result,)), folder) is None
    assert boards.remember(folder.name, [result]) == []
    return result


def test_a_board_that_fails_where_a_second_board_passes_is_suspected_until_a_user_clears_it(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    assert not any("suspected" in note for note in failed_run(url, tmp_path / "one", 1, "pass").notes)
    # Another runner of the same store. Its run fails on both boards, which says nothing new about this one.
    note = next(note for note in failed_run(url, tmp_path / "two", 2, "fail").notes if "suspected" in note)
    assert re.fullmatch(
        r"pi4b-2 is suspected since 20\d\d-\S+ \S+ UTC \(run one\): pi4b:onboard/pair/tcp-P1-tx failed on "
        r"pi4b-2:onboard, but not on pi4b-1:onboard, of the same kind; when it is well, 'pinet doctor --clear' puts "
        r"it back",
        note,
    )
    # A suspected board is used, and a good result is no one's business.
    assert not any("suspected" in note for note in failed_run(url, tmp_path / "three", 3, verdict="pass").notes)
    BoardMemory(url, LAB, tmp_path / "four").recall()
    assert Quarantine(tmp_path / "four" / QUARANTINE).reason("pi4b-2") is None
    (finding,) = examine.remembered_boards(url, LAB, {"pi4b-1", "pi4b-2"})
    assert (finding.node, finding.status) == ("pi4b-2", Status.UNKNOWN)
    assert finding.message.startswith("pi4b-2 is suspected since ")
    assert examine.clear_boards(url, LAB, {"pi4b-1"}) == []
    assert examine.clear_boards(url, LAB, {"pi4b-2"}) == ["pi4b-2 is no longer suspected"]
    assert examine.clear_boards(url, LAB, {"pi4b-2"}) == []
    assert examine.remembered_boards(url, LAB, {"pi4b-2"}) == []
    assert not any("suspected" in note for note in failed_run(url, tmp_path / "five", 5).notes)


@pytest.mark.parametrize("dropped", [False, True])
def test_a_board_that_fails_over_many_runs_is_suspected_and_only_later_runs_count_after_it_was_cleared(
    tmp_path: Path, dropped: bool
) -> None:
    url = str(tmp_path / "h.db")
    good = [with_result(day(n), settings={"dut": {"end": "pi4b-1:onboard"}}).replace(lab=LAB) for n in range(12)]
    with open_history(url, create=True) as store:
        store.add_all(kept(good))
    for n in range(12, 18):
        failed_run(url, tmp_path / str(n), n, dropped=dropped)
    (finding,) = examine.remembered_boards(url, LAB, {"pi4b-2"})
    assert "(run 17): pi4b-2 failed in 6 of 6 values of pi4b:onboard, other boards of its kind in 0 of 12" in (
        finding.message
    )
    # The values of these runs lie in the past; clearing ends what they say.
    assert examine.clear_boards(url, LAB, {"pi4b-2"}) == ["pi4b-2 is no longer suspected"]
    assert examine.remembered_boards(url, LAB, {"pi4b-2"}) == []
    failed_run(url, tmp_path / "18", 18, dropped=dropped)
    assert examine.remembered_boards(url, LAB, {"pi4b-2"}) == []


@pytest.fixture(scope="module")
def lab() -> Lab:
    return load(lab_path("virtual"))


def others(lab: Lab, node: str, nic: str) -> list[tuple[str, str]]:
    """Return the boards under test and their peers that may confirm a failure of this interface."""
    combination = EndpointSelector(lab).combination(lab.nodes[node].interface(nic), parse_topology("pair"))
    found = on_another_board(lab, combination)
    assert {one.id for one in found} <= {combination.id}
    return [(str(one.dut), one.peer.node.name) for one in found]


def test_another_board_of_its_kind_is_measured_without_the_first_one(lab: Lab) -> None:
    ((second, peer),) = others(lab, "pi3b-1", "onboard")
    assert second == "pi3b-2:onboard"
    assert peer not in ("pi3b-1", "pi3b-2")


def test_a_board_or_nic_without_a_twin_has_no_second_board(lab: Lab) -> None:
    assert others(lab, "cm4-1", next(one.label for one in lab.nodes["cm4-1"].interfaces)) == []
    # Only pi3b-1 has this adapter.
    assert others(lab, "pi3b-1", "usb") == []


def test_nothing_waits_for_a_board_that_another_run_has(lab: Lab) -> None:
    asked: list[str] = []

    class Taken:
        """The leases of a lab whose boards other runs have. Opening a link would wait for them."""

        def take_if_free(self, combination: Combination) -> bool:
            asked.append(str(combination.dut))
            return False

    def measure(link: Link) -> ResultRecord:
        raise AssertionError(f"{link} was measured")

    combination = EndpointSelector(lab).combination(lab.nodes["pi3b-1"].interface("onboard"), parse_topology("pair"))
    assert confirm(cast(LabAccess, Taken()), lab, combination, measure) is None
    assert asked == ["pi3b-2:onboard"]


def test_a_second_board_whose_link_drops_confirms_a_failure() -> None:
    own = result("pi4b:onboard/pair", {}).replace(verdict="fail")
    text = compared("pi4b-1:onboard", "sw1/p4", "pi4b-2:onboard", own).text
    assert text == "confirmed on a second board: pi4b-2:onboard fails, too (its link drops)"


FOUR = """
pinet:
  switches:
    s: {backend: fixed, ports: p1-p4}
  nodes:
    a: {board: pi4b, interfaces: {onboard: {port: s/p1}}}
    b: {board: pi4b, interfaces: {onboard: {port: s/p2}}}
    c: {board: pi4b, interfaces: {onboard: {port: s/p3}}}
    d: {board: pi4b, interfaces: {onboard: {port: s/p4}}}
"""


@pytest.mark.parametrize(
    ("dead", "measured", "verdict", "text"),
    [
        ({"b:onboard"}, ["b:onboard", "c:onboard"], "fail", "confirmed on a second board: c:onboard fails, too (tx "),
        (
            {"b:onboard", "c:onboard", "d:onboard"},
            ["b:onboard", "c:onboard", "d:onboard"],
            "error",
            "no second board gave a verdict: no value from b:onboard: b:onboard has no link; no value from c:onboard: "
            "c:onboard has no link; no value from d:onboard: d:onboard has no link",
        ),
    ],
)
def test_after_a_board_with_an_error_the_next_one_is_measured(
    tmp_path: Path, dead: set[str], measured: list[str], verdict: str, text: str
) -> None:
    (tmp_path / "lab.yaml").write_text(FOUR)
    four = load(tmp_path / "lab.yaml")
    opened: list[str] = []

    class Free:
        """The leases of a lab whose boards are free. Some of them have no link."""

        def take_if_free(self, combination: Combination) -> bool:
            return True

        @contextmanager
        def open(self, combination: Combination) -> Iterator[Link]:
            opened.append(str(combination.dut))
            if opened[-1] in dead:
                raise LinkError(f"{opened[-1]} has no link")
            yield cast(Link, None)

    own = result("pi4b:onboard/pair", {"tx": direction(850e6, 885e6, "fail")}).replace(verdict="fail")
    combination = EndpointSelector(four).combination(four.nodes["a"].interface("onboard"), parse_topology("pair"))
    found = confirm(cast(LabAccess, Free()), four, combination, lambda _: own)
    assert found is not None
    assert (opened, found.verdict) == (measured, Verdict(verdict))
    assert found.text.startswith(text)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("fail", "confirmed on a second board: pi4b-2:onboard fails, too (tx 850.0 Mbit/s)"),
        (
            "pass",
            "not confirmed on a second board: pi4b-2:onboard, of the same kind, has tx 850.0 Mbit/s: look at "
            "pi4b-1:onboard, its cable and port sw1/p4",
        ),
        ("inconclusive", "a second board gave no verdict: pi4b-2:onboard is inconclusive"),
    ],
)
def test_its_result_is_one_sentence_and_counted(verdict: str, text: str) -> None:
    own = result("pi4b:onboard/pair", {"tx": direction(850e6, 885e6, verdict)}).replace(verdict=verdict)
    second = compared("pi4b-1:onboard", "sw1/p4", "pi4b-2:onboard", own)
    assert (second.text, second.verdict) == (text, Verdict(verdict))
    failed = own.replace(verdict="fail", second_board=second)
    counts = {"fail": "1 confirmed, 0 not confirmed", "pass": "0 confirmed, 1 not confirmed"}
    undecided = "0 confirmed, 0 not confirmed, 1 without a verdict"
    assert count_line([failed], []).endswith(counts.get(verdict, undecided))


def test_a_killed_run_keeps_what_a_second_board_had_and_hooks_get_it(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[ResultRecord] = []
    access = LabAccess(None, Identity("host", "user"), 1.0, lambda _: None)
    recorder = RunRecorder(request.config, None, access, None)
    monkeypatch.setattr(recorder.hooks, "result", heard.append)
    recorder._folder = RunFolder(tmp_path)
    first = result("pi4b:onboard/pair", {"tx": direction(850e6, 885e6, "fail")}).replace(verdict="fail", test="t")
    other = first.replace(test="other")
    completed = first.replace(second_board=compared("pi4b-1:onboard", "sw1/p4", "pi4b-2:onboard", first))
    for one in (first, other, completed):
        recorder.keep(one)
    assert heard == [first, other, completed]
    assert recorder.reported_tests == {"t", "other"}
    # The estimate of the next run would be twice as long if both lines of the result counted.
    kept, cut = results_in((tmp_path / "results.jsonl").read_text())
    assert ([ResultRecord.model_validate(one) for one in kept], cut) == ([other, completed], [])
