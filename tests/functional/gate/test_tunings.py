"""Tunings on the virtual lab: applied, read back, and undone however a test ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.gate_project import PINET, GateLab, NewProject, Project, wait_until

NODES = ("pi4b-1", "pi4b-2")
MARKED = '@pytest.mark.pinet(board="pi4b", nic="onboard"'
TESTS = f"""
import pathlib
import time

import pytest

ORIGINAL = pathlib.Path("original")
SETTINGS = {{"rps": "all", "mtu": 4000, "tso": False, "congestion": "reno", "tcp_buffers": "8M"}}


def state(end):
    device = end.device
    done = end.shell.run(
        f"cat /sys/class/net/{{device}}/mtu /sys/class/net/{{device}}/queues/rx-0/rps_cpus; "
        "cat /proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem; "
        # The journal: the address and the ARP settings of the link, and its tunings.
        f"ethtool -k {{device}}; grep -h '^# ' /run/pytest-pinet/tunings/*"
    )
    assert done.returncode == 0, done
    return done.stdout


def states(link):
    return "\\n".join(state(end) for end in link.ends)


{MARKED})
def test_untuned(link):
    ORIGINAL.write_text(states(link))
    assert link.tunings == ()


{MARKED}, tuning=SETTINGS)
def test_tuned(link):
    outcomes = {{(one.name, one.end): (one.outcome.value, one.found) for one in link.tunings}}
    assert link.path.mtu == 4000
    for node in ("pi4b-1", "pi4b-2"):
        assert outcomes["mtu", f"{{node}}:onboard"] == ("applied", "4000")
        assert outcomes["congestion", node] == ("applied", "reno")
        assert outcomes["tcp_buffers", node][0] == "applied"
    assert outcomes["tso", "pi4b-1:onboard"] == ("applied", "off")
    assert outcomes["rps", "pi4b-1:onboard"][0] in ("applied", "unsupported")
    assert "reno" in state(link.peer)
    assert "tcp-segmentation-offload: off" in state(link.dut)
    # The whole list is put back, parts of it that changed along, too.
    assert "tx-tcp6-segmentation: off" in state(link.dut)


{MARKED}, tuning=SETTINGS)
def test_fails(link):
    assert link.path.mtu == 1500


{MARKED})
def test_as_before(link):
    assert states(link) == ORIGINAL.read_text()


{MARKED})
def test_for_a_part(link, tune):
    with tune(link, mtu=2000, gso="off") as outcomes:
        assert [(one.name, one.outcome.value) for one in outcomes] == [
            ("mtu", "applied"), ("mtu", "applied"), ("gso", "applied")
        ]
        assert link.path.mtu == 2000
        assert link.id == "pi4b:onboard/pair/mtu=2000+gso=off"
    assert link.path.mtu == 1500
    assert link.id == "pi4b:onboard/pair"
    assert link.tunings == ()
    assert states(link) == ORIGINAL.read_text()


{MARKED})
def test_none_that_takes_a_boot(link, tune):
    with tune(link, arm_freq=2000):
        pass
"""
BROKEN = f"""
import pathlib

import pytest

MARK = "/run/booted"


{MARKED}, tuning={{"mtu": 4000}})
def test_breaks(link):
    assert link.dut.shell.run(f"touch {{MARK}}").returncode == 0
    # Nothing can be taken back any more.
    script = "echo 'echo tee: /x: No space left on device >&2; exit 1'"
    spoil = f"for f in /run/pytest-pinet/tunings/*; do {{script}} > $f; done"
    assert link.dut.shell.run(spoil).returncode == 0


{MARKED})
def test_afterwards(link):
    assert link.path.mtu == 1500
    assert link.dut.shell.run(f"ls {{MARK}}").returncode != 0
"""
LONG = f"""
import pathlib
import time

import pytest


{MARKED}, tuning={{"mtu": 4000, "tso": "off"}})
def test_long(link):
    pathlib.Path("ready").write_text("")
    time.sleep(60)


{MARKED})
def test_next(link):
    assert link.path.mtu == 1500
    assert "tcp-segmentation-offload: on" in link.dut.shell.run("ethtool -k eth0").stdout
    # The journal has the changes of this link only: its address and its ARP settings.
    kept = link.dut.shell.run("grep -h '^# ' /run/pytest-pinet/tunings/*").stdout.splitlines()
    assert [line.split()[1] for line in kept] == ["address", "ARP"], kept
"""
ABSENT = f"""
import pytest

NOT_HERE = {{"irq": 1, "xps": "all", "governor": "performance", "ring_rx": 512, "rx_usecs": 5, "eee": "off",
             "flow_control": "on", "qdisc": "pfifo_fast"}}


{MARKED}, tuning=NOT_HERE)
def test_unsupported(link, gate):
    assert {{one.outcome.value for one in link.tunings}} == {{"unsupported"}}
    assert all(one.why for one in link.tunings)
    gate.tcp(link, duration=1, warmup=0.3, bitrate="20 Mbit/s", min="10 Mbit/s")


{MARKED}, tuning={{"xps": "all"}}, tuning_required=True)
def test_required(link):
    raise AssertionError("there is no XPS here")
"""

BOOT = f"""
import pathlib
import time

import pytest


def read(link, files):
    return link.dut.shell.run(f"cd /boot/firmware; cat {{files}} 2>/dev/null; ls").stdout


def is_trial(link):
    assert "1750" not in read(link, "config.txt cmdline.txt"), "the known-good files were edited"
    return "arm_freq=1750" in read(link, "tryboot.txt")


def outcomes(link):
    return [(one.name, one.outcome.value, one.found) for one in link.tunings]


CLOCK = {{"arm_freq": 1750, "kernel": "pci=pcie_bus_perf"}}


{MARKED}, tuning=[{{}}, CLOCK])
def test_first(link):
    tuned = bool(link.combination.tuning)
    assert is_trial(link) is tuned
    # The kernel took the parameter, and this board's own NIC is not on PCIe.
    found = [("arm_freq", "applied", "1750"), ("kernel", "unsupported", "")]
    assert outcomes(link) == (found if tuned else [])


{MARKED}, tuning=[{{}}, CLOCK])
def test_second(link):
    tuned = bool(link.combination.tuning)
    assert is_trial(link) is tuned
    pathlib.Path("ready").write_text("")
    if pathlib.Path("stay").exists() and tuned:
        time.sleep(60)


{MARKED})
def test_last(link):
    assert not is_trial(link)
    assert "pytest-pinet" not in read(link, "config.txt")
    assert "1750" not in link.dut.shell.run("vcgencmd get_config arm_freq").stdout
"""


BRICK = f"""
import pytest

BRICK = {{"arm_freq": 1750, "kernel": "root=mtd0"}}


{MARKED}, tuning=[{{}}, BRICK])
def test_first(link):
    assert not link.combination.tuning


{MARKED}, tuning=[BRICK, {{"arm_freq": 1700}}])
def test_second(link):
    assert [(one.name, one.outcome.value, one.found) for one in link.tunings] == [("arm_freq", "applied", "1700")]
"""


GATED = f"""
import pathlib

import pytest


{MARKED}, tuning={{"arm_freq": 1750}})
def test_both(link, gate):
    assert [(one.outcome.value, one.found) for one in link.tunings] == [("applied", "1750")]
    words = link.dut.shell.run("cat /proc/cmdline").stdout.split()
    tried = link.dut.shell.run("cat /boot/firmware/tryboot.txt").stdout.splitlines()
    (mark,) = (word for word in words if word.startswith("pinet.build="))
    assert f"os_prefix=pytest-pinet/{{mark.partition('=')[2]}}/" in tried
    with pathlib.Path("seen").open("a") as file:
        print("B" if "quiet" in words and "dtparam=eee=off" in tried else "A", tried[-1], file=file)
    gate.tcp(link, "rx", duration="1 s")
"""


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project(
        {
            "test_tuned.py": TESTS,
            "test_long.py": LONG,
            "test_absent.py": ABSENT,
            "test_boot.py": BOOT,
            "test_broken.py": BROKEN,
            "test_brick.py": BRICK,
            "test_gated.py": GATED,
            "build.yaml": "name: settings\ncmdline: quiet\nconfig: [dtparam=eee=off]\n",
        }
    )


@pytest.fixture
def booted(gate_lab: GateLab) -> Iterator[None]:
    """Switch on both nodes before the run, so that they keep their power and all settings afterwards."""
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    yield
    gate_lab.switch_power(False, *NODES)


def await_known_good(lab: GateLab, node: str) -> None:
    """Wait until a node that was released runs its known-good files, and check that nothing else is there."""

    check = [PINET, "lab", "exec", "--lab", str(lab.file), node, "--", "! grep -q pinet.build /proc/cmdline"]

    def known_good() -> bool:
        # The node may be rebooting.
        return subprocess.run(check, capture_output=True, timeout=60, check=False).returncode == 0

    wait_until(f"the known-good build of {node}", known_good)
    assert "1750" not in lab.execute(node, "cat /boot/firmware/*.txt")
    assert lab.execute(node, "ls", "/boot/firmware").split() == ["cmdline.txt", "config.txt", "kernel8.img"]


def mtus(lab: GateLab) -> list[str]:
    return [lab.execute(node, "cat", "/sys/class/net/eth0/mtu").strip() for node in NODES]


@contextmanager
def amid_test(project: Project, *tests: str) -> Iterator[subprocess.Popen[str]]:
    """Yield pytest while its test with a tuning runs."""
    tests = tests or ("test_long.py::test_long",)
    ready = project.path / "ready"
    ready.unlink(missing_ok=True)
    process = subprocess.Popen(
        project.argv(*tests),
        cwd=project.path,
        env=project.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until("the test to be tuned", ready.exists, timeout_s=60)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_settings_hold_for_their_test_alone_also_for_one_that_fails(project: Project) -> None:
    result = project.pytest("test_tuned.py")
    result.assert_outcomes(passed=4, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*test_none_that_takes_a_boot*: tune: arm_freq=2000 needs a boot: write it into the*"])
    result.stdout.no_fnmatch_line("*could not undo*")


@pytest.mark.slow
def test_a_node_on_which_something_cannot_be_taken_back_is_booted(project: Project) -> None:
    result = project.pytest("test_broken.py")
    result.assert_outcomes(passed=2)
    text = " ".join(result.stdout.str().split())
    assert "could not undo mtu=4000 of pi4b-1:onboard: pi4b-1 refused: No space left on device" in text


@pytest.mark.slow
@pytest.mark.usefixtures("booted")
def test_ctrl_c_takes_settings_back(project: Project, gate_lab: GateLab) -> None:
    with amid_test(project) as process:
        assert mtus(gate_lab) == ["4000", "4000"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert mtus(gate_lab) == ["1500", "1500"]


@pytest.mark.slow
@pytest.mark.usefixtures("booted")
def test_what_a_killed_process_left_is_taken_back_by_the_next_that_leases_the_node(
    project: Project, gate_lab: GateLab
) -> None:
    with amid_test(project) as process:
        process.kill()
        process.wait()
    assert mtus(gate_lab) == ["4000", "4000"]
    result = project.pytest("test_long.py::test_next")
    result.assert_outcomes(passed=1)
    text = " ".join(result.stdout.str().split())
    assert "undid mtu=4000 of pi4b-1:onboard, which an interrupted run left on pi4b-1" in text
    assert "undid tso=off of pi4b-1:onboard, which an interrupted run left on pi4b-1" in text
    assert mtus(gate_lab) == ["1500", "1500"]


@pytest.mark.slow
def test_a_knob_that_is_not_here_is_told_and_fails_nothing(project: Project) -> None:
    result = project.pytest("test_absent.py")
    result.assert_outcomes(passed=1, skipped=1)
    text = " ".join(result.stdout.str().split())
    assert "tuning xps=all of pi4b-1:onboard: unsupported: eth0 has one transmit queue" in text
    (figure,) = (one for one in project.results["results"] if one["directions"])
    assert {one["outcome"] for one in figure["tunings"]} == {"unsupported"}
    assert figure["id"].startswith("pi4b:onboard/pair/irq=1+xps=all+governor=performance+")
    assert any(note.startswith("tuning irq=1 of pi4b-1:onboard: unsupported") for note in figure["notes"])


@pytest.mark.slow
def test_boot_settings_take_one_boot_for_all_their_tests_and_are_taken_back(
    project: Project, gate_lab: GateLab
) -> None:
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    try:
        result = project.pytest("test_boot.py", "-v")
        result.assert_outcomes(passed=5)
        ran = [line.partition("::")[2].split()[0] for line in result.outlines if "PASSED" in line]
        key = "pi4b:onboard/pair/arm_freq=1750+kernel=pci=pcie_bus_perf"
        plain = "pi4b:onboard/pair"
        assert ran == [
            f"test_first[{plain}]",
            f"test_second[{plain}]",
            f"test_last[{plain}]",
            f"test_first[{key}]",
            f"test_second[{key}]",
        ]
        console = (project.path / ".pinet" / "latest" / "console" / "pi4b-1.log").read_text()
        # The power stays on: the board reboots for the tests and after them. (A third boot may prove that it can.)
        assert "power o" not in console
        tuned = [line for line in console.splitlines() if "Kernel command line" in line and "pcie_bus_perf" in line]
        assert len(tuned) == 1
        assert "panic=10" in tuned[0]
        await_known_good(gate_lab, "pi4b-1")
    finally:
        gate_lab.switch_power(False, *NODES)


@pytest.mark.slow
def test_boot_files_that_a_killed_process_left_are_put_back_and_the_node_is_booted(
    project: Project, gate_lab: GateLab
) -> None:
    (project.path / "stay").write_text("")
    try:
        with amid_test(project, "test_boot.py::test_second", "--pinet-tuning", "arm_freq") as process:
            process.kill()
            process.wait()
        assert "arm_freq=1750" in gate_lab.execute("pi4b-1", "cat", "/boot/firmware/tryboot.txt")
        result = project.pytest("test_boot.py::test_last")
        result.assert_outcomes(passed=1)
        text = " ".join(result.stdout.str().split())
        assert (
            "removed the boot tuning or trial boot that an interrupted run left on pi4b-1, and booted the known-good"
        ) in text
    finally:
        (project.path / "stay").unlink()
        gate_lab.switch_power(False, *NODES)


@pytest.mark.slow
def test_ctrl_c_boots_the_known_good_files_again(project: Project, gate_lab: GateLab) -> None:
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    (project.path / "stay").write_text("")
    try:
        with amid_test(project, "test_boot.py::test_second", "--pinet-tuning", "arm_freq") as process:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        await_known_good(gate_lab, "pi4b-1")
    finally:
        (project.path / "stay").unlink()
        gate_lab.switch_power(False, *NODES)


@pytest.mark.smoke
def test_a_board_that_does_not_boot_with_the_tuning_is_healed_by_one_power_cycle(
    project: Project, gate_lab: GateLab
) -> None:
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    before = gate_lab.execute("pi4b-1", "ls -li --full-time /boot/firmware/c*.txt")
    try:
        result = project.pytest("test_brick.py")
        result.assert_outcomes(passed=2, errors=2)
        text = " ".join(result.stdout.str().split())
        why = (
            "the known-good build with arm_freq=1750+kernel=root=mtd0 does not come up on pi4b-1, but the known-good "
            "build does: kernel panic on pi4b-1 while it booted"
        )
        assert why in text
        assert "leave out arm_freq=1750+kernel=root=mtd0, or choose other values" in text
        console = (project.path / ".pinet" / "latest" / "console" / "pi4b-1.log").read_text()
        # The second test with this tuning does not make the board hang again.
        assert console.count("not syncing: VFS: Unable to mount root fs") == 2, "one panic prints this twice"
        assert (console.count("power off"), console.count("power on")) == (1, 1)
        await_known_good(gate_lab, "pi4b-1")
        assert gate_lab.execute("pi4b-1", "ls -li --full-time /boot/firmware/c*.txt") == before
    finally:
        gate_lab.switch_power(False, *NODES)


@pytest.mark.slow
def test_a_gate_boots_both_builds_with_the_tuning_in_one_tryboot_txt(project: Project, gate_lab: GateLab) -> None:
    done = project.pinet("gate", "build.yaml", f"--lab={gate_lab.file}", "--pinet-boots=6", "test_gated.py")
    assert "1 skipped" not in done.stdout
    seen = (project.path / "seen").read_text().splitlines()
    assert set(seen) == {"A arm_freq=1750", "B arm_freq=1750"}
    # Whether these boots decide depends on the machine. They measured something.
    (result,) = project.results["results"]
    assert result["directions"]
    assert result["tunings"][0]["outcome"] == "applied"
