"""``pinet merge`` from files to files: run folder, raw files, history, exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.cli import run as run_command
from pytest_pinet.history.history import open_history
from pytest_pinet.history.results_file import read_run
from pytest_pinet.model.build import BuildSource
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.run_folder import write_json
from tests.support.change_records import change_run, compared
from tests.support.report_records import direction, result, run_record


def run(words: list[str]) -> int:
    """Return the exit code of a command, also of one that ends Python."""
    try:
        return run_command(words)
    except SystemExit as ended:
        return int(str(ended.code))


FILE = "raw/pi4b_ax88179_pair-0123456789ab/client.json"


pytestmark = pytest.mark.usefixtures("here")


def written(name: str, run: RunRecord) -> str:
    folder = Path(name)
    (folder / FILE).parent.mkdir(parents=True)
    (folder / FILE).write_text(name)
    write_json(folder / "results.json", run)
    return name


def shards(change: float = 0.0, relation: str = "same") -> list[str]:
    one = change_run([compared("pi4b:onboard/pair", "rx", 0.0, "same")], shards=2, error_rate=0.01, session="a")
    two = change_run([compared("pi5:onboard/pair", "tx", change, relation)], shards=2, error_rate=0.01, session="b")
    return [written("one", one), written("two", two)]


def test_two_shards_become_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["merge", *shards(-0.03, "slower")]) == 1
    output = capsys.readouterr()
    assert "new must not be merged: 1 of 2 metrics slower, by 3.0 %" in output.out
    assert output.err == ""
    merged = read_run(Path(".pinet/latest/results.json"))
    assert len(merged.results) == 2
    assert [Path(".pinet/latest", one.files[0]).read_text() for one in merged.results] == ["one", "two"]


def test_the_configurations_of_the_kernels_are_kept_and_linked(capsys: pytest.CaptureFixture[str]) -> None:
    names = shards(-0.03, "slower")
    source = BuildSource(
        made_by="", place="/srv/out", tree="", branch="", commit="", describe="", compiler="", config=""
    )
    for name in names:
        path = Path(name, "results.json")
        record = read_run(path)
        assert record.change is not None
        sides = {
            side: build.replace(source=replace(source, config=f"build-{side.upper()}.config"))
            for side, build in (("a", record.change.a), ("b", record.change.b))
        }
        write_json(path, record.replace(change=record.change.replace(**sides)))
        for side, hz in (("A", 250), ("B", 1000)):
            Path(name, f"build-{side}.config").write_text(f"CONFIG_HZ={hz}\n")
    assert run(["merge", *names]) == 1
    folder = Path(".pinet/latest").resolve()
    assert (folder / "build-B.config").read_text() == "CONFIG_HZ=1000\n"
    # The run has the name of its first shard, but a folder of its own.
    assert read_run(folder / "results.json").run != folder.name
    Path("out").mkdir()
    assert run(["report", "-o", "out/page.html"]) == 0
    address = f"../.pinet/runs/{folder.name}/build-B.config"
    assert f'href="{address}"' in Path("out/page.html").read_text()
    assert Path("out", address).is_file()
    assert run(["report", "--email"]) == 0
    assert "CONFIG_HZ: 250 -> 1000" in Path("regression.eml").read_text()


def test_summary_export_and_report_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["merge", *shards()]) == 0
    for words in (["summary", "--format", "md"], ["export", "--format", "ktap"], ["report", "-o", "report.html"]):
        assert run(words) == 0
    output = capsys.readouterr().out
    assert "new may be merged: none of 2 metrics is slower than with good." in output
    assert "pi5.onboard.pair" in output
    assert "new may be merged" in Path("report.html").read_text()


def test_the_history_has_one_run_and_each_value_once(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        run_record([result("pi4b:onboard/pair", {way: direction(9e8, 8e8)})], session=way, lab=lab, exitstatus=0)
        for way, lab in (("tx", "bench"), ("rx", "annex"))
    ]
    names = [written(str(one.session), one) for one in runs]
    assert run(["merge", *names]) == 0
    assert run(["merge", *names]) == 0
    with open_history(".pinet/history.db") as store:
        (stored,) = store.runs()
        assert stored.lab == "bench+annex"
        values = {(one.figure[-2:], one.lab) for one in store.points_of(stored.id)}
        assert values == {("tx", "bench"), ("rx", "annex")}
    assert capsys.readouterr().err == ""


def test_a_history_with_a_shard_does_not_count_its_values_twice(capsys: pytest.CaptureFixture[str]) -> None:
    names = shards()
    assert run(["history", "import", "one/results.json"]) == 0
    assert run(["merge", *names]) == 0
    assert capsys.readouterr().err == (
        "pinet: the merged run is not in the history, because the history already has one; gate shards with "
        "--history off\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one", "one"], "one is the same run as one; name each run once"),
        (["one", "three"], "there is no 'three'; expected a results.json or a run folder"),
    ],
)
def test_mistakes_leave_no_run_folder(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    shards()
    assert run(["merge", *words]) == 4
    assert capsys.readouterr().err == f"pinet: {message}\n"
    assert not Path(".pinet").exists()
