"""Boards with one Ethernet port, which carries ssh and the traffic under test (lab/single-port.yaml)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from tests.support.gate_project import LAB_FILE, PINET, GateLab, NewProject, lab_text, lab_up, project_maker

SINGLE_PORT = LAB_FILE.with_name("single-port.yaml")
GATE = Path(__file__).parents[3] / "pytest_pinet" / "suites" / "test_line_rate.py"
BOARDS = ("pi3b", "pi4b", "pi5")
# A program that prints much over ssh while the traffic flows, and settings that would cut ssh.
TESTS = """
import threading

import pytest

PI4 = pytest.mark.pinet(board="pi4b", nic="onboard")


@PI4
def test_quiet(link, gate):
    assert all(end.carries_management for end in link.ends)
    gate.tcp(link, "tx")


@PI4
def test_noisy(link, gate):
    done = threading.Event()

    def print_much():
        while not done.is_set():
            link.dut.shell.run("head -c 300000 /dev/zero")

    noise = threading.Thread(target=print_much)
    noise.start()
    try:
        gate.tcp(link, "tx")
    finally:
        done.set()
        noise.join()


@pytest.mark.pinet(board="pi4b", nic="onboard", tuning={"mtu": 4000})
def test_cut(link, gate):
    gate.tcp(link, "tx")


@PI4
def test_cut_inside(link, gate, tune):
    with tune(link, mtu=4000):
        gate.tcp(link, "tx")


@pytest.mark.pinet(board="pi4b", nic="onboard", tuning={"rps": "all", "timestamps": "off"})
def test_kept(link, gate):
    gate.tcp(link, "tx")
"""

# A program that prints steadily over ssh while both builds are measured.
BUILDS = {
    "good.yaml": "sysctls: {net.ipv4.tcp_autocorking: 1}\n",
    "new.yaml": "sysctls: {net.ipv4.tcp_autocorking: 1}\nname: new\n",
}
GATED = """
import pytest


@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_rate(link, gate):
    a_tenth = {bytes_a_second} // 10
    noise = link.dut.shell.spawn(f"while sleep 0.1; do head -c {{a_tenth}} /dev/zero; done")
    try:
        gate.tcp(link, "tx")
    finally:
        noise.stop()
"""


@pytest.fixture(scope="module")
def one_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    with lab_up(tmp_path_factory.mktemp("single-port") / "single-port.yaml", lab_text(SINGLE_PORT)) as lab:
        yield lab


@pytest.fixture(scope="module")
def on_one_port(tmp_path_factory: pytest.TempPathFactory, one_port: GateLab) -> NewProject:
    return project_maker(tmp_path_factory, one_port)


@pytest.mark.smoke
def test_the_line_rate_suite_passes_over_the_port_that_carries_ssh(on_one_port: NewProject, one_port: GateLab) -> None:
    project = on_one_port({})
    # On a busy machine, links carry less than the limits of the suite.
    options = ("-p", "no:cacheprovider", f"--pinet-run-dir={project.path}", "-k", "onboard", "--pinet-min=50%")
    output = project.pytest(str(GATE), *options, timeout_s=240)
    assert output.ret == 0
    assert set(project.verdicts.values()) <= {"pass", "marginal"}
    measured = [(result["combination"]["id"], *result["directions"]) for result in project.results["results"]]
    assert sorted(measured) == sorted((f"{board}:onboard/pair", way) for board in BOARDS for way in ("tx", "rx"))
    # No port was moved, the test addresses are gone, and ssh still works.
    assert set(one_port.port_groups().values()) == {"br0"}
    for node in ("pi3b-1", "pi4b-1", "pi4b-2", "pi5-1"):
        if node in one_port.nodes_on():
            assert [one.split(".")[0] for one in one_port.addresses(node)] == ["10"]
    for result in project.results["results"]:
        assert result["cables"][0]["switch"] is not None
        for end in result["evidence"]:
            assert end["management"]["octets"] > 0
            # At a tenth of its rate, a gigabit link moves 94 Mbit/s, of which 0.1 % is allowed.
            if "pi3b" not in result["combination"]["id"]:
                assert end["management"]["share"] < 0.001


@pytest.mark.smoke
def test_ssh_that_takes_too_much_is_named_and_cutting_settings_are_skipped(on_one_port: NewProject) -> None:
    project = on_one_port({"test_it.py": TESTS})
    output = project.pytest("-rs", timeout_s=240)
    output.assert_outcomes(passed=2, errors=1, skipped=2)
    results = {result["test"].partition("::")[2].partition("[")[0]: result for result in project.results["results"]}
    noisy = results["test_noisy"]
    assert noisy["verdict"] == "invalid"
    assert len(noisy["directions"]["tx"]["connections"]) == 1
    assert "ssh, or an NFS root, of pi4b-1:onboard used its interface, too: " in " ".join(noisy["message"].split())
    assert not any("ssh" in note for note in results["test_quiet"]["notes"])
    text = output.stdout.str()
    assert "mtu may take down the link of pi4b-1:onboard" in text


@pytest.mark.slow
@pytest.mark.parametrize(("bytes_a_second", "verdict"), [(1_000_000, "invalid"), (40_000, "")])
def test_ssh_is_counted_in_a_gate_of_builds_too(on_one_port: NewProject, bytes_a_second: int, verdict: str) -> None:
    # At a tenth of its rate, the link moves 11.8 Mbyte/s: 0.1 % are 12 kbyte/s, 1 % are 118 kbyte/s.
    project = on_one_port({"test_it.py": GATED.format(bytes_a_second=bytes_a_second), **BUILDS})
    options = ("--pinet-build=new.yaml", "--pinet-against=good.yaml", "--pinet-boots=6")
    project.pytest(*options, timeout_s=300)
    (result,) = project.results["results"]
    said = "ssh, or an NFS root, of pi4b-1:onboard used its interface, too: "
    if verdict:
        assert result["verdict"] == verdict
        assert said in " ".join(result["message"].split())
        assert "(at most 1 % is allowed)" in " ".join(result["message"].split())
    else:
        assert result["verdict"] not in ("invalid", "error")
        (note,) = (one for one in result["notes"] if said in one)
        assert "(at most 0.1 % is allowed)" in note


def test_check_matrix_and_doctor_name_the_mode_and_its_cost(
    one_port: GateLab, capsys: pytest.CaptureFixture[str]
) -> None:
    def pinet(*words: str) -> str:
        if words[0] != "doctor":
            assert run([*words]) == 0
            return " ".join(capsys.readouterr().out.split())
        # The doctor may find that this machine is busy.
        done = subprocess.run([PINET, *words], capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout, (done.returncode, done.stderr[-3000:])
        return " ".join(done.stdout.split())

    file = str(one_port.file)
    cost = "the port stays in its VLAN, the link is never taken down, and settings that take it down are skipped"
    nodes = "pi3b-1 eth0, pi4b-1 eth0, pi4b-2 eth0, pi5-1 eth0"
    assert f"management same ({nodes}): {cost}" in pinet("check", file)
    assert f"management same ({nodes}): {cost}" in pinet("matrix", "--lab", file)
    (first, *_) = json.loads(pinet("matrix", "--lab", file, "--json"))
    assert first["management"] == {"pi3b-1": "same", "pi4b-1": "same"}
    found = json.loads(pinet("doctor", "--lab", file, "--json", "pi4b-1"))
    # The state of the switch port and the cable are checked as for other nodes.
    by_check = {one["check"]: one["status"] for one in found if one["node"] == "pi4b-1"}
    assert (by_check["switch port agrees"], by_check["cabling"]) == ("ok", "ok")
    (finding,) = (one for one in found if one["check"] == "management")
    assert (finding["status"], finding["node"], finding["message"]) == ("ok", "pi4b-1", f"same: {cost}")
