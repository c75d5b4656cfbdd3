"""Results and histories that other programs broke: one sentence, and the rest of an import is kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.cli import run
from pytest_pinet.execution.text import parse_json
from pytest_pinet.history.history import lines_of
from pytest_pinet.history.store import HistoryStore
from tests.support.gate_records import gated_run
from tests.support.history_records import day, keep, kept

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = "a" * 1_000_000
Edit = Callable[[dict[str, Any]], object]


pytestmark = pytest.mark.usefixtures("here")


def code_of(*words: str) -> int:
    try:
        return run(list(words))
    except SystemExit as ended:
        return int(str(ended.code))


def sentence(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the message of a command that refuses its input."""
    assert code_of(*words) == 4
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pinet: ")]
    return line


def way(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["results"][0]["directions"]["tx"]
    return found


EDITS: dict[str, Edit] = {
    "goodput as text": lambda data: way(data).update(goodput_bps="941000000"),
    "goodput nan": lambda data: way(data).update(goodput_bps=float("nan")),
    "goodput infinite": lambda data: way(data).update(goodput_bps=float("inf")),
    "goodput huge": lambda data: way(data).update(goodput_bps=1e300),
    "goodput tiny": lambda data: way(data).update(goodput_bps=1e-320),
    "no directions": lambda data: data["results"][0].update(directions={}),
    "directions missing": lambda data: data["results"][0].pop("directions"),
    "id huge": lambda data: data["results"][0].update(id="pi4b:onboard/" + HUGE),
    "combination huge": lambda data: data["results"][0]["combination"].update(id=HUGE),
    "lab huge": lambda data: data.update(lab=HUGE),
    "file huge": lambda data: data["results"][0].update(files=[f"raw/{HUGE}"]),
    "goodput negative": lambda data: way(data).update(goodput_bps=-1.0),
    "limit infinite": lambda data: way(data)["limit"].update(number=float("inf")),
    "verdict unknown": lambda data: way(data).update(verdict="good"),
    "verdict missing": lambda data: way(data).pop("verdict"),
    "directions a list": lambda data: data["results"][0].update(directions=[1]),
    "time no time": lambda data: data.update(started="2026-13-45T99:00"),
    "time out of range": lambda data: data.update(started="0001-01-01T00:00:00+23:59"),
    "exit status huge": lambda data: data.update(exitstatus=10**30),
    "results a mapping": lambda data: data.update(results={}),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("command", ["summary", "compare", "export", "import", "published"])
def test_a_broken_results_file_is_refused(capsys: pytest.CaptureFixture[str], edit: Edit, command: str) -> None:
    data = day(1).dump()
    edit(data)
    path = "r.json"
    Path(path).write_text(json.dumps(data))
    words = {
        "summary": ["summary", path], "compare": ["compare", path, path],
        "export": ["export", path, "--format", "openmetrics"], "import": ["history", "import", path],
        "published": ["compare", "published", path],
    }[command]  # fmt: skip
    assert path in sentence(capsys, *words)


GATES: dict[str, Edit] = {
    "tolerance": lambda data: data["results"][0]["change"].update(tolerance=1e308),
    "change": lambda data: data["change"]["entries"][0].update(change=1e308),
    "goodput of A": lambda data: data["change"]["entries"][0].update(a_bps=1e-320),
}


@pytest.mark.parametrize("edit", GATES.values(), ids=GATES)
@pytest.mark.parametrize("command", ["summary", "import"])
def test_a_gate_with_an_impossible_number_is_refused(
    capsys: pytest.CaptureFixture[str], edit: Edit, command: str
) -> None:
    data = gated_run().dump()
    edit(data)
    Path("r.json").write_text(json.dumps(data))
    words = {"summary": ["summary", "r.json"], "import": ["history", "import", "r.json"]}[command]
    assert "r.json is broken (" in sentence(capsys, *words)


def test_a_file_of_a_run_whose_name_no_system_has(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a" * 300, "a/" * 2000 + "b", "a\0b"):
        folder = Path(".pinet/runs/one")
        folder.mkdir(parents=True, exist_ok=True)
        data = day(1).dump()
        data["results"][0]["files"] = [name]
        (folder / "results.json").write_text(json.dumps(data))
        assert run(["report", "--page", "--history", "off"]) == 0
        assert code_of("merge", "--history", "off", str(folder)) == 0
        assert "Traceback" not in capsys.readouterr().err


def test_the_page_has_no_control_characters() -> None:
    data = day(1).dump()
    one = data["results"][0]
    hostile = "".join(map(chr, (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2028))) + "\x1b[31m"
    one["id"] = one["combination"]["id"] = f"pi4b:{hostile}/pair"
    one["build"] = {hostile: hostile}
    Path(".pinet/runs/one").mkdir(parents=True)
    Path(".pinet/runs/one/results.json").write_text(json.dumps(data))
    assert run(["report", "--page", "--history", "off", "-o", "page.html"]) == 0
    found = Path("page.html").read_text()
    assert {one for one in found if not one.isprintable()} - {"\n", "\xa0"} == set()


HOSTILE_NAME = "x\x1b[31m\x1b]0;y\x07\npinet: all is well\n"


@pytest.mark.parametrize(
    "words",
    [
        ["summary", HOSTILE_NAME],
        ["check", HOSTILE_NAME],
        ["compare", HOSTILE_NAME, "latest"],
        ["export", "--format", HOSTILE_NAME],
        ["history", "import", HOSTILE_NAME],
        ["history", "--history", f"{HOSTILE_NAME}.db"],
        ["summary", f"--{HOSTILE_NAME}"],
        [HOSTILE_NAME],
        ["report", "-o", f"none/{HOSTILE_NAME}/page.html"],
        ["graph", "--lab", HOSTILE_NAME],
    ],
)
def test_a_name_cannot_look_like_a_message(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    Path(HOSTILE_NAME).mkdir()
    Path(HOSTILE_NAME, "results.json").write_text("{")
    assert code_of(*words) == 4
    error = capsys.readouterr().err
    assert "\npinet: all is well" not in error
    assert not any(one in error for one in "\x1b\x07")


@pytest.mark.parametrize("argument", ["x" * 100_000, "x y " * 25_000, "\u20ac" * 100_000, "\x1b" * 100_000])
@pytest.mark.parametrize(
    "words",
    [["summary"], ["check"], ["history", "--history"], ["report", "--last"], [], ["summary", "--format"], ["who"]],
)
def test_a_message_does_not_repeat_a_long_argument(
    capsys: pytest.CaptureFixture[str], words: list[str], argument: str
) -> None:
    assert code_of(*words, argument) == 4
    assert 0 < len(capsys.readouterr().err) < 20_000


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("command", ["summary", "import"])
def test_a_gate_with_an_unknown_verdict_is_refused(
    capsys: pytest.CaptureFixture[str], whole: bool, command: str
) -> None:
    data = gated_run().dump()
    (data["change"] if whole else data["change"]["entries"][0]).update(verdict="fine")
    Path("r.json").write_text(json.dumps(data))
    told = sentence(capsys, *{"summary": ["summary", "r.json"], "import": ["history", "import", "r.json"]}[command])
    assert "r.json" in told
    assert "verdict" in told


@pytest.mark.parametrize("text", [DEEP, f'{{"run": 1, "results": {DEEP}}}', "nan", "[" * 9, "\ud800", '"\\ud800"', "1"])
@pytest.mark.parametrize("command", ["summary", "compare", "import"])
def test_a_file_that_is_no_run_is_refused(capsys: pytest.CaptureFixture[str], text: str, command: str) -> None:
    Path("r.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    words = {"summary": ["summary", "r.json"], "compare": ["compare", "r.json", "r.json"]}
    assert "r.json" in sentence(capsys, *words.get(command, ["history", "import", "r.json"]))


def exported(days: int) -> list[str]:
    return list(lines_of(kept([day(number) for number in range(1, days + 1)])))


POINTS: dict[str, Edit] = {
    "infinity": lambda point: point.update(value=float("inf")),
    "text": lambda point: point.update(value="9"),
    "nan": lambda point: point.update(oracle_bps=float("nan")),
    "huge": lambda point: point.update(value=1e300),
    "huge number": lambda point: point.update(number=10**40),
    "verdict": lambda point: point.update(verdict="good"),
    "no verdict": lambda point: point.pop("verdict"),
    "time": lambda point: point.update(time="0001-01-01T00:00:00+23:59"),
    "type": lambda point: point.update(build=[]),
}


@pytest.mark.parametrize("edit", POINTS.values(), ids=POINTS)
def test_the_rest_of_an_import_is_kept(capsys: pytest.CaptureFixture[str], edit: Edit) -> None:
    lines = exported(3)
    at = next(at for at, line in enumerate(lines) if '"point"' in line and at > 2)
    entry = json.loads(lines[at])
    edit(entry["point"])
    lines[at] = json.dumps(entry)
    lines.insert(2, DEEP) if edit is POINTS["type"] else None
    Path("h.jsonl").write_text("\n".join(lines))
    Path("whole.json").write_text(json.dumps(day(9).dump()))
    assert code_of("history", "import", "h.jsonl", "whole.json") == 4
    output = capsys.readouterr()
    broken = [line for line in output.err.splitlines() if line.startswith("pinet: h.jsonl:")]
    assert len(broken) == (2 if edit is POINTS["type"] else 1)
    assert "is left out" in broken[0]
    store = HistoryStore.open(".pinet/history.db")
    assert len(store.runs()) == (2 if edit is POINTS["type"] else 3)
    store.close()
    assert run(["history", "--json"]) == 0
    assert run(["export", "latest", "--format", "openmetrics"]) == 0
    assert run(["report", "--page"]) == 0


def test_a_lone_surrogate_of_an_import_becomes_text(capsys: pytest.CaptureFixture[str]) -> None:
    lines = exported(1)
    entry = json.loads(lines[2])
    entry["point"]["reason"] = "console \udcff"
    Path("h.jsonl").write_text("\n".join([*lines[:2], json.dumps(entry)]))
    assert run(["history", "import", "h.jsonl"]) == 0
    assert run(["history", "--json"]) == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compare", "r.json", "r.json", "--tolerance", "nan"], "'nan' is not a finite number"),
        (["history", "--matters", "nan"], "'nan' is not a finite number"),
        (["lab", "degrade", "a", "--rate", "nan"], "--rate nan: expected a factor from 0.001 to 1"),
        (["compare", "", "r.json"], "the name of a run is empty"),
        (["summary", ""], "the name of a run is empty"),
        (["summary", "x" * 5000], "there is no 'xxx"),
        (["summary", "a\0b"], "there is no 'a"),
        (["summary", "/dev/zero"], "/dev/zero is not a regular file"),
        (["export", "", "--format", "openmetrics"], "the name of a run is empty"),
        (["report", "-o", ""], "-o is empty; expected the name of a file"),
        *[
            ([*words, "--last", "99999999999999999999"], "--last': 99999999999999999999 is not in the range")
            for words in (
                ["history", "show"],
                ["report"],
                ["losses"],
                ["accept", "--reason", "x"],
                ["losses", "acknowledge", "x", "--owner", "a", "--until", "2099-01-01", "--link", "https://a/b"],
            )
        ],
    ],
)
def test_options_and_paths(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert says in sentence(capsys, *words)


@pytest.mark.parametrize("command", ["summary", "compare", "export", "import", "published"])
def test_a_key_that_occurs_twice(capsys: pytest.CaptureFixture[str], command: str) -> None:
    Path("r.json").write_text(json.dumps(day(1).dump())[:-1] + ', "results": []}')
    words = {
        "summary": ["summary", "r.json"], "compare": ["compare", "r.json", "r.json"],
        "export": ["export", "r.json", "--format", "ktap"], "import": ["history", "import", "r.json"],
        "published": ["compare", "published", "r.json"],
    }[command]  # fmt: skip
    assert "r.json is no JSON (the key 'results' occurs twice in one object)" in sentence(capsys, *words)


@pytest.mark.parametrize("name", ["latest~-1", "latest~1~1", "latest~" + "9" * 30, "latest~\u0663", "latest~x"])
def test_runs_that_no_history_has(capsys: pytest.CaptureFixture[str], name: str) -> None:
    keep([day(1)])
    assert f"has no run and no build '{name}'" in sentence(capsys, "compare", name, "latest")


@pytest.mark.parametrize("special", ["fifo", "device", "loop", "folder", "proc", "nothing"])
@pytest.mark.parametrize("name", ["r.json", "results.jsonl", "run/results.json"])
def test_what_is_no_regular_file(capsys: pytest.CaptureFixture[str], special: str, name: str) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    if special == "fifo":
        os.mkfifo(path)
    elif special == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "loop": path.name, "proc": "/proc/kmsg", "nothing": "none"}[special])
    for given in (name, "run") if name.startswith("run/") else (name,):
        for words in (["summary"], ["compare", name], ["published"], ["merge"], ["export", "--format", "ktap"]):
            assert code_of(*words, given) == 4
            message = capsys.readouterr().err
            assert message.startswith("pinet: ")
            assert "Traceback" not in message
    assert name in sentence(capsys, "history", "import", name)


BAD_LINES = {
    "no json": "x", "list": "[]", "nan": '{"id": NaN}', "deep": DEEP, "empty": "{}", "type": '{"id": 5}',
    "twice": '{"id": "a", "id": "b"}',
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_the_rest_of_a_killed_run_is_kept(capsys: pytest.CaptureFixture[str], bad: str) -> None:
    data = day(1).dump()
    result = json.dumps(data.pop("results")[0])
    Path("run.json").write_text(json.dumps(data))
    Path("results.jsonl").write_text("\n".join([result, bad, result]))
    says = "results.jsonl: line 2 is left out, because it is incomplete or wrong ("
    assert run(["history", "import", "results.jsonl"]) == 0
    assert capsys.readouterr().err.startswith(says)
    with HistoryStore.open(".pinet/history.db") as store:
        (stored,) = store.runs()
        assert len(store.points_of(stored.id)) == 2
    assert run(["summary", "results.jsonl"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith(f"pinet: {says}")
    assert "2 measured: 2 pass" in output.out


def test_an_export_without_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("h.jsonl").write_text("\n".join(exported(1)[1:]))
    assert "h.jsonl:1: no heading; expected lines of" in sentence(capsys, "history", "import", "h.jsonl")


@pytest.mark.parametrize("url", ["/", "."])
def test_a_folder_as_a_history(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert "is a folder" in sentence(capsys, "history", "--history", url)


LONG = "a" * 300


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["losses", "who", LONG], "expected the name of a driver"),
        (["losses", "who", f"{LONG}/pi4b:x"], "neither the history nor the catalogue knows the driver"),
        (["losses", "who", "pi4b:*", "--history", LONG], f"there is no history {LONG}"),
        (["losses", "who", "e1000e", "--tree", LONG], f"{LONG} is no source tree of the kernel"),
        (["history", "show", "--history", LONG], f"there is no history {LONG}"),
        (["history", "import", "r.json", "--history", LONG], f"history {LONG}: unable to open database file"),
        (["report", "--history", LONG], f"there is no history {LONG}"),
        (["report", "--allure-results", LONG], f"there is no folder {LONG}"),
        (["summary", LONG], f"there is no '{LONG}'"),
        (["losses", "--lab", "virtual", "--history", LONG], f"there is no history {LONG}"),
        (["compare", "published", LONG], f"there is no '{LONG}'"),
        (["init", "pi@host", "--keyfile", LONG, "-o", "x.yaml"], f"--keyfile: there is no file {LONG}"),
        (["init", "pi@host", "-o", f"{LONG}/x"], f"there is no folder {LONG}"),
    ],
)
def test_a_name_that_is_too_long(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert says in sentence(capsys, *words)


@pytest.mark.parametrize("name", ["all.jsonl", "r.json"])
def test_an_empty_file_is_not_imported(capsys: pytest.CaptureFixture[str], name: str) -> None:
    Path(name).touch()
    message = f"pinet: {name} is empty; expected a file of 'pinet history export' or a results.json"
    assert sentence(capsys, "history", "import", name) == message


def test_a_folder_that_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    # For each user but root, the working directory of the first process is closed; for root in a container as well.
    assert "there is no file" in sentence(capsys, "compare", "/proc/1/cwd/x", "r.json")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "9" * 5000, str(2**63), DEEP, "{", "01"])
def test_what_is_no_json_for_us(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|large|nested|Expecting|Extra"):
        parse_json(text)


def test_one_repeated_key_among_many_is_found_at_once() -> None:
    names = [*range(20_000), 7]
    begin = time.process_time()
    with pytest.raises(ValueError, match="the key '7' occurs twice in one object"):
        parse_json("{" + ", ".join(f'"{name}": 1' for name in names) + "}")
    assert time.process_time() - begin < 2
