"""The file of a watch and what it says: hours, events, rates and the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.evidence.vitals import DECAY, DROP, REBOOT, SILENCE, STALL
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.watch.journal import NAME, Journal, Record, read, tally

BEGIN: Record = {"t": 0.0, "what": "begin", "traffic": False, "builds": [], "limit": None}


def alive(t: float, hours: float, loaded: float = 0.0, node: str = "pi5-1") -> Record:
    return {"t": t, "what": "alive", "of": {node: [hours * 3600, loaded * 3600]}}


def sign(t: float, kind: str, over: bool = False, part: str = "eth0", node: str = "pi5-1") -> Record:
    return {"t": t, "what": "sign", "node": node, "kind": kind, "part": part, "text": f"{kind} at {t:g}", "over": over}


def turn(t: float, which: str, number: int, node: str = "pi5-1") -> Record:
    return {"t": t, "what": "turn", "node": node, "side": which, "number": number}


def test_hours_without_an_event_say_what_they_prove() -> None:
    found = tally([BEGIN, alive(60, 30), alive(120, 10, 0.5)])
    assert found.verdict is Verdict.PASS
    assert found.lines() == [
        "0 stalls in 40 h: below 75 per 1,000 h; to show < 1 per 1,000 h, watch 24 boards for 5 days",
        "0.5 of these hours were under traffic",
    ]
    assert tally([BEGIN]).verdict is Verdict.INCONCLUSIVE
    assert tally([]).verdict is Verdict.INCONCLUSIVE


def test_signs_of_one_cause_are_one_event_with_the_worst_kind() -> None:
    records = [
        BEGIN,
        alive(0, 10),
        sign(100, SILENCE),
        sign(190, SILENCE, over=True),
        sign(190, REBOOT, over=True, part=""),
        sign(700, DROP),
        sign(705, DROP, over=True),
        sign(5000, STALL),
    ]
    found = tally([*records, alive(5060, 10)])
    first, second = found.events
    assert (first.kind, first.start_s, first.end_s, first.text) == (REBOOT, 100, 705, "reboot at 190")
    # The stall goes on to the last record.
    assert (second.kind, second.end_s) == (STALL, 5060)
    assert found.verdict is Verdict.FAIL
    assert "1 stall in 20 h: 50 per 1,000 h, below 237 per 1,000 h" in found.lines()
    # Another board has events of its own.
    assert len(tally([*records, sign(101, DROP, over=True, node="pi5-2"), alive(5060, 10)]).events) == 3


def test_what_goes_on_when_the_watch_is_killed_ends_when_it_begins_again() -> None:
    found = tally([BEGIN, sign(100, STALL), {**BEGIN, "t": 4000.0}, sign(9000, STALL), sign(9020, STALL, over=True)])
    assert [(one.start_s, one.end_s) for one in found.events] == [(100, 4000), (9000, 9020)]


def test_what_was_measured_before_a_boot_ends_with_the_boot() -> None:
    boot: Record = {"t": 4000.0, "what": "boot", "node": "pi5-1", "id": "b"}
    silence = sign(3990, SILENCE, part="pi5-1")
    found = tally([BEGIN, sign(100, DECAY), silence, boot, sign(4010, SILENCE, over=True, part="pi5-1"), alive(9e3, 1)])
    assert [(one.kind, one.end_s) for one in found.events] == [(DECAY, 4010)]


def test_a_slow_link_that_recovers_after_a_restart_of_the_watch_is_one_event() -> None:
    found = tally([BEGIN, sign(100, DECAY), {**BEGIN, "t": 4000.0}, sign(9000, DECAY, over=True)])
    assert [(one.kind, one.start_s, one.end_s) for one in found.events] == [(DECAY, 100, 4000)]


def test_a_limit_is_kept_exceeded_or_not_certain() -> None:
    begin = {**BEGIN, "limit": 5.0}
    assert tally([begin, alive(60, 461)]).verdict is Verdict.PASS
    assert tally([begin, alive(60, 461)]).is_final
    assert not tally([begin, alive(60, 400)]).is_final
    events = [sign(1e4 * number, STALL, over=True) for number in range(1, 8)]
    assert tally([begin, alive(60, 100), *events]).verdict is Verdict.FAIL


def test_builds_are_compared_by_the_hours_and_events_of_their_turns() -> None:
    records: list[Record] = [{**BEGIN, "builds": ["old", "new"], "traffic": True}]
    for number in range(12):
        which = "AB"[number % 2]
        at = number * 10_000.0
        records += [turn(at, which, number), alive(at + 3600, 2.0, 1.0)]
        records += [sign(at + 4000 + 700 * one, STALL, over=True) for one in range(2)] if which == "B" else []
    found = tally(records)
    assert (found.exposure("A").hours, found.exposure("B").hours) == (6, 6)
    assert (found.exposure("A").events, found.exposure("B").events) == (0, 12)
    assert found.verdict is Verdict.FAIL
    assert found.is_final
    lines = found.lines()
    assert "regression: 12 events of B in 6.0 h, 0 of A in 6.0 h" in lines
    assert any(line.startswith("A old: 0 stalls in 6 h under traffic: below 499 per 1,000 h") for line in lines)
    assert tally(records[:-6]).verdict is Verdict.INCONCLUSIVE


def test_without_events_a_build_passes_if_it_keeps_the_limit() -> None:
    records: list[Record] = [{**BEGIN, "builds": ["old", "new"], "limit": 5.0}]
    for number, which in enumerate("ABBA"):
        records += [turn(number, which, number), alive(number, 231)]
    assert tally(records).verdict is Verdict.PASS
    records[0] = {**records[0], "limit": None}
    assert tally(records).verdict is Verdict.INCONCLUSIVE


def test_a_file_that_a_crash_cut_off_loses_only_its_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(1.0, "begin", builds=[], limit=None)
    journal.add(2.0, "note", text="of the first watch")
    with pytest.raises(ConfigError, match="another `pinet watch` writes"):
        Journal(tmp_path)
    journal.close()
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes() + b'{"t":3.0,"wh')
    journal = Journal(tmp_path)
    journal.add(4.0, "alive", of={})
    journal.close()
    assert [record["t"] for record in read(tmp_path)] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("text", ["", "no journal\n", "[1]\n", '{"what":1,"t":2.0}\n'])
def test_a_folder_without_a_watch_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="expected the folder of a watch"):
        read(tmp_path)
    if text:
        (tmp_path / NAME).write_text(text)
        with pytest.raises(ConfigError, match=r"is no (file|record) of a watch"):
            read(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        '{"what":"note","text":"a"}',
        '{"t":1.0,"what":"sign"}',
        '{"t":1.0,"what":"sign","node":"pi5-1","kind":"flood","text":"flood"}',
        '{"t":1.0,"what":"sign","node":"pi5-1","kind":"stall","text":"stall","part":[]}',
        '{"t":1.0,"what":"turn","node":"pi5-1","side":"A"}',
        '{"t":1.0,"what":"alive","of":{"pi5-1":[60.0]}}',
        '{"t":1.0,"what":"alive","of":{"pi5-1":60.0}}',
        '{"t":1.0,"what":"begin"}',
        '{"t":1.0,"what":"flood"}',
        '{"t":"1.0","what":"note","text":"a"}',
        "[1]",
    ],
)
def test_a_record_that_says_something_else_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / NAME).write_text(f'{{"t":0.0,"what":"note","text":"a"}}\n{{"t":1.0,"wh\n{line}\n')
    with pytest.raises(ConfigError) as found:
        read(tmp_path)
    where = f"{tmp_path / NAME}:3"
    assert str(found.value) == f"{where}: this is no record of a watch: {line}; remove the line"


def test_an_hour_of_six_boards_takes_less_than_a_hundred_kilobytes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    boards: dict[str, Any] = {f"pi5-{number}": [60.0, 12.3] for number in range(6)}
    for minute in range(60):
        journal.add(1_796_001_808.12 + 60 * minute, "alive", of=boards)
    journal.close()
    assert (tmp_path / NAME).stat().st_size < 20_000
