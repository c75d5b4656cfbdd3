"""Other programs and stolen time: from recorded /proc texts, from this machine, and live under a CPU quota."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.evidence import other_work
from pytest_pinet.evidence.node_state import Processors
from pytest_pinet.evidence.other_work import COMMAND, OtherPrograms, Snapshot, ThisMachine, parse, used_between
from pytest_pinet.evidence.sources import Texts
from pytest_pinet.model.evidence import EndEvidence
from tests.support.local_shell import LocalShell
from tests.support.orphan import orphan

MACHINE = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
END = EndEvidence("two:onboard", "eth0", traffic_s=3.0)
# A Raspberry Pi: systemd, sshd (listener, two processes of our session, our shell, iperf3), a build in another session.
BEFORE = """100.00 905
1 0 300 5000 systemd
610 1 2 900 sshd
900 610 1 0 sshd-session
902 900 1 0 sshd-session
905 902 0 0 sh
910 902 0 0 iperf3
700 610 1 0 sshd-session
701 700 5 20 bash
702 701 4 3000 make
703 702 80 0 cc1 plus
705 703 30 0 as
throttled_usec 1000
"""
AFTER = """103.00 925
1 0 300 5250 systemd
610 1 2 900 sshd
900 610 1 0 sshd-session
902 900 3 0 sshd-session
925 902 0 0 sh
910 902 280 0 iperf3
700 610 1 0 sshd-session
701 700 5 20 bash
702 701 4 3200 make
704 702 120 0 cc1 plus
throttled_usec 451000
"""
# Lines of /proc/stat of a cloud machine with two CPUs: 30 of 300 ticks of each were stolen.
STAT = (
    "500.00 800.00\nmachine-one\ncpu  100 0 100 500 0 0 10 0 0 0\ncpu0 50 0 50 250 0 0 5 0 0 0\n"
    "cpu1 50 0 50 250 0 0 5 0 0 0\n",
    "503.00 804.00\nmachine-one\ncpu  240 0 240 660 0 0 30 40 0 0\ncpu0 120 0 120 325 0 0 15 30 0 0\n"
    "cpu1 120 0 120 335 0 0 15 10 0 0\n",
)


def snapshot(text: str) -> Snapshot:
    found = parse(text)
    assert found is not None
    return found


def test_programs_of_other_sessions_are_counted_and_named() -> None:
    found = OtherPrograms().add(END, Texts(BEFORE, AFTER))
    assert found.others is not None
    # make got 200 ticks of compilers that ended, 110 of which are older; a new compiler used 120; in 3 s.
    assert found.others.share == pytest.approx((90 + 120) / 300)
    assert [(one.name, one.pid) for one in found.others.programs] == [("cc1 plus", 704), ("make", 702)]
    assert found.throttled == pytest.approx(0.15)


def test_our_session_its_traffic_and_programs_of_the_lab_are_ours() -> None:
    before, after = snapshot(BEFORE), snapshot(AFTER)
    assert (before.session, after.session) == (900, 900)
    lab = "11 1 0 0 python3\n12 1 0 0 labgrid-exporte\n13 11 0 0 qemu-system-aarch64\n/proc/11/environ\n"
    busy = lab.replace(" 0 0 q", " 900 0 q").replace(" 0 0 l", " 50 0 l")
    assert snapshot(BEFORE + lab).of_labs == {11, 12}
    found = OtherPrograms().add(END, Texts(BEFORE + lab, AFTER + busy))
    assert found.others == used_between(before, after, {900})


def test_orphans_that_init_takes_are_nobody_s() -> None:
    # systemd's ended children grew by 250 ticks: daemons of ours would end there, too.
    only = {pid: one for pid, one in snapshot(AFTER).processes.items() if pid in (1, 610)}
    found = used_between(replace(snapshot(BEFORE), processes=only), replace(snapshot(AFTER), processes=only), ())
    assert found is not None
    assert found.share == 0


@pytest.mark.parametrize("text", ["", "sh: awk: not found\n", "100.00 905\n", "1e400\n"])
def test_an_end_that_cannot_tell_has_no_other_work(text: str) -> None:
    assert OtherPrograms().add(END, Texts(text, AFTER)) == END


def test_stolen_time_is_the_sum_of_all_cpus_and_of_the_quota() -> None:
    read = Processors().add(END, Texts(*STAT))
    assert read.stolen == pytest.approx(0.3 * 30 / 90 + 0.1 * 10 / 30, abs=0.05)
    assert replace(read, throttled=0.2).stolen == pytest.approx(0.2 + (read.stolen or 0))
    assert END.stolen is None


def test_stolen_time_of_a_recorded_machine() -> None:
    recorded = Path(__file__).parents[2] / "data" / "proc-stat"
    read = Processors().add(END, Texts(*((recorded / f"{name}.txt").read_text() for name in ("before", "after"))))
    # The host took 14 of 299 ticks of the first processor, and 14 of 301 of the second one.
    assert read.processors is not None
    assert [one.steal for one in read.processors] == pytest.approx([14 / 299, 14 / 301])
    assert read.stolen == pytest.approx(14 / 299 + 14 / 301)
    assert [one.busy for one in read.processors] == pytest.approx([270 / 299, 253 / 301])


def burn(seconds: float) -> str:
    return f"import time; e = time.monotonic() + {seconds}\nwhile time.monotonic() < e: pass"


def test_a_program_of_nobody_on_this_machine_is_found_and_a_kernel_thread_is_not() -> None:
    shell, source = LocalShell(), OtherPrograms()
    before = shell.run(COMMAND).stdout
    orphan({}, sys.executable, "-c", burn(1.7))
    time.sleep(1.2)
    after = shell.run(COMMAND).stdout
    found = source.add(END, Texts(before, after)).others
    assert found is not None
    # Other work on a busy machine leaves it a part of a CPU.
    assert found.share > 0.05
    own = {one.name for one in snapshot(after).processes.values()}
    assert not {name for name in own if name.startswith(("kworker", "ksoftirqd"))}
    assert "kthreadd" not in own


def test_this_process_and_what_it_starts_are_ours() -> None:
    here = ThisMachine()
    here.before()
    process = subprocess.Popen([sys.executable, "-c", burn(1.1)])
    process.wait()
    (one, other) = here.added([replace(END, machine=MACHINE), END])
    assert other.others is None
    assert one.others is not None
    assert process.pid not in [program.pid for program in one.others.programs]
    assert os.getpid() not in [program.pid for program in one.others.programs]


@pytest.mark.parametrize(
    ("environment", "ours"), [({}, False), ({"PINET_RUN": "4711"}, True), ({"PINET_VLAB": "/tmp/pinet-0/x"}, True)]
)
def test_a_program_belongs_to_a_run_by_its_environment_not_by_its_words(
    environment: dict[str, str], ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_work, "NAMED", 1000)
    # A user's own run of pytest, of a project called pinet.
    (tmp_path / "test_pinet.py").write_text(f"def test_labgrid():\n    {burn(60).replace(chr(10), chr(10) + '    ')}\n")
    pid_file = tmp_path / "pid"
    script = 'echo $$ >"$0"; exec "$@"'
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_pinet.py")]
    orphan(environment, "sh", "-c", script, str(pid_file), *program)
    pid = wait_for_pid(pid_file)
    try:
        here = ThisMachine()
        here.before()
        time.sleep(1.2)
        (found,) = here.added([replace(END, machine=MACHINE)])
    finally:
        os.kill(pid, signal.SIGKILL)
    assert found.others is not None
    assert (pid in [program.pid for program in found.others.programs]) is not ours


def wait_for_pid(file: Path) -> int:
    until = time.monotonic() + 20
    while not (text := file.read_text() if file.exists() else "").endswith("\n"):
        assert time.monotonic() < until, "the program did not start"
        time.sleep(0.02)
    return int(text)


@pytest.fixture
def quota() -> Iterator[Path]:
    """A group whose processes get 2 % of a CPU, which is less than even a full machine leaves them."""
    old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    folder = (old if old.is_dir() else new) / f"pinet-test-{os.getpid()}"
    try:
        folder.mkdir()
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text("2000 100000")
        else:
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("2000")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"this machine has no control groups with CPU quotas to write: {error}")
    yield folder
    for _ in range(50):
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)


def test_time_that_a_quota_takes_is_stolen(quota: Path) -> None:
    # The readings come from inside the group, as readings of a run in a container do.
    count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    inside = f"echo $$ > {quota}/cgroup.procs; {COMMAND}\necho ---\n{count}\nsleep 1\n{COMMAND}"
    done = subprocess.run(["sh", "-c", inside], capture_output=True, text=True, timeout=90, check=True)
    before, after = done.stdout.split("---\n")
    found = OtherPrograms().add(END, Texts(before, after))
    assert found.stolen is not None
    # Less what the group lost before the first reading.
    assert found.stolen * (snapshot(after).uptime_s - snapshot(before).uptime_s) > 0.25
