"""A driver that a kernel in QEMU loads from the initramfs gets its firmware from the build, before the root is mounted.

The driver e100 requests microcode when its NIC, a 82551, is brought up. Without this file, the NIC stays down.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from tests.support.emulated_gate import NEEDS, emulated_session

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
NODE = "virt-1"
NAME = "e100/d102e_ucode.bin"
# 134 words, and three offsets in them (drivers/net/ethernet/intel/e100.c). QEMU accepts any microcode.
MICROCODE = bytes(134 * 4 + 3)
UP = "initramfs: the NIC of e100 is up"
# As in an initramfs for a root file system on NFS.
BRING_UP = f"""\
busybox modprobe e100
for nic in /sys/class/net/*; do
    case $(busybox readlink -f $nic/device/driver) in */e100) ;; *) continue ;; esac
    busybox ip link set ${{nic##*/}} up && echo "{UP}"
    busybox ip link set ${{nic##*/}} down
done
"""
# The board's tool makes an initramfs with the module. A second archive with another init is appended.
MAKE = """\
set -e
mkdir -p /root/early/conf /root/early/new
cd /root/early
echo e100 > conf/modules
mkinitramfs -o initrd -d conf
cat > new/init && chmod 755 new/init
(cd new && echo init | busybox cpio -o -H newc) >> initrd
"""


def with_e100(text: str) -> str:
    """Return the lab file with a 82551 as the first NIC of the board, which has the wall clock: it boots faster."""
    nic = '    i82551: {title: "Intel 82551 as QEMU emulates it", driver: e100, bus: pcie3x1, speeds_mbps: [100]}\n'
    return (
        text.replace("    veth: {title:", f"{nic}    veth: {{title:")
        .replace("pcie: {nic: e1000e, port: sw1/p1}", "pcie: {nic: i82551, port: sw1/p1}")
        .replace("      clock: virtual\n", "", 1)
    )


def own_init() -> str:
    """Return the init of emulated boards, which also brings the NIC up before it mounts the root file system."""
    text = resources.files("pytest_pinet.emulated").joinpath("guest", "initramfs-init").read_text()
    before = "tries=0\n"
    assert text.count(before) == 1
    return text.replace(before, BRING_UP + before)


def test_a_driver_in_the_initramfs_loads_the_firmware_of_the_build(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with emulated_session(tmp_path_factory.mktemp("firmware"), with_e100) as lab:
        (node,) = lab.pool.get([lab.lab.nodes[NODE]], 60.0)
        (tmp_path / "init").write_text(own_init())
        with (tmp_path / "init").open("rb") as source:
            made = node.shell.feed(MAKE, source, 120.0)
        assert made.returncode == 0, made.stderr
        (tmp_path / "initrd").write_bytes(node.shell.fetch("cat /root/early/initrd && rm -r /root/early", 120.0))
        (tmp_path / "microcode").write_bytes(MICROCODE)
        (tmp_path / "build.yaml").write_text(f"name: microcode\ninitramfs: initrd\nfirmware: {{{NAME}: microcode}}\n")
        build = load_build(str(tmp_path / "build.yaml"))
        node.deployment.check(build)
        assert node.record is not None
        before = node.record.number
        running = node.deployment.start(build)
        lines = [line.text for line in node.record.lines_since(before)]
        # The board boots the copy of its known-good files, the known-good build, and then this build.
        begin = max(
            number for number, text in enumerate(lines) if f"firmware: tryboot.txt: pytest-pinet/{build.key}/" in text
        )
        end = max(number for number, text in enumerate(lines) if "EXT4-fs (vda2): mounted" in text)
        early = lines[begin:end]
        assert any(f"firmware: direct-loading firmware {NAME}" in text for text in early), "\n".join(lines)
        assert any(UP in text for text in early)
        assert running.not_proved == (
            "initramfs initrd: the board does not say which file it loaded",
            f"driver firmware {NAME}: a driver reports at most a version (ethtool -i)",
        )
