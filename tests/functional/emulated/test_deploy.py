"""Builds on a board that really boots them in QEMU: Debian kernels, modules, panics, through labgrid."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.emulated.image import kernel_package
from pytest_pinet.errors import BuildError, LabError
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.build import Build
from pytest_pinet.model.tuning import SettingOutcome, Tuning
from pytest_pinet.tuning import boot_settings
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import SettingPlace
from tests.support.changed_node import change_node
from tests.support.emulated_gate import NEEDS, emulated_session

pytestmark = [pytest.mark.emulated, *NEEDS]
NODE = "virt-1"
# Another release with other options. The known-good build's modules do not fit.
OTHER_KERNEL = "linux-image-rt-arm64"
KNOWN_GOOD = "console=ttyAMA0,115200 root=/dev/vda2 rootfstype=ext4 rootwait"
# No initramfs, and a root file system that the kernel does not wait for: a panic, then a boot without a request.
PANIC = "rdinit=/nope root=mtd0 panic=2"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabAccess]:
    with emulated_session(tmp_path_factory.mktemp("deploy")) as session:
        yield session


@pytest.fixture
def node(lab: LabAccess) -> Iterator[NodeSession]:
    """Yield a board that runs its known-good build. Afterwards it must run it again, without another build on it."""
    (session,) = lab.pool.get([lab.lab.nodes[NODE]], 60.0)
    yield session
    # Check whether it still runs a build that is no longer installed.
    assert not session.deployment.take_back()
    assert lab.take_warnings() == []


def of_yaml(folder: Path, text: str) -> Build:
    (folder / "build.yaml").write_text(text)
    return load_build(str(folder / "build.yaml"))


@pytest.mark.slow
def test_another_debian_kernel_is_booted_and_removed(node: NodeSession) -> None:
    build = load_build(str(kernel_package(OTHER_KERNEL, lambda _: None)))
    deployment = node.deployment
    deployment.check(build)
    running = deployment.start(build)
    assert build.kernel is not None
    assert running.version == build.kernel.version
    assert running.build_id in build.kernel.build_ids
    assert running.nics["eth0"]["driver"] == "e1000e"
    back = deployment.start(None)
    assert back.marker is None
    assert back.cmdline == KNOWN_GOOD
    assert not deployment.take_back()
    assert "pytest-pinet" not in node.shell.run("ls /boot/firmware /lib/modules /var/lib").stdout


@pytest.mark.slow
def test_a_single_module_is_replaced_without_a_boot(node: NodeSession, tmp_path: Path) -> None:
    path = node.shell.run("modinfo -n e1000e").stdout.strip()
    data = subprocess.run([*node.shell.argv, f"cat {path}"], capture_output=True, check=True, timeout=60).stdout
    (tmp_path / Path(path).name).write_bytes(data)
    build = load_build(str(tmp_path / Path(path).name))
    before = node.shell.run("cat /proc/sys/kernel/random/boot_id").stdout
    node.deployment.check(build)
    running = node.deployment.start(build)
    assert running.modules["e1000e"].build_id == build.modules["e1000e"].build_id
    assert node.shell.run("cat /proc/sys/kernel/random/boot_id").stdout == before
    assert node.shell.run("test -e /sys/class/net/eth0").returncode == 0
    node.deployment.start(None)


@pytest.mark.smoke
def test_a_kernel_that_panics_and_boots_by_itself_is_a_finding(node: NodeSession, tmp_path: Path) -> None:
    build = of_yaml(tmp_path, f"name: broken\ncmdline: {PANIC}\n")
    node.deployment.check(build)
    with pytest.raises(BuildError, match="broken does not come up on virt-1, but the known-good build does") as told:
        node.deployment.start(build)
    assert told.value.kind == "panic"
    assert "Kernel panic" in told.value.excerpt
    assert node.shell.run("cat /proc/cmdline").stdout.strip() == KNOWN_GOOD


def known_good_files(node: NodeSession) -> str:
    """Return hashes and times of the files that every plain boot uses."""
    return node.shell.run("cd /boot/firmware && sha256sum c*.txt k* i* && ls -l --full-time c*.txt k* i*").stdout


def power_cycles(node: NodeSession) -> int:
    assert node.record is not None
    return node.record.tail(2000).count("power off")


@pytest.mark.slow
def test_a_board_that_hangs_with_a_tuning_is_healed_by_one_power_cycle(node: NodeSession) -> None:
    # Too little memory for the kernel itself: it hangs before it has a console.
    parameter, why = "mem=16M", "virt-1 does not answer on its serial console"
    files, before = known_good_files(node), power_cycles(node)
    change_node(node, boot_timeout_s=120.0)
    tuning = read_tuning({"arm_freq": 3000, "kernel": parameter})
    with pytest.raises(LabError) as caught:
        node.boot_with(tuning)
    assert caught.value.message.startswith(
        f"the known-good build with arm_freq=3000+kernel={parameter} does not come up on virt-1, but the known-good "
        f"build does: {why}"
    )
    assert power_cycles(node) == before + 1
    assert node.shell.run("cat /proc/cmdline").stdout.strip() == KNOWN_GOOD
    assert known_good_files(node) == files
    assert not node.boot_tuning
    assert not node.reset_due
    assert not node.deployment.take_back()
    assert "pytest-pinet" not in node.shell.run("ls /boot/firmware").stdout


@pytest.mark.slow
def test_a_boot_tuning_holds_for_one_boot_and_is_undone_by_an_ordinary_reboot(node: NodeSession) -> None:
    files, before = known_good_files(node), power_cycles(node)
    tuning = read_tuning({"arm_freq": 2000, "over_voltage": 6, "kernel": "threadirqs"})
    place = SettingPlace(node.shell, "eth0", "virt-1:pcie", "virt-1")
    read = boot_settings.found(place, tuning)
    node.boot_with(tuning)
    place = replace(place, shell=node.shell)
    outcomes = {one.name: (one.outcome, one.found) for one in boot_settings.read_back(place, tuning, read)}
    assert outcomes == {
        "arm_freq": (SettingOutcome.APPLIED, "2000"),
        "over_voltage": (SettingOutcome.APPLIED, "6"),
        "kernel": (SettingOutcome.APPLIED, "threadirqs"),
    }
    assert known_good_files(node) == files
    node.boot_with(Tuning())
    assert node.shell.run("cat /proc/cmdline").stdout.strip() == KNOWN_GOOD
    assert node.shell.run("vcgencmd get_config arm_freq").stdout == "arm_freq is unknown\n"
    assert power_cycles(node) == before
    assert known_good_files(node) == files


@pytest.mark.slow
def test_the_device_tree_of_a_build_is_found_in_the_running_one(lab: LabAccess, tmp_path: Path) -> None:
    # The firmware of raspi3b loads a device tree from the card, and QEMU edits it.
    (pi,) = lab.pool.get([lab.lab.nodes["raspi3b"]], 300.0)
    name, old, new = "bcm2837-rpi-3-b.dtb", b"usb424,ec00", b"usb424,ec0f"
    data = pi.shell.fetch(f"cat /boot/firmware/{name}", 60.0)
    assert data.count(old) == 1
    (tmp_path / name).write_bytes(data.replace(old, new))
    running = pi.deployment.start(of_yaml(tmp_path, f"name: tree\ndevice_trees: {name}\n"))
    assert running.release == pi.shell.run("uname -r").stdout.strip()
    (left_out,) = running.not_proved or ("",)
    assert left_out == "" or left_out.startswith(f"device tree {name}: ")
    assert new in pi.shell.fetch("cat /sys/firmware/fdt", 60.0)
    # As if the firmware had used the known-good tree.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / name).write_bytes(data.replace(old, b"usb424,ec0e"))
    other = of_yaml(tmp_path / "other", f"name: other\ndevice_trees: {name}\n")
    assert pi.deployment._booted is not None
    found = pi.deployment._booted.compare_trees(other)
    assert "compatible of " in found.difference
    assert '"usb424,ec0f", expected "usb424,ec0e"' in found.difference
    pi.deployment.start(None)
    pi.deployment.take_back()
