"""The accepted baselines beside a lab file: read with file and line, always written in the same form."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from pytest_pinet.config import labfile
from pytest_pinet.config.baselines import (
    AcceptedBaseline,
    SessionEntry,
    load_baselines,
    read_baselines,
    write_baselines,
)
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.judge.baseline import RunPlace, compare
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance, amount
from tests.support.two_boards import two_boards

MISTAKES = yaml.safe_load(Path(__file__).with_name("baselines_mistakes.yaml").read_text(encoding="utf-8"))
LAB = two_boards()
GOOD = """\
baselines:
  - id: "pi4b:onboard/pair/tcp-P1-tx"
    value: 941.3 Mbit/s
    runs: [941.2 Mbit/s, 941.3 Mbit/s, 941.4 Mbit/s]
    build: {kernel: 6.12.34-v8+, driver: bcmgenet, firmware: null}
    date: 2026-11-21
    reason: "first of this bench"
    sessions: [{day: 2026-11-20, runs: 3}]
"""
FILE = "expected a file of baselines (a list under the key 'baselines')"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabOfFile:
    """Return a lab file, named by its relative path as users do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.yaml").write_text(LAB)
    (tmp_path / "baselines").mkdir()
    return labfile.load("lab.yaml")


def refused(lab: LabOfFile) -> str:
    with pytest.raises(ConfigError) as caught:
        load_baselines(lab)
    return str(caught.value)


def test_a_baseline_has_the_values_of_its_entry(lab: LabOfFile) -> None:
    (lab.baselines / "pi4b.yaml").write_text(GOOD)
    (found,) = load_baselines(lab).values()
    assert found == AcceptedBaseline(
        "pi4b:onboard/pair/tcp-P1-tx",
        Bitrate.parse("941.3 Mbit/s"),
        tuple(Bitrate.parse(f"{mbps} Mbit/s") for mbps in (941.2, 941.3, 941.4)),
        {"kernel": "6.12.34-v8+", "driver": "bcmgenet", "firmware": None},
        date(2026, 11, 21),
        "first of this bench",
        (SessionEntry(date(2026, 11, 20), runs=3),),
        Where(""),
    )
    assert str(found.where) == "baselines/pi4b.yaml:2"


def test_the_judge_takes_it_with_its_runs(lab: LabOfFile) -> None:
    (lab.baselines / "pi4b.yaml").write_text(GOOD)
    (found,) = load_baselines(lab).values()
    assert found.baseline().builds == ("driver bcmgenet", "kernel 6.12.34-v8+")
    assert (found.baseline().date, found.baseline().reason) == ("2026-11-21", "first of this bench")
    difference = compare([Bitrate.mbps(800)] * 3, found.baseline(), Tolerance(Share(0.03)))
    assert difference.why == "not gated: the baseline has 3 runs, but needs 5"


def test_all_files_of_the_folder_are_read(lab: LabOfFile) -> None:
    (lab.baselines / "b.yaml").write_text(GOOD)
    (lab.baselines / "a.yml").write_text(GOOD.replace("tcp-P1-tx", "tcp-P1-rx"))
    (lab.baselines / ".b.yaml.swp").write_text("not YAML: [")
    (lab.baselines / "README.md").write_text("how these came to be")
    assert sorted(load_baselines(lab)) == ["pi4b:onboard/pair/tcp-P1-rx", "pi4b:onboard/pair/tcp-P1-tx"]


def test_the_usual_folder_need_not_exist(lab: LabOfFile) -> None:
    lab.baselines.rmdir()
    assert load_baselines(lab) == {}


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_is_named_must_exist(lab: LabOfFile, there: bool) -> None:
    if there:
        Path("accepted").write_text("a file")
    Path("lab.yaml").write_text(f"{LAB}  baselines: accepted\n")
    message = (
        "lab.yaml:7: pinet.baselines: the folder 'accepted' does not exist; expected a folder with files of baselines"
    )
    assert refused(labfile.load("lab.yaml")) == message


def test_the_error_of_a_duplicate_baseline_names_both_places(lab: LabOfFile) -> None:
    (lab.baselines / "new.yaml").write_text(GOOD)
    (lab.baselines / "old.yaml").write_text("# kept from before\n" + GOOD)
    assert refused(lab) == (
        "baselines/old.yaml:3: baseline 'pi4b:onboard/pair/tcp-P1-tx' is a duplicate; the first one is in "
        "baselines/new.yaml:2"
    )


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["says"][:60])
def test_a_mistake_is_one_sentence(lab: LabOfFile, mistake: dict[str, str]) -> None:
    assert mistake["old"] in GOOD
    (lab.baselines / "pi4b.yaml").write_text(GOOD.replace(mistake["old"], mistake["new"], 1))
    assert refused(lab) == f"baselines/pi4b.yaml:{mistake['says']}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", f": the file is empty; {FILE}"),
        ("- x\n", f":1: {FILE}, got a list"),
        ("baselines: {}\n", ":1: baselines: expected a list, got a mapping"),
        ("baselines: [\n", ":2: this is not YAML: "),
    ],
)
def test_other_files_are_refused_as_baselines(lab: LabOfFile, text: str, says: str) -> None:
    (lab.baselines / "pi4b.yaml").write_text(text)
    assert refused(lab).startswith(f"baselines/pi4b.yaml{says}")


def test_written_baselines_read_back_and_give_the_same_bytes(tmp_path: Path) -> None:
    def baseline(name: str, *mbps: float) -> AcceptedBaseline:
        runs = tuple(Bitrate.mbps(value) for value in mbps)
        build = {"kernel": "6.10", "firmware": None, "driver": "r8169: patched # twice"}
        sessions = (SessionEntry(date(2026, 11, 20), runs=len(runs)),)
        return AcceptedBaseline(name, max(runs), runs, build, date(2026, 11, 21), "no: change", sessions, Where(""))

    entries = [
        baseline("pi5:rtl8125/pair/tcp-P1-tx", 2353.4567891, 2351.9),
        baseline("cm4:aqc107/incast:5/udp-P1-b400M-rx", 0.000321),
    ]
    path = tmp_path / "new" / "own.yaml"
    write_baselines(path, entries)
    first = path.read_bytes()
    write_baselines(path, reversed(entries))
    assert path.read_bytes() == first
    assert [entry.name for entry in path.parent.iterdir()] == ["own.yaml"]
    found = read_baselines(path)
    assert [own.id for own in found] == sorted(own.id for own in entries)
    for own, read in zip(reversed(entries), found, strict=True):
        assert [amount(run) for run in read.runs] == pytest.approx([amount(run) for run in own.runs], abs=1)
        assert (read.build, read.date, read.reason) == (own.build, own.date, own.reason)


def test_a_file_for_review_has_an_entry_as_people_write_it(tmp_path: Path) -> None:
    path = tmp_path / "pi4b.yaml"
    path.write_text(GOOD)
    write_baselines(path, read_baselines(path))
    assert (
        path.read_text()
        == """\
# Accepted baselines: the accepted value (of goodput: at the receiver), and the value of each run of the baseline.
# 'sessions' says in the order of the runs on which day, boot and link-up they were made, and which connection
# since the link-up the first of them is, after how much traffic in its boot.
baselines:
- id: pi4b:onboard/pair/tcp-P1-tx
  value: 941.3 Mbit/s
  runs: [941.2 Mbit/s, 941.3 Mbit/s, 941.4 Mbit/s]
  build: {driver: bcmgenet, firmware: null, kernel: 6.12.34-v8+}
  date: 2026-11-21
  reason: first of this bench
  sessions:
  - {day: 2026-11-20, boot: 1, link_up: 1, runs: 3, number: 1, after_s: 0, each_s: 0}
"""
    )


def test_runs_know_their_day_boot_and_link_up(tmp_path: Path) -> None:
    path = tmp_path / "pi4b.yaml"
    path.write_text(GOOD)
    (old,) = read_baselines(path)
    sessions = (SessionEntry(date(2026, 11, 20), runs=2), SessionEntry(date(2026, 11, 21), boot=2, link_up=3))
    write_baselines(path, [replace(old, sessions=sessions)])
    lines = path.read_text().splitlines()
    assert lines[-3:] == [
        "  sessions:",
        "  - {day: 2026-11-20, boot: 1, link_up: 1, runs: 2, number: 1, after_s: 0, each_s: 0}",
        "  - {day: 2026-11-21, boot: 2, link_up: 3, runs: 1, number: 1, after_s: 0, each_s: 0}",
    ]
    (read,) = read_baselines(path)
    first, second = RunPlace("2026-11-20", "1", "1"), RunPlace("2026-11-21", "2", "3")
    assert read.baseline().places == (first, first, second)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"^cannot write .+file/own\.yaml: .+/file is no folder$"):
        write_baselines(tmp_path / "file" / "own.yaml", [])


def test_acknowledged_losses_in_the_folder_are_no_baselines(lab: LabOfFile) -> None:
    (lab.baselines / "pi4b.yaml").write_text(GOOD)
    (lab.baselines / "acknowledged.yaml").write_text("acknowledged: []\n")
    assert len(load_baselines(lab)) == 1
