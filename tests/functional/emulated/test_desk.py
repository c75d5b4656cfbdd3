"""A desk of emulated boards: ssh to one port, user pi with sudo, and neither power control, console nor coordinator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.config.labfile import load
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.deploy.trial_guard import LOG
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.session import LabSession
from tests.support.emulated_desk import is_as_found
from tests.support.emulated_gate import LAB, NEEDS, card_or_skip, patient
from tests.support.gate_project import PINET, GateLab, Project, lab_up, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
GATE = Path(__file__).parents[3] / "pytest_pinet" / "suites" / "test_line_rate.py"
BOARD, PEER = "untagged", "peer"
DESK = """\
imports:
  - pytest_pinet.lab.drivers
targets:
  untagged:
    resources:
      NetworkService: {{address: 127.0.0.1, port: {untagged}, username: pi}}
    drivers: &drivers
      PiSSHDriver: {{keyfile: {key}}}
      PiStrategy: {{}}
  peer:
    resources:
      NetworkService: {{address: 127.0.0.1, port: {peer}, username: root}}
    drivers: *drivers
pinet:
  name: desk
  boards:
    virt-same: {{title: QEMU virt, clock_mhz: 62, cores: 1, buses: [pcie3x1], onboard: virtio}}
    peer: {{title: network namespace, clock_mhz: 1000, cores: 1, buses: [pcie3x1]}}
  nics:
    virtio: {{title: virtio NIC of QEMU, driver: virtio_net, bus: soc, speeds_mbps: [10000]}}
    veth: {{title: virtual cable, driver: veth, bus: pcie3x1, speeds_mbps: [10000]}}
  switches:
    home: {{backend: fixed, ports: [pi, peer]}}
  nodes:
    untagged:
      board: virt-same
      clock: virtual
      management: same
      boot_timeout: 240 s
      interfaces:
        onboard: {{port: home/pi}}
    peer:
      board: peer
      boot_timeout: 30 s
      interfaces:
        pcie: {{nic: veth, port: home/peer}}
  limits:
    - {{board: "virt-*", nic: onboard, min: 20 Mbit/s}}
"""
TESTS = """
import pytest

@pytest.mark.pinet(board="virt-same", nic="onboard")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")
"""
BUILDS = {
    "quiet.yaml": "cmdline: quiet\n",
    "panics.yaml": "cmdline: rdinit=/nope root=mtd0\n",
    "blind.yaml": "cmdline: module_blacklist=virtio_net\n",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    text = patient((LAB / "single-port-emulated.yaml").read_text())
    assert text.count("management: same\n") == 1
    text = text.replace("management: same\n", "management: same\n      user: pi\n")
    with card_or_skip(), lab_up(tmp_path_factory.mktemp("hidden") / "lab.yaml", text) as lab:
        lab.switch_power(True, BOARD, PEER)
        for node in (BOARD, PEER):
            wait_until(f"the boot of {node}", lambda node=node: lab.answers(node), 240.0)  # type: ignore[misc]
        yield lab


@pytest.fixture(scope="module")
def desk(lab: GateLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("desk") / "desk.yaml"
    ports = {node["name"]: node["ssh"] for node in lab.status()["nodes"]}
    file.write_text(DESK.format(key=lab.environment["LG_KEYFILE"], untagged=ports[BOARD], peer=ports[PEER]))
    return file


@pytest.fixture(scope="module")
def project(lab: GateLab, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("project"), lab)
    for name, text in {"test_change.py": TESTS, **BUILDS}.items():
        made.write(name, text)
    return made


def gate(project: Project, desk: Path, build: str, *words: str) -> tuple[int, str]:
    """Return the exit code and the whole output of a gate."""
    done = subprocess.run(
        [PINET, "gate", build, f"--lab={desk}", "-p", "no:hypothesispytest", *words],
        cwd=project.path, env=project.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it when the test fails)
    return done.returncode, done.stdout + done.stderr


def test_the_doctor_lists_what_the_desk_lacks(desk: Path, project: Project) -> None:
    done = subprocess.run(
        [PINET, "doctor", "--lab", str(desk)], env=project.environment(), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    text = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no power control: a kernel that hangs needs you to unplug the board; gates of builds ask before" in text
    assert "no serial console: the last words of a kernel that dies are lost" in text
    assert "no managed switch: cables and byte counts are not checked" in text
    assert "none: a lock file on each board leases it to one user at a time" in text


def test_the_line_rate_suite_runs(desk: Path, project: Project, lab: GateLab) -> None:
    options = ("-p", "no:cacheprovider", f"--pinet-run-dir={project.path}", "--pinet-board=virt-*", "-k", "onboard")
    output = project.pytest(str(GATE), *options, lab_file=desk, timeout_s=600)
    assert output.ret == 0
    assert set(project.verdicts.values()) <= {"pass", "marginal"}
    assert is_as_found(lab, BOARD)


def test_a_gate_asks_before_it_boots_a_build(desk: Path, project: Project, lab: GateLab) -> None:
    code, text = gate(project, desk, "quiet.yaml")
    assert code == 4
    assert "untagged has no power control" in text
    assert "--pinet-unattended" in text
    assert is_as_found(lab, BOARD)


def test_a_good_build_passes(desk: Path, project: Project, lab: GateLab) -> None:
    code, text = gate(project, desk, "quiet.yaml", "--yes")
    assert code == 0, text
    assert is_as_found(lab, BOARD)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("panics", id="panics-comes-back-by-itself"),
        pytest.param("blind", id="without-a-network-comes-back-by-the-guard"),
    ],
)
def test_a_build_that_does_not_come_up(desk: Path, project: Project, lab: GateLab, name: str) -> None:
    code, text = gate(project, desk, f"{name}.yaml", "--yes")
    assert code == 1, text
    assert f"{name} does not come up on untagged, which booted its known-good build" in " ".join(text.split())
    assert "unplug untagged and plug it in again" not in text
    assert is_as_found(lab, BOARD)


def test_a_kernel_that_hangs_is_reset_by_the_watchdog(desk: Path, lab: GateLab, tmp_path: Path) -> None:
    session = LabSession(load(desk), Identity.of_this_process(), 60.0, lambda _: None)
    (tmp_path / "build.yaml").write_text("name: hangs\ncmdline: quiet\n")
    build = load_build(str(tmp_path / "build.yaml"))
    try:
        (node,) = session._pool.get([session.lab.nodes[BOARD]], 60.0)
        node.deployment.check(build)
        assert "A watchdog and panic=10 bring its known-good build back" in node.deployment.risk(build)
        assert "quiet" in node.deployment.start(build).cmdline.split()
        wait_until("the guard", lambda: node.shell.run(f"cat {LOG}").stdout.strip() == "watchdog yes", 60)
        # No process runs any more beside this loop, not even the guard.
        hang = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; chrt -f 99 sh -c 'while :; do :; done'"
        node.shell.run(as_root(f"{{ {hang}; }} </dev/null >/dev/null 2>&1 &"))
        node.await_boot()
        assert "quiet" not in node.shell.run("cat /proc/cmdline").stdout.split()
    finally:
        warnings = session.close()
    assert warnings == []
    assert is_as_found(lab, BOARD)
    assert os.environ.get("LG_COORDINATOR") is None
