import json

import pytest
from kcidb_io import schema

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.build import BuildSource
from pytest_pinet.report.export.kcidb import kcidb
from tests.support.export_runs import ALTERNATED, EXACT, PLAIN, RUNS

COMMIT = "0e44d9fed54654d05b4c841b78fb077dac90c249"
SOURCE = {
    "git_commit": COMMIT,
    "git_url": "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git",
    "git_branch": "master",
    "tree": "mainline",
}


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("settings", [SOURCE, {"git_commit": COMMIT}, {"build": "maestro:1f2e"}], ids=len)
def test_kcidb_io_accepts_it(kind: str, settings: dict[str, str]) -> None:
    found = json.loads(kcidb(RUNS[kind], settings))
    schema.V5_3.validate(found)
    assert schema.V5_3.count(found) == len(found["tests"]) + (0 if "build" in settings else 2)
    builds = {one["id"] for one in found.get("builds", ())} | {settings.get("build")}
    assert {one["build_id"] for one in found["tests"]} <= builds
    assert {one["checkout_id"] for one in found.get("builds", ())} == {one["id"] for one in found.get("checkouts", ())}
    assert len({one["id"] for one in found["tests"]}) == len(found["tests"])


def test_statuses() -> None:
    tests = json.loads(kcidb(ALTERNATED, SOURCE))["tests"]
    assert [(one["path"], one["status"]) for one in tests] == [
        ("pinet.pi4b.onboard.pair.tcp-P1-tx", "FAIL"),
        ("pinet.pi4b.onboard.pair.tcp-P1-rx", "PASS"),
        ("pinet.pi5.onboard.pair.tcp-P1-rx", "PASS"),
        ("pinet.cm4.onboard.pair.tcp-P1-tx", "ERROR"),
        ("pinet.pi3b.onboard.pair", "FAIL"),
    ]
    night = {one["path"]: one["status"] for one in json.loads(kcidb(PLAIN, SOURCE))["tests"]}
    # No limit, and an error of the lab.
    assert night["pinet.pi5.i226v.pair.tcp-P1-tx"] == "DONE"
    assert night["pinet.cm4.onboard.pair"] == "MISS"


def test_the_number_is_also_where_the_dashboard_shows_it() -> None:
    first, *_ = json.loads(kcidb(ALTERNATED, SOURCE | {"link": "https://ci.example.org/9"}))["tests"]
    assert first["number"] == {"value": pytest.approx(921.239e6), "unit": "bit/s", "prefix": "metric"}
    assert first["log_excerpt"].splitlines() == [
        "pi4b:onboard/pair/tcp-P1-tx: fail, goodput 921.2 Mbit/s, limit 931.6 Mbit/s",
        "slower, certain after 7 turns: B is -2.10 %",
    ]
    assert first["log_url"] == "https://ci.example.org/9"
    assert first["environment"]["misc"]["platform"] == "bcm2711-rpi-4-b"
    (_, rx) = json.loads(kcidb(EXACT, SOURCE))["tests"]
    assert rx["misc"]["figures"] == "emulated"
    assert rx["misc"]["instructions_per_packet"]["b"] == 5233.0
    assert rx["misc"]["packets_per_second"] == pytest.approx({"a": 5297.0, "b": 4890.0})


def test_the_commit_of_the_build_under_test_needs_no_setting() -> None:
    head = ALTERNATED.change
    assert head is not None
    source = BuildSource(
        made_by="TuxMake 1.45", place="build", tree=SOURCE["git_url"], branch="master", commit=COMMIT,
        describe="v6.12-1-g0e44d9f", compiler="aarch64-linux-gnu-gcc 12.2", config="config",
    )  # fmt: skip
    run = ALTERNATED.replace(change=head.replace(b=head.b.replace(source=source)))
    found = json.loads(kcidb(run, {}))
    schema.V5_3.validate(found)
    (checkout,), (build,) = found["checkouts"], found["builds"]
    assert checkout["git_commit_hash"] == COMMIT
    assert checkout["git_repository_url"] == SOURCE["git_url"]
    assert checkout["git_commit_name"] == "v6.12-1-g0e44d9f"
    assert build["compiler"] == "aarch64-linux-gnu-gcc 12.2"
    assert json.loads(kcidb(run, {"git_commit": "1" * 40}))["checkouts"][0]["git_commit_hash"] == "1" * 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, f"kcidb needs git_commit; pass --set git_commit={COMMIT}"),
        ({"git_commit": "0e44d9f"}, "--set git_commit: '0e44d9f' is no whole hash; expected 40 hexadecimal digits"),
        (
            SOURCE | {"git_url": "git://git.kernel.org/linux.git"},
            "--set git_url: 'git://git.kernel.org/linux.git' is no https URL; KCIDB accepts no other",
        ),
        ({"build": "1f2e"}, "--set build: '1f2e' is no id of a build; expected ORIGIN:ID, such as maestro:1f2e"),
        (
            {"origin": "My Lab"},
            "--set origin: 'My Lab' has other characters than a-z, 0-9 and _; expected pinet",
        ),
    ],
)
def test_what_kcidb_would_refuse(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        kcidb(PLAIN, settings)
    assert str(raised.value) == message
