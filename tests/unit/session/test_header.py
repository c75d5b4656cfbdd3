"""The lines above the tests: lab, profile, baseline and estimate; nothing for a run without pinet tests."""

from __future__ import annotations

import json

import pytest

from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.session.terminal import about, first_s
from tests.support.verdict_project import VerdictProject

pytest_plugins = ["pytester"]

BASELINE = """
baselines:
- id: pi4b:onboard/pair/tcp-P1-tx
  value: 94 Mbit/s
  runs: [93.8 Mbit/s, 93.9 Mbit/s, 94 Mbit/s, 94.1 Mbit/s, 94.2 Mbit/s]
  build: {uname: "6.12"}
  date: 2026-11-01
  reason: what such a link carries
  sessions: [{day: 2026-10-31, runs: 5}]
"""
CALIBRATION = """
calibration:
- id: pi4b:onboard/pair/tcp-P1-tx
  noise: {connections: 0.3%, links: 0.2%, boots: 0.1%, runs: 10, link_ups: 4}
  tolerance: 3%
  repeats: 3
  margin: 1.2%
  date: 2026-11-21
  build: {uname: "6.12"}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> VerdictProject:
    return VerdictProject(pytester, monkeypatch)


def header(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("pinet: ")]


def test_a_first_run_is_estimated_by_its_gate_calls_and_its_profile(pytester: pytest.Pytester) -> None:
    names = ("idle", "latency", "recovery", "plain")
    calls = ("gate.idle(link)", "gate.latency(link)", "gate.recovery(link)", "gate.tcp(link)")
    text = "".join(f"def test_{name}(link, gate):\n    {call}\n" for name, call in zip(names, calls, strict=True))
    items = {item.name: item for item in pytester.getitems(text)}
    found = {name: {item: round(first_s(one, PROFILES[name])) for item, one in items.items()} for name in PROFILES}
    # Recorded on the virtual lab with profile standard: 133 s (20 s of silence; now 12), 23, 32 and 4 s, 1.5 s around.
    assert found["standard"] == {"test_idle": 112, "test_latency": 24, "test_recovery": 34, "test_plain": 9}
    assert found["fast"]["test_idle"] == 20


def test_it_names_lab_profile_baseline_and_estimate(project: VerdictProject) -> None:
    found = header(project.run("-k", "pass or marginal"))
    assert found == [
        "pinet: lab lab (2 nodes, 3 interfaces); about 20 s",
        "pinet: profile standard; no accepted baseline",
    ]


def test_the_estimate_comes_from_earlier_runs_and_the_baseline_from_the_lab(project: VerdictProject) -> None:
    (project.path / "baselines").mkdir()
    (project.path / "baselines" / "pi.yaml").write_text(BASELINE)
    earlier = project.path / ".pinet" / "runs" / "20261101-120000"
    earlier.mkdir(parents=True)
    line = {"test": "test_it.py::test_pass[pi4b:onboard/pair]", "seconds": 600, "traffic_seconds": 590}
    (earlier / "results.jsonl").write_text(json.dumps(line) + "\n")
    found = header(project.run("-k", "test_pass", "--pinet-profile=soak"))
    assert found == [
        "pinet: lab lab (2 nodes, 3 interfaces); about 10 min",
        "pinet: profile soak; accepted baselines for 1 of 1 combinations (2026-11-01)",
    ]
    assert header(project.run("-k", "no_such_test")) == []


def test_quiet_and_runs_without_pinet_tests_have_no_header(project: VerdictProject, pytester: pytest.Pytester) -> None:
    assert header(project.run("-q", "-k", "test_pass")) == []
    pytester.makepyfile(test_plain="def test_plain():\n    pass\n")
    assert header(project.run("test_plain.py")) == []


def test_a_build_under_test_names_its_known_good_build_and_the_estimate_of_a_boot(project: VerdictProject) -> None:
    (project.path / "new.yaml").write_text("sysctls: {net.core.rmem_max: 1000000}\n")
    result = project.run("-k", "test_pass", "--pinet-build=new.yaml", "--collect-only")
    assert header(result) == [
        "pinet: lab lab (2 nodes, 3 interfaces); about 10 s in each turn",
        "pinet: profile standard; known-good build running, the own build of each board;",
    ]
    result.stdout.fnmatch_lines([
        "  without a calibration of boots, a verdict takes 6 turns at a tolerance of 2 %",
        "  or more, 8 or 9 at a smaller one (6 if the build is more than 10 % slower, or",
        "  after `pinet calibrate --boots`)",
    ])  # fmt: skip
    (project.path / "lab.calibration.yaml").write_text(CALIBRATION)
    assert header(project.run("-k", "test_pass", "--pinet-build=new.yaml", "--collect-only"))[1:] == [
        "pinet: profile standard; known-good build running, the own build of each board",
    ]
    (project.path / "good.yaml").write_text("sysctls: {net.core.rmem_max: 2000000}\n")
    for against, named in (("good.yaml", "known-good build good.yaml"), ("accepted", "no accepted baseline")):
        words = ("-k", "test_pass", "--pinet-build=new.yaml", f"--pinet-against={against}", "--collect-only")
        assert header(project.run(*words))[1:] == [f"pinet: profile standard; {named}"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "5 s"), (9, "10 s"), (94, "95 s"), (96, "2 min"), (480, "8 min"), (7800, "2 h 10 min"), (7210, "2 h")],
)
def test_durations_are_rounded(seconds: float, text: str) -> None:
    assert about(seconds) == f"about {text}"
