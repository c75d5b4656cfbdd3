"""Nodes that stay booted between tests, are reset, or do not boot and are then out of service."""

from __future__ import annotations

import pytest

from tests.support.gate_project import GateLab, NewProject

pytestmark = pytest.mark.slow

KEPT = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_first(link): pass

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_second(link): pass

@pytest.mark.pinet(board="pi3b", nic="onboard", reset=True)
def test_reset(link): pass

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_after(link): pass
"""


def test_nodes_stay_booted_until_somebody_asks_for_a_reset(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_kept.py": KEPT})

    def boots() -> list[int]:
        logs = [project.path / ".pinet" / "latest" / "console" / f"{node}.log" for node in ("pi3b-1", "pi3b-2")]
        return [log.read_text().count("Booting Linux on physical CPU") for log in logs]

    project.pytest("-k", "first or second").assert_outcomes(passed=2, deselected=2)
    assert boots() == [1, 1]
    project.pytest().assert_outcomes(passed=4)
    assert boots() == [2, 2]
    assert gate_lab.nodes_on() == set()
    # Power is cut after the halt: at the reset, and at the end.
    for node in ("pi3b-1", "pi3b-2"):
        lines = (project.path / ".pinet" / "latest" / "console" / f"{node}.log").read_text().splitlines()
        ours = [line.partition(" ")[2] for line in lines if "-- power off" in line or "reboot: Power down" in line]
        assert [text.partition("] ")[2] or text for text in ours] == ["reboot: Power down", "-- power off"] * 2


OUT_OF_SERVICE = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_hangs(link, gate):
    gate.tcp(link, duration=1, bitrate="50 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_hangs_still(link, gate):
    gate.tcp(link, duration=1, bitrate="50 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_well(link):
    pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "each")], ids=["one process", "two workers"])
def test_a_node_that_does_not_boot_is_power_cycled_once_and_then_out_of_service(
    new_project: NewProject, gate_lab: GateLab, options: tuple[str, ...]
) -> None:
    if options:
        pytest.importorskip("xdist")
    project = new_project({"test_out.py": OUT_OF_SERVICE})
    gate_lab.degrade("pi4b-1", "--freeze")
    try:
        # Every worker runs every test: the second worker learns from the file of the first.
        output = project.pytest("-rs", *options, timeout_s=300)
    finally:
        gate_lab.restore()
    workers = 2 if options else 1
    output.assert_outcomes(errors=1, skipped=2 * workers - 1, passed=workers)
    errors = [result for result in project.results["results"] if result["verdict"] == "error"]
    assert len(errors) == 1
    message = errors[0]["message"]
    assert message.startswith("pi4b-1 does not answer on its serial console: ")
    assert "(also after a power cycle)" in message
    output.stdout.fnmatch_lines(["not measured:", "    pi4b-1 is skipped for the rest of this run: pi4b-1 does*"])
    log = (project.path / ".pinet" / "latest" / "console" / "pi4b-1.log").read_text()
    assert log.count("-- power on") == 2
    assert "pinet: restart" not in output.stdout.str()
    assert gate_lab.nodes_on() == set()
    assert gate_lab.holders() == []
