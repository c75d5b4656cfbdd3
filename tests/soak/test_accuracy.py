"""Goodput on links up to 1 Gbit/s is true."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from pytest_pinet.lab.link.rate_shaper import reduced
from pytest_pinet.model.traffic import Direction
from tests.support.doctor_command import pinet
from tests.support.gate_project import LAB_FILE, PINET, GateLab, NewProject, Project, lab_text, lab_up, shaped
from tests.support.visited_link import GOODPUT, PAIR, goodput, rates, visited

REPETITIONS = 10
# Each kind of link up to 1 Gbit/s, with the interface of the board under test. All peers are faster.
LINKS = {
    "pi3b:onboard": "pi3b-1:onboard",
    "pi3b:ax88179": "pi3b-1:usb",
    "pi4b:onboard": "pi4b-1:onboard",
    "pi4b:ax88179": "pi4b-1:usb",
    "pi4b:rtl8153": "pi4b-2:usb",
    "cm4:onboard": "cm4-1:onboard",
    "pi5:onboard": "pi5-1:onboard",
}
# Some versions of iperf3 count whole blocks, which are 1 % of a second at 100 Mbit/s. So slow links run for 2 s.
REPEATED = """
import pytest

@pytest.mark.pinet(board="{board}", nic="{nic}")
def test_repeated(link, gate):
    for _ in range({repetitions}):
        gate.tcp(link, direction="{direction}", duration={seconds}, warmup=0.3, min="1 Mbit/s")
"""
# Our gate and plain iperf3 measure the same link alternately.
BY_HAND = """
import json, os, subprocess
import pytest

def at(end, *words):
    node = end.endpoint.node.name
    argv = [os.environ["PINET"], "lab", "exec", "--lab", os.environ["LAB"], node, "--", *words]
    return subprocess.run(argv, check=True, timeout=30, capture_output=True, text=True).stdout

def by_hand(link):
    at(link.peer, "iperf3 -s -1 -D -p 5999; until ss -ltn | grep -q :5999; do sleep 0.05; done")
    output = at(link.dut, f"iperf3 -c {link.peer.address.ip} -p 5999 -B {link.dut.address.ip} -t 4 -C cubic -J")
    return json.loads(output)["end"]["sum_received"]["bits_per_second"]

@pytest.mark.pinet(board="{board}", nic="{nic}", min="1 Mbit/s")
def test_both(link, gate):
    pairs = [(gate.tcp(link, duration=3)["tx"].bps, by_hand(link)) for _ in range(5)]
    with open("pairs.json", "w") as file:
        json.dump(pairs, file)
"""
ON_THE_WIRE = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", tuning=[{}, {"timestamps": "off"}])
def test_wire(link, gate):
    gate.tcp(link, "tx", streams=4)
"""


@pytest.mark.soak("Ten of ten measurements of {link} {direction} are within 1 % of the shaped rate.", runs=10)
@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.parametrize("link", LINKS)
def test_each_value_is_within_1_percent_of_the_shaped_rate(
    new_project: NewProject, gate_lab: GateLab, soak_count: Callable[[int, int, str], None], link: str, direction: str
) -> None:
    board, _, nic = link.partition(":")
    seconds = 2 if link == "pi3b:onboard" else 1
    text = REPEATED.format(board=board, nic=nic, direction=direction, seconds=seconds, repetitions=REPETITIONS)
    project = new_project({"test_repeated.py": text})
    project.pytest(timeout_s=300).assert_outcomes(passed=1)
    found = [result["directions"][direction]["goodput_bps"] for result in project.results["results"]]
    rate = shaped(gate_lab, LINKS[link], direction)
    assert len(found) == REPETITIONS
    parts = ", ".join(f"{value / rate:.3f}" for value in found)
    soak_count(
        REPETITIONS, sum(value != pytest.approx(rate, rel=0.01) for value in found), f"parts of the rate: {parts}"
    )


@pytest.mark.soak("The median of five measurements of {link} tx is within 0.5 % of the median of plain iperf3.", runs=3)
@pytest.mark.parametrize("link", ["pi4b:onboard", "pi3b:onboard", "pi4b:rtl8153"])
def test_our_value_is_that_of_plain_iperf3(new_project: NewProject, link: str) -> None:
    board, _, nic = link.partition(":")
    project = new_project({"test_by_hand.py": BY_HAND.replace("{board}", board).replace("{nic}", nic)})
    project.pytest(timeout_s=240).assert_outcomes(passed=1)
    pairs = json.loads((project.path / "pairs.json").read_text())
    ratio = median(ours for ours, _ in pairs) / median(plain for _, plain in pairs)
    assert 0.995 <= ratio <= 1.005


@pytest.mark.soak(
    "A gigabit link measures 941.5 Mbit/s with TCP timestamps and 949.3 Mbit/s without, each within 2 Mbit/s.",
    runs=5,
)
def test_timestamps_cost_what_they_take_on_the_wire(new_project: NewProject) -> None:
    project = new_project({"test_wire.py": ON_THE_WIRE})
    project.pytest().assert_outcomes(passed=2)
    values = {r["combination"]["id"]: r["directions"]["tx"]["goodput_bps"] / 1e6 for r in project.results["results"]}
    assert values["pi4b:onboard/pair"] == pytest.approx(941.5, abs=2)
    assert values["pi4b:onboard/pair/timestamps=off"] == pytest.approx(949.3, abs=2)


@pytest.mark.soak(
    "A shaper for 90 % and 80 % of a link is exact within 1 %, and the full rate returns when it is removed.", runs=5
)
def test_a_reduction_is_exact_and_leaves_nothing(gate_lab: GateLab) -> None:
    with visited(gate_lab) as (here, link):
        with reduced(link.peer, rates(link, tx=0.9, rx=0.8), 60):
            assert goodput(here, link, Direction.TX) == pytest.approx(0.9, abs=0.01)
            assert goodput(here, link, Direction.RX) == pytest.approx(0.8, abs=0.01)
        assert goodput(here, link, Direction.TX) == pytest.approx(1.0, abs=0.01)


@pytest.mark.soak(
    "The self-test measures a known reduction of 10 % within 0.5 %, and both baselines within 1 % of the link's rate.",
    runs=5,
)
def test_the_self_test_measures_its_own_reduction(gate_lab: GateLab) -> None:
    words = ("--reductions", "10%", "--repeats", "2", "--seed", "5", "--json")
    done = pinet(gate_lab, "selftest", "--lab", str(gate_lab.file), PAIR, *words)
    assert done.code == 0
    (found,) = json.loads(done.output)
    assert found["counts"][1]["measured_reduction"] == pytest.approx(0.1, abs=0.005)
    expected = {name: pytest.approx(GOODPUT.bps, rel=0.01) for name in ("tx", "rx")}
    assert found["baselines_bps"] == expected


@pytest.mark.soak(
    "If the virtual lab halves one direction of a link, both directions keep their rates within 2 %.", runs=5
)
def test_a_degraded_link_is_slower_by_as_much_as_it_says(gate_lab: GateLab) -> None:
    with visited(gate_lab) as (here, link):
        gate_lab.degrade("pi3b-1:onboard", "--rate", "0.5", "--direction", "tx")
        try:
            assert goodput(here, link, Direction.TX) == pytest.approx(0.5, rel=0.02)
            assert goodput(here, link, Direction.RX) == pytest.approx(1.0, rel=0.02)
        finally:
            gate_lab.restore()


@pytest.mark.soak(
    "Each published value that the virtual lab can emulate is within 3 % of its source, and within 10 % if both "
    "directions run at once.",
    runs=3,
    minutes=30,
)
def test_the_published_values_come_out_of_their_suites(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    text = lab_text(LAB_FILE.with_name("published.yaml"), scale=1)
    with lab_up(tmp_path_factory.mktemp("published-lab") / "published.yaml", text) as lab:
        project = Project(tmp_path, lab)
        project.pytest("--pyargs", "pytest_pinet.suites", "--ignore-glob=*test_line_rate.py", timeout_s=1500)
        argv = [PINET, "compare", "published", "--complete"]
        table = subprocess.run(argv, cwd=project.path, capture_output=True, text=True, timeout=60, check=False)
        assert table.returncode == 0, table.stdout + table.stderr
