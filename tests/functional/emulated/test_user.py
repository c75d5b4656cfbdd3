"""A board without root login: a deployment, a gate, the doctor and the shutdown as the user pi, who may use sudo."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.node_checks import check_root
from pytest_pinet.errors import ShutdownError
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.node.node_session import NodeSession
from tests.support.emulated_gate import NEEDS, emulated_gate, emulated_session

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
NODE, OTHER = "virt-2", "virt-1"
# The last rule that matches decides: sudo asks for a password, except to remove this file.
LOCKED = "/etc/sudoers.d/020_locked"
RULES = f"pi ALL=(ALL) PASSWD: ALL\\npi ALL=(ALL) NOPASSWD: /usr/bin/rm {LOCKED}\\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabAccess]:
    with emulated_session(tmp_path_factory.mktemp("user")) as session:
        yield session


@pytest.fixture
def node(lab: LabAccess) -> NodeSession:
    (session,) = lab.pool.get([lab.lab.nodes[NODE]], 60.0)
    return session


def test_a_build_is_booted_and_removed_without_root_login(node: NodeSession, tmp_path: Path) -> None:
    assert node.shell.run("id -un; echo $PATH").stdout.split() == ["pi", "/usr/local/bin:/usr/bin:/bin"]
    (tmp_path / "build.yaml").write_text("name: same\ncmdline: pinet.same=1\n")
    build = load_build(str(tmp_path / "build.yaml"))
    node.deployment.check(build)
    running = node.deployment.start(build)
    assert "pinet.same=1" in running.cmdline
    assert node.deployment.start(None).marker is None
    assert not node.deployment.take_back()
    assert "pytest-pinet" not in node.shell.run("ls /boot/firmware /lib/modules /var/lib").stdout


def test_root_cannot_log_in(node: NodeSession) -> None:
    # Without the open connection of the user pi.
    control = [word for word in node.shell.argv if word.startswith("ControlPath")]
    assert control
    argv = ["root" if word == "pi" else "ControlPath=none" if word in control else word for word in node.shell.argv]
    argv[1:1] = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    done = subprocess.run([*argv, "true"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "Permission denied" in done.stderr) == (255, True), done.stderr
    shadow = node.shell.run(as_root("cat /etc/shadow")).stdout.splitlines()
    assert [line.split(":")[1] for line in shadow if line.startswith("root:")] == ["*"]


def test_a_user_without_sudo_is_named_and_keeps_the_power(node: NodeSession) -> None:
    bench = cast(
        Bench,
        SimpleNamespace(shell=lambda _: node.shell, in_parallel=lambda look: look(SimpleNamespace(name=NODE))),
    )
    assert check_root(bench) == []
    assert node.shell.run(as_root(f"printf '{RULES}' > {LOCKED}")).returncode == 0
    shell = node.shell
    try:
        (finding,) = check_root(bench)
        assert finding.message == "the ssh user of virt-2 cannot become root: sudo: a password is required"
        with pytest.raises(ShutdownError, match="virt-2 cannot be shut down, so its power was not cut: sudo: a pass"):
            node.reset()
        assert node.strategy.node_power.is_on()
    finally:
        assert shell.run(f"sudo -n rm {LOCKED}").returncode == 0
        node.reset_due = True


def test_power_is_cut_after_the_halt(node: NodeSession, lab: LabAccess) -> None:
    assert node.record is not None
    before = node.record.number
    (again,) = lab.pool.get([lab.lab.nodes[NODE]], 60.0, reset=True)
    assert again.ready
    lines = [line.text for line in node.record._lines if line.number > before]
    halted = next(number for number, text in enumerate(lines) if "reboot: Power down" in text)
    assert "-- power off" in lines[halted:]
    assert "-- power off" not in lines[:halted]
    assert lab.take_warnings() == []


def _exchanged(text: str) -> str:
    """Return the lab file with the names of the two boards exchanged, so that the gate uses the board of pi."""
    return text.replace(OTHER, "third").replace(NODE, OTHER).replace("third", NODE)


def test_a_gate_without_root_login(tmp_path_factory: pytest.TempPathFactory) -> None:
    gates = emulated_gate(tmp_path_factory, _exchanged)
    gate = next(gates)
    try:
        gate.switch(on=True)
        assert gate.project.lab.execute(OTHER, "id", "-un").strip() == "pi"
        code = gate.run("name: as it is, reloaded\noptions: {e1000e: {InterruptThrottleRate: 3}}\n", "-k", "rx")
        assert code == 0, gate.text
        assert gate.came == {"rx": "pass"}, gate.text
    finally:
        gates.close()  # type: ignore[attr-defined]
