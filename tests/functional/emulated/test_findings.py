"""Broken builds on boards that really boot them, through ``pinet gate``; and pytest killed during a deployment."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.emulated_gate import GATE_TIMEOUT_S, NEEDS, card_or_skip, gate_text
from tests.support.gate_project import PINET, GateLab, Project
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
NODE = "virt-1"
KNOWN_GOOD = "console=ttyAMA0,115200 root=/dev/vda2 rootfstype=ext4 rootwait"
TESTS = """
import pytest

@pytest.mark.pinet(board="virt", nic="e1000e")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")

@pytest.mark.pinet(board="virt", nic="e1000e")
def test_link(link):
    assert link.dut.shell.run("cat /proc/cmdline").stdout.strip().endswith("rootwait")
"""
BUILDS = {
    # No initramfs, and a root file system that the kernel does not wait for; and one that rootwait waits for.
    "panics.yaml": "cmdline: rdinit=/nope root=mtd0\n",
    "hangs.yaml": "cmdline: rdinit=/nope root=/dev/nope\n",
    "blind.yaml": "cmdline: module_blacklist=e1000e\n",
    "quiet.yaml": "cmdline: quiet\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    file = tmp_path_factory.mktemp("findings") / "emulated.yaml"
    file.write_text(gate_text())
    with card_or_skip():
        lab = GateLab(file)
    found = Project(tmp_path_factory.mktemp("project"), lab)
    for name, text in {"test_change.py": TESTS, **BUILDS}.items():
        found.write(name, text)
    # The first kilobyte of a bzImage (Documentation/arch/x86/boot.rst): a build for this machine, not for the board.
    (found.path / "bzImage").write_bytes(b"\0" * 0x202 + b"HdrS" + b"\0" * 0x200)
    try:
        # The gate leaves a board on that was on before, so the test sees the build that the gate left running.
        lab.switch_power(True, NODE)
        await_answer(found)
        yield found
    finally:
        lab.down()


def gate(project: Project, build: str, *words: str) -> tuple[int, str]:
    """Return the exit code and the whole output."""
    lab = f"--lab={project.lab.file}"
    done = project.pinet("gate", build, lab, "test_change.py", "-k", "rx", *words, timeout_s=GATE_TIMEOUT_S)
    return done.returncode, done.stdout + done.stderr


def await_answer(project: Project) -> None:
    def answers() -> bool:
        argv = [PINET, "lab", "exec", "--lab", str(project.lab.file), NODE, "--", "true"]
        try:
            return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    wait_until(f"{NODE} to answer", answers, 240.0)


def on_board(project: Project, command: str) -> str:
    return project.lab.execute(NODE, command).strip()


def runs_known_good(project: Project) -> None:
    await_answer(project)
    assert on_board(project, "cat /proc/cmdline") == KNOWN_GOOD
    assert "pytest-pinet" not in on_board(project, "ls -a /boot/firmware /lib/modules /lib/modules/* /var/lib")
    assert "tryboot.txt" not in on_board(project, "ls /boot/firmware")


@pytest.mark.parametrize(
    ("build", "words", "code", "kind", "sentence"),
    [
        ("bzImage", (), 1, "wrong architecture", "build bzImage is for x86, but a Raspberry Pi has an arm64"),
        ("bzImage", ("--bisect",), 125, "wrong architecture", "bzImage must not be merged: wrong architecture (1 of 1"),
        (
            "panics.yaml",
            (),
            1,
            "panic",
            "build panics does not come up on virt-1, but the known-good build does: kernel panic on virt-1 while it",
        ),
        (
            "hangs.yaml",
            ("--bisect", "--against=accepted"),
            125,
            "hang",
            "build hangs does not come up on virt-1, but the known-good build does: virt-1 does not answer on its",
        ),
        (
            "blind.yaml",
            ("--against=accepted",),
            1,
            "no driver",
            "virt-1:pcie: there is no network device eth0; the NICs there: ",
        ),
    ],
)
def test_a_broken_build_is_a_finding_and_the_board_runs_its_known_good_build_again(
    project: Project, build: str, words: tuple[str, ...], code: int, kind: str, sentence: str
) -> None:
    found, text = gate(project, build, *words)
    assert found == code, text
    change = project.results["change"]
    assert [(entry["verdict"], entry["finding"]) for entry in change["entries"]] == [("fail", kind)]
    assert (change["exit"], change["bisect_exit"]) == (1, 125)
    assert sentence in " ".join(text.split())
    assert kind.upper() in text
    shown = text.partition("= pinet throughput =")[2].partition("= short test")[0].splitlines()
    assert [line for line in shown if len(line) > 80] == []
    runs_known_good(project)


# The console texts of each stage of a deployment, and the seconds after them within which pytest is killed.
STAGES = [
    ("the reboot into the build", ["reboot: Restarting system"], 3.0),
    ("the login to the build, which is measured and taken back", ["firmware: tryboot.txt", "# run() {"], 10.0),
    ("the login, after which it is deployed", ["# run() {"], 15.0),
    ("the firmware, which reads tryboot.txt", ["firmware: tryboot.txt"], 8.0),
]


# Two points here; tests/soak has ten.
@pytest.mark.parametrize("number", range(2))
def test_the_next_run_recovers_from_a_pytest_killed_during_a_deployment(project: Project, number: int) -> None:
    choice = random.Random(number)
    what, shown, at_most_s = STAGES[number % len(STAGES)]
    after_s = choice.uniform(0, at_most_s)
    console = project.path / ".pinet" / "latest" / "console" / f"{NODE}.log"
    before = set((project.path / ".pinet" / "runs").glob("*"))
    process = subprocess.Popen(
        project.argv("--pinet-build=quiet.yaml", "--pinet-against=accepted", "-k", "rx"),
        cwd=project.path, env=project.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def reached() -> bool:
            assert process.poll() is None, f"pytest ended before {what}"
            run = (project.path / ".pinet" / "latest").resolve()
            text = console.read_text() if run not in before and console.exists() else ""
            for mark in shown:
                if mark not in text:
                    return False
                text = text.partition(mark)[2]
            return True

        wait_until(what, reached, 400.0)
        time.sleep(after_s)
        ended = process.poll()
    finally:
        process.kill()
        process.wait()
    last = console.read_text().splitlines()[-1]
    print(f"kill {number}: {after_s:.1f} s after {what}; ended before: {ended}; console: {last}")  # noqa: T201
    done = project.pytest("-k", "test_link", timeout_s=GATE_TIMEOUT_S)
    assert done.ret == 0, done.outlines
    found = " ".join(line for line in done.outlines if "known-good" in line or "build under test" in line)
    print(f"the next run: {found or 'found nothing'}")  # noqa: T201
    # Killed after the first write and before the undo.
    if "reboot" in what or "firmware" in what:
        assert "removed the build under test that an interrupted run left on virt-1" in found
    runs_known_good(project)
